//! Work done per interval: what steady state, warm-up and write-back stalls are seen in.

use fsdyno_spec::units::Seconds;
use fsdyno_spec::workload::Series;

/// Length of an interval at first.
pub(crate) const INTERVAL_NS: u64 = 100_000_000;

/// At most so many intervals are kept; beyond them two become one, twice as long.
const MOST: usize = 1200;

/// A series while it grows.
#[derive(Debug)]
pub(crate) struct Sampler {
    interval: u64,
    operations: Vec<u64>,
    bytes: Vec<u64>,
    seen: (u64, u64),
}

impl Sampler {
    pub(crate) fn new() -> Self {
        Self {
            interval: INTERVAL_NS,
            operations: Vec::with_capacity(MOST),
            bytes: Vec::with_capacity(MOST),
            seen: (0, 0),
        }
    }

    /// When the next sample is due, ns since the start.
    pub(crate) fn due(&self) -> u64 {
        (self.operations.len() as u64 + 1) * self.interval
    }

    /// Takes the totals at `now` (ns since the start). A sample that comes late is spread evenly
    /// over the intervals that it covers.
    pub(crate) fn take(&mut self, now: u64, totals: (u64, u64)) {
        let covered = (now / self.interval).saturating_sub(self.operations.len() as u64);
        let (operations, bytes) = (totals.0 - self.seen.0, totals.1 - self.seen.1);
        for part in 1..=covered {
            let slice = |total: u64| total * part / covered - total * (part - 1) / covered;
            self.push(slice(operations), slice(bytes));
        }
        if covered > 0 {
            self.seen = totals;
            self.coarsen();
        }
    }

    /// Ends the series. What was done since the last sample makes a last, shorter interval.
    pub(crate) fn end(mut self, totals: (u64, u64)) -> Series {
        if totals != self.seen {
            self.push(totals.0 - self.seen.0, totals.1 - self.seen.1);
        }
        Series {
            interval: Seconds(self.interval as f64 / 1e9),
            operations: self.operations,
            bytes: self.bytes,
        }
    }

    fn push(&mut self, operations: u64, bytes: u64) {
        self.operations.push(operations);
        self.bytes.push(bytes);
    }

    fn coarsen(&mut self) {
        while self.operations.len() >= MOST && self.operations.len().is_multiple_of(2) {
            for list in [&mut self.operations, &mut self.bytes] {
                *list = list.chunks(2).map(|pair| pair.iter().sum()).collect();
            }
            self.interval *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_adds_up_to_the_work_done() {
        let mut sampler = Sampler::new();
        let mut done = 0;
        for turn in 1..=5000u64 {
            done += turn % 7;
            sampler.take(turn * INTERVAL_NS + turn % 13, (done, done * 4096));
        }
        let series = sampler.end((done + 1, (done + 1) * 4096));
        assert!(series.operations.len() <= MOST + 1);
        assert_eq!(series.operations.iter().sum::<u64>(), done + 1);
        assert_eq!(series.bytes.iter().sum::<u64>(), (done + 1) * 4096);
        assert_eq!(series.interval, Seconds(0.8));
    }

    #[test]
    fn a_late_sample_is_spread_over_what_it_covers() {
        let mut sampler = Sampler::new();
        sampler.take(INTERVAL_NS, (10, 0));
        assert_eq!(sampler.due(), 2 * INTERVAL_NS);
        sampler.take(4 * INTERVAL_NS + 5, (40, 0));
        assert_eq!(sampler.end((40, 0)).operations, vec![10, 10, 10, 10]);
    }

    #[test]
    fn a_short_phase_has_one_interval() {
        assert_eq!(Sampler::new().end((3, 6)).operations, vec![3]);
        assert_eq!(Sampler::new().end((0, 0)).operations, Vec::<u64>::new());
    }
}

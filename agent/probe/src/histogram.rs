//! Latency distributions while they grow: the wire's bins as a flat array, one per kind of
//! operation and thread, merged after the clock has stopped.

use fsdyno_spec::histogram::{BINS, Histogram, bin_of};

/// Counts of latencies in nanoseconds. About 15 KiB, of which a load touches a few cache lines.
#[derive(Clone, Debug)]
pub struct Recorder {
    bins: Box<[u64; BINS]>,
    sum: u64,
    min: u64,
    max: u64,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Recorder {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self { bins: Box::new([0; BINS]), sum: 0, min: u64::MAX, max: 0 }
    }

    /// Counts one latency, ns.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.bins[bin_of(ns)] += 1;
        self.sum = self.sum.wrapping_add(ns);
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    /// Adds the counts of another.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.bins.iter_mut().zip(other.bins.iter()) {
            *mine += theirs;
        }
        self.sum = self.sum.wrapping_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Number of latencies counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.bins.iter().sum()
    }

    /// Their sum, ns.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// As it travels.
    #[must_use]
    pub fn wire(&self) -> Histogram {
        let bins: Vec<(u32, u64)> = (0u32..).zip(self.bins.iter().copied()).filter(|b| b.1 > 0).collect();
        let count = self.count();
        Histogram { count, sum: self.sum, min: if count == 0 { 0 } else { self.min }, max: self.max, bins }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_spec::histogram::lower_edge;

    #[test]
    fn what_travels_is_what_was_recorded() {
        let mut recorder = Recorder::new();
        for ns in [100, 100, 5_000, 1_000_000] {
            recorder.record(ns);
        }
        let wire = recorder.wire();
        assert_eq!((wire.count, wire.sum, wire.min, wire.max), (4, 1_005_200, 100, 1_000_000));
        assert_eq!(wire.bins, vec![(100, 2), (bin_of(5_000) as u32, 1), (bin_of(1_000_000) as u32, 1)]);
    }

    #[test]
    fn an_empty_one_has_no_smallest_value() {
        assert_eq!(Recorder::new().wire(), Histogram::default());
    }

    #[test]
    fn merging_is_recording_in_one_place() {
        let (mut left, mut right, mut both) = (Recorder::new(), Recorder::new(), Recorder::new());
        let mut value = 1u64;
        for turn in 0..10_000u64 {
            value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(turn);
            let ns = value >> (turn % 60);
            if turn % 3 == 0 {
                left.record(ns)
            } else {
                right.record(ns)
            }
            both.record(ns);
        }
        left.merge(&right);
        assert_eq!(left.wire(), both.wire());
    }

    #[test]
    fn a_wait_beyond_the_last_bin_is_still_counted_and_its_length_kept() {
        let mut recorder = Recorder::new();
        recorder.record(lower_edge(BINS - 1) * 100);
        assert_eq!(recorder.wire().bins, vec![((BINS - 1) as u32, 1)]);
        assert_eq!(recorder.wire().max, lower_edge(BINS - 1) * 100);
    }
}

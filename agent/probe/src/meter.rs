//! The engine's whole bookkeeping around an operation, in one place: so that what is calibrated is
//! exactly what runs.
//!
//! One clock read per operation: in a closed loop the next operation begins where the last one
//! ended, so the latencies of a thread add up to its time, and what the engine does between two
//! system calls (a name, an offset, a record's content) counts as part of the operation. That part
//! is known from the calibration and is printed as the tool's cost.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::Clock;
use crate::histogram::Recorder;

/// What one worker has done so far, for the eyes of the sampler. Two cache lines of its own (the
/// processor fetches lines in pairs), so that no worker slows another one.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Published {
    operations: AtomicU64,
    bytes: AtomicU64,
}

impl Published {
    /// Operations and bytes so far.
    #[must_use]
    pub fn read(&self) -> (u64, u64) {
        (self.operations.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// Times the operations of one worker.
#[derive(Debug)]
pub struct Meter<'a> {
    clock: Clock,
    published: &'a Published,
    operations: u64,
    bytes: u64,
    start: u64,
    last: u64,
}

impl<'a> Meter<'a> {
    /// Starts the worker's clock.
    #[must_use]
    pub fn start(published: &'a Published) -> Self {
        let clock = *Clock::get();
        let now = clock.now();
        Self { clock, published, operations: 0, bytes: 0, start: now, last: now }
    }

    /// Ends an operation that began where the last one ended: times it, counts it, publishes it.
    /// Returns the moment, ns.
    #[inline]
    pub fn lap(&mut self, recorder: &mut Recorder, bytes: u64) -> u64 {
        let now = self.clock.now();
        recorder.record(now.saturating_sub(self.last));
        self.last = now;
        self.count(bytes);
        now
    }

    /// Ends a part of an operation, which is returned (ns) and not yet counted.
    #[inline]
    pub fn split(&mut self) -> u64 {
        let now = self.clock.now();
        let passed = now.saturating_sub(self.last);
        self.last = now;
        passed
    }

    /// Counts an operation that was timed elsewhere.
    #[inline]
    pub fn count(&mut self, bytes: u64) {
        self.operations += 1;
        self.bytes += bytes;
        // Plain stores: each counter has one writer, so no read-modify-write is needed.
        self.published.operations.store(self.operations, Ordering::Relaxed);
        self.published.bytes.store(self.bytes, Ordering::Relaxed);
    }

    /// The current time, ns, without ending anything.
    #[inline]
    #[must_use]
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// The end of the last operation, ns.
    #[inline]
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The next operation begins now: what happened since the last one belongs to none.
    pub fn skip(&mut self) {
        self.last = self.clock.now();
    }

    /// When it was started, ns.
    #[must_use]
    pub fn started(&self) -> u64 {
        self.start
    }

    /// Operations counted.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.operations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latencies_of_a_closed_loop_add_up_to_its_time() {
        let (published, mut recorder) = (Published::default(), Recorder::new());
        let mut meter = Meter::start(&published);
        for _ in 0..1000 {
            meter.lap(&mut recorder, 7);
        }
        assert_eq!(recorder.sum(), meter.last() - meter.started());
        assert_eq!(published.read(), (1000, 7000));
    }

    #[test]
    fn skipped_time_belongs_to_no_operation() {
        let (published, mut recorder) = (Published::default(), Recorder::new());
        let mut meter = Meter::start(&published);
        std::thread::sleep(std::time::Duration::from_millis(20));
        meter.skip();
        meter.lap(&mut recorder, 0);
        assert!(recorder.sum() < meter.last() - meter.started() - 19_000_000);
    }
}

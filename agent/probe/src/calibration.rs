//! What measuring costs here: measured at each start, sent with `hello`, printed beside results.
//! A tool that does not know its own cost cannot say that it is small.

use std::hint::black_box;

use fsdyno_spec::event::Calibration;

use crate::clock::{Clock, monotonic_ns};
use crate::histogram::Recorder;
use crate::meter::{Meter, Published};

/// Each cost is the best of this many batches: an interrupt makes a batch slower, nothing makes it
/// faster.
const BATCHES: usize = 5;

/// Calls per batch; with a hundred nanoseconds each, all batches of all costs take about 1 ms.
const CALLS: u32 = 500;

/// Measures what measuring costs: at most 3 ms, plus the clock's own calibration on first use.
#[must_use]
pub fn calibrate() -> Calibration {
    let clock = Clock::get();
    let clock_ns = best(|| {
        black_box(clock.now());
    });
    let (published, mut recorder) = (Published::default(), Recorder::new());
    let mut meter = Meter::start(&published);
    let operation_ns = best(|| {
        black_box(meter.lap(black_box(&mut recorder), 1));
    });
    let syscall_ns = best(|| {
        black_box(rustix::process::getppid());
    });
    Calibration { clock: clock.source().into(), clock_ns, operation_ns, syscall_ns }
}

/// Nanoseconds per call, loop included: best of some batches.
fn best(mut call: impl FnMut()) -> f64 {
    let batch = |_| {
        let start = monotonic_ns();
        for _ in 0..CALLS {
            call();
        }
        (monotonic_ns() - start) as f64 / f64::from(CALLS)
    };
    (0..BATCHES).map(batch).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_costs_at_least_its_clock_read() {
        // On a busy machine one of the two may be disturbed in every batch; not every time.
        let found: Vec<Calibration> = (0..20).map(|_| calibrate()).collect();
        assert!(found.iter().all(|c| c.clock_ns > 0.0 && c.syscall_ns > 0.0));
        assert!(found.iter().any(|c| c.operation_ns > c.clock_ns), "{found:?}");
        assert!(found.iter().all(|c| c.clock == Clock::get().source()));
    }
}

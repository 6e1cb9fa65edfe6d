//! Clocks. A latency of a microsecond must not cost a tenth of it to take, so operations are timed
//! by the processor's own counter where it can be trusted, and by the kernel's clock elsewhere.

use std::sync::OnceLock;

use rustix::time::{ClockId, clock_gettime};

/// Calibration counts ticks against the kernel's clock over this time, twice.
const WINDOW_NS: u64 = 1_000_000;

/// The two windows must agree this well, else the counter is not steady. A clock read is known to
/// about 100 ns on a busy virtual machine, which is one part in 10,000 of a window.
const AGREEMENT: f64 = 1e-3;

/// A counter outside of these rates (Hz) is not what this code thinks it is.
const PLAUSIBLE_HZ: std::ops::Range<f64> = 1e8..1e10;

/// `CLOCK_MONOTONIC` in nanoseconds: the clock of events and of phases.
#[must_use]
pub fn monotonic_ns() -> u64 {
    read(ClockId::Monotonic)
}

#[inline]
fn read(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The clock of single operations. Its zero is arbitrary: only differences mean something.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Nanoseconds per tick, times 2^32; 0 where the kernel's clock serves.
    scale: u64,
    /// Ticks at calibration, so that the product stays small.
    origin: u64,
}

impl Clock {
    /// The clock of this process; the first call calibrates it (about 2 ms).
    pub fn get() -> &'static Self {
        static CLOCK: OnceLock<Clock> = OnceLock::new();
        CLOCK.get_or_init(|| Self::by_counter().unwrap_or(Self::by_kernel()))
    }

    /// Nanoseconds since an arbitrary moment.
    #[inline]
    #[must_use]
    pub fn now(&self) -> u64 {
        if self.scale == 0 {
            return read(ClockId::Monotonic);
        }
        let passed = ticks().wrapping_sub(self.origin);
        ((u128::from(passed) * u128::from(self.scale)) >> 32) as u64
    }

    /// `tsc` or `clock_gettime`.
    #[must_use]
    pub fn source(&self) -> &'static str {
        if self.scale == 0 { "clock_gettime" } else { "tsc" }
    }

    fn by_kernel() -> Self {
        Self { scale: 0, origin: 0 }
    }

    fn by_counter() -> Option<Self> {
        if !counter_is_steady(&std::fs::read_to_string("/proc/cpuinfo").ok()?) {
            return None;
        }
        let first = pair();
        let after = |ns: u64| {
            while read(ClockId::MonotonicRaw) - first.1 < ns {
                std::hint::spin_loop();
            }
            pair()
        };
        let (second, third) = (after(WINDOW_NS), after(2 * WINDOW_NS));
        let rate = |a: (u64, u64), b: (u64, u64)| b.0.checked_sub(a.0).map(|t| t as f64 / (b.1 - a.1) as f64);
        let (half, other, whole) = (rate(first, second)?, rate(second, third)?, rate(first, third)?);
        let steady = (half / other - 1.0).abs() < AGREEMENT && PLAUSIBLE_HZ.contains(&(whole * 1e9));
        steady.then(|| Self { scale: ((1u64 << 32) as f64 / whole) as u64, origin: first.0 })
    }
}

/// Ticks and kernel time (ns) of one moment: the tightest of a few tries, so that an interrupt
/// between the two reads does not count.
fn pair() -> (u64, u64) {
    let tries = (0..8).map(|_| {
        let before = ticks();
        let kernel = read(ClockId::MonotonicRaw);
        let after = ticks();
        (after.wrapping_sub(before), before.wrapping_add(after.wrapping_sub(before) / 2), kernel)
    });
    let best = tries.min_by_key(|t| t.0).unwrap_or_default();
    (best.1, best.2)
}

/// Whether `/proc/cpuinfo` says that the counter ticks at one rate (`constant_tsc`) and does not
/// stop when the processor sleeps (`nonstop_tsc`), on every processor.
fn counter_is_steady(cpuinfo: &str) -> bool {
    let mut flags = cpuinfo.lines().filter(|line| line.starts_with("flags")).peekable();
    let steady = |line: &str| {
        let has = |flag| line.split_ascii_whitespace().any(|word| word == flag);
        has("constant_tsc") && has("nonstop_tsc")
    };
    cfg!(target_arch = "x86_64") && flags.peek().is_some() && flags.all(steady)
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn ticks() -> u64 {
    // SAFETY: RDTSC exists on every x86-64 processor; where the kernel forbids it to user space,
    // `/proc/cpuinfo` does not list it as steady and this is never called.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn ticks() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_same_time_as_the_kernel() {
        let clock = Clock::get();
        let ratio = || {
            let (ours, kernels) = (clock.now(), read(ClockId::MonotonicRaw));
            std::thread::sleep(std::time::Duration::from_millis(20));
            (clock.now() - ours) as f64 / (read(ClockId::MonotonicRaw) - kernels) as f64
        };
        // On a busy machine the thread may wait between the two reads; not every time.
        let ratios: Vec<f64> = (0..10).map(|_| ratio()).collect();
        assert!(ratios.iter().any(|r| (r - 1.0).abs() < 0.002), "{}: {ratios:?}", clock.source());
    }

    #[test]
    fn never_runs_backwards() {
        for clock in [*Clock::get(), Clock::by_kernel()] {
            let mut last = clock.now();
            for _ in 0..100_000 {
                let now = clock.now();
                assert!(now >= last);
                last = now;
            }
        }
    }

    #[test]
    fn one_unsteady_processor_is_enough_to_distrust_the_counter() {
        let good = "flags\t\t: fpu tsc constant_tsc nonstop_tsc\n";
        let bad = "flags\t\t: fpu tsc constant_tsc\n";
        assert_eq!(counter_is_steady(good), cfg!(target_arch = "x86_64"));
        assert!(!counter_is_steady(&format!("{good}{bad}")));
        assert!(!counter_is_steady("processor : 0\n"));
    }
}

//! Looking without touching: clocks, histograms, what measuring costs, the kernel's counters, its
//! log, and facts of the host. Nothing here changes the machine, and nothing here judges a
//! workload; [`doubts`] alone draws conclusions, and those only about disturbance.

pub mod calibration;
pub mod clock;
pub mod counters;
pub mod doubts;
pub mod histogram;
pub mod host;
pub mod kernel_log;
pub mod meter;
pub mod space;
pub mod timers;

//! What the kernel counted while something ran: the proof that work was done, and the sign that
//! somebody else was at work too.

mod device;
mod host;

use std::io;

use fsdyno_spec::event::{CpuUse, DeviceCounts, HostCounts};
use fsdyno_spec::units::Seconds;

pub use device::{backing_disk, disk_of};

use crate::clock::monotonic_ns;

/// The counters at one moment. Taking one reads a handful of files in `/proc` and `/sys`, which
/// takes well under a millisecond.
#[derive(Clone, Debug)]
pub struct Snapshot {
    at_ns: u64,
    cpu: CpuUse,
    leaves: Vec<DeviceCounts>,
    underneath: Vec<DeviceCounts>,
    host: HostCounts,
}

/// What happened between two snapshots.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delta {
    /// CPU use of this process and its waited-for children.
    pub cpu: CpuUse,
    /// Leaf devices, in the order asked for; one whose counters could not be read is left out.
    pub leaves: Vec<DeviceCounts>,
    /// The disks under backing files, likewise.
    pub underneath: Vec<DeviceCounts>,
    /// The host.
    pub host: HostCounts,
    /// Time between the snapshots, ns.
    pub wall_ns: u64,
}

impl Snapshot {
    /// Reads all counters now; devices by their kernel names (`loop3`, `sda1`).
    #[must_use]
    pub fn take(leaves: &[String], underneath: &[String]) -> Self {
        let counts = |names: &[String]| names.iter().filter_map(|n| device::counts(n)).collect();
        Self {
            at_ns: monotonic_ns(),
            cpu: cpu_use(),
            leaves: counts(leaves),
            underneath: counts(underneath),
            host: host::counts(),
        }
    }

    /// The differences from here to a later snapshot.
    #[must_use]
    pub fn until(&self, later: &Self) -> Delta {
        Delta {
            cpu: CpuUse {
                user: Seconds((later.cpu.user.0 - self.cpu.user.0).max(0.0)),
                system: Seconds((later.cpu.system.0 - self.cpu.system.0).max(0.0)),
                voluntary_switches: later.cpu.voluntary_switches.saturating_sub(self.cpu.voluntary_switches),
                involuntary_switches: later
                    .cpu
                    .involuntary_switches
                    .saturating_sub(self.cpu.involuntary_switches),
            },
            leaves: device::differences(&self.leaves, &later.leaves),
            underneath: device::differences(&self.underneath, &later.underneath),
            host: host::difference(&self.host, &later.host),
            wall_ns: later.at_ns.saturating_sub(self.at_ns),
        }
    }
}

/// `getrusage` of this process (all threads) and its waited-for children, added up.
fn cpu_use() -> CpuUse {
    let mut sum = CpuUse::default();
    for who in [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN] {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is valid for a `rusage`, for which all zeroes is a valid value.
        let usage = unsafe {
            assert_eq!(libc::getrusage(who, usage.as_mut_ptr()), 0, "{}", io::Error::last_os_error());
            usage.assume_init()
        };
        let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
        sum.user.0 += seconds(usage.ru_utime);
        sum.system.0 += seconds(usage.ru_stime);
        sum.voluntary_switches += usage.ru_nvcsw as u64;
        sum.involuntary_switches += usage.ru_nivcsw as u64;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_this_process_is_seen() {
        let before = Snapshot::take(&[], &[]);
        let mut sum = 0u64;
        while cpu_use().user.0 + cpu_use().system.0 < before.cpu.user.0 + before.cpu.system.0 + 0.05 {
            sum = sum.wrapping_add(std::hint::black_box(sum ^ 1));
        }
        let delta = before.until(&Snapshot::take(&[], &[]));
        assert!(delta.cpu.user.0 + delta.cpu.system.0 >= 0.05);
        assert!(delta.host.busy.0 > 0.0);
        assert!(delta.wall_ns > 0);
    }

    #[test]
    fn a_device_that_is_not_there_is_left_out() {
        let names = ["no-such-device".to_string()];
        let before = Snapshot::take(&names, &[]);
        assert_eq!(before.until(&Snapshot::take(&names, &[])).leaves, vec![]);
    }
}

//! What the kernel counted while something ran: the proof that work was done, and the sign that
//! somebody else was at work too.

mod cpu;
mod device;
mod host;

use fsdyno_spec::event::{CpuUse, DeviceCounts, HostCounts};

pub use cpu::{Clock, Took, cpu_use};
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
    /// CPU use of this process, its waited-for children and the living programs beside it.
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
    /// Reads all counters now; devices by their kernel names (`loop3`, `sda1`). `beside`: process ids of
    /// programs that live now and are to be counted too.
    #[must_use]
    pub fn take(leaves: &[String], underneath: &[String], beside: &[u32]) -> Self {
        let counts = |names: &[String]| names.iter().filter_map(|n| device::counts(n)).collect();
        Self {
            at_ns: monotonic_ns(),
            cpu: cpu_use(beside),
            leaves: counts(leaves),
            underneath: counts(underneath),
            host: host::counts(),
        }
    }

    /// The differences from here to a later snapshot.
    #[must_use]
    pub fn until(&self, later: &Self) -> Delta {
        Delta {
            cpu: cpu::difference(&self.cpu, &later.cpu),
            leaves: device::differences(&self.leaves, &later.leaves),
            underneath: device::differences(&self.underneath, &later.underneath),
            host: host::difference(&self.host, &later.host),
            wall_ns: later.at_ns.saturating_sub(self.at_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_this_process_is_seen() {
        let before = Snapshot::take(&[], &[], &[]);
        let mut sum = 0u64;
        let now = || cpu_use(&[]).user.0 + cpu_use(&[]).system.0;
        while now() < before.cpu.user.0 + before.cpu.system.0 + 0.05 {
            sum = sum.wrapping_add(std::hint::black_box(sum ^ 1));
        }
        let delta = before.until(&Snapshot::take(&[], &[], &[]));
        assert!(delta.cpu.user.0 + delta.cpu.system.0 >= 0.05);
        assert!(delta.host.busy.0 > 0.0);
        assert!(delta.wall_ns > 0);
    }

    #[test]
    fn a_device_that_is_not_there_is_left_out() {
        let names = ["no-such-device".to_string()];
        let before = Snapshot::take(&names, &[], &[]);
        assert_eq!(before.until(&Snapshot::take(&names, &[], &[])).leaves, vec![]);
    }
}

//! Whether a file system that stands sends flushes to its device. A row without them is fast for a reason
//! that must be said, whichever of many ways turned them off: what was asked for does not tell, but what
//! the kernel shows of the mount and of the queue does.

use crate::filesystem::FileSystem;
use crate::options::Options;
use crate::verify::Shown;

/// How barriers are turned off. One idea with two means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarrierOff {
    /// By a mount option: mountinfo shows one of these words then.
    MountOption(&'static [&'static str]),
    /// By `queue/write_cache` = `write through` on the device that the file system sees.
    Queue,
}

impl BarrierOff {
    /// `mount option` or `queue`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::MountOption(_) => "mount option",
            Self::Queue => "queue",
        }
    }
}

/// Whether an fsync reaches the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barriers {
    /// It ends with a flush.
    On,
    /// They were turned off, at the mount or at the queue.
    Off,
    /// The file system has none.
    None,
}

impl Barriers {
    /// `on`, `off` or `none`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
            Self::None => "none",
        }
    }
}

impl FileSystem {
    /// Whether the stack must turn the device's announced cache off for these options.
    #[must_use]
    pub fn wants_write_through(&self, options: &Options) -> bool {
        self.barrier_off == Some(BarrierOff::Queue) && options.flag("barrier") == Some(false)
    }

    /// What barriers a mount has that mountinfo shows with these options (field 11 and field 6), on a
    /// device whose queue is `write through` or not: to such a one the kernel sends no flush.
    #[must_use]
    pub fn barriers(&self, super_options: &str, mount_options: &str, write_through: bool) -> Barriers {
        let shown = Shown::new(super_options, mount_options);
        let off = match self.barrier_off {
            Some(BarrierOff::MountOption(words)) => words.iter().any(|word| shown.has(word)),
            Some(BarrierOff::Queue) | None => false,
        };
        match self.disk {
            Some(_) if self.flushes => {
                if off || write_through {
                    Barriers::Off
                } else {
                    Barriers::On
                }
            }
            _ => Barriers::None,
        }
    }
}

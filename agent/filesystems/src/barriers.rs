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
    MountOption(&'static [Off]),
    /// By `queue/write_cache` = `write through` on the device that the file system sees. Older kernels had
    /// these words.
    Queue(&'static [Off]),
}

/// A word that mountinfo shows where barriers are off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Off {
    /// The word.
    pub shown: &'static str,
    /// Option of a remount that turns them on again; none if only a fresh mount without the word does.
    pub back: Option<&'static str>,
}

impl BarrierOff {
    /// `mount option` or `queue`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::MountOption(_) => "mount option",
            Self::Queue(_) => "queue",
        }
    }

    /// Words that mountinfo shows where they are off.
    #[must_use]
    pub fn words(self) -> &'static [Off] {
        let (Self::MountOption(words) | Self::Queue(words)) = self;
        words
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
        matches!(self.barrier_off, Some(BarrierOff::Queue(_))) && options.flag("barrier") == Some(false)
    }

    /// What barriers a mount has that mountinfo shows with these options (field 11 and field 6), on a
    /// device whose queue is `write through` or not: to such a one the kernel sends no flush.
    #[must_use]
    pub fn barriers(&self, super_options: &str, mount_options: &str, write_through: bool) -> Barriers {
        let shown = Shown::new(super_options, mount_options);
        let off = self.off_words().iter().any(|word| shown.has(word.shown));
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

    pub(crate) fn off_words(&self) -> &'static [Off] {
        self.barrier_off.map_or(&[], BarrierOff::words)
    }

    /// Whether a mount with these options orders its writes by flushes, as far as the file system decides it;
    /// its device's queue is not asked. None where there is no device.
    #[must_use]
    pub fn ordered(&self, shown: &[String]) -> Option<fsdyno_spec::record::Barriers> {
        self.disk.as_ref()?;
        let off_by = match self.off_words().iter().find(|word| shown.iter().any(|has| has == word.shown)) {
            _ if !self.flushes => Some(format!("{} never sends a flush to its device", self.name)),
            found => found.map(|word| word.shown.to_string()),
        };
        Some(fsdyno_spec::record::Barriers { on: off_by.is_none(), off_by })
    }
}

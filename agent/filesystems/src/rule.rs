//! How an option is asked for, and how it is seen to have been taken: one rule each, so that a file
//! system's table says both in one place.

use crate::extra::MkfsFlag;

/// A mount parameter: a key, and a value unless it is a flag.
pub type Param = (&'static str, Option<&'static str>);

/// One of several words of an option, and the mount parameter that asks for it.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// As in a plan.
    pub value: &'static str,
    /// Asks for it.
    pub param: Param,
    /// The word that mountinfo shows for it; none if it shows none of the others' words.
    pub shown: Option<&'static str>,
}

/// A feature that mkfs can turn on or off.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    /// As mkfs and a plan write it; with `^` before it: off.
    pub name: &'static str,
    /// As the superblock's fact `features` has it.
    pub fact: &'static str,
    /// The flag of mkfs whose list takes it.
    pub flag: &'static str,
}

/// How an option is asked for, and how it is seen to have been taken.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    /// A flag of mkfs with the value as next argument: `-i 8192`.
    MkfsWord(&'static str),
    /// A member of a comma-separated list of mkfs: `-E stride=16`.
    MkfsGroup(&'static str, &'static str),
    /// The same for yes and no, as 1 and 0: `-m rmapbt=1`.
    MkfsSwitch(&'static str, &'static str),
    /// A feature of mkfs, on or off: `-O has_journal`, `-O ^has_journal`.
    MkfsFeature(&'static str, &'static str),
    /// A list of these features, each on or (`^`) off.
    MkfsFeatures(&'static [Feature]),
    /// A mkfs option that the file system's own code spells.
    MkfsOwn,
    /// What mkfs is told of the array below ([`crate::Told`]): whoever builds the stack resolves it.
    Geometry,
    /// More arguments for mkfs: of these flags.
    MkfsExtra(&'static [MkfsFlag]),
    /// A mount parameter with a value. The kernel may stay silent about its default.
    MountValue {
        /// The key.
        key: &'static str,
        /// The value that the kernel has if it shows none.
        silent: Option<&'static str>,
    },
    /// A mount parameter with a value that the kernel shows only where it differs from a default that
    /// depends on the machine: another value is an error, silence is none.
    MountQuiet(&'static str),
    /// A mount parameter that turns a flag into the opposite of its default. Not given for the
    /// default, which is proved where a plan states it, and for barriers always.
    MountSwitch {
        /// Asks for the opposite of the default.
        param: Param,
        /// Words of which mountinfo shows one if, and only if, the default does not hold.
        shown: &'static [&'static str],
    },
    /// A mount parameter for each word.
    MountChoice(&'static [Choice]),
    /// An attribute of the mount (`MOUNT_ATTR_*`), shown under the same word.
    Attribute(&'static str),
    /// A mount option that the file system's own code spells, mostly for a program beside it: told by the
    /// recorded command line, not by the kernel.
    MountOwn,
    /// Not a mount option (any more): the stack sets `queue/write_cache`.
    Queue,
    /// More mount parameters and attributes.
    MountExtra,
    /// A flag of the check with the value as next argument, as the recorded command line tells:
    /// `--mode lowmem`, `-o ag_stride=4`.
    CheckValue {
        /// The flag.
        flag: &'static str,
        /// What comes before the value in its word: `ag_stride=`, or nothing.
        key: &'static str,
        /// Bytes of the tool's unit, for a size, which must be a whole number of them; 1 for anything else.
        unit: u64,
    },
    /// A flag of the check, given for the opposite of the default: `-P`.
    CheckSwitch(&'static str),
}

impl Rule {
    /// `mkfs`, `mount` or `check`.
    #[must_use]
    pub fn stage(&self) -> &'static str {
        match self {
            Self::MkfsWord(_)
            | Self::MkfsGroup(..)
            | Self::MkfsSwitch(..)
            | Self::MkfsFeature(..)
            | Self::MkfsFeatures(_)
            | Self::MkfsOwn
            | Self::Geometry
            | Self::MkfsExtra(_) => "mkfs",
            Self::MountValue { .. }
            | Self::MountQuiet(_)
            | Self::MountSwitch { .. }
            | Self::MountChoice(_)
            | Self::Attribute(_)
            | Self::MountOwn
            | Self::Queue
            | Self::MountExtra => "mount",
            Self::CheckValue { .. } | Self::CheckSwitch(_) => "check",
        }
    }
}

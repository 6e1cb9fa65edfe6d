//! The geometry of an array and what follows from it for everything above: what `align` answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::array::Level;
use crate::units::Bytes;

/// Version of the form of advice.
pub const ADVICE: u32 = 1;

/// What to tell mkfs, LVM and the kernel of an array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Advice {
    /// [`ADVICE`].
    pub fsdyno_align: u32,
    /// The array.
    pub array: KnownArray,
    /// Its numbers; none where nothing is striped (RAID 1, one disk).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbers: Option<Numbers>,
    /// What is to be known before the first command is typed.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// What to do, in the order of doing it.
    pub steps: Vec<Step>,
    /// What else is to be known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The array that an advice is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KnownArray {
    /// Node of the live array; none if it was described by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// RAID level.
    pub level: Level,
    /// Members, without spares.
    pub members: u32,
    /// Bytes on one member before the next one's turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<Bytes>,
    /// Layout, if the level has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
}

/// The numbers that follow, each in the unit of the tool that takes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Numbers {
    /// Bytes of a file-system block that `stride` and `stripe_width` count in.
    pub block_size: Bytes,
    /// Members' worth of data in a stripe.
    pub data_disks: u32,
    /// Bytes of a stripe.
    pub stripe: Bytes,
    /// The chunk in blocks (mke2fs -E stride=).
    pub stride: u64,
    /// The stripe in blocks (mke2fs -E stripe_width=, mount -o stripe=).
    pub stripe_width: u64,
    /// The chunk in bytes (mkfs.xfs -d su=).
    pub su: Bytes,
    /// The stripe in chunks (mkfs.xfs -d sw=).
    pub sw: u32,
    /// The chunk in sectors of 512 bytes (mkfs.xfs -d sunit=, mount -o sunit=).
    pub sunit: u64,
    /// The stripe in sectors of 512 bytes (mkfs.xfs -d swidth=, mount -o swidth=).
    pub swidth: u64,
    /// What the start of a partition is a multiple of: whole stripes and whole MiB. LVM's data needs whole
    /// stripes only.
    pub data_alignment: Bytes,
    /// An extent that is a multiple of the stripe (vgcreate -s).
    pub extent: Bytes,
    /// Read-ahead that keeps all data disks busy (two stripes, as md's own default).
    pub read_ahead: Bytes,
    /// What the kernel announces of such an array: the chunk.
    pub minimum_io_size: Bytes,
    /// What the kernel announces of such an array: the stripe.
    pub optimal_io_size: Bytes,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// What it makes: `partition`, `pvcreate`, `vgcreate`, `lvcreate`, `mkfs`, `mount`, `read_ahead`.
    pub kind: String,
    /// The file system that it is about, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<String>,
    /// The command, ready for a shell.
    pub command: String,
    /// Why, in one line.
    pub why: String,
}

//! A live stack as it stands, from the mount point down to the disks: what `survey --stack` answers.
//!
//! A record is facts only, so that it can be saved, sent to somebody, and audited elsewhere. What could
//! not be read is listed, never guessed. Whatever geometry follows from the facts was computed by the
//! agent that made the record, since the arithmetic is nowhere else.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::outcome::Reason;
use crate::survey::Host;
use crate::units::Bytes;

/// Version of the form of records.
pub const RECORD: u32 = 1;

/// Facts by name; sizes in bytes.
pub type Facts = BTreeMap<String, Value>;

/// A live stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StackRecord {
    /// [`RECORD`].
    pub fsdyno_record: u32,
    /// When it was taken, seconds since 1970.
    pub taken: u64,
    /// What was asked for, if it was a device; else the mount point that the path is on.
    pub target: String,
    /// The host.
    pub host: Host,
    /// Where it is mounted; none if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount: Option<Mounted>,
    /// The file system; none if the device has none that is known here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<FoundFileSystem>,
    /// Block devices, each before those that it lies on. The first one is what the file system is on, or
    /// the device that was asked for.
    pub layers: Vec<StackLayer>,
    /// How the first layer lies on each striped layer below it, the uppermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub striped: Vec<Striped>,
    /// Enabled timers and jobs of this host that may work on disks by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timers: Vec<Timer>,
    /// What could not be read, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<Unseen>,
}

/// A mount.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Mounted {
    /// Where.
    pub point: String,
    /// What was mounted; empty where no device of the host is below, as it may name servers, users, folders.
    pub source: String,
    /// The driver, as it names itself.
    pub fstype: String,
    /// Options of the mount and of the file system as the kernel shows them, without repetitions; where no
    /// device of the host is below, only those without a value.
    pub options: Vec<String>,
    /// Name below /sys/class/bdi of what has the read-ahead of its files: the number of the device
    /// (`major:minor`), or a name of the file system's own.
    pub bdi: String,
    /// Read-ahead of its files; none if it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ahead: Option<Bytes>,
}

/// A file system as its superblock and the kernel describe it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FoundFileSystem {
    /// Its type in the table of `describe`, else the kernel's name.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it is in the table.
    pub known: bool,
    /// Devices that it lies on.
    pub on: Vec<String>,
    /// What its superblock says, under the names of its own options and tools; none if it was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superblock: Option<Facts>,
    /// The same for every type, under common names; what a type does not have is not there.
    #[serde(default)]
    pub upkeep: Upkeep,
    /// Whether it orders its writes by flushes; none if it is not mounted or not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub barriers: Option<Barriers>,
    /// The stripe that it works with against the one below; none if its type knows of none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub geometry: Option<FoundGeometry>,
    /// How full it is; none if it is not mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<Space>,
    /// Commands that mend what is found, by purpose: `tell_geometry`, `barriers_on`, `discard_off`, `check`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub commands: BTreeMap<String, String>,
}

/// What every kind of superblock may tell of its upkeep.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Upkeep {
    /// Size of its journal or log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<Bytes>,
    /// The smallest that today's mkfs would give a device of this size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal_usual: Option<Bytes>,
    /// The smallest piece of its metadata or log that it writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest_write: Option<Bytes>,
    /// Mounts since the last check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mounts: Option<u64>,
    /// Mounts after which it is checked at boot; none: never for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_mounts: Option<u64>,
    /// When it was last checked, seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked: Option<u64>,
    /// Seconds after which it is checked at boot; none: never for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_interval: Option<u64>,
    /// Errors that the kernel met and noted in the superblock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<u64>,
}

/// Whether a mounted file system orders its writes by flushes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Barriers {
    /// It does.
    pub on: bool,
    /// The option of the mount that turns them off, or why this type sends none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_by: Option<String>,
}

/// The stripe that a file system works with against the one that lies below it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FoundGeometry {
    /// As it is, in the units of its own tools, by their names (`stride`, `sunit`, …).
    pub found: BTreeMap<String, u64>,
    /// As it should be; none if no stripe below is known, or it cannot be said: where a striped layer lies on
    /// another one, the uppermost stripes of its parts differ, the way down to one is not known, or its mkfs makes none
    /// with a stripe on so small a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<BTreeMap<String, u64>>,
}

/// How full a mounted file system is, and into what pieces its free space fell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Space {
    /// Size that it gives to files.
    pub size: Bytes,
    /// Free bytes.
    pub free: Bytes,
    /// Free bytes that users who are not root may use.
    pub available: Bytes,
    /// Inodes; 0 if they are made as needed.
    pub inodes: u64,
    /// Free inodes.
    pub inodes_free: u64,
    /// Pieces of free space; none if the kernel does not list them, or not to this user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pieces: Option<FreePieces>,
}

/// Free space by pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FreePieces {
    /// Pieces seen.
    pub count: u64,
    /// Free bytes in them.
    pub bytes: Bytes,
    /// Bytes of the largest one.
    pub largest: Bytes,
    /// Free bytes in pieces of 1 MiB and more.
    pub in_large: Bytes,
    /// Whether all were seen before the time for it was over.
    pub whole: bool,
}

/// A block device of the stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StackLayer {
    /// Kernel name (`md0`, `dm-3`, `sda1`).
    pub name: String,
    /// Node to use in commands (`/dev/md0`, `/dev/mapper/vg-data`).
    pub node: String,
    /// What it is.
    pub kind: LayerKind,
    /// Size.
    pub size: Bytes,
    /// Its request queue's attributes, or those of the disk that it is part of, as sysfs has them; sizes
    /// in bytes (`read_ahead_kb` and `max_sectors_kb` are in KiB as named).
    pub queue: Facts,
    /// What only its kind has. `partition`: `number`. `md`: as the built arrays of trials (`level`, `chunk`,
    /// `layout`, `members`, `degraded`, `sync_action`, `slots`, …), with `at_work`, `done`, `mismatch_cnt`,
    /// `last_sync_action`, and `survives`: how many more members it can lose for certain (not there if unknown).
    /// All mapped devices: `name`, `uuid`, `suspended`, `targets`; `lvm`: `group`, `volume`, and `part` of
    /// what is only a part of a volume; `crypt`: `cipher`. `loop`: `backing_file`, `direct_io`, `offset`.
    /// `disk`: `model`, `driver` (its bus, as sysfs names it), `state`. Any layer that is a physical volume
    /// of LVM: `pv_start`, `extent`, `pv_group`.
    pub facts: Facts,
    /// Where its bytes lie; empty for disks, and where it could not be read (see `unseen`).
    pub below: Vec<Piece>,
    /// What could not be read in order, but lies below (kernel names), where `below` is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub somewhere_on: Vec<String>,
}

/// What a layer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LayerKind {
    /// A whole disk with nothing known below.
    Disk,
    /// Part of a disk or array.
    Partition,
    /// A file as a device.
    Loop,
    /// An array of Linux.
    Md,
    /// A logical volume.
    Lvm,
    /// Encrypted by dm-crypt.
    Crypt,
    /// Paths to one disk.
    Multipath,
    /// Another target of the device mapper; `facts.targets` names them.
    Mapper,
    /// Something that is not known here.
    Unknown,
}

/// Part of a layer, and where it lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Piece {
    /// Its first byte in this layer.
    pub start: Bytes,
    /// Its size in this layer.
    pub size: Bytes,
    /// Kernel name of the layer below.
    pub on: String,
    /// Its first byte there.
    pub offset: Bytes,
    /// Bytes on one device before the next one's turn, where pieces of the same `start` are striped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<Bytes>,
}

/// How the uppermost layer lies on the stripes of one below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Striped {
    /// Kernel name of the striped layer.
    pub on: String,
    /// Bytes on one member before the next one's turn.
    pub chunk: Bytes,
    /// Members' worth of data in a stripe.
    pub data_disks: u32,
    /// Bytes of a stripe.
    pub stripe: Bytes,
    /// Read-ahead that keeps all of its data disks busy; none in records of older agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ahead: Option<Bytes>,
    /// Each piece of the uppermost layer on it; empty where the way down could not be read.
    pub pieces: Vec<StripedPiece>,
    /// Layers on the way down (without the striped one), by kernel name, with how many bytes into a stripe
    /// each begins by itself: the first piece of each. Uppermost first.
    pub steps: Vec<StripedStep>,
}

/// A piece of the uppermost layer on a striped one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StripedPiece {
    /// Its first byte in the uppermost layer.
    pub start: Bytes,
    /// Its size.
    pub size: Bytes,
    /// Its first byte on the striped layer.
    pub offset: Bytes,
    /// Bytes from the start of a stripe to where the uppermost layer expects one.
    pub off: Bytes,
    /// The same from the start of a chunk; none in records of older agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_chunk: Option<Bytes>,
}

/// What one layer contributes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StripedStep {
    /// Kernel name.
    pub layer: String,
    /// Bytes that its own start adds to where the layer below it begins, modulo the stripe.
    pub off: Bytes,
    /// Whether this is not where the layer begins, but where LVM's data begins on it; then the step of the
    /// volume above it counts from there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pv: bool,
}

/// Work that the host does by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Timer {
    /// Name of the unit or job.
    pub name: String,
    /// File that enables it.
    pub from: String,
}

/// What could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unseen {
    /// What: `superblock`, `segments`, `pv`, `queue`, `space`, `pieces`, `timers`, `layer`.
    pub what: String,
    /// Of which layer (kernel name), if of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<String>,
    /// Why, and what would make it seen.
    pub reason: Reason,
}

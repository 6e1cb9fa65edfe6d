//! A trial: the stack to build, and the phases to run on it. A plan's `[trial]` table is this type.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::array::{Add, Array, DeclaredGeometry, Fail, Grow, Lvm, Resync};
use crate::machine::Machine;
use crate::units::{Bytes, Seconds};
use crate::workload::{Dataset, Workload};

/// One execution of a cell: build the stack, run the phases, take the stack down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrialSpec {
    /// The machine to boot for it; the rig itself if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
    /// What lies under the file system.
    pub stack: Stack,
    /// The file system and its options. Left out where the stack is an existing directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<FileSystemSpec>,
    /// File sets by name.
    #[serde(default)]
    pub datasets: BTreeMap<String, Dataset>,
    /// What is done, in order.
    pub phases: Vec<Phase>,
    /// The whole trial is ended after this time.
    #[serde(default = "default_timeout")]
    pub timeout: Seconds,
}

fn default_timeout() -> Seconds {
    Seconds(3600.0)
}

/// What lies under the file system: devices, or an existing directory, exactly one of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stack {
    /// Leaf devices, in slot order. Several need an `array`, or an `lvm` on them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Device>,
    /// An md array over the devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<Array>,
    /// A volume group on the array or the devices, with the volume that the file system goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lvm: Option<Lvm>,
    /// What the device really is where the kernel cannot tell: a hardware array. For file systems whose
    /// geometry is `declared`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub geometry: Option<DeclaredGeometry>,
    /// An existing directory: no root, no mkfs. The agent works in a folder that it makes there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// Kernel settings of the stack, set before mkfs, read back and proved.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    pub settings: Settings,
}

/// A leaf device: exactly one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Device {
    /// A loop device on a file that the agent makes.
    File(FileDevice),
    /// A real block device, whose contents are lost. Must be named by `--destroy` too.
    Disk(DiskDevice),
}

/// A loop device on a backing file (direct I/O to the backing file, discards not passed through).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileDevice {
    /// Size of the device.
    pub size: Bytes,
    /// How the backing file is laid out.
    #[serde(default)]
    pub backing: Backing,
    /// Logical block size of the device.
    #[serde(default = "default_block")]
    pub logical_block_size: Bytes,
    /// Folder for the backing file; the agent's work folder if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// So many equal devices, each with a file of its own.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1, max = 64))]
    pub count: u32,
}

fn one() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_one(n: &u32) -> bool {
    *n == 1
}

fn default_block() -> Bytes {
    Bytes(512)
}

/// How a backing file is laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Backing {
    /// Fully written once and kept for the whole campaign: the same extents for all trials.
    #[default]
    Written,
    /// Made sparse for each trial: allocation is charged to the file system under test. For tests.
    Sparse,
}

/// A real block device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskDevice {
    /// Its link below `/dev/disk/by-id`.
    pub path: PathBuf,
}

/// Kernel settings. Each has one stated target layer, is read back, and its effect is proved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Read-ahead on the file system's own backing-device info (the device's before a mount).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ahead: Option<Bytes>,
    /// I/O scheduler of the queues that have one: the leaves'.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// Cache mode that the device the file system sees announces; `write through`: no flushes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_cache: Option<WriteCache>,
    /// Requests that a leaf's queue holds (`queue/nr_requests`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 4))]
    pub nr_requests: Option<u32>,
    /// Dirty page cache at which writers wait (`vm.dirty_bytes`). Host-wide; put back afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty_bytes: Option<Bytes>,
    /// Dirty page cache at which write-back begins (`vm.dirty_background_bytes`). Host-wide; put back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty_background_bytes: Option<Bytes>,
}

impl Settings {
    /// Whether nothing is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// `queue/write_cache` of a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WriteCache {
    /// A volatile cache: the kernel sends flushes.
    #[serde(rename = "write back")]
    WriteBack,
    /// No volatile cache announced: the kernel sends no flushes.
    #[serde(rename = "write through")]
    WriteThrough,
}

/// A file system by its type, with options by the names that `describe` lists for that type. The
/// schema that the agent prints holds one branch per type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileSystemSpec {
    /// `ext4`, `xfs`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// Options by name, in base units.
    #[serde(flatten)]
    pub options: BTreeMap<String, Value>,
}

/// A timed step: exactly one kind, and what all steps share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Its name in results and sweeps; the kind's name if left out. Unique within a point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The phase is ended after this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Seconds>,
    /// Where it runs: the trial's own place unless told otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<At>,
    /// The sweep point that this phase belongs to. Filled in by the plan, echoed in events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point: Option<BTreeMap<String, Value>>,
    /// Make the file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mkfs: Option<Mkfs>,
    /// Mount it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount: Option<Mount>,
    /// Unmount and mount again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remount: Option<Remount>,
    /// Change kernel settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<Settings>,
    /// Run a load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<Workload>,
    /// Bring everything to the device (`syncfs`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync: Option<Sync>,
    /// Forget clean cached pages, dentries and inodes. Host-wide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop_caches: Option<DropCaches>,
    /// Unmount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unmount: Option<Unmount>,
    /// Run the file system's checker on the unmounted device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Check>,
    /// Take members out of the array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fail: Option<Fail>,
    /// Put members back into the array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add: Option<Add>,
    /// Wait until the array neither rebuilds nor reshapes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resync: Option<Resync>,
    /// Make the array wider, with what lies on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grow: Option<Grow>,
}

/// Where a phase runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum At {
    /// On the rig itself, also where the trial runs in a guest.
    Rig,
}

/// Make the file system. Its options are in `filesystem`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mkfs {}

/// Mount. Its options are in `filesystem`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mount {}

/// Unmount and mount again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Remount {
    /// Drop the caches in between, so that the next read comes from the device.
    #[serde(default)]
    pub cold: bool,
}

/// Bring everything to the device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sync {}

/// Forget clean cached pages, dentries and inodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DropCaches {}

/// Unmount.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Unmount {}

/// Run the checker, which must not change anything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// How thorough.
    #[serde(default)]
    pub mode: CheckMode,
}

/// How thorough a check is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckMode {
    /// Everything, even if the file system says that it is clean.
    #[default]
    Full,
}

/// The kind of a phase, borrowed from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action<'a> {
    /// See [`Mkfs`].
    Mkfs(&'a Mkfs),
    /// See [`Mount`].
    Mount(&'a Mount),
    /// See [`Remount`].
    Remount(&'a Remount),
    /// See [`Settings`].
    Set(&'a Settings),
    /// See [`Workload`].
    Workload(&'a Workload),
    /// See [`Sync`].
    Sync(&'a Sync),
    /// See [`DropCaches`].
    DropCaches(&'a DropCaches),
    /// See [`Unmount`].
    Unmount(&'a Unmount),
    /// See [`Check`].
    Check(&'a Check),
    /// See [`Fail`].
    Fail(&'a Fail),
    /// See [`Add`].
    Add(&'a Add),
    /// See [`Resync`].
    Resync(&'a Resync),
    /// See [`Grow`].
    Grow(&'a Grow),
}

impl Action<'_> {
    /// The key that a plan writes for it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Mkfs(_) => "mkfs",
            Self::Mount(_) => "mount",
            Self::Remount(_) => "remount",
            Self::Set(_) => "set",
            Self::Workload(_) => "workload",
            Self::Sync(_) => "sync",
            Self::DropCaches(_) => "drop_caches",
            Self::Unmount(_) => "unmount",
            Self::Check(_) => "check",
            Self::Fail(_) => "fail",
            Self::Add(_) => "add",
            Self::Resync(_) => "resync",
            Self::Grow(_) => "grow",
        }
    }
}

/// Names of phases and datasets, as a JSON Schema pattern: they become folders, headings and lines of
/// a script, so nothing in them may climb, hide, break a line or turn the writing direction.
pub const NAME_PATTERN: &str = concat!(
    r"^[^\s./\x00-\x1f\x7f\u200e\u200f\u202a-\u202e\u2066-\u2069]",
    r"[^/\x00-\x1f\x7f\u200e\u200f\u202a-\u202e\u2066-\u2069]{0,59}$(?!\n)"
);

/// [`NAME_PATTERN`] in words.
pub const NAME_FORM: &str =
    "a name of up to 60 characters without `/` and control characters, not beginning with a dot or space";

/// Whether a name has the form of [`NAME_PATTERN`].
#[must_use]
pub fn is_name(name: &str) -> bool {
    let turns =
        |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let bad = |c: char| c == '/' || c <= '\u{1f}' || c == '\u{7f}' || turns(c);
    let first = name.chars().next().is_some_and(|c| c != '.' && !c.is_whitespace());
    first && name.chars().count() <= 60 && !name.chars().any(bad)
}

/// The keys of [`Phase`] of which exactly one must be given.
pub const PHASE_KINDS: [&str; 13] = [
    "mkfs",
    "mount",
    "remount",
    "set",
    "workload",
    "sync",
    "drop_caches",
    "unmount",
    "check",
    "fail",
    "add",
    "resync",
    "grow",
];

impl Phase {
    /// The one kind that is given.
    ///
    /// # Errors
    /// A sentence, if none or several are given.
    pub fn action(&self) -> Result<Action<'_>, String> {
        let mut given = [
            self.mkfs.as_ref().map(Action::Mkfs),
            self.mount.as_ref().map(Action::Mount),
            self.remount.as_ref().map(Action::Remount),
            self.set.as_ref().map(Action::Set),
            self.workload.as_ref().map(Action::Workload),
            self.sync.as_ref().map(Action::Sync),
            self.drop_caches.as_ref().map(Action::DropCaches),
            self.unmount.as_ref().map(Action::Unmount),
            self.check.as_ref().map(Action::Check),
            self.fail.as_ref().map(Action::Fail),
            self.add.as_ref().map(Action::Add),
            self.resync.as_ref().map(Action::Resync),
            self.grow.as_ref().map(Action::Grow),
        ]
        .into_iter()
        .flatten();
        match (given.next(), given.next()) {
            (Some(action), None) => Ok(action),
            (None, _) => Err(format!("a phase needs one of: {}", PHASE_KINDS.join(", "))),
            (Some(a), Some(b)) => Err(format!("a phase is either {} or {}, not both", a.kind(), b.kind())),
        }
    }

    /// Its name in results: the given one, or the kind's.
    ///
    /// # Errors
    /// As [`Phase::action`].
    pub fn label(&self) -> Result<String, String> {
        Ok(self.name.clone().unwrap_or(self.action()?.kind().to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_below_their_folder_and_on_their_line() {
        for good in ["small", "read small", "a.b", "größe", &"x".repeat(60)] {
            assert!(is_name(good), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            "../etc",
            "/etc",
            "a/b",
            ".hidden",
            " x",
            "a\nb",
            "a\0",
            "\u{202e}x",
            &"x".repeat(61),
        ] {
            assert!(!is_name(bad), "{bad:?}");
        }
    }
}

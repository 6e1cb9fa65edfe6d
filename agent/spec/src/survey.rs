//! What a rig can do, with reasons: the answer of `fsdyno-agent survey`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::outcome::Reason;
use crate::units::Bytes;

/// What this host (and later its guests) can do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Survey {
    /// [`crate::PROTOCOL`].
    pub protocol: u32,
    /// The host.
    pub host: Host,
    /// Places where trials run, by name: `native`, `directory`, `guest`.
    pub places: BTreeMap<String, Ability>,
    /// File systems in the order of the table.
    pub filesystems: Vec<FileSystemAbility>,
    /// Layers between devices and file systems, by their key in `stack`: `array`, `lvm`.
    #[serde(default)]
    pub layers: Vec<FileSystemAbility>,
    /// Kernels that guests can boot, newest first.
    #[serde(default)]
    pub kernels: Vec<GuestKernel>,
    /// Kernel features that trials rely on, by name: `loop_configure`, `fsopen`, `io_uring`,
    /// `kernel_log`, `pressure`, `mount_namespace`, …
    pub features: BTreeMap<String, Ability>,
    /// Tools by name.
    pub tools: BTreeMap<String, Tool>,
    /// Where the agent keeps ledgers and work folders.
    pub folders: Folders,
}

/// A kernel in the cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GuestKernel {
    /// As `uname -r` says in the guest.
    pub release: String,
    /// Where it is from: package and version, or the files that were given.
    pub source: String,
    /// What its guests can do with each file system, by type. The place `guest` of
    /// [`Survey::filesystems`] is that of the newest kernel.
    #[serde(default)]
    pub filesystems: BTreeMap<String, Ability>,
    /// The same for layers, by their key in `stack`.
    #[serde(default)]
    pub layers: BTreeMap<String, Ability>,
}

/// The host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Host name.
    pub name: String,
    /// Kernel release.
    pub kernel: String,
    /// Machine architecture.
    pub machine: String,
    /// Distribution, from `os-release`.
    pub distribution: String,
    /// Boot id.
    pub boot: String,
    /// CPU model.
    pub cpu: String,
    /// CPUs that the agent may run on.
    pub cpus: u32,
    /// Memory.
    pub memory: Bytes,
    /// Whether the agent runs as root with the capabilities that stacks need.
    pub root: bool,
    /// Under which hypervisor, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<String>,
}

/// Whether something can be done here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ability {
    /// Whether.
    pub able: bool,
    /// What was found, e.g. a version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Why not, and what would change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

/// What this rig can do with one file system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileSystemAbility {
    /// Its type.
    pub name: String,
    /// The kernel driver that serves it, as far as it can be known without a mount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// By place.
    pub places: BTreeMap<String, Ability>,
    /// Names in [`Survey::tools`] that it needs, with what for (`mkfs`, `check`).
    pub tools: BTreeMap<String, String>,
}

/// A tool of the distribution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// Where it is; none if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Its version line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The distribution's package that has it.
    pub package: String,
}

/// The agent's folders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Folders {
    /// Ledgers and the rig's lock.
    pub state: String,
    /// Backing files and mount points.
    pub work: String,
    /// Free space there.
    pub free: Bytes,
    /// The file system type that holds it.
    pub filesystem: String,
    /// Why it cannot be used, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Reason>,
}

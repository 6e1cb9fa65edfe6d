//! The machine that a trial runs in, where that is not the rig itself: a guest that the rig agent boots.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// A guest. Trials of equal machines share one until the round ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Release of a kernel that `fsdyno guest setup` has unpacked; the newest of them if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Its memory.
    #[serde(default = "default_memory")]
    pub memory: Bytes,
    /// Its CPUs.
    #[serde(default = "default_cpus")]
    #[schemars(range(min = 1, max = 256))]
    pub cpus: u32,
    /// What runs its CPUs.
    #[serde(default)]
    pub accelerator: Accelerator,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            kernel: None,
            memory: default_memory(),
            cpus: default_cpus(),
            accelerator: Accelerator::default(),
        }
    }
}

fn default_memory() -> Bytes {
    Bytes::mib(1024)
}

fn default_cpus() -> u32 {
    2
}

/// What runs a guest's CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Accelerator {
    /// KVM where it really boots this kernel, else TCG.
    #[default]
    Auto,
    /// The processor itself; refused where it does not boot the kernel.
    Kvm,
    /// Emulated by QEMU: counts are true, times are those of an emulator.
    Tcg,
}

impl Accelerator {
    /// As a plan spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }
}

//! The layers between devices and file systems, as far as the agent asks for kernel and tools: what the
//! survey tells of them, and what a guest must load before it can build them.

use fsdyno_filesystems::FileSystem;
use fsdyno_machine::Wiring;
use fsdyno_spec::trial::Stack;

/// A layer, by its key in a plan's `stack`.
pub struct LayerRow {
    /// The key.
    pub key: &'static str,
    /// What of the kernel does it.
    pub driver: &'static str,
    /// Its modules.
    pub modules: &'static [&'static str],
    /// A file with a word that shows that the running kernel has it.
    pub shown: (&'static str, &'static str),
    /// The tool that builds it.
    pub tool: &'static str,
    /// The distribution's package that has the tool.
    pub package: &'static str,
    /// Whether a stack has it.
    pub used: fn(&Stack) -> bool,
}

/// Every layer that fsdyno builds.
pub const LAYERS: &[LayerRow] = &[
    LayerRow {
        key: "array",
        driver: "md",
        modules: &["md-mod", "raid0", "raid1", "raid10", "raid456"],
        shown: ("/proc/mdstat", "Personalities"),
        tool: "mdadm",
        package: "mdadm",
        used: |stack| stack.array.is_some(),
    },
    LayerRow {
        key: "lvm",
        driver: "device-mapper",
        modules: &["dm-mod"],
        shown: ("/proc/misc", "device-mapper"),
        tool: "lvm",
        package: "lvm2",
        used: |stack| stack.lvm.is_some(),
    },
];

/// Loads in a guest what the kernel does not ask for by itself, and what it would ask for while a clock
/// runs. A module that is missing shows when it is used, with the kernel's own words.
pub fn load_modules(stack: &Stack, filesystem: Option<&FileSystem>) {
    // Of an array's levels the kernel asks for the one that it needs, when the array is made.
    let drivers = LAYERS.iter().filter(|row| (row.used)(stack)).filter_map(|row| row.modules.first());
    let of_filesystem = filesystem.iter().flat_map(|fs| fs.modules.iter());
    for module in drivers.chain(of_filesystem) {
        let _ = Wiring::load(module);
    }
}

//! What kernel and tools are here, as file systems ask: looked at once per agent, because neither
//! changes while it runs, and asking costs a guest seconds.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, OnceLock, PoisonError};

use fsdyno_filesystems::{FileSystem, Here, TABLE};
use fsdyno_machine::Wiring;

use crate::survey;

/// Kernel and configuration, with no tools yet.
static KERNEL: OnceLock<Here> = OnceLock::new();

/// Version lines by program.
static VERSIONS: Mutex<Option<HashMap<String, Option<String>>>> = Mutex::new(None);

/// What this file system can ask about: the kernel, and its own tools.
pub fn here(filesystem: &FileSystem) -> Here {
    let mut here = KERNEL.get_or_init(look).clone();
    for (_, program) in filesystem.tools() {
        if let Some(version) = version(program.name) {
            here.tools.insert(program.name.to_string(), version);
        }
    }
    here
}

/// The version line of a program, asked once.
pub fn version(program: &str) -> Option<String> {
    let mut known = VERSIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    known.entry(program.to_string()).or_insert_with(|| survey::version_of(program)).clone()
}

/// What the running kernel has, or loads when it is asked. A guest's modules lie with the rig.
fn look() -> Here {
    let kernel = survey::Kernel::read();
    let guest = Wiring::modules_of_guest().ok();
    let module = |name: &str| match &guest {
        Some(modules) => modules.has(name),
        None => kernel.has_module(name),
    };
    let registered = kernel.filesystems.lines().filter_map(|line| line.split_whitespace().next_back());
    let mut serves: BTreeSet<String> = registered.map(str::to_string).collect();
    for row in TABLE {
        let found: Vec<_> = row.modules.iter().filter(|name| module(name)).collect();
        if !found.is_empty() {
            serves.insert(row.fstype.to_string());
        }
        // A module serves the type of its own name too, which another way to mount may want.
        serves.extend(found.into_iter().map(ToString::to_string));
    }
    Here { release: kernel.release, config: kernel.config, serves, ..Here::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_has_registered_it_serves_and_its_release_is_known() {
        let row = fsdyno_filesystems::find("ext4").expect("a row");
        let here = here(row);
        assert!(here.kernel() > (0, 0));
        let registered = std::fs::read_to_string("/proc/filesystems").expect("a list");
        for name in registered.lines().filter_map(|line| line.split_whitespace().next_back()) {
            assert!(here.serves.contains(name), "{name}");
        }
        assert_eq!(here.tools.contains_key("mke2fs"), fsdyno_stack::find_program("mke2fs").is_some());
    }
}

//! What kernel and tools are here, as file systems ask: looked at once per agent, because neither
//! changes while it runs, and asking costs a guest seconds.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, OnceLock, PoisonError};

use fsdyno_filesystems::{FileSystem, Here, Identity, Options, TABLE, VERSION};
use fsdyno_machine::Wiring;
use fsdyno_spec::outcome::Reason;
use fsdyno_spec::trial::{Device, Stack};
use fsdyno_spec::units::Bytes;

use crate::layers::LAYERS;
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

/// Every program that phases of a trial may start, with the arguments that make it print its version: the
/// tools, and what serves the mount or runs beside it.
pub fn programs(
    filesystem: &FileSystem,
    options: &Options,
    here: &Here,
) -> Vec<(String, &'static [&'static str])> {
    let plan = filesystem.mount(options, "", Bytes(0), here);
    let beside = [plan.helper, plan.daemon].into_iter().flatten().map(|command| command.program);
    let tools = filesystem.tools().into_iter().map(|(_, program)| program).chain(filesystem.grower());
    let known = tools.map(|program| (program.name.to_string(), program.version));
    known.chain(beside.map(|program| (program, &[VERSION][..]))).collect()
}

/// The version line of a program, asked once.
pub fn version(program: &str) -> Option<String> {
    let mut known = VERSIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    known.entry(program.to_string()).or_insert_with(|| survey::version_of(program)).clone()
}

/// Why a layer that the stack has cannot be built here: no driver, or no tool; none if all can.
pub fn lacks(stack: &Stack) -> Option<Reason> {
    LAYERS.iter().filter(|row| (row.used)(stack)).find_map(|row| {
        let key = row.key;
        let driven = || std::fs::read_to_string(row.shown.0).is_ok_and(|text| text.contains(row.shown.1));
        if !driven() && !row.modules.iter().all(|name| loads(survey::kernel(), name)) {
            let release = &survey::kernel().release;
            let message = format!("this kernel ({release}) has no {}, which `stack.{key}` needs", row.driver);
            return Some(
                Reason::new(message).advise("run it in a guest (`machine`), or boot a kernel that has it"),
            );
        }
        fsdyno_stack::find_program(row.tool).is_none().then(|| {
            let message = format!("{} is missing, which `stack.{key}` needs", row.tool);
            Reason::new(message).advise(format!("install {}", row.package))
        })
    })
}

/// Why a file system cannot be made on a real disk of this stack: its medium could not be told from
/// somebody else's afterwards, so that nobody could wipe it. Below an array or a volume it is that which
/// is known.
pub fn unclaimable(row: &FileSystem, stack: &Stack) -> Option<Reason> {
    let bare = stack.array.is_none() && stack.lvm.is_none();
    let on_disk = bare && stack.devices.iter().any(|device| matches!(device, Device::Disk(_)));
    let identity = row.disk.as_ref().map(|disk| disk.identity)?;
    (on_disk && matches!(identity, Identity::Label(_))).then(|| {
        let message =
            format!("the mkfs of {} takes no UUID, by which a real disk is known as ours again", row.name);
        Reason::new(message).advise("use a `file` device, or put it on an array or a volume")
    })
}

/// Whether the running kernel loads this module when it is asked. A guest's modules lie with the rig.
fn loads(kernel: &survey::Kernel, name: &str) -> bool {
    Wiring::modules_of_guest().map_or_else(|| kernel.has_module(name), |modules| modules.has(name))
}

/// What the running kernel has, or loads when it is asked.
fn look() -> Here {
    let kernel = survey::kernel();
    let registered = kernel.filesystems.lines().filter_map(|line| line.split_whitespace().next_back());
    let mut serves: BTreeSet<String> = registered.map(str::to_string).collect();
    for row in TABLE {
        serves.extend(served(row, |name| loads(kernel, name)));
    }
    Here { release: kernel.release.clone(), config: kernel.config.clone(), serves, ..Here::default() }
}

/// Types that a file system's modules register, of those that the kernel loads when it is asked: each the
/// one of its own name, and the one that would be mounted if the kernel had but this module. (`ext4`
/// serves the older ones too, but `ntfs3` does not bring FUSE.)
fn served(row: &FileSystem, loads: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let found = row.modules.iter().filter(|name| loads(name)).map(ToString::to_string);
    let types = found.flat_map(|module| {
        let only = Here { serves: [module.clone()].into(), ..Here::default() };
        [row.mount(&Options::default(), "", Bytes(0), &only).fstype, module]
    });
    types.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_serves_what_it_registers_and_not_what_another_one_of_the_row_does() {
        let served = |kind: &str, modules: &[&str]| {
            let row = fsdyno_filesystems::find(kind).expect("a row");
            served(row, |name| modules.contains(&name)).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(served("ntfs", &["ntfs3"]), ["ntfs3"]);
        assert_eq!(served("ntfs", &["fuse"]), ["fuse", "fuseblk"]);
        assert_eq!(served("ntfs", &["ntfs3", "fuse"]), ["fuse", "fuseblk", "ntfs3"]);
        assert_eq!(served("ext2", &["ext4"]), ["ext2", "ext4"]);
        assert_eq!(served("ext2", &[]), Vec::<String>::new());
    }

    #[test]
    fn what_serves_a_mount_and_what_makes_it_larger_is_among_its_programs() {
        let programs = |kind: &str, options: serde_json::Value| {
            let row = fsdyno_filesystems::find(kind).expect("a row");
            let options = row.options(&serde_json::from_value(options).expect("a map")).expect("options");
            let found = programs(row, &options, &Here::default());
            found.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        let of_ntfs = programs("ntfs", serde_json::json!({"driver": "ntfs-3g"}));
        assert_eq!(of_ntfs, ["mkntfs", "ntfsfix", "ntfs-3g"]);
        let none = serde_json::json!({});
        assert!(programs("ext4", none.clone()).contains(&"resize2fs".to_string()));
        assert!(programs("nilfs2", none).iter().any(|name| name.starts_with("nilfs_clean")));
    }

    #[test]
    fn a_disk_that_could_not_be_known_again_is_not_taken() {
        let row = |identity: fn(Identity) -> bool| {
            let kept = |fs: &&&FileSystem| fs.disk.as_ref().is_some_and(|disk| identity(disk.identity));
            *TABLE.iter().find(kept).expect("a row")
        };
        let (label, uuid) = (row(|i| matches!(i, Identity::Label(_))), row(|i| i == Identity::Uuid));
        let stack = |text| serde_json::from_value::<Stack>(text).expect("a stack");
        let disk = stack(serde_json::json!({"devices": [{"disk": {"path": "/dev/disk/by-id/x"}}]}));
        let file = stack(serde_json::json!({"devices": [{"file": {"size": 1 << 30}}]}));
        assert!(unclaimable(label, &disk).is_some());
        assert!(unclaimable(uuid, &disk).is_none() && unclaimable(label, &file).is_none());
    }

    #[test]
    fn a_layer_without_driver_or_tool_is_named_with_what_would_help() {
        let stack = Stack { array: None, ..Stack::default() };
        assert_eq!(lacks(&stack), None, "what is not asked for is not missed");
        let array = serde_json::from_value(serde_json::json!({"level": 5})).expect("an array");
        let lacking = lacks(&Stack { array: Some(array), ..stack });
        let driver = std::path::Path::new("/proc/mdstat").exists();
        match lacking {
            None => assert!(fsdyno_stack::find_program("mdadm").is_some()),
            Some(reason) if driver => assert!(reason.advice.expect("advice").contains("install mdadm")),
            Some(reason) => assert!(reason.message.contains("stack.array"), "{}", reason.message),
        }
    }

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

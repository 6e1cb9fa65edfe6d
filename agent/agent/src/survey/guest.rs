//! What guests can do here. Each kernel of the cache is judged by its own modules: plans may name an older
//! one, which may have what the newest has lost.

use std::collections::BTreeMap;
use std::path::Path;

use fsdyno_filesystems::TABLE;
use fsdyno_machine::Qemu;
use fsdyno_spec::survey::{Ability, GuestKernel, Tool};

use super::{Kernel, ability, able, layer_ability};
use crate::layers::LAYERS;

/// What guests can do here: with each kernel of the cache, newest first.
pub(super) struct GuestHere {
    pub(super) place: Ability,
    pub(super) kernels: Vec<GuestKernel>,
}

impl GuestHere {
    pub(super) fn find(state: &Path, cache: &Path, tools: &BTreeMap<String, Tool>) -> Self {
        let all = fsdyno_machine::Kernel::all(cache);
        let place = guest_place(state, cache, tools);
        let kernels = all.iter().map(|kernel| of_guest(kernel, &place, tools)).collect();
        Self { place, kernels }
    }

    /// What the newest kernel can do with a file system or a layer, as `abilities` finds it.
    pub(super) fn newest(
        &self,
        name: &str,
        abilities: fn(&GuestKernel) -> &BTreeMap<String, Ability>,
    ) -> Ability {
        let found = self.kernels.first().and_then(|kernel| abilities(kernel).get(name));
        found.unwrap_or(&self.place).clone()
    }
}

/// What guests with this kernel can do.
fn of_guest(kernel: &fsdyno_machine::Kernel, place: &Ability, tools: &BTreeMap<String, Tool>) -> GuestKernel {
    let found = Kernel::of_guest(kernel);
    let plain = Ability { detail: None, ..place.clone() };
    let or_place = |of_kernel: Ability| if place.able { of_kernel } else { place.clone() };
    GuestKernel {
        release: kernel.release.clone(),
        source: kernel.source.clone(),
        filesystems: TABLE
            .iter()
            .map(|fs| (fs.name.to_string(), or_place(ability(fs, &found, &plain, tools))))
            .collect(),
        layers: LAYERS
            .iter()
            .map(|row| (row.key.to_string(), or_place(layer_ability(row, false, &found, &plain, tools))))
            .collect(),
    }
}

/// Whether guests can run at all, and how fast their CPUs are.
fn guest_place(state: &Path, cache: &Path, tools: &BTreeMap<String, Tool>) -> Ability {
    let tool = tools.get(Qemu::PROGRAM);
    let path = tool.and_then(|tool| tool.path.as_deref()).map(Path::new);
    let qemu = Qemu::of(path, tool.and_then(|tool| tool.version.as_deref()));
    let found = qemu.and_then(|qemu| Ok((qemu, fsdyno_machine::Kernel::find(cache, None)?)));
    let (qemu, kernel) = match found {
        Ok(found) => found,
        Err(reason) => return Ability { able: false, detail: None, reason: Some(reason) },
    };
    let cpus = match crate::guests::Memory::of(state, &qemu, &kernel).kvm() {
        Ok(true) => "KVM boots it".to_string(),
        Ok(false) => "/dev/kvm is there and is tried first".to_string(),
        Err(why) => format!("CPUs are emulated, as {why}"),
    };
    able(Some(format!("{}, kernel {} ({}); {cpus}", qemu.version, kernel.release, kernel.source)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::tests::found;
    use super::*;

    #[test]
    fn each_kernel_of_guests_is_judged_by_its_own_modules() {
        let cache = tempfile::tempdir().expect("a folder");
        for (release, modules) in
            [("6.1.0-9", "kernel/fs/jfs/jfs.ko:\n"), ("6.12.0-1", "kernel/fs/xfs/xfs.ko:\n")]
        {
            let folder = cache.path().join("kernels").join(release);
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(folder.join("vmlinuz"), "").expect("an image");
            fs::write(folder.join("modules.dep"), modules).expect("modules");
            let about = format!(r#"{{"release":"{release}","source":"s","image":"vmlinuz","modules":"."}}"#);
            fs::write(folder.join("kernel.json"), about).expect("a kernel");
        }
        let tools = found(&["mkfs.jfs", "jfs_fsck", "mkfs.xfs", "xfs_repair"]);
        let place = able(Some("QEMU".into()));
        let all = fsdyno_machine::Kernel::all(cache.path());
        let kernels: Vec<_> = all.iter().map(|kernel| of_guest(kernel, &place, &tools)).collect();
        let has = |name: &str| kernels.iter().map(|k| k.filesystems[name].able).collect::<Vec<_>>();
        assert_eq!((has("jfs"), has("xfs")), (vec![false, true], vec![true, false]));
        assert!(kernels.iter().all(|kernel| !kernel.layers["array"].able), "none has md");
        let guest = GuestHere { place, kernels };
        assert!(guest.newest("xfs", |k| &k.filesystems).able, "the place of a row is the newest kernel's");
        assert!(!guest.newest("jfs", |k| &k.filesystems).able);
    }
}

//! Devices, arrays and volumes by hand. `$DEVS` are the leaves in slot order, `$DEV` is what the file
//! system goes on, `$DOWN` takes down what is built between them.

use fsdyno_filesystems::quote;
use fsdyno_spec::array::{Lvm, Volume};
use fsdyno_spec::trial::{Backing, Device, FileDevice, Stack};
use fsdyno_stack::Change;

use super::Script;
use super::array::{ARRAY, ArrayByHand};

/// The volume group, likewise.
const GROUP: &str = "fsdyno_by_hand";

impl Script {
    /// Devices like the trial's: loop devices on new files, or the real disks, if they are blank and named
    /// once more; then the array and the volume on them. `MNT` is a folder for the mount.
    pub fn devices(&mut self, stack: &Stack) {
        let mut lines = vec![
            "MNT=$(mktemp -d); DEVS=; IMGS=; RESTORE=; DOWN=".to_string(),
            "trap 'umount \"$MNT\" 2>/dev/null || :; eval \"$RESTORE\"; eval \"$DOWN\"; \
             for i in $IMGS; do losetup -j \"$i\" | cut -d: -f1 | xargs -r losetup -d; rm -f \"$i\"; done; \
             rmdir \"$MNT\"' EXIT"
                .to_string(),
        ];
        lines.extend(stack.devices.iter().map(|device| match device {
            Device::File(file) => of_file(file),
            Device::Disk(disk) => of_disk(&disk.path.to_string_lossy()),
        }));
        lines.push("DEVS=${DEVS# }; DEV=$DEVS".to_string());
        self.add("device", lines.join("\n"));
        if let Some(array) = &stack.array {
            let leaves = stack.devices.iter().map(|device| match device {
                Device::File(file) => file.count,
                Device::Disk(_) => 1,
            });
            match ArrayByHand::of(array, leaves.sum()) {
                Ok(by_hand) => {
                    self.add("array", by_hand.make());
                    self.array = Some(by_hand);
                }
                // A trial with such an array is refused with this reason.
                Err(reason) => self.add("array", format!("# {}", reason.message)),
            }
        }
        if let Some(lvm) = &stack.lvm {
            self.add("lvm", of_lvm(lvm));
        }
    }

    /// Members taken out and put in, and arrays that grow.
    pub fn change(&mut self, phase: &str, change: &Change<'_>, stack: &Stack) {
        let Some(array) = self.array.as_mut() else { return };
        let mut line = array.change(change);
        if let (Change::Grow { .. }, Some(_)) = (change, &stack.lvm) {
            line += &format!("\npvresize {ARRAY}; lvextend -l +100%FREE \"$DEV\"");
        }
        self.add(phase, line);
    }
}

fn of_file(file: &FileDevice) -> String {
    let mib = file.size.0.div_ceil(1 << 20);
    let fill = match file.backing {
        Backing::Written => {
            format!("dd if=/dev/zero of=\"$IMG\" bs=1M count={mib} conv=fsync status=none; ")
        }
        Backing::Sparse => String::new(),
    };
    format!(
        "for n in $(seq {}); do IMG=$(mktemp -p \"${{TMPDIR:-/var/tmp}}\" --suffix=.fsdyno-by-hand); \
         IMGS=\"$IMGS $IMG\"; {fill}truncate -s {} \"$IMG\"; \
         DEVS=\"$DEVS $(losetup --find --show --direct-io=on --sector-size {} \"$IMG\")\"; done",
        file.count, file.size.0, file.logical_block_size.0
    )
}

fn of_disk(link: &str) -> String {
    let link = quote(link);
    format!(
        "D={link}; case \" ${{FSDYNO_DESTROY:-}} \" in *\" $D \"*) ;; \
         *) echo \"all data on $D is lost: name it in FSDYNO_DESTROY if you mean it\" >&2; exit 6;; esac\n\
         if blkid -p \"$D\"; then echo \"$D is not blank\" >&2; exit 6; fi\n\
         DEVS=\"$DEVS $D\""
    )
}

fn of_lvm(lvm: &Lvm) -> String {
    let alignment =
        lvm.data_alignment.map(|bytes| format!(" --dataalignment {}b", bytes.0)).unwrap_or_default();
    let extent = lvm.extent.map(|bytes| format!(" -s {}b", bytes.0)).unwrap_or_default();
    let mut lines = vec![
        format!("BELOW=$DEV; DOWN=\"vgremove --yes --force {GROUP}; pvremove --yes $BELOW; $DOWN\""),
        format!("pvcreate --yes{alignment} $BELOW; vgcreate{extent} {GROUP} $BELOW"),
    ];
    let whole = Volume { name: "data".into(), size: None, stripes: None, stripe_size: None };
    let volumes = if lvm.volumes.is_empty() { std::slice::from_ref(&whole) } else { &lvm.volumes };
    for volume in volumes {
        let size = match volume.size {
            Some(bytes) => format!("-L {}b", bytes.0),
            None => "-l 100%FREE".to_string(),
        };
        let stripes = volume.stripes.map(|n| format!(" -i {n}")).unwrap_or_default();
        let stripe = volume.stripe_size.map(|bytes| format!(" -I {}b", bytes.0)).unwrap_or_default();
        lines.push(format!("lvcreate --yes -n {} {size}{stripes}{stripe} {GROUP}", volume.name));
    }
    let last = volumes.last().map_or("", |volume| volume.name.as_str());
    lines.push(format!("DEV=/dev/{GROUP}/{}", lvm.used.as_deref().unwrap_or(last)));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    fn of(stack: serde_json::Value) -> String {
        let stack: Stack = from_value(stack).expect("a stack");
        let mut script = Script::default();
        script.devices(&stack);
        script.change("grow", &Change::Grow { members: 4 }, &stack);
        let steps = script.into_steps();
        steps.into_iter().map(|step| step.command).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn an_array_with_a_volume_is_typed_with_its_own_numbers() {
        let text = of(json!({
            "devices": [{"file": {"size": 1 << 30, "count": 4}}],
            "array": {"level": 5, "chunk": 65536, "spares": 1, "resync": "assume_clean"},
            "lvm": {"extent": 6_291_456, "volumes": [{"name": "a", "size": 12_582_912}, {"name": "b"}], "use": "a"}
        }));
        for part in [
            "--level=5 --raid-devices=3 --chunk=64K --layout=left-symmetric --bitmap=none --assume-clean \
             $(slot 0) $(slot 1) $(slot 2)\n",
            "vgcreate -s 6291456b fsdyno_by_hand",
            "lvcreate --yes -n a -L 12582912b fsdyno_by_hand\nlvcreate --yes -n b -l 100%FREE",
            "DEV=/dev/fsdyno_by_hand/a",
            "--grow /dev/md/fsdyno-by-hand --raid-devices=4",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(!text.contains("mdadm --wait /dev/md/fsdyno-by-hand || :\nBELOW"), "clean is not waited for");
    }

    #[test]
    fn the_steps_are_shell() {
        let text = of(json!({
            "devices": [{"file": {"size": 1 << 30, "count": 3}}, {"disk": {"path": "/dev/disk/by-id/a b"}}],
            "array": {"level": 10, "chunk": 65536, "layout": "far2"}, "lvm": {}
        }));
        let mut shell = std::process::Command::new("sh");
        let checked = shell.args(["-n", "-c", &text]).output().expect("a shell");
        assert!(checked.status.success(), "{}\n{text}", String::from_utf8_lossy(&checked.stderr));
    }
}

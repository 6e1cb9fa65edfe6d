//! What a plan asks of a volume group, checked, and LVM's command lines for it. LVM reads a
//! configuration of our own, sees our devices only, and neither reads nor writes the host's.

use std::collections::BTreeSet;
use std::path::Path;

use fsdyno_filesystems::CommandLine;
use fsdyno_spec::array::{Lvm, Volume};
use fsdyno_spec::outcome::Reason;
use fsdyno_spec::units::Bytes;

/// Extent size where the plan states none: LVM's own default, stated all the same.
pub const EXTENT: Bytes = Bytes(4 << 20);

/// Stripe size where the plan states none: LVM's own default.
pub const STRIPE: Bytes = Bytes(64 << 10);

/// A volume group as it is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Extent size.
    pub extent: Bytes,
    /// What the start of the data is a multiple of; what LVM detects if none.
    pub data_alignment: Option<Bytes>,
    /// Volumes in the order of their making.
    pub volumes: Vec<Volume>,
    /// The volume that the file system goes on.
    pub used: String,
}

impl Plan {
    /// Checks what is asked for against the number of devices below.
    ///
    /// # Errors
    /// What no volume group can be, with what to write instead.
    pub fn of(spec: &Lvm, devices: usize) -> Result<Self, Reason> {
        let extent = spec.extent.unwrap_or(EXTENT);
        if extent.0 == 0 || !(extent.0.is_power_of_two() || extent.0.is_multiple_of(128 << 10)) {
            return Err(Reason::new(format!("an extent of {extent} cannot be"))
                .advise("give a power of two, or a multiple of 128 KiB"));
        }
        if let Some(bad) = spec.data_alignment.filter(|a| a.0 == 0 || !a.0.is_multiple_of(4096)) {
            return Err(Reason::new(format!("a data alignment of {bad} cannot be"))
                .advise("give a multiple of 4 KiB: the stripe of the array below"));
        }
        let whole = Volume { name: "all".into(), size: None, stripes: None, stripe_size: None };
        let volumes = if spec.volumes.is_empty() { vec![whole] } else { spec.volumes.clone() };
        let mut names = BTreeSet::new();
        for (n, volume) in volumes.iter().enumerate() {
            check(volume, extent, devices)?;
            if !names.insert(&volume.name) {
                return Err(Reason::new(format!("two volumes are called `{}`", volume.name))
                    .advise("give each a name of its own"));
            }
            if volume.size.is_none() && n + 1 < volumes.len() {
                let message =
                    format!("the volume `{}` takes all that is left, and others follow", volume.name);
                return Err(Reason::new(message).advise("give it a `size`, or put it last"));
            }
        }
        let last = volumes.last().map(|v| v.name.clone()).unwrap_or_default();
        let used = spec.used.clone().unwrap_or(last);
        if !names.contains(&used) {
            let known = names.into_iter().cloned().collect::<Vec<_>>().join(", ");
            return Err(Reason::new(format!("`lvm.use` names no volume: `{used}`"))
                .advise(format!("the volumes are: {known}")));
        }
        Ok(Self { extent, data_alignment: spec.data_alignment, volumes, used })
    }
}

fn check(volume: &Volume, extent: Bytes, devices: usize) -> Result<(), Reason> {
    let name = &volume.name;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if name.is_empty()
        || name.len() > 32
        || !name.chars().all(plain)
        || !name.starts_with(|c: char| c.is_ascii_lowercase())
    {
        return Err(Reason::new(format!("`{name}` cannot name a volume"))
            .advise("use lower-case letters and digits, a letter first, 32 at most"));
    }
    if let Some(size) = volume.size.filter(|size| size.0 == 0 || !size.0.is_multiple_of(extent.0)) {
        return Err(Reason::new(format!(
            "the volume `{name}` of {size} is no number of extents of {extent}"
        ))
        .advise("give a multiple of the extent"));
    }
    match (volume.stripes, volume.stripe_size) {
        (None, Some(_)) => Err(Reason::new(format!("the volume `{name}` has a stripe size but no stripes"))
            .advise("give `stripes` too, or leave `stripe_size` out")),
        (Some(stripes), _) if stripes < 2 || stripes as usize > devices => Err(Reason::new(format!(
            "the volume `{name}` cannot have {stripes} stripes on {devices} devices"
        ))
        .advise("stripes are 2 at least, each on a physical volume of its own")),
        (Some(_), Some(size)) if !size.0.is_power_of_two() || !(4096..=extent.0).contains(&size.0) => {
            Err(Reason::new(format!("the volume `{name}` cannot have a stripe size of {size}"))
                .advise("give a power of two from 4 KiB to the extent"))
        }
        _ => Ok(()),
    }
}

/// LVM's commands for one volume group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commands {
    /// Folder with `lvm.conf`, nothing else.
    pub system: String,
    /// Name of the group.
    pub group: String,
    /// Nodes of the physical volumes, in order.
    pub devices: Vec<String>,
}

impl Commands {
    fn lvm(&self, verb: &str, words: &[&str]) -> CommandLine {
        let mut args = vec![
            format!("LVM_SYSTEM_DIR={}", self.system),
            "LVM_SUPPRESS_FD_WARNINGS=1".to_string(),
            "lvm".to_string(),
            verb.to_string(),
            "--devices".to_string(),
            self.devices.join(","),
        ];
        args.extend(words.iter().map(ToString::to_string));
        CommandLine { program: "env".to_string(), args }
    }

    /// Makes a device a physical volume with this UUID.
    #[must_use]
    pub fn physical(&self, plan: &Plan, device: &str, uuid: &str) -> CommandLine {
        let alignment = plan.data_alignment.map(|a| format!("{}b", a.0));
        let mut words = vec!["--yes", "--zero", "y", "--norestorefile", "--uuid", uuid];
        if let Some(alignment) = &alignment {
            words.extend(["--dataalignment", alignment]);
        }
        words.push(device);
        self.lvm("pvcreate", &words)
    }

    /// Makes the group; nothing activates it but us.
    #[must_use]
    pub fn group(&self, plan: &Plan) -> CommandLine {
        let extent = format!("{}b", plan.extent.0);
        let mut words =
            vec!["--yes", "--setautoactivation", "n", "--physicalextentsize", &extent, &self.group];
        words.extend(self.devices.iter().map(String::as_str));
        self.lvm("vgcreate", &words)
    }

    /// Makes a volume; what is found in its room is wiped.
    #[must_use]
    pub fn volume(&self, volume: &Volume) -> CommandLine {
        let (stripes, stripe) =
            (volume.stripes.map(|n| n.to_string()), format!("{}b", volume.stripe_size.unwrap_or(STRIPE).0));
        let size = volume.size.map(|size| format!("{}b", size.0));
        let mut words = vec!["--yes", "--zero", "y", "--wipesignatures", "y", "--name", &volume.name];
        match &stripes {
            Some(stripes) => {
                words.extend(["--type", "striped", "--stripes", stripes, "--stripesize", &stripe])
            }
            None => words.extend(["--type", "linear"]),
        }
        match &size {
            Some(size) => words.extend(["--size", size]),
            None => words.extend(["--extents", "100%FREE"]),
        }
        words.push(&self.group);
        self.lvm("lvcreate", &words)
    }

    /// Takes the new room of a device.
    #[must_use]
    pub fn resize(&self, device: &str) -> CommandLine {
        self.lvm("pvresize", &["--yes", device])
    }

    /// Gives a volume all that is free.
    #[must_use]
    pub fn extend(&self, volume: &str) -> CommandLine {
        self.lvm("lvextend", &["--yes", "--extents", "+100%FREE", &format!("{}/{volume}", self.group)])
    }

    /// Exits with 0 if and only if LVM knows the group.
    #[must_use]
    pub fn known(&self) -> CommandLine {
        self.lvm("vgs", &["--noheadings", "-o", "vg_name", &self.group])
    }

    /// Removes the group with its volumes.
    #[must_use]
    pub fn remove(&self) -> CommandLine {
        self.lvm("vgremove", &["--yes", "--force", &self.group])
    }

    /// Wipes the label of a physical volume.
    #[must_use]
    pub fn forget(&self, device: &str) -> CommandLine {
        self.lvm("pvremove", &["--yes", "--force", device])
    }

    /// Lists the segments of the volumes, for [`super::report`].
    #[must_use]
    pub fn segments(&self) -> CommandLine {
        let fields = "lv_name,lv_size,segtype,stripes,stripe_size,seg_start,seg_size,devices";
        self.report("lvs", &["--segments", "-o", fields, &self.group])
    }

    /// Lists the physical volumes, for [`super::report`].
    #[must_use]
    pub fn physicals(&self) -> CommandLine {
        let fields = "pv_name,pv_uuid,pe_start,pv_size,vg_name,vg_uuid,vg_extent_size,vg_free_count";
        self.report("pvs", &["-o", fields])
    }

    fn report(&self, verb: &str, words: &[&str]) -> CommandLine {
        let plain = ["--reportformat", "json", "--units", "b", "--nosuffix"];
        self.lvm(verb, &[&plain[..], words].concat())
    }
}

/// `lvm.conf` of our own: no udev, no daemons, no backups in the host's folders, no file that lists
/// devices. `locks` is a folder of ours.
#[must_use]
pub fn configuration(locks: &Path) -> String {
    let locks = locks.display();
    format!(
        "devices {{ dir = \"/dev\" scan = [ \"/dev\" ] use_devicesfile = 0 hints = \"none\" \
         obtain_device_list_from_udev = 0 external_device_info_source = \"none\" \
         multipath_component_detection = 0 }}\n\
         global {{ locking_dir = \"{locks}\" use_lvmlockd = 0 use_lvmpolld = 0 notify_dbus = 0 \
         event_activation = 0 system_id_source = \"none\" }}\n\
         activation {{ udev_sync = 0 udev_rules = 0 verify_udev_operations = 0 monitoring = 0 }}\n\
         backup {{ backup = 0 archive = 0 }}\n\
         log {{ syslog = 0 }}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(name: &str, size: Option<u64>) -> Volume {
        Volume { name: name.into(), size: size.map(Bytes), stripes: None, stripe_size: None }
    }

    fn commands() -> Commands {
        Commands { system: "/s".into(), group: "vg".into(), devices: vec!["/dev/a".into(), "/dev/b".into()] }
    }

    #[test]
    fn without_volumes_there_is_one_over_all() {
        let plan = Plan::of(&Lvm::default(), 1).unwrap();
        assert_eq!((plan.extent, plan.used.as_str()), (Bytes(4 << 20), "all"));
        assert!(
            commands()
                .volume(&plan.volumes[0])
                .args
                .join(" ")
                .ends_with("--type linear --extents 100%FREE vg")
        );
    }

    #[test]
    fn the_last_volume_is_used_unless_one_is_named() {
        let spec = Lvm { volumes: vec![volume("one", Some(8 << 20)), volume("two", None)], ..Lvm::default() };
        assert_eq!(Plan::of(&spec, 1).unwrap().used, "two");
        assert_eq!(Plan::of(&Lvm { used: Some("one".into()), ..spec.clone() }, 1).unwrap().used, "one");
        let unknown = Plan::of(&Lvm { used: Some("three".into()), ..spec }, 1).unwrap_err();
        assert!(unknown.advice.unwrap().contains("one, two"));
    }

    #[test]
    fn a_group_is_stated_whole_and_sees_its_own_devices_only() {
        let plan = Plan::of(
            &Lvm { extent: Some(Bytes(6 << 20)), data_alignment: Some(Bytes(192 << 10)), ..Lvm::default() },
            2,
        )
        .unwrap();
        let physical = commands().physical(&plan, "/dev/a", "U");
        assert_eq!(physical.program, "env");
        assert_eq!(
            physical.args.join(" "),
            "LVM_SYSTEM_DIR=/s LVM_SUPPRESS_FD_WARNINGS=1 lvm pvcreate --devices /dev/a,/dev/b --yes --zero y \
             --norestorefile --uuid U --dataalignment 196608b /dev/a"
        );
        assert!(
            commands()
                .group(&plan)
                .args
                .join(" ")
                .ends_with("--physicalextentsize 6291456b vg /dev/a /dev/b")
        );
    }

    #[test]
    fn a_striped_volume_states_its_stripes() {
        let striped =
            Volume { stripes: Some(2), stripe_size: Some(Bytes(128 << 10)), ..volume("x", Some(8 << 20)) };
        let line = commands().volume(&striped).args.join(" ");
        assert!(line.contains("--type striped --stripes 2 --stripesize 131072b --size 8388608b"), "{line}");
    }

    #[test]
    fn what_no_group_can_be_is_refused_with_advice() {
        let refused = |spec: Lvm, devices: usize| {
            let reason = Plan::of(&spec, devices).unwrap_err();
            assert!(reason.advice.is_some(), "{reason:?}");
            reason.message
        };
        let with = |volumes: Vec<Volume>| Lvm { volumes, ..Lvm::default() };
        assert!(refused(Lvm { extent: Some(Bytes(1000)), ..Lvm::default() }, 1).contains("extent"));
        assert!(refused(Lvm { data_alignment: Some(Bytes(100)), ..Lvm::default() }, 1).contains("alignment"));
        assert!(refused(with(vec![volume("a", Some(1 << 20))]), 1).contains("no number of extents"));
        assert!(refused(with(vec![volume("a", None), volume("b", None)]), 1).contains("others follow"));
        let twice = || volume("a", Some(4 << 20));
        assert!(refused(with(vec![twice(), twice()]), 1).contains("two volumes"));
        assert!(refused(with(vec![volume("a-b", None)]), 1).contains("cannot name"));
        let striped = |stripes, stripe_size| Volume { stripes, stripe_size, ..volume("a", None) };
        assert!(refused(with(vec![striped(Some(2), None)]), 1).contains("2 stripes on 1 devices"));
        assert!(refused(with(vec![striped(None, Some(Bytes(65536)))]), 2).contains("no stripes"));
        assert!(refused(with(vec![striped(Some(2), Some(Bytes(1000)))]), 2).contains("stripe size"));
    }
}

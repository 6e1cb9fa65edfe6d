//! A mount as the record has it: its options in one list, and the read-ahead that its files get.

use std::fs;
use std::path::Path;

use fsdyno_spec::record::Mounted;
use fsdyno_spec::units::Bytes;

use crate::mountinfo::MountLine;
use crate::sysfs;

/// Of a line of mountinfo; `group` is the folder below /sys/fs of a file system on several devices. Without a
/// device of this host below it, what was mounted may name servers, users and folders, and so may whatever its
/// options are set to: records go to others, so they have neither.
pub fn mounted(line: &MountLine, group: Option<&Path>, on_device: bool) -> Mounted {
    let bdi = bdi(line, group);
    let read_ahead = sysfs::number(&Path::new("/sys/class/bdi").join(&bdi).join("read_ahead_kb")).ok();
    Mounted {
        point: line.point.to_string_lossy().into_owned(),
        source: if on_device { line.source.clone() } else { String::new() },
        fstype: line.fstype.clone(),
        options: options(line).into_iter().filter(|option| on_device || !option.contains('=')).collect(),
        read_ahead: read_ahead.and_then(|kib| kib.checked_mul(1024)).map(Bytes),
        bdi,
    }
}

/// Name below /sys/class/bdi of what decides on the read-ahead. Mostly that of the whole disk; drivers may
/// register their own and link it, or name it by the device's number or by their type and a count: then
/// only one that is alone can be told.
fn bdi(line: &MountLine, group: Option<&Path>) -> String {
    let linked = group.and_then(|group| fs::read_link(group.join("bdi")).ok());
    if let Some(name) = linked.as_deref().and_then(Path::file_name) {
        return name.to_string_lossy().into_owned();
    }
    let all = sysfs::names_in(Path::new("/sys/class/bdi"));
    if !all.contains(&line.device) {
        for prefix in [format!("{}-", line.device), format!("{}-", line.fstype)] {
            let mut fitting = all.iter().filter(|name| name.starts_with(&prefix));
            if let (Some(name), None) = (fitting.next(), fitting.next()) {
                return name.clone();
            }
        }
    }
    // A partition has none of its own.
    let disk =
        sysfs::name_of_number(&line.device).map(|name| sysfs::class(&sysfs::disk_of(&name)).join("dev"));
    disk.and_then(|number| sysfs::text(&number)).unwrap_or_else(|_| line.device.clone())
}

/// Options of the mount, then those of the file system, each once.
fn options(line: &MountLine) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for option in line.options.split(',').chain(line.super_options.split(',')) {
        if !option.is_empty() && !found.iter().any(|known| known == option) {
            found.push(option.to_string());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mountinfo;

    #[test]
    fn options_of_mount_and_file_system_are_one_list_without_repetitions() {
        let line = "36 35 98:0 / /mnt rw,noatime master:1 - x /dev/sda1 rw,data=ordered,noatime,stripe=48";
        let found = mounted(&mountinfo::parse(line).unwrap(), None, true);
        assert_eq!(found.options, ["rw", "noatime", "data=ordered", "stripe=48"]);
        assert_eq!((found.point.as_str(), found.source.as_str()), ("/mnt", "/dev/sda1"));
    }

    #[test]
    fn of_a_mount_on_no_device_nobodys_names_are_told() {
        let line =
            "36 35 0:50 / /mnt rw,relatime - nfs4 filer:/home/ann rw,soft,addr=10.0.0.7,clientaddr=10.0.0.8";
        let found = mounted(&mountinfo::parse(line).unwrap(), None, false);
        assert_eq!(found.options, ["rw", "relatime", "soft"]);
        assert_eq!((found.point.as_str(), found.source.as_str()), ("/mnt", ""));
    }

    #[test]
    fn the_read_ahead_of_the_root_is_that_of_its_device() {
        let mounts = mountinfo::read().unwrap();
        let Some(line) = mounts.iter().find(|line| !line.device.starts_with("0:")) else {
            eprintln!("SKIPPED: no block device is mounted here");
            return;
        };
        let found = mounted(line, None, true);
        let file = format!("/sys/class/bdi/{}/read_ahead_kb", found.bdi);
        let kib: u64 = fs::read_to_string(file).unwrap().trim().parse().unwrap();
        assert_eq!(found.read_ahead, Some(Bytes(kib * 1024)));
    }
}

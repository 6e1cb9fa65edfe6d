//! Who uses a device: mounts, and devices that hold it. A superblock on what others hold is theirs, or was
//! left there by somebody before them; and whatever is made anew on it takes it away from them.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::mountinfo::{self, MountLine};
use crate::sysfs;
use crate::walk::device::node;

/// Kernel names of the devices that hold one (`holders` in sysfs), in order.
pub fn holders(name: &str) -> Vec<String> {
    let mut names = sysfs::names_in(&sysfs::class(name).join("holders"));
    names.sort();
    names
}

/// Who uses a device or anything on it, in words: `mounted on /srv`, `held by /dev/mapper/vg0-data`, `/dev/md0p1
/// is mounted on /srv`. None if nobody does, as far as this process sees mounts.
pub fn users(name: &str) -> Vec<String> {
    let mounts = mountinfo::read().unwrap_or_default();
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut next = vec![name.to_string()];
    while let Some(at) = next.pop() {
        if !seen.insert(at.clone()) {
            continue;
        }
        let of = if at == name { String::new() } else { format!("{} is ", shown(&at)) };
        let number = sysfs::text(&sysfs::class(&at).join("dev")).unwrap_or_default();
        let on = mounts.iter().filter(|line| is_of(line, &number)).map(|line| line.point.display());
        found.extend(on.map(|point| format!("{of}mounted on {point}")));
        if swaps.lines().any(|line| line.split_whitespace().next().is_some_and(|file| is_node(file, &number)))
        {
            found.push(format!("{of}used as swap"));
        }
        let holding = holders(&at);
        if !holding.is_empty() {
            let holders: Vec<String> = holding.iter().map(|name| shown(name)).collect();
            found.push(format!("{of}held by {}", holders.join(", ")));
        }
        next.extend(holding);
        next.extend(sysfs::partitions(&at));
    }
    // Files in use count for more than what is made of devices.
    found.sort_by_key(|user| !user.contains("mounted on"));
    found
}

/// The node of a device, by the name that people gave it where there is one.
fn shown(name: &str) -> String {
    match sysfs::text(&sysfs::class(name).join("dm/name")) {
        Ok(mapped) if !mapped.is_empty() => format!("/dev/mapper/{mapped}"),
        _ => node(name),
    }
}

/// Whether the device of this number (`major:minor`) was mounted there. File systems on several devices have
/// numbers of their own.
fn is_of(line: &MountLine, number: &str) -> bool {
    line.device == number || (line.device.starts_with("0:") && is_node(&line.source, number))
}

/// Whether a path is a node of the device of this number. Only nodes below /dev are looked at.
fn is_node(path: &str, number: &str) -> bool {
    let path = Path::new(path);
    let shown = |device: u64| format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    path.starts_with("/dev") && fs::metadata(path).is_ok_and(|meta| shown(meta.rdev()) == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_of_a_mount_is_used_and_so_is_the_disk_that_it_is_on() {
        let mounts = mountinfo::read().unwrap();
        let Some(line) = mounts.iter().find(|line| !line.device.starts_with("0:")) else {
            eprintln!("SKIPPED: no block device is mounted here");
            return;
        };
        let name = sysfs::name_of_number(&line.device).unwrap();
        let told = format!("mounted on {}", line.point.display());
        assert!(users(&name).contains(&told), "{:?}", users(&name));
        let disk = sysfs::disk_of(&name);
        assert!(users(&disk).iter().any(|user| user.ends_with(&told)));
    }

    #[test]
    fn what_is_not_there_is_used_by_nobody() {
        assert_eq!((users("nothing9"), holders("nothing9")), (Vec::new(), Vec::new()));
    }
}

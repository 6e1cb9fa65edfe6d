//! What was asked for: a path is the mount that it is on, a block device is itself and wherever it is
//! mounted. From there, which devices the file system lies on.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use fsdyno_spec::outcome::Reason;
use rustix::fs::{major, minor};

use crate::mountinfo::{self, MountLine};
use crate::sysfs;

/// A target that was found.
#[derive(Debug)]
pub struct Found {
    /// The mount; none for a device that is not mounted.
    pub mount: Option<MountLine>,
    /// Whether it is a device; else a path.
    pub device: bool,
    /// Kernel names of the devices; the one that was asked for comes first.
    pub on: Vec<String>,
    /// Folder below /sys/fs of a file system that lies on several devices.
    pub group: Option<PathBuf>,
}

/// Finds it.
///
/// # Errors
/// If it is not there, may not be looked at, or is nothing that lies on a device.
pub fn find(target: &Path) -> Result<Found, Reason> {
    let meta = fs::metadata(target).map_err(|error| refused(target, &error))?;
    let kind = meta.file_type();
    if kind.is_block_device() {
        return device(target, meta.rdev());
    }
    if !kind.is_dir() && !kind.is_file() {
        return Err(Reason::new(format!(
            "{} is neither a file, a folder nor a block device",
            target.display()
        ))
        .advise("name a mount point, a path below it, or the node of a disk, array or volume"));
    }
    let mounts = mounts()?;
    let line = mount_of(target, &mounts).ok_or_else(|| {
        Reason::new(format!("no mount that this process sees holds {}", target.display()))
            .advise("ask in the mount namespace that the path is in")
    })?;
    let (on, group) = devices(&line);
    Ok(Found { mount: Some(line), device: false, on, group })
}

fn device(target: &Path, number: u64) -> Result<Found, Reason> {
    let name = sysfs::name_of(number).map_err(|_| {
        Reason::new(format!("no device is behind the node {}", target.display()))
            .advise("see what there is with lsblk, and name one of that")
    })?;
    if sysfs::number(&sysfs::class(&name).join("size")).is_ok_and(|sectors| sectors == 0) {
        return Err(Reason::new(format!("{} holds nothing: its size is 0", target.display()))
            .advise("attach, assemble or activate it first, or name another device"));
    }
    let shown = format!("{}:{}", major(number), minor(number));
    let mounts = mounts()?;
    let group = group_of(&name);
    let whole = group.as_deref().map(members).unwrap_or_default();
    let line = mounts.into_iter().find(|line| {
        let source = || source(line).is_some_and(|source| source == name || whole.contains(&source));
        line.device == shown || (is_anonymous(&line.device) && source())
    });
    let Some(line) = line else {
        return Ok(Found { mount: None, device: true, on: vec![name], group: None });
    };
    let rest = whole.into_iter().filter(|other| *other != name);
    let on = std::iter::once(name.clone()).chain(rest).collect();
    Ok(Found { mount: Some(line), device: true, on, group })
}

/// The mount that a path is on: by the number that the kernel gives an open descriptor
/// (`/proc/pid/fdinfo`, proc(5)), since a file system may show its files under other device numbers
/// than its own, and several mounts may lie on each other.
fn mount_of(target: &Path, mounts: &[MountLine]) -> Option<MountLine> {
    let flags = libc::O_PATH | libc::O_CLOEXEC;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(target).ok()?;
    let text = fs::read_to_string(format!("/proc/thread-self/fdinfo/{}", file.as_raw_fd())).ok()?;
    let id: u64 = text.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()?;
    mounts.iter().find(|line| line.id == id).cloned()
}

/// Kernel names of the devices of a mounted file system, and its folder below /sys/fs if that lists
/// them.
fn devices(line: &MountLine) -> (Vec<String>, Option<PathBuf>) {
    let name = match is_anonymous(&line.device) {
        false => sysfs::name_of_number(&line.device).ok(),
        true => source(line),
    };
    let Some(name) = name else { return (Vec::new(), None) };
    let Some(group) = group_of(&name) else { return (vec![name], None) };
    let rest = members(&group).into_iter().filter(|other| *other != name);
    (std::iter::once(name.clone()).chain(rest).collect(), Some(group))
}

/// Whether a device number stands for no device: the kernel gives those of major 0 to file systems.
fn is_anonymous(device: &str) -> bool {
    device.starts_with("0:")
}

/// Kernel name of the block device that was mounted; none if it was something else. Only nodes below
/// /dev are looked at: anything else may be a server's path.
fn source(line: &MountLine) -> Option<String> {
    let path = Path::new(&line.source);
    let meta = path.starts_with("/dev").then(|| fs::metadata(path).ok())??;
    meta.file_type().is_block_device().then(|| sysfs::name_of(meta.rdev()).ok())?
}

/// The folder below /sys/fs of the file system that a device is one of several of: it lists them in
/// `devices`.
fn group_of(name: &str) -> Option<PathBuf> {
    let below = |folder: &Path| -> Vec<PathBuf> {
        let mut found: Vec<_> = sysfs::names_in(folder).into_iter().map(|entry| folder.join(entry)).collect();
        found.sort();
        found
    };
    below(Path::new("/sys/fs"))
        .iter()
        .flat_map(|kind| below(kind))
        .find(|group| fs::symlink_metadata(group.join("devices").join(name)).is_ok())
}

fn members(group: &Path) -> Vec<String> {
    let mut names = sysfs::names_in(&group.join("devices"));
    names.sort();
    names
}

fn mounts() -> Result<Vec<MountLine>, Reason> {
    mountinfo::read().map_err(|error| {
        Reason::new(format!("the list of mounts cannot be read: {error}")).advise("mount /proc")
    })
}

fn refused(target: &Path, error: &io::Error) -> Reason {
    let shown = target.display();
    match error.kind() {
        io::ErrorKind::NotFound => Reason::new(format!("{shown} is not there"))
            .advise("name a mount point, a path below it, or a device (findmnt and lsblk list them)"),
        io::ErrorKind::PermissionDenied => Reason::new(format!("{shown} may not be looked at"))
            .advise("ask as root, or name the mount point above it"),
        _ => Reason::new(format!("{shown} cannot be looked at: {error}"))
            .advise("name the block device that it is on"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_on_no_device_is_refused_with_what_to_name() {
        for (path, word) in [("/dev/null", "neither"), ("/nowhere/at/all", "not there")] {
            let reason = find(Path::new(path)).unwrap_err();
            assert!(reason.message.contains(word), "{reason:?}");
            assert!(reason.advice.is_some());
        }
    }

    #[test]
    fn a_path_is_found_on_the_mount_that_it_is_on() {
        let proc = find(Path::new("/proc/self")).unwrap();
        assert_eq!(proc.mount.unwrap().fstype, "proc");
        assert!(proc.on.is_empty());
    }
}

//! Every reason not to write to a real disk. There is no way around them: no force, no wildcard.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::failure::Refused;
use crate::mountinfo;
use crate::sysfs::{self, BlockDevice};

const BY_ID: &str = "/dev/disk/by-id";

/// The device behind a link directly below /dev/disk/by-id.
///
/// # Errors
/// `Unsafe` for any other name, `Environment` if there is no such disk.
pub fn resolve(link: &Path) -> Result<BlockDevice, Refused> {
    let shown = link.display();
    let is_link = fs::symlink_metadata(link).map(|meta| meta.file_type().is_symlink());
    if link.parent() != Some(Path::new(BY_ID)) || matches!(is_link, Ok(false)) {
        return Err(Refused::unsafe_device(
            format!("{shown} is not a link directly below {BY_ID}"),
            format!("name the disk by its link there (`ls -l {BY_ID}`): other names move between disks"),
        ));
    }
    let absent = |error: io::Error| {
        Refused::environment(format!("{shown}: {error}"), format!("see what is there: `ls -l {BY_ID}`"))
    };
    let path = fs::canonicalize(link).map_err(absent)?;
    if !fs::metadata(&path).map_err(absent)?.file_type().is_block_device() {
        let message = format!("{shown} leads to {}, which is no block device", path.display());
        return Err(Refused::unsafe_device(message, "name a disk or a partition"));
    }
    BlockDevice::open(&path).map_err(absent)
}

/// The device, if the user named it in the plan and on the command line.
///
/// # Errors
/// `Unsafe` if `--destroy` does not name it.
pub fn named_twice(link: &Path, destroy: &[PathBuf]) -> Result<BlockDevice, Refused> {
    let device = resolve(link)?;
    if destroy.iter().any(|named| named == link) {
        return Ok(device);
    }
    Err(Refused::unsafe_device(
        format!("everything on {} would be lost, and --destroy does not name it", link.display()),
        format!("if that is meant, add: --destroy {}", link.display()),
    ))
}

/// Refuses a disk that anything uses: mounts, swap, stacked devices, loop devices, fstab; and one
/// with partitions, and a partition whose disk carries anything live.
///
/// # Errors
/// `Unsafe` with what was found.
pub fn nobody_uses(device: &BlockDevice) -> Result<(), Refused> {
    let disk = device.disk();
    let whole = disk == device.kernel_name;
    let parts = sysfs::partitions(&disk);
    if whole && !parts.is_empty() {
        let message = format!("{disk} has partitions: {}", parts.join(", "));
        return Err(Refused::unsafe_device(message, "name one partition of it, or remove them yourself"));
    }
    let mut family = vec![disk.clone()];
    family.extend(parts);
    for name in &family {
        if let Some(use_) = used(name) {
            let message = if *name == device.kernel_name {
                format!("{name} is in use: {use_}")
            } else {
                format!("{} shares a disk with {name}, which is in use: {use_}", device.kernel_name)
            };
            return Err(Refused::unsafe_device(message, "choose a disk that nothing uses, or end that use"));
        }
    }
    if let Some(line) = in_fstab(device) {
        let message = format!("{} is in /etc/fstab: `{line}`", device.path.display());
        return Err(Refused::unsafe_device(
            message,
            "choose another disk, or remove the line if it is obsolete",
        ));
    }
    Ok(())
}

/// What uses a disk or partition, if anything does.
fn used(name: &str) -> Option<String> {
    let is_it =
        |path: &str| number_of(Path::new(path)).is_some_and(|n| sysfs::name_of(n).is_ok_and(|k| k == name));
    let number = sysfs::text(&sysfs::class(name).join("dev")).ok()?;
    // Those of this thread and those of the host: they are apart once the rig has its own namespace.
    let mut mounts = mountinfo::read().unwrap_or_default();
    let host = fs::read_to_string("/proc/1/mountinfo").unwrap_or_default();
    mounts.extend(host.lines().filter_map(mountinfo::parse));
    if let Some(mount) = mounts.iter().find(|m| m.device == number || is_it(&m.source)) {
        return Some(format!("mounted on {}", mount.point.display()));
    }
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    if swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next()).any(is_it) {
        return Some("swap".to_string());
    }
    let holders = sysfs::names_in(&sysfs::class(name).join("holders"));
    if !holders.is_empty() {
        return Some(format!("part of {}", holders.join(", ")));
    }
    let loops = sysfs::names_in(Path::new("/sys/block"));
    let backs = |l: &String| sysfs::text(&sysfs::class(l).join("loop/backing_file")).is_ok_and(|f| is_it(&f));
    loops.iter().find(|l| backs(l)).map(|l| format!("backing of {l}"))
}

fn number_of(path: &Path) -> Option<u64> {
    let meta = fs::metadata(path).ok()?;
    meta.file_type().is_block_device().then(|| meta.rdev())
}

/// The line of fstab that means this device, by path or by any of udev's names.
fn in_fstab(device: &BlockDevice) -> Option<String> {
    let text = fs::read_to_string("/etc/fstab").unwrap_or_default();
    find_in_fstab(&text, |name| {
        number_of(name).is_some_and(|n| sysfs::name_of(n).is_ok_and(|k| k == device.kernel_name))
    })
}

fn find_in_fstab(text: &str, is_it: impl Fn(&Path) -> bool) -> Option<String> {
    let meant = |line: &&str| {
        let Some(first) = line.split_whitespace().next().filter(|word| !word.starts_with('#')) else {
            return false;
        };
        let path = match first.split_once('=') {
            Some((tag, value)) => {
                let value = value.trim_matches('"');
                Path::new("/dev/disk").join(format!("by-{}", tag.to_lowercase())).join(value)
            }
            None => PathBuf::from(first),
        };
        is_it(&path)
    };
    text.lines().find(meant).map(|line| line.trim().to_string())
}

/// Refuses a disk that carries anything, unless it is a file system that we made.
///
/// # Errors
/// `Unsafe` with what was found.
pub fn blank_or_ours(
    link: &Path,
    found: &[(String, String)],
    ours: impl Fn(&str) -> bool,
) -> Result<(), Refused> {
    let value = |key: &str| found.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
    if found.is_empty() || (value("PTTYPE").is_none() && value("UUID").is_some_and(&ours)) {
        return Ok(());
    }
    let kind = value("TYPE").or(value("PTTYPE")).unwrap_or("something unknown");
    let label = value("LABEL").map(|l| format!(", label {l}")).unwrap_or_default();
    let uuid = value("UUID").map(|u| format!(", UUID {u}")).unwrap_or_default();
    Err(Refused::unsafe_device(
        format!("{} carries {kind}{label}{uuid}, which fsdyno did not make", link.display()),
        format!("if it may be lost, erase it yourself: wipefs --all {}", link.display()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_spec::event::Refusal;

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
    }

    #[test]
    fn only_blank_disks_and_our_own_file_systems_are_taken() {
        let link = Path::new("/dev/disk/by-id/x");
        let judge = |list: &[(&str, &str)]| blank_or_ours(link, &pairs(list), |uuid| uuid == "mine");
        assert!(judge(&[]).is_ok());
        assert!(judge(&[("UUID", "mine"), ("TYPE", "ext4")]).is_ok());
        for foreign in [
            &[("UUID", "theirs"), ("TYPE", "ext4"), ("LABEL", "photos")][..],
            &[("TYPE", "LVM2_member")],
            &[("PTTYPE", "gpt")],
            &[("PTTYPE", "gpt"), ("UUID", "mine")],
        ] {
            let refused = judge(foreign).unwrap_err();
            assert_eq!(refused.refusal, Refusal::Unsafe);
            assert!(refused.reason.advice.unwrap().contains("wipefs"));
        }
    }

    #[test]
    fn fstab_is_understood_in_all_its_spellings() {
        let is_it = |wanted: &'static str| move |path: &Path| path == Path::new(wanted);
        let text = "# UUID=a / ext4\nUUID=\"a\" / ext4 defaults 0 1\nLABEL=b /b xfs\n/dev/sdc1 none swap\n";
        assert!(find_in_fstab(text, is_it("/dev/disk/by-uuid/a")).unwrap().starts_with("UUID=\"a\""));
        assert!(find_in_fstab(text, is_it("/dev/disk/by-label/b")).is_some());
        assert!(find_in_fstab(text, is_it("/dev/sdc1")).is_some());
        assert!(find_in_fstab(text, is_it("/dev/sdd")).is_none());
    }

    #[test]
    fn a_name_that_can_move_between_disks_is_refused() {
        let refused = resolve(Path::new("/dev/loop0")).unwrap_err();
        assert_eq!(refused.refusal, Refusal::Unsafe);
        assert!(resolve(Path::new("/dev/disk/by-id/../../loop0")).is_err());
    }
}

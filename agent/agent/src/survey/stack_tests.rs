//! What is added to a walk: from a medium where it may be read, from the mount alone where not.

use std::collections::BTreeMap;
use std::process::Command;

use fsdyno_spec::record::{Facts, FoundGeometry, LayerKind, StackLayer, Striped, StripedPiece};
use fsdyno_spec::units::Bytes;
use serde_json::json;

use super::*;

fn host(root: bool) -> Host {
    Host { root, ..host::host() }
}

/// A device that is a file: reading it needs no root and no loop device.
fn layer(node: &Path) -> StackLayer {
    StackLayer {
        name: "loop77".into(),
        node: node.display().to_string(),
        kind: LayerKind::Loop,
        size: Bytes::mib(64),
        queue: Facts::new(),
        facts: Facts::new(),
        below: Vec::new(),
        somewhere_on: Vec::new(),
    }
}

fn mount(fstype: &str, options: &[&str]) -> Mounted {
    Mounted {
        point: "/proc".into(),
        source: "none".into(),
        fstype: fstype.into(),
        options: options.iter().map(ToString::to_string).collect(),
        bdi: "0:0".into(),
        read_ahead: None,
    }
}

fn walked(node: &Path, mount: Option<Mounted>) -> Walked {
    let fstype = mount.as_ref().map(|mount| mount.fstype.clone());
    let whole = StripedPiece {
        start: Bytes(0),
        size: Bytes::mib(64),
        offset: Bytes(0),
        off: Bytes(0),
        off_chunk: Some(Bytes(0)),
    };
    let striped = Striped {
        on: "md0".into(),
        chunk: Bytes::kib(64),
        data_disks: 3,
        stripe: Bytes::kib(192),
        read_ahead: Some(Bytes::kib(384)),
        pieces: vec![whole],
        steps: Vec::new(),
    };
    Walked {
        target: node.display().to_string(),
        mount,
        fstype,
        on: vec!["loop77".into()],
        layers: vec![layer(node)],
        striped: vec![striped],
        ..Walked::default()
    }
}

/// An image with an ext4 of 1 KiB blocks that was told another array's stripe; none, and a visible line,
/// without mke2fs.
fn image() -> Option<(tempfile::TempDir, PathBuf)> {
    let Some(program) = fsdyno_stack::find_program("mke2fs") else {
        eprintln!("SKIPPED: mke2fs is not installed");
        return None;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let image = folder.path().join("device of mine");
    let made = Command::new(program)
        .args(["-q", "-F", "-t", "ext4", "-b", "4096", "-E", "stride=32,stripe_width=320"])
        .arg(&image)
        .arg("64m")
        .stdout(std::process::Stdio::null())
        .status();
    assert!(made.expect("mke2fs").success());
    Some((folder, image))
}

/// What could not be read of the stack; the timers are the host's.
fn unseen(record: &StackRecord) -> Vec<&str> {
    record.unseen.iter().map(|unseen| unseen.what.as_str()).filter(|what| *what != "timers").collect()
}

fn numbers(stride: u64, width: u64) -> BTreeMap<String, u64> {
    BTreeMap::from([("stride".to_string(), stride), ("stripe_width".to_string(), width)])
}

#[test]
fn a_device_that_is_not_mounted_tells_its_file_system_by_its_superblock() {
    let Some((_folder, image)) = image() else { return };
    let record = compose(walked(&image, None), host(true));
    let found = record.filesystem.as_ref().expect("an ext4");
    assert_eq!((found.kind.as_str(), found.known, record.fsdyno_record), ("ext4", true, RECORD));
    assert_eq!(found.superblock.as_ref().expect("read")["block_size"], json!(4096));
    assert_eq!((found.upkeep.mounts, &found.barriers, &found.space), (Some(0), &None, &None));
    let geometry = FoundGeometry { found: numbers(32, 320), expected: Some(numbers(16, 48)) };
    assert_eq!(found.geometry, Some(geometry));
    let told = format!("tune2fs -E stride=16,stripe_width=48 '{}'", image.display());
    assert_eq!(found.commands["tell_geometry"], told);
    assert_eq!(unseen(&record), [""; 0]);
    let again: StackRecord =
        serde_json::from_str(&serde_json::to_string(&record).expect("JSON")).expect("a record");
    assert_eq!(again, record);
}

/// That a record has no file system, and the only reason why.
fn reason_without(walked: Walked) -> Reason {
    let record = compose(walked, host(true));
    assert_eq!((&record.filesystem, unseen(&record)), (&None, vec!["superblock"]));
    assert_eq!(record.unseen[0].layer.as_deref(), Some("loop77"));
    record.unseen[0].reason.clone()
}

#[test]
fn a_device_without_a_file_system_that_is_known_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let image = folder.path().join("zeros");
    std::fs::write(&image, vec![0; 1 << 20]).expect("an image");
    let reason = reason_without(walked(&image, None));
    assert!(reason.message.starts_with("no file system that is known here"), "{reason:?}");
    assert!(reason.advice.is_some());
}

#[test]
fn a_device_that_fails_to_be_read_is_not_empty() {
    let folder = tempfile::tempdir().expect("a folder");
    // A folder can be opened, and not be read.
    let reason = reason_without(walked(folder.path(), None));
    assert!(reason.message.contains("cannot be read") && reason.message.contains("os error"), "{reason:?}");
}

#[test]
fn of_a_divided_disk_the_partitions_are_named() {
    let Some((_folder, image)) = image() else { return };
    let partitions = vec!["/dev/sda1".to_string(), "/dev/sda2".to_string()];
    let reason = reason_without(Walked { partitions, ..walked(&image, None) });
    assert!(reason.message.ends_with("is divided: /dev/sda1, /dev/sda2"), "{reason:?}");
    assert!(reason.advice.expect("advice").ends_with("audit /dev/sda1"));
}

#[test]
fn a_device_that_did_not_answer_once_is_not_asked_again() {
    let Some((_folder, image)) = image() else { return };
    let mut walked = walked(&image, Some(mount("ext4", &["rw"])));
    let reason = late(&image);
    walked.unseen.push(Unseen { what: "pv".into(), layer: Some("loop77".into()), reason: reason.clone() });
    let record = compose(walked, host(true));
    assert_eq!(unseen(&record), ["pv", "superblock", "pieces"]);
    assert!(record.unseen.iter().filter(|gap| gap.what != "timers").all(|gap| gap.reason == reason));
    assert_eq!(record.filesystem.map(|found| found.superblock), Some(None));
}

#[test]
fn a_physical_volume_is_not_taken_for_what_once_was_on_it() {
    let Some((_folder, image)) = image() else { return };
    let mut walked = walked(&image, None);
    walked.layers[0].facts.insert("pv_start".into(), json!(1 << 20));
    assert!(reason_without(walked).message.contains("physical volume of LVM"));
}

#[test]
fn where_the_way_to_a_stripe_is_not_known_nothing_is_expected() {
    let Some((_folder, image)) = image() else { return };
    let mut walked = walked(&image, None);
    walked.striped[0].pieces.clear();
    let found = compose(walked, host(true)).filesystem.expect("an ext4");
    assert_eq!(found.geometry, Some(FoundGeometry { found: numbers(32, 320), expected: None }));
    assert!(!found.commands.contains_key("tell_geometry"), "{:?}", found.commands);
}

#[test]
fn what_others_hold_is_not_taken_for_a_file_system() {
    let Some((_folder, image)) = image() else { return };
    let mut walked = walked(&image, None);
    walked.held = vec!["md0".into()];
    walked.layers[0].facts.insert("pv_start".into(), json!(1 << 20));
    let record = compose(walked, host(true));
    assert_eq!((&record.filesystem, unseen(&record)), (&None, vec!["superblock"]));
    assert!(record.unseen[0].reason.message.ends_with("is held by md0"), "{:?}", record.unseen);
}

#[test]
fn a_log_on_a_device_of_its_own_is_told_as_unseen() {
    let missing = Path::new("/does not exist");
    let shown = mount("xfs", &["rw", "logdev=/dev/sdz1"]);
    let record = compose(walked(missing, Some(shown)), host(true));
    let told: Vec<_> = record.unseen.iter().filter(|unseen| unseen.what == "layer").collect();
    assert_eq!(told.len(), 1, "{:?}", record.unseen);
    let message = &told[0].reason.message;
    assert!(message.contains("log") && message.contains("a device of its own"), "{message}");
}

#[test]
fn on_stripes_upon_stripes_nothing_is_expected() {
    let Some((_folder, image)) = image() else { return };
    let mut walked = walked(&image, None);
    let mut other = walked.striped[0].clone();
    (other.on, other.data_disks) = ("md1".into(), 4);
    walked.striped.push(other);
    let found = compose(walked, host(true)).filesystem.expect("an ext4");
    assert_eq!(found.geometry, Some(FoundGeometry { found: numbers(32, 320), expected: None }));
    assert!(!found.commands.contains_key("tell_geometry"), "{:?}", found.commands);
}

#[test]
fn a_user_gets_what_the_mount_shows_and_is_told_the_rest() {
    let Some((_folder, image)) = image() else { return };
    let shown = mount("ext4", &["rw", "nobarrier", "stripe=320"]);
    let record = compose(walked(&image, Some(shown)), host(false));
    let found = record.filesystem.as_ref().expect("an ext4");
    assert_eq!((found.kind.as_str(), found.known, &found.superblock), ("ext4", true, &None));
    assert_eq!(found.upkeep, Upkeep::default());
    let barriers = found.barriers.as_ref().expect("shown");
    assert_eq!((barriers.on, barriers.off_by.as_deref()), (false, Some("nobarrier")));
    assert_eq!(found.commands["barriers_on"], "mount -o remount,barrier=1 /proc");
    assert_eq!(found.geometry.as_ref().expect("shown").found["stripe_width"], 320);
    assert!(!found.commands.contains_key("tell_geometry"), "what it was made with is not known");
    assert!(found.space.is_some());
    assert!(unseen(&record).contains(&"superblock"), "{:?}", record.unseen);
    let reason = &record.unseen.iter().find(|unseen| unseen.what == "superblock").expect("told").reason;
    assert_eq!(reason.advice.as_deref(), Some(BECOME_ROOT));
}

#[test]
fn what_cannot_be_read_is_told_and_the_mount_still_speaks() {
    let missing = Path::new("/does not exist");
    let record = compose(walked(missing, Some(mount("xfs", &["rw"]))), host(true));
    assert_eq!(record.filesystem.as_ref().map(|found| found.known), Some(true));
    // /proc stands for the mount, and has no list of free space.
    assert_eq!(unseen(&record), ["superblock", "pieces"]);
}

#[test]
fn a_disk_that_is_known_to_hang_is_not_read() {
    let Some((_folder, image)) = image() else { return };
    let mut walked = walked(&image, None);
    walked.layers[0].facts.insert("suspended".into(), json!(true));
    let record = compose(walked, host(true));
    assert_eq!((&record.filesystem, unseen(&record)), (&None, vec!["superblock"]));
    assert!(record.unseen[0].reason.message.contains("suspended"));
}

#[test]
fn a_type_that_is_not_in_the_table_is_named_and_not_judged() {
    let walked = Walked {
        mount: Some(mount("overlay", &["rw"])),
        fstype: Some("overlay".into()),
        ..Walked::default()
    };
    let record = compose(walked, host(true));
    assert_eq!(unseen(&record), [""; 0]);
    let found = record.filesystem.expect("a mount");
    assert_eq!((found.kind.as_str(), found.known, found.barriers), ("overlay", false, None));
    assert!(found.space.is_some() && found.commands.is_empty());
}

/// Unmounts when dropped, however the test ends.
struct Unmount(PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_live_mount_is_read_down_to_its_loop_device_and_left_as_it_was() {
    let Some((folder, image)) = image() else { return };
    let point = folder.path().join("mount point");
    std::fs::create_dir(&point).expect("a folder");
    let mounted = Command::new("mount").args(["-o", "loop,nobarrier"]).args([&image, &point]).output();
    let mounted = mounted.expect("mount");
    if !mounted.status.success() {
        eprintln!("SKIPPED: {}", String::from_utf8_lossy(&mounted.stderr));
        return;
    }
    let _unmount = Unmount(point.clone());
    let mounts = || std::fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    let ours = |text: String| text.lines().filter(|line| line.contains("mount\\040point")).count();
    let before = ours(mounts());
    let record = stack(&point.join("lost+found")).expect("a stack");
    assert_eq!(ours(mounts()), before);
    assert_eq!(record.mount.as_ref().expect("mounted").point, point.display().to_string());
    assert_eq!(record.target, point.display().to_string(), "what lies below a mount is not for others");
    assert_eq!(record.layers[0].kind, LayerKind::Loop);
    let found = record.filesystem.as_ref().expect("an ext4");
    assert_eq!((found.kind.as_str(), found.upkeep.mounts), ("ext4", Some(1)));
    assert_eq!(found.barriers.as_ref().and_then(|barriers| barriers.off_by.as_deref()), Some("nobarrier"));
    let told = FoundGeometry { found: numbers(32, 320), expected: None };
    assert_eq!(found.geometry, Some(told), "a loop device has no stripe");
    let space = found.space.as_ref().expect("mounted");
    let pieces = space.pieces.as_ref().expect("listed");
    assert!(pieces.whole && pieces.bytes == space.free, "{space:?}");
    assert_eq!(unseen(&record), ["layer"], "what the file is on: {:?}", record.unseen);
    // The line that turns barriers on does.
    let line = &found.commands["barriers_on"];
    assert!(Command::new("/bin/sh").args(["-c", line]).status().expect("a shell").success(), "{line}");
    let again = stack(&point).expect("a stack").filesystem.expect("an ext4");
    assert!(again.barriers.expect("mounted").on && !again.commands.contains_key("barriers_on"));
}

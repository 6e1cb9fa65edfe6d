//! A journal, a log or data on a device of their own are seen by what the real tools make, and by the mount.

mod common;

use common::{Image, find, make, run};
use fsdyno_filesystems::{CommandLine, FileSystem, TABLE};
use fsdyno_spec::units::Bytes;

fn row(name: &str) -> &'static FileSystem {
    fsdyno_filesystems::find(name).expect("a row")
}

/// What lies elsewhere of a file system that this command makes; none if its program is missing.
fn made(name: &str, program: &str, args: &[&str], image: &Image) -> Option<Vec<String>> {
    let args = args.iter().copied().chain([image.name()]).map(ToString::to_string).collect();
    let output = run(&CommandLine { program: program.into(), args })?;
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    let superblock = row(name).superblock(&mut image.open()).expect("a superblock");
    Some(row(name).elsewhere(Some(&superblock.facts), &[]))
}

#[test]
fn of_what_mkfs_makes_by_itself_nothing_lies_elsewhere() {
    for fs in TABLE.iter().filter(|fs| fs.disk.is_some()) {
        let Some(image) = make(fs, &Default::default(), Bytes::mib(320)) else { continue };
        let superblock = fs.superblock(&mut image.open()).expect("a superblock");
        assert_eq!(fs.elsewhere(Some(&superblock.facts), &[]), [""; 0], "{}", fs.name);
    }
}

#[test]
fn a_log_on_another_device_is_seen_in_the_superblock() {
    let (image, other, third) =
        (Image::new(Bytes::mib(320)), Image::new(Bytes::mib(320)), Image::new(Bytes::mib(320)));
    let (log, data) = (format!("logdev={},size=64m", other.name()), format!("rtdev={}", third.name()));
    if let Some(found) = made("xfs", "mkfs.xfs", &["-q", "-f", "-l", &log, "-r", &data], &image) {
        assert_eq!(found, ["its log", "realtime data"]);
    }
    if let Some(found) = made("xfs", "mkfs.xfs", &["-q", "-f", "-l", &log], &image) {
        assert_eq!(found, ["its log"]);
    }
    if let Some(found) = made("jfs", "mkfs.jfs", &["-q", "-j", other.name()], &image) {
        assert_eq!(found, ["its log"]);
    }
    if let Some(found) = made("reiserfs", "mkfs.reiserfs", &["-q", "-ff", "-j", other.name()], &image) {
        assert_eq!(found, ["its journal"]);
    }
}

#[test]
fn a_journal_of_ext_on_another_device_is_seen_and_has_no_size_here() {
    let (image, other) = (Image::new(Bytes::mib(64)), Image::new(Bytes::mib(64)));
    let journal = CommandLine {
        program: "mke2fs".into(),
        args: ["-q", "-F", "-O", "journal_dev", other.name()].map(ToString::to_string).to_vec(),
    };
    // mke2fs takes only a block device for it.
    let losetup = ["--find", "--show", other.name()].map(ToString::to_string).to_vec();
    let (Some(_), Some(_), true) = (find("mke2fs"), run(&journal), common::can_mount()) else { return };
    let device = run(&CommandLine { program: "losetup".into(), args: losetup }).expect("beside mount");
    let device = String::from_utf8_lossy(&device.stdout).trim().to_string();
    let option = format!("device={device}");
    let found = made("ext4", "mke2fs", &["-q", "-F", "-t", "ext4", "-J", &option], &image);
    run(&CommandLine { program: "losetup".into(), args: vec!["-d".into(), device] }).expect("beside mount");
    assert_eq!(found.expect("it is installed"), ["its journal"]);
    let upkeep = row("ext4").upkeep(&mut image.open()).expect("upkeep");
    assert_eq!((upkeep.journal, upkeep.journal_usual), (None, None));
}

#[test]
fn without_the_superblock_the_mount_tells_what_it_shows() {
    let shown = ["rw", "logdev=/dev/sdb", "rtdev=/dev/sdc"].map(ToString::to_string);
    assert_eq!(row("xfs").elsewhere(None, &shown), ["its log", "realtime data"]);
    assert_eq!(row("ext4").elsewhere(None, &shown), [""; 0]);
    assert_eq!(row("tmpfs").elsewhere(None, &shown), [""; 0]);
}

//! A file system that nobody here made is told by its medium and its mount, and what mends it is a line
//! that a shell takes.

mod common;

use std::collections::BTreeMap;
use std::io::{Cursor, Read, Seek, SeekFrom};

use common::{Image, STRIPE, facts, given, make, row, run, words};
use fsdyno_filesystems::{CommandLine, Standing, TABLE, of_mount, probe};
use fsdyno_spec::record::Facts;
use fsdyno_spec::units::Bytes;
use serde_json::json;

#[test]
fn each_file_system_is_told_from_its_medium_alone() {
    for fs in TABLE.iter().filter(|fs| fs.disk.is_some()) {
        let Some(image) = make(fs, &Default::default(), Bytes::mib(320)) else { continue };
        let (found, superblock) = probe(&mut image.open()).expect("read").expect("a file system");
        assert_eq!(found.name, fs.name);
        assert_eq!(superblock.uuid, fs.identity_of(&image.uuid), "{}", fs.name);
        let named = of_mount(fs.name, Some(&mut image.open())).expect("a file system");
        assert_eq!((named.0.name, named.1.is_some()), (fs.name, true));
    }
    for length in [0, 511, 1 << 20] {
        assert!(probe(&mut Cursor::new(vec![0; length])).expect("read").is_none(), "{length} zeros");
    }
}

/// A medium that fails from a byte on, as disks do.
struct Failing(Cursor<Vec<u8>>, u64);

impl Read for Failing {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let fails = self.0.position() + buffer.len() as u64 > self.1;
        if fails { Err(std::io::Error::from_raw_os_error(5)) } else { self.0.read(buffer) }
    }
}

impl Seek for Failing {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.0.seek(to)
    }
}

#[test]
fn a_medium_that_cannot_be_read_is_not_taken_for_an_empty_one() {
    for from in [0, 4096] {
        let reason = probe(&mut Failing(Cursor::new(vec![0; 1 << 20]), from)).expect_err("it fails");
        assert!(reason.message.contains("os error 5") && reason.advice.is_some(), "{reason:?}");
    }
    // What is found in front of the bad part is found.
    let Some(image) = make(row("ext4"), &Default::default(), Bytes::mib(64)) else { return };
    let mut front = vec![0; 1 << 20];
    image.open().read_exact(&mut front).expect("the superblock");
    let found = probe(&mut Failing(Cursor::new(front), 64 << 10)).expect("read").expect("a file system");
    assert_eq!(found.0.name, "ext4");
}

#[test]
fn the_ext_family_is_told_apart_by_features_and_not_by_the_driver() {
    for (made, options, told) in [
        ("ext4", json!({"journal": false}), "ext4"),
        ("ext3", json!({"features": ["extent"]}), "ext4"),
        ("ext3", json!({}), "ext3"),
        ("ext2", json!({}), "ext2"),
        ("ext2", json!({"features": ["^resize_inode", "^dir_index"]}), "ext2"),
    ] {
        let options = row(made).options(&given(options)).expect("valid");
        let Some(image) = make(row(made), &options, Bytes::mib(64)) else { return };
        let found = of_mount("ext4", Some(&mut image.open())).expect("served by the driver ext4");
        assert_eq!(found.0.name, told, "made as {made}");
    }
}

#[test]
fn without_the_medium_the_drivers_name_tells_what_it_can() {
    let named = |fstype: &str| of_mount(fstype, None).map(|(row, _)| row.name);
    assert_eq!([named("ext4"), named("xfs"), named("tmpfs")], [Some("ext4"), Some("xfs"), Some("tmpfs")]);
    assert_eq!(named("ntfs3"), Some("ntfs"));
    for unknown in ["overlay", "fuseblk", "fuse", "nfs4", ""] {
        assert_eq!(named(unknown), None, "{unknown}: many file systems have that name");
    }
    let mut zeros = Cursor::new(vec![0; 1 << 20]);
    assert!(of_mount("overlay", Some(&mut zeros)).is_none());
}

#[test]
fn barriers_are_off_by_the_word_that_the_mount_shows_and_a_remount_takes_it_back() {
    for (name, shown, off_by, back) in [
        ("ext4", "rw,nobarrier", "nobarrier", "barrier=1"),
        ("ext3", "rw,barrier=0", "barrier=0", "barrier=1"),
        ("xfs", "rw,nobarrier", "nobarrier", "barrier"),
        ("btrfs", "rw,nobarrier", "nobarrier", "barrier"),
        ("reiserfs", "rw,barrier=none", "barrier=none", "barrier=flush"),
        ("nilfs2", "rw,nobarrier", "nobarrier", "barrier"),
        ("f2fs", "rw,fsync_mode=nobarrier", "fsync_mode=nobarrier", "fsync_mode=posix"),
    ] {
        let shown = words(shown);
        let barriers = row(name).ordered(&shown).expect("known");
        assert_eq!((barriers.on, barriers.off_by.as_deref()), (false, Some(off_by)), "{name}");
        let standing =
            Standing { device: "/dev/sda1", point: Some("/a b"), shown: &shown, ..Standing::default() };
        assert_eq!(row(name).commands(&standing)["barriers_on"], format!("mount -o remount,{back} '/a b'"));
    }
    // Linux 6.1 does not know the opposite of this one.
    let shown = words("rw,nobarrier,fsync_mode=nobarrier");
    let of = |point| {
        let standing =
            Standing { device: "/dev/sda1", point: Some(point), shown: &shown, ..Standing::default() };
        row("f2fs").commands(&standing)["barriers_on"].clone()
    };
    assert_eq!(
        of("/srv"),
        "# take nobarrier and fsync_mode=nobarrier out of its options in /etc/fstab, then: umount /srv && mount /srv"
    );
    assert!(of("/").contains("boot again"));
    for fs in TABLE.iter().filter(|fs| fs.disk.is_some() && fs.flushes) {
        let barriers = fs.ordered(&words("rw,barrier=flush,nobarriers")).expect("known");
        assert!(barriers.on && barriers.off_by.is_none(), "{}", fs.name);
    }
    let never = row("jfs").ordered(&words("rw")).expect("known");
    assert!(!never.on && never.off_by.expect("why").contains("never sends"));
    assert_eq!(row("tmpfs").ordered(&words("rw")), None);
}

#[test]
fn what_is_worked_with_is_the_mounts_word_before_the_superblocks() {
    let ext = facts(json!({"block_size": 4096, "stride": 16, "stripe_width": 48}));
    let xfs = facts(json!({"block_size": 4096, "sunit": 128, "swidth": 384}));
    let numbers = |pairs: &[(&str, u64)]| -> BTreeMap<String, u64> {
        pairs.iter().map(|(name, number)| ((*name).to_string(), *number)).collect()
    };
    let of = |name: &str, superblock: Option<&Facts>, shown: &str| {
        let shown = words(shown);
        let geometry = Some(&STRIPE);
        row(name).found_geometry(&Standing { superblock, shown: &shown, geometry, ..Standing::default() })
    };
    let found = of("ext4", Some(&ext), "rw").expect("it has one");
    assert_eq!(found.found, numbers(&[("stride", 16), ("stripe_width", 48)]));
    assert_eq!(found.expected.as_ref(), Some(&found.found));
    let told = of("ext4", Some(&ext), "rw,stripe=64").expect("it has one");
    assert_eq!(told.found, numbers(&[("stride", 16), ("stripe_width", 64)]));
    let told = of("xfs", Some(&xfs), "rw,sunit=256,swidth=768").expect("it has one");
    assert_eq!(told.found, numbers(&[("sunit", 256), ("swidth", 768)]));
    let ignored = of("xfs", Some(&xfs), "rw,noalign").expect("it has one");
    assert_eq!(ignored.found, numbers(&[("sunit", 0), ("swidth", 0)]));
    // Without root only the mount tells; of the rest nothing is expected.
    let shown = of("ext4", None, "rw,stripe=64").expect("shown");
    assert_eq!(
        (shown.found, shown.expected),
        (numbers(&[("stripe_width", 64)]), Some(numbers(&[("stripe_width", 48)])))
    );
    assert_eq!(of("ext4", None, "rw"), None);
    assert_eq!(of("btrfs", Some(&ext), "rw"), None);
}

#[test]
fn nothing_is_expected_of_one_that_mkfs_makes_without_a_stripe() {
    let of = |size: u64, sunit: u64, swidth: u64| {
        let superblock =
            facts(json!({"block_size": 4096, "size": size << 20, "sunit": sunit, "swidth": swidth}));
        let standing = Standing {
            device: "/dev/md0",
            superblock: Some(&superblock),
            geometry: Some(&STRIPE),
            ..Standing::default()
        };
        let found = row("xfs").found_geometry(&standing).expect("it has one");
        (found.expected.is_some(), row("xfs").commands(&standing).contains_key("tell_geometry"))
    };
    assert_eq!(of(504, 0, 0), (false, false));
    assert_eq!(of(520, 0, 0), (true, true));
    // One that has a stripe all the same, of a person who gave it other groups.
    assert_eq!(of(504, 256, 768), (true, true));
}

#[test]
fn each_checker_is_named_for_a_device_that_is_unmounted_first() {
    let of = |name: &str, point| {
        let standing = Standing { device: "/dev/sda1", point, ..Standing::default() };
        row(name).commands(&standing).remove("check")
    };
    assert_eq!(of("ext4", Some("/srv")).as_deref(), Some("umount /srv && e2fsck -f /dev/sda1"));
    assert_eq!(of("btrfs", None).as_deref(), Some("btrfs check --readonly /dev/sda1"));
    assert!(of("ext4", Some("/")).expect("a line").starts_with("# it is the root"));
    assert_eq!((of("nilfs2", None), of("tmpfs", Some("/tmp"))), (None, None));
}

#[test]
fn ext_tells_mounts_checks_and_errors_as_tune2fs_set_them() {
    let Some(image) = make(row("ext4"), &Default::default(), Bytes::mib(64)) else { return };
    let upkeep = || row("ext4").upkeep(&mut image.open()).expect("upkeep");
    let fresh = upkeep();
    assert_eq!((fresh.mounts, fresh.most_mounts, fresh.check_interval), (Some(0), None, None));
    assert_eq!((fresh.errors, fresh.smallest_write), (Some(0), Some(Bytes(1024))));
    assert_eq!(fresh.journal, Some(Bytes::mib(4)), "dumpe2fs says so too");
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock").as_secs();
    assert!(fresh.checked.is_some_and(|checked| checked <= now && checked + 3600 > now));
    tune(&image, &["-C", "17", "-c", "30", "-i", "180d", "-T", "20110115"]);
    let tuned = upkeep();
    assert_eq!(
        (tuned.mounts, tuned.most_mounts, tuned.check_interval),
        (Some(17), Some(30), Some(15_552_000))
    );
    assert!(tuned.checked.is_some_and(|checked| checked / (366 * 86400) == 40), "January 2011");
    tune(&image, &["-c", "-1", "-i", "0"]);
    assert_eq!((upkeep().most_mounts, upkeep().check_interval), (None, None));
}

fn tune(image: &Image, args: &[&str]) {
    let args = args.iter().copied().chain([image.name()]).map(ToString::to_string).collect();
    let output = run(&CommandLine { program: "tune2fs".into(), args }).expect("beside mke2fs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Makes an ext4 of so many blocks of 1 KiB in few inodes, with the journal that mke2fs chooses.
fn with_usual_journal(blocks: u64) -> Option<Image> {
    let image = Image::new(Bytes::kib(blocks));
    let args = ["-q", "-F", "-t", "ext4", "-b", "1024", "-N", "64", "-E", "nodiscard,lazy_journal_init=1"];
    let args = args.into_iter().chain([image.name()]).map(ToString::to_string).collect();
    let output = run(&CommandLine { program: "mke2fs".into(), args })?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(image)
}

#[test]
fn ext_tells_its_journal_against_what_mke2fs_makes_today() {
    // On both sides of each step.
    for limit in [32 << 10, 256 << 10, 512 << 10, 4096 << 10, 8192 << 10, 16384 << 10, 32768 << 10] {
        // The last group of the smaller one is not whole, but large enough to be kept.
        for blocks in [limit - 1024, limit + 1] {
            let Some(image) = with_usual_journal(blocks) else { return };
            let upkeep = row("ext4").upkeep(&mut image.open()).expect("upkeep");
            assert!(upkeep.journal.is_some_and(|size| size.0 >= 1 << 20), "{blocks} blocks: {upkeep:?}");
            assert_eq!(upkeep.journal, upkeep.journal_usual, "{blocks} blocks");
        }
    }
    // Without one by itself, and without one on purpose.
    for (blocks, arguments) in [(2040, None), (65536, Some("^has_journal"))] {
        let Some(image) = with_usual_journal(blocks) else { return };
        if let Some(feature) = arguments {
            tune(&image, &["-O", feature]);
        }
        let upkeep = row("ext2").upkeep(&mut image.open()).expect("upkeep");
        assert_eq!((upkeep.journal, upkeep.journal_usual), (None, None), "{blocks} blocks");
    }
}

#[test]
fn a_journal_that_is_smaller_than_todays_is_seen_beside_it() {
    let Some(image) = with_usual_journal(300 << 10) else { return };
    tune(&image, &["-O", "^has_journal"]);
    tune(&image, &["-J", "size=2"]);
    let upkeep = row("ext4").upkeep(&mut image.open()).expect("upkeep");
    assert_eq!((upkeep.journal, upkeep.journal_usual), (Some(Bytes::mib(2)), Some(Bytes::mib(8))));
}

#[test]
fn xfs_tells_its_log_against_what_is_made_today() {
    let Some(image) = make(row("xfs"), &Default::default(), Bytes::mib(300)) else { return };
    let mut bytes = vec![0; 4096];
    image.open().read_exact(&mut bytes).expect("the superblock");
    let upkeep = |bytes: &Vec<u8>| row("xfs").upkeep(&mut Cursor::new(bytes)).expect("upkeep");
    let usual = upkeep(&bytes);
    assert_eq!((usual.journal_usual, usual.smallest_write), (Some(Bytes::mib(64)), Some(Bytes(512))));
    assert!(usual.journal >= usual.journal_usual, "today's mkfs: {usual:?}");
    // Older mkfs made 10 MiB for this size, which today's refuses: `sb_logblocks` is at byte 96.
    bytes[96..100].copy_from_slice(&2560u32.to_be_bytes());
    assert_eq!(upkeep(&bytes).journal, Some(Bytes::mib(10)));
    // Of a device that today's does not take nothing is usual: `sb_dblocks` is at byte 8.
    bytes[8..16].copy_from_slice(&65536u64.to_be_bytes());
    assert_eq!(upkeep(&bytes).journal_usual, None);
}

#[test]
fn what_changes_with_each_check_is_no_part_of_what_mkfs_chose() {
    let Some(image) = make(row("ext4"), &Default::default(), Bytes::mib(64)) else { return };
    let chosen = || row("ext4").superblock(&mut image.open()).expect("a superblock");
    let before = chosen();
    tune(&image, &["-C", "17", "-T", "20110115"]);
    assert_eq!(chosen(), before);
}

#[test]
fn others_tell_what_their_superblock_has() {
    for (name, journal, smallest) in [
        ("btrfs", None, Some(4096)),
        ("f2fs", None, Some(4096)),
        ("jfs", Some(()), Some(4096)),
        ("reiserfs", Some(()), Some(4096)),
        ("nilfs2", None, Some(4096)),
        ("ntfs", None, None),
    ] {
        let Some(image) = make(row(name), &Default::default(), Bytes::mib(320)) else { continue };
        let upkeep = row(name).upkeep(&mut image.open()).expect("upkeep");
        assert_eq!(upkeep.journal.map(|size| assert!(size.0 >= 1 << 20, "{name}")), journal, "{name}");
        assert_eq!(upkeep.smallest_write.map(|size| size.0), smallest, "{name}");
        // reiserfsck -a checks after so many mounts; nothing checks the others for that.
        let most = (name == "reiserfs").then_some(30);
        assert_eq!((upkeep.most_mounts, upkeep.errors), (most, None), "{name}");
    }
    for fs in TABLE.iter().filter(|fs| fs.disk.is_some()) {
        assert!(fs.upkeep(&mut Cursor::new(vec![0; 1 << 20])).is_err(), "{}: noise", fs.name);
    }
}

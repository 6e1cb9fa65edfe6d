//! What mends a file system is a line that a shell takes and that does it; where a person must do more it is a
//! comment that says what, and that is true.

mod common;

use std::fs;
use std::process::Command;

use common::{Image, Mounted, STRIPE, can_mount, facts, given, kernel_has, make, make_told, row, words};
use fsdyno_filesystems::{Geometry, Here, Options, Standing, TABLE, Told};
use fsdyno_spec::record::Facts;
use fsdyno_spec::units::Bytes;
use serde_json::{Value, json};

/// What is no multiple of `STRIPE`, and the other way round.
const WIDE: Geometry = Geometry { chunk: Bytes::kib(512), data_disks: 2 };

#[test]
fn nothing_is_expected_where_nothing_is_striped() {
    let ext = facts(json!({"block_size": 4096, "stride": 16, "stripe_width": 48}));
    let standing = Standing { superblock: Some(&ext), ..Standing::default() };
    assert_eq!(row("ext4").found_geometry(&standing).expect("it has one").expected, None);
    assert!(!row("ext4").commands(&standing).contains_key("tell_geometry"));
}

/// The line for a file system on `STRIPE` that says of itself `superblock`.
fn mended(name: &str, superblock: Value, point: Option<&str>, shown: &str) -> Option<String> {
    let (superblock, shown) = (facts(superblock), words(shown));
    let standing = Standing {
        device: "/dev/md0",
        point,
        driver: Some(name),
        shown: &shown,
        superblock: Some(&superblock),
        geometry: Some(&STRIPE),
    };
    row(name).commands(&standing).remove("tell_geometry")
}

#[test]
fn ext_is_told_another_arrays_stripe_on_the_medium_and_where_it_is_mounted() {
    let ext = json!({"block_size": 4096, "stride": 32, "stripe_width": 320});
    let told = "tune2fs -E stride=16,stripe_width=48 /dev/md0";
    assert_eq!(mended("ext4", ext.clone(), None, "").as_deref(), Some(told));
    assert_eq!(
        mended("ext4", ext, Some("/a b"), "rw"),
        Some(format!("{told} && mount -o remount,stripe=48 '/a b'"))
    );
    let right = json!({"block_size": 4096, "stride": 16, "stripe_width": 48});
    assert_eq!(mended("ext4", right, Some("/"), "rw"), None);
}

/// An XFS whose allocation groups are that many chunks of `STRIPE`, made with this chunk.
fn xfs(sunit: u64, swidth: u64, chunks: u64) -> Value {
    json!({"block_size": 4096, "size": 1u64 << 40, "agblocks": 16 * chunks, "sunit": sunit, "swidth": swidth})
}

#[test]
fn xfs_is_told_by_its_line_of_fstab_as_a_mount_that_names_all_would_drop_the_rest_of_it() {
    let of = |point, shown| mended("xfs", xfs(256, 512, 1000), point, shown).expect("a line");
    let put = "# put sunit=128,swidth=384 into its options in /etc/fstab";
    assert_eq!(of(Some("/a b"), "rw"), format!("{put}, then: umount '/a b' && mount '/a b'"));
    assert_eq!(of(None, ""), format!("{put}, then mount it afresh"));
    assert_eq!(
        of(Some("/"), "rw"),
        format!("# it is the root: {}", put.trim_start_matches("# "))
            + " and rootflags= on the kernel's command line, then boot again"
    );
    let newline = of(Some("/a\nb"), "rw");
    assert_eq!(newline, format!("{put}, then mount it afresh"), "or its second line would be run");
}

#[test]
fn an_xfs_that_knows_its_stripe_is_mounted_without_what_says_another() {
    let line = mended("xfs", xfs(128, 384, 1000), Some("/srv"), "rw,sunit=256,swidth=512,noquota");
    let without =
        "# take sunit=256,swidth=512 out of its options in /etc/fstab, then: umount /srv && mount /srv";
    assert_eq!(line.as_deref(), Some(without));
}

#[test]
fn xfs_with_noalign_takes_no_stripe_before_that_is_gone() {
    let of = |made, shown| mended("xfs", made, Some("/srv"), shown).expect("a line");
    let then = "its options in /etc/fstab, then: umount /srv && mount /srv";
    assert_eq!(of(xfs(128, 384, 1000), "rw,noalign"), format!("# take noalign out of {then}"));
    let both = of(xfs(256, 512, 1000), "rw,noalign");
    assert_eq!(both, format!("# put sunit=128,swidth=384 in place of noalign into {then}"));
}

#[test]
fn xfs_that_no_mount_can_tell_is_made_anew() {
    let anew = "save its files, then mkfs.xfs -f -d su=65536,sw=3 /dev/md0";
    let of = |made| mended("xfs", made, Some("/srv"), "rw").expect("a line");
    assert_eq!(of(xfs(0, 0, 1000)), format!("# made without a stripe, it cannot be told one: {anew}"));
    // Groups of half a chunk more: made for chunks of 32 KiB.
    let odd = json!({"block_size": 4096, "size": 1u64 << 40, "agblocks": 16008, "sunit": 64, "swidth": 192});
    let told = of(odd);
    assert!(told.starts_with("# its allocation groups of") && told.ends_with(anew), "{told}");
    // Which mkfs.xfs would refuse on so small a device.
    let small = |mut made: Value| {
        made["size"] = json!(300 << 20);
        mended("xfs", made, Some("/srv"), "rw")
    };
    assert_eq!(small(xfs(0, 0, 1000)), None);
    assert!(small(xfs(64, 192, 1001)).is_some_and(|line| !line.contains("mkfs")));
}

/// What is told of an image that is mounted there.
fn told(image: &Image, mounted: &Mounted, geometry: &Geometry, purpose: &str) -> Option<String> {
    let fs = row(&mounted.fstype);
    let superblock = fs.superblock(&mut image.open()).expect("a superblock").facts;
    let shown = words(&mounted.super_options);
    let point = mounted.target.to_str().expect("a plain path");
    let standing = Standing {
        device: image.name(),
        point: Some(point),
        shown: &shown,
        superblock: Some(&superblock),
        geometry: Some(geometry),
        ..Standing::default()
    };
    fs.commands(&standing).remove(purpose)
}

/// Runs a line with a table of its own for `/etc/fstab`; what it printed as the error.
fn shell(line: &str, table: &str, folder: &std::path::Path) -> Result<(), String> {
    let fstab = folder.join("fstab");
    fs::write(&fstab, table).expect("a table");
    let output = Command::new("/bin/sh").args(["-c", line]).env("LIBMOUNT_FSTAB", &fstab).output();
    let output = output.expect("a shell");
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

#[test]
fn the_steps_that_xfs_is_told_by_really_tell_it_and_keep_its_other_options() {
    let xfs = row("xfs");
    if !can_mount() || !kernel_has(xfs) {
        return;
    }
    // Of this size each of the eight groups has 128 KiB more than 128 MiB, if the chunk allows it.
    let size = Bytes::mib(1025);
    for (made, wanted, takes) in [(WIDE, STRIPE, true), (STRIPE, WIDE, false)] {
        let Some(image) = make_told(xfs, &Options::default(), size, Told::This(&made)) else { return };
        let plan = xfs.mount(&Options::default(), image.name(), image.size, &Here::default());
        let mounted = Mounted::new(&plan, image.folder.path(), true).expect("a mount");
        let point = mounted.target.to_str().expect("a plain path").to_string();
        let line = told(&image, &mounted, &wanted, "tell_geometry").expect("it is told");
        let options = format!("sunit={},swidth={}", wanted.sunit(), wanted.swidth());
        let table = format!("{} {point} xfs loop,logbufs=4,{options} 0 0\n", image.name());
        let done = match line.split_once(", then: ") {
            Some((change, steps)) => {
                assert!(takes && change.contains(&options), "{line}");
                shell(steps, &table, image.folder.path())
            }
            None => {
                assert!(!takes && line.contains("mkfs.xfs -f"), "{line}");
                shell(&format!("umount {point} && mount {point}"), &table, image.folder.path())
            }
        };
        assert_eq!(done.is_ok(), takes, "{line}: {done:?}");
        if takes {
            let afresh = Mounted::at(mounted.target.clone());
            assert!(afresh.super_options.contains(&options), "{}", afresh.super_options);
            assert!(afresh.super_options.contains("logbufs=4"), "{}", afresh.super_options);
            assert_eq!(told(&image, &afresh, &wanted, "tell_geometry"), None);
        }
    }
}

#[test]
fn a_mount_that_discards_is_told_how_to_stop_by_what_its_type_takes() {
    let of = |name: &str, shown: &str, point| {
        let shown = words(shown);
        let standing = Standing { device: "/dev/sda1", point, shown: &shown, ..Standing::default() };
        row(name).commands(&standing).remove("discard_off")
    };
    for (name, shown) in
        [("ext4", "rw,discard"), ("btrfs", "rw,discard=async,space_cache=v2"), ("f2fs", "discard")]
    {
        let remount = Some("mount -o remount,nodiscard '/a b'".to_string());
        assert_eq!(of(name, shown, Some("/a b")), remount, "{name}");
        assert_eq!(of(name, "rw,nodiscard,discard_unit=block", Some("/a b")), None, "{name}");
    }
    let fresh = of("xfs", "rw,discard", Some("/srv")).expect("a line");
    assert_eq!(fresh, "# take discard out of its options in /etc/fstab, then: umount /srv && mount /srv");
    assert!(of("xfs", "rw,discard", Some("/")).expect("a line").contains("rootflags="));
}

#[test]
fn discards_end_by_the_line_that_is_told() {
    if !can_mount() {
        return;
    }
    for fs in TABLE.iter().filter(|fs| fs.disk.as_ref().is_some_and(|disk| disk.discard_off.is_some())) {
        let Ok(options) = fs.options(&given(json!({"extra_mount": ["discard"]}))) else { continue };
        if fs.name == "ntfs" || !kernel_has(fs) {
            continue;
        }
        let Some(image) = make(fs, &Options::default(), Bytes::mib(512)) else { continue };
        let plan = fs.mount(&options, image.name(), image.size, &Here::default());
        let mut mounted = Mounted::new(&plan, image.folder.path(), true).expect("a mount");
        if !mounted.can_discard() || !mounted.super_options.split(',').any(|word| word.starts_with("discard"))
        {
            eprintln!("SKIPPED: {} does not discard here: {}", fs.name, mounted.super_options);
            continue;
        }
        let line = told(&image, &mounted, &STRIPE, "discard_off").expect("it discards");
        let table = format!("{} {} {} loop 0 0\n", image.name(), mounted.target.display(), fs.fstype);
        if let Some((_, steps)) = line.split_once(", then: ") {
            // Why no remount is told: it succeeds and changes nothing.
            mounted.remount(&[("nodiscard".to_string(), None)]).expect("no error");
            assert!(mounted.super_options.contains("discard"), "{}", mounted.super_options);
            shell(steps, &table, image.folder.path()).expect("a fresh mount");
        } else {
            shell(&line, &table, image.folder.path()).expect("a remount");
        }
        let after = Mounted::at(mounted.target.clone());
        let on = after.super_options.split(',').any(|word| word.split('=').next() == Some("discard"));
        assert!(!on, "{}: {}", fs.name, after.super_options);
    }
}

#[test]
fn tune2fs_takes_the_line_and_nothing_is_left_to_mend() {
    let told = Told::None;
    let Some(image) = make_told(row("ext4"), &Options::default(), Bytes::mib(64), told) else { return };
    let read = || row("ext4").superblock(&mut image.open()).expect("a superblock").facts;
    let command = |superblock: &Facts| {
        let (superblock, geometry) = (Some(superblock), Some(&STRIPE));
        let standing = Standing { device: image.name(), superblock, geometry, ..Standing::default() };
        row("ext4").commands(&standing).remove("tell_geometry")
    };
    let line = command(&read()).expect("it was made without a stripe");
    let output = Command::new("/bin/sh").args(["-c", &format!("PATH=$PATH:/sbin:/usr/sbin {line}")]).output();
    assert!(output.expect("a shell").status.success(), "{line}");
    assert_eq!(command(&read()), None, "{line}");
}

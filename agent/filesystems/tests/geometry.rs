//! What mkfs is told of an array shows in the superblock, and a mounted file system is told as far as
//! it can be.

mod common;

use common::{Mounted, can_mount, given, kernel_has, make_told};
use fsdyno_filesystems::{FileSystem, Geometry, GeometryChoice, Here, TABLE, Target, Told, find};
use fsdyno_spec::array::Level;
use fsdyno_spec::units::Bytes;
use serde_json::{Value, json};

const RAID5: Geometry = Geometry { chunk: Bytes::kib(64), data_disks: 3 };

fn row(name: &str) -> &'static FileSystem {
    find(name).expect("a row")
}

/// The superblock's facts after mkfs was told this, proved against it; none if the tool is missing.
fn told(
    name: &str,
    options: Value,
    size: Bytes,
    told: Told<'_>,
) -> Option<std::collections::BTreeMap<String, Value>> {
    let fs = row(name);
    let options = fs.options(&given(options)).expect("valid options");
    let image = make_told(fs, &options, size, told)?;
    let superblock = fs.superblock(&mut image.open()).expect("a superblock");
    fs.verify_medium(&options, &image.uuid, size, &superblock, told).expect("as told");
    let other = Geometry { chunk: Bytes::kib(64), data_disks: 7 };
    let reason = fs.verify_medium(&options, &image.uuid, size, &superblock, Told::This(&other));
    assert!(reason.expect_err("another geometry").message.contains("geometry"), "{name}");
    Some(superblock.facts)
}

#[test]
fn published_cases_reach_the_superblock() {
    let raid6 = Geometry::of(Level::Raid6, 12, Some(Bytes::kib(128)), None).expect("valid").expect("striped");
    for name in ["ext2", "ext3", "ext4"] {
        let Some(found) = told(name, json!({}), Bytes::mib(1024), Told::This(&raid6)) else { continue };
        assert_eq!((&found["stride"], &found["stripe_width"]), (&json!(32), &json!(320)), "{name}");
        let Some(found) = told(name, json!({}), Bytes::mib(1024), Told::This(&RAID5)) else { continue };
        assert_eq!((&found["stride"], &found["stripe_width"]), (&json!(16), &json!(48)), "{name}");
    }
    let Some(found) = told("xfs", json!({}), Bytes::mib(2048), Told::This(&RAID5)) else { return };
    assert_eq!((&found["sunit"], &found["swidth"]), (&json!(128), &json!(384)));
}

#[test]
fn no_alignment_is_forced_and_read_back_as_zeros() {
    for (name, keys) in [
        ("ext2", ["stride", "stripe_width"]),
        ("ext4", ["stride", "stripe_width"]),
        ("xfs", ["sunit", "swidth"]),
    ] {
        let Some(found) = told(name, json!({}), Bytes::mib(1024), Told::None) else { continue };
        assert!(keys.iter().all(|key| found[*key] == json!(0)), "{name}: {found:?}");
    }
}

#[test]
fn no_alignment_is_asked_for_in_words_as_a_tool_would_else_take_what_it_detects() {
    // An image announces no array, so that the zeros read back from it do not prove this.
    let command = |name: &str, geometry| {
        let fs = row(name);
        let plain = Target::plain("/dev/md0", Bytes::mib(1024), common::UUID, false);
        fs.mkfs(&Default::default(), &Target { geometry, ..plain }).expect("a command").shell()
    };
    assert!(command("xfs", Told::None).contains("-d noalign"));
    assert!(command("ext4", Told::None).contains("stride=0,stripe_width=0"));
    for name in ["xfs", "ext4"] {
        let alone = command(name, Told::Nothing);
        assert!(["noalign", "su=", "stri"].iter().all(|word| !alone.contains(word)), "{alone}");
    }
}

#[test]
fn a_geometry_is_in_blocks_of_the_size_that_mke2fs_takes() {
    for (mib, block, stride) in [(64, 1024, 64), (511, 1024, 64), (512, 4096, 16), (1024, 4096, 16)] {
        let Some(found) = told("ext4", json!({}), Bytes::mib(mib), Told::This(&RAID5)) else { return };
        assert_eq!((&found["block_size"], &found["stride"]), (&json!(block), &json!(stride)), "{mib} MiB");
    }
    let asked = json!({ "block_size": 2048 });
    let Some(found) = told("ext4", asked, Bytes::mib(64), Told::This(&RAID5)) else { return };
    assert_eq!((&found["stride"], &found["stripe_width"]), (&json!(32), &json!(96)));
}

#[test]
fn a_block_size_that_is_hidden_in_extra_arguments_is_noticed() {
    let ext4 = row("ext4");
    let options = ext4.options(&given(json!({ "extra_mkfs": ["-b", "2048"] }))).expect("valid");
    let Some(image) = make_told(ext4, &options, Bytes::mib(1024), Told::This(&RAID5)) else { return };
    let superblock = ext4.superblock(&mut image.open()).expect("a superblock");
    let verified = ext4.verify_medium(&options, &image.uuid, image.size, &superblock, Told::This(&RAID5));
    let reason = verified.expect_err("strides of another block size");
    assert!(reason.message.contains("stride = 32") && reason.advice.expect("advice").contains("block_size"));
}

#[test]
fn what_a_superblock_cannot_hold_is_refused_before_mkfs_runs() {
    let command = |name: &str, options: Value, mib: u64, geometry: &Geometry| {
        let fs = row(name);
        let options = fs.options(&given(options)).expect("valid options");
        let plain = Target::plain("/dev/loop0", Bytes::mib(mib), common::UUID, false);
        fs.mkfs(&options, &Target { geometry: Told::This(geometry), ..plain })
    };
    let huge = Geometry { chunk: Bytes::mib(256), data_disks: 2 };
    assert!(command("ext4", json!({}), 1024, &huge).expect_err("too wide").message.contains("65535"));
    let small = Geometry { chunk: Bytes::kib(4), data_disks: 2 };
    assert!(command("ext4", json!({ "block_size": 4096 }), 1024, &small).is_ok());
    assert!(command("xfs", json!({}), 519, &RAID5).expect_err("no room").message.contains("needs a device"));
    assert!(command("xfs", json!({ "agcount": 2 }), 519, &RAID5).is_ok());
    let reason = command("btrfs", json!({}), 1024, &RAID5).expect_err("btrfs has none");
    assert!(reason.message.contains("cannot be told") && reason.advice.is_some());
}

#[test]
fn the_smallest_striped_xfs_is_really_made() {
    let Some(found) = told("xfs", json!({}), Bytes::mib(520), Told::This(&RAID5)) else { return };
    assert_eq!(found["sunit"], json!(128));
}

#[test]
fn a_plan_chooses_where_the_geometry_is_from() {
    for fs in TABLE.iter().filter(|fs| fs.disk.is_some()) {
        let takes = fs.disk.as_ref().is_some_and(|disk| disk.geometry.is_some());
        for (word, choice) in [
            ("detect", GeometryChoice::Detect),
            ("computed", GeometryChoice::Computed),
            ("none", GeometryChoice::None),
            ("declared", GeometryChoice::Declared),
        ] {
            let options = fs.options(&given(json!({ "geometry": word })));
            assert_eq!(options.is_ok(), takes, "{}", fs.name);
            assert!(!takes || fs.geometry_choice(&options.expect("valid")) == choice, "{}: {word}", fs.name);
        }
        assert_eq!(fs.geometry_choice(&Default::default()), GeometryChoice::Detect, "{}", fs.name);
    }
}

#[test]
fn a_mounted_ext_is_told_its_new_stripe() {
    for name in ["ext2", "ext3", "ext4"] {
        let fs = row(name);
        if !can_mount() || !kernel_has(fs) {
            continue;
        }
        let options = fs.options(&given(json!({}))).expect("valid");
        let Some(image) = make_told(fs, &options, Bytes::mib(1024), Told::This(&RAID5)) else { continue };
        let plan = fs.mount(&options, image.name(), image.size, &Here::default());
        let mut mounted = Mounted::new(&plan, image.folder.path(), true).expect("a mount");
        if fs.driver(&mounted.device).as_deref() != Some("ext4") {
            eprintln!("SKIPPED: {name} is not served by the ext4 driver, which alone takes stripe=");
            continue;
        }
        let grown = Geometry { data_disks: 4, ..RAID5 };
        let parameters = fs.tell_geometry(&grown, 4096).expect("it can be told");
        mounted.remount(&parameters).expect("a remount");
        assert!(
            mounted.super_options.split(',').any(|word| word == "stripe=64"),
            "{}",
            mounted.super_options
        );
    }
}

#[test]
fn xfs_takes_a_new_stripe_at_a_fresh_mount_only_and_only_if_made_with_one() {
    let xfs = row("xfs");
    let grown = Geometry { data_disks: 4, ..RAID5 };
    let reason = xfs.tell_geometry(&grown, 4096).expect_err("it cannot be told");
    assert!(reason.message.contains("ignores"), "{reason:?}");
    assert!(reason.advice.as_deref().unwrap_or_default().contains("sunit=128,swidth=512"), "{reason:?}");
    assert!(row("btrfs").tell_geometry(&grown, 4096).is_err());
    if !can_mount() || !kernel_has(xfs) {
        return;
    }
    let none = xfs.options(&given(json!({}))).expect("valid");
    let fresh = xfs.options(&given(json!({ "mount_sunit": 128, "mount_swidth": 512 }))).expect("valid");
    for (made_with, takes) in [(Told::This(&RAID5), true), (Told::None, false)] {
        let Some(image) = make_told(xfs, &none, Bytes::mib(1024), made_with) else { return };
        let plan = xfs.mount(&fresh, image.name(), image.size, &Here::default());
        let mounted = Mounted::new(&plan, image.folder.path(), true);
        assert_eq!(mounted.is_ok(), takes, "made with {made_with:?}");
        let Ok(mut mounted) = mounted else { continue };
        xfs.verify_mount(&fresh, &mounted.super_options, &mounted.mount_options).expect("taken");
        // Why `tell` does not try it: a remount succeeds and changes nothing.
        mounted.remount(&[("swidth".to_string(), Some("640".to_string()))]).expect("no error");
        assert!(mounted.super_options.contains("swidth=512"), "{}", mounted.super_options);
    }
}

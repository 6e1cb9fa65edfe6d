//! Mounts as planned are taken by the kernel, and a mount that lacks something is told.

mod common;

use common::{Image, Mounted, can_mount, given, kernel_has, make};
use fsdyno_filesystems::{BarrierOff, Barriers, FileSystem, Here, TABLE, find};
use fsdyno_spec::units::Bytes;
use serde_json::{Value, json};

/// Every mount option that a row has, one at a time and all values that matter.
const WANTED: &[(&str, &str)] = &[
    ("ext2", r#"{"barrier": false}"#),
    ("ext2", r#"{"barrier": true, "noatime": true}"#),
    ("ext3", r#"{"data": "journal", "commit": 30, "barrier": false}"#),
    ("ext3", r#"{"data": "ordered", "commit": 5, "barrier": true, "noatime": false}"#),
    ("ext4", r#"{"data": "writeback", "noatime": true, "commit": 1}"#),
    ("ext4", r#"{"journal": false, "extra_mount": ["stripe=16", "nodiratime"]}"#),
    ("xfs", r#"{"logbsize": 262144, "noatime": true, "extra_mount": ["discard", "nosuid"]}"#),
    ("xfs", r#"{"logbsize": 32768, "barrier": false}"#),
    ("btrfs", r#"{"barrier": false, "nodatacow": true}"#),
    ("btrfs", r#"{"barrier": true, "nodatacow": false, "extra_mount": ["compress=zstd", "commit=10"]}"#),
    ("ext2", r#"{"stripe": 48, "online_discard": true}"#),
    ("ext3", r#"{"stripe": 0, "journal_size": 4194304}"#),
    ("ext4", r#"{"stripe": 320, "delalloc": false, "online_discard": true}"#),
    ("ext4", r#"{"data": "journal", "delalloc": false, "online_discard": false}"#),
    ("xfs", r#"{"logbufs": 4, "allocsize": 1048576, "inode64": false, "largeio": true, "swalloc": true}"#),
    ("xfs", r#"{"inode64": true, "largeio": false, "swalloc": false, "online_discard": true}"#),
    ("xfs", r#"{"agcount": 2, "sunit": 128, "swidth": 384, "mount_sunit": 128, "mount_swidth": 512}"#),
    ("xfs", r#"{"block_size": 1024, "rmapbt": true, "reflink": false, "log_stripe_unit": 65536}"#),
    ("btrfs", r#"{"nodatasum": true, "ssd": "on", "online_discard": "sync", "commit": 10}"#),
    ("btrfs", r#"{"compress": "zstd", "ssd": "off", "online_discard": "async", "commit": 30}"#),
    ("btrfs", r#"{"compress": "zlib:5", "ssd": "spread", "online_discard": "off", "max_inline": 0}"#),
    ("btrfs", r#"{"compress_force": "lzo", "autodefrag": true, "max_inline": 2048, "thread_pool": 3}"#),
    ("btrfs", r#"{"space_cache": "v2", "autodefrag": false, "thread_pool": 4}"#),
    ("btrfs", r#"{"space_cache": "v1", "features": ["^free-space-tree"]}"#),
    ("btrfs", r#"{"space_cache": "no", "features": ["^free-space-tree"], "node_size": 4096}"#),
    ("jfs", r#"{"integrity": false, "noatime": true, "online_discard": true}"#),
    ("reiserfs", r#"{"barrier": false, "data": "journal", "commit": 10, "tail": "on"}"#),
    ("reiserfs", r#"{"barrier": true, "data": "writeback", "commit": 30, "tail": "notail"}"#),
    ("reiserfs", r#"{"data": "ordered", "tail": "small", "noatime": true}"#),
    ("nilfs2", r#"{"barrier": false, "order": "strict", "cleaner": false, "online_discard": true}"#),
    ("nilfs2", r#"{"barrier": true, "order": "relaxed", "cleaner": false, "online_discard": false}"#),
    ("f2fs", r#"{"barrier": false, "background_gc": "off", "fsync_mode": "strict"}"#),
    ("f2fs", r#"{"barrier": true, "background_gc": "sync", "online_discard": false, "noatime": true}"#),
    ("ntfs", r#"{"noatime": true, "driver": "ntfs-3g", "big_writes": true}"#),
    ("ntfs", r#"{"noatime": false, "cluster_size": 65536}"#),
    ("tmpfs", r#"{"noatime": true}"#),
];

/// The image is first, since what is named last is dropped first: its folder is not empty before the unmount.
fn mount(fs: &'static FileSystem, options: &Value) -> Option<Result<(Image, Mounted), String>> {
    if !can_mount() || !kernel_has(fs) {
        return None;
    }
    let options = fs.options(&given(options.clone())).expect("valid options");
    let image =
        if fs.disk.is_some() { make(fs, &options, Bytes::mib(320))? } else { Image::new(Bytes::mib(320)) };
    let plan = fs.mount(&options, image.name(), image.size, &Here::default());
    Some(Mounted::new(&plan, image.folder.path(), fs.disk.is_some()).map(|mounted| (image, mounted)))
}

#[test]
fn what_is_asked_for_is_taken_and_seen() {
    for (name, wanted) in WANTED {
        let fs = find(name).expect("a row");
        let wanted: Value = serde_json::from_str(wanted).expect("JSON");
        let Some(result) = mount(fs, &wanted) else { continue };
        let (_image, mounted) = result.expect("a mount");
        if wanted.to_string().contains("discard") && !mounted.can_discard() {
            continue;
        }
        let options = fs.options(&given(wanted)).expect("valid options");
        fs.verify_mount(&options, &mounted.super_options, &mounted.mount_options).expect("taken");
        let off = matches!(fs.barrier_off, Some(BarrierOff::MountOption(_)))
            && options.flag("barrier") == Some(false);
        let found = fs.barriers(&mounted.super_options, &mounted.mount_options, false);
        assert_eq!(found == Barriers::Off, off, "{name}: {}", mounted.super_options);
    }
}

#[test]
fn the_driver_that_serves_a_mount_is_proved() {
    for fs in TABLE {
        assert_eq!(fs.driver("no-such-device"), None, "{}", fs.name);
        let Some(result) = mount(fs, &json!({})) else { continue };
        let (_image, mounted) = result.expect("a mount");
        // ext2's own driver lists nothing in /sys/fs; memory has no device.
        let driver = fs.driver(&mounted.device).unwrap_or_else(|| mounted.fstype.clone());
        assert!(
            driver == fs.name
                || (fs.name.starts_with("ext") && driver == "ext4")
                || (fs.name == "ntfs" && driver == "ntfs-3g"),
            "{}: {driver}",
            fs.name
        );
        if ["ext3", "ext4", "xfs", "btrfs", "ntfs"].contains(&fs.name) {
            assert!(fs.driver(&mounted.device).is_some(), "{}", fs.name);
        }
    }
}

#[test]
fn what_the_kernel_did_not_take_is_named_with_what_it_has() {
    // Lines of mountinfo from real mounts (Linux 6.18) of the opposite.
    let cases = [
        ("ext4", json!({ "barrier": false }), "rw,data=writeback", "rw,relatime", "barrier = false"),
        ("ext4", json!({ "barrier": true }), "rw,nobarrier", "rw,relatime", "barrier = true"),
        ("ext4", json!({ "data": "ordered" }), "rw,nodelalloc,data=journal", "rw", "data = \"ordered\""),
        ("ext4", json!({ "data": "writeback" }), "rw", "rw,relatime", "data = \"writeback\""),
        ("ext3", json!({ "commit": 30 }), "rw", "rw,relatime", "commit = 30"),
        ("ext3", json!({ "commit": 5 }), "rw,commit=30", "rw,relatime", "commit = 5"),
        ("ext2", json!({ "noatime": true }), "rw", "rw,relatime", "noatime = true"),
        ("ext2", json!({ "noatime": false }), "rw", "rw,noatime", "noatime = false"),
        (
            "xfs",
            json!({ "logbsize": 262144 }),
            "rw,inode64,logbufs=8,logbsize=32k",
            "rw",
            "logbsize = 262144",
        ),
        ("btrfs", json!({ "barrier": false }), "rw,discard=async,space_cache=v2", "rw", "barrier = false"),
        ("btrfs", json!({ "nodatacow": true }), "rw,nodatasum", "rw,relatime", "nodatacow = true"),
        (
            "btrfs",
            json!({ "extra_mount": ["compress=zstd:9"] }),
            "rw,compress=zstd:3",
            "rw",
            "compress=zstd:9",
        ),
        ("btrfs", json!({ "extra_mount": ["compress=z"] }), "rw,compress=zstd:3", "rw", "compress=z"),
        ("xfs", json!({ "logbsize": 262144 }), "rw,inode64,noquota", "rw", "logbsize = 262144"),
        ("xfs", json!({ "extra_mount": ["discard"] }), "rw,inode64", "rw,relatime", "discard"),
        ("ext4", json!({ "stripe": 48 }), "rw,stripe=16", "rw", "stripe = 48"),
        ("ext4", json!({ "stripe": 48 }), "rw", "rw", "stripe = 48"),
        ("ext4", json!({ "delalloc": true }), "rw,nodelalloc", "rw", "delalloc = true"),
        ("ext4", json!({ "online_discard": true }), "rw", "rw", "online_discard = true"),
        ("xfs", json!({ "inode64": false }), "rw,inode64", "rw", "inode64 = false"),
        ("xfs", json!({ "allocsize": 1048576 }), "rw,allocsize=64k", "rw", "allocsize = 1048576"),
        (
            "xfs",
            json!({ "mount_sunit": 128, "mount_swidth": 512 }),
            "rw,sunit=128,swidth=384",
            "rw",
            "mount_swidth = 512",
        ),
        ("btrfs", json!({ "space_cache": "v2" }), "rw,space_cache", "rw", "space_cache = \"v2\""),
        ("btrfs", json!({ "online_discard": "off" }), "rw,discard=async", "rw", "online_discard = \"off\""),
        ("btrfs", json!({ "online_discard": "sync" }), "rw,discard=async", "rw", "online_discard = \"sync\""),
        ("btrfs", json!({ "ssd": "on" }), "rw,ssd_spread", "rw", "ssd = \"on\""),
        ("btrfs", json!({ "ssd": "off" }), "rw,space_cache=v2", "rw", "ssd = \"off\""),
        ("btrfs", json!({ "compress": "zstd" }), "rw,compress=zlib:3", "rw", "compress = \"zstd\""),
        ("btrfs", json!({ "compress": "zstd:1" }), "rw,compress=zstd:15", "rw", "compress = \"zstd:1\""),
        ("btrfs", json!({ "thread_pool": 3 }), "rw,thread_pool=5", "rw", "thread_pool = 3"),
        ("btrfs", json!({ "max_inline": 0 }), "rw", "rw", "max_inline = 0"),
    ];
    for (name, wanted, of_super, of_mount, named) in cases {
        let fs = find(name).expect("a row");
        let options = fs.options(&given(wanted.clone())).expect("valid options");
        let reason = fs.verify_mount(&options, of_super, of_mount).expect_err("not taken");
        assert!(reason.message.contains(named), "{name} {wanted}: {reason:?}");
        assert!(reason.message.contains(of_super) && reason.advice.is_some(), "{name} {wanted}: {reason:?}");
    }
}

#[test]
fn a_value_that_the_kernel_shows_in_another_unit_is_still_seen() {
    let xfs = find("xfs").expect("a row");
    let options = xfs.options(&given(json!({ "logbsize": 262144 }))).expect("valid options");
    xfs.verify_mount(&options, "rw,inode64,logbufs=8,logbsize=256k,noquota", "rw,relatime").expect("taken");
}

#[test]
fn an_option_that_the_kernel_silently_drops_is_noticed() {
    let btrfs = find("btrfs").expect("a row");
    let wanted = json!({ "nodatacow": true, "extra_mount": ["compress=zstd"] });
    let Some(result) = mount(btrfs, &wanted) else { return };
    let (_image, mounted) = result.expect("a mount");
    let options = btrfs.options(&given(wanted)).expect("valid options");
    let reason = btrfs.verify_mount(&options, &mounted.super_options, &mounted.mount_options);
    assert!(reason.expect_err("dropped").message.contains("nodatacow"));
}

#[test]
fn an_option_that_the_kernel_refuses_does_not_mount() {
    let Some(result) = mount(find("xfs").expect("a row"), &json!({ "extra_mount": ["nobarrier"] })) else {
        return;
    };
    assert!(result.is_err(), "XFS took nobarrier: it must be a mount option again");
}

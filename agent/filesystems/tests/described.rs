//! The table itself: complete, consistent, and strict about what it is given.

mod common;

use common::given;
use fsdyno_filesystems::{Here, KernelConfig, Role, TABLE, Target, find};
use fsdyno_spec::units::Bytes;
use serde_json::{Value, json};

#[test]
fn names_are_unique_and_every_option_explains_itself() {
    for (n, fs) in TABLE.iter().enumerate() {
        assert!(TABLE[..n].iter().all(|other| other.name != fs.name));
        assert!(!fs.summary.is_empty());
        for (k, option) in fs.options.iter().enumerate() {
            assert!(fs.options[..k].iter().all(|other| other.name != option.name), "{}", option.name);
            assert!(option.help.len() > 20 && option.help.ends_with('.'), "{}: {}", fs.name, option.name);
            assert!(["mkfs", "mount", "check"].contains(&option.rule.stage()));
            assert_ne!(option.name, "type", "it would hide the file system's own key");
        }
        assert_eq!(fs.info().options.len(), fs.options.len());
    }
}

#[test]
fn an_unknown_file_system_or_option_is_answered_with_those_that_exist() {
    let reason = find("ext5").expect_err("no such row");
    assert!(reason.advice.expect("advice").contains("ext4"));
    let ext4 = find("ext4").expect("a row");
    let reason = ext4.options(&given(json!({ "strid": 16 }))).expect_err("a typo");
    assert!(reason.message.contains("strid") && reason.advice.expect("advice").contains("stride"));
}

#[test]
fn wrong_values_are_refused_with_what_was_expected() {
    let cases: &[(&str, Value, &str)] = &[
        ("ext4", json!({ "stride": -1 }), "from 0 to 65535"),
        ("ext4", json!({ "stride": 65536 }), "from 0 to 65535"),
        ("ext4", json!({ "stride": 1.5 }), "whole number"),
        ("ext4", json!({ "stride": "16" }), "whole number"),
        ("ext4", json!({ "barrier": 0 }), "true or false"),
        ("ext4", json!({ "data": "none" }), "journal, ordered, writeback"),
        ("ext4", json!({ "commit": 0.5 }), "seconds"),
        ("ext4", json!({ "block_size": 3000 }), "4096"),
        ("ext4", json!({ "extra_mkfs": "-v" }), "list of strings"),
        ("ext4", json!({ "extra_mkfs": [""] }), "none of them empty"),
        ("xfs", json!({ "inode_size": 300 }), "512"),
        ("xfs", json!({ "logbsize": 100 }), "32768"),
        ("btrfs", json!({ "metadata": "raid1" }), "single, dup"),
        ("btrfs", json!({ "check_mode": "fast" }), "original, lowmem"),
        ("xfs", json!({ "check_ag_stride": 0 }), "from 1 to 256"),
        ("xfs", json!({ "check_memory": 1_000_000_000 }), "a multiple of 1 MiB"),
        ("ext4", json!({ "check_readahead": 1000 }), "a multiple of 1 KiB"),
    ];
    for (name, wanted, expected) in cases {
        let reason = find(name).expect("a row").options(&given(wanted.clone())).expect_err("refused");
        assert!(reason.advice.as_deref().unwrap_or_default().contains(expected), "{wanted}: {reason:?}");
    }
}

#[test]
fn combinations_that_cannot_be_are_refused() {
    let cases: &[(&str, Value)] = &[
        ("jfs", json!({ "log_size": 1_500_000 })),
        ("nilfs2", json!({ "segment_blocks": 100 })),
        ("nilfs2", json!({ "cleaner": false, "protection_period": 5 })),
        ("f2fs", json!({ "features": ["compression"] })),
        ("f2fs", json!({ "features": ["^quota"] })),
        ("ntfs", json!({ "cluster_size": 512, "sector_size": 4096 })),
        ("ntfs", json!({ "big_writes": true })),
        ("ntfs", json!({ "big_writes": true, "driver": "ntfs3" })),
        ("ext4", json!({ "journal": false, "data": "writeback" })),
        ("ext4", json!({ "journal": false, "commit": 30 })),
        ("ext4", json!({ "inode_size": 2048, "block_size": 1024 })),
        ("ext3", json!({ "stride": 16, "stripe_width": 40 })),
        ("ext2", json!({ "stride": 0, "stripe_width": 40 })),
        ("xfs", json!({ "sunit": 128 })),
        ("xfs", json!({ "swidth": 128 })),
        ("xfs", json!({ "sunit": 128, "swidth": 200 })),
        ("xfs", json!({ "sunit": 0, "swidth": 128 })),
        ("xfs", json!({ "sunit": 4, "swidth": 8 })),
        ("xfs", json!({ "mount_sunit": 128 })),
        ("xfs", json!({ "mount_sunit": 128, "mount_swidth": 200 })),
        ("xfs", json!({ "crc": false, "reflink": true })),
        ("xfs", json!({ "geometry": "computed", "sunit": 128, "swidth": 384 })),
        ("ext4", json!({ "geometry": "none", "stride": 0 })),
        ("ext2", json!({ "geometry": "declared", "stripe_width": 48 })),
        ("ext4", json!({ "journal": false, "journal_size": 4_194_304 })),
        ("ext3", json!({ "journal_size": 5_000_000 })),
        ("ext4", json!({ "data": "journal", "delalloc": true })),
        ("ext4", json!({ "features": ["extend"] })),
        ("ext4", json!({ "features": ["^has_journal"] })),
        ("ext4", json!({ "features": ["extent", "^extent"] })),
        ("btrfs", json!({ "features": ["no_holes"] })),
        ("btrfs", json!({ "nodatacow": true, "compress": "zstd" })),
        ("btrfs", json!({ "nodatasum": true, "compress_force": "lzo" })),
        ("btrfs", json!({ "nodatacow": true, "nodatasum": false })),
        ("btrfs", json!({ "compress": "lzo", "compress_force": "lzo" })),
        ("btrfs", json!({ "space_cache": "v1" })),
        ("btrfs", json!({ "space_cache": "no", "features": ["no-holes"] })),
    ];
    for (name, wanted) in cases {
        let reason = find(name).expect("a row").options(&given(wanted.clone())).expect_err("refused");
        assert!(reason.advice.is_some(), "{wanted}: {reason:?}");
    }
    for (name, wanted) in [
        ("ext4", json!({ "stride": 32, "stripe_width": 320 })),
        ("ext4", json!({ "stride": 0, "stripe_width": 0 })),
        ("xfs", json!({ "sunit": 0, "swidth": 0 })),
        ("xfs", json!({ "geometry": "detect", "sunit": 128, "swidth": 384 })),
        ("ext4", json!({ "geometry": "none", "stripe": 48 })),
        ("btrfs", json!({ "nodatacow": true, "nodatasum": true })),
    ] {
        assert!(find(name).expect("a row").options(&given(wanted.clone())).is_ok(), "{wanted}");
    }
}

#[test]
fn only_xfs_without_barriers_needs_the_queue() {
    for fs in TABLE.iter().filter(|fs| fs.barrier_off.is_some()) {
        for barrier in [true, false] {
            let options = fs.options(&given(json!({ "barrier": barrier }))).expect("valid");
            assert_eq!(fs.wants_write_through(&options), fs.name == "xfs" && !barrier, "{}", fs.name);
            assert!(!fs.wants_write_through(&Default::default()), "{}", fs.name);
        }
    }
}

#[test]
fn memory_has_nothing_to_make_or_check_and_its_size_is_a_mount_parameter() {
    let tmpfs = find("tmpfs").expect("a row");
    let none = Default::default();
    assert!(tmpfs.mkfs(&none, &Target::plain("", Bytes::mib(1), "", false)).is_err());
    assert!(tmpfs.check(Default::default(), &none, "").is_err());
    assert!(tmpfs.tools().is_empty());
    let plan = tmpfs.mount(&none, "/dev/loop0", Bytes::mib(100), &Here::default());
    assert_eq!(plan.params, [("size".to_string(), Some("104857600".to_string()))]);
    assert_eq!(plan.shell("/mnt"), "mount -t tmpfs -o size=104857600 tmpfs /mnt");
}

#[test]
fn nothing_is_discarded_forced_or_left_for_later_unless_asked_for() {
    let words = |name: &str, options: Value, force: bool| {
        let fs = find(name).expect("a row");
        let options = fs.options(&given(options)).expect("valid");
        fs.mkfs(&options, &Target::plain("/dev/loop0", Bytes::mib(512), common::UUID, force))
            .expect("a command")
            .shell()
    };
    let ext4 = words("ext4", json!({}), false);
    assert!(ext4.contains("-E lazy_itable_init=0,lazy_journal_init=0,nodiscard") && !ext4.contains("-F"));
    assert!(words("ext4", json!({ "discard": true }), true).contains("init=0,discard"));
    assert!(words("ext4", json!({ "journal": false }), true).contains("-F"));
    for name in ["xfs", "btrfs"] {
        let quiet = words(name, json!({}), false);
        assert!(quiet.contains(" -K ") && !quiet.contains(" -f "), "{quiet}");
        let asked = words(name, json!({ "discard": true }), true);
        assert!(!asked.contains(" -K ") && asked.contains(" -f "), "{asked}");
    }
}

#[test]
fn options_of_the_check_reach_its_command_line_in_its_units_and_no_other() {
    let commands = |name: &str, options: Value| {
        let fs = find(name).expect("a row");
        let options = fs.options(&given(options)).expect("valid");
        let target = Target::plain("/d", Bytes::mib(512), common::UUID, false);
        let mkfs = fs.mkfs(&options, &target).expect("a command").shell();
        let mount = fs.mount(&options, "/d", target.size, &Here::default()).shell("/m");
        (fs.check(Default::default(), &options, "/d").expect("a checker").shell(), mkfs, mount)
    };
    let xfs = json!({ "check_ag_stride": 4, "check_prefetch": false, "check_memory": 1_073_741_824 });
    for (name, options, check) in [
        ("btrfs", json!({}), "btrfs check --readonly /d"),
        ("btrfs", json!({ "check_mode": "lowmem" }), "btrfs check --readonly --mode lowmem /d"),
        ("btrfs", json!({ "check_data_csum": true }), "btrfs check --readonly --check-data-csum /d"),
        ("xfs", json!({ "check_prefetch": true }), "xfs_repair -n /d"),
        ("xfs", xfs, "xfs_repair -n -o ag_stride=4 -P -m 1024 /d"),
        ("ext4", json!({ "check_readahead": 0 }), "e2fsck -f -n -tt -E readahead_kb=0 /d"),
        ("ext2", json!({ "check_readahead": 8_388_608 }), "e2fsck -f -n -tt -E readahead_kb=8192 /d"),
        ("jfs", json!({}), "jfs_fsck -f -n /d"),
    ] {
        let (checked, mkfs, mount) = commands(name, options.clone());
        assert_eq!(checked, check, "{options}");
        let (_, plain_mkfs, plain_mount) = commands(name, json!({}));
        assert_eq!((mkfs, mount), (plain_mkfs, plain_mount), "{options}");
    }
}

#[test]
fn what_discards_by_itself_is_told_not_to() {
    let f2fs = find("f2fs").expect("a row");
    let words = |options: Value| {
        let options = f2fs.options(&given(options)).expect("valid");
        let target = Target::plain("/dev/loop0", Bytes::mib(512), common::UUID, false);
        let plan = f2fs.mount(&options, "/dev/loop0", target.size, &Here::default());
        (f2fs.mkfs(&options, &target).expect("a command").shell(), plan.shell("/mnt"))
    };
    let (mkfs, mount) = words(json!({}));
    assert!(mkfs.contains(" -t 0 ") && !mkfs.contains(" -f "), "{mkfs}");
    assert_eq!(mount, "mount -t f2fs -o nodiscard /dev/loop0 /mnt");
    let (mkfs, mount) = words(json!({ "discard": true, "online_discard": true }));
    assert!(mkfs.contains(" -t 1 "), "{mkfs}");
    assert_eq!(mount, "mount -t f2fs -o discard /dev/loop0 /mnt");
}

#[test]
fn the_driver_of_ntfs_is_the_kernels_where_it_has_one_and_else_a_program() {
    let ntfs = find("ntfs").expect("a row");
    let here = |names: &[&str]| Here {
        release: "6.1.0".into(),
        serves: names.iter().map(ToString::to_string).collect(),
        ..Here::default()
    };
    let plan = |options: Value, here: &Here| {
        let options = ntfs.options(&given(options)).expect("valid");
        (ntfs.mount(&options, "/dev/loop0", Bytes::mib(64), here), (ntfs.unsupported)(&options, here))
    };
    let (both, fuse, neither) = (here(&["ntfs3", "fuseblk"]), here(&["fuseblk"]), here(&["ext4"]));
    let (kernel, reason) = plan(json!({ "noatime": true }), &both);
    assert_eq!((kernel.shell("/m").as_str(), reason), ("mount -t ntfs3 -o noatime /dev/loop0 /m", None));
    assert_eq!(kernel.stated, [("served_by".to_string(), "ntfs3".to_string())]);
    let program = "ntfs-3g -o no_detach,big_writes,noatime /dev/loop0 /m &";
    let (helped, reason) = plan(json!({ "driver": "ntfs-3g", "big_writes": true, "noatime": true }), &both);
    assert_eq!((helped.shell("/m").as_str(), reason), (program, None));
    let (helped, reason) = plan(json!({}), &fuse);
    assert!(helped.helper.is_some() && reason.is_none());
    let (_, reason) = plan(json!({ "driver": "ntfs3" }), &fuse);
    let reason = reason.expect("no ntfs3 here");
    assert!(reason.message.contains("6.1.0") && reason.advice.expect("advice").contains("ntfs-3g"));
    assert!(plan(json!({}), &neither).1.is_some());
}

#[test]
fn the_cleaner_of_nilfs2_is_a_daemon_of_the_mount_and_no_mount_option() {
    let nilfs2 = find("nilfs2").expect("a row");
    let plan = |options: Value| {
        let options = nilfs2.options(&given(options)).expect("valid");
        nilfs2.mount(&options, "/dev/loop0", Bytes::mib(256), &Here::default())
    };
    let daemon = "nilfs_cleanerd -c \"$(mktemp)\" -p 60 /dev/loop0 /m";
    let with = plan(json!({ "protection_period": 60 }));
    assert_eq!(with.shell("/m"), format!("mount -t nilfs2 /dev/loop0 /m && {daemon}"));
    let without = plan(json!({ "cleaner": false }));
    assert_eq!(without.shell("/m"), "mount -t nilfs2 /dev/loop0 /m");
    assert_eq!(without.stated, [("cleaner".to_string(), "off".to_string())]);
}

#[test]
fn what_a_kernel_dropped_or_a_tool_lacks_is_told_with_its_version() {
    let none = Default::default();
    let on = |release: &str| Here { release: release.into(), ..Here::default() };
    let reiserfs = find("reiserfs").expect("a row");
    assert_eq!((reiserfs.unsupported)(&none, &on("6.12.9")), None);
    assert_eq!((reiserfs.unsupported)(&none, &Here::default()), None, "what is not known is not refused");
    let reason = (reiserfs.unsupported)(&none, &on("6.13.0-rc1")).expect("removed");
    assert!(reason.message.contains("6.13.0-rc1") && reason.advice.is_some());
    let f2fs = find("f2fs").expect("a row");
    let with =
        |line: &str| Here { tools: [("mkfs.f2fs".to_string(), line.to_string())].into(), ..Here::default() };
    assert_eq!((f2fs.unsupported)(&none, &with("mkfs.f2fs 1.15.0 (2022-05-13)")), None);
    assert!((f2fs.unsupported)(&none, &with("mkfs.f2fs 1.14.0 (2020-08-24)")).is_some());
}

#[test]
fn only_jfs_sends_no_flush() {
    for fs in TABLE.iter().filter(|fs| fs.disk.is_some()) {
        assert_eq!(fs.flushes, fs.name != "jfs", "{}", fs.name);
    }
}

#[test]
fn exit_codes_have_each_tools_own_meaning() {
    let meaning = |name: &str, code| find(name).expect("a row").exit_meaning(Role::Check, code);
    assert!(meaning("ext4", 0).ok && meaning("xfs", 0).ok && meaning("btrfs", 0).ok);
    assert!(meaning("ext4", 4).meaning.contains("left as they are"));
    assert_eq!(meaning("ext4", 12), meaning("ext4", 8), "of several bits the worst one speaks");
    assert_eq!(meaning("ext4", 128).meaning, "a shared library is missing");
    assert!(meaning("xfs", 1).meaning.contains("log"), "1 is also what a log without a replay gives");
    for fs in TABLE {
        for role in [Role::Mkfs, Role::Check] {
            let good: Vec<i32> = (-1..=256).filter(|&code| fs.exit_meaning(role, code).ok).collect();
            let has = fs.tools().iter().any(|(of, _)| *of == role);
            assert_eq!(good, if has { vec![0] } else { vec![] }, "{} {role:?}", fs.name);
        }
    }
}

#[test]
fn the_driver_is_foretold_from_the_kernels_configuration() {
    let hint = |name: &str, config: &str| {
        let fs = find(name).expect("a row");
        (fs.driver_hint)(&KernelConfig(config.to_string()))
    };
    let debian =
        "# CONFIG_EXT2_FS is not set\nCONFIG_EXT4_FS=m\nCONFIG_EXT4_USE_FOR_EXT2=y\nCONFIG_XFS_FS=m\n";
    assert_eq!(hint("ext2", debian).as_deref(), Some("ext4"));
    assert_eq!(hint("ext3", debian).as_deref(), Some("ext4"));
    assert_eq!(hint("xfs", debian).as_deref(), Some("xfs"));
    assert_eq!(hint("btrfs", debian), None);
    assert_eq!(hint("ext2", "CONFIG_EXT2_FS=y\nCONFIG_EXT4_FS=y\n").as_deref(), Some("ext2"));
    assert_eq!(hint("ext2", "CONFIG_EXT4_FS=y\n"), None);
    assert_eq!(hint("ext4", "CONFIG_EXT4_FS_POSIX_ACL=y\n"), None, "a longer symbol is another one");
}

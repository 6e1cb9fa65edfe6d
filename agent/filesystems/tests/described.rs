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
            assert!(["mkfs", "mount"].contains(&option.rule.stage()));
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
    ];
    for (name, wanted, expected) in cases {
        let reason = find(name).expect("a row").options(&given(wanted.clone())).expect_err("refused");
        assert!(reason.advice.as_deref().unwrap_or_default().contains(expected), "{wanted}: {reason:?}");
    }
}

#[test]
fn combinations_that_cannot_be_are_refused() {
    let cases: &[(&str, Value)] = &[
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
    assert!(tmpfs.check(Default::default(), "").is_err());
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
            assert_eq!(good, if fs.disk.is_some() { vec![0] } else { vec![] }, "{} {role:?}", fs.name);
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

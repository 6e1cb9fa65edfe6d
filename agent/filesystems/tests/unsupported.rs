//! What a kernel cannot do (any more) is known by table, with the version and what to do instead.

mod common;

use common::given;
use fsdyno_filesystems::{Here, KernelConfig, TABLE, find};
use fsdyno_spec::outcome::Reason;
use serde_json::{Value, json};

const DEBIAN: &str = "CONFIG_X86_64=y\nCONFIG_EXT4_FS=m\nCONFIG_XFS_FS=m\nCONFIG_XFS_SUPPORT_V4=y\n";
const NEWER: &str =
    "CONFIG_X86_64=y\nCONFIG_EXT4_FS=y\nCONFIG_XFS_FS=y\n# CONFIG_XFS_SUPPORT_V4 is not set\n";
const OWN_EXT2: &str = "CONFIG_X86_64=y\nCONFIG_EXT2_FS=y\nCONFIG_EXT4_FS=y\n";

fn here(release: &str, config: &str) -> Here {
    Here { release: release.to_string(), config: KernelConfig(config.to_string()), ..Here::default() }
}

fn cannot(name: &str, options: &Value, here: &Here) -> Option<Reason> {
    let fs = find(name).expect("a row");
    fs.cannot(&fs.options(&given(options.clone())).expect("valid options"), here)
}

#[test]
fn what_is_gone_or_not_yet_there_is_named_with_version_and_alternative() {
    let (old, new) = ("5.4.0-1-generic", "6.18.1");
    let cases = [
        ("xfs", json!({ "extra_mount": ["nobarrier"] }), new, NEWER, "4.19", "barrier = false"),
        ("xfs", json!({ "extra_mount": ["noatime", "barrier"] }), new, NEWER, "4.19", "leave it out"),
        ("xfs", json!({ "lazy_count": false }), new, DEBIAN, "3.2.3", "crc = false"),
        ("xfs", json!({ "inode_size": 256 }), new, DEBIAN, "3.2.3", "inode_size = 512"),
        ("xfs", json!({ "crc": false }), new, NEWER, "6.18.1", "CONFIG_XFS_SUPPORT_V4"),
        ("xfs", json!({ "block_size": 65536 }), "6.1.0-56-amd64", DEBIAN, "6.12", "4096"),
        ("ext4", json!({ "features": ["orphan_file"] }), old, DEBIAN, "5.15", "newer kernel"),
        ("ext3", json!({ "features": ["casefold"] }), "4.19.0", DEBIAN, "5.2", "newer kernel"),
        ("ext2", json!({ "stripe": 48 }), new, OWN_EXT2, "6.18.1", "ext4 driver"),
        ("ext2", json!({ "barrier": false }), new, OWN_EXT2, "6.18.1", "ext4 driver"),
        ("btrfs", json!({ "sector_size": 65536 }), new, NEWER, "6.18.1", "4096"),
        ("btrfs", json!({ "features": ["block-group-tree"] }), old, DEBIAN, "6.1", "newer kernel"),
        ("btrfs", json!({ "extra_mount": ["inode_cache"] }), new, NEWER, "5.11", "leave it out"),
    ];
    for (name, options, release, config, version, alternative) in cases {
        let reason =
            cannot(name, &options, &here(release, config)).unwrap_or_else(|| panic!("{name} {options}"));
        assert!(reason.message.contains(version), "{name} {options}: {reason:?}");
        assert!(
            reason.advice.as_deref().unwrap_or_default().contains(alternative),
            "{name} {options}: {reason:?}"
        );
    }
}

#[test]
fn what_is_there_is_not_refused() {
    let cases = [
        ("xfs", json!({ "crc": false, "lazy_count": false, "inode_size": 256 }), "6.1.0-56-amd64", DEBIAN),
        ("xfs", json!({ "crc": false }), "5.4.0", "CONFIG_XFS_FS=m\n"),
        ("xfs", json!({ "crc": false }), "6.18.1", ""),
        ("xfs", json!({ "barrier": false, "extra_mount": ["wsync"] }), "6.18.1", NEWER),
        ("xfs", json!({ "block_size": 65536 }), "6.18.1", NEWER),
        ("xfs", json!({ "block_size": 4096 }), "6.1.0", DEBIAN),
        ("ext4", json!({ "features": ["orphan_file", "casefold"] }), "6.1.0", DEBIAN),
        ("ext4", json!({ "features": ["^orphan_file"] }), "5.4.0", DEBIAN),
        ("ext2", json!({ "stripe": 48, "barrier": false }), "6.18.1", NEWER),
        ("btrfs", json!({ "sector_size": 65536 }), "6.6.0", "CONFIG_PPC64=y\nCONFIG_PAGE_SIZE_64KB=y\n"),
    ];
    for (name, options, release, config) in cases {
        assert_eq!(cannot(name, &options, &here(release, config)), None, "{name} {options}");
    }
    for fs in TABLE {
        assert_eq!(cannot(fs.name, &json!({}), &Here::default()), None, "{}: nothing is known here", fs.name);
    }
}

#[test]
fn a_kernel_without_the_file_system_is_named() {
    let mut poor = here("6.18.1", NEWER);
    poor.serves = ["tmpfs".to_string(), "ext4".to_string()].into();
    let reason = cannot("btrfs", &json!({}), &poor).expect("it has none");
    assert!(reason.message.contains("6.18.1") && reason.message.contains("btrfs"), "{reason:?}");
    assert!(reason.advice.expect("advice").contains("guest"));
    assert_eq!(cannot("tmpfs", &json!({}), &poor), None);
    assert_eq!(cannot("ext4", &json!({}), &poor), None);
}

#[test]
fn this_kernel_refuses_what_the_table_says() {
    let Ok(release) = std::fs::read_to_string("/proc/sys/kernel/osrelease") else { return };
    let here = here(release.trim(), "");
    let xfs = find("xfs").expect("a row");
    if !common::can_mount() || !common::kernel_has(xfs) {
        return;
    }
    for word in ["nobarrier", "barrier"] {
        let options = xfs.options(&given(json!({ "extra_mount": [word] }))).expect("valid");
        assert!(xfs.cannot(&options, &here).is_some(), "{word} on {}", here.release);
        let Some(image) = common::make(xfs, &options, fsdyno_spec::units::Bytes::mib(320)) else { return };
        let plan = xfs.mount(&options, image.name(), image.size, &here);
        assert!(common::Mounted::new(&plan, image.folder.path(), true).is_err(), "the kernel took {word}");
    }
}

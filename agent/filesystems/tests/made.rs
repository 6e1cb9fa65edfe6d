//! The real tools take our arguments, and the medium then says what was asked for.

mod common;

use common::{Image, UUID, given, make, run};
use fsdyno_filesystems::{FileSystem, Kind, Options, Role, TABLE, Target, Told, find};
use fsdyno_spec::trial::CheckMode;
use fsdyno_spec::units::Bytes;
use serde_json::{Value, json};

fn on_disk() -> impl Iterator<Item = &'static FileSystem> {
    TABLE.iter().copied().filter(|fs| fs.disk.is_some())
}

fn row(name: &str) -> &'static FileSystem {
    find(name).expect("a row")
}

/// What the superblock says after mkfs with these options; none if the tool is missing.
fn facts(name: &str, options: Value, size: Bytes) -> Option<std::collections::BTreeMap<String, Value>> {
    let fs = row(name);
    let options = fs.options(&given(options)).expect("valid options");
    let image = make(fs, &options, size)?;
    let superblock = fs.superblock(&mut image.open()).expect("a superblock");
    fs.verify_medium(&options, &image.uuid, size, &superblock, Told::Nothing).expect("as asked");
    Some(superblock.facts)
}

#[test]
fn every_row_is_made_with_its_defaults_carries_our_uuid_and_passes_its_check() {
    for fs in on_disk() {
        let size = Bytes::mib(512);
        let options = fs.options(&given(json!({}))).expect("no options");
        let Some(image) = make(fs, &options, size) else { continue };
        let superblock = fs.superblock(&mut image.open()).expect("a superblock");
        assert_eq!(superblock.uuid, fs.identity_of(&image.uuid), "{}", fs.name);
        assert_eq!(superblock.facts["size"], json!(size.0), "{}", fs.name);
        fs.verify_medium(&options, &image.uuid, size, &superblock, Told::Nothing).expect("as asked");

        let before = std::fs::read(&image.path).expect("the image");
        let Some(output) = check(fs, &options, &image) else { continue };
        let verdict = fs.exit_meaning(Role::Check, output.status.code().unwrap_or(-1));
        assert!(verdict.ok, "{}: {}", fs.name, verdict.meaning);
        let mut after = std::fs::read(&image.path).expect("the image");
        // What its note says that it writes: the log that was the last, the time of the check.
        let own = match fs.name {
            "jfs" => 32768 + 100..32768 + 101,
            "reiserfs" => 65536 + 120..65536 + 124,
            _ => 0..0,
        };
        after[own.clone()].copy_from_slice(&before[own]);
        assert!(before == after, "{}: the check wrote", fs.name);
    }
}

/// Runs the check of a row; none, and a visible line, where there is none.
fn check(fs: &FileSystem, options: &Options, image: &Image) -> Option<std::process::Output> {
    match fs.check(CheckMode::Full, options, image.name()) {
        Ok(command) => run(&command),
        Err(reason) => {
            assert!(reason.message.contains("exists"), "{reason:?}");
            eprintln!("SKIPPED: {}: {}", fs.name, reason.message);
            None
        }
    }
}

#[test]
fn every_option_of_a_check_is_taken_by_the_real_checker_which_still_changes_nothing() {
    for fs in on_disk() {
        let rows: Vec<_> = fs.options.iter().filter(|row| row.rule.stage() == "check").collect();
        if rows.is_empty() {
            continue;
        }
        let Some(image) = make(fs, &Options::default(), Bytes::mib(512)) else { continue };
        let before = std::fs::read(&image.path).expect("the image");
        for row in rows {
            for value in values(&row.kind) {
                let asked = json!({ row.name: value });
                let options = fs.options(&given(asked.clone())).expect("valid");
                let Some(output) = check(fs, &options, &image) else { continue };
                let verdict = fs.exit_meaning(Role::Check, output.status.code().unwrap_or(-1));
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(verdict.ok, "{} {asked}: {}: {said}", fs.name, verdict.meaning);
            }
        }
        assert!(before == std::fs::read(&image.path).expect("the image"), "{}: a check wrote", fs.name);
    }
}

/// Values to try of an option of the check: all words, both flags, the ends of a range. Of sizes, which are
/// memory, none and much: less than a check needs is an error of its own.
fn values(kind: &Kind) -> Vec<Value> {
    match *kind {
        Kind::Word(words) => words.iter().map(|word| json!(word)).collect(),
        Kind::Flag(_) | Kind::Switch => vec![json!(true), json!(false)],
        Kind::Number(from, to) => vec![json!(from), json!(to)],
        Kind::Size(0, _) => vec![json!(0), json!(1 << 30)],
        Kind::Size(..) => vec![json!(1 << 30)],
        ref other => panic!("how to try {other:?}"),
    }
}

#[test]
fn a_check_with_less_memory_than_it_needs_is_no_good_check() {
    let xfs = row("xfs");
    let options = xfs.options(&given(json!({ "check_memory": 1 << 20 }))).expect("valid");
    let Some(image) = make(xfs, &options, Bytes::mib(512)) else { return };
    let output = check(xfs, &options, &image).expect("a checker");
    let verdict = xfs.exit_meaning(Role::Check, output.status.code().unwrap_or(-1));
    assert!(!verdict.ok, "{}", verdict.meaning);
}

#[test]
fn the_minimum_size_is_taken_and_less_is_refused_before_the_tool_runs() {
    for fs in on_disk() {
        let minimum = fs.disk.as_ref().expect("a disk").minimum_size;
        let options = fs.options(&given(json!({}))).expect("no options");
        let Some(image) = make(fs, &options, minimum) else { continue };
        let superblock = fs.superblock(&mut image.open()).expect("a superblock");
        fs.verify_medium(&options, &image.uuid, minimum, &superblock, Told::Nothing)
            .expect("whole at its minimum");
        let less = fs
            .mkfs(&options, &Target::plain("/nowhere", Bytes(minimum.0 - 1), UUID, true))
            .expect_err("too small");
        assert!(less.message.contains("needs a device of") && less.advice.is_some());
    }
}

#[test]
fn ext_options_are_read_back_from_the_superblock() {
    let asked = json!({
        "block_size": 4096, "inode_size": 512, "bytes_per_inode": 65536, "reserved_blocks": 1,
        "stride": 16, "stripe_width": 48,
    });
    for name in ["ext2", "ext3", "ext4"] {
        let Some(found) = facts(name, asked.clone(), Bytes::mib(256)) else { continue };
        for key in ["block_size", "inode_size", "reserved_blocks", "stride", "stripe_width"] {
            assert_eq!(found[key], asked[key], "{name}: {key}");
        }
        // 256 MiB are 65536 blocks of 4 KiB; the option is percent of them, the count is beside it.
        assert_eq!(found["reserved_blocks_count"], json!(655), "{name}");
        assert_eq!(found["inodes"], json!((256 << 20) / 65536), "{name}");
        assert_eq!(found["journal"], json!(name != "ext2"), "{name}");
        let features: Vec<_> = found["features"].as_array().expect("a list").iter().collect();
        assert_eq!(features.contains(&&json!("extent")), name == "ext4", "{name}: {features:?}");
        assert!(!features.iter().any(|f| f.as_str().unwrap_or_default().contains(':')), "{features:?}");
    }
}

#[test]
fn the_journal_of_ext4_has_its_size_and_can_be_left_out() {
    let Some(found) = facts("ext4", json!({ "extra_mkfs": ["-J", "size=16"] }), Bytes::mib(512)) else {
        return;
    };
    assert_eq!(found["journal_size"], json!(16 << 20));
    let Some(found) = facts("ext4", json!({ "journal": false }), Bytes::mib(512)) else { return };
    assert_eq!(found["journal"], json!(false));
    assert!(!found.contains_key("journal_size"));
}

#[test]
fn a_journal_that_mke2fs_silently_left_out_is_noticed() {
    let ext4 = row("ext4");
    let options = ext4.options(&given(json!({ "block_size": 4096 }))).expect("valid");
    let Some(image) = make(ext4, &options, Bytes::mib(2)) else { return };
    let superblock = ext4.superblock(&mut image.open()).expect("a superblock");
    let reason = ext4
        .verify_medium(&options, &image.uuid, Bytes::mib(2), &superblock, Told::Nothing)
        .expect_err("no journal");
    assert!(reason.message.contains("journal"), "{reason:?}");
}

#[test]
fn lists_of_extra_arguments_do_not_displace_our_own() {
    let options =
        json!({ "stride": 16, "extra_mkfs": ["-E", "packed_meta_blocks=1", "-O", "^metadata_csum"] });
    let Some(found) = facts("ext4", options, Bytes::mib(256)) else { return };
    assert_eq!(found["stride"], json!(16));
    assert!(!found["features"].as_array().expect("a list").contains(&json!("metadata_csum")));
}

#[test]
fn xfs_options_are_read_back_in_the_units_of_mkfs() {
    let asked = json!({ "agcount": 7, "sunit": 128, "swidth": 384, "inode_size": 1024 });
    let Some(found) = facts("xfs", asked.clone(), Bytes::mib(2048)) else { return };
    for key in ["agcount", "sunit", "swidth", "inode_size"] {
        assert_eq!(found[key], asked[key], "{key}");
    }
    let Some(found) = facts("xfs", json!({ "sunit": 0, "swidth": 0 }), Bytes::mib(2048)) else { return };
    assert_eq!((&found["sunit"], &found["swidth"]), (&json!(0), &json!(0)));
}

#[test]
fn btrfs_tells_its_profiles_from_the_chunk_tree() {
    let Some(found) = facts("btrfs", json!({}), Bytes::mib(512)) else { return };
    assert_eq!((&found["metadata"], &found["data"]), (&json!("dup"), &json!("single")));
    let Some(found) = facts("btrfs", json!({ "metadata": "single" }), Bytes::mib(512)) else { return };
    assert_eq!(found["metadata"], json!("single"));
    let extra = json!({ "extra_mkfs": ["--csum", "xxhash", "-n", "32768", "-L", "a label"] });
    let Some(found) = facts("btrfs", extra, Bytes::mib(512)) else { return };
    assert_eq!(found["checksum"], json!("xxhash64"));
    assert_eq!(found["node_size"], json!(32768));
    assert_eq!(found["label"], json!("a label"));
}

#[test]
fn features_are_turned_on_and_off_and_seen_in_the_superblock() {
    let features =
        |name, options| Some(facts(name, options, Bytes::mib(512))?.remove("features")?.to_string());
    let asked =
        json!({ "features": ["^extent", "^64bit", "^dir_index", "orphan_file"], "journal_size": 8 << 20 });
    if let Some(found) = features("ext4", asked) {
        assert!(found.contains("\"orphan_file\""), "{found}");
        assert!(
            ["\"extent\"", "\"64bit\"", "\"dir_index\""].iter().all(|off| !found.contains(off)),
            "{found}"
        );
    }
    if let Some(found) = features("ext2", json!({ "features": ["extent", "flex_bg"] })) {
        assert!(found.contains("\"extent\"") && found.contains("\"flex_bg\""), "{found}");
    }
    let asked =
        json!({ "features": ["^no-holes", "^free-space-tree", "^skinny-metadata"], "checksum": "blake2b" });
    if let Some(found) = features("btrfs", asked) {
        let off = ["no_holes", "free_space_tree", "skinny_metadata"];
        assert!(off.iter().all(|off| !found.contains(off)) && found.contains("extended_iref"), "{found}");
    }
    if let Some(found) =
        features("xfs", json!({ "rmapbt": true, "reflink": false, "finobt": true, "bigtime": false }))
    {
        assert!(
            found.contains("rmapbt") && !found.contains("reflink") && !found.contains("bigtime"),
            "{found}"
        );
    }
}

#[test]
fn a_feature_that_mkfs_did_not_take_is_noticed() {
    let ext4 = row("ext4");
    let taken = ext4.options(&given(json!({}))).expect("valid");
    let Some(image) = make(ext4, &taken, Bytes::mib(64)) else { return };
    let superblock = ext4.superblock(&mut image.open()).expect("a superblock");
    for (feature, named) in [("^extent", "features"), ("bigalloc", "features")] {
        let asked = ext4.options(&given(json!({ "features": [feature] }))).expect("valid");
        let reason = ext4.verify_medium(&asked, &image.uuid, image.size, &superblock, Told::Nothing);
        let reason = reason.expect_err("not taken");
        assert!(reason.message.contains(named) && reason.message.contains(feature), "{reason:?}");
    }
}

#[test]
fn sizes_of_logs_nodes_and_journals_are_read_back() {
    let journal = facts("ext3", json!({ "journal_size": 16 << 20 }), Bytes::mib(512));
    assert!(journal.is_none_or(|found| found["journal_size"] == json!(16 << 20)));
    let asked = json!({ "block_size": 1024, "log_size": 128 << 20, "log_stripe_unit": 131_072 });
    let Some(found) = facts("xfs", asked.clone(), Bytes::mib(2048)) else { return };
    assert_eq!(
        (&found["log_size"], &found["log_stripe_unit"]),
        (&asked["log_size"], &asked["log_stripe_unit"])
    );
    let asked = json!({ "data": "dup", "node_size": 32768, "sector_size": 4096 });
    let Some(found) = facts("btrfs", asked.clone(), Bytes::mib(512)) else { return };
    for key in ["data", "node_size", "sector_size"] {
        assert_eq!(found[key], asked[key], "{key}");
    }
}

#[test]
fn version_4_of_xfs_is_told_from_version_5() {
    let asked = json!({ "crc": false, "inode_size": 256, "lazy_count": false });
    let Some(found) = facts("xfs", asked, Bytes::mib(512)) else { return };
    assert_eq!((&found["version"], &found["inode_size"]), (&json!(4), &json!(256)));
    let Some(found) = facts("xfs", json!({ "crc": true }), Bytes::mib(512)) else { return };
    assert_eq!((&found["version"], &found["lazy_count"]), (&json!(5), &json!(true)));
}

#[test]
fn jfs_has_the_log_that_was_asked_for_inside() {
    let Some(found) = facts("jfs", json!({ "log_size": 33_554_432 }), Bytes::mib(1024)) else { return };
    assert_eq!((&found["log_size"], &found["block_size"]), (&json!(32 << 20), &json!(4096)));
    let features = found["features"].as_array().expect("a list");
    assert!(features.contains(&json!("inline_log")) && features.contains(&json!("linux")), "{features:?}");
}

#[test]
fn reiserfs_tells_its_journal_and_hash() {
    let asked =
        json!({ "journal_blocks": 1024, "transaction_blocks": 256, "hash": "tea", "block_size": 4096 });
    let Some(found) = facts("reiserfs", asked.clone(), Bytes::mib(256)) else { return };
    for key in ["journal_blocks", "transaction_blocks", "hash", "block_size"] {
        assert_eq!(found[key], asked[key], "{key}");
    }
    let Some(found) = facts("reiserfs", json!({}), Bytes::mib(256)) else { return };
    assert_eq!((&found["journal_blocks"], &found["hash"]), (&json!(8193), &json!("r5")));
    assert_eq!(found["version"], json!("3.6"));
}

#[test]
fn nilfs2_tells_its_segments() {
    let asked = json!({ "block_size": 2048, "segment_blocks": 512, "reserved_blocks": 10 });
    let Some(found) = facts("nilfs2", asked.clone(), Bytes::mib(256)) else { return };
    for key in ["block_size", "segment_blocks", "reserved_blocks"] {
        assert_eq!(found[key], asked[key], "{key}");
    }
    // The last of 256 is cut short by the second superblock at the device's end.
    assert_eq!(found["segments"], json!(255));
    let Some(found) = facts("nilfs2", json!({ "extra_mkfs": ["-O", "block_count"] }), Bytes::mib(256)) else {
        return;
    };
    assert_eq!(found["features"], json!(["block_count"]));
}

#[test]
fn f2fs_tells_its_features_and_what_it_keeps_from_its_user() {
    let asked = json!({
        "features": ["extra_attr", "inode_checksum", "sb_checksum", "compression"],
        "segments_per_section": 2, "overprovision": 20,
    });
    let Some(found) = facts("f2fs", asked, Bytes::mib(1024)) else { return };
    assert_eq!(found["features"], json!(["extra_attr", "inode_checksum", "sb_checksum", "compression"]));
    assert_eq!(found["segments_per_section"], json!(2));
    let share = |found: &std::collections::BTreeMap<String, Value>| {
        let number = |key: &str| found[key].as_f64().expect("a number");
        number("overprovision_segments") / number("segments")
    };
    // On a small device its own needs outweigh what is asked for.
    let kept = |percent: u64| facts("f2fs", json!({ "overprovision": percent }), Bytes::mib(16384));
    let (Some(much), Some(little)) = (kept(30), kept(5)) else { return };
    assert!(share(&much) > 0.29 && share(&little) < 0.06, "{} and {}", share(&much), share(&little));
    assert_eq!(little["features"], json!([]));
}

#[test]
fn ntfs_has_clusters_of_4_kib_whatever_the_size_and_tells_its_sectors() {
    for mib in [8, 4096] {
        let Some(found) = facts("ntfs", json!({}), Bytes::mib(mib)) else { return };
        assert_eq!((&found["cluster_size"], &found["version"]), (&json!(4096), &json!("3.1")));
    }
    let asked = json!({ "cluster_size": 65536, "sector_size": 4096 });
    let Some(found) = facts("ntfs", asked, Bytes::mib(512)) else { return };
    assert_eq!((&found["cluster_size"], &found["sector_size"]), (&json!(65536), &json!(4096)));
    assert_eq!(found["size"], json!(512 << 20));
}

#[test]
fn ntfs_writes_the_whole_device_only_if_it_is_not_to_be_quick() {
    use std::os::unix::fs::MetadataExt;
    let ntfs = row("ntfs");
    let written = |options: Value| {
        let image = make(ntfs, &ntfs.options(&given(options)).expect("valid"), Bytes::mib(32))?;
        Some(image.open().metadata().expect("the image").blocks() * 512)
    };
    let Some(quick) = written(json!({})) else { return };
    assert!(quick < 8 << 20, "{quick}");
    assert!(written(json!({ "quick": false })).expect("made") > 30 << 20);
}

#[test]
fn a_medium_that_carries_another_uuid_than_ours_is_noticed() {
    let ext4 = row("ext4");
    let options = ext4.options(&given(json!({}))).expect("valid");
    let Some(image) = make(ext4, &options, Bytes::mib(64)) else { return };
    let superblock = ext4.superblock(&mut image.open()).expect("a superblock");
    let reason =
        ext4.verify_medium(&options, UUID, image.size, &superblock, Told::Nothing).expect_err("another UUID");
    assert!(reason.message.contains(&image.uuid), "{reason:?}");
}

#[test]
fn a_damaged_file_system_fails_its_check() {
    use std::io::{Seek, SeekFrom, Write};
    // Structures that each checker must miss: the first inode tables (ext4), AG headers (xfs), the first
    // allocation maps (jfs), the root of the tree (reiserfs), node tables (f2fs), file records (ntfs).
    for (name, places, length) in [
        ("ext4", vec![8192], 4 << 20),
        ("xfs", vec![512, 1024], 512),
        ("jfs", vec![36864], 16384),
        ("reiserfs", vec![8211 * 4096], 4096),
        ("f2fs", vec![4 << 20], 16 << 20),
        ("ntfs", vec![16384], 16384),
    ] {
        let fs = row(name);
        let options = fs.options(&given(json!({}))).expect("no options");
        let Some(image) = make(fs, &options, Bytes::mib(300)) else { continue };
        let mut file = std::fs::OpenOptions::new().write(true).open(&image.path).expect("the image");
        for place in places {
            file.seek(SeekFrom::Start(place)).expect("seek");
            file.write_all(&vec![0x5A; length]).expect("damage");
        }
        let output =
            run(&fs.check(CheckMode::Full, &options, image.name()).expect("a checker")).expect("a checker");
        let verdict = fs.exit_meaning(Role::Check, output.status.code().unwrap_or(-1));
        assert!(!verdict.ok, "{name}: {}", verdict.meaning);
    }
}

#[test]
fn a_check_of_nothing_is_no_good_check() {
    for fs in on_disk() {
        let image = Image::new(Bytes::mib(1));
        assert!(fs.superblock(&mut image.open()).is_err(), "{}", fs.name);
        let Some(output) = check(fs, &Options::default(), &image) else { continue };
        let verdict = fs.exit_meaning(Role::Check, output.status.code().unwrap_or(-1));
        assert!(!verdict.ok, "{}: {}", fs.name, verdict.meaning);
    }
}

//! The advice for published arrays, what is refused, and that every command has the numbers of the answer.

use super::*;
use std::path::Path;

fn asked(level: u64, members: u64, kib: Option<u64>, layout: Option<&str>) -> Options {
    Options {
        level: Some(level),
        members: Some(members),
        chunk: kib.map(|kib| kib << 10),
        layout: layout.map(str::to_string),
        device: None,
        block: 4096,
    }
}

fn advised(options: &Options) -> Advice {
    align(options).unwrap_or_else(|reason| panic!("{options:?}: {reason:?}"))
}

fn refused(options: &Options) -> String {
    let reason = align(options).expect_err("refused");
    assert!(reason.advice.is_some(), "{reason:?}");
    reason.message
}

/// Commands of one kind.
fn commands<'a>(advice: &'a Advice, kind: &str) -> Vec<&'a str> {
    advice.steps.iter().filter(|step| step.kind == kind).map(|step| step.command.as_str()).collect()
}

#[test]
fn twelve_disks_of_raid_6() {
    let advice = advised(&asked(6, 12, Some(128), None));
    let numbers = advice.numbers.clone().expect("striped");
    assert_eq!((numbers.stride, numbers.stripe_width, numbers.data_disks), (32, 320, 10));
    assert_eq!((numbers.su, numbers.sw, numbers.sunit, numbers.swidth), (Bytes::kib(128), 10, 256, 2560));
    assert_eq!((numbers.stripe, numbers.extent), (Bytes::kib(1280), Bytes::mib(5)));
    assert_eq!(commands(&advice, "partition"), ["echo start=5MiB | sfdisk -X gpt /dev/ARRAY"]);
    assert_eq!(commands(&advice, "pvcreate"), ["pvcreate --dataalignment 1280k /dev/ARRAY"]);
    assert_eq!(commands(&advice, "vgcreate"), ["vgcreate -s 5m vg0 /dev/ARRAY"]);
    assert_eq!(commands(&advice, "lvcreate"), ["lvcreate -n data -l 100%FREE vg0"]);
    assert_eq!(commands(&advice, "read_ahead"), ["blockdev --setra 5120 /dev/ARRAY"]);
    assert_eq!(commands(&advice, "mkfs").len(), 3);
    assert_eq!(advice.array.layout.as_deref(), Some("left-symmetric"));
}

#[test]
fn four_disks_of_raid_5() {
    let advice = advised(&asked(5, 4, Some(64), None));
    let numbers = advice.numbers.clone().expect("striped");
    assert_eq!((numbers.stride, numbers.stripe_width), (16, 48));
    assert_eq!((numbers.sunit, numbers.swidth), (128, 384));
    assert_eq!(commands(&advice, "vgcreate"), ["vgcreate -s 6m vg0 /dev/ARRAY"]);
    assert_eq!(commands(&advice, "partition"), ["echo start=3MiB | sfdisk -X gpt /dev/ARRAY"]);
    let why = &advice.steps.iter().find(|step| step.kind == "vgcreate").expect("a group").why;
    assert!(why.contains("192 KiB") && why.contains("4 MiB"), "{why}");
}

#[test]
fn every_step_comes_after_those_that_it_needs() {
    let advice = advised(&asked(0, 20, Some(512), None));
    let places: Vec<_> =
        advice.steps.iter().map(|step| ORDER.iter().position(|kind| *kind == step.kind)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}");
    assert!(advice.steps.iter().all(|step| !step.why.is_empty() && !step.why.contains('\n')));
    // Read-ahead of the device, and of the one that has its own.
    assert_eq!(commands(&advice, "read_ahead").len(), 2);
}

#[test]
fn where_nothing_is_striped_advice_is_plain() {
    for options in [asked(1, 2, None, None), asked(0, 1, None, None), asked(1, 3, Some(64), None)] {
        let advice = advised(&options);
        assert_eq!((advice.numbers.as_ref(), advice.array.chunk), (None, None));
        assert_eq!(commands(&advice, "partition"), ["echo start=1MiB | sfdisk -X gpt /dev/ARRAY"]);
        assert_eq!(commands(&advice, "pvcreate"), ["pvcreate /dev/ARRAY"]);
        assert_eq!(commands(&advice, "vgcreate"), ["vgcreate vg0 /dev/ARRAY"]);
        assert_eq!(commands(&advice, "mkfs").len(), 3);
        assert!(commands(&advice, "mkfs").iter().all(|command| !command.contains('=')), "{advice:?}");
        assert!(commands(&advice, "read_ahead").is_empty());
        let said = advice.notes.iter().any(|note| note.contains("chunk means nothing"));
        assert_eq!(said, options.chunk.is_some());
    }
}

#[test]
fn the_stripe_of_raid_10_is_explained_where_it_surprises() {
    for (members, layout, data_disks, explained) in [
        (4, None, 2, false),
        (4, Some("far2"), 4, true),
        (4, Some("offset2"), 4, true),
        (5, Some("near2"), 5, true),
        (6, Some("near3"), 2, false),
    ] {
        let advice = advised(&asked(10, members, Some(64), layout));
        assert_eq!(advice.numbers.as_ref().map(|n| n.data_disks), Some(data_disks), "{layout:?}");
        let said = advice.notes.iter().any(|note| note.contains("announces all members"));
        assert_eq!(said, explained, "{members} {layout:?}: {:?}", advice.notes);
    }
}

#[test]
fn rare_layouts_change_no_number() {
    let plain = advised(&asked(6, 6, Some(64), None)).numbers;
    for layout in ["parity-first", "ddf-N-restart", "right-symmetric-6", "parity-first-6"] {
        let advice = advised(&asked(6, 6, Some(64), Some(layout)));
        assert_eq!((advice.numbers, advice.array.layout.as_deref()), (plain.clone(), Some(layout)));
    }
    assert_eq!(advised(&asked(5, 2, Some(64), Some("parity-last"))).numbers.map(|n| n.data_disks), Some(1));
}

#[test]
fn what_would_fill_memory_or_no_extent_holds_is_not_advised_but_said() {
    let wide = advised(&asked(0, 1024, Some(1 << 20), None));
    assert!(
        commands(&wide, "read_ahead").contains(&"blockdev --setra 524288 /dev/ARRAY"),
        "{:?}",
        wide.steps
    );
    let why = &wide.steps.iter().find(|step| step.command.starts_with("blockdev")).expect("one").why;
    assert!(why.contains("256 MiB is the most") && why.contains("2048 GiB"), "{why}");
    // The chunk is odd in pages, so only 256 stripes are whole MiB.
    let odd = advised(&asked(0, 1023, Some((1 << 20) - 4), None));
    assert!(commands(&odd, "vgcreate").is_empty() && commands(&odd, "partition").len() == 1);
    assert!(odd.notes.iter().any(|note| note.starts_with("no advice for LVM")), "{:?}", odd.notes);
    let usual = advised(&asked(0, 3, Some(12), None));
    assert_eq!(commands(&usual, "vgcreate"), ["vgcreate -s 9m vg0 /dev/ARRAY"]);
}

#[test]
fn every_command_has_the_numbers_of_the_answer() {
    for level in [0, 5, 6, 10] {
        for members in [4, 6, 9, 16, 1024] {
            for kib in [4, 64, 512, 1024, 1 << 20] {
                let advice = advised(&asked(level, members, Some(kib), None));
                let Some(numbers) = advice.numbers.clone() else { panic!("striped") };
                let has = |kind: &str, word: String| {
                    let commands = commands(&advice, kind);
                    assert!(commands.iter().any(|c| c.split(' ').any(|w| w == word)), "{word}: {commands:?}");
                };
                has("partition", format!("start={}MiB", numbers.data_alignment.0 >> 20));
                has("pvcreate", format!("{}k", numbers.stripe.0 >> 10));
                has("vgcreate", format!("{}m", numbers.extent.0 >> 20));
                has("mkfs", format!("su={}k,sw={}", numbers.su.0 >> 10, numbers.sw));
                has("read_ahead", (numbers.read_ahead.0 / 512).to_string());
                // LVM counts sectors of an extent in 32 bits.
                assert!(numbers.extent.0 / 512 < 1 << 32, "{numbers:?}");
                if numbers.stride <= 65535 {
                    has("mkfs", format!("stride={},stripe_width={}", numbers.stride, numbers.stripe_width));
                } else {
                    let note = advice.notes.iter().find(|note| note.starts_with("no advice for"));
                    assert!(note.is_some_and(|note| note.contains("65535")), "{:?}", advice.notes);
                }
            }
        }
    }
}

#[test]
fn commands_of_a_described_array_find_no_device_and_the_loss_is_told_first() {
    let advice = advised(&asked(5, 4, Some(64), None));
    let lost = "these commands make everything anew: what is on the device is lost";
    assert_eq!(advice.warnings, [lost]);
    assert!(advice.steps.iter().all(|step| !step.command.contains("/dev/md")), "{:?}", advice.steps);
    assert!(advice.notes.iter().any(|note| note.contains("/dev/ARRAYp1 or /dev/vg0/data")), "{advice:?}");
    assert!(!Path::new("/dev/ARRAY").exists());
    let users = ["mounted on /srv", "held by dm-0"].map(String::from);
    let told = warnings(&Place::by_hand(), &users);
    assert_eq!(told, ["/dev/ARRAY is in use: mounted on /srv; held by dm-0", lost]);
}

#[test]
fn impossible_geometry_is_refused_with_the_reason() {
    for (options, message) in [
        (asked(5, 1, Some(64), None), "RAID 5 needs 2 members at least, this one has 1"),
        (asked(0, 2, Some(6), None), "a chunk of 6 KiB (6144 bytes) cannot be: in RAID 0"),
        (asked(5, 4, Some(64), Some("left-symmetric-6")), "RAID 5 has no layout `left-symmetric-6`"),
        (asked(6, 3, Some(64), None), "RAID 6 needs 4 members"),
        (asked(10, 3, Some(64), Some("far4")), "far4 needs 4 members"),
        (asked(5, 4, Some(96), None), "a chunk of 96 KiB (98304 bytes) cannot be"),
        (asked(5, 4, Some(2), None), "a chunk of 2 KiB"),
        (asked(5, 4, None, None), "without a chunk size"),
        (asked(5, 4, Some(64), Some("near2")), "RAID 5 has no layout `near2`"),
        (asked(0, 4, Some(64), Some("left-symmetric")), "RAID 0 has no layout"),
        (asked(10, 4, Some(64), Some("left-symmetric")), "RAID 10 has no layout"),
        (asked(4, 4, Some(64), None), "RAID 4 has no advice"),
        (asked(256 + 5, 4, Some(64), None), "RAID 261 has no advice"),
        (asked(5, 1025, Some(64), None), "1025 members"),
        (asked(5, u64::MAX, Some(64), None), "1024 are the most"),
        (asked(5, 0, Some(64), None), "2 members at least"),
        (
            Options { block: 8192, ..asked(5, 4, Some(4), None) },
            "a block of 8 KiB is larger than the chunk of 4 KiB",
        ),
        (Options { block: 512, ..asked(5, 4, Some(64), None) }, "blocks of 512 bytes"),
        (Options { block: 3000, ..asked(5, 4, Some(64), None) }, "blocks of 3000 bytes"),
        (Options { block: 0, ..asked(1, 2, None, None) }, "blocks of 0 bytes"),
    ] {
        let said = refused(&options);
        assert!(said.contains(message), "{said} / {message}");
    }
}

#[test]
fn a_device_without_an_array_is_refused() {
    let none = Options {
        level: None,
        members: None,
        chunk: None,
        layout: None,
        device: Some("/dev/null".into()),
        block: 4096,
    };
    refused(&none);
}

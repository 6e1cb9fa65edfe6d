//! What people are told is what trials do, and nothing that a person would not type.

use fsdyno_spec::array::Level;

use super::*;
use crate::{TABLE, Target, Told};

const RAID6: Geometry = Geometry { chunk: Bytes::kib(128), data_disks: 10 };

fn asked(geometry: Option<&Geometry>) -> Asked<'_> {
    Asked { geometry, block_size: 4096, device: "/dev/md0", size: None, point: "/mnt" }
}

fn hints(name: &str, asked: &Asked<'_>) -> Result<Hints, Reason> {
    crate::find(name).expect("a row").advise.expect("advised")(asked)
}

fn commands(name: &str, asked: &Asked<'_>) -> Vec<String> {
    hints(name, asked).expect("advice").steps.into_iter().map(|step| step.command).collect()
}

#[test]
fn each_is_told_the_stripe_in_its_own_words() {
    let asked = asked(Some(&RAID6));
    assert_eq!(
        commands("ext4", &asked),
        ["mkfs.ext4 -b 4096 -E stride=32,stripe_width=320 /dev/md0", "mount -o noatime /dev/md0 /mnt"]
    );
    assert_eq!(commands("xfs", &asked)[0], "mkfs.xfs -d su=128k,sw=10 /dev/md0");
    assert_eq!(commands("btrfs", &asked)[0], "mkfs.btrfs -d single -m dup /dev/md0");
}

#[test]
fn where_nothing_is_striped_nothing_is_told() {
    for (name, plain) in [("ext4", "mkfs.ext4 /dev/md0"), ("xfs", "mkfs.xfs /dev/md0")] {
        assert_eq!(commands(name, &asked(None))[0], plain);
    }
    let small = Asked { block_size: 1024, ..asked(None) };
    assert_eq!(commands("ext4", &small)[0], "mkfs.ext4 -b 1024 /dev/md0");
    assert_eq!(commands("xfs", &small)[0], "mkfs.xfs -b size=1024 /dev/md0");
}

#[test]
fn advice_has_the_numbers_of_trials() {
    for row in TABLE.iter().filter(|row| row.disk.as_ref().is_some_and(|disk| disk.geometry.is_some())) {
        let Some(advise) = row.advise else { continue };
        for (members, chunk) in [(3, 64), (4, 4), (12, 128), (7, 1024)] {
            let geometry = Geometry::of(Level::Raid5, members, Some(Bytes::kib(chunk)), None);
            let geometry = geometry.expect("possible").expect("striped");
            let told = advise(&asked(Some(&geometry))).expect("advice").steps[0].command.clone();
            let target = Target {
                geometry: Told::This(&geometry),
                ..Target::plain("/dev/md0", Bytes::mib(1 << 20), "u", false)
            };
            let trial = row.mkfs(&row.options(&[].into()).expect("options"), &target).expect("mkfs").shell();
            // In a trial su is in bytes, and lists have more members; each number is the same.
            let numbers = |command: &str| {
                let words: Vec<_> =
                    command.split([' ', ',']).filter_map(|word| word.split_once('=')).collect();
                ["stride", "stripe_width", "su", "sw"].map(|name| {
                    let (_, number) = words.iter().find(|(found, _)| *found == name)?;
                    let plain = number.trim_end_matches('k');
                    let unit = if plain == *number { 1 } else { 1024 };
                    Some(plain.parse::<u64>().expect("a number") * unit)
                })
            };
            assert_eq!(numbers(&told), numbers(&trial), "{told} / {trial}");
            assert!(numbers(&told).iter().flatten().count() == 2, "{told}");
        }
    }
}

#[test]
fn a_chunk_above_the_logs_limit_is_told() {
    let why = |kib| {
        let geometry = Geometry { chunk: Bytes::kib(kib), data_disks: 3 };
        hints("xfs", &asked(Some(&geometry))).expect("advice").steps[0].why.clone()
    };
    assert!(why(512).contains("32 KiB") && !why(256).contains("32 KiB"));
}

#[test]
fn what_one_cannot_have_is_its_own_refusal() {
    let huge = Geometry { chunk: Bytes::mib(512), data_disks: 3 };
    assert!(hints("ext4", &asked(Some(&huge))).unwrap_err().message.contains("65535"));
    assert!(hints("xfs", &asked(Some(&huge))).is_ok());
    let small = Asked { size: Some(Bytes::mib(519)), ..asked(Some(&RAID6)) };
    assert!(hints("xfs", &small).unwrap_err().message.contains("520 MiB"));
    assert!(hints("ext4", &small).is_ok());
}

#[test]
fn its_own_read_ahead_is_set_where_it_is_too_small() {
    let read_ahead = |data_disks| {
        let geometry = Geometry { chunk: Bytes::kib(128), data_disks };
        let steps = hints("btrfs", &asked(Some(&geometry))).expect("advice").steps;
        steps.into_iter().find(|step| step.kind == "read_ahead").map(|step| step.command)
    };
    assert_eq!(read_ahead(16), None);
    let command = "echo 4352 > /sys/fs/btrfs/$(blkid -o value -s UUID /dev/md0)/bdi/read_ahead_kb";
    assert_eq!(read_ahead(17).as_deref(), Some(command));
}

#[test]
fn names_from_outside_are_quoted() {
    let strange = Asked { device: "/dev/mapper/a b", point: "/mnt/it's", ..asked(Some(&RAID6)) };
    for name in ["ext4", "xfs", "btrfs"] {
        let all = commands(name, &strange).join("\n");
        assert!(all.contains("'/dev/mapper/a b'") && all.contains(r"'/mnt/it'\''s'"), "{all}");
    }
}

//! The arithmetic against published cases, what kernels announced, and its own laws.

use super::*;

fn of(level: Level, members: u32, kib: u64, layout: Option<&str>) -> Result<Option<Geometry>, Reason> {
    Geometry::of(level, members, Some(Bytes::kib(kib)), layout)
}

fn striped(level: Level, members: u32, kib: u64, layout: Option<&str>) -> Geometry {
    of(level, members, kib, layout).expect("an array that can be").expect("striped")
}

#[test]
fn published_cases_come_out() {
    let raid6 = striped(Level::Raid6, 12, 128, None);
    assert_eq!((raid6.stride(4096), raid6.stripe_width(4096)), (Ok(32), Ok(320)));
    let raid5 = striped(Level::Raid5, 4, 64, None);
    assert_eq!((raid5.stride(4096), raid5.stripe_width(4096)), (Ok(16), Ok(48)));
    assert_eq!((raid5.sunit(), raid5.swidth(), raid5.stripe()), (128, 384, Bytes::kib(192)));
    assert_eq!(striped(Level::Raid0, 2, 512, None).stripe(), Bytes::mib(1));
}

#[test]
fn volumes_and_partitions_begin_with_a_stripe() {
    // 3 data disks of 64 KiB and 10 of 128 KiB, as measured on arrays in a guest.
    for (level, members, chunk, stripe, start, extent) in [
        (Level::Raid5, 4, 64, 192, 3 << 10, 6 << 10),
        (Level::Raid6, 12, 128, 1280, 5 << 10, 5 << 10),
        (Level::Raid0, 2, 512, 1024, 1 << 10, 4 << 10),
        (Level::Raid10, 8, 64, 256, 1 << 10, 4 << 10),
        (Level::Raid6, 13, 512, 5632, 11 << 10, 11 << 10),
    ] {
        let found = striped(level, members, chunk, None);
        let numbers = [found.stripe(), found.data_alignment(), found.extent(), found.read_ahead()];
        assert_eq!(numbers, [stripe, start, extent, 2 * stripe].map(Bytes::kib), "{level:?} of {members}");
    }
}

#[test]
fn raid_10_has_the_data_disks_that_the_kernel_announces() {
    // optimal_io_size / minimum_io_size of arrays with a chunk of 64 KiB (Linux 6.1).
    for (members, layout, data_disks) in [
        (4, "near2", 2),
        (4, "far2", 4),
        (4, "offset2", 4),
        (5, "near2", 5),
        (6, "near3", 2),
        (12, "near2", 6),
        (2, "near2", 1),
    ] {
        let found = striped(Level::Raid10, members, 64, Some(layout)).data_disks;
        assert_eq!(found, data_disks, "{members} members, {layout}");
    }
    assert_eq!(striped(Level::Raid10, 4, 64, None), striped(Level::Raid10, 4, 64, Some("near2")));
}

#[test]
fn arrays_that_are_rare_are_arrays() {
    // RAID 5 of two is what becomes of one that is grown from a pair.
    assert_eq!(striped(Level::Raid5, 2, 64, None).stripe(), Bytes::kib(64));
    let odd = striped(Level::Raid0, 3, 12, None);
    assert_eq!((odd.stripe(), odd.sunit(), odd.swidth()), (Bytes::kib(36), 24, 72));
    assert_eq!((odd.stride(4096), odd.stripe_width(4096)), (Ok(3), Ok(9)));
    assert_eq!((odd.data_alignment(), odd.extent()), (Bytes::mib(9), Bytes::mib(9)));
    assert!(odd.stride(8192).is_err());
}

#[test]
fn read_ahead_ends_where_it_would_only_fill_memory() {
    assert_eq!(striped(Level::Raid6, 12, 8 << 10, None).read_ahead(), Bytes::mib(160));
    for (members, kib) in [(12, 16 << 10), (1024, 1 << 20)] {
        assert_eq!(striped(Level::Raid6, members, kib, None).read_ahead(), MOST_READ_AHEAD);
    }
}

#[test]
fn what_is_not_striped_has_no_geometry() {
    assert_eq!(Geometry::of(Level::Raid1, 2, None, None), Ok(None));
    assert_eq!(of(Level::Raid1, 4, 64, None), Ok(None), "a mirror's chunk means nothing");
    assert_eq!(Geometry::of(Level::Raid0, 1, None, None), Ok(None));
}

#[test]
fn impossible_arrays_are_refused_with_advice() {
    let refused = |found: Result<Option<Geometry>, Reason>, named: &str| {
        let reason = found.expect_err(named);
        assert!(reason.message.contains(named) && reason.advice.is_some(), "{named}: {reason:?}");
    };
    for (level, members, least) in [
        (Level::Raid0, 0, "1 members"),
        (Level::Raid1, 1, "2 members"),
        (Level::Raid5, 1, "2 members"),
        (Level::Raid6, 3, "4 members"),
        (Level::Raid10, 1, "2 members"),
    ] {
        refused(of(level, members, 64, None), least);
    }
    refused(of(Level::Raid10, 2, 64, Some("near3")), "near3 needs 3 members");
    refused(Geometry::of(Level::Raid5, 4, None, None), "without a chunk");
    for bytes in [0, 512, 2048, 96 << 10, (64 << 10) + 1, 2 << 30, u64::MAX] {
        refused(Geometry::of(Level::Raid5, 4, Some(Bytes(bytes)), None), &format!("({bytes} bytes)"));
    }
    for bytes in [0, 512, 6 << 10, (12 << 10) + 512, 2 << 30] {
        refused(
            Geometry::of(Level::Raid0, 4, Some(Bytes(bytes)), None),
            "in RAID 0 it is a multiple of 4 KiB",
        );
    }
    for (level, layout) in [
        (Level::Raid0, "near2"),
        (Level::Raid5, "left-symmetric-6"),
        (Level::Raid5, "ddf-N-restart"),
        (Level::Raid6, "ddf-n-restart"),
        (Level::Raid1, "left-symmetric"),
        (Level::Raid5, "near2"),
        (Level::Raid6, "left"),
        (Level::Raid10, "left-symmetric"),
        (Level::Raid10, "near"),
        (Level::Raid10, "near1"),
        (Level::Raid10, "near02"),
        (Level::Raid10, "near+2"),
        (Level::Raid10, "n2"),
        (Level::Raid10, "far4294967298"),
    ] {
        refused(of(level, 8, 64, Some(layout)), &format!("`{layout}`"));
    }
    let small = striped(Level::Raid5, 4, 4, None);
    assert!(small.stride(65536).is_err() && small.stripe_width(0).is_err());
}

#[test]
fn layouts_have_mdadms_spelling() {
    for (level, name, mdadm) in [
        (Level::Raid5, "right-asymmetric", "right-asymmetric"),
        (Level::Raid6, "left-symmetric", "left-symmetric"),
        (Level::Raid5, "parity-first", "parity-first"),
        (Level::Raid6, "left-symmetric-6", "left-symmetric-6"),
        (Level::Raid6, "ddf-N-continue", "ddf-N-continue"),
        (Level::Raid10, "near2", "n2"),
        (Level::Raid10, "far3", "f3"),
        (Level::Raid10, "offset2", "o2"),
    ] {
        let layout = Layout::of(level, Some(name)).expect("known").expect("has layouts");
        assert_eq!((layout.mdadm().as_str(), layout.name().as_str()), (mdadm, name));
    }
    assert_eq!(Layout::of(Level::Raid1, None), Ok(None));
    let default = Layout::of(Level::Raid6, None).expect("a default").expect("has layouts");
    assert_eq!(default.name(), "left-symmetric");
}

#[test]
fn the_kernels_numbers_are_layouts() {
    let named = |level, number| Layout::from_kernel(level, number).map(Layout::name);
    for (number, name) in
        [(0, "left-asymmetric"), (1, "right-asymmetric"), (2, "left-symmetric"), (3, "right-symmetric")]
    {
        assert_eq!(named(Level::Raid5, number).as_deref(), Some(name));
        assert_eq!(named(Level::Raid6, number).as_deref(), Some(name));
    }
    for level in [Level::Raid5, Level::Raid6] {
        let numbers: Vec<u32> = (0..32).filter(|number| named(level, *number).is_some()).collect();
        // `algorithm_valid_raid5` and `algorithm_valid_raid6`
        let valid: &[u32] = if level == Level::Raid5 {
            &[0, 1, 2, 3, 4, 5]
        } else {
            &[0, 1, 2, 3, 4, 5, 8, 9, 10, 16, 17, 18, 19, 20]
        };
        assert_eq!(numbers, valid);
        for number in numbers {
            let layout = Layout::from_kernel(level, number).expect("named");
            assert_eq!(layout.kernel(), number);
            assert_eq!(Layout::of(level, Some(&layout.name())), Ok(Some(layout)));
        }
    }
    for (number, name) in [
        (0x102, "near2"),
        (0x103, "near3"),
        (0x201, "far2"),
        (0x10201, "offset2"),
        (0x10401, "offset4"),
        (0x2_0201, "far2"), // with sets
        (0x4_0201, "far2"),
    ] {
        assert_eq!(named(Level::Raid10, number).as_deref(), Some(name), "{number:#x}");
        assert_eq!(Layout::of(Level::Raid10, Some(name)), Ok(Layout::from_kernel(Level::Raid10, number)));
    }
    // What only RAID 6 has, numbers between, near and far at once, nothing copied, what no kernel has yet.
    for (level, number) in [
        (Level::Raid5, 18),
        (Level::Raid5, u32::MAX),
        (Level::Raid6, 6),
        (Level::Raid10, 0x202),
        (Level::Raid10, 0x101),
        (Level::Raid10, 0x10102),
        (Level::Raid10, 0),
        (Level::Raid10, 0x8_0102),
        (Level::Raid0, 2),
        (Level::Raid1, 0),
    ] {
        assert_eq!(named(level, number), None, "{level:?} {number:#x}");
    }
}

#[test]
fn every_array_obeys_the_laws() {
    let layouts = ["near2", "near3", "far2", "far3", "offset2", "offset4"];
    let mut seen = 0;
    for members in 1..=64 {
        for chunk in (12..=24).map(|shift| Bytes(1 << shift)) {
            for level in Level::ALL {
                let names: Vec<_> = if level == Level::Raid10 {
                    layouts.iter().map(|name| Some(*name)).collect()
                } else {
                    vec![None]
                };
                for layout in names {
                    let Ok(Some(found)) = Geometry::of(level, members, Some(chunk), layout) else { continue };
                    seen += 1;
                    let case = format!("{level:?} {members} {chunk} {layout:?}: {found:?}");
                    assert!((1..=members).contains(&found.data_disks), "{case}");
                    assert_eq!(found.stripe().0, chunk.0 * u64::from(found.data_disks), "{case}");
                    // Each unit says the same stripe.
                    assert_eq!(found.sunit() * 512, chunk.0, "{case}");
                    assert_eq!(found.swidth() * 512, found.stripe().0, "{case}");
                    for block in [1024, 2048, 4096] {
                        assert_eq!(found.stride(block).map(|n| n * block), Ok(chunk.0), "{case}");
                        assert_eq!(
                            found.stripe_width(block).map(|n| n * block),
                            Ok(found.stripe().0),
                            "{case}"
                        );
                    }
                    // What is put on it, begins with a stripe wherever it may begin.
                    let (start, extent, stripe) =
                        (found.data_alignment().0, found.extent().0, found.stripe().0);
                    assert_eq!((start % stripe, start % MIB, extent % stripe), (0, 0, 0), "{case}");
                    assert_eq!(extent % (128 << 10), 0, "{case}");
                    // An extent is LVM's own where that will do, and never more than one alignment above it.
                    assert!(extent >= 4 << 20 && extent < (4 << 20) + start, "{case}");
                    assert_eq!((4 << 20) % stripe == 0, extent == 4 << 20, "{case}");
                    // No smaller start would do.
                    assert!(
                        !(1..start / MIB).any(|mib| (mib * MIB).is_multiple_of(stripe)) || start > 64 * MIB,
                        "{case}"
                    );
                    assert_eq!(found.read_ahead().0, (2 * stripe).min(MOST_READ_AHEAD.0), "{case}");
                    // What parity costs is what is missing.
                    let parity = match level {
                        Level::Raid5 => 1,
                        Level::Raid6 => 2,
                        _ => continue,
                    };
                    assert_eq!(found.data_disks + parity, members, "{case}");
                }
            }
        }
    }
    assert!(seen > 5000, "{seen} arrays prove little");
}

#[test]
fn what_keeps_the_beat_of_the_stripes_is_off_by_nothing() {
    for (start, offset, stripe, wanted) in [
        (0, 0, 192, 0),
        (0, 1000, 192, 40),
        // Two stripes further on both sides.
        (384, 1384, 192, 40),
        // Where byte 100 of what is above is the first of a stripe, one was expected 92 bytes later.
        (100, 0, 192, 92),
        (u64::MAX, u64::MAX, 192, 0),
    ] {
        assert_eq!(off(start, offset, stripe), wanted, "{start} {offset} {stripe}");
    }
}

//! Stacks with offsets computed by hand: 4 members of level 5 with 64 KiB have a stripe of 192 KiB.

use super::*;
use crate::walk::reach::tests::layer;
use serde_json::json;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const CHUNK: u64 = 64 * KIB;

fn array(name: &str, level: &str, size: u64, members: &[&str]) -> StackLayer {
    let pieces: Vec<_> = members.iter().map(|on| (0, size, *on, MIB, Some(CHUNK))).collect();
    let mut array = layer(name, &pieces);
    array.kind = LayerKind::Md;
    array.size = Bytes(size);
    array.facts.extend([
        ("level".to_string(), json!(level)),
        ("members".to_string(), json!(members.len())),
        ("chunk".to_string(), json!(CHUNK)),
    ]);
    array
}

fn raid5(size: u64) -> StackLayer {
    array("md0", "raid5", size, &["a", "b", "c", "d"])
}

fn volume(name: &str, pieces: &[(u64, u64, &str, u64, Option<u64>)]) -> StackLayer {
    let mut volume = layer(name, pieces);
    volume.kind = LayerKind::Lvm;
    volume
}

fn is_pv(mut layer: StackLayer, start: u64) -> StackLayer {
    layer.facts.insert("pv_start".into(), json!(start));
    layer
}

/// One answer, nothing unseen.
fn one(layers: &[StackLayer]) -> Striped {
    let mut unseen = Vec::new();
    let mut found = striped(layers, &mut unseen);
    assert_eq!((found.len(), unseen), (1, Vec::new()));
    found.remove(0)
}

fn offs(striped: &Striped) -> Vec<(u64, u64, u64, u64)> {
    striped.pieces.iter().map(|p| (p.start.0, p.size.0, p.offset.0, p.off.0)).collect()
}

fn steps_of(striped: &Striped) -> Vec<(&str, u64, bool)> {
    striped.steps.iter().map(|step| (step.layer.as_str(), step.off.0, step.pv)).collect()
}

#[test]
fn an_array_itself_lies_on_its_own_stripes() {
    let found = one(&[raid5(600 * MIB)]);
    assert_eq!((found.chunk, found.data_disks, found.stripe), (Bytes(CHUNK), 3, Bytes(192 * KIB)));
    assert_eq!(offs(&found), [(0, 600 * MIB, 0, 0)]);
    assert_eq!(found.steps, []);
}

#[test]
fn a_partition_at_sector_63_is_off_by_its_start() {
    let found = one(&[layer("md0p1", &[(0, 100 * MIB, "md0", 63 * 512, None)]), raid5(600 * MIB)]);
    assert_eq!(offs(&found), [(0, 100 * MIB, 32256, 32256)]);
    assert_eq!((found.read_ahead, found.pieces[0].off_chunk), (Some(Bytes(384 * KIB)), Some(Bytes(32256))));
    assert_eq!(steps_of(&found), [("md0p1", 32256, false)]);
}

#[test]
fn the_second_volume_of_a_group_is_off_by_its_extents() {
    // Data from 1152 KiB on, which is 6 stripes; extent 25 of 4 MiB begins 102400 KiB behind it, which is
    // 533 stripes and 64 KiB.
    let first = 1152 * KIB + 25 * 4 * MIB;
    let found =
        one(&[volume("dm-1", &[(0, 400 * MIB, "md0", first, None)]), is_pv(raid5(600 * MIB), 1152 * KIB)]);
    assert_eq!(offs(&found), [(0, 400 * MIB, first, 64 * KIB)]);
    assert_eq!(steps_of(&found), [("dm-1", 64 * KIB, false), ("md0", 0, true)]);
}

#[test]
fn steps_of_all_layers_add_up_to_where_the_first_piece_lies() {
    // Encrypted from 16 MiB on, on a volume at extent 1, on a physical volume with data at 1 MiB, on a
    // partition at 63 sectors.
    let layers = [
        layer("dm-2", &[(0, 32 * MIB, "dm-1", 16 * MIB, None)]),
        volume("dm-1", &[(0, 48 * MIB, "md0p1", MIB + 4 * MIB, None)]),
        is_pv(layer("md0p1", &[(0, 100 * MIB, "md0", 63 * 512, None)]), MIB),
        raid5(600 * MIB),
    ];
    let found = one(&layers);
    // In KiB: 16384 = 85 * 192 + 64; 4096 = 21 * 192 + 64; 1024 = 5 * 192 + 64; 31.5: together 223.5.
    assert_eq!(offs(&found), [(0, 32 * MIB, 21 * MIB + 32256, 31 * KIB + 512)]);
    let wanted = [
        ("dm-2", 64 * KIB, false),
        ("dm-1", 64 * KIB, false),
        ("md0p1", 64 * KIB, true),
        ("md0p1", 32256, false),
    ];
    assert_eq!(steps_of(&found), wanted);
    let sum: u64 = found.steps.iter().map(|step| step.off.0).sum();
    assert_eq!(sum % found.stripe.0, found.pieces[0].off.0);
}

#[test]
fn pieces_are_cut_where_the_layers_between_are_cut() {
    // The volume's two segments lie on two physical volumes: the array, and a disk that has no stripes.
    // What is encrypted on it begins in the first and ends in the second one.
    let layers = [
        layer("dm-2", &[(0, 10 * MIB, "dm-1", 2 * MIB, None)]),
        volume(
            "dm-1",
            &[
                (0, 4 * MIB, "md0", MIB, None),
                (4 * MIB, 4 * MIB, "sdz", MIB, None),
                (8 * MIB, 4 * MIB, "md0", 40 * MIB, None),
            ],
        ),
        raid5(600 * MIB),
        layer("sdz", &[]),
    ];
    let found = one(&layers);
    // Byte 6 MiB of the uppermost is byte 40 MiB of the array: 34 MiB further, 181 stripes and 64 KiB.
    assert_eq!(offs(&found), [(0, 2 * MIB, 3 * MIB, 0), (6 * MIB, 4 * MIB, 40 * MIB, 64 * KIB)]);
}

#[test]
fn pieces_that_go_on_in_both_are_one() {
    let layers = [
        volume("dm-1", &[(0, 4 * MIB, "md0", 3 * MIB, None), (4 * MIB, 4 * MIB, "md0", 7 * MIB, None)]),
        raid5(600 * MIB),
    ];
    assert_eq!(offs(&one(&layers)), [(0, 8 * MIB, 3 * MIB, 0)]);
}

#[test]
fn a_striped_volume_has_stripes_of_its_own_which_begin_anew_with_each_segment() {
    let segment = |start, size, offset| {
        [(start, size, "sda", offset, Some(CHUNK)), (start, size, "sdb", offset, Some(CHUNK))]
    };
    let pieces = [segment(0, 4 * MIB, MIB), segment(4 * MIB + CHUNK, 4 * MIB, 9 * MIB)].concat();
    let layers = [volume("dm-1", &pieces), layer("sda", &[]), layer("sdb", &[])];
    let found = one(&layers);
    assert_eq!((found.data_disks, found.stripe), (2, Bytes(128 * KIB)));
    // On a member's data it begins, though on another's than expected.
    assert_eq!(found.pieces.iter().map(|piece| piece.off_chunk).collect::<Vec<_>>(), [Some(Bytes(0)); 2]);
    // The second one begins 64 KiB behind a multiple: 64 KiB into a stripe of it there is one expected.
    assert_eq!(offs(&found), [(0, 4 * MIB, 0, 0), (4 * MIB + CHUNK, 4 * MIB, 4 * MIB + CHUNK, 64 * KIB)]);
}

#[test]
fn stripes_within_stripes_are_told_and_their_steps_known() {
    // RAID 0 over two of level 5, each member's data 1 MiB behind its start: 5 stripes and 64 KiB.
    let lower = |name: &str| array(name, "raid5", 300 * MIB, &["a", "b", "c", "d"]);
    let layers = [array("md9", "raid0", 600 * MIB, &["md1", "md2"]), lower("md1"), lower("md2")];
    let mut unseen = Vec::new();
    let found = striped(&layers, &mut unseen);
    let names: Vec<_> = found.iter().map(|striped| striped.on.as_str()).collect();
    assert_eq!(names, ["md9", "md1", "md2"]);
    assert_eq!(offs(&found[0]), [(0, 600 * MIB, 0, 0)]);
    assert_eq!(found[1].pieces, []);
    assert_eq!(steps_of(&found[1]), [("md9", 64 * KIB, false)]);
    assert_eq!(unseen.len(), 2);
    assert!(unseen[0].reason.message.contains("/dev/md9 is striped itself"));
}

#[test]
fn a_volume_over_two_arrays_has_on_each_only_its_own_segments() {
    let on = |chunk| {
        let mut second = array("md1", "raid5", 600 * MIB, &["e", "f", "g", "h"]);
        second.facts.insert("chunk".into(), json!(chunk));
        let pieces = [(0, 8 * MIB, "md0", 3 * MIB, None), (8 * MIB, 4 * MIB, "md1", 2 * MIB, None)];
        vec![volume("dm-0", &pieces), raid5(600 * MIB), second]
    };
    let mut unseen = Vec::new();
    let layers = on(CHUNK);
    let found = striped(&layers, &mut unseen);
    assert_eq!((found.len(), unseen), (2, Vec::new()));
    assert_eq!((found[0].on.as_str(), offs(&found[0])), ("md0", vec![(0, 8 * MIB, 3 * MIB, 0)]));
    // 8 MiB is 42 stripes and 128 KiB, 2 MiB is 10 and 128 KiB: the same beat.
    assert_eq!((found[1].on.as_str(), offs(&found[1])), ("md1", vec![(8 * MIB, 4 * MIB, 2 * MIB, 0)]));
    let names: Vec<_> = uppermost(&layers, &found).iter().map(|striped| striped.on.as_str()).collect();
    assert_eq!(names, ["md0", "md1"]);
    let stripe = |layers: Vec<StackLayer>| {
        let striped = striped(&layers, &mut Vec::new());
        crate::walk::Walked { layers, striped, ..Default::default() }.stripe()
    };
    assert_eq!(stripe(layers).map(|geometry| geometry.stripe()), Some(Bytes(192 * KIB)));
    // With another chunk below its end no stripe is right for all of it.
    assert_eq!(stripe(on(2 * CHUNK)), None);
    assert_eq!(stripe(vec![array("md9", "raid0", 600 * MIB, &["md0", "z"]), raid5(600 * MIB)]), None);
    assert_eq!(stripe(vec![layer("sda", &[])]), None);
}

#[test]
fn where_the_way_down_is_not_known_no_piece_is_told() {
    let mut pool = layer("dm-1", &[]);
    pool.size = Bytes(8 * MIB);
    pool.somewhere_on = vec!["md0".into()];
    let mut unseen = Vec::new();
    let layers = vec![pool, raid5(600 * MIB)];
    let found = striped(&layers, &mut unseen);
    assert_eq!((found[0].pieces.len(), found[0].steps.len()), (0, 0));
    // That it did not tell was told where it was read.
    assert_eq!(unseen, []);
    // What is thin lies anywhere: no stripe is known for it.
    assert_eq!(crate::walk::Walked { layers, striped: found, ..Default::default() }.stripe(), None);
}

#[test]
fn only_what_lies_below_the_first_layer_counts() {
    // A file system on two devices: the second one's array is not the first one's.
    assert_eq!(striped(&[layer("sda", &[]), raid5(600 * MIB)], &mut Vec::new()), []);
}

#[test]
fn numbers_that_cannot_be_are_no_stripes_and_no_panic() {
    let mut unseen = Vec::new();
    let huge = [(0, u64::MAX, "md0", u64::MAX, None), (u64::MAX, u64::MAX, "md0", 1, None)];
    let mut top = layer("dm-1", &huge[..1]);
    top.below.extend(layer("x", &huge[..1]).below);
    top.size = Bytes(u64::MAX);
    let mut last = top.below[0].clone();
    last.start = Bytes(u64::MAX);
    top.below.push(last);
    striped(&[top, raid5(u64::MAX)], &mut unseen);
    let mut wide = layer("dm-1", &[(0, 8, "sda", 0, Some(u64::MAX)), (0, 8, "sdb", 0, Some(u64::MAX))]);
    assert_eq!(striped(&[wide.clone()], &mut unseen), []);
    wide.below.iter_mut().for_each(|piece| piece.chunk = Some(Bytes(0)));
    assert_eq!(striped(&[wide], &mut unseen), []);
}

//! What people are told of a file system of the ext family: how to make it, its upkeep, and how its stripe is
//! mended.

use fsdyno_spec::outcome::Reason;
use fsdyno_spec::record::Upkeep;
use fsdyno_spec::units::Bytes;
use serde_json::Value;

use super::geometry_facts;
use super::superblock::{LENGTH, OFFSET, superblock};
use crate::advise::{Asked, Hints};
use crate::geometry::Geometry;
use crate::geometry_rule::{Mismatch, Parameters};
use crate::medium::{Block, Medium};
use crate::plan::quote;

/// Linux takes `remount,stripe=` since 2.6.30, in file-system blocks.
pub(super) fn tell(geometry: &Geometry, block_size: u64) -> Result<Parameters, Reason> {
    Ok(vec![("stripe".to_string(), Some(geometry.stripe_width(block_size)?.to_string()))])
}

/// The superblock is told for later mounts, and this mount if the ext4 driver serves it.
pub(super) fn mend(wrong: &Mismatch<'_>) -> String {
    let mut said: Vec<_> = wrong.expected.iter().map(|(name, number)| format!("{name}={number}")).collect();
    said.sort();
    let told = format!("tune2fs -E {} {}", said.join(","), quote(wrong.device));
    let width = wrong.expected.iter().find(|(name, _)| *name == "stripe_width");
    match (wrong.point, width) {
        (Some(point), Some((_, width))) if wrong.driver == Some("ext4") => {
            format!("{told} && mount -o remount,stripe={width} {}", quote(point))
        }
        _ => told,
    }
}

/// Advice for ext4. The stride counts blocks, so the block's size is stated with it: mke2fs takes 1 KiB below
/// 512 MiB.
pub(crate) fn advise(asked: &Asked<'_>) -> Result<Hints, Reason> {
    let block = asked.block_size;
    let Some(geometry) = asked.geometry else {
        let words = if block == 4096 { String::new() } else { format!("-b {block}") };
        let make =
            asked.make("ext4", "mkfs.ext4", &words, "nothing is striped, so there is nothing to tell it");
        let mount = asked.mount("ext4", "nothing else helps here");
        return Ok(Hints { steps: vec![make, mount], notes: Vec::new() });
    };
    let told: Vec<_> = geometry_facts(Some(geometry), block)?
        .into_iter()
        .map(|(name, number)| format!("{name}={number}"))
        .collect();
    let make = asked.make(
        "ext4",
        "mkfs.ext4",
        &format!("-b {block} -E {}", told.join(",")),
        "it allocates in whole stripes and spreads its bitmaps over the members",
    );
    let mount =
        asked.mount("ext4", "the stripe is in the superblock (stripe= is for arrays that grew since)");
    let mut notes = vec![
        "ext4: mke2fs 1.47.3 and newer sets stripe_width by itself only on rotational devices, so it is stated"
            .to_string(),
    ];
    if block > 4096 {
        notes.push(format!(
            "ext4: blocks of {} are mounted only by kernels whose pages are as large, and by newer ones",
            Bytes(block)
        ));
    }
    Ok(Hints { steps: vec![make, mount], notes })
}

/// Blocks of the journal that mke2fs gives a device of so many blocks if it is told nothing: below each limit
/// the size beside it (`ext2fs_default_journal_size` in `lib/ext2fs/mkjournal.c` of e2fsprogs 1.47; those
/// before 1.43.2 made none so large).
const USUAL_JOURNALS: &[(u64, u64)] = &[
    (32 << 10, 1024),
    (256 << 10, 4096),
    (512 << 10, 8192),
    (4096 << 10, 16384),
    (8192 << 10, 32768),
    (16384 << 10, 65536),
    (32768 << 10, 131_072),
    (u64::MAX, 262_144),
];

/// Below this many blocks it makes no journal by itself.
const LEAST_JOURNALLED: u64 = 2048;

fn usual_journal(blocks: u64, block_size: u64) -> Option<Bytes> {
    let (_, usual) = USUAL_JOURNALS.iter().find(|(limit, _)| blocks < *limit)?;
    (blocks >= LEAST_JOURNALLED).then_some(Bytes(usual * block_size))
}

/// Reads the upkeep; fields as in [`superblock`]. The time of the last check has 40 bits.
pub(crate) fn upkeep(medium: &mut dyn Medium) -> Result<Upkeep, Reason> {
    let known = superblock(medium)?;
    let number = |name: &str| known.facts.get(name).and_then(Value::as_u64);
    let block = Block::read(medium, OFFSET, LENGTH, "ext superblock")?;
    // One on another device has the size of that.
    let journal = number("journal_size").filter(|_| !known.facts.contains_key("external_journal"));
    let most = u64::from(block.le16(0x36));
    let checked = u64::from(block.byte(0x277)) << 32 | u64::from(block.le32(0x40));
    Ok(Upkeep {
        journal: journal.map(Bytes),
        journal_usual: journal.and_then(|_| usual_journal(number("blocks")?, number("block_size")?)),
        smallest_write: number("block_size").map(Bytes),
        mounts: Some(u64::from(block.le16(0x34))),
        // A signed number; 0 and what is negative: never.
        most_mounts: (1..0x8000).contains(&most).then_some(most),
        checked: (checked > 0).then_some(checked),
        check_interval: Some(u64::from(block.le32(0x44))).filter(|seconds| *seconds > 0),
        errors: Some(u64::from(block.le32(0x194))),
    })
}

//! Btrfs on the medium. How data and metadata are kept is not in the superblock: the chunk tree is read for it.

use std::collections::{BTreeMap, BTreeSet};

use fsdyno_spec::outcome::Reason;
use serde_json::json;

use crate::medium::{Block, Medium, Superblock, block_size, names};

const OFFSET: u64 = 64 << 10;
const LENGTH: usize = 4096;
const COMPAT_RO: &[(u64, &str)] =
    &[(0x1, "free_space_tree"), (0x2, "free_space_tree_valid"), (0x4, "verity"), (0x8, "block_group_tree")];

const INCOMPAT: &[(u64, &str)] = &[
    (0x1, "mixed_backref"),
    (0x2, "default_subvol"),
    (0x4, "mixed_groups"),
    (0x8, "compress_lzo"),
    (0x10, "compress_zstd"),
    (0x20, "big_metadata"),
    (0x40, "extended_iref"),
    (0x80, "raid56"),
    (0x100, "skinny_metadata"),
    (0x200, "no_holes"),
    (0x400, "metadata_uuid"),
    (0x800, "raid1c34"),
    (0x1000, "zoned"),
    (0x2000, "extent_tree_v2"),
    (0x4000, "raid_stripe_tree"),
    (0x10000, "simple_quota"),
];

/// Reads the superblock, and from the chunk tree the profiles of data and metadata. Layout: Linux
/// `include/uapi/linux/btrfs_tree.h`, `struct btrfs_super_block`.
pub(super) fn superblock(medium: &mut dyn Medium) -> Result<Superblock, Reason> {
    let block = Block::read(medium, OFFSET, LENGTH, "btrfs superblock")?;
    if block.slice(64, 8) != b"_BHRfS_M" {
        return Err(Reason::new("no btrfs superblock here (its magic number is missing)"));
    }
    let sector = block_size(u64::from(block.le32(144)), "btrfs superblock")?;
    let node = block_size(u64::from(block.le32(148)), "btrfs superblock")?;
    let checksum = match block.le16(196) {
        0 => "crc32c".to_string(),
        1 => "xxhash64".to_string(),
        2 => "sha256".to_string(),
        3 => "blake2b".to_string(),
        other => format!("unknown ({other})"),
    };
    let mut features = names("compat", block.le64(172), &[]);
    features.extend(names("compat_ro", block.le64(180), COMPAT_RO));
    features.extend(names("incompat", block.le64(188), INCOMPAT));
    let mut facts = BTreeMap::from([
        ("size".to_string(), json!(block.le64(112))),
        ("sector_size".to_string(), json!(sector)),
        ("node_size".to_string(), json!(node)),
        ("devices".to_string(), json!(block.le64(136))),
        ("checksum".to_string(), json!(checksum)),
        ("features".to_string(), json!(features)),
        ("label".to_string(), json!(block.text(299, 256))),
    ]);
    for (group, profile) in profiles(medium, &block, node)? {
        facts.insert(group.to_string(), json!(profile));
    }
    Ok(Superblock { uuid: block.uuid(32), facts })
}

const KEY: usize = 17;
const CHUNK: usize = 48;
const STRIPE: usize = 32;
const CHUNK_ITEM: u8 = 228;
const NODE_HEADER: usize = 101;

/// A range of logical addresses and where it is on this device.
struct Mapping {
    logical: u64,
    length: u64,
    physical: u64,
}

/// Profiles by block group (`data`, `metadata`, `system`), as the chunk tree has them. Several
/// profiles of one group, left by a conversion, are joined by `+`.
fn profiles(
    medium: &mut dyn Medium,
    superblock: &Block,
    node_size: u64,
) -> Result<BTreeMap<&'static str, String>, Reason> {
    let mut found: BTreeMap<&'static str, BTreeSet<&'static str>> = BTreeMap::new();
    let mappings = system_chunks(superblock);
    let mut level = superblock.byte(199);
    let mut addresses = vec![superblock.le64(88)];
    while !addresses.is_empty() {
        let mut below = Vec::new();
        for address in addresses {
            let Some(place) = mappings
                .iter()
                .find(|map| address.checked_sub(map.logical).is_some_and(|offset| offset < map.length))
            else {
                return Err(Reason::new("the chunk tree lies outside the system chunks; btrfs is damaged"));
            };
            let at = place.physical.saturating_add(address - place.logical);
            let node = Block::read(medium, at, node_size as usize, "btrfs chunk tree")?;
            if node.byte(100) != level {
                return Err(Reason::new("a node of the chunk tree is on the wrong level; btrfs is damaged"));
            }
            let items = (node.le32(96) as usize).min(node_size as usize / 25);
            for item in 0..items {
                if level == 0 {
                    let entry = NODE_HEADER + item * (KEY + 8);
                    if node.byte(entry + 8) == CHUNK_ITEM {
                        note(&mut found, node.le64(NODE_HEADER + node.le32(entry + KEY) as usize + 24));
                    }
                } else {
                    below.push(node.le64(NODE_HEADER + item * (KEY + 16) + KEY));
                }
            }
        }
        // The tree of a test device has one or two levels; more nodes than this is damage.
        if below.len() > 4096 {
            return Err(Reason::new("the chunk tree is implausibly large; btrfs is damaged"));
        }
        addresses = below;
        level = level.wrapping_sub(1);
    }
    let join = |set: BTreeSet<&str>| set.into_iter().collect::<Vec<_>>().join("+");
    Ok(found.into_iter().map(|(group, set)| (group, join(set))).collect())
}

/// Block groups and profile in the type of a chunk.
fn note(found: &mut BTreeMap<&'static str, BTreeSet<&'static str>>, kind: u64) {
    const PROFILES: [(u64, &str); 8] = [
        (0x8, "raid0"),
        (0x10, "raid1"),
        (0x20, "dup"),
        (0x40, "raid10"),
        (0x80, "raid5"),
        (0x100, "raid6"),
        (0x200, "raid1c3"),
        (0x400, "raid1c4"),
    ];
    let profile = PROFILES.iter().find(|(bit, _)| kind & bit != 0).map_or("single", |(_, name)| name);
    for (bit, group) in [(0x1, "data"), (0x2, "system"), (0x4, "metadata")] {
        if kind & bit != 0 {
            found.entry(group).or_default().insert(profile);
        }
    }
}

/// The mappings that the superblock itself carries, by which the chunk tree is found.
fn system_chunks(superblock: &Block) -> Vec<Mapping> {
    const START: usize = 811;
    let end = START + (superblock.le32(160) as usize).min(2048);
    let mut mappings = Vec::new();
    let mut at = START;
    while at + KEY + CHUNK <= end {
        let chunk = at + KEY;
        let stripes = usize::from(superblock.le16(chunk + 44));
        mappings.push(Mapping {
            logical: superblock.le64(at + 9),
            length: superblock.le64(chunk),
            physical: superblock.le64(chunk + CHUNK + 8),
        });
        at = chunk + CHUNK + stripes * STRIPE;
    }
    mappings
}

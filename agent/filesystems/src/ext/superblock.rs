//! The ext family on the medium: one superblock, and features that tell its types apart.

use std::collections::BTreeMap;

use fsdyno_spec::outcome::Reason;
use serde_json::{Value, json};

use crate::medium::{Block, Medium, Superblock, block_size, names};

/// Where the superblock is, and how long.
pub(super) const OFFSET: u64 = 1024;
pub(super) const LENGTH: usize = 1024;
const COMPAT: &[(u64, &str)] = &[
    (0x1, "dir_prealloc"),
    (0x2, "imagic_inodes"),
    (0x4, "has_journal"),
    (0x8, "ext_attr"),
    (0x10, "resize_inode"),
    (0x20, "dir_index"),
    (0x200, "sparse_super2"),
    (0x400, "fast_commit"),
    (0x800, "stable_inodes"),
    (0x1000, "orphan_file"),
];

const INCOMPAT: &[(u64, &str)] = &[
    (0x1, "compression"),
    (0x2, "filetype"),
    (0x4, "needs_recovery"),
    (0x8, "journal_dev"),
    (0x10, "meta_bg"),
    (0x40, "extent"),
    (0x80, "64bit"),
    (0x100, "mmp"),
    (0x200, "flex_bg"),
    (0x400, "ea_inode"),
    (0x1000, "dirdata"),
    (0x2000, "metadata_csum_seed"),
    (0x4000, "large_dir"),
    (0x8000, "inline_data"),
    (0x10000, "encrypt"),
    (0x20000, "casefold"),
];

const RO_COMPAT: &[(u64, &str)] = &[
    (0x1, "sparse_super"),
    (0x2, "large_file"),
    (0x8, "huge_file"),
    (0x10, "uninit_bg"),
    (0x20, "dir_nlink"),
    (0x40, "extra_isize"),
    (0x100, "quota"),
    (0x200, "bigalloc"),
    (0x400, "metadata_csum"),
    (0x800, "replica"),
    (0x1000, "read-only"),
    (0x2000, "project"),
    (0x4000, "shared_blocks"),
    (0x8000, "verity"),
    (0x10000, "orphan_present"),
];

/// Reads the superblock. Layout: Linux `fs/ext4/ext4.h`, `struct ext4_super_block`.
pub(crate) fn superblock(medium: &mut dyn Medium) -> Result<Superblock, Reason> {
    let block = Block::read(medium, OFFSET, LENGTH, "ext superblock")?;
    if block.le16(0x38) != 0xEF53 {
        return Err(Reason::new("no ext2, ext3 or ext4 superblock here (its magic number is missing)"));
    }
    let exponent = block.le32(0x18);
    let size = block_size(1024u64.checked_shl(exponent).unwrap_or(0), "ext superblock")?;
    let compat = u64::from(block.le32(0x5C));
    let incompat = u64::from(block.le32(0x60));
    let wide = |low: usize, high: usize| {
        let high = if incompat & 0x80 == 0 { 0 } else { block.le32(high) };
        u64::from(high) << 32 | u64::from(block.le32(low))
    };
    let blocks = wide(0x4, 0x150);
    let reserved = wide(0x8, 0x154);
    let journal = compat & 0x4 != 0;
    let mut features = names("compat", compat, COMPAT);
    features.extend(names("incompat", incompat, INCOMPAT));
    features.extend(names("ro_compat", u64::from(block.le32(0x64)), RO_COMPAT));
    let percent = (u128::from(reserved) * 100 + u128::from(blocks / 2)) / u128::from(blocks.max(1));

    let mut facts = BTreeMap::from([
        ("size".to_string(), json!(blocks.saturating_mul(size))),
        ("block_size".to_string(), json!(size)),
        ("blocks".to_string(), json!(blocks)),
        // In the option's own unit; mke2fs rounds the count down, so the nearest percent is what was asked.
        ("reserved_blocks".to_string(), json!(u64::try_from(percent).unwrap_or(u64::MAX))),
        ("reserved_blocks_count".to_string(), json!(reserved)),
        ("inodes".to_string(), json!(block.le32(0))),
        ("inode_size".to_string(), json!(if block.le32(0x4C) == 0 { 128 } else { block.le16(0x58) })),
        ("blocks_per_group".to_string(), json!(block.le32(0x20))),
        ("inodes_per_group".to_string(), json!(block.le32(0x28))),
        ("stride".to_string(), json!(block.le16(0x164))),
        ("stripe_width".to_string(), json!(block.le32(0x170))),
        ("journal".to_string(), json!(journal)),
        ("features".to_string(), json!(features)),
        ("clean".to_string(), json!(block.le16(0x3A) & 1 == 1 && incompat & 0x4 == 0)),
        ("label".to_string(), json!(block.text(0x78, 16))),
    ]);
    if journal {
        let inode = block.le32(0xE0);
        facts.insert("journal_inode".to_string(), json!(inode));
        if inode == 0 {
            facts.insert("external_journal".to_string(), json!(true));
        }
        // The superblock keeps a copy of the journal inode: type 1 is its block map and size.
        if block.byte(0xFD) == 1 {
            let bytes = u64::from(block.le32(0x10C + 15 * 4)) << 32 | u64::from(block.le32(0x10C + 16 * 4));
            facts.insert("journal_size".to_string(), json!(bytes));
        }
    }
    Ok(Superblock { uuid: block.uuid(0x68), facts })
}

/// Features that ext2's and ext3's drivers know, as in Linux 4.2, the last with both
/// (`EXT3_FEATURE_*_SUPP` in `fs/ext3/ext3.h`), and those that they need not know.
const OLD: &[&str] = &[
    "dir_prealloc",
    "imagic_inodes",
    "has_journal",
    "ext_attr",
    "resize_inode",
    "dir_index",
    "filetype",
    "needs_recovery",
    "meta_bg",
    "sparse_super",
    "large_file",
];

/// Which of the family it is: with any feature that the older ones cannot have it is ext4, else ext3 if it
/// has a journal.
pub(crate) fn kind(superblock: &Superblock) -> &'static str {
    let features = superblock.facts.get("features").and_then(Value::as_array);
    let newer = features
        .is_some_and(|all| all.iter().filter_map(Value::as_str).any(|feature| !OLD.contains(&feature)));
    match superblock.facts.get("journal") {
        _ if newer => "ext4",
        Some(Value::Bool(true)) => "ext3",
        _ => "ext2",
    }
}

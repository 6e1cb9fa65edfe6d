//! XFS on the medium.

use std::collections::BTreeMap;

use fsdyno_spec::outcome::Reason;
use serde_json::json;

use crate::medium::{Block, Medium, Superblock, block_size, names};

const LENGTH: usize = 512;
const RO_COMPAT: &[(u64, &str)] = &[(0x1, "finobt"), (0x2, "rmapbt"), (0x4, "reflink"), (0x8, "inobtcount")];

/// Of version 4.
const FEATURES2: &[(u64, &str)] =
    &[(0x2, "lazy_count"), (0x8, "attr2"), (0x80, "projid32"), (0x200, "ftype")];

const INCOMPAT: &[(u64, &str)] = &[
    (0x1, "ftype"),
    (0x2, "sparse"),
    (0x4, "meta_uuid"),
    (0x8, "bigtime"),
    (0x10, "needsrepair"),
    (0x20, "nrext64"),
    (0x40, "exchange"),
    (0x80, "parent"),
    (0x100, "metadir"),
];

/// Reads the superblock. Layout: Linux `fs/xfs/libxfs/xfs_format.h`, `struct xfs_dsb` (big-endian).
pub(super) fn superblock(medium: &mut dyn Medium) -> Result<Superblock, Reason> {
    let block = Block::read(medium, 0, LENGTH, "XFS superblock")?;
    if block.slice(0, 4) != b"XFSB" {
        return Err(Reason::new("no XFS superblock here (its magic number is missing)"));
    }
    let size = block_size(u64::from(block.be32(4)), "XFS superblock")?;
    let version = block.be16(100) & 0xF;
    let mut features: Vec<String> = Vec::new();
    let (features2, ro_compat, incompat) = (block.be32(200), block.be32(212), block.be32(216));
    let v5 = version >= 5;
    if v5 {
        features.push("crc".to_string());
        features.extend(names("compat", u64::from(block.be32(208)), &[]));
        features.extend(names("ro_compat", u64::from(ro_compat), RO_COMPAT));
        features.extend(names("incompat", u64::from(incompat), INCOMPAT));
        features.extend(names("log_incompat", u64::from(block.be32(220)), &[(0x1, "xattrs")]));
    } else {
        features.extend(names("features2", u64::from(features2), FEATURES2));
    }
    // The medium has blocks; the options have sectors, as mkfs.xfs.
    let sectors = |at: usize| u64::from(block.be32(at)) * (size / 512);
    let blocks = block.be64(8);
    let mut facts = BTreeMap::from([
        ("size".to_string(), json!(blocks.saturating_mul(size))),
        ("block_size".to_string(), json!(size)),
        ("blocks".to_string(), json!(blocks)),
        ("sector_size".to_string(), json!(block.be16(102))),
        ("agcount".to_string(), json!(block.be32(88))),
        ("agblocks".to_string(), json!(block.be32(84))),
        ("inode_size".to_string(), json!(block.be16(104))),
        ("log_size".to_string(), json!(u64::from(block.be32(96)) * size)),
        ("log_stripe_unit".to_string(), json!(block.be32(196))),
        ("sunit".to_string(), json!(sectors(184))),
        ("swidth".to_string(), json!(sectors(188))),
        ("version".to_string(), json!(version)),
        ("crc".to_string(), json!(v5)),
        ("finobt".to_string(), json!(v5 && ro_compat & 0x1 != 0)),
        ("rmapbt".to_string(), json!(v5 && ro_compat & 0x2 != 0)),
        ("reflink".to_string(), json!(v5 && ro_compat & 0x4 != 0)),
        ("bigtime".to_string(), json!(v5 && incompat & 0x8 != 0)),
        ("lazy_count".to_string(), json!(features2 & 0x2 != 0)),
        ("features".to_string(), json!(features)),
        ("label".to_string(), json!(block.text(108, 12))),
    ]);
    if block.be64(48) == 0 {
        facts.insert("external_log".to_string(), json!(true));
    }
    // Zoned ones may have it behind the rest (`sb_rtstart`, since Linux 6.15).
    if block.be64(16) != 0 && block.be64(288) == 0 {
        facts.insert("external_realtime".to_string(), json!(true));
    }
    Ok(Superblock { uuid: block.uuid(32), facts })
}

//! What people are told of an XFS: how to make it, its upkeep, and how its stripe is mended.

use fsdyno_spec::outcome::Reason;
use fsdyno_spec::record::{Facts, Upkeep};
use fsdyno_spec::units::Bytes;
use serde_json::Value;

use super::superblock::superblock;
use super::{LEAST_STRIPED, NOALIGN, geometry_facts, too_small};
use crate::advise::{Asked, Hints};
use crate::geometry::Geometry;
use crate::geometry_rule::{Mismatch, Parameters};
use crate::medium::Medium;
use crate::plan::{fresh_mount, quote};

/// The largest stripe unit that its log can have (`XLOG_MAX_RECORD_BSIZE` in `fs/xfs/libxfs/xfs_log_format.h`).
const MOST_LOG_UNIT: Bytes = Bytes::kib(256);

pub(super) fn advise(asked: &Asked<'_>) -> Result<Hints, Reason> {
    let block = match asked.block_size {
        4096 => String::new(),
        other => format!("-b size={other}"),
    };
    let Some(geometry) = asked.geometry else {
        let make =
            asked.make("xfs", "mkfs.xfs", &block, "nothing is striped, so there is nothing to tell it");
        let mount = asked.mount("xfs", "nothing else helps here");
        return Ok(Hints { steps: vec![make, mount], notes: Vec::new() });
    };
    geometry_facts(Some(geometry), asked.block_size)?;
    if let Some(size) = asked.size.filter(|size| *size < LEAST_STRIPED) {
        return Err(too_small(size));
    }
    let words = format!("{block} -d su={}k,sw={}", geometry.chunk.0 >> 10, geometry.data_disks);
    let mut why = "inodes, large files and the log begin on stripes".to_string();
    if geometry.chunk > MOST_LOG_UNIT {
        why += "; mkfs.xfs warns that the log takes a unit of 32 KiB: it has room for 256 KiB at most";
    }
    let make = asked.make("xfs", "mkfs.xfs", words.trim(), why);
    let mount = asked
        .mount("xfs", "the stripe is in the superblock (sunit= and swidth= are for arrays that grew since)");
    let mut notes = vec![
        "xfs: mkfs.xfs leaves out what it detects on devices below 1 GiB, so su and sw are stated"
            .to_string(),
    ];
    if asked.block_size > 4096 {
        notes.push(format!(
            "xfs: blocks of {} are mounted only by kernels whose pages are as large, and since Linux 6.12",
            Bytes(asked.block_size)
        ));
    }
    Ok(Hints { steps: vec![make, mount], notes })
}

/// `mount -o remount,swidth=` returns 0 and changes nothing (Linux 6.1), so it must not be tried. Whether a
/// fresh mount would take the stripe is [`refuses`]'s to say, which needs the superblock.
pub(super) fn tell(geometry: &Geometry, _: u64) -> Result<Parameters, Reason> {
    let options = mount_options(geometry);
    Err(Reason::new("a mounted XFS cannot be told a new stripe: a remount takes `swidth` and ignores it").advise(
        format!(
            "unmount it and mount it with {options} (mount_sunit, mount_swidth): a mount takes that if it was made \
             with a geometry and its allocation groups (agblocks) are a multiple of the new chunk; otherwise it must \
             be made anew"
        ),
    ))
}

fn mount_options(geometry: &Geometry) -> String {
    format!("sunit={},swidth={}", geometry.sunit(), geometry.swidth())
}

/// Why a mount fails that names this stripe, as `xfs_validate_new_dalign` in `fs/xfs/xfs_mount.c` has it; none
/// if it takes it. mkfs.xfs makes groups an odd multiple of the chunk where several would put the groups'
/// headers on the same member, so a larger chunk often does not fit them.
fn refuses(made: &Facts, geometry: &Geometry) -> Option<String> {
    if number(made, "sunit") == 0 {
        return Some("made without a stripe, it cannot be told one".to_string());
    }
    let group = number(made, "agblocks") * number(made, "block_size");
    (group == 0 || !group.is_multiple_of(geometry.chunk.0)).then(|| {
        format!(
            "its allocation groups of {} are no multiple of {}, so it cannot be told that chunk",
            Bytes(group),
            geometry.chunk
        )
    })
}

/// Only a fresh mount is told a stripe, and not one with `noalign`. The superblock keeps it only where mkfs
/// would have put the root inode at the same place (`xfs_check_new_dalign`), so later mounts may need the
/// options again: they belong into `/etc/fstab`.
pub(super) fn mend(wrong: &Mismatch<'_>) -> String {
    let Mismatch { device, point, geometry, superblock, .. } = *wrong;
    let ignored = wrong.shown.iter().any(|word| word == NOALIGN);
    let knows = wrong.expected.iter().all(|(name, expected)| number(superblock, name) == *expected);
    if knows {
        // Then only an option can be wrong.
        let against =
            |word: &&String| [NOALIGN, "sunit", "swidth"].contains(&word.split('=').next().unwrap_or(word));
        let words: Vec<_> = wrong.shown.iter().filter(against).map(String::as_str).collect();
        return fresh_mount(&format!("take {} out of", words.join(",")), point);
    }
    if let Some(why) = refuses(superblock, geometry) {
        let size = Bytes(number(superblock, "size"));
        if size < LEAST_STRIPED {
            return format!(
                "# {why}; made anew it takes one on a device of {LEAST_STRIPED}, this one has {size}"
            );
        }
        let Geometry { chunk, data_disks } = geometry;
        return format!(
            "# {why}: save its files, then mkfs.xfs -f -d su={},sw={data_disks} {}",
            chunk.0,
            quote(device)
        );
    }
    let options = mount_options(geometry);
    match ignored {
        true => fresh_mount(&format!("put {options} in place of {NOALIGN} into"), point),
        false => fresh_mount(&format!("put {options} into"), point),
    }
}

fn number(facts: &Facts, name: &str) -> u64 {
    facts.get(name).and_then(Value::as_u64).unwrap_or(0)
}

/// The least log that mkfs.xfs makes, on whatever device it takes, since xfsprogs 5.19: a smaller one, as
/// older versions made on devices below 128 GiB, does not absorb bursts of metadata.
const USUAL_LOG: Bytes = Bytes::mib(64);

/// The least device that it takes since then.
const USUAL_SIZE: u64 = 300 << 20;

/// Reads the upkeep from the superblock.
pub(super) fn upkeep(medium: &mut dyn Medium) -> Result<Upkeep, Reason> {
    let facts = superblock(medium)?.facts;
    let number = |name: &str| facts.get(name).and_then(Value::as_u64);
    Ok(Upkeep {
        journal: number("log_size").map(Bytes),
        journal_usual: number("size").filter(|size| *size >= USUAL_SIZE).map(|_| USUAL_LOG),
        smallest_write: number("sector_size").map(Bytes),
        ..Upkeep::default()
    })
}

//! What people are told of a btrfs: how to make it, and its upkeep.

use fsdyno_spec::outcome::Reason;
use fsdyno_spec::record::Upkeep;
use fsdyno_spec::units::Bytes;
use serde_json::Value;

use super::superblock::superblock;
use crate::advise::{Asked, Hints, step};
use crate::medium::Medium;
use crate::plan::quote;

/// What it reads ahead by itself at least (`open_ctree` in `fs/btrfs/disk-io.c`).
const OWN_READ_AHEAD: Bytes = Bytes::mib(4);

pub(super) fn advise(asked: &Asked<'_>) -> Result<Hints, Reason> {
    let make = asked.make(
        "btrfs",
        "mkfs.btrfs",
        "-d single -m dup",
        "it has stripes of its own and takes no others; the array stripes its data, and metadata kept twice mends what \
         the array cannot tell to be wrong",
    );
    let mut steps = vec![make, asked.mount("btrfs", "each would copy a path of its trees")];
    let mut notes = Vec::new();
    if let Some(wanted) = asked.geometry.map(|geometry| geometry.read_ahead()) {
        if wanted > OWN_READ_AHEAD {
            let uuid = format!("$(blkid -o value -s UUID {})", quote(asked.device));
            let own = format!("/sys/fs/btrfs/{uuid}/bdi/read_ahead_kb");
            let command = format!("echo {} > {own}", wanted.0 >> 10);
            steps.push(step(
                "read_ahead",
                "btrfs",
                command,
                "it reads ahead by itself, 4 MiB, whatever the device says",
            ));
        } else {
            notes.push(
                "btrfs: it reads ahead 4 MiB by itself; the device's read-ahead does nothing for it"
                    .to_string(),
            );
        }
    }
    Ok(Hints { steps, notes })
}

/// Reads the upkeep: what is written least is a sector, for a copy of the superblock.
pub(super) fn upkeep(medium: &mut dyn Medium) -> Result<Upkeep, Reason> {
    let facts = superblock(medium)?.facts;
    let smallest_write = facts.get("sector_size").and_then(Value::as_u64).map(Bytes);
    Ok(Upkeep { smallest_write, ..Upkeep::default() })
}

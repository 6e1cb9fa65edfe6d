//! An array of md as a layer: what sysfs says of it, and where its members' data begins.

use fsdyno_filesystems::{Geometry, Layout};
use fsdyno_spec::array::Level;
use fsdyno_spec::outcome::Reason;
use fsdyno_spec::record::{Facts, LayerKind, Piece, Unseen};
use fsdyno_spec::units::Bytes;
use serde_json::{Value, json};

use crate::array::state::{Member, State};
use crate::walk::device::{Parts, node, slaves};
use crate::walk::told;

/// The array of a kernel name.
pub fn parts(name: &str, size: Bytes, unseen: &mut Vec<Unseen>) -> Parts {
    let state = State { name: name.to_string() };
    let mut facts = state.facts();
    if let Some(layout) = layout(&facts) {
        facts.insert("layout".into(), json!(layout));
    }
    let now = [
        ("at_work", state.at_work().map(Value::from)),
        ("done", state.done().map(Value::from)),
        ("mismatch_cnt", state.number("mismatch_cnt").map(Value::from)),
        // A first resync counts them too.
        ("last_sync_action", state.text("last_sync_action").ok().map(Value::from)),
    ];
    facts.extend(now.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?))));
    let size_of = |member: &Member| state.number(&format!("dev-{}/size", member.name))?.checked_mul(1024);
    let members: Vec<(Member, Option<u64>)> = state
        .members()
        .into_iter()
        .filter(|member| member.slot.is_some())
        .map(|member| {
            let size = size_of(&member);
            (member, size)
        })
        .collect();
    let found = Found::of(&facts);
    let below = match state.runs() {
        true => found.pieces(size.0, &members),
        false => Err("it does not run".to_string()),
    };
    let (below, somewhere_on) = match below {
        Ok(below) => (below, Vec::new()),
        Err(why) => {
            let reason = Reason::new(format!("where the bytes of {name} lie is not known: {why}"))
                .advise(format!("see `mdadm --detail {}`", node(name)));
            unseen.push(told("segments", Some(name), reason));
            (Vec::new(), slaves(name))
        }
    };
    let degraded = facts.get("degraded").and_then(Value::as_u64);
    if let Some(survives) = found.survives(degraded) {
        facts.insert("survives".into(), json!(survives));
    }
    if let Some(data_disks) = found.geometry().ok().flatten().map(|geometry| geometry.data_disks) {
        facts.insert("data_disks".into(), json!(data_disks));
    }
    if found.level.as_deref() == Some("raid0") && unequal(found.chunk, &members) {
        let message = format!(
            "the members of {name} differ in size: behind the end of the smallest its stripes are narrower"
        );
        let reason = Reason::new(message).advise("alignment is judged for the first part only");
        unseen.push(told("segments", Some(name), reason));
    }
    Parts { kind: LayerKind::Md, node: node(name), facts, below, somewhere_on }
}

fn layout(facts: &Facts) -> Option<String> {
    let level = crate::walk::level_of(facts.get("level")?.as_str()?)?;
    let number = u32::try_from(facts.get("kernel_layout")?.as_u64()?).ok()?;
    Some(Layout::from_kernel(level, number)?.name())
}

/// Whether members are so unequal that RAID 0 uses what the larger ones have more.
fn unequal(chunk: Option<u64>, members: &[(Member, Option<u64>)]) -> bool {
    let chunk = chunk.filter(|chunk| *chunk > 0).unwrap_or(1);
    let mut chunks = members.iter().filter_map(|(_, size)| Some((*size)? / chunk));
    let Some(first) = chunks.next() else { return false };
    chunks.any(|other| other != first)
}

/// What the geometry of an array follows from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// As the kernel names it: `raid6`, `linear`, …
    pub level: Option<String>,
    /// Members, without spares.
    pub members: Option<u32>,
    /// Bytes on one member before the next one's turn.
    pub chunk: Option<u64>,
    /// By name; none if the level has none, or no name is known for it.
    pub layout: Option<String>,
}

impl Found {
    /// From the facts of a layer.
    pub fn of(facts: &Facts) -> Self {
        let number = |name: &str| facts.get(name).and_then(Value::as_u64);
        let text = |name: &str| facts.get(name).and_then(Value::as_str).map(str::to_string);
        Self {
            level: text("level"),
            members: number("members").and_then(|members| u32::try_from(members).ok()),
            chunk: number("chunk"),
            layout: text("layout"),
        }
    }

    /// Its stripe; none if nothing is striped.
    ///
    /// # Errors
    /// If what is known does not make an array.
    pub fn geometry(&self) -> Result<Option<Geometry>, Reason> {
        let Some((level, members)) = self.level.as_deref().zip(self.members) else { return Ok(None) };
        let chunk = self.chunk.map(Bytes);
        match level {
            // One disk of parity each, wherever it lies: the layout does not count. The kernel has more of
            // them than have names here.
            "raid4" | "raid5" => Geometry::of(Level::Raid5, members, chunk, None),
            "raid6" => Geometry::of(Level::Raid6, members, chunk, None),
            "raid0" => Geometry::of(Level::Raid0, members, chunk, None),
            "raid10" => match self.layout.as_deref() {
                Some(layout) => Geometry::of(Level::Raid10, members, chunk, Some(layout)),
                None => Err(Reason::new(
                    "the layout of this RAID 10 has no name here, so its stripe is not known",
                )
                .advise("see `mdadm --detail` for its copies")),
            },
            _ => Ok(None),
        }
    }

    /// How many more members it can lose for certain, whichever they are, with `degraded` gone or being
    /// rebuilt (levels without anything to spare do not tell); none if that is not known. Of copies all may
    /// have been on those that are gone: RAID 10 may then survive more than this, by luck.
    fn survives(&self, degraded: Option<u64>) -> Option<u64> {
        let spare = match self.level.as_deref()? {
            "raid0" | "linear" => return Some(0),
            "raid1" => u64::from(self.members?.checked_sub(1)?),
            "raid4" | "raid5" => 1,
            "raid6" => 2,
            "raid10" => {
                let layout = Layout::of(Level::Raid10, Some(self.layout.as_deref()?)).ok()??;
                u64::from(layout.copies().checked_sub(1)?)
            }
            _ => return None,
        };
        Some(spare.saturating_sub(degraded?))
    }

    /// Where the `size` bytes of the array lie on members (with the size of each one's data).
    ///
    /// # Errors
    /// Why that cannot be said.
    fn pieces(&self, size: u64, members: &[(Member, Option<u64>)]) -> Result<Vec<Piece>, String> {
        let level = self.level.as_deref().unwrap_or("");
        let striped = match level {
            "raid0" | "raid4" | "raid5" | "raid6" | "raid10" => true,
            "raid1" | "multipath" | "faulty" => false,
            "linear" => return self.joined(size, members),
            "" => return Err("it is a container of arrays, or of no level".to_string()),
            other => return Err(format!("the level `{other}` is not known here")),
        };
        if members.is_empty() {
            return Err("it has no members".to_string());
        }
        let chunk = striped.then_some(self.chunk.map(Bytes)).flatten();
        if striped && chunk.is_none() {
            return Err("its chunk cannot be read".to_string());
        }
        members
            .iter()
            .map(|(member, _)| {
                let offset = data_offset(member)?;
                Ok(Piece { start: Bytes(0), size: Bytes(size), on: member.name.clone(), offset, chunk })
            })
            .collect()
    }

    /// One member behind the other, each up to a whole number of chunks if there are any
    /// (`linear_conf` of drivers/md/md-linear.c). That it adds up to the size proves it.
    fn joined(&self, size: u64, members: &[(Member, Option<u64>)]) -> Result<Vec<Piece>, String> {
        let mut start = 0u64;
        let mut pieces = Vec::new();
        for (member, length) in members {
            let length = length.ok_or_else(|| format!("the size of {} cannot be read", member.name))?;
            let chunk = self.chunk.filter(|chunk| *chunk > 0).unwrap_or(1);
            let length = length - length % chunk;
            let (on, offset) = (member.name.clone(), data_offset(member)?);
            pieces.push(Piece { start: Bytes(start), size: Bytes(length), on, offset, chunk: None });
            start = start.checked_add(length).ok_or("the sizes of its members cannot be")?;
        }
        if start == size { Ok(pieces) } else { Err("the sizes of its members do not add up".to_string()) }
    }
}

fn data_offset(member: &Member) -> Result<Bytes, String> {
    let offset =
        member.offset.ok_or_else(|| format!("where the data of {} begins cannot be read", member.name))?;
    Ok(Bytes(offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(level: &str, members: u32, chunk: u64, layout: Option<&str>) -> Found {
        Found {
            level: Some(level.into()),
            members: Some(members),
            chunk: (chunk > 0).then_some(chunk),
            layout: layout.map(str::to_string),
        }
    }

    fn member(name: &str, slot: u32, offset: u64, size: u64) -> (Member, Option<u64>) {
        let member =
            Member { name: name.into(), slot: Some(slot), state: "in_sync".into(), offset: Some(offset) };
        (member, Some(size))
    }

    #[test]
    fn data_disks_follow_from_what_sysfs_says() {
        let data = |found: Found| found.geometry().unwrap().map(|geometry| geometry.data_disks);
        assert_eq!(data(found("raid5", 4, 65536, Some("left-symmetric"))), Some(3));
        assert_eq!(data(found("raid4", 4, 65536, None)), Some(3));
        // A layout of other controllers, for which there is no name here, changes nothing.
        assert_eq!(data(found("raid6", 12, 131_072, None)), Some(10));
        assert_eq!(data(found("raid10", 4, 65536, Some("near2"))), Some(2));
        assert_eq!(data(found("raid1", 2, 0, None)), None);
        assert_eq!(data(found("linear", 2, 65536, None)), None);
        assert_eq!(data(Found::default()), None);
        assert!(found("raid10", 4, 65536, None).geometry().is_err());
    }

    #[test]
    fn what_it_surely_survives_follows_from_level_copies_and_what_is_gone() {
        for (level, members, layout, degraded, survives) in [
            ("raid0", 4, None, None, Some(0)),
            ("linear", 2, None, None, Some(0)),
            ("raid1", 3, None, Some(0), Some(2)),
            ("raid1", 3, None, Some(2), Some(0)),
            ("raid4", 4, None, Some(0), Some(1)),
            ("raid5", 4, Some("left-symmetric"), Some(1), Some(0)),
            ("raid6", 4, None, Some(0), Some(2)),
            ("raid6", 4, None, Some(1), Some(1)),
            ("raid6", 5, None, Some(3), Some(0)),
            ("raid10", 4, Some("near2"), Some(0), Some(1)),
            ("raid10", 4, Some("near2"), Some(1), Some(0)),
            ("raid10", 6, Some("near3"), Some(0), Some(2)),
            ("raid10", 4, Some("far2"), Some(0), Some(1)),
            ("raid10", 4, Some("offset3"), Some(1), Some(1)),
            ("raid10", 4, None, Some(0), None),
            ("raid5", 4, None, None, None),
            ("faulty", 1, None, Some(0), None),
        ] {
            let said = found(level, members, 65536, layout).survives(degraded);
            assert_eq!(said, survives, "{level} {members} {layout:?} {degraded:?}");
        }
        assert_eq!(Found::default().survives(Some(0)), None);
    }

    #[test]
    fn striped_members_begin_together_and_joined_ones_behind_each_other() {
        let two = [member("sda", 0, 1 << 20, 100 << 10), member("sdb", 1, 2 << 20, 200 << 10)];
        let pieces = found("raid0", 2, 65536, None).pieces(192 << 10, &two).unwrap();
        let starts: Vec<_> = pieces.iter().map(|p| (p.start.0, p.offset.0, p.chunk)).collect();
        assert_eq!(starts, [(0, 1 << 20, Some(Bytes(65536))), (0, 2 << 20, Some(Bytes(65536)))]);
        let pieces = found("linear", 2, 0, None).pieces(300 << 10, &two).unwrap();
        let starts: Vec<_> = pieces.iter().map(|p| (p.start.0, p.offset.0, p.chunk)).collect();
        assert_eq!(starts, [(0, 1 << 20, None), (100 << 10, 2 << 20, None)]);
        // With a chunk of 64 KiB: 64 and 192 KiB of them are used.
        let pieces = found("linear", 2, 65536, None).pieces(256 << 10, &two).unwrap();
        assert_eq!(pieces[1].start, Bytes(64 << 10));
        assert!(found("linear", 2, 0, None).pieces(299 << 10, &two).unwrap_err().contains("add up"));
    }

    #[test]
    fn levels_without_an_order_of_bytes_are_told() {
        assert!(found("", 2, 0, None).pieces(1, &[]).unwrap_err().contains("container"));
        assert!(found("raid7", 2, 0, None).pieces(1, &[]).unwrap_err().contains("raid7"));
        assert!(found("raid1", 2, 0, None).pieces(1, &[]).unwrap_err().contains("no members"));
    }

    #[test]
    fn unequal_members_count_by_whole_chunks() {
        let members = |second| [member("sda", 0, 0, 640 << 10), member("sdb", 1, 0, second)];
        assert!(!unequal(Some(65536), &members((640 << 10) + 4096)));
        assert!(unequal(Some(65536), &members(704 << 10)));
    }
}

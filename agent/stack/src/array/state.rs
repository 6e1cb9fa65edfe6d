//! An md array as the kernel describes it below `/sys/block/mdN/md`: what it is, who is in it, and what
//! it does by itself. No tool is asked, so it costs nothing to look before and after each phase.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::backing::Aligned;
use crate::settings::Facts;
use crate::sysfs;

/// A standing array, by its kernel name (`md300`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Kernel name.
    pub name: String,
}

/// A device in an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Kernel name.
    pub name: String,
    /// Where it stands; none for spares and failed ones.
    pub slot: Option<u32>,
    /// `in_sync`, `spare`, `faulty`, …, with commas.
    pub state: String,
    /// Where its data begins, bytes.
    pub offset: Option<u64>,
}

impl Member {
    /// Whether it is in `state`.
    #[must_use]
    pub fn is(&self, state: &str) -> bool {
        self.state.split(',').any(|word| word == state)
    }
}

impl State {
    /// Value of an attribute below `md`.
    ///
    /// # Errors
    /// Of sysfs.
    pub fn text(&self, attribute: &str) -> io::Result<String> {
        sysfs::text(&self.md().join(attribute))
    }

    /// First number of an attribute: during a reshape the new one.
    #[must_use]
    pub fn number(&self, attribute: &str) -> Option<u64> {
        self.text(attribute).ok()?.split_whitespace().next()?.parse().ok()
    }

    /// Writes an attribute.
    ///
    /// # Errors
    /// Of the kernel.
    pub fn put(&self, attribute: &str, value: &str) -> io::Result<()> {
        fs::write(self.md().join(attribute), value)
    }

    fn md(&self) -> PathBuf {
        sysfs::class(&self.name).join("md")
    }

    /// Whether it runs.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.text("array_state").is_ok_and(|state| state != "clear" && state != "inactive")
    }

    /// Whether there is anything of it, be it that it runs, or that it only has members, which nobody
    /// else can use then: what is left when its making was ended in the middle.
    #[must_use]
    pub fn stands(&self) -> bool {
        self.text("array_state").is_ok_and(|state| state != "clear")
    }

    /// Its UUID, with hyphens: as sysfs has it (kernel 6.0 and later, and only once it ran), else from a
    /// member's superblock.
    #[must_use]
    pub fn uuid(&self) -> Option<String> {
        let told = self.text("uuid").ok().filter(|uuid| !is_blank(uuid));
        let slaves = || sysfs::names_in(&sysfs::class(&self.name).join("slaves"));
        told.or_else(|| slaves().iter().find_map(|name| member_of(&Path::new("/dev").join(name))))
    }

    /// Everything in it, by kernel name.
    #[must_use]
    pub fn members(&self) -> Vec<Member> {
        let mut members: Vec<Member> = sysfs::names_in(&self.md())
            .into_iter()
            .filter_map(|entry| {
                let of = |attribute: &str| self.text(&format!("{entry}/{attribute}")).ok();
                Some(Member {
                    name: entry.strip_prefix("dev-")?.to_string(),
                    slot: of("slot").and_then(|slot| slot.parse().ok()),
                    state: of("state")?,
                    offset: of("offset").and_then(|sectors| sectors.parse::<u64>().ok()).map(|n| n * 512),
                })
            })
            .collect();
        members.sort_by(|a, b| (a.slot.is_none(), a.slot, &a.name).cmp(&(b.slot.is_none(), b.slot, &b.name)));
        members
    }

    /// Whether each slot has a member whose data is whole.
    #[must_use]
    pub fn working(&self) -> Vec<bool> {
        let mut working = vec![false; self.number("raid_disks").unwrap_or(0) as usize];
        for member in self.members().iter().filter(|m| m.is("in_sync")) {
            if let Some(works) = member.slot.and_then(|slot| working.get_mut(slot as usize)) {
                *works = true;
            }
        }
        working
    }

    /// What it does by itself (`resync`, `recover`, `reshape`, `check`, …) or is about to.
    #[must_use]
    pub fn at_work(&self) -> Option<String> {
        // Level 0 has nothing to do.
        let action = self.text("sync_action").ok()?;
        if action != "idle" && action != "frozen" {
            return Some(action);
        }
        let missing = self.number("degraded").unwrap_or(0) > 0;
        let next = |m: &Member| m.is("spare") && !m.is("faulty");
        let about = (missing && self.members().iter().any(next)) || self.number("resync_start").is_some();
        about.then(|| "about to rebuild".to_string())
    }

    /// Share of the present rebuild that is done, 0 to 1.
    #[must_use]
    pub fn done(&self) -> Option<f64> {
        share(&self.text("sync_completed").ok()?)
    }

    /// What it is and does now, by name; sizes in bytes.
    #[must_use]
    pub fn facts(&self) -> Facts {
        let text = |name: &str, attribute: &str| {
            Some((name.to_string(), json!(self.text(attribute).ok().filter(|text| !text.is_empty())?)))
        };
        let number = |name: &str, attribute: &str| Some((name.to_string(), json!(self.number(attribute)?)));
        let queue = |attribute: &str| {
            let value = sysfs::number(&sysfs::queue(&self.name).join(attribute)).ok()?;
            Some((attribute.to_string(), json!(value)))
        };
        let component = self.number("component_size").map(|kib| kib * 1024).filter(|size| *size > 0);
        let mut facts: Facts = [
            text("level", "level"),
            text("array_state", "array_state"),
            text("sync_action", "sync_action"),
            text("metadata", "metadata_version"),
            text("bitmap", "bitmap/location"),
            text("sync_speed_min", "sync_speed_min"),
            text("sync_speed_max", "sync_speed_max"),
            text("consistency_policy", "consistency_policy"),
            number("kernel_layout", "layout"),
            number("members", "raid_disks"),
            number("degraded", "degraded"),
            number("chunk", "chunk_size").filter(|(_, chunk)| chunk != &json!(0)),
            number("stripe_cache_size", "stripe_cache_size"),
            queue("minimum_io_size"),
            queue("optimal_io_size"),
            component.map(|size| ("member_size".to_string(), json!(size))),
        ]
        .into_iter()
        .flatten()
        .collect();
        let members = self.members();
        let list = members
            .iter()
            .map(|m| json!({ "device": m.name, "slot": m.slot, "state": m.state, "data_offset": m.offset }));
        facts.insert("slots".into(), Value::Array(list.collect()));
        facts
    }
}

/// Whether a UUID says nothing: the kernel sets that of an array when it first runs.
fn is_blank(uuid: &str) -> bool {
    uuid.chars().all(|c| matches!(c, '0' | '-'))
}

/// `done / all` of `sync_completed`; none if nothing goes on, or it has not begun (`delayed`).
fn share(completed: &str) -> Option<f64> {
    let (done, all) = completed.split_once('/')?;
    let (done, all): (f64, f64) = (done.trim().parse().ok()?, all.trim().parse().ok()?);
    (all > 0.0).then(|| (done / all).min(1.0))
}

/// UUID of the array that a device is a member of, with hyphens, from its superblock of version 1.2: at
/// 4 KiB, magic number a92b4efc (little endian), UUID at byte 16 (`mdp_superblock_1` of
/// linux/raid/md_p.h). Read past the page cache, which does not see what the kernel writes there.
pub fn member_of(device: &Path) -> Option<String> {
    let mut block = Aligned::zeroed(4096);
    let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(device).ok()?;
    file.read_exact_at(block.bytes(), 4096).ok()?;
    uuid_in(block.bytes())
}

fn uuid_in(superblock: &[u8]) -> Option<String> {
    let magic = u32::from_le_bytes(superblock.get(..4)?.try_into().ok()?);
    let hex: String = superblock.get(16..32)?.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    (magic == 0xa92b_4efc).then(|| parts.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_a_share_or_unknown() {
        assert_eq!(share("50 / 200"), Some(0.25));
        assert_eq!(share("none"), None);
        assert_eq!(share("delayed"), None);
        assert_eq!(share("0 / 0"), None);
    }

    #[test]
    fn a_superblock_tells_its_array_and_anything_else_does_not() {
        let mut block = vec![0u8; 4096];
        assert_eq!(uuid_in(&block), None);
        block[..4].copy_from_slice(&[0xfc, 0x4e, 0x2b, 0xa9]);
        for n in 0..16u8 {
            block[16 + usize::from(n)] = n * 17;
        }
        assert_eq!(uuid_in(&block).unwrap(), "00112233-4455-6677-8899-aabbccddeeff");
    }

    #[test]
    fn the_uuid_of_an_array_that_never_ran_says_nothing() {
        assert!(is_blank("00000000-0000-0000-0000-000000000000") && is_blank(""));
        assert!(!is_blank("00000000-0000-0000-0000-000000000001"));
    }

    #[test]
    fn a_member_may_be_in_several_states() {
        let member = |state: &str| Member { name: "x".into(), slot: None, state: state.into(), offset: None };
        assert!(member("faulty,blocked").is("faulty"));
        assert!(!member("write_mostly").is("write"));
    }
}

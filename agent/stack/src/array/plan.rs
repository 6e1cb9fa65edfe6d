//! What a plan asks of an array, checked and spelt out: nothing is left to mdadm's own choice, because
//! its defaults change from version to version (layouts, bitmaps, chunks).

use fsdyno_filesystems::{CommandLine, Geometry, Layout};
use fsdyno_spec::array::{Array, Bitmap, Level, ResyncPolicy};
use fsdyno_spec::outcome::Reason;
use fsdyno_spec::units::Bytes;

/// An array as it is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// RAID level.
    pub level: Level,
    /// Members without spares.
    pub members: u32,
    /// Bytes on one member before the next one's turn; none for level 1.
    pub chunk: Option<Bytes>,
    /// Where parity or copies go; none for levels 0 and 1.
    pub layout: Option<Layout>,
    /// As it looks from above; none where nothing is striped.
    pub geometry: Option<Geometry>,
    /// What happens to parity and copies at the start.
    pub resync: ResyncPolicy,
    /// Whether a write-intent bitmap is kept.
    pub bitmap: Bitmap,
}

impl Plan {
    /// Checks what is asked for against `devices`, the number of leaves.
    ///
    /// # Errors
    /// What no array can be, with what to write instead.
    pub fn of(spec: &Array, devices: usize) -> Result<Self, Reason> {
        let devices = u32::try_from(devices).unwrap_or(u32::MAX);
        let number = spec.level.number();
        let members = devices.checked_sub(spec.spares).filter(|n| *n >= 2).ok_or_else(|| {
            Reason::new(format!("{devices} devices with {} spares leave no array", spec.spares)).advise(
                "give `stack.devices` more entries (or a `count`), or `array.spares` a smaller number",
            )
        })?;
        if spec.level == Level::Raid1 && spec.chunk.is_some() {
            return Err(Reason::new("RAID 1 has no chunks").advise("leave `array.chunk` out"));
        }
        if spec.level == Level::Raid0 && spec.bitmap == Bitmap::Internal {
            return Err(Reason::new(format!("RAID {number} has nothing that a bitmap could keep track of"))
                .advise("leave `array.bitmap` out"));
        }
        Ok(Self {
            level: spec.level,
            members,
            chunk: spec.chunk,
            layout: Layout::of(spec.level, spec.layout.as_deref())?,
            geometry: Geometry::of(spec.level, members, spec.chunk, spec.layout.as_deref())?,
            resync: spec.resync,
            bitmap: spec.bitmap,
        })
    }

    /// The command that makes it at `node`, of `devices`. `uuid` with its hyphens.
    #[must_use]
    pub fn create(&self, node: &str, name: &str, uuid: &str, devices: &[&str]) -> CommandLine {
        let mut args = vec![
            "--create".to_string(),
            node.to_string(),
            // The host's configuration says nothing about an array of ours.
            "--config=none".to_string(),
            "--run".to_string(),
            "--metadata=1.2".to_string(),
            "--homehost=none".to_string(),
            format!("--name={name}"),
            format!("--uuid={uuid}"),
            format!("--level={}", self.level.number()),
            format!("--raid-devices={}", self.members),
        ];
        if let Some(chunk) = self.chunk {
            args.push(format!("--chunk={}K", chunk.0 / 1024));
        }
        if let Some(layout) = self.layout {
            args.push(format!("--layout={}", layout.mdadm()));
        }
        let bitmap = match self.bitmap {
            Bitmap::None => "none",
            Bitmap::Internal => "internal",
        };
        // Level 0 has nothing to keep track of, and mdadm refuses to be told so.
        if self.level != Level::Raid0 {
            args.push(format!("--bitmap={bitmap}"));
            if self.resync == ResyncPolicy::AssumeClean {
                args.push("--assume-clean".to_string());
            }
        }
        args.extend(devices.iter().take(self.members as usize).map(ToString::to_string));
        CommandLine { program: "mdadm".to_string(), args }
    }

    /// `md/layout` of the kernel for this layout.
    #[must_use]
    pub fn kernel_layout(&self) -> Option<u64> {
        self.layout.map(|layout| u64::from(layout.kernel()))
    }

    /// Whether the array still has all its data when only the members work whose slot is true.
    ///
    /// # Errors
    /// Why not.
    pub fn survives(&self, working: &[bool]) -> Result<(), Reason> {
        let lost = working.iter().filter(|works| !**works).count();
        let may_lose = |most: usize| {
            let advice = format!("this level keeps its data with {most} members out at most");
            let message = format!("RAID {} would lose its data with {lost} members out", self.level.number());
            if lost <= most { Ok(()) } else { Err(Reason::new(message).advise(advice)) }
        };
        match (self.level, self.layout) {
            (Level::Raid0, _) if lost == 0 => Ok(()),
            (Level::Raid0, _) => Err(Reason::new("RAID 0 has no redundancy: it cannot lose a member")
                .advise("measure a degraded array at level 1, 5, 6 or 10")),
            (Level::Raid1, _) => may_lose(working.len().saturating_sub(1)),
            (Level::Raid5, _) => may_lose(1),
            (Level::Raid6, _) => may_lose(2),
            (Level::Raid10, layout) => {
                let (copies, step) = match layout {
                    Some(Layout::Copies { how: "near", count }) => (count as usize, count as usize),
                    Some(Layout::Copies { count, .. }) => (count as usize, 1),
                    _ => (2, 2),
                };
                if every_chunk_is_left(working, copies, step) {
                    return Ok(());
                }
                Err(Reason::new("these members hold all copies of some chunks: the array would lose data")
                    .advise("take out members that do not hold copies of each other"))
            }
        }
    }
}

/// Whether at least one copy of each chunk is on a working member: the copies lie on `copies` members
/// in a row, each set begins `step` members after the one before (`_enough` in `drivers/md/raid10.c`).
fn every_chunk_is_left(working: &[bool], copies: usize, step: usize) -> bool {
    let mut first = 0;
    loop {
        if !(0..copies).any(|n| working[(first + n) % working.len()]) {
            return false;
        }
        first = (first + step) % working.len();
        if first == 0 {
            return true;
        }
    }
}

/// A command that manages a standing array; `mdadm` takes no `--config` there and needs none.
#[must_use]
pub fn manage(node: &str, what: &str, devices: &[&str]) -> CommandLine {
    let args = ["--manage", node, what].into_iter().chain(devices.iter().copied());
    CommandLine { program: "mdadm".to_string(), args: args.map(str::to_string).collect() }
}

/// The command that stops an array.
#[must_use]
pub fn stop(node: &str) -> CommandLine {
    let args = ["--stop", "--config=none", node].map(str::to_string).to_vec();
    CommandLine { program: "mdadm".to_string(), args }
}

/// The command that forgets what members were members of.
#[must_use]
pub fn zero(devices: &[&str]) -> CommandLine {
    let args = ["--zero-superblock", "--config=none"].into_iter().chain(devices.iter().copied());
    CommandLine { program: "mdadm".to_string(), args: args.map(str::to_string).collect() }
}

/// The command that takes spares in as data members. With `backup`, a file on none of the members, what
/// is overwritten at the very start is kept there meanwhile; then mdadm does not try the other way, to
/// move where the data begins.
///
/// Where mdadm copies, it leaves a process behind that accompanies the reshape, or asks the host's service
/// manager for one. Neither may be: the manager may be none, or see other files; and our tools end with
/// all that is in their process group. So the manager is not asked, and mdadm gets a session of its own:
/// that process ends when the reshape does, or when the array is stopped.
#[must_use]
pub fn grow(node: &str, members: u32, backup: Option<&str>) -> CommandLine {
    let words = ["--wait", "env", "MDADM_NO_SYSTEMCTL=1", "mdadm", "--grow", node];
    let mut args = words.map(str::to_string).to_vec();
    args.push(format!("--raid-devices={members}"));
    args.extend(backup.map(|backup| format!("--backup-file={backup}")));
    CommandLine { program: "setsid".to_string(), args }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(level: Level) -> Array {
        Array {
            level,
            chunk: (level != Level::Raid1).then_some(Bytes(512 << 10)),
            layout: None,
            resync: ResyncPolicy::Wait,
            bitmap: Bitmap::None,
            spares: 0,
        }
    }

    fn line(spec: &Array, devices: usize) -> String {
        let names: Vec<String> = (0..devices).map(|n| format!("/dev/x{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Plan::of(spec, devices).unwrap().create("/dev/md300", "n", "u", &names).args.join(" ")
    }

    #[test]
    fn an_array_is_stated_whole() {
        let spec = Array { chunk: Some(Bytes(64 << 10)), ..array(Level::Raid5) };
        assert_eq!(
            line(&spec, 4),
            "--create /dev/md300 --config=none --run --metadata=1.2 --homehost=none --name=n --uuid=u --level=5 \
             --raid-devices=4 --chunk=64K --layout=left-symmetric --bitmap=none /dev/x0 /dev/x1 /dev/x2 /dev/x3"
        );
        let chosen = Array {
            layout: Some("far2".into()),
            resync: ResyncPolicy::AssumeClean,
            bitmap: Bitmap::Internal,
            ..array(Level::Raid10)
        };
        assert!(
            line(&chosen, 4).contains("--chunk=512K --layout=f2 --bitmap=internal --assume-clean /dev/x0")
        );
    }

    #[test]
    fn a_level_gets_only_what_it_has() {
        let mirror = line(&array(Level::Raid1), 2);
        assert!(!mirror.contains("--chunk") && !mirror.contains("--layout"), "{mirror}");
        let clean = Array { resync: ResyncPolicy::AssumeClean, ..array(Level::Raid0) };
        let striped = line(&clean, 2);
        assert!(!striped.contains("--assume-clean") && !striped.contains("--bitmap"), "{striped}");
    }

    #[test]
    fn spares_stay_out() {
        let spec = Array { spares: 2, ..array(Level::Raid5) };
        assert!(line(&spec, 6).ends_with("--raid-devices=4 --chunk=512K --layout=left-symmetric --bitmap=none /dev/x0 /dev/x1 /dev/x2 /dev/x3"));
        assert_eq!(Plan::of(&spec, 6).unwrap().geometry.unwrap().data_disks, 3);
    }

    #[test]
    fn what_no_array_can_be_is_refused_with_advice() {
        let refused = |spec: Array, devices: usize| {
            let reason = Plan::of(&spec, devices).unwrap_err();
            assert!(reason.advice.is_some(), "{reason:?}");
            reason.message
        };
        assert!(refused(Array { spares: 4, ..array(Level::Raid5) }, 5).contains("leave no array"));
        assert!(refused(Array { chunk: Some(Bytes(65536)), ..array(Level::Raid1) }, 2).contains("no chunks"));
        assert!(refused(Array { bitmap: Bitmap::Internal, ..array(Level::Raid0) }, 2).contains("bitmap"));
        assert!(refused(array(Level::Raid6), 3).contains("needs 4 members"));
        assert!(refused(Array { layout: Some("near2".into()), ..array(Level::Raid5) }, 4).contains("near2"));
        assert!(refused(Array { chunk: Some(Bytes(100 << 10)), ..array(Level::Raid5) }, 4).contains("chunk"));
        assert!(refused(Array { chunk: None, ..array(Level::Raid10) }, 4).contains("without a chunk"));
    }

    #[test]
    fn a_reshape_asks_for_a_backup_only_where_one_is_given_and_never_the_hosts_services() {
        let line = |backup| {
            let line = grow("/dev/md300", 5, backup);
            format!("{} {}", line.program, line.args.join(" "))
        };
        let plain = "setsid --wait env MDADM_NO_SYSTEMCTL=1 mdadm --grow /dev/md300 --raid-devices=5";
        assert_eq!(line(None), plain);
        assert_eq!(line(Some("/f")), format!("{plain} --backup-file=/f"));
    }

    #[test]
    fn the_kernels_numbers_of_layouts() {
        let number = |level, layout: &str| {
            let spec = Array { layout: Some(layout.into()), ..array(level) };
            Plan::of(&spec, 6).unwrap().kernel_layout().unwrap()
        };
        assert_eq!(number(Level::Raid5, "left-symmetric"), 2);
        assert_eq!(number(Level::Raid6, "right-symmetric"), 3);
        assert_eq!(number(Level::Raid6, "left-asymmetric"), 0);
        assert_eq!(number(Level::Raid6, "left-symmetric-6"), 18);
        assert_eq!(number(Level::Raid5, "parity-last"), 5);
        assert_eq!(number(Level::Raid10, "near2"), 0x102);
        assert_eq!(number(Level::Raid10, "far2"), 0x201);
        assert_eq!(number(Level::Raid10, "offset2"), 0x1_0201);
    }

    #[test]
    fn an_array_may_lose_what_its_redundancy_bears_and_no_more() {
        let survives = |level, layout: Option<&str>, working: &[u8]| {
            let spec = Array { layout: layout.map(str::to_string), ..array(level) };
            let working: Vec<bool> = working.iter().map(|w| *w == 1).collect();
            Plan::of(&spec, working.len()).unwrap().survives(&working).is_ok()
        };
        assert!(!survives(Level::Raid0, None, &[1, 0]));
        assert!(survives(Level::Raid1, None, &[0, 0, 1]));
        assert!(!survives(Level::Raid1, None, &[0, 0]));
        assert!(survives(Level::Raid5, None, &[1, 0, 1]));
        assert!(!survives(Level::Raid5, None, &[1, 0, 0]));
        assert!(survives(Level::Raid6, None, &[1, 0, 0, 1]));
        assert!(!survives(Level::Raid6, None, &[0, 0, 0, 1, 1]));
        // Copies side by side: 0 with 1, 2 with 3.
        assert!(survives(Level::Raid10, None, &[1, 0, 0, 1]));
        assert!(!survives(Level::Raid10, None, &[0, 0, 1, 1]));
        // Far: each member's copy is on the next one.
        assert!(survives(Level::Raid10, Some("far2"), &[1, 0, 1, 0]));
        assert!(!survives(Level::Raid10, Some("far2"), &[1, 0, 0, 1]));
        // Five members with two near copies: sets go round the end.
        assert!(!survives(Level::Raid10, None, &[0, 1, 1, 1, 0]));
    }
}

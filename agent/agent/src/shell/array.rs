//! An array by hand: the very commands of the trial, on the reader's own devices. Which devices are in it is
//! followed from phase to phase, as the trial looks it up.

use fsdyno_filesystems::{CommandLine, quote};
use fsdyno_spec::array::{Array, Bitmap, ResyncPolicy};
use fsdyno_spec::outcome::Reason;
use fsdyno_stack::Change;
use fsdyno_stack::arrays::{self, Plan};

/// The array that a person makes.
pub const ARRAY: &str = "/dev/md/fsdyno-by-hand";

/// Stand in commands for what the shell knows.
const UUID: &str = "@UUID@";
const DEVICES: &str = "@DEVS@";
const BACKUP: &str = "@BACKUP@";

/// An array that a person makes and changes.
#[derive(Debug)]
pub struct ArrayByHand {
    plan: Plan,
    /// Members and spares that it has, of all devices.
    inside: Vec<bool>,
    /// Devices that were in it once: they carry its superblock.
    known: Vec<bool>,
}

impl ArrayByHand {
    /// Over so many leaves.
    ///
    /// # Errors
    /// What no array can be.
    pub fn of(spec: &Array, leaves: u32) -> Result<Self, Reason> {
        let plan = Plan::of(spec, leaves as usize)?;
        let inside: Vec<bool> = (0..leaves).map(|slot| slot < plan.members).collect();
        Ok(Self { plan, known: inside.clone(), inside })
    }

    /// Makes it of `$DEVS`; `slot N` names the device of a slot from then on.
    pub fn make(&self) -> String {
        let devices: Vec<String> = (0..self.inside.len()).map(place).collect();
        let devices: Vec<&str> = devices.iter().map(String::as_str).collect();
        let create = line(&self.plan.create(ARRAY, "fsdyno-by-hand", UUID, &devices), devices.len());
        let (stop, zero) = (line(&arrays::stop(ARRAY), 0), line(&arrays::zero(&[DEVICES]), 0));
        let wait = match self.plan.resync {
            ResyncPolicy::AssumeClean => String::new(),
            ResyncPolicy::Wait => format!("\n{}", wait()),
        };
        format!(
            "slot() {{ echo $DEVS | cut -d' ' -f$(($1 + 1)); }}\n{create}\n\
             DEV={ARRAY}; DOWN=\"{stop}; {zero}; $DOWN\"{wait}"
        )
    }

    /// What a phase does to it.
    pub fn change(&mut self, change: &Change<'_>) -> String {
        match change {
            Change::Fail(slots) => {
                for slot in *slots {
                    self.put(*slot, false);
                }
                format!("{}\n{}", self.manage("--fail", slots), self.manage("--remove", slots))
            }
            Change::Add { members, wait: waits } => {
                let mut lines: Vec<String> = members.iter().map(|slot| self.add(*slot)).collect();
                lines.extend(waits.then(wait));
                lines.join("\n")
            }
            Change::Resync => wait(),
            Change::Grow { members } => self.grow(*members),
        }
    }

    /// Puts a device in: what it knows of the array is used where a bitmap tells what it has missed, and
    /// wiped else.
    fn add(&mut self, slot: u32) -> String {
        let add = self.manage("--add", &[slot]);
        let known = self.known.get(slot as usize).copied().unwrap_or(false);
        self.put(slot, true);
        if !known {
            return add;
        }
        let zero = line(&arrays::zero(&[&place(slot as usize)]), self.inside.len());
        match self.plan.bitmap {
            Bitmap::Internal => {
                format!("{} || {{ {zero}; {add}; }}", self.manage("--re-add", &[slot]))
            }
            Bitmap::None => format!("{zero}\n{add}"),
        }
    }

    /// Takes in as many spares as are lacking, those of the first slots, and no more.
    fn grow(&mut self, members: u32) -> String {
        let present = self.inside.iter().filter(|inside| **inside).count();
        let lacking = (members as usize).saturating_sub(present);
        let free = (0..self.inside.len()).filter(|slot| !self.inside[*slot]);
        let new: Vec<u32> = free.take(lacking).filter_map(|slot| u32::try_from(slot).ok()).collect();
        let mut lines = vec!["BACKUP=$(mktemp -u -p \"${TMPDIR:-/var/tmp}\")".to_string()];
        for slot in &new {
            lines.push(self.manage("--add", &[*slot]));
            self.put(*slot, true);
        }
        // Without a copy of what is overwritten at the start, if there is room to do without.
        let grow = |backup| line(&arrays::grow(ARRAY, members, backup), 0);
        lines.push(format!("{} || {}", grow(None), grow(Some(BACKUP))));
        lines.extend([wait(), "rm -f \"$BACKUP\"".to_string()]);
        lines.join("\n")
    }

    fn put(&mut self, slot: u32, inside: bool) {
        if let (Some(here), Some(known)) =
            (self.inside.get_mut(slot as usize), self.known.get_mut(slot as usize))
        {
            (*here, *known) = (inside, true);
        }
    }

    fn manage(&self, what: &str, slots: &[u32]) -> String {
        let devices: Vec<String> = slots.iter().map(|slot| place(*slot as usize)).collect();
        let devices: Vec<&str> = devices.iter().map(String::as_str).collect();
        line(&arrays::manage(ARRAY, what, &devices), self.inside.len())
    }
}

/// What stands for the device of a slot in a command.
fn place(slot: usize) -> String {
    format!("@{slot}@")
}

/// mdadm says with its exit code that there was nothing to wait for.
fn wait() -> String {
    format!("mdadm --wait {ARRAY} || :")
}

/// A command of the trial as shell, with `slots` devices.
fn line(command: &CommandLine, slots: usize) -> String {
    let words: Vec<String> =
        std::iter::once(&command.program).chain(&command.args).map(|w| quote(w)).collect();
    let line = words.join(" ").replace(UUID, "$(cat /proc/sys/kernel/random/uuid)");
    let line = line.replace(DEVICES, "$DEVS").replace(BACKUP, "\"$BACKUP\"");
    (0..slots).fold(line, |line, slot| line.replace(&place(slot), &format!("$(slot {slot})")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    fn array(spec: serde_json::Value, leaves: u32) -> ArrayByHand {
        let spec: Array = from_value(spec).expect("an array");
        ArrayByHand::of(&spec, leaves).expect("an array that can be")
    }

    #[test]
    fn a_level_is_told_only_what_it_has_and_defaults_are_stated() {
        let made = |spec| array(spec, 4).make();
        let striped = made(json!({"level": 0, "chunk": 65536, "resync": "assume_clean"}));
        assert!(!striped.contains("--bitmap") && !striped.contains("--assume-clean"), "{striped}");
        assert!(made(json!({"level": 10, "chunk": 65536})).contains("--layout=n2 --bitmap=none"));
        assert!(made(json!({"level": 5, "chunk": 65536})).contains("--layout=left-symmetric"));
        assert!(made(json!({"level": 1})).contains("--raid-devices=4 --bitmap=none"));
    }

    #[test]
    fn spares_are_taken_in_when_they_are_needed_and_no_more() {
        let mut of = array(json!({"level": 5, "chunk": 65536, "spares": 3}), 6);
        assert!(!of.make().contains("$(slot 3)"));
        let grown = of.change(&Change::Grow { members: 4 });
        assert!(grown.contains("--add $(slot 3)") && !grown.contains("$(slot 4)"), "{grown}");
        assert!(grown.contains("--raid-devices=4 --backup-file=\"$BACKUP\""), "{grown}");
        of.change(&Change::Add { members: &[5], wait: false });
        let grown = of.change(&Change::Grow { members: 6 });
        assert!(grown.contains("--add $(slot 4)") && !grown.contains("$(slot 5)"), "{grown}");
    }

    #[test]
    fn a_former_member_comes_back_as_in_the_trial() {
        let back = |spec| {
            let mut of = array(spec, 4);
            let out = of.change(&Change::Fail(&[2]));
            assert!(out.contains("--fail $(slot 2)\n") && out.ends_with("--remove $(slot 2)"), "{out}");
            of.change(&Change::Add { members: &[2], wait: true })
        };
        let anew = back(json!({"level": 5, "chunk": 65536}));
        assert!(
            anew.starts_with("mdadm --zero-superblock --config=none $(slot 2)\nmdadm --manage"),
            "{anew}"
        );
        assert!(anew.ends_with("|| :"));
        let known = back(json!({"level": 5, "chunk": 65536, "bitmap": "internal"}));
        assert!(known.contains("--re-add $(slot 2) || {"), "{known}");
    }
}

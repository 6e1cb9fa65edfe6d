//! Phases that change what lies between the leaves and the file system: members fail and come back, the
//! array grows. And what an array does by itself while something else is measured.

use std::fs::File;
use std::path::Path;
use std::time::Instant;

use fsdyno_filesystems::{FileSystem, Role, quote};
use fsdyno_spec::array::Grow;
use fsdyno_spec::outcome::{Doubt, Flag, Outcome, Reason};
use fsdyno_spec::trial::Action;
use fsdyno_stack::Change;
use serde_json::{Value, json};

use super::{Bench, Done, Status, alignment, geometry};
use crate::facts::{Facts, built};

impl Bench<'_, '_> {
    /// Changes the layers, as a plan asks.
    pub(super) fn change(&mut self, name: &str, change: &Change<'_>) -> Done {
        self.script.change(name, change, &self.spec.stack);
        match self.stack.change(change, self.stop.flag()) {
            Ok(Some(facts)) => {
                match change {
                    Change::Add { wait, .. } => self.status.rebuild_wanted = !wait,
                    Change::Resync => self.status.rebuild_wanted = false,
                    // On a wider stripe the volume may begin elsewhere in one.
                    Change::Grow { .. } => {
                        if let Some(off) = facts.get("lvm").and_then(|lvm| lvm["off_stripe"].as_u64()) {
                            self.status.off_stripe = Some(off);
                        }
                    }
                    Change::Fail(_) => {}
                }
                Done { took: Some(self.stack.took()), ..Done::facts(facts) }
            }
            Ok(None) => Done::not_applicable("there is no array"),
            Err(failure) => failure.into(),
        }
    }

    /// The array takes spares in, the volume and the mounted file system take the room; then the file
    /// system is told the new geometry, if it can be told.
    pub(super) fn grow(&mut self, name: &str, grow: &Grow, deadline: Instant) -> Done {
        if let Some(not) = self.cannot_grow() {
            return not;
        }
        let size = |bench: &Self| bench.stack.device().map(|device| device.size);
        let before = size(self);
        let mut done = self.change(name, &Change::Grow { members: grow.members });
        if done.outcome.is_some() {
            return done;
        }
        self.status.members = Some(grow.members);
        // A mirror that gets another member has no more room.
        if size(self) > before {
            self.take_room(name, &mut done, deadline);
        }
        if grow.tell && done.outcome.is_none() {
            self.tell(name, &mut done);
        }
        done
    }

    /// Why the file system that was made cannot take the room, before hours are spent on a reshape.
    fn cannot_grow(&self) -> Option<Done> {
        let (filesystem, _) = self.filesystem.as_ref()?;
        if self.status.uuid.is_empty() || self.stack.layers().is_empty() {
            return None;
        }
        if self.stack.mount_point().is_none() {
            let reason = Reason::new("the file system is not mounted: it would not take the new room")
                .advise("put a `mount` phase before, or `grow` before `mkfs`");
            return Some(Done::not(Outcome::Failed, reason));
        }
        let reason = filesystem.grow("", "").err()?;
        let advice = "put `grow` before `mkfs`, or measure another file system";
        Some(Done::not(Outcome::Unsupported, reason.advise(advice)))
    }

    /// The mounted file system takes the room of its device. What it says of itself then is read back.
    fn take_room(&mut self, name: &str, done: &mut Done, deadline: Instant) {
        let (Some((filesystem, _)), Some(device), Some(point)) =
            (&self.filesystem, self.stack.device().cloned(), self.stack.mount_point().map(Path::to_path_buf))
        else {
            return;
        };
        let (node, at) = (device.path.to_string_lossy(), point.to_string_lossy());
        let before = room(&point);
        let tool = match filesystem.grow(&node, &at) {
            Ok(tool) => tool,
            Err(reason) => return done.outcome = Some((Outcome::Unsupported, reason)),
        };
        let words = std::iter::once(&tool.program).chain(&tool.args).map(|word| match word {
            word if *word == node => "\"$DEV\"".to_string(),
            word if *word == at => "\"$MNT\"".to_string(),
            word => quote(word),
        });
        self.script.add(name, format!("time {}", words.collect::<Vec<_>>().join(" ")));
        let grown = self.run_tool(Role::Grow, &tool, deadline);
        done.tools.extend(grown.tools);
        done.outcome = grown.outcome;
        let took = grown.took.unwrap_or_default().wall.as_secs_f64();
        let after = room(&point);
        done.facts.insert("file_system_grow_seconds".into(), json!(took));
        done.facts.insert("file_system_bytes_before".into(), json!(before));
        done.facts.insert("file_system_bytes".into(), json!(after));
        if done.outcome.is_none() && before >= after {
            let message = format!("{} ended well, but the file system has no more room", tool.program);
            let reason = Reason::new(message).advise("its messages are in the trial's artefacts");
            done.outcome = Some((Outcome::Failed, reason));
        }
    }

    /// What stands after all that, said again: the volume, and the file system with the geometry that its
    /// superblock has now. What a mounted file system was told need not be there.
    pub(super) fn stands_again(&self, filesystem: &FileSystem, done: &mut Done) {
        if let Some(Value::Object(lvm)) = done.facts.get("lvm") {
            self.channel.send(built("lvm", lvm.clone().into_iter().collect()));
        }
        let Some(device) = self.stack.device().filter(|_| !self.status.uuid.is_empty()) else { return };
        let read = self.stack.sync().map_err(|failure| failure.reason).and_then(|()| {
            let mut file = File::open(&device.path)
                .map_err(|error| Reason::new(format!("{}: {error}", device.path.display())))?;
            filesystem.superblock(&mut file)
        });
        let names = filesystem.geometry_facts();
        let fact = match read {
            Ok(found) => {
                let mut facts = found.facts.clone();
                facts.insert("uuid".into(), json!(found.uuid));
                let aligned = self.alignment(filesystem, &facts);
                facts.extend(aligned.clone());
                self.channel.send(built("file_system", facts));
                done.facts.extend(aligned);
                found.facts.into_iter().filter(|(name, _)| names.contains(&name.as_str())).collect()
            }
            Err(reason) => json!(reason.message),
        };
        if !names.is_empty() {
            done.facts.insert("superblock".into(), fact);
        }
    }

    /// Whether a file system with these facts lies on the stack of this moment as it should.
    pub(super) fn alignment(&self, filesystem: &FileSystem, found: &Facts) -> Facts {
        let Status { members, off_stripe, .. } = self.status;
        alignment::judge(filesystem, &self.spec.stack, members, found, off_stripe)
    }

    /// Tells the mounted file system the geometry that the array has now. That it cannot be told is a
    /// fact of it, and no failure.
    fn tell(&mut self, name: &str, done: &mut Done) {
        let Some((filesystem, _)) = &self.filesystem else { return };
        let untold = |why: &str| json!(why);
        if self.stack.mount_point().is_none() {
            done.facts.insert("not_told".into(), untold("nothing is mounted"));
            return;
        }
        let params = match geometry::of_stack(&self.spec.stack, self.status.members) {
            Ok(Some(geometry)) => filesystem.tell_geometry(&geometry, self.status.block_size),
            Ok(None) => {
                done.facts.insert("not_told".into(), untold("the array is not striped"));
                return;
            }
            Err(reason) => Err(reason),
        };
        match params {
            Ok(params) => match self.stack.reconfigure(&params) {
                Ok(facts) => {
                    let words = params.iter().map(|(key, value)| match value {
                        Some(value) => format!("{key}={value}"),
                        None => key.clone(),
                    });
                    let words = words.collect::<Vec<_>>().join(",");
                    self.script.add(name, format!("mount -o remount,{words} \"$MNT\""));
                    done.facts.insert("told".into(), json!(words));
                    done.facts.extend(facts);
                    self.status.told = params;
                }
                Err(failure) => done.outcome = Some((Outcome::Failed, failure.reason)),
            },
            Err(reason) => {
                let advice = reason.advice.map(|advice| format!(" ({advice})")).unwrap_or_default();
                done.facts.insert("not_told".into(), json!(format!("{}{advice}", reason.message)));
            }
        }
    }

    /// An array that rebuilds takes bandwidth from what is measured: wanted or not, it is said.
    pub(super) fn judge_layers(&mut self, action: &Action<'_>, done: &mut Done, before: Option<&str>) {
        done.facts.extend(self.stack.state());
        let after = self.stack.at_work();
        let Some(doing) = before.map(str::to_string).or_else(|| after.clone()) else { return };
        let changes =
            matches!(action, Action::Fail(_) | Action::Add(_) | Action::Resync(_) | Action::Grow(_));
        done.facts.insert("array_at_work".into(), json!(doing));
        if !changes && !self.status.rebuild_wanted {
            let reason = format!("the array was at work by itself: {doing}");
            done.flags.push(Flag::new(Doubt::Resyncing, reason));
        }
        // A rebuild that has ended is not wanted a second time.
        self.status.rebuild_wanted &= after.is_some();
    }
}

/// Bytes of data that a mounted file system has room for, used or not.
fn room(point: &Path) -> u64 {
    rustix::fs::statvfs(point).map_or(0, |found| found.f_blocks.saturating_mul(found.f_frsize))
}

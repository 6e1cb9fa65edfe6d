//! Phases that change what lies between the leaves and the file system: members fail and come back, the
//! array grows. And what an array does by itself while something else is measured.

use fsdyno_spec::array::Grow;
use fsdyno_spec::outcome::{Doubt, Flag, Outcome};
use fsdyno_spec::trial::Action;
use fsdyno_stack::Change;
use serde_json::json;

use super::{Bench, Done, geometry};

impl Bench<'_, '_> {
    /// Changes the layers, as a plan asks.
    pub(super) fn change(&mut self, name: &str, change: &Change<'_>) -> Done {
        self.script.change(name, change, &self.spec.stack);
        match self.stack.change(change, self.stop.flag()) {
            Ok(Some(facts)) => {
                match change {
                    Change::Add { wait, .. } => self.status.rebuild_wanted = !wait,
                    Change::Resync => self.status.rebuild_wanted = false,
                    Change::Fail(_) | Change::Grow { .. } => {}
                }
                Done::facts(facts)
            }
            Ok(None) => Done::not_applicable("there is no array"),
            Err(failure) => failure.into(),
        }
    }

    /// The array takes spares in; then the file system is told, if it is mounted and can be told.
    pub(super) fn grow(&mut self, name: &str, grow: &Grow) -> Done {
        let mut done = self.change(name, &Change::Grow { members: grow.members });
        if done.outcome.is_some() {
            return done;
        }
        self.status.members = Some(grow.members);
        if grow.tell {
            self.tell(name, &mut done);
        }
        done
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

//! What phases do to a standing array: members fail, come back, are rebuilt; spares become members.

use std::time::{Duration, Instant};

use fsdyno_filesystems::{Geometry, Layout};
use fsdyno_spec::array::{Bitmap, Level};
use serde_json::json;

use super::plan::{self, Plan};
use super::{MdArray, SOON, mdadm, path, said, state};
use crate::failure::Failure;
use crate::layer::{Changed, Context};
use crate::patience;
use crate::settings::Facts;
use crate::sysfs::BlockDevice;

impl MdArray {
    /// The leaf of a slot, if there is one.
    fn leaf(&self, slot: u32) -> Result<&BlockDevice, Failure> {
        self.leaves.get(slot as usize).ok_or_else(|| {
            let message = format!("there is no slot {slot}: `stack.devices` has {}", self.leaves.len());
            Failure::failed(message, "slots count from 0")
        })
    }

    /// Whether a leaf is in the array, as member or as spare.
    fn has(&self, leaf: &BlockDevice) -> bool {
        self.state.members().iter().any(|member| member.name == leaf.kernel_name)
    }

    pub(super) fn fail(&mut self, context: &mut Context<'_>, slots: &[u32]) -> Result<Changed, Failure> {
        if slots.is_empty() {
            return Err(Failure::failed("no members are named", "give `fail.members` one slot at least"));
        }
        let mut working = self.state.working();
        let members = self.state.members();
        let (mut devices, mut names) = (Vec::new(), Vec::new());
        for slot in slots {
            let leaf = self.leaf(*slot)?;
            let member = members.iter().find(|m| m.name == leaf.kernel_name && !m.is("faulty"));
            let member = member.filter(|_| !devices.contains(&path(leaf))).ok_or_else(|| {
                let message = format!("the device of slot {slot} is not in the array");
                Failure::failed(message, "name each slot once, and only such as are in")
            })?;
            if let Some(works) = member.slot.and_then(|slot| working.get_mut(slot as usize)) {
                *works = false;
            }
            devices.push(path(leaf));
            names.push(leaf.kernel_name.clone());
        }
        self.plan.survives(&working).map_err(said)?;
        let devices: Vec<&str> = devices.iter().map(String::as_str).collect();
        let mut took = mdadm(context, &plan::manage(&self.node(), "--fail", &devices))?.wall.duration();
        // The kernel ends what is in flight before it lets a member go.
        let begin = Instant::now();
        let gone = || {
            let members = self.state.members();
            members.iter().filter(|m| names.contains(&m.name)).all(|m| m.slot.is_none())
        };
        patience::until(SOON, gone);
        took += begin.elapsed();
        took += mdadm(context, &plan::manage(&self.node(), "--remove", &devices))?.wall.duration();
        let mut facts = self.state.facts();
        facts.insert("failed".into(), json!(slots));
        Ok(Changed { facts, took })
    }

    pub(super) fn add(
        &mut self,
        context: &mut Context<'_>,
        slots: &[u32],
        wait: bool,
    ) -> Result<Changed, Failure> {
        if slots.is_empty() {
            return Err(Failure::failed("no members are named", "give `add.members` one slot at least"));
        }
        let (mut how, mut took) = (serde_json::Map::new(), Duration::ZERO);
        for slot in slots {
            let leaf = self.leaf(*slot)?.clone();
            if self.has(&leaf) {
                let message = format!("the device of slot {slot} is in the array already");
                return Err(Failure::failed(message, "take it out by a `fail` phase before"));
            }
            let (device, node) = (path(&leaf), self.node());
            // With a bitmap the array knows what a former member has missed, and rebuilds only that.
            let known = state::member_of(&leaf.path).as_ref() == Some(&self.uuid);
            let mut back = known && self.plan.bitmap == Bitmap::Internal;
            if back {
                let output = context.tool(&plan::manage(&node, "--re-add", &[&device]), None)?;
                back = output.exit == Some(0);
                took += output.wall.duration();
            }
            if !back {
                if known {
                    took += mdadm(context, &plan::zero(&[&device]))?.wall.duration();
                }
                took += mdadm(context, &plan::manage(&node, "--add", &[&device]))?.wall.duration();
            }
            how.insert(slot.to_string(), json!(if back { "re-add" } else { "add" }));
        }
        let mut more = Facts::from([("added".to_string(), how.into())]);
        if wait {
            let rebuilt = self.wait(context, "rebuilding the array")?;
            more.insert("resync_seconds".into(), json!(rebuilt.as_secs_f64()));
            took += rebuilt;
        }
        let mut facts = self.state.facts();
        facts.extend(more);
        Ok(Changed { facts, took })
    }

    pub(super) fn resync(&self, context: &mut Context<'_>) -> Result<Changed, Failure> {
        let took = self.wait(context, "waiting for the array")?;
        let mut facts = self.state.facts();
        facts.insert("resync_seconds".into(), json!(took.as_secs_f64()));
        Ok(Changed { facts, took })
    }

    pub(super) fn grow(&mut self, context: &mut Context<'_>, members: u32) -> Result<Changed, Failure> {
        let plan = self.growable(members)?;
        if let Some(action) = self.state.at_work() {
            let message = format!("the array is at work ({action}): it cannot reshape now");
            return Err(Failure::failed(message, "put a `resync` phase before"));
        }
        if self.state.working().contains(&false) {
            return Err(Failure::failed(
                "the array is degraded: growing it would risk its data",
                "put the members back by an `add` phase before",
            ));
        }
        let spare = |leaf: &&BlockDevice| {
            self.state.members().iter().any(|m| m.name == leaf.kernel_name && m.slot.is_none())
        };
        let present = self.plan.members as usize + self.leaves.iter().filter(spare).count();
        let lacking = (members as usize).saturating_sub(present);
        let free: Vec<String> = self.leaves.iter().filter(|l| !self.has(l)).map(path).collect();
        let Some(new) = free.get(..lacking) else {
            let message = format!("{members} members need {lacking} more devices, {} are there", free.len());
            return Err(Failure::failed(message, "give the array more `spares`"));
        };
        let (before, mut took) = (self.device.size, Duration::ZERO);
        for device in new {
            took += mdadm(context, &plan::manage(&self.node(), "--add", &[device]))?.wall.duration();
        }
        // By moving where the members' data begins, which the kernel does alone; where there is no room
        // for that, mdadm says no, and has to copy what is overwritten at the start.
        let mut grown = context.tool(&plan::grow(&self.node(), members, None), None)?;
        took += grown.wall.duration();
        if grown.exit != Some(0) {
            let backup = context.folder.join("reshape-backup").to_string_lossy().into_owned();
            grown = mdadm(context, &plan::grow(&self.node(), members, Some(&backup)))?;
            took += grown.wall.duration();
        }
        let reshaped = self.wait(context, "reshaping the array")?;
        took += reshaped;
        self.plan = plan;
        self.look()?;
        self.verify()?;
        let mut facts = self.facts_now();
        facts.insert("reshape_seconds".into(), json!(reshaped.as_secs_f64()));
        facts.insert("reshape_command".into(), json!(grown.argv.join(" ")));
        facts.insert("size_before".into(), json!(before));
        Ok(Changed { facts, took })
    }

    /// The plan with so many members.
    fn growable(&self, members: u32) -> Result<Plan, Failure> {
        let old = &self.plan;
        let no = |message: String, advice: &str| Err(Failure::failed(message, advice));
        if members <= old.members {
            let message = format!("the array has {} members already", old.members);
            return no(message, "`grow.members` is the number afterwards");
        }
        if old.level == Level::Raid0 {
            return no(
                "an array of level 0 grows only by a detour over level 4, which is not taken here".into(),
                "grow level 1, 5, 6 or 10; or compare two arrays of different width",
            );
        }
        let layout = old.layout.map(Layout::name);
        if old.level == Level::Raid10 && !layout.as_ref().is_some_and(|l| l.starts_with("near")) {
            return no("md reshapes only the near layouts of level 10".into(), "use `layout = \"near2\"`");
        }
        let geometry = Geometry::of(old.level, members, old.chunk, layout.as_deref()).map_err(said)?;
        Ok(Plan { members, geometry, ..old.clone() })
    }
}

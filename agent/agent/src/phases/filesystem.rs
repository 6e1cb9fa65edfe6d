//! Making, mounting, changing and checking the file system: the phases that run the kernel's calls or a
//! tool of the file system.

use std::time::Instant;

use fsdyno_filesystems::{CommandLine, Role, Target};
use fsdyno_probe::counters::{Clock, Took};
use fsdyno_spec::outcome::{Doubt, Flag, Outcome, Reason};
use fsdyno_spec::trial::{CheckMode, Device, Settings};
use fsdyno_spec::units::Bytes;
use serde_json::json;

use super::{Bench, Done, NO_QUEUE, geometry};
use crate::facts::Facts;

impl Bench<'_, '_> {
    pub(super) fn mkfs(&mut self, name: &str, deadline: Instant) -> Done {
        let Some((filesystem, options)) = &self.filesystem else {
            return Done::not_applicable("an existing directory is used as it is");
        };
        let Some(device) = self.stack.device().cloned() else {
            return Done::not_applicable("this file system lives in memory and has no mkfs");
        };
        let path = device.path.to_string_lossy();
        let uuid = match self.stack.claim_uuid() {
            Ok(uuid) => uuid,
            Err(failure) => return failure.into(),
        };
        // Over a file system that this trial has made itself, mkfs need not ask.
        let force = device.ours || !self.status.uuid.is_empty();
        // Again, as the array may have grown since the trial began.
        let told = match geometry::resolve(filesystem, options, &self.spec.stack, self.status.members) {
            Ok(told) => told,
            Err(reason) => return Done::not(Outcome::Failed, reason),
        };
        let target = Target { device: &path, size: device.size, uuid: &uuid, force, geometry: told.told() };
        let tool = match filesystem.mkfs(options, &target) {
            Ok(tool) => tool,
            Err(reason) => return Done::not(Outcome::Failed, reason),
        };
        self.script.tool(name, &tool, &path);
        self.status.uuid = uuid;
        self.status.geometry = told;
        self.status.told = Vec::new();
        self.run_tool(Role::Mkfs, &tool, deadline)
    }

    pub(super) fn mount(&mut self, name: &str) -> Done {
        let Some((filesystem, options)) = &self.filesystem else {
            return Done::not_applicable("an existing directory is mounted already");
        };
        let device = self.stack.device().map(|d| d.path.to_string_lossy().into_owned()).unwrap_or_default();
        let mut plan = filesystem.mount(options, &device, self.size_wanted(), &self.status.here);
        // What it was told while it was mounted, it does not remember.
        plan.params.extend(self.status.told.iter().cloned());
        self.script.mount(name, &plan, &device);
        let mounted = self.stack.mount(&plan);
        mounted.map_or_else(Done::from, |facts| Done { took: Some(self.stack.took()), ..Done::facts(facts) })
    }

    /// The size of the devices, also where a file system in memory does not use them.
    fn size_wanted(&self) -> Bytes {
        let of = |d: &Device| match d {
            Device::File(file) => file.size.0.saturating_mul(file.count.into()),
            Device::Disk(_) => 0,
        };
        self.stack.device().map_or_else(|| Bytes(self.spec.stack.devices.iter().map(of).sum()), |d| d.size)
    }

    pub(super) fn remount(&mut self, name: &str, cold: bool) -> Done {
        if self.spec.stack.directory.is_some() {
            return self.forget(name, cold);
        }
        if self.stack.device().is_none() {
            return Done::not_applicable(
                "a file system in memory is lost when it is unmounted, and never cold",
            );
        }
        self.script.add(name, "umount \"$MNT\"");
        if let Err(failure) = self.stack.unmount() {
            return failure.into();
        }
        let unmounting = self.stack.took();
        let mut dropping = Took::default();
        if cold {
            self.script.add(name, "sync; echo 3 > /proc/sys/vm/drop_caches");
            let clock = Clock::start(&self.stack.beside());
            if let Err(failure) = self.stack.drop_caches() {
                return failure.into();
            }
            dropping = clock.took(&self.stack.beside());
            // A FUSE driver's program went with the caches; a cold file system is not a cold program.
            self.warm_tools();
        }
        let mut done = self.mount(name);
        self.status.cold = cold && done.outcome.is_none();
        let mounting = done.took.unwrap_or_default();
        let mut all = unmounting;
        all += dropping;
        all += mounting;
        done.took = Some(all);
        for (step, took) in [("unmount", unmounting), ("drop_caches", dropping), ("mount", mounting)] {
            done.facts.insert(format!("{step}_seconds"), json!(took.wall.as_secs_f64()));
        }
        done
    }

    /// As cold as a directory of somebody else's file system gets without touching the host.
    fn forget(&mut self, name: &str, cold: bool) -> Done {
        if !cold {
            return Done::not_applicable("an existing directory is not remounted");
        }
        self.script.add(name, "sync -f \"$MNT\"; find \"$MNT\" -type f -exec dd of={} oflag=nocache conv=notrunc,fdatasync count=0 status=none \\;");
        let Some(root) = self.stack.data_root() else {
            return Done::not(Outcome::Failed, Reason::new("there is no folder to work in"));
        };
        for (name, set) in self.spec.datasets.iter().filter(|(name, _)| root.join(name).exists()) {
            if let Err(reason) = fsdyno_workload::forget(root, name, set) {
                return Done::not(Outcome::Failed, reason);
            }
        }
        let reason =
            "an existing directory: data pages were forgotten, inodes and directory entries stay in memory";
        Done {
            facts: Facts::from([("cold".to_string(), json!("data pages only"))]),
            flags: vec![Flag::new(Doubt::NotCold, reason)],
            ..Done::default()
        }
    }

    pub(super) fn set(&mut self, name: &str, settings: &Settings) -> Done {
        if self.stack.device().is_none() && self.filesystem.is_some() {
            return Done::not_applicable(NO_QUEUE);
        }
        match self.stack.set(settings) {
            Ok(facts) => {
                self.script.settings(name, settings);
                Done::facts(facts)
            }
            Err(failure) => failure.into(),
        }
    }

    pub(super) fn check(&mut self, name: &str, mode: CheckMode, deadline: Instant) -> Done {
        let (Some((filesystem, options)), Some(device)) = (&self.filesystem, self.stack.device().cloned())
        else {
            return Done::not_applicable("there is no device to check");
        };
        if self.stack.mount_point().is_some() {
            let reason =
                Reason::new("a mounted file system is not checked").advise("put an `unmount` phase before");
            return Done::not(Outcome::Failed, reason);
        }
        let path = device.path.to_string_lossy();
        let tool = match filesystem.check(mode, options, &path) {
            Ok(tool) => tool,
            Err(reason) => return Done::not(Outcome::NotApplicable, reason),
        };
        self.script.tool(name, &tool, &path);
        self.run_tool(Role::Check, &tool, deadline)
    }

    pub(super) fn run_tool(&mut self, role: Role, tool: &CommandLine, deadline: Instant) -> Done {
        let Some((filesystem, _)) = self.filesystem.as_ref() else { return Done::default() };
        let output = match self.stack.tool(tool, self.stop.flag(), Some(deadline)) {
            Ok(output) => output,
            Err(failure) => return failure.into(),
        };
        let (ok, meaning) = match output.exit {
            Some(code) => {
                let verdict = filesystem.exit_meaning(role, code);
                (verdict.ok, verdict.meaning.to_string())
            }
            None => {
                (false, output.signal.map_or("ended by a signal".into(), |s| format!("ended by signal {s}")))
            }
        };
        let outcome = (!ok).then(|| {
            let last = last_line(&output.stderr).or_else(|| last_line(&output.stdout)).unwrap_or_default();
            let code = output.exit.map_or("no exit code".to_string(), |c| format!("exit {c}"));
            (Outcome::Failed, Reason::new(format!("{}: {code}, {meaning}: {last}", tool.program)))
        });
        let took = Some(Took { wall: output.wall.duration(), cpu: output.cpu });
        Done { outcome, tools: vec![(output, meaning)], took, ..Done::default() }
    }
}

fn last_line(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    text.lines().rev().map(str::trim).find(|l| !l.is_empty()).map(str::to_string)
}

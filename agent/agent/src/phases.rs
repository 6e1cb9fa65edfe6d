//! The phases of a trial: what runs inside the clock, and what is asked of the kernel around it.
//!
//! Order for each phase: counters, clock on, the work, clock off, counters; only then is anything
//! read back, judged or sent. Within, mounts and tools are timed closer still: `wall` is then what the
//! kernel's calls or the tool took, without the ledger's records around them. A workload has a clock
//! of its own: its rates do not pay for starting threads or for making its result.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fsdyno_filesystems::{CommandLine, FileSystem, Here, Options, Role, Target, Told};
use fsdyno_probe::clock::monotonic_ns;
use fsdyno_probe::counters::{Delta, Snapshot};
use fsdyno_probe::doubts::{self, Context};
use fsdyno_probe::kernel_log::{KernelLog, Line};
use fsdyno_spec::event::{Calibration, Event, PhaseEnd, PhaseStart, ToolRun};
use fsdyno_spec::outcome::{Doubt, Flag, Outcome, Reason};
use fsdyno_spec::trial::{Action, CheckMode, Phase, Settings, TrialSpec};
use fsdyno_spec::units::Bytes;
use fsdyno_spec::workload::{Workload, WorkloadResult};
use fsdyno_stack::{Failure, Refused, ToolOutput, TrialStack};
use fsdyno_workload::{Job, Progress};
use serde_json::{Value, json};

use crate::channel::Channel;
use crate::facts::{Facts, built};
use crate::proof::{self, Seen};
use crate::shell::Script;
use crate::stop::Stop;
use crate::trial::dataset_of;
use crate::watch::Watch;

/// How long the count of inodes may lag behind (XFS frees inodes in the background).
const INODES_SETTLE: Duration = Duration::from_millis(500);

/// A larger share of the threads' time taken by fsdyno itself is a doubt.
const TOOL_COST: f64 = 0.05;

/// Steps the seed from phase to phase: 2^64 divided by the golden ratio, odd, as in SplitMix64.
const ANOTHER_ORDER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Why kernel settings leave some rows alone.
const NO_QUEUE: &str = "a file system in memory has no device whose settings could be changed";

/// Everything that the phases of one trial share.
pub struct Bench<'a, 'rig> {
    /// The stack under the trial.
    pub stack: TrialStack<'rig>,
    /// The file system under test; none in an existing directory.
    pub filesystem: Option<(&'static FileSystem, Options)>,
    /// The trial.
    pub spec: &'a TrialSpec,
    /// Seed of data, offsets and orders.
    pub seed: u64,
    /// Where events go.
    pub channel: &'a Channel,
    /// Who may ask to stop.
    pub stop: &'a Stop,
    /// Heartbeats and deadlines.
    pub watch: &'a Watch,
    /// What measuring costs.
    pub calibration: &'a Calibration,
    /// CPUs of this machine.
    pub cpus: u32,
    /// The kernel log, where it can be read.
    pub kernel_log: Option<&'a KernelLog>,
    /// The commands that repeat the trial.
    pub script: &'a mut Script,
    /// What the phases so far have left.
    pub status: Status,
}

/// What the phases so far have left for the next ones.
#[derive(Default)]
pub struct Status {
    /// Nothing of the data is in memory: true from a cold remount to the next workload.
    cold: bool,
    /// UUID of the file system that mkfs was told to make.
    uuid: String,
    /// Doubts about the trial as a whole.
    pub flags: Vec<Flag>,
    /// Versions of the tools, asked once.
    versions: HashMap<String, Option<String>>,
}

/// What a phase did.
#[derive(Default)]
struct Done {
    outcome: Option<(Outcome, Reason)>,
    tools: Vec<(ToolOutput, String)>,
    workload: Option<WorkloadResult>,
    facts: Facts,
    flags: Vec<Flag>,
    /// What the kernel or the tool itself took, where the stack's own records lie around it.
    wall: Option<Duration>,
}

impl Done {
    fn facts(facts: Facts) -> Self {
        Self { facts, ..Self::default() }
    }

    fn not(outcome: Outcome, reason: Reason) -> Self {
        Self { outcome: Some((outcome, reason)), ..Self::default() }
    }

    fn not_applicable(why: &str) -> Self {
        Self::not(Outcome::NotApplicable, Reason::new(why))
    }
}

impl From<Failure> for Done {
    fn from(failure: Failure) -> Self {
        Self::not(failure.outcome, failure.reason)
    }
}

impl Bench<'_, '_> {
    /// Builds the devices or the folder, and says what stands.
    pub fn build(&mut self) -> Result<(), Refused> {
        if let Some(log) = self.kernel_log {
            log.drain();
        }
        let disk = self.filesystem.as_ref().and_then(|(row, _)| row.disk.as_ref());
        let (needs_device, minimum) = (disk.is_some(), disk.map_or(Bytes(0), |d| d.minimum_size));
        let watch = self.watch;
        let parts =
            self.stack.build(needs_device, minimum, &mut |doing, share| watch.doing(doing, Some(share)))?;
        for part in parts {
            if part.facts.get("direct_io") == Some(&json!(false)) {
                let reason =
                    "the backing file is not accessed directly: the host may have kept a copy of its data";
                self.status.flags.push(Flag::new(Doubt::NotCold, reason));
            }
            self.channel.send(Event::Built(part));
        }
        match (self.stack.device(), self.spec.stack.devices.first()) {
            (Some(device), Some(fsdyno_spec::trial::Device::File(file))) => {
                let written = file.backing == fsdyno_spec::trial::Backing::Written;
                self.script.loop_device(device.size, file.logical_block_size, written);
            }
            (Some(_), Some(fsdyno_spec::trial::Device::Disk(disk))) => self.script.disk(&disk.path),
            (Some(_), None) => {}
            (None, _) => self.script.folder(self.spec.stack.directory.as_deref()),
        }
        let settings = &self.spec.stack.settings;
        if needs_device && !settings.is_empty() {
            self.script.settings("settings", settings);
        } else if !settings.is_empty() {
            self.channel.send(built("settings", Facts::from([("not applied".to_string(), json!(NO_QUEUE))])));
        }
        Ok(())
    }

    /// Runs one phase and tells everything measured in it.
    pub fn run_phase(&mut self, index: u32, phase: &Phase) -> PhaseEnd {
        // `Checked` has seen that there is exactly one kind.
        let (Ok(action), Ok(name)) = (phase.action(), phase.label()) else { unreachable!("checked before") };
        let start = PhaseStart {
            index,
            name: name.clone(),
            kind: action.kind().to_string(),
            point: phase.point.clone(),
        };
        self.channel.send(Event::PhaseStart(start.clone()));
        let progress = Arc::new(Progress::default());
        let timeout = phase.timeout.map(|t| t.duration());
        let inodes_before = self.inodes();
        let (leaves, underneath) = (self.stack.leaves(), self.stack.underneath());
        let before = Snapshot::take(&leaves, &underneath);
        let deadline = self.watch.phase(index, &name, timeout, Arc::clone(&progress));
        let start_ns = monotonic_ns();
        let mut done = self.act(index, &name, &action, deadline, &progress);
        let whole = Duration::from_nanos(monotonic_ns() - start_ns);
        let wall = done.wall.unwrap_or(whole);
        let after = Snapshot::take(&leaves, &underneath);
        self.watch.doing("reading back", None);
        let delta = before.until(&after);
        let lines = self.kernel_log.map(KernelLog::drain).unwrap_or_default();
        self.judge(&action, &mut done, &delta, &lines, inodes_before);
        let tools = self.tell_tools(&name, std::mem::take(&mut done.tools));
        let (outcome, reason) = self.outcome(&mut done);
        PhaseEnd {
            phase: start,
            outcome,
            reason,
            start_ns,
            wall: wall.into(),
            cpu: delta.cpu,
            leaves: delta.leaves,
            top: None,
            underneath: delta.underneath,
            host: delta.host,
            kernel_log: lines.iter().map(|l| format!("<{}>{}", l.level, l.text)).collect(),
            tools,
            workload: done.workload,
            facts: done.facts,
            flags: done.flags,
        }
    }

    /// What runs inside the clock.
    fn act(
        &mut self,
        index: u32,
        name: &str,
        action: &Action<'_>,
        deadline: Instant,
        progress: &Arc<Progress>,
    ) -> Done {
        match action {
            Action::Mkfs(_) => self.mkfs(name, deadline),
            Action::Mount(_) => self.mount(name),
            Action::Remount(remount) => self.remount(name, remount.cold),
            Action::Set(settings) => self.set(name, settings),
            Action::Workload(workload) => self.workload(index, name, workload, progress),
            Action::Sync(_) => {
                self.script.add(name, "time sync -f \"$MNT\"");
                self.stack.sync().map_or_else(Done::from, |()| Done::default())
            }
            Action::DropCaches(_) => {
                self.script.add(name, "sync; echo 3 > /proc/sys/vm/drop_caches");
                match self.stack.drop_caches() {
                    Ok(()) => {
                        self.status.cold = true;
                        Done::default()
                    }
                    Err(failure) => failure.into(),
                }
            }
            Action::Unmount(_) => {
                if self.spec.stack.directory.is_some() {
                    return Done::not_applicable("an existing directory is not unmounted");
                }
                self.script.add(name, "time umount \"$MNT\"");
                let unmounted = self.stack.unmount();
                unmounted
                    .map_or_else(Done::from, |()| Done { wall: Some(self.stack.took()), ..Done::default() })
            }
            Action::Check(check) => self.check(name, check.mode, deadline),
            Action::Fail(_) | Action::Add(_) | Action::Resync(_) | Action::Grow(_) => {
                Done::not_applicable("there is no array")
            }
        }
    }

    fn mkfs(&mut self, name: &str, deadline: Instant) -> Done {
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
        let tool = match filesystem.mkfs(options, &Target::plain(&path, device.size, &uuid, force)) {
            Ok(tool) => tool,
            Err(reason) => return Done::not(Outcome::Failed, reason),
        };
        self.script.tool(name, &tool, &path);
        self.status.uuid = uuid;
        self.run_tool(Role::Mkfs, &tool, deadline)
    }

    fn mount(&mut self, name: &str) -> Done {
        let Some((filesystem, options)) = &self.filesystem else {
            return Done::not_applicable("an existing directory is mounted already");
        };
        let device = self.stack.device().map(|d| d.path.to_string_lossy().into_owned()).unwrap_or_default();
        let plan = filesystem.mount(options, &device, self.size_wanted(), &Here::default());
        self.script.mount(name, &plan, &device);
        let mounted = self.stack.mount(&plan);
        mounted.map_or_else(Done::from, |facts| Done { wall: Some(self.stack.took()), ..Done::facts(facts) })
    }

    /// The size of the devices, also where a file system in memory does not use them.
    fn size_wanted(&self) -> Bytes {
        let of = |d: &fsdyno_spec::trial::Device| match d {
            fsdyno_spec::trial::Device::File(file) => file.size.0,
            fsdyno_spec::trial::Device::Disk(_) => 0,
        };
        self.stack.device().map_or_else(|| Bytes(self.spec.stack.devices.iter().map(of).sum()), |d| d.size)
    }

    fn remount(&mut self, name: &str, cold: bool) -> Done {
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
        let begin = Instant::now();
        if cold {
            self.script.add(name, "sync; echo 3 > /proc/sys/vm/drop_caches");
            if let Err(failure) = self.stack.drop_caches() {
                return failure.into();
            }
        }
        let dropping = begin.elapsed();
        let mut done = self.mount(name);
        self.status.cold = cold && done.outcome.is_none();
        let mounting = done.wall.unwrap_or_default();
        done.wall = Some(unmounting + dropping + mounting);
        for (step, took) in [("unmount", unmounting), ("drop_caches", dropping), ("mount", mounting)] {
            done.facts.insert(format!("{step}_seconds"), json!(took.as_secs_f64()));
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

    fn set(&mut self, name: &str, settings: &Settings) -> Done {
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

    fn workload(&mut self, index: u32, name: &str, workload: &Workload, progress: &Arc<Progress>) -> Done {
        let Some(root) = self.stack.data_root() else {
            let reason = Reason::new("nothing is mounted").advise("put a `mount` phase before the workload");
            return Done::not(Outcome::Failed, reason);
        };
        let set_name = dataset_of(workload);
        let dataset = &self.spec.datasets[set_name];
        let job = Job {
            root,
            name: set_name,
            dataset,
            workload,
            seed: self.seed,
            order_seed: self.seed.wrapping_add((u64::from(index) + 1).wrapping_mul(ANOTHER_ORDER)),
            stop: self.stop.flag(),
            progress,
            calibration: self.calibration,
        };
        let done = match fsdyno_workload::run(&job) {
            Ok(result) => Done { workload: Some(result), ..Done::default() },
            Err(failure) => Done::not(failure.outcome, failure.reason),
        };
        self.script.workload(name, workload, set_name, dataset);
        done
    }

    fn check(&mut self, name: &str, mode: CheckMode, deadline: Instant) -> Done {
        let (Some((filesystem, _)), Some(device)) = (&self.filesystem, self.stack.device().cloned()) else {
            return Done::not_applicable("there is no device to check");
        };
        if self.stack.mount_point().is_some() {
            let reason =
                Reason::new("a mounted file system is not checked").advise("put an `unmount` phase before");
            return Done::not(Outcome::Failed, reason);
        }
        let path = device.path.to_string_lossy();
        let tool = match filesystem.check(mode, &path) {
            Ok(tool) => tool,
            Err(reason) => return Done::not(Outcome::NotApplicable, reason),
        };
        self.script.tool(name, &tool, &path);
        self.run_tool(Role::Check, &tool, deadline)
    }

    fn run_tool(&mut self, role: Role, tool: &CommandLine, deadline: Instant) -> Done {
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
        let wall = Some(output.wall.duration());
        Done { outcome, tools: vec![(output, meaning)], wall, ..Done::default() }
    }

    /// Sends what the tools printed, outside the clock.
    fn tell_tools(&mut self, phase: &str, tools: Vec<(ToolOutput, String)>) -> Vec<ToolRun> {
        let mut told = Vec::new();
        for (output, meaning) in tools {
            let version = self.version(&output.argv[0]);
            told.push(ToolRun {
                stdout: self.channel.send_artefact(&format!("{phase} stdout"), &output.stdout),
                stderr: self.channel.send_artefact(&format!("{phase} stderr"), &output.stderr),
                argv: output.argv,
                version,
                exit: output.exit,
                meaning,
                wall: output.wall,
                cpu: output.cpu,
                peak_memory: output.peak_memory,
            });
        }
        told
    }

    fn version(&mut self, program: &str) -> Option<String> {
        let known = &mut self.status.versions;
        known.entry(program.to_string()).or_insert_with(|| crate::survey::version_of(program)).clone()
    }

    /// Brings the programs back that a dropped cache took along: their pages, libraries and path are
    /// not what a check of a cold file system is to be charged for.
    fn warm_tools(&self) {
        for (_, program) in self.filesystem.iter().flat_map(|(row, _)| row.tools()) {
            if let Some(path) = fsdyno_stack::find_program(program.name) {
                // Reading is the purpose; running loads the libraries.
                let _ = std::fs::read(path);
                let _ = crate::survey::version_of(program.name);
            }
        }
    }

    /// What is read back and judged after the clock.
    fn judge(
        &mut self,
        action: &Action<'_>,
        done: &mut Done,
        delta: &Delta,
        lines: &[Line],
        inodes_before: Option<i64>,
    ) {
        if done.outcome.is_none() {
            self.read_back(action, done);
        }
        if matches!(action, Action::DropCaches(_)) || matches!(action, Action::Remount(r) if r.cold) {
            self.warm_tools();
        }
        let threads = match action {
            Action::Workload(workload) => threads_of(workload),
            _ => 1,
        };
        let devices = self.devices();
        let context =
            Context { devices: &devices, cpus: self.cpus, threads, kernel_log: self.kernel_log.is_some() };
        done.flags.extend(doubts::judge(delta, lines, &context));
        if let Some(result) = &done.workload {
            let inodes = self.inodes_changed(inodes_before, result.claim.inodes);
            let seen = Seen {
                leaves: &delta.leaves,
                shared: !self.stack.device().is_some_and(|d| d.ours),
                cold: self.status.cold,
                inodes,
                pages_dirtied: delta.host.pages_dirtied,
            };
            done.flags.extend(proof::judge(&result.claim, &seen));
            if result.tool_cost.share > TOOL_COST {
                let share = result.tool_cost.share * 100.0;
                done.flags
                    .push(Flag::new(Doubt::ToolCost, format!("fsdyno itself took {share:.1} % of the time")));
            }
            self.status.cold = false;
        }
    }

    /// What mkfs chose and what the kernel took, from the medium and from the kernel.
    fn read_back(&mut self, action: &Action<'_>, done: &mut Done) {
        let Some((filesystem, options)) = self.filesystem.as_ref() else { return };
        match action {
            Action::Mkfs(_) => {
                let Some(device) = self.stack.device() else { return };
                let read = std::fs::File::open(&device.path)
                    .map_err(|e| Reason::new(format!("{}: {e}", device.path.display())))
                    .and_then(|mut file| filesystem.superblock(&mut file));
                match read {
                    Ok(found) => {
                        if let Err(reason) =
                            filesystem.verify_medium(options, &self.status.uuid, device.size, &found, Told::Nothing)
                        {
                            done.outcome = Some((Outcome::Failed, reason));
                        }
                        done.facts.extend(found.facts);
                        done.facts.insert("uuid".into(), json!(found.uuid));
                        self.channel.send(built("file_system", done.facts.clone()));
                    }
                    Err(reason) => done.outcome = Some((Outcome::Failed, reason)),
                }
            }
            Action::Mount(_) | Action::Remount(_) => {
                let text =
                    |key: &str| done.facts.get(key).and_then(Value::as_str).unwrap_or_default().to_string();
                let (of_super, of_mount) = (text("super_options"), text("mount_options"));
                if let Err(reason) = filesystem.verify_mount(options, &of_super, &of_mount) {
                    done.outcome = Some((Outcome::Failed, reason));
                }
                let by_device = self.stack.device().and_then(|d| filesystem.driver(&d.kernel_name));
                let driver = by_device.unwrap_or_else(|| text("fstype"));
                done.facts.insert("driver".into(), json!(driver));
                self.channel.send(built("mount", done.facts.clone()));
            }
            _ => {}
        }
    }

    fn outcome(&self, done: &mut Done) -> (Outcome, Option<Reason>) {
        if let Some(why) = self.stop.why() {
            let (outcome, reason) = why.outcome();
            return (outcome, Some(reason));
        }
        match done.outcome.take() {
            Some((Outcome::Failed, reason)) => {
                let failure = self.stack.explain(Failure { outcome: Outcome::Failed, reason });
                (failure.outcome, Some(failure.reason))
            }
            Some((outcome, reason)) => (outcome, Some(reason)),
            None => (Outcome::Ok, None),
        }
    }

    /// Kernel names of the trial's devices and of the disks under them.
    pub fn devices(&self) -> Vec<String> {
        [self.stack.leaves(), self.stack.underneath()].concat()
    }

    /// Inodes in use, where the file system counts them.
    fn inodes(&self) -> Option<i64> {
        let found = rustix::fs::statvfs(self.stack.data_root()?).ok()?;
        (self.spec.stack.directory.is_none() && found.f_files > 0)
            .then(|| (found.f_files - found.f_ffree) as i64)
    }

    /// The change since `before`; waits a moment for counts that follow in the background.
    fn inodes_changed(&self, before: Option<i64>, claimed: i64) -> Option<i64> {
        let end = Instant::now() + INODES_SETTLE;
        loop {
            let change = self.inodes()? - before?;
            if change == claimed || Instant::now() > end {
                return Some(change);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn threads_of(workload: &Workload) -> u32 {
    match workload {
        Workload::Stream(w) => w.threads,
        Workload::Random(w) => w.threads,
        Workload::Tree(w) => w.threads,
    }
}

fn last_line(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    text.lines().rev().map(str::trim).find(|l| !l.is_empty()).map(str::to_string)
}

//! The phases of a trial: what runs inside the clock, and what is asked of the kernel around it.
//!
//! Order for each phase: counters, clock on, the work, clock off, counters; only then is anything
//! read back, judged or sent. Within, mounts and tools are timed closer still: `wall` and `cpu` are then
//! what the kernel's calls or the tool took, without the ledger's records around them. A workload has a clock
//! of its own: its rates do not pay for starting threads or for making its result.

mod alignment;
mod filesystem;
mod geometry;
mod judge;
mod layers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use fsdyno_filesystems::{FileSystem, Here, Options};
use fsdyno_probe::clock::monotonic_ns;
use fsdyno_probe::counters::{Snapshot, Took};
use fsdyno_probe::kernel_log::KernelLog;
use fsdyno_spec::event::{Calibration, DeviceCounts, Event, PhaseEnd, PhaseStart, Refusal};
use fsdyno_spec::outcome::{Doubt, Flag, Outcome, Reason};
use fsdyno_spec::trial::{Action, Phase, TrialSpec};
use fsdyno_spec::units::Bytes;
use fsdyno_spec::workload::{Workload, WorkloadResult};
use fsdyno_stack::{Change, Failure, Refused, ToolOutput, TrialStack};
use fsdyno_workload::{Job, Progress};
use serde_json::{Value, json};

use crate::channel::Channel;
use crate::facts::{Facts, built};
use crate::here;
use crate::phases::judge::Around;
use crate::shell::Script;
use crate::stop::Stop;
use crate::trial::dataset_of;
use crate::watch::Watch;

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
    /// Kernel and tools.
    here: Here,
    /// What the last mkfs was told of the array.
    geometry: geometry::Resolved,
    /// Block size that it chose, in bytes.
    block_size: u64,
    /// Members of the array, once it has grown.
    members: Option<u32>,
    /// Options that the mounted file system was told since, for its next mounts.
    told: Vec<(String, Option<String>)>,
    /// The plan put members in and did not wait: a rebuild is what it wants to measure.
    rebuild_wanted: bool,
    /// Doubts about the trial as a whole.
    pub flags: Vec<Flag>,
    /// Bytes from the start of a stripe to the volume's first one, where there are both.
    off_stripe: Option<u64>,
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
    took: Option<Took>,
    /// Counters of the device that the file system sees, where that is no leaf.
    top: Option<DeviceCounts>,
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
    /// Builds the devices, the layers on them, or the folder, and says what stands. What this kernel, these
    /// tools or this stack cannot have is refused before anything is built.
    pub fn build(&mut self) -> Result<(), Refused> {
        if let Some(log) = self.kernel_log {
            log.drain();
        }
        if let Some((row, options)) = &self.filesystem {
            self.status.here = here::here(row);
            if let Some(reason) = row.cannot(options, &self.status.here) {
                return Err(Failure { outcome: Outcome::Unsupported, reason }.into());
            }
            if let Some(reason) = here::unclaimable(row, &self.spec.stack) {
                return Err(Failure { outcome: Outcome::Unsupported, reason }.into());
            }
            if let Some(reason) = here::lacks(&self.spec.stack).filter(|_| row.disk.is_some()) {
                return Err(Failure { outcome: Outcome::Unsupported, reason }.into());
            }
            if let Err(reason) = geometry::resolve(row, options, &self.spec.stack, None) {
                let outcome = Outcome::Failed;
                return Err(Refused { refusal: Refusal::BadRequest, outcome, reason });
            }
        }
        let disk = self.filesystem.as_ref().and_then(|(row, _)| row.disk.as_ref());
        let (needs_device, minimum) = (disk.is_some(), disk.map_or(Bytes(0), |d| d.minimum_size));
        let watch = self.watch;
        let parts =
            self.stack.build(needs_device, minimum, &mut |doing, share| watch.doing(doing, Some(share)))?;
        for part in parts {
            if part.facts.get("direct_io") == Some(&json!(false)) && self.status.flags.is_empty() {
                let reason =
                    "the backing file is not accessed directly: the host may have kept a copy of its data";
                self.status.flags.push(Flag::new(Doubt::NotCold, reason));
            }
            if let Some(off) = part.facts.get("off_stripe").and_then(Value::as_u64) {
                self.status.off_stripe = Some(off);
            }
            self.channel.send(Event::Built(part));
        }
        let spec = &self.spec.stack;
        if self.stack.device().is_some() {
            self.script.devices(spec);
        } else {
            self.script.folder(spec.directory.as_deref());
        }
        if needs_device && !spec.settings.is_empty() {
            self.script.settings("settings", &spec.settings);
        } else if !spec.settings.is_empty() {
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
        let asserted = self.stack.assert_settings();
        let (inodes, at_work) = (self.inodes(), self.stack.at_work());
        let (leaves, top) = (self.stack.leaves(), self.stack.layers().pop());
        // The device on top is counted with the disks underneath, and taken out again.
        let others: Vec<String> = self.stack.underneath().into_iter().chain(top.clone()).collect();
        let before = Snapshot::take(&leaves, &others, &self.stack.beside());
        let deadline = self.watch.phase(index, &name, timeout, Arc::clone(&progress));
        let start_ns = monotonic_ns();
        let mut done = match asserted {
            Ok(()) => self.act(index, &name, &action, deadline, &progress),
            Err(failure) => failure.into(),
        };
        let whole = Duration::from_nanos(monotonic_ns() - start_ns);
        let after = Snapshot::take(&leaves, &others, &self.stack.beside());
        self.watch.doing("reading back", None);
        let mut delta = before.until(&after);
        done.top = delta.underneath.pop_if(|counts| top.as_ref() == Some(&counts.device));
        let lines = self.kernel_log.map(KernelLog::drain).unwrap_or_default();
        let around = Around { inodes, at_work, lines };
        self.judge(&action, &mut done, &delta, &around);
        let tools = self.tell_tools(&name, std::mem::take(&mut done.tools));
        let (outcome, reason) = self.outcome(&mut done);
        let took = done.took.unwrap_or(Took { wall: whole, cpu: delta.cpu });
        PhaseEnd {
            phase: start,
            outcome,
            reason,
            start_ns,
            wall: took.wall.into(),
            cpu: took.cpu,
            leaves: delta.leaves,
            top: done.top,
            underneath: delta.underneath,
            host: delta.host,
            kernel_log: around.lines.iter().map(|l| format!("<{}>{}", l.level, l.text)).collect(),
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
                    .map_or_else(Done::from, |()| Done { took: Some(self.stack.took()), ..Done::default() })
            }
            Action::Check(check) => self.check(name, check.mode, deadline),
            Action::Fail(fail) => self.change(name, &Change::Fail(&fail.members)),
            Action::Add(add) => self.change(name, &Change::Add { members: &add.members, wait: add.wait }),
            Action::Resync(_) => self.change(name, &Change::Resync),
            Action::Grow(grow) => self.grow(name, grow, deadline),
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

    /// Kernel names of the trial's devices, of leaves and layers, and of the disks under them.
    pub fn devices(&self) -> Vec<String> {
        [self.stack.leaves(), self.stack.layers(), self.stack.underneath()].concat()
    }
}

//! One trial: build the stack, run the phases, take the stack down, whatever happens in between.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use fsdyno_filesystems::{FileSystem, Options};
use fsdyno_probe::doubts::{concerns, is_complaint};
use fsdyno_probe::kernel_log::KernelLog;
use fsdyno_spec::event::{Calibration, End, Event, Refusal, TrialStart};
use fsdyno_spec::outcome::{Doubt, Flag, Outcome, Reason};
use fsdyno_spec::request::TrialRequest;
use fsdyno_spec::trial::{Action, NAME_FORM, TrialSpec, WriteCache, is_name};
use fsdyno_spec::units::Seconds;
use fsdyno_spec::workload::Workload;
use fsdyno_stack::{Refused, Rig};

use crate::channel::Channel;
use crate::layers::load_modules;
use crate::phases::{Bench, Status};
use crate::place::Place;
use crate::shell::Script;
use crate::stop::Stop;
use crate::watch::Watch;

/// Runs trials on one rig.
pub struct Runner {
    pub(crate) rig: Rig,
    pub(crate) channel: Arc<Channel>,
    pub(crate) stop: Arc<Stop>,
    calibration: Calibration,
    pub(crate) cpus: u32,
    kernel_log: Option<KernelLog>,
    place: Place,
}

/// How a trial ended, before its end event is made.
pub struct Verdict {
    outcome: Outcome,
    reason: Option<Reason>,
}

impl Verdict {
    /// Ended otherwise than well.
    pub fn new(outcome: Outcome, reason: Reason) -> Self {
        Self { outcome, reason: Some(reason) }
    }

    /// The end of a trial of which nothing stands.
    pub fn end(self) -> End {
        End {
            outcome: self.outcome,
            reason: self.reason,
            flags: Vec::new(),
            wall: Seconds(0.0),
            teardown: Seconds(0.0),
            shell: Vec::new(),
        }
    }
}

impl Runner {
    /// A runner that owns the rig.
    pub fn new(
        rig: Rig,
        channel: Arc<Channel>,
        stop: Arc<Stop>,
        calibration: Calibration,
        cpus: u32,
        place: &Place,
    ) -> Self {
        let kernel_log = KernelLog::open().ok();
        Self { rig, channel, stop, calibration, cpus, kernel_log, place: place.clone() }
    }

    /// Runs a trial; all its events but the last are sent, the last one is returned.
    pub fn run(&mut self, request: &TrialRequest) -> End {
        let begin = Instant::now();
        let mut spec = request.spec.clone();
        let mut script = Script::default();
        let (mut flags, mut devices) = (Vec::new(), Vec::new());
        let checked = Checked::of(&mut spec);
        // A guest's trial was announced by its rig.
        if self.place != Place::Guest {
            let place = if spec.stack.directory.is_some() { "directory" } else { "native" };
            self.channel.send(Event::TrialStart(TrialStart {
                wall_clock: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
                place: place.to_string(),
                phases: spec.phases.len() as u32,
            }));
        }
        let mut teardown = std::time::Duration::ZERO;
        let mut verdict = match checked {
            Err(reason) => {
                self.channel.refuse(Refusal::BadRequest, reason.clone());
                Verdict::new(Outcome::Failed, reason)
            }
            Ok(checked) => {
                let watch =
                    Watch::begin(Arc::clone(&self.channel), Arc::clone(&self.stop), spec.timeout.duration());
                match self.rig.begin(&request.trial, &spec.stack) {
                    Err(refused) => refuse(&self.channel, refused),
                    Ok(stack) => {
                        let mut bench = Bench {
                            stack,
                            filesystem: checked.filesystem,
                            spec: &spec,
                            seed: request.seed,
                            channel: &self.channel,
                            stop: &self.stop,
                            watch: &watch,
                            calibration: &self.calibration,
                            cpus: self.cpus,
                            kernel_log: self.kernel_log.as_ref(),
                            script: &mut script,
                            status: Status::default(),
                        };
                        if self.place == Place::Guest {
                            // Whatever comes over from the rig comes before the clocks.
                            load_modules(&spec.stack, bench.filesystem.as_ref().map(|(row, _)| *row));
                            bench.warm_tools();
                        }
                        let verdict = on_the_bench(&mut bench);
                        watch.doing("taking the stack down", None);
                        let start = Instant::now();
                        flags.append(&mut bench.status.flags);
                        devices = bench.devices();
                        let failures = bench.stack.teardown();
                        teardown = start.elapsed();
                        if failures.is_empty() {
                            verdict
                        } else {
                            let reason = Reason::new(format!("the stack could not be taken down: {}", failures.join("; ")))
                                .advise("look at what holds it, then run `fsdyno clean`; reboot if a process hangs in the kernel");
                            Verdict::new(Outcome::TeardownFailed, reason)
                        }
                    }
                }
            }
        };
        if verdict.outcome == Outcome::Ok {
            verdict.reason = None;
        }
        flags.extend(self.last_words(&devices));
        End {
            outcome: verdict.outcome,
            reason: verdict.reason,
            flags,
            wall: begin.elapsed().into(),
            teardown: teardown.into(),
            shell: script.into_steps(),
        }
    }
}

impl Runner {
    /// What the kernel complained of while the stack was taken down: write-back may fail only then.
    fn last_words(&self, devices: &[String]) -> Option<Flag> {
        let complaints =
            self.kernel_log.as_ref()?.drain().into_iter().filter(|l| is_complaint(l) && concerns(l, devices));
        let texts = complaints.map(|line| line.text).collect::<Vec<_>>();
        let said =
            || Flag::new(Doubt::KernelLog, format!("while taking the stack down: {}", texts.join("; ")));
        (!texts.is_empty()).then(said)
    }
}

/// What was found right before anything is touched.
struct Checked {
    filesystem: Option<(&'static FileSystem, Options)>,
}

impl Checked {
    /// Refuses what cannot be meant, and resolves barriers that are turned off at the queue.
    fn of(spec: &mut TrialSpec) -> Result<Self, Reason> {
        if spec.stack.directory.is_some() != spec.stack.devices.is_empty() {
            return Err(Reason::new("a stack is either `devices` or a `directory`"));
        }
        if spec.phases.is_empty() {
            return Err(Reason::new("a trial needs at least one phase"));
        }
        let filesystem = match &spec.filesystem {
            Some(wanted) => {
                let row = fsdyno_filesystems::find(&wanted.kind)?;
                Some((row, row.options(&wanted.options)?))
            }
            None if spec.stack.directory.is_none() => {
                return Err(Reason::new("a stack of devices needs a `filesystem`"));
            }
            None => None,
        };
        let names = spec.phases.iter().filter_map(|p| p.name.as_ref());
        if let Some(bad) = names.chain(spec.datasets.keys()).find(|name| !is_name(name)) {
            return Err(Reason::new(format!("{bad:?} is no name of a phase or dataset"))
                .advise(format!("write {NAME_FORM}")));
        }
        for (n, phase) in spec.phases.iter().enumerate() {
            let action = phase.action().map_err(|e| Reason::new(format!("phases[{n}]: {e}")))?;
            if let Action::Workload(workload) = action {
                let name = dataset_of(workload);
                let set = spec
                    .datasets
                    .get(name)
                    .ok_or_else(|| Reason::new(format!("phases[{n}]: no dataset is called `{name}`")))?;
                fsdyno_workload::validate(workload, set).map_err(|r| Reason {
                    message: format!("phases[{n}]: {}", r.message),
                    advice: r.advice,
                })?;
            }
        }
        if filesystem.as_ref().is_some_and(|(row, options)| row.wants_write_through(options)) {
            if spec.stack.settings.write_cache == Some(WriteCache::WriteBack) {
                return Err(Reason::new(
                    "`barrier = false` of this file system means `write through`, not `write back`",
                )
                .advise("leave one of the two out"));
            }
            spec.stack.settings.write_cache = Some(WriteCache::WriteThrough);
        }
        Ok(Self { filesystem })
    }
}

/// The dataset that a workload works on.
pub fn dataset_of(workload: &Workload) -> &str {
    match workload {
        Workload::Stream(w) => &w.dataset,
        Workload::Random(w) => &w.dataset,
        Workload::Tree(w) => &w.dataset,
    }
}

/// Builds and runs; the caller takes down.
fn on_the_bench(bench: &mut Bench<'_, '_>) -> Verdict {
    match bench.build() {
        Ok(()) => {}
        Err(refused) => {
            // Whatever gave way, it was because of that.
            return match bench.stop.why() {
                Some(why) => {
                    let (outcome, reason) = why.outcome();
                    Verdict::new(outcome, reason)
                }
                None => refuse(bench.channel, refused),
            };
        }
    }
    let spec = bench.spec;
    for (index, phase) in spec.phases.iter().enumerate() {
        if let Some(why) = bench.stop.why() {
            let (outcome, reason) = why.outcome();
            return Verdict::new(outcome, reason);
        }
        let end = bench.run_phase(index as u32, phase);
        let fatal = match end.outcome {
            Outcome::Ok | Outcome::NotApplicable => false,
            // A load that this file system cannot carry (no direct I/O, say) leaves the others be.
            Outcome::Unsupported => phase.workload.is_none(),
            _ => true,
        };
        let verdict = Verdict {
            outcome: end.outcome,
            reason: end
                .reason
                .clone()
                .map(|r| Reason { message: format!("phase {}: {}", end.phase.name, r.message), ..r }),
        };
        bench.channel.send(Event::PhaseEnd(Box::new(end)));
        if fatal {
            return verdict;
        }
    }
    Verdict { outcome: Outcome::Ok, reason: None }
}

fn refuse(channel: &Channel, refused: Refused) -> Verdict {
    // What is unsupported here ends this trial only; a refusal is told to whoever runs the campaign.
    if refused.outcome != Outcome::Unsupported || refused.refusal == Refusal::NoRoot {
        channel.refuse(refused.refusal, refused.reason.clone());
    }
    Verdict::new(refused.outcome, refused.reason)
}

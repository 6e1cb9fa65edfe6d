//! Trials in guests, as the rig sees them: it makes the images, boots, forwards the trial, relays the
//! events, and has the last word when the guest has none.

mod disks;
mod kvm;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fsdyno_machine::{Accelerated, Boot, Disk, Guest, Heard, Kernel, Qemu};
use fsdyno_probe::counters::Snapshot;
use fsdyno_probe::doubts::{self, Context};
use fsdyno_spec::event::{End, Envelope, Event, Heartbeat, Origin, TrialStart};
use fsdyno_spec::machine::Machine;
use fsdyno_spec::outcome::{Doubt, Flag, Outcome, Reason};
use fsdyno_spec::request::{Request, TrialRequest};
use fsdyno_spec::trial::{At, FileDevice};
use fsdyno_spec::units::Bytes;
use fsdyno_stack::{Image, Refused, Rig};
use serde::{Deserialize, Serialize};
use serde_json::json;

pub use self::kvm::Memory;

use self::disks::{disks, holds, union};
use crate::facts::{Facts, built};
use crate::stop::Stop;
use crate::trial::{Runner, Verdict};
use crate::watch::Watch;

/// How long an emulated machine may take to its first line.
const BOOT_EMULATED: Duration = Duration::from_secs(180);

/// How long a processor that runs the kernel itself may take: a `/dev/kvm` that opens but runs no stock
/// kernel exists, and must not cost a user his patience.
const BOOT_KVM: Duration = Duration::from_secs(10);

/// Kernel, modules and this program need about half of it.
const LEAST_MEMORY: Bytes = Bytes::mib(256);

/// A guest beats once a second. After so long a silence it hangs.
const SILENCE: Duration = Duration::from_secs(60);

/// From here on the rig says itself that it waits.
const LONG_SILENCE: Duration = Duration::from_secs(5);

/// How long a guest may take to end a trial that it was asked to end.
const ENDING: Duration = Duration::from_secs(15);

/// Beyond the trial's own time limit, which the guest keeps itself.
const GRACE: Duration = Duration::from_secs(60);

/// What a guest says to its rig alone, beside its events.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromGuest {
    /// The trial ended; the rig adds what it knows and passes it on.
    End(Box<End>),
}

impl FromGuest {
    /// As a line.
    pub fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

/// Guests of this rig: at most one runs.
pub struct Guests {
    cache: PathBuf,
    running: Option<Running>,
    /// Disks of the last guest, which the next one of the same machine has too.
    had: Option<(Machine, Vec<FileDevice>)>,
    /// What the last guest said that did not come up.
    console: Vec<u8>,
    /// What ran the CPUs of this agent's guests, so that one campaign does not have both.
    used: Option<Accelerated>,
}

/// A guest with what it was made of.
struct Running {
    machine: Machine,
    round: u32,
    guest: Guest,
    images: Vec<Image>,
    disks: Vec<FileDevice>,
    facts: Facts,
    /// Its boot id: who says something else is not it.
    boot: String,
    fresh: bool,
}

impl Guests {
    /// None yet; kernels come from the cache.
    pub fn new(cache: &Path) -> Self {
        Self { cache: cache.to_path_buf(), running: None, had: None, console: Vec::new(), used: None }
    }

    /// Ends the guest that runs, if any.
    fn dismiss(&mut self, rig: &mut Rig) {
        if let Some(mut running) = self.running.take() {
            // Nobody else gets images that it may still write to.
            if running.guest.end() {
                running.images.into_iter().for_each(|image| rig.give_image(image));
            }
        }
    }

    /// The guest for a trial: the one that runs, or another.
    fn ready(
        &mut self,
        rig: &mut Rig,
        request: &TrialRequest,
        machine: &Machine,
        stop: &Stop,
        watch: &Watch,
        hello: &mut dyn FnMut(&[u8]),
    ) -> Result<&mut Running, Verdict> {
        if let Some(phase) = request.spec.phases.iter().find(|phase| phase.at == Some(At::Rig)) {
            let message = format!("phase {} cannot run on the rig", phase.label().unwrap_or_default());
            let advice = "leave `at` out: all phases of a trial in a guest run there";
            return Err(failed(Reason::new(message).advise(advice)));
        }
        let needed = disks(&request.spec.stack).map_err(failed)?;
        let fits = |running: &mut Running| {
            running.machine == *machine
                && running.round == request.round
                && holds(&running.disks, &needed)
                && running.guest.alive()
        };
        if self.running.as_mut().is_none_or(|running| !fits(running)) {
            self.dismiss(rig);
            let disks = match &self.had {
                Some((same, had)) if same == machine => union(had, &needed),
                _ => needed,
            };
            self.had = Some((machine.clone(), disks.clone()));
            let running = self.boot(rig, request, machine, disks, stop, watch, hello)?;
            self.running = Some(running);
        }
        self.running.as_mut().ok_or_else(|| failed(Reason::new("there is no guest")))
    }

    #[allow(clippy::too_many_arguments)]
    fn boot(
        &mut self,
        rig: &mut Rig,
        request: &TrialRequest,
        machine: &Machine,
        disks: Vec<FileDevice>,
        stop: &Stop,
        watch: &Watch,
        hello: &mut dyn FnMut(&[u8]),
    ) -> Result<Running, Verdict> {
        let unsupported = |reason| Verdict::new(Outcome::Unsupported, reason);
        if machine.memory < LEAST_MEMORY || !machine.memory.0.is_multiple_of(1 << 20) {
            let message = format!("a guest cannot have {} of memory", machine.memory);
            let advice = format!("give `machine.memory` at least {LEAST_MEMORY}, in whole MiB");
            return Err(failed(Reason::new(message).advise(advice)));
        }
        let qemu = Qemu::find().map_err(unsupported)?;
        let kernel = Kernel::find(&self.cache, machine.kernel.as_deref()).map_err(unsupported)?;
        let mut memory = Memory::of(rig.state(), &qemu, &kernel);
        let choices = memory.choices(machine.accelerator, self.used).map_err(unsupported)?;
        let mut images = Vec::new();
        for disk in &disks {
            let image = rig.image(disk, &mut |doing, share| watch.doing(doing, Some(share)));
            match image {
                Ok(image) => images.push(image),
                Err(refused) => {
                    images.into_iter().for_each(|image| rig.give_image(image));
                    return Err(refusal(refused));
                }
            }
        }
        watch.doing("booting the guest", None);
        let mut last = Reason::new("no accelerator was tried");
        // Why the processor itself did not boot the kernel, if QEMU ran and nobody interrupted it.
        let mut kvm_failed: Option<Reason> = None;
        for (accelerated, why) in choices {
            let boot = Boot {
                kernel: &kernel,
                accelerated,
                memory: machine.memory,
                cpus: machine.cpus,
                disks: images
                    .iter()
                    .map(|image| Disk {
                        file: image.file(),
                        direct: image.direct(),
                        logical_block_size: image.logical_block_size(),
                    })
                    .collect(),
            };
            let started = Guest::start(&qemu, &boot).and_then(|guest| {
                rig.note_process(guest.pid()).map_err(|failure| failure.reason)?;
                Ok(guest)
            });
            let patience = if accelerated == Accelerated::Kvm { BOOT_KVM } else { BOOT_EMULATED };
            let ran = started.is_ok();
            let up = started.and_then(|mut guest| match first_line(&mut guest, patience, stop) {
                Ok(first) => {
                    hello(&first.1);
                    Ok((guest, first.0))
                }
                Err(reason) => {
                    self.console = guest.console_since(0);
                    Err(reason)
                }
            });
            match up {
                Ok((guest, first)) => {
                    // That KVM fails is known only when the same kernel boots without it.
                    match accelerated {
                        Accelerated::Kvm => memory.remember(None),
                        Accelerated::Tcg if kvm_failed.is_some() => memory.remember(kvm_failed.as_ref()),
                        Accelerated::Tcg => {}
                    }
                    self.used = Some(accelerated);
                    let why = kvm_failed.map(|reason| reason.message).or(why);
                    let boot = first.boot.clone();
                    let seconds = guest.age().as_secs_f64();
                    let mut facts = Facts::from([
                        ("kernel".to_string(), json!(kernel.release)),
                        ("kernel_source".to_string(), json!(kernel.source)),
                        ("accelerator".to_string(), json!(accelerated.name())),
                        ("cpus".to_string(), json!(machine.cpus)),
                        ("memory".to_string(), json!(machine.memory)),
                        ("qemu".to_string(), json!(qemu.version)),
                        (
                            "command".to_string(),
                            json!([&[qemu.path.display().to_string()], guest.arguments()].concat()),
                        ),
                        ("boot".to_string(), json!(first.boot)),
                        ("boot_seconds".to_string(), json!(seconds)),
                        ("direct_io".to_string(), json!(images.iter().all(Image::direct))),
                        ("disks".to_string(), json!(images.len())),
                    ]);
                    if let Some(why) = why {
                        facts.insert("accelerator_reason".into(), json!(why));
                    }
                    let (machine, round) = (machine.clone(), request.round);
                    return Ok(Running { machine, round, guest, images, disks, facts, boot, fresh: true });
                }
                Err(reason) => {
                    if accelerated == Accelerated::Kvm && ran && stop.why().is_none() {
                        kvm_failed = Some(reason.clone());
                    }
                    last = reason;
                }
            }
            if stop.why().is_some() {
                break;
            }
        }
        images.into_iter().for_each(|image| rig.give_image(image));
        let (outcome, reason) = stop.why().map_or((Outcome::Failed, last), |why| why.outcome());
        Err(Verdict::new(outcome, reason))
    }
}

impl Runner {
    /// Runs a trial in a guest; all its events but the last are sent, the last one is returned.
    pub fn run_in_guest(&mut self, request: &TrialRequest, machine: &Machine, guests: &mut Guests) -> End {
        let begin = Instant::now();
        self.channel.send(Event::TrialStart(TrialStart {
            wall_clock: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
            place: "guest".to_string(),
            phases: request.spec.phases.len() as u32,
        }));
        let timeout = request.spec.timeout.duration();
        let watch = Watch::begin(self.channel.clone(), self.stop.clone(), timeout);
        watch.doing("preparing the guest", None);
        let channel = self.channel.clone();
        let ready = guests.ready(&mut self.rig, request, machine, &self.stop, &watch, &mut |line| {
            channel.relay(line);
        });
        drop(watch);
        let mut end = match ready {
            Ok(running) => {
                let mut facts = running.facts.clone();
                let fresh = std::mem::replace(&mut running.fresh, false);
                facts.insert("fresh".into(), json!(fresh));
                self.channel.send(built("machine", facts));
                let said = running.guest.console_length();
                let before = Snapshot::take(&[], &[], &[]);
                let mut end = self.follow(request, &mut running.guest, &running.boot);
                end.0.flags.extend(self.disturbed(&before, machine));
                if machine.cpus > self.cpus {
                    let reason = format!("the guest has {} CPUs, the rig only {}", machine.cpus, self.cpus);
                    end.0.flags.push(Flag::new(Doubt::CpuPressure, reason));
                }
                if !running.images.iter().all(Image::direct) {
                    let reason = "the guest's disks are not accessed directly: the rig may have kept a copy of their data";
                    end.0.flags.push(Flag::new(Doubt::NotCold, reason));
                }
                // What was said while it booted belongs to the trial that it was booted for.
                let console = running.guest.console_since(if end.1 || fresh { 0 } else { said });
                if !console.is_empty() {
                    self.channel.send_artefact("console", &console);
                }
                if end.1 || end.0.outcome == Outcome::TeardownFailed {
                    guests.dismiss(&mut self.rig);
                }
                end.0
            }
            Err(verdict) => {
                let console = std::mem::take(&mut guests.console);
                if !console.is_empty() {
                    self.channel.send_artefact("console", &console);
                }
                verdict.end()
            }
        };
        // The guest is thrown away with all that could not be taken down in it; the rig is as before.
        if end.outcome == Outcome::TeardownFailed {
            end.outcome = Outcome::Failed;
        }
        end.wall = begin.elapsed().into();
        end
    }

    /// What disturbed the rig meanwhile, which a guest cannot see.
    fn disturbed(&self, before: &Snapshot, machine: &Machine) -> impl Iterator<Item = Flag> + use<> {
        let delta = before.until(&Snapshot::take(&[], &[], &[]));
        let context = Context { devices: &[], cpus: self.cpus, threads: machine.cpus, kernel_log: true };
        // The guest's own work is somebody else's in the rig's eyes: of the CPUs only what nobody here had.
        let of_rig =
            |flag: &Flag| matches!(flag.doubt, Doubt::StolenTime | Doubt::Throttled | Doubt::MemoryPressure);
        let named = |flag: Flag| Flag::new(flag.doubt, format!("on the rig: {}", flag.reason));
        doubts::judge(&delta, &[], &context).into_iter().filter(of_rig).map(named)
    }

    /// Forwards a trial and relays what comes, until it ends or the guest does; true if it did.
    fn follow(&self, request: &TrialRequest, guest: &mut Guest, boot: &str) -> (End, bool) {
        let begin = Instant::now();
        let gone = |outcome, message: String| {
            let advice = "what it said on its console, if anything, is an artefact of the trial; the next trial gets a fresh guest";
            (Verdict::new(outcome, Reason::new(message).advise(advice)).end(), true)
        };
        let line = serde_json::to_vec(&Request::Trial(Box::new(request.clone()))).unwrap_or_default();
        if guest.send(&line).is_err() {
            return gone(Outcome::Failed, format!("the guest is gone: {}", guest.last_words()));
        }
        let limit = request.spec.timeout.duration().saturating_add(GRACE);
        let (mut heard, mut beat) = (Instant::now(), Instant::now());
        let mut asked: Option<Instant> = None;
        loop {
            match guest.hear(Duration::from_millis(100)) {
                Heard::Line(line) => {
                    heard = Instant::now();
                    if let Ok(FromGuest::End(end)) = serde_json::from_slice(&line) {
                        return (*end, false);
                    }
                    let its_own = |envelope: &Envelope| {
                        let of_trial = envelope.trial.as_ref().is_none_or(|trial| *trial == request.trial);
                        envelope.from == Origin::Guest && envelope.boot == boot && of_trial
                    };
                    if !serde_json::from_slice(&line).as_ref().is_ok_and(its_own) {
                        let start: String = String::from_utf8_lossy(&line).chars().take(80).collect();
                        return gone(
                            Outcome::Failed,
                            format!("the guest says what is no event of its own: {start}"),
                        );
                    }
                    self.channel.relay(&line);
                }
                Heard::TooLong(start) => {
                    let start = String::from_utf8_lossy(&start).into_owned();
                    return gone(Outcome::Failed, format!("the guest says a line without end: {start}"));
                }
                Heard::Silence if heard.elapsed() > SILENCE => {
                    let words = guest.last_words();
                    let silence = heard.elapsed().as_secs();
                    let message = format!(
                        "the guest has been silent for {silence} s: it hangs; its last words: {words}"
                    );
                    return gone(Outcome::TimedOut, message);
                }
                Heard::Silence if heard.elapsed() > LONG_SILENCE && beat.elapsed() > LONG_SILENCE / 5 => {
                    beat = Instant::now();
                    self.channel.send(Event::Heartbeat(Heartbeat {
                        index: None,
                        doing: Some("waiting for a guest that says nothing".into()),
                        elapsed: heard.elapsed().into(),
                        done: None,
                    }));
                }
                Heard::Silence => {}
                Heard::Gone => {
                    // Its console may still be on its way.
                    std::thread::sleep(Duration::from_millis(50));
                    let message = format!("the guest died; its last words: {}", guest.last_words());
                    return gone(Outcome::Failed, message);
                }
            }
            if begin.elapsed() > limit {
                return gone(
                    Outcome::TimedOut,
                    "the trial's time is over, and the guest did not end it".into(),
                );
            }
            if let Some(why) = self.stop.why() {
                match asked {
                    None => {
                        asked = Some(Instant::now());
                        let _ = guest.send(&serde_json::to_vec(&Request::Cancel {}).unwrap_or_default());
                    }
                    Some(since) if since.elapsed() > ENDING => {
                        let (outcome, reason) = why.outcome();
                        return (Verdict::new(outcome, reason).end(), true);
                    }
                    Some(_) => {}
                }
            } else if self.channel.broken() {
                self.stop.ask(crate::stop::Why::Cancelled("nobody listens any more"));
            }
        }
    }
}

/// Waits for the hello of a guest: it, and its line.
fn first_line(guest: &mut Guest, patience: Duration, stop: &Stop) -> Result<(Envelope, Vec<u8>), Reason> {
    let advice =
        "its console is among the trial's artefacts; `machine.accelerator = \"tcg\"` emulates the processor";
    let said = |what: String| Err(Reason::new(what).advise(advice));
    while guest.age() < patience {
        if stop.why().is_some() {
            return said("the boot of the guest was interrupted".into());
        }
        match guest.hear(Duration::from_millis(50)) {
            Heard::Line(line) => match serde_json::from_slice::<Envelope>(&line) {
                Ok(envelope) if matches!(envelope.event, Event::Hello(_)) => return Ok((envelope, line)),
                _ => return said("the guest's first line is no hello".into()),
            },
            Heard::Silence => {}
            Heard::TooLong(_) => return said("the guest's first line has no end".into()),
            Heard::Gone => {
                std::thread::sleep(Duration::from_millis(50));
                return said(format!("the guest died before it was up: {}", guest.last_words()));
            }
        }
    }
    let seconds = patience.as_secs();
    said(format!("the guest did not come up within {seconds} s: {}", guest.last_words()))
}

fn failed(reason: Reason) -> Verdict {
    Verdict::new(Outcome::Failed, reason)
}

fn refusal(refused: Refused) -> Verdict {
    failed(refused.reason)
}

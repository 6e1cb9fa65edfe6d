//! Trials in guests, as the rig sees them: it makes the images, boots, forwards the trial, relays the
//! events, and has the last word when the guest has none.

mod boot;
mod disks;
mod kvm;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fsdyno_machine::{Accelerated, Guest, Heard};
use fsdyno_probe::counters::Snapshot;
use fsdyno_probe::doubts::{self, Context};
use fsdyno_spec::event::{End, Envelope, Event, Heartbeat, Origin, TrialStart};
use fsdyno_spec::machine::Machine;
use fsdyno_spec::outcome::{Doubt, Flag, Outcome, Reason};
use fsdyno_spec::request::{Request, TrialRequest};
use fsdyno_spec::trial::{At, FileDevice};
use fsdyno_stack::{Image, Rig};
use serde::{Deserialize, Serialize};
use serde_json::json;

pub use self::kvm::Memory;

use self::disks::{disks, holds, union};
use crate::channel::Channel;
use crate::facts::{Facts, built};
use crate::stop::Stop;
use crate::trial::{Runner, Verdict};
use crate::watch::Watch;

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

/// A trial that wants a guest, and who is to be told or asked meanwhile.
struct Call<'a> {
    request: &'a TrialRequest,
    machine: &'a Machine,
    channel: &'a Channel,
    stop: &'a Stop,
    watch: &'a Watch,
}

/// Why there is no guest.
struct NoGuest {
    verdict: Verdict,
    /// What the one said that did not come up.
    console: Vec<u8>,
}

impl From<Verdict> for NoGuest {
    fn from(verdict: Verdict) -> Self {
        Self { verdict, console: Vec::new() }
    }
}

impl Guests {
    /// None yet; kernels come from the cache.
    pub fn new(cache: &Path) -> Self {
        Self { cache: cache.to_path_buf(), running: None, had: None, used: None }
    }

    /// The guest for a trial: the one that runs, or another.
    fn ready(&mut self, rig: &mut Rig, call: &Call<'_>) -> Result<&mut Running, NoGuest> {
        let Call { request, machine, .. } = *call;
        if let Some(phase) = request.spec.phases.iter().find(|phase| phase.at == Some(At::Rig)) {
            let message = format!("phase {} cannot run on the rig", phase.label().unwrap_or_default());
            let advice = "leave `at` out: all phases of a trial in a guest run there";
            return Err(failed(Reason::new(message).advise(advice)).into());
        }
        let needed = disks(&request.spec.stack).map_err(failed)?;
        let fits = |running: &mut Running| {
            running.machine == *machine
                && running.round == request.round
                && holds(&running.disks, &needed)
                && running.guest.alive()
        };
        let kept = self.running.take().and_then(|mut running| {
            if fits(&mut running) {
                return Some(running);
            }
            dismiss(rig, running);
            None
        });
        let running = match kept {
            Some(running) => running,
            None => {
                let disks = match &self.had {
                    Some((same, had)) if same == machine => union(had, &needed),
                    _ => needed,
                };
                self.had = Some((machine.clone(), disks.clone()));
                self.boot(rig, call, disks)?
            }
        };
        Ok(self.running.insert(running))
    }
}

/// Ends a guest.
fn dismiss(rig: &mut Rig, mut running: Running) {
    // Nobody else gets images that it may still write to.
    if running.guest.end() {
        give_back(rig, running.images);
    }
}

fn give_back(rig: &mut Rig, images: Vec<Image>) {
    images.into_iter().for_each(|image| rig.give_image(image));
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
        let call = Call { request, machine, channel: &self.channel, stop: &self.stop, watch: &watch };
        let ready = guests.ready(&mut self.rig, &call);
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
                self.tell_console(&console);
                if end.1 || end.0.outcome == Outcome::TeardownFailed {
                    guests.running.take().into_iter().for_each(|running| dismiss(&mut self.rig, running));
                }
                end.0
            }
            Err(no) => {
                self.tell_console(&no.console);
                no.verdict.end()
            }
        };
        // The guest is thrown away with all that could not be taken down in it; the rig is as before.
        if end.outcome == Outcome::TeardownFailed {
            end.outcome = Outcome::Failed;
        }
        end.wall = begin.elapsed().into();
        end
    }

    fn tell_console(&self, said: &[u8]) {
        if !said.is_empty() {
            self.channel.send_artefact("console", said);
        }
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

fn failed(reason: Reason) -> Verdict {
    Verdict::new(Outcome::Failed, reason)
}

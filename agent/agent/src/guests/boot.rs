//! Booting a guest: its kernel, its disks, and what runs its CPUs, until it says hello.

use std::time::Duration;

use fsdyno_machine::{Accelerated, Boot, Disk, Guest, Heard, Kernel, Qemu};
use fsdyno_spec::event::{Envelope, Event};
use fsdyno_spec::outcome::{Outcome, Reason};
use fsdyno_spec::trial::FileDevice;
use fsdyno_spec::units::Bytes;
use fsdyno_stack::{Image, Rig};
use serde_json::json;

use super::{Call, Guests, Memory, NoGuest, Running, failed, give_back};
use crate::facts::Facts;
use crate::stop::Stop;
use crate::survey::version_of;
use crate::trial::Verdict;

/// How long an emulated machine may take to its first line.
const BOOT_EMULATED: Duration = Duration::from_secs(180);

/// How long a processor that runs the kernel itself may take: a `/dev/kvm` that opens but runs no stock
/// kernel exists, and must not cost a user his patience.
const BOOT_KVM: Duration = Duration::from_secs(10);

/// Kernel, modules and this program need about half of it.
const LEAST_MEMORY: Bytes = Bytes::mib(256);

/// The QEMU of this host.
///
/// # Errors
/// If there is none, with the package that has it.
fn qemu() -> Result<Qemu, Reason> {
    let path = fsdyno_stack::find_program(Qemu::PROGRAM);
    Qemu::of(path.as_deref(), version_of(Qemu::PROGRAM).as_deref())
}

/// What guests are booted from, found.
struct Source {
    qemu: Qemu,
    kernel: Kernel,
    memory: Memory,
}

/// A guest that said hello.
struct Up {
    guest: Guest,
    hello: Envelope,
    accelerated: Accelerated,
    /// Why the processor itself does not run it.
    why: Option<String>,
}

/// One that did not.
struct Down {
    reason: Reason,
    console: Vec<u8>,
    /// QEMU was started and noted.
    ran: bool,
}

impl Guests {
    /// Boots a guest with these disks.
    pub(super) fn boot(
        &mut self,
        rig: &mut Rig,
        call: &Call<'_>,
        disks: Vec<FileDevice>,
    ) -> Result<Running, NoGuest> {
        let unsupported = |reason| Verdict::new(Outcome::Unsupported, reason);
        let machine = call.machine;
        if machine.memory < LEAST_MEMORY || !machine.memory.0.is_multiple_of(1 << 20) {
            let message = format!("a guest cannot have {} of memory", machine.memory);
            let advice = format!("give `machine.memory` at least {LEAST_MEMORY}, in whole MiB");
            return Err(failed(Reason::new(message).advise(advice)).into());
        }
        let qemu = qemu().map_err(unsupported)?;
        let kernel = Kernel::find(&self.cache, machine.kernel.as_deref()).map_err(unsupported)?;
        let memory = Memory::of(rig.state(), &qemu, &kernel);
        let choices = memory.choices(machine.accelerator, self.used).map_err(unsupported)?;
        let mut source = Source { qemu, kernel, memory };
        let images = images(rig, call, &disks)?;
        call.watch.doing("booting the guest", None);
        match source.first_up(rig, call, &images, choices) {
            Ok(up) => {
                self.used = Some(up.accelerated);
                Ok(Running {
                    machine: machine.clone(),
                    round: call.request.round,
                    facts: source.facts(call, &up, &images),
                    boot: up.hello.boot,
                    guest: up.guest,
                    images,
                    disks,
                    fresh: true,
                })
            }
            Err(no) => {
                give_back(rig, images);
                Err(no)
            }
        }
    }
}

impl Source {
    /// Tries what may run the CPUs, one after the other.
    fn first_up(
        &mut self,
        rig: &mut Rig,
        call: &Call<'_>,
        images: &[Image],
        choices: Vec<(Accelerated, Option<String>)>,
    ) -> Result<Up, NoGuest> {
        // Why the processor itself did not boot the kernel, if QEMU ran and nobody interrupted it.
        let mut kvm_failed: Option<Reason> = None;
        let mut last = NoGuest::from(failed(Reason::new("no accelerator was tried")));
        for (accelerated, why) in choices {
            match self.attempt(rig, call, images, accelerated) {
                Ok((guest, hello)) => {
                    // That KVM fails is known only when the same kernel boots without it.
                    if accelerated == Accelerated::Kvm || kvm_failed.is_some() {
                        self.memory.remember(kvm_failed.as_ref());
                    }
                    let why = kvm_failed.map(|reason| reason.message).or(why);
                    return Ok(Up { guest, hello, accelerated, why });
                }
                Err(down) => {
                    if let Some(stopped) = call.stop.why() {
                        let (outcome, reason) = stopped.outcome();
                        return Err(NoGuest {
                            verdict: Verdict::new(outcome, reason),
                            console: down.console,
                        });
                    }
                    if accelerated == Accelerated::Kvm && down.ran {
                        kvm_failed = Some(down.reason.clone());
                    }
                    last = NoGuest { verdict: failed(down.reason), console: down.console };
                }
            }
        }
        Err(last)
    }

    fn attempt(
        &self,
        rig: &mut Rig,
        call: &Call<'_>,
        images: &[Image],
        accelerated: Accelerated,
    ) -> Result<(Guest, Envelope), Down> {
        let disk = |image| Disk {
            file: Image::file(image),
            direct: image.direct(),
            logical_block_size: image.logical_block_size(),
        };
        let boot = Boot {
            kernel: &self.kernel,
            accelerated,
            memory: call.machine.memory,
            cpus: call.machine.cpus,
            disks: images.iter().map(disk).collect(),
        };
        let not_run = |reason| Down { reason, console: Vec::new(), ran: false };
        let mut guest = Guest::start(&self.qemu, &boot).map_err(not_run)?;
        rig.note_process(guest.pid()).map_err(|failure| not_run(failure.reason))?;
        let patience = if accelerated == Accelerated::Kvm { BOOT_KVM } else { BOOT_EMULATED };
        match first_line(&mut guest, patience, call.stop) {
            Ok((hello, line)) => {
                call.channel.relay(&line);
                Ok((guest, hello))
            }
            Err(reason) => Err(Down { reason, console: guest.console_since(0), ran: true }),
        }
    }

    /// What a guest is, for its trials' events.
    fn facts(&self, call: &Call<'_>, up: &Up, images: &[Image]) -> Facts {
        let Self { qemu, kernel, .. } = self;
        let command = [&[qemu.path.display().to_string()], up.guest.arguments()].concat();
        let mut facts = Facts::from([
            ("kernel".to_string(), json!(kernel.release)),
            ("kernel_source".to_string(), json!(kernel.source)),
            ("accelerator".to_string(), json!(up.accelerated.name())),
            ("cpus".to_string(), json!(call.machine.cpus)),
            ("memory".to_string(), json!(call.machine.memory)),
            ("qemu".to_string(), json!(qemu.version)),
            ("command".to_string(), json!(command)),
            ("boot".to_string(), json!(up.hello.boot)),
            ("boot_seconds".to_string(), json!(up.guest.age().as_secs_f64())),
            ("direct_io".to_string(), json!(images.iter().all(Image::direct))),
            ("disks".to_string(), json!(images.len())),
        ]);
        facts.extend(up.why.as_ref().map(|why| ("accelerator_reason".to_string(), json!(why))));
        facts
    }
}

/// An image for each disk, or none at all.
fn images(rig: &mut Rig, call: &Call<'_>, disks: &[FileDevice]) -> Result<Vec<Image>, Verdict> {
    let mut images = Vec::new();
    for disk in disks {
        match rig.image(disk, &mut |doing, share| call.watch.doing(doing, Some(share))) {
            Ok(image) => images.push(image),
            Err(refused) => {
                give_back(rig, images);
                return Err(failed(refused.reason));
            }
        }
    }
    Ok(images)
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

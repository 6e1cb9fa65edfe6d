//! The verb `run`: one rig, one reader, trials one after the other.

use std::io::{BufWriter, stdin, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use fsdyno_probe::{calibration, host};
use fsdyno_spec::event::{ErrorEvent, Event, Hello, Refusal};
use fsdyno_spec::outcome::Outcome;
use fsdyno_spec::outcome::Reason;
use fsdyno_spec::{ENGINE, PROTOCOL};
use fsdyno_stack::{Rig, RigOptions};

use crate::channel::Channel;
use crate::guests::{FromGuest, Guests};
use crate::listener::{Heard, listen};
use crate::place::Place;
use crate::stop::Stop;
use crate::trial::Runner;

/// A refusal before any trial.
const REFUSED: u8 = 2;
/// A stack could not be taken down.
const TEARDOWN_FAILED: u8 = 3;

/// Serves trials until the input ends or a signal comes.
///
/// Exit codes: 0 done, 1 the event stream or the signal handlers could not be set up, 2 refused
/// before any trial (the last event says why), 3 a stack could not be taken down.
pub fn run(options: RigOptions, cache: PathBuf) -> ExitCode {
    serve(options, Place::Rig { cache })
}

/// The same inside a guest, whose port is standard input and output; ends with the guest.
pub fn run_in_guest() -> ExitCode {
    let home = Path::new(fsdyno_machine::GUEST_HOME);
    let (state, work) = (home.join("state"), home.join("work"));
    serve(RigOptions { state, work, attached: true, ..RigOptions::default() }, Place::Guest)
}

fn serve(options: RigOptions, place: Place) -> ExitCode {
    let facts = host::host();
    let calibration = calibration::calibrate();
    let out = Box::new(BufWriter::new(stdout()));
    let channel = Arc::new(Channel::new(place.origin(), facts.boot.clone(), out));
    channel.send(Event::Hello(Hello {
        protocol: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_string(),
        engine: ENGINE,
        pid: std::process::id(),
        kernel: facts.kernel.clone(),
        calibration: calibration.clone(),
    }));
    // Before any thread exists: the rig moves this one to a mount namespace of its own.
    let mut rig = match Rig::open(options) {
        Ok(rig) => rig,
        Err(refused) => {
            channel.send(Event::Error(ErrorEvent { refusal: refused.refusal, reason: refused.reason }));
            return ExitCode::from(REFUSED);
        }
    };
    // Also when there was nothing: it says that the rig is ours, and that no refusal comes any more.
    channel.send(Event::Cleaned(rig.cleaned().clone()));
    let stop = Arc::new(Stop::default());
    rig.stop_on(stop.shared_flag());
    let heard = match listen(stdin(), Arc::clone(&channel), Arc::clone(&stop)) {
        Ok(heard) => heard,
        Err(problem) => {
            let reason = Reason::new(format!("signals cannot be handled: {problem}"));
            channel.send(Event::Error(ErrorEvent { refusal: Refusal::Environment, reason }));
            return ExitCode::FAILURE;
        }
    };
    let mut guests = Guests::new(place.cache());
    let mut runner = Runner::new(rig, Arc::clone(&channel), stop, calibration, facts.cpus, &place);
    while let Ok(Heard::Trial(request)) = heard.recv() {
        channel.set_trial(Some(request.trial.clone()));
        let end = match &request.spec.machine {
            Some(machine) if place != Place::Guest => runner.run_in_guest(&request, machine, &mut guests),
            _ => runner.run(&request),
        };
        let outcome = end.outcome;
        match place {
            Place::Guest => channel.relay(&FromGuest::End(Box::new(end)).line()),
            Place::Rig { .. } => channel.send(Event::End(end)),
        }
        channel.set_trial(None);
        if outcome == Outcome::TeardownFailed {
            return ExitCode::from(TEARDOWN_FAILED);
        }
    }
    ExitCode::SUCCESS
}

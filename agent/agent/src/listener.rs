//! What the agent hears: requests on standard input, and signals.
//!
//! Both are read on threads of their own, so that a cancel reaches a workload that is running.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use fsdyno_spec::event::{ErrorEvent, Event, Refusal};
use fsdyno_spec::outcome::Reason;
use fsdyno_spec::request::{Request, TrialRequest};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::channel::Channel;
use crate::stop::{Stop, Why};

/// The longest request line: a spec of a few thousand phases is well below it.
const LONGEST_LINE: u64 = 64 << 20;

/// What was heard.
pub enum Heard {
    /// A trial to run.
    Trial(Box<TrialRequest>),
    /// Nothing more will come: the input ended, or a signal came.
    Over,
}

/// Hears requests and signals until the process ends.
///
/// The stop flag is lowered here, when a trial arrives, and not when it begins: a cancel that
/// follows on its heels must not be lost.
///
/// # Errors
/// If the signal handlers cannot be installed.
pub fn listen(
    input: impl Read + Send + 'static,
    events: Arc<Channel>,
    stop: Arc<Stop>,
) -> std::io::Result<Receiver<Heard>> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let signalled = Arc::clone(&stop);
    let (to_main, trials) = channel();
    let until_signal = to_main.clone();
    thread::spawn(move || {
        for _ in signals.forever() {
            signalled.ask_for_good(Why::Cancelled("signal"));
            let _ = until_signal.send(Heard::Over);
        }
    });
    thread::spawn(move || {
        let mut input = BufReader::new(input);
        loop {
            let mut line = Vec::new();
            match input.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break,
                Ok(_) if line.iter().all(u8::is_ascii_whitespace) => continue,
                Ok(_) => {}
            }
            match serde_json::from_slice(&line) {
                Ok(Request::Trial(trial)) => {
                    if !stop.reset() || to_main.send(Heard::Trial(trial)).is_err() {
                        break;
                    }
                }
                Ok(Request::Cancel {}) => stop.ask(Why::Cancelled("request")),
                Err(error) => events.send(bad_request(&error)),
            }
        }
        stop.ask_for_good(Why::Cancelled("end of input"));
        let _ = to_main.send(Heard::Over);
    });
    Ok(trials)
}

fn bad_request(error: &serde_json::Error) -> Event {
    Event::Error(ErrorEvent {
        refusal: Refusal::BadRequest,
        reason: Reason::new(format!("the request is not understood: {error}"))
            .advise("see `fsdyno-agent schema` for the shape of a request"),
    })
}

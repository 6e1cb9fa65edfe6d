//! One way to stop, whoever asks: a request, the end of the input, a signal, a deadline.
//!
//! Workloads and tools look at one flag; the phase loop asks afterwards why it was raised. Taking
//! the stack down never looks at it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fsdyno_spec::outcome::{Outcome, Reason};

/// Why work has to end.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// Somebody asked.
    Cancelled(&'static str),
    /// Time is over; which time, in words.
    TimedOut(String),
}

impl Why {
    /// As it is reported.
    pub fn outcome(&self) -> (Outcome, Reason) {
        match self {
            Self::Cancelled(by) => (Outcome::Cancelled, Reason::new(format!("cancelled: {by}"))),
            Self::TimedOut(what) => (
                Outcome::TimedOut,
                Reason::new(what.clone())
                    .advise("raise `timeout` of the phase or of the trial, or make the work smaller"),
            ),
        }
    }
}

/// The flag with its reason. The first reason stays.
#[derive(Default)]
pub struct Stop {
    flag: Arc<AtomicBool>,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    why: Option<Why>,
    for_good: bool,
}

impl Stop {
    /// Ask this trial to stop.
    pub fn ask(&self, why: Why) {
        self.lock().why.get_or_insert(why);
        self.flag.store(true, Ordering::Release);
    }

    /// Ask this trial and every later one to stop: the input ended, or a signal came.
    pub fn ask_for_good(&self, why: Why) {
        self.lock().for_good = true;
        self.ask(why);
    }

    /// The flag that workloads and tools look at.
    pub fn flag(&self) -> &AtomicBool {
        &self.flag
    }

    /// The same flag, to be held by the rig.
    pub fn shared_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }

    /// Why, if asked.
    pub fn why(&self) -> Option<Why> {
        self.lock().why.clone()
    }

    /// Before the next trial. Returns false if no further trial may begin.
    pub fn reset(&self) -> bool {
        let mut held = self.lock();
        if held.for_good {
            return false;
        }
        held.why = None;
        self.flag.store(false, Ordering::Release);
        true
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_stays() {
        let stop = Stop::default();
        assert!(stop.why().is_none());
        stop.ask(Why::TimedOut("phase read: 3 s are over".into()));
        stop.ask(Why::Cancelled("request"));
        assert!(stop.flag().load(Ordering::Acquire));
        assert_eq!(stop.why().unwrap().outcome().0, Outcome::TimedOut);
        assert!(stop.reset());
        assert!(!stop.flag().load(Ordering::Acquire));
    }

    #[test]
    fn the_end_of_the_input_ends_every_later_trial_too() {
        let stop = Stop::default();
        stop.ask_for_good(Why::Cancelled("end of input"));
        assert!(!stop.reset());
        assert!(stop.flag().load(Ordering::Acquire));
    }
}

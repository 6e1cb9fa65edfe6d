//! The second thread of a trial: says that the agent lives, and watches the deadlines.
//!
//! It is the only thing that speaks during a timed phase, once a second, and it is what raises the
//! stop flag when a phase or the trial has had its time.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fsdyno_spec::event::{Event, Heartbeat};
use fsdyno_workload::Progress;

use crate::channel::Channel;
use crate::stop::{Stop, Why};

/// Between two heartbeats. Python gives up on a silence of many times this.
const BEAT: Duration = Duration::from_secs(1);

/// What is going on right now.
struct Now {
    index: Option<u32>,
    doing: String,
    since: Instant,
    done: Done,
    deadline: Option<Instant>,
}

enum Done {
    Unknown,
    Share(f64),
    Workload(Arc<Progress>),
}

/// Watches one trial from its own thread; ends when dropped.
pub struct Watch {
    shared: Arc<(Mutex<State>, Condvar)>,
    thread: Option<thread::JoinHandle<()>>,
}

struct State {
    now: Now,
    trial_deadline: Instant,
    over: bool,
}

impl Watch {
    /// Begins to watch a trial that may last `timeout`.
    pub fn begin(channel: Arc<Channel>, stop: Arc<Stop>, timeout: Duration) -> Self {
        let start = Instant::now();
        // A time beyond what the clock can hold is as good as none.
        let trial_deadline = start.checked_add(timeout).unwrap_or(start + Duration::from_secs(1 << 32));
        let now =
            Now { index: None, doing: "building".into(), since: start, done: Done::Unknown, deadline: None };
        let shared = Arc::new((Mutex::new(State { now, trial_deadline, over: false }), Condvar::new()));
        let inside = Arc::clone(&shared);
        let thread = thread::spawn(move || beat(&inside, &channel, &stop));
        Self { shared, thread: Some(thread) }
    }

    /// A timed phase begins. Returns the deadline of whatever ends first.
    pub fn phase(
        &self,
        index: u32,
        name: &str,
        timeout: Option<Duration>,
        progress: Arc<Progress>,
    ) -> Instant {
        let since = Instant::now();
        let mut state = self.lock();
        let deadline = timeout.and_then(|t| since.checked_add(t));
        state.now = Now {
            index: Some(index),
            doing: name.to_string(),
            since,
            done: Done::Workload(progress),
            deadline,
        };
        self.shared.1.notify_all();
        deadline.map_or(state.trial_deadline, |d| d.min(state.trial_deadline))
    }

    /// Something between phases begins or goes on.
    pub fn doing(&self, what: &str, share: Option<f64>) {
        let mut state = self.lock();
        if state.now.index.is_some() || state.now.doing != what {
            state.now.since = Instant::now();
        }
        state.now.index = None;
        state.now.doing = what.to_string();
        state.now.deadline = None;
        state.now.done = share.map_or(Done::Unknown, Done::Share);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.lock().over = true;
        self.shared.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn beat(shared: &(Mutex<State>, Condvar), channel: &Channel, stop: &Stop) {
    let (mutex, wake) = shared;
    let mut next = Instant::now() + BEAT;
    let mut state = mutex.lock().unwrap_or_else(PoisonError::into_inner);
    while !state.over {
        let at = Instant::now();
        let expired = if at >= state.trial_deadline {
            Some("the trial's time is over".to_string())
        } else if state.now.deadline.is_some_and(|d| at >= d) {
            Some(format!("the time of phase {} is over", state.now.doing))
        } else {
            None
        };
        if let Some(what) = expired {
            stop.ask(Why::TimedOut(what));
        }
        if at >= next {
            let event = heartbeat(&state.now);
            drop(state);
            channel.send(event);
            if channel.broken() {
                stop.ask(Why::Cancelled("nobody listens any more"));
            }
            next = at + BEAT;
            state = mutex.lock().unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        let mut until = next;
        for deadline in [Some(state.trial_deadline), state.now.deadline].into_iter().flatten() {
            if deadline > at {
                until = until.min(deadline);
            }
        }
        state = wake.wait_timeout(state, until - at).unwrap_or_else(PoisonError::into_inner).0;
    }
}

fn heartbeat(now: &Now) -> Event {
    Event::Heartbeat(Heartbeat {
        index: now.index,
        doing: now.index.is_none().then(|| now.doing.clone()),
        elapsed: now.since.elapsed().into(),
        done: match &now.done {
            Done::Unknown => None,
            Done::Share(share) => Some(*share),
            Done::Workload(progress) => progress.share(),
        },
    })
}

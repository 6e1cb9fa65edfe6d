//! Two ways in which the stack says no. A refusal comes before anything was touched and has its own
//! exit code; a failure comes from the kernel or a tool in the middle of a trial and is an outcome.

use std::fmt;
use std::io;
use std::path::Path;

use fsdyno_spec::event::Refusal;
use fsdyno_spec::outcome::{Outcome, Reason};

/// Nothing was built, because it must not or cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Kind, which decides the exit code.
    pub refusal: Refusal,
    /// What it makes of the trial: `Unsupported` only ends this one, and nobody is told more.
    pub outcome: Outcome,
    /// What is in the way, and what to do instead.
    pub reason: Reason,
}

/// The kernel or a tool did not do what a phase needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What it makes of the phase.
    pub outcome: Outcome,
    /// What happened, and what to do instead.
    pub reason: Reason,
}

impl Refused {
    /// A refusal; `advice` is what to do instead.
    pub fn new(refusal: Refusal, message: impl Into<String>, advice: impl Into<String>) -> Self {
        let outcome = match refusal {
            Refusal::NoRoot => Outcome::Unsupported,
            _ => Outcome::Failed,
        };
        Self { refusal, outcome, reason: Reason::new(message).advise(advice) }
    }

    /// Something outside stands in the way.
    pub fn environment(message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(Refusal::Environment, message, advice)
    }

    /// A device is not ours to write.
    pub fn unsafe_device(message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(Refusal::Unsafe, message, advice)
    }

    /// An I/O error on a path of ours; the advice follows from its kind.
    pub fn io(doing: &str, path: &Path, error: &io::Error) -> Self {
        Self::environment(format!("{doing} {}: {error}", path.display()), advice_for(error))
    }
}

impl Failure {
    /// A failure with an outcome.
    pub fn new(outcome: Outcome, message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { outcome, reason: Reason::new(message).advise(advice) }
    }

    /// The kernel or a tool said no.
    pub fn failed(message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(Outcome::Failed, message, advice)
    }

    /// A failure to undo what an earlier failure left, which is told first.
    #[must_use]
    pub fn after(mut self, first: &Self) -> Self {
        self.reason.message = format!("{}; and then: {}", first.reason.message, self.reason.message);
        self
    }

    /// An I/O error on a path; the advice follows from its kind.
    pub fn io(doing: &str, path: &Path, error: &io::Error) -> Self {
        Self::failed(format!("{doing} {}: {error}", path.display()), advice_for(error))
    }
}

fn advice_for(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::AlreadyExists {
        return "run `fsdyno clean`, and give each trial an id of its own";
    }
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => "make room there, or choose another folder with --work",
        Some(libc::EACCES | libc::EPERM) => "run as root, or choose a folder of your own",
        Some(libc::EROFS) => "choose a folder on a writable file system",
        Some(libc::ENOENT) => "make it first, or correct the path",
        Some(libc::EIO) => "look into the kernel log: the disk below may be failing",
        _ => "look into the kernel log, and run `fsdyno clean`",
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        Self { outcome: refused.outcome, reason: refused.reason }
    }
}

impl From<Failure> for Refused {
    /// A failure while building is something outside that stands in the way.
    fn from(failure: Failure) -> Self {
        Self { refusal: Refusal::Environment, outcome: failure.outcome, reason: failure.reason }
    }
}

fn show(reason: &Reason, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(&reason.message)?;
    reason.advice.as_ref().map_or(Ok(()), |advice| write!(f, " ({advice})"))
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(&self.reason, f)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(&self.reason, f)
    }
}

impl std::error::Error for Refused {}
impl std::error::Error for Failure {}

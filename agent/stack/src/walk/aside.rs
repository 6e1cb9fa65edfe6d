//! Work that may never come back: a look at a mount, an open or a read of a device that hangs. It is done in
//! a thread of its own, which is left alone when time is over.
//!
//! Threads that are left alone go with the process, which joins none of them. Most waits for devices and
//! servers can be killed. One that cannot (a task in state D) keeps a dying process until its device
//! answers or fails: so whoever is asked for an answer finds it [apart](crate::apart()).

use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use fsdyno_spec::outcome::Reason;

/// How long a mount or a device may take to answer: live ones need milliseconds, and who audits waits.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// Begins `work` aside; its answer can be waited for.
pub fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (answer, answered) = mpsc::channel();
    std::thread::spawn(move || drop(answer.send(work())));
    answered
}

/// What `work` answers within a second; else that `what` (a node or a path) did not.
///
/// # Errors
/// If it did not answer in time, or what it answers.
pub fn within<T: Send + 'static>(
    what: &Path,
    work: impl FnOnce() -> Result<T, Reason> + Send + 'static,
) -> Result<T, Reason> {
    aside(work).recv_timeout(PATIENCE).unwrap_or_else(|_| Err(late(what)))
}

/// That something did not answer.
pub fn late(what: &Path) -> Reason {
    Reason::new(format!("{} did not answer within {PATIENCE:?}", what.display()))
        .advise("look into the kernel log for a device or a server that hangs, or is suspended")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_comes_back_is_told_and_left_alone() {
        let what = Path::new("/dev/dead");
        assert_eq!(within(what, || Ok(7)), Ok(7));
        let (keep, never) = mpsc::channel::<()>();
        let reason = within(what, move || Ok(never.recv().is_ok())).unwrap_err();
        assert!(reason.message.contains("/dev/dead did not answer"), "{reason:?}");
        drop(keep);
    }
}

//! Why a workload did not do what it was asked: what happened to which file, and what would help.

use std::fmt::Display;

use fsdyno_spec::outcome::{Outcome, Reason};
use rustix::io::Errno;

/// A workload that did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// `Failed`, `Unsupported` or `Cancelled`.
    pub outcome: Outcome,
    /// Why, and what would change it.
    pub reason: Reason,
}

impl Failure {
    pub(crate) fn failed(reason: Reason) -> Self {
        Self { outcome: Outcome::Failed, reason }
    }

    pub(crate) fn unsupported(reason: Reason) -> Self {
        Self { outcome: Outcome::Unsupported, reason }
    }

    pub(crate) fn cancelled() -> Self {
        Self { outcome: Outcome::Cancelled, reason: Reason::new("the workload was told to stop") }
    }

    /// An error of the kernel: `doing` is a verb (`write`), `path` what it was done to.
    #[cold]
    pub(crate) fn kernel(doing: &str, path: impl Display, errno: Errno) -> Self {
        let name = name(errno).map_or(String::new(), |n| format!(" ({n})"));
        let text = std::io::Error::from(errno).to_string();
        let text = text.split(" (os error").next().unwrap_or_default();
        let reason = Reason::new(format!("could not {doing} {path}: {text}{name}"));
        Self::failed(match advice(errno) {
            Some(advice) => reason.advise(advice),
            None => reason,
        })
    }

    /// As [`Failure::kernel`] for direct I/O, where EINVAL means that it cannot be done here.
    #[cold]
    pub(crate) fn direct(doing: &str, path: impl Display, errno: Errno) -> Self {
        if errno != Errno::INVAL {
            return Self::kernel(doing, path, errno);
        }
        Self::unsupported(
            Reason::new(format!("could not {doing} {path} with direct I/O: the kernel refuses it (EINVAL)"))
                .advise(
                    "use direct = false, or a record and file size that are multiples of the device's \
                 logical block size (4096 always is)",
                ),
        )
    }

    /// The dataset is not there.
    #[cold]
    pub(crate) fn missing(name: &str, what: impl Display) -> Self {
        Self::failed(
            Reason::new(format!("dataset `{name}` has not been created by an earlier phase: {what}")).advise(
                "add a phase that creates it: `tree` with op = \"create\", or `stream` with op = \"write\"",
            ),
        )
    }

    /// The dataset is there already.
    #[cold]
    pub(crate) fn exists(name: &str, path: impl Display) -> Self {
        Self::failed(
            Reason::new(format!("dataset `{name}` exists already: {path}"))
                .advise("delete it first (`tree` with op = \"delete\"), or use op = \"rewrite\" on it"),
        )
    }

    /// Fewer bytes were moved than the dataset says.
    #[cold]
    pub(crate) fn short(doing: &str, path: impl Display, got: u64, want: u64) -> Self {
        Self::failed(
            Reason::new(format!("short {doing} of {path}: {got} bytes where the dataset says {want}"))
                .advise("a dataset keeps its files and sizes from the phase that creates it to the one that deletes it"),
        )
    }
}

fn name(errno: Errno) -> Option<&'static str> {
    Some(match errno {
        Errno::NOSPC => "ENOSPC",
        Errno::DQUOT => "EDQUOT",
        Errno::IO => "EIO",
        Errno::ROFS => "EROFS",
        Errno::ACCESS => "EACCES",
        Errno::PERM => "EPERM",
        Errno::INVAL => "EINVAL",
        Errno::NOENT => "ENOENT",
        Errno::EXIST => "EEXIST",
        Errno::MFILE => "EMFILE",
        Errno::NFILE => "ENFILE",
        Errno::MLINK => "EMLINK",
        Errno::NOTEMPTY => "ENOTEMPTY",
        Errno::NOMEM => "ENOMEM",
        Errno::FBIG => "EFBIG",
        _ => return None,
    })
}

fn advice(errno: Errno) -> Option<&'static str> {
    Some(match errno {
        Errno::NOSPC => "use a larger device, or a smaller dataset (fewer files also where inodes ran out)",
        Errno::DQUOT => "raise the quota, or use a smaller dataset",
        Errno::IO => "look at the kernel log lines of this phase: the device or the file system failed",
        Errno::ROFS => {
            "the file system is mounted read-only, or turned so after an error: see the kernel log lines"
        }
        Errno::ACCESS | Errno::PERM => "use a folder that this user may write",
        Errno::MFILE | Errno::NFILE => {
            "raise the limit of open files (ulimit -n), or use fewer, larger files"
        }
        Errno::MLINK => "use more files per directory: this file system limits the number of directories",
        Errno::NOTEMPTY => "the dataset holds files that no phase of this trial made",
        Errno::NOMEM => "use a smaller record, depth or number of threads",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_file_the_cause_and_the_remedy() {
        let failure = Failure::kernel("write", "/x/f1", Errno::NOSPC);
        assert_eq!(failure.outcome, Outcome::Failed);
        assert_eq!(failure.reason.message, "could not write /x/f1: No space left on device (ENOSPC)");
        assert!(failure.reason.advice.is_some_and(|a| a.contains("larger device")));
    }

    #[test]
    fn only_einval_makes_direct_io_unsupported() {
        assert_eq!(Failure::direct("open", "/x", Errno::INVAL).outcome, Outcome::Unsupported);
        assert_eq!(Failure::direct("open", "/x", Errno::NOSPC).outcome, Outcome::Failed);
    }
}

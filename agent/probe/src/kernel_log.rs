//! The kernel's log, so that a figure taken while the kernel complained is not believed.

use fsdyno_spec::outcome::Reason;
use rustix::fs::{Mode, OFlags, SeekFrom, open, seek};
use rustix::io::{Errno, read};
use std::os::fd::OwnedFd;

/// Longest record that `/dev/kmsg` hands out (kernel: `PRINTK_MESSAGE_MAX`).
const LONGEST: usize = 8192;

/// A line of the kernel's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// 0 emergency … 3 error, 4 warning, 5 notice, 6 information, 7 debug.
    pub level: u8,
    /// What it says, without the time.
    pub text: String,
}

impl std::fmt::Display for Line {
    /// As in events: `<level>text`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<{}>{}", self.level, self.text)
    }
}

/// The kernel's log from the moment it was opened.
#[derive(Debug)]
pub struct KernelLog {
    kmsg: OwnedFd,
}

impl KernelLog {
    /// Opens the log at its end.
    ///
    /// # Errors
    /// Why it cannot be read here, with what would change that.
    pub fn open() -> Result<Self, Reason> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let kmsg = open("/dev/kmsg", flags, Mode::empty()).map_err(|e| unreadable("open", e))?;
        seek(&kmsg, SeekFrom::End(0)).map_err(|e| unreadable("seek in", e))?;
        // Some containers let the file be opened and refuse the first read.
        match read(&kmsg, &mut [0u8; LONGEST]) {
            Err(Errno::AGAIN | Errno::PIPE) | Ok(_) => Ok(Self { kmsg }),
            Err(e) => Err(unreadable("read", e)),
        }
    }

    /// Lines since the last call. Where the kernel's ring overran, the lost lines are replaced by
    /// a warning that says so.
    pub fn drain(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut record = [0u8; LONGEST];
        loop {
            match read(&self.kmsg, &mut record) {
                Ok(0) | Err(Errno::AGAIN) => return lines,
                Ok(length) => lines.extend(parse(&String::from_utf8_lossy(&record[..length]))),
                Err(Errno::PIPE) => {
                    lines
                        .push(Line { level: 4, text: "fsdyno: kernel log lines were lost (overrun)".into() });
                }
                Err(Errno::INTR) => {}
                Err(e) => {
                    lines
                        .push(Line { level: 4, text: format!("fsdyno: the kernel log cannot be read: {e}") });
                    return lines;
                }
            }
        }
    }
}

fn unreadable(what: &str, error: Errno) -> Reason {
    Reason::new(format!("cannot {what} /dev/kmsg: {error}"))
        .advise("run as root, or set the sysctl kernel.dmesg_restrict to 0")
}

/// One record: `priority,sequence,time,flags[,…];text\n`, then lines of ` KEY=value`. The lowest
/// three bits of the priority are the level. Source: Linux `Documentation/ABI/testing/dev-kmsg`.
fn parse(record: &str) -> Option<Line> {
    let (head, body) = record.split_once(';')?;
    let priority: u32 = head.split(',').next()?.parse().ok()?;
    Some(Line { level: (priority & 7) as u8, text: body.lines().next().unwrap_or_default().to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_a_level_and_a_text() {
        let line = parse("12,339,5140900,-;EXT4-fs error; really\n SUBSYSTEM=block\n DEVICE=b7:0\n");
        let line = line.expect("a record");
        assert_eq!(line, Line { level: 4, text: "EXT4-fs error; really".into() });
        assert_eq!(line.to_string(), "<4>EXT4-fs error; really");
        assert_eq!(parse("no record"), None);
    }

    #[test]
    fn sees_what_is_logged_after_it_was_opened_and_only_that() {
        let Ok(log) = KernelLog::open() else {
            eprintln!("skipped: the kernel log cannot be read here");
            return;
        };
        let mark = format!("fsdyno test {}", std::process::id());
        if std::fs::write("/dev/kmsg", format!("<6>{mark} one\n")).is_err() {
            eprintln!("skipped: the kernel log cannot be written here");
            return;
        }
        let ours =
            |lines: Vec<Line>| lines.into_iter().filter(|l| l.text.starts_with(&mark)).collect::<Vec<_>>();
        assert_eq!(ours(log.drain()), vec![Line { level: 6, text: format!("{mark} one") }]);
        assert_eq!(ours(log.drain()), vec![]);
        let later = KernelLog::open().expect("as before");
        assert_eq!(ours(later.drain()), vec![]);
    }
}

//! A guest that runs: lines to it, lines from it, and its end. It cannot outlive this process, and it
//! has no name in any folder: its files, its socket and its console are descriptors.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use fsdyno_spec::outcome::Reason;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use crate::boot::{Boot, initramfs};
use crate::console::{Console, last_words};
use crate::qemu::{DiskLine, Line, Qemu};

/// The longest line that a guest may send; the reader at the rig takes no longer ones either.
const LONGEST_LINE: u64 = 8 << 20;

/// Lines that may wait to be heard. Then the guest has to wait.
const WAITING_LINES: usize = 64;

/// How long QEMU may take to die of SIGKILL, and a guest to take a line.
const DEATH: Duration = Duration::from_secs(10);

/// A running guest. Dropping it ends it.
#[derive(Debug)]
pub struct Guest {
    child: Child,
    port: Option<UnixStream>,
    lines: Receiver<Heard>,
    console: Console,
    errors: Console,
    arguments: Vec<String>,
    born: Instant,
}

/// What was heard of a guest.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// A line, with its end.
    Line(Vec<u8>),
    /// The beginning of a line that is longer than any event; what follows is not read.
    TooLong(Vec<u8>),
    /// Nothing, in the time given.
    Silence,
    /// It is gone, or its port is.
    Gone,
}

impl Guest {
    /// Starts a guest; whether its kernel boots is heard, or not.
    ///
    /// # Errors
    /// If QEMU or the kernel cannot be started, with advice.
    pub fn start(qemu: &Qemu, boot: &Boot<'_>) -> Result<Self, Reason> {
        let fail = |what: &str, error: io::Error| {
            let advice = "see that QEMU runs (qemu-system-x86_64 --version) and `fsdyno guest list` is whole";
            Reason::new(format!("a guest cannot be started: {what}: {error}")).advise(advice)
        };
        let initramfs = initramfs(boot.kernel).map_err(|e| fail("initramfs", e))?;
        let (ours, theirs) = UnixStream::pair().map_err(|e| fail("socket", e))?;
        let theirs = OwnedFd::from(theirs);
        let mut inherited = vec![theirs.as_raw_fd(), initramfs.as_raw_fd()];
        inherited.extend(boot.disks.iter().map(|disk| disk.file.as_raw_fd()));
        let disks: Vec<_> = (0..)
            .zip(&boot.disks)
            .map(|(slot, disk)| DiskLine {
                descriptor: disk.file.as_raw_fd(),
                slot,
                logical_block_size: disk.logical_block_size,
                direct: disk.direct,
            })
            .collect();
        let line = Line {
            accelerated: boot.accelerated,
            memory: boot.memory,
            cpus: boot.cpus,
            image: &boot.kernel.image,
            initramfs: initramfs.as_raw_fd(),
            port: theirs.as_raw_fd(),
            disks: &disks,
        };
        let arguments = line.arguments();
        let mut command = Command::new(&qemu.path);
        // A group of its own: whoever interrupts us at the keyboard does not kill it in mid-sentence.
        command.process_group(0);
        command.args(&arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let parent = rustix::process::getpid();
        // SAFETY: only async-signal-safe system calls on values that were copied before the fork.
        unsafe { command.pre_exec(move || inherit(parent, &inherited)) };
        let born = Instant::now();
        let mut child = command.spawn().map_err(|e| fail(&qemu.path.display().to_string(), e))?;
        drop((initramfs, theirs));
        let (console, errors) = (Console::default(), Console::default());
        if let (Some(out), Some(err)) = (child.stdout.take(), child.stderr.take()) {
            console.follow(File::from(OwnedFd::from(out)));
            errors.follow(File::from(OwnedFd::from(err)));
        }
        // A guest that hangs does not empty its port.
        ours.set_write_timeout(Some(DEATH)).map_err(|e| fail("socket", e))?;
        let reading = ours.try_clone().map_err(|e| fail("socket", e))?;
        Ok(Self { child, port: Some(ours), lines: lines(reading), console, errors, arguments, born })
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// QEMU's arguments.
    #[must_use]
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// Since it was started.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.born.elapsed()
    }

    /// Sends a line (its end is added).
    ///
    /// # Errors
    /// If it is gone, or does not listen.
    pub fn send(&mut self, line: &[u8]) -> io::Result<()> {
        let port = self.port.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        port.write_all(line)?;
        port.write_all(b"\n")
    }

    /// Waits for the next line.
    pub fn hear(&mut self, patience: Duration) -> Heard {
        match self.lines.recv_timeout(patience) {
            Ok(heard) => heard,
            Err(RecvTimeoutError::Timeout) if self.alive() => Heard::Silence,
            Err(_) => Heard::Gone,
        }
    }

    /// Whether QEMU runs.
    pub fn alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Bytes that it has said on its console so far.
    #[must_use]
    pub fn console_length(&self) -> usize {
        self.console.length()
    }

    /// What it said on its console since then.
    #[must_use]
    pub fn console_since(&self, length: usize) -> Vec<u8> {
        self.console.since(length)
    }

    /// How QEMU ended, if it did, and what it or the kernel said last, for a person.
    pub fn last_words(&mut self) -> String {
        let ended = match self.child.try_wait() {
            Ok(Some(status)) => Some(format!("QEMU ended with {status}")),
            _ => None,
        };
        let said = [&self.errors, &self.console].map(|said| last_words(&said.since(0)));
        let all = ended.into_iter().chain(said).filter(|words| !words.is_empty()).collect::<Vec<_>>();
        if all.is_empty() { "nothing was said".to_string() } else { all.join(": ") }
    }

    /// Ends it at once and waits until it is gone. True if it is.
    pub fn end(&mut self) -> bool {
        self.port = None;
        let _ = self.child.kill();
        let begin = Instant::now();
        while begin.elapsed() < DEATH {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return true;
            }
            thread::sleep(Duration::from_millis(2));
        }
        false
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.end();
    }
}

/// Lines of the port, read on a thread of its own until it closes.
fn lines(port: UnixStream) -> Receiver<Heard> {
    let (sender, receiver) = sync_channel(WAITING_LINES);
    thread::spawn(move || {
        let mut port = BufReader::new(port);
        loop {
            let mut line = Vec::new();
            let heard = match io::Read::take(&mut port, LONGEST_LINE).read_until(b'\n', &mut line) {
                Ok(1..) if line.ends_with(b"\n") => Heard::Line(line),
                Ok(length) if length as u64 == LONGEST_LINE => {
                    line.truncate(80);
                    Heard::TooLong(line)
                }
                _ => break,
            };
            let last = !matches!(heard, Heard::Line(_));
            if sender.send(heard).is_err() || last {
                break;
            }
        }
    });
    receiver
}

/// Between fork and exec: dies with its parent, and keeps what it is given.
fn inherit(parent: Pid, descriptors: &[RawFd]) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() != Some(parent) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    for &number in descriptors {
        // SAFETY: the descriptors are open in the parent, which waits for the exec.
        let descriptor = unsafe { rustix::fd::BorrowedFd::borrow_raw(number) };
        fcntl_setfd(descriptor, FdFlags::empty())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_end_is_told_and_nothing_after_it_is_read() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let heard = lines(ours);
        let flood = thread::spawn(move || {
            let _ = theirs.write_all(b"{}\n");
            let block = vec![b'x'; 1 << 16];
            while theirs.write_all(&block).is_ok() {}
        });
        assert_eq!(heard.recv(), Ok(Heard::Line(b"{}\n".to_vec())));
        assert_eq!(heard.recv(), Ok(Heard::TooLong(vec![b'x'; 80])));
        assert!(heard.recv().is_err());
        flood.join().unwrap();
    }

    #[test]
    fn who_is_not_heard_has_to_wait() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let heard = lines(ours);
        theirs.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        let line = [vec![b'y'; 1 << 20], vec![b'\n']].concat();
        let written = (0..1000).take_while(|_| theirs.write_all(&line).is_ok()).count();
        assert!(written <= WAITING_LINES + 2, "{written} lines were taken, and nobody asked for one");
        drop(heard);
    }
}

//! Work in a process of its own, whose answer is taken and which is then left alone. Whoever reads a device
//! that hangs stays with it until it answers (a task in state D): a thread would keep the whole process from
//! ending, and who asked would wait for the device after all.

use std::fs::OpenOptions;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::time::Duration;

use crate::patience::until;

/// What a process that has answered gets to end by itself, so that it leaves no trace.
const FAREWELL: Duration = Duration::from_millis(100);

/// What `work` answers, done in a copy of this process. To be called while this process has one thread.
///
/// # Errors
/// If there can be no such process or pipe, or it ended without an answer (what it panicked of is on standard
/// error then).
pub fn apart(work: impl FnOnce() -> Vec<u8>) -> io::Result<Vec<u8>> {
    let (reader, writer) = io::pipe()?;
    // SAFETY: by the word of the caller no other thread exists that could hold a lock which the copy needs.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(reader);
            tell(writer, &work());
            // SAFETY: ends this process at once, with all its threads that can end.
            unsafe { libc::_exit(0) }
        }
        child => {
            drop(writer);
            hear(reader, child)
        }
    }
}

/// Gives the answer, and lets go of all that the other process's reader waits for: its own output too.
fn tell(mut answer: PipeWriter, bytes: &[u8]) {
    if let Ok(nothing) = OpenOptions::new().read(true).write(true).open("/dev/null") {
        for stream in 0..=2 {
            // SAFETY: both are descriptors of this process; nothing is printed here any more.
            unsafe { libc::dup2(nothing.as_raw_fd(), stream) };
        }
    }
    // Nobody may be there any more to whom it could be told.
    let _ = answer.write_all(bytes);
}

fn hear(mut answer: PipeReader, child: libc::pid_t) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    answer.read_to_end(&mut bytes)?;
    // SAFETY: waits for a child of this process, which nobody else waits for; no status is wanted.
    until(FAREWELL, || unsafe { libc::waitpid(child, std::ptr::null_mut(), libc::WNOHANG) } != 0);
    match bytes.is_empty() {
        true => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ended without an answer")),
        false => Ok(bytes),
    }
}

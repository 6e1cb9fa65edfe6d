//! Random I/O with several operations in flight per thread, by `io_uring`: a ring per thread,
//! registered buffers and files, one system call to submit what is ready and to reap what is done.

use std::io;

use fsdyno_probe::meter::Meter;
use fsdyno_spec::outcome::Reason;
use fsdyno_spec::workload::Random;
use io_uring::{IoUring, opcode, squeue, types};
use rustix::io::Errno;

use crate::buffer::Buffer;
use crate::crew::Stop;
use crate::failure::Failure;
use crate::random::{Draw, Hand, Jumping};

/// Flags that make a ring cheaper, best set first. Kernels refuse those that they do not know with
/// EINVAL; the next set is tried then.
const FLAGS: [&[&str]; 5] = [
    &["SINGLE_ISSUER", "DEFER_TASKRUN", "NO_SQARRAY"],
    &["SINGLE_ISSUER", "DEFER_TASKRUN"],
    &["SINGLE_ISSUER", "COOP_TASKRUN"],
    &["COOP_TASKRUN"],
    &[],
];

/// Buffers of operations begin on a page each, as direct I/O wants it.
const PAGE: usize = 4096;

/// A ring with room for all operations of one thread.
pub(crate) struct Ring {
    ring: IoUring,
    depth: usize,
    fixed_buffers: bool,
    fixed_files: bool,
    granted: Vec<String>,
}

/// An operation in flight.
#[derive(Clone, Copy)]
struct Flight {
    draw: Draw,
    start: u64,
}

impl Ring {
    /// Distance between the buffers of two operations.
    pub(crate) fn spacing(record: usize) -> usize {
        record.next_multiple_of(PAGE)
    }

    /// Sets up a ring in the thread that will use it, on the files and the buffer of `hand`.
    pub(crate) fn new(random: &Random, hand: &mut Hand) -> Result<Self, Failure> {
        let depth = random.depth as usize;
        let (ring, flags) = FLAGS
            .iter()
            .find_map(|flags| match build(random.depth, flags) {
                Err(e) if e.raw_os_error() == Some(libc::EINVAL) => None,
                Err(e) => Some(Err(e)),
                Ok(ring) => Some(Ok((ring, *flags))),
            })
            .unwrap_or_else(|| Err(io::Error::from_raw_os_error(libc::EINVAL)))
            .map_err(|e| unavailable(&e))?;
        let spacing = Self::spacing(random.record.0 as usize);
        let slots: Vec<libc::iovec> = hand
            .buffer
            .chunks_mut(spacing)
            .take(depth)
            .map(|slot| libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() })
            .collect();
        // SAFETY: the buffer belongs to the hand that also owns this ring, and is neither moved nor
        // freed before the ring is empty (see `run`).
        let fixed_buffers = unsafe { ring.submitter().register_buffers(&slots) }.is_ok();
        let fixed_files = ring.submitter().register_files(&hand.descriptors()).is_ok();
        let mut granted = vec![format!("io_uring, {depth} in flight")];
        granted.extend(flags.iter().map(ToString::to_string));
        let optional = [(fixed_buffers, "registered buffers"), (fixed_files, "registered files")];
        granted.extend(optional.iter().filter(|o| o.0).map(|o| o.1.to_string()));
        Ok(Self { ring, depth, fixed_buffers, fixed_files, granted })
    }

    /// What the kernel granted.
    pub(crate) fn granted(&self) -> &[String] {
        &self.granted
    }

    /// The hot path. Returns when nothing is in flight any more, also after an error.
    pub(crate) fn run(
        &mut self,
        load: &Jumping,
        worker: u64,
        hand: &mut Hand,
        meter: &mut Meter,
        stop: Stop,
    ) -> Result<(), Failure> {
        let record = load.random.record.0;
        let (mut left, deadline) = (load.quota(worker), load.deadline(meter));
        let idle = Flight { draw: Draw { file: 0, record: 0, write: false }, start: 0 };
        let mut flights = vec![idle; self.depth];
        let mut free: Vec<usize> = (0..self.depth).rev().collect();
        let mut outcome = Ok(());
        loop {
            let fresh = if outcome.is_ok() { left.min(free.len() as u64) as usize } else { 0 };
            let (kept, taken) = free.split_at(free.len() - fresh);
            for &slot in taken {
                let draw = hand.draws.draw();
                flights[slot].draw = draw;
                let entry = self.entry(slot, draw, record, hand);
                // SAFETY: the buffer that the entry points to is used by this slot alone until its
                // completion was reaped, and outlives the loop, which ends with nothing in flight.
                let pushed = unsafe { self.ring.submission().push(&entry) };
                assert!(pushed.is_ok(), "the ring has an entry for each slot");
            }
            if fresh > 0 {
                left -= fresh as u64;
                let now = meter.now();
                for &slot in taken {
                    flights[slot].start = now;
                }
            }
            let kept = kept.len();
            free.truncate(kept);
            if free.len() == self.depth {
                return outcome;
            }
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(e) if matches!(e.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) => {}
                Err(e) => {
                    // The kernel may still write into the buffers: they are never given back.
                    std::mem::forget(std::mem::replace(&mut hand.buffer, Buffer::new(0)));
                    let errno = Errno::from_io_error(&e).unwrap_or(Errno::IO);
                    return Err(Failure::kernel("submit to", "io_uring", errno));
                }
            }
            meter.split();
            let now = meter.last();
            for completion in self.ring.completion() {
                let slot = completion.user_data() as usize;
                let Flight { draw, start } = flights[slot];
                free.push(slot);
                if completion.result() != record as i32 {
                    outcome = outcome.and(Err(failure(load, draw, completion.result())));
                    continue;
                }
                let operation = if draw.write { &mut hand.writes } else { &mut hand.reads };
                operation.bytes += record;
                operation.recorder.record(now.saturating_sub(start));
                meter.count(record);
            }
            if now >= deadline {
                left = 0;
            }
            outcome = outcome.and_then(|()| stop.check());
        }
    }

    /// The entry of an operation, with its data in place.
    #[inline]
    fn entry(&self, slot: usize, draw: Draw, record: u64, hand: &mut Hand) -> squeue::Entry {
        let (file, offset, length) = (draw.file as usize, draw.record * record, record as usize);
        let at = slot * Self::spacing(length);
        let buffer = &mut hand.buffer[at..at + length];
        if draw.write {
            hand.content.copy(hand.keys[file], offset, buffer);
        }
        let start = buffer.as_mut_ptr();
        let (index, size) = (slot as u16, length as u32);
        macro_rules! on {
            ($file:expr) => {
                match (draw.write, self.fixed_buffers) {
                    (true, true) => opcode::WriteFixed::new($file, start, size, index).offset(offset).build(),
                    (true, false) => opcode::Write::new($file, start, size).offset(offset).build(),
                    (false, true) => opcode::ReadFixed::new($file, start, size, index).offset(offset).build(),
                    (false, false) => opcode::Read::new($file, start, size).offset(offset).build(),
                }
            };
        }
        let entry = if self.fixed_files {
            on!(types::Fixed(draw.file as u32))
        } else {
            on!(types::Fd(std::os::fd::AsRawFd::as_raw_fd(&hand.files[file])))
        };
        entry.user_data(slot as u64)
    }
}

impl Drop for Ring {
    /// A closed ring gives its files back some time later, which would keep a mount busy.
    fn drop(&mut self) {
        if self.fixed_files {
            let _ = self.ring.submitter().unregister_files();
        }
    }
}

fn build(depth: u32, flags: &[&str]) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    for flag in flags {
        match *flag {
            "SINGLE_ISSUER" => builder.setup_single_issuer(),
            "DEFER_TASKRUN" => builder.setup_defer_taskrun(),
            "COOP_TASKRUN" => builder.setup_coop_taskrun(),
            _ => builder.setup_no_sqarray(),
        };
    }
    builder.build(depth)
}

#[cold]
fn failure(load: &Jumping, draw: Draw, result: i32) -> Failure {
    match u64::try_from(result) {
        Ok(got) => load.short(draw, got),
        Err(_) => load.failure(draw, Errno::from_raw_os_error(-result)),
    }
}

fn unavailable(error: &io::Error) -> Failure {
    let reason = Reason::new(format!("io_uring is not available here: {error}"));
    Failure::unsupported(reason.advise("use depth = 1, or set the sysctl kernel.io_uring_disabled to 0"))
}

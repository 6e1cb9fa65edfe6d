//! Sequential I/O: files dealt to threads, each worked through from its start.

use std::os::fd::{AsFd, OwnedFd};

use fsdyno_probe::meter::Meter;
use fsdyno_spec::units::Bytes;
use fsdyno_spec::workload::{Claim, Stream, StreamOp, WorkloadResult};
use rustix::fs::OFlags;
use rustix::io::{Errno, pread, pwrite};

use crate::content::Content;
use crate::crew::{self, Amount, Load, Operation, Stop};
use crate::failure::Failure;
use crate::names::Layout;
use crate::{Job, buffer::Buffer, files, finish, settle};

pub(crate) fn run(job: &Job, stream: &Stream) -> Result<WorkloadResult, Failure> {
    let layout = Layout::of(job.dataset);
    let makes = stream.op == StreamOp::Write;
    if makes {
        files::make_top(job)?;
        files::make_directories(job, &layout)?;
    }
    let size = job.dataset.size.0;
    let load = Streaming { job, stream, layout };
    let amount = Amount::Operations(layout.files * size.div_ceil(stream.record.0));
    let done = crew::run(job, &load, stream.threads, amount)?;
    let reads = stream.op == StreamOp::Read;
    let sync = settle(job, !reads)?;
    let bytes = Bytes(layout.files * size);
    let claim = Claim {
        read: if reads { bytes } else { Bytes(0) },
        written: if reads { Bytes(0) } else { bytes },
        direct: stream.direct,
        inodes: if makes { layout.inodes() } else { 0 },
    };
    let record = stream.record.0.min(size) as usize;
    let prepare = if reads { 0.0 } else { Content::new(job.seed, job.name, record).cost(record, false) };
    Ok(finish(job, "stream", stream.threads, done, claim, sync, prepare))
}

struct Streaming<'a> {
    job: &'a Job<'a>,
    stream: &'a Stream,
    layout: Layout,
}

/// A worker's memory: what it writes from, or what it reads into.
enum Memory {
    Source(Content),
    Target(Buffer),
}

struct Hand {
    memory: Memory,
    operation: Operation,
}

impl Streaming<'_> {
    fn flags(&self) -> OFlags {
        let access = match self.stream.op {
            StreamOp::Write => OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL,
            StreamOp::Rewrite => OFlags::WRONLY,
            StreamOp::Read => OFlags::RDONLY,
        };
        if self.stream.direct { access | OFlags::DIRECT } else { access }
    }

    fn open(&self, file: u64) -> Result<OwnedFd, Failure> {
        if self.stream.op != StreamOp::Write {
            return files::open_existing(self.job, &self.layout, file, self.flags());
        }
        let path = self.layout.path(self.job.root, self.job.name, file);
        let flags = self.flags() | OFlags::CLOEXEC;
        rustix::fs::open(&path, flags, files::FILE_MODE).map_err(|e| self.failure("make", file, e))
    }

    #[cold]
    fn failure(&self, doing: &str, file: u64, errno: Errno) -> Failure {
        let path = self.layout.path(self.job.root, self.job.name, file);
        match self.stream.direct {
            true => Failure::direct(doing, path.display(), errno),
            false => Failure::kernel(doing, path.display(), errno),
        }
    }

    /// A call moved less than it was asked to: asked for the rest, it tells why.
    #[cold]
    fn short(&self, fd: impl AsFd, file: u64, rest: &[u8], offset: u64, got: u64, want: u64) -> Failure {
        if self.stream.op != StreamOp::Read
            && let Err(errno) = pwrite(fd, rest, offset)
        {
            return self.failure("write", file, errno);
        }
        let doing = if self.stream.op == StreamOp::Read { "read" } else { "write" };
        Failure::short(doing, self.layout.path(self.job.root, self.job.name, file).display(), got, want)
    }
}

impl Load for Streaming<'_> {
    type Hand = Hand;

    fn prepare(&self, worker: u64) -> Result<Hand, Failure> {
        let record = self.stream.record.0.min(self.job.dataset.size.0) as usize;
        let (memory, name) = match self.stream.op {
            StreamOp::Read => (Memory::Target(Buffer::new(record)), "read"),
            _ => (Memory::Source(Content::new(self.job.seed, self.job.name, record)), "write"),
        };
        if self.stream.op != StreamOp::Write {
            // Before the clock starts: is the dataset there, and does it take direct I/O?
            self.open(worker)?;
        }
        Ok(Hand { memory, operation: Operation::new(name) })
    }

    fn work(&self, worker: u64, hand: &mut Hand, meter: &mut Meter, stop: Stop) -> Result<(), Failure> {
        let (size, record) = (self.job.dataset.size.0, self.stream.record.0);
        for file in (worker..self.layout.files).step_by(self.stream.threads as usize) {
            let fd = self.open(file)?;
            meter.skip();
            let mut offset = 0;
            match &mut hand.memory {
                Memory::Source(content) => {
                    let key = content.key(file);
                    while offset < size {
                        stop.check()?;
                        let length = record.min(size - offset);
                        let data = content.record(key, offset, length as usize);
                        match pwrite(&fd, data, offset) {
                            Ok(n) if n as u64 == length => {}
                            Ok(n) => {
                                return Err(self.short(
                                    &fd,
                                    file,
                                    &data[n..],
                                    offset + n as u64,
                                    n as u64,
                                    length,
                                ));
                            }
                            Err(errno) => return Err(self.failure("write", file, errno)),
                        }
                        hand.operation.lap(meter, length);
                        offset += length;
                    }
                }
                Memory::Target(buffer) => {
                    while offset < size {
                        stop.check()?;
                        let length = record.min(size - offset);
                        match pread(&fd, &mut buffer[..length as usize], offset) {
                            Ok(n) if n as u64 == length => {}
                            Ok(n) => return Err(self.short(&fd, file, &[], offset, n as u64, length)),
                            Err(errno) => return Err(self.failure("read", file, errno)),
                        }
                        hand.operation.lap(meter, length);
                        offset += length;
                    }
                }
            }
        }
        Ok(())
    }

    fn report(&self, hand: Hand) -> (Vec<Operation>, Vec<String>) {
        let call = if self.stream.op == StreamOp::Read { "pread" } else { "pwrite" };
        let mut engine = vec![call.to_string()];
        if self.stream.direct {
            engine.push("O_DIRECT".to_string());
        }
        (vec![hand.operation], engine)
    }
}

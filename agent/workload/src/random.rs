//! Random I/O: uniform over all records of a file set, in a closed loop. One operation in flight per
//! thread by `pread`/`pwrite`, more by `io_uring`.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use fsdyno_probe::meter::Meter;
use fsdyno_spec::units::Bytes;
use fsdyno_spec::workload::{Claim, Random, RandomOp, WorkloadResult};
use rustix::fs::OFlags;
use rustix::io::{Errno, pread, pwrite};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::buffer::Buffer;
use crate::claims;
use crate::content::Content;
use crate::crew::{self, Amount, Load, Operation, Stop};
use crate::failure::Failure;
use crate::names::Layout;
use crate::order::Numbers;
use crate::ring::Ring;
use crate::{Job, files, finish, settle};

pub(crate) fn run(job: &Job, random: &Random) -> Result<WorkloadResult, Failure> {
    let layout = Layout::of(job.dataset);
    allow_descriptors(layout.files)?;
    let load = Jumping { job, random, layout, records: job.dataset.size.0 / random.record.0 };
    let amount = match (random.operations, random.runtime) {
        (Some(operations), _) => Amount::Operations(operations),
        (None, runtime) => Amount::Nanoseconds(runtime.unwrap_or_default().duration().as_nanos() as u64),
    };
    let done = crew::run(job, &load, random.threads, amount)?;
    let sync = settle(job, load.writes())?;
    let claim = if random.direct {
        let bytes = |name| Bytes(done.operations.iter().filter(|o| o.name == name).map(|o| o.bytes).sum());
        Claim { read: bytes("read"), written: bytes("write"), direct: true, inodes: 0 }
    } else {
        let workers = (0u64..).zip(&done.by_worker).map(|(worker, count)| (load.draws(worker), *count));
        claims::distinct(workers, layout.files * load.records, random.record.0)
    };
    let record = random.record.0 as usize;
    let write_share = 1.0 - f64::from(load.read_percent()) / 100.0;
    let mut content = Content::new(job.seed, job.name, record);
    let fill = if load.writes() { content.cost(record, random.depth > 1) } else { 0.0 };
    Ok(finish(job, "random", random.threads, done, claim, sync, fill * write_share))
}

/// Each worker has every file of the set open, in a table of its own.
fn allow_descriptors(files: u64) -> Result<(), Failure> {
    /// For the standard streams, a ring, and what else a process has open.
    const SPARE: u64 = 64;
    let limit = getrlimit(Resource::Nofile);
    let wanted = files + SPARE;
    let enough = |limit: Option<u64>| limit.is_none_or(|limit| wanted <= limit);
    if enough(limit.current) {
        return Ok(());
    }
    let raised = enough(limit.maximum)
        && setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).is_ok();
    if raised {
        Ok(())
    } else {
        Err(Failure::kernel("open", format_args!("{files} files at once"), Errno::MFILE))
    }
}

/// One operation to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Draw {
    pub(crate) file: u64,
    pub(crate) record: u64,
    pub(crate) write: bool,
}

/// A worker's sequence of operations: a pure function of seed and worker.
#[derive(Clone, Debug)]
pub(crate) struct Draws {
    numbers: Numbers,
    files: u64,
    records: u64,
    read_percent: u64,
}

impl Draws {
    pub(crate) fn new(seed: u64, worker: u64, files: u64, records: u64, read_percent: u32) -> Self {
        Self { numbers: Numbers::new(seed, worker), files, records, read_percent: u64::from(read_percent) }
    }

    #[inline]
    pub(crate) fn draw(&mut self) -> Draw {
        let file = self.numbers.below(self.files);
        let record = self.numbers.below(self.records);
        let write = match self.read_percent {
            100 => false,
            0 => true,
            percent => self.numbers.below(100) >= percent,
        };
        Draw { file, record, write }
    }

    /// The number of a record within the whole file set.
    pub(crate) fn place(&self, draw: &Draw) -> u64 {
        draw.file * self.records + draw.record
    }
}

pub(crate) struct Jumping<'a> {
    pub(crate) job: &'a Job<'a>,
    pub(crate) random: &'a Random,
    layout: Layout,
    /// Whole records in each file.
    records: u64,
}

pub(crate) struct Hand {
    pub(crate) files: Vec<OwnedFd>,
    /// One record to read into; with a ring, one per operation in flight.
    pub(crate) buffer: Buffer,
    pub(crate) content: Content,
    /// What writes of each file start from.
    pub(crate) keys: Vec<u64>,
    pub(crate) reads: Operation,
    pub(crate) writes: Operation,
    pub(crate) draws: Draws,
    ring: Option<Ring>,
}

impl Hand {
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        self.files.iter().map(AsRawFd::as_raw_fd).collect()
    }
}

impl Jumping<'_> {
    fn read_percent(&self) -> u32 {
        match self.random.op {
            RandomOp::Read => 100,
            RandomOp::Write => 0,
            RandomOp::Mix => self.random.read_percent,
        }
    }

    fn writes(&self) -> bool {
        self.read_percent() < 100
    }

    fn draws(&self, worker: u64) -> Draws {
        Draws::new(self.job.order_seed, worker, self.layout.files, self.records, self.read_percent())
    }

    /// How many operations a worker is to do; without a limit if it runs for a time.
    pub(crate) fn quota(&self, worker: u64) -> u64 {
        let threads = u64::from(self.random.threads);
        self.random.operations.map_or(u64::MAX, |all| all / threads + u64::from(worker < all % threads))
    }

    /// When a worker is to end, on its own clock.
    pub(crate) fn deadline(&self, meter: &Meter) -> u64 {
        let time = self.random.runtime.map_or(u64::MAX, |t| t.duration().as_nanos() as u64);
        meter.started().saturating_add(time)
    }

    #[cold]
    pub(crate) fn failure(&self, draw: Draw, errno: Errno) -> Failure {
        let doing = if draw.write { "write" } else { "read" };
        let path = self.layout.path(self.job.root, self.job.name, draw.file);
        match self.random.direct {
            true => Failure::direct(doing, path.display(), errno),
            false => Failure::kernel(doing, path.display(), errno),
        }
    }

    #[cold]
    pub(crate) fn short(&self, draw: Draw, got: u64) -> Failure {
        let doing = if draw.write { "write" } else { "read" };
        let path = self.layout.path(self.job.root, self.job.name, draw.file);
        Failure::short(doing, path.display(), got, self.random.record.0)
    }

    /// One operation at a time.
    fn one_by_one(&self, worker: u64, hand: &mut Hand, meter: &mut Meter, stop: Stop) -> Result<(), Failure> {
        let record = self.random.record.0;
        let deadline = self.deadline(meter);
        for _ in 0..self.quota(worker) {
            stop.check()?;
            let draw = hand.draws.draw();
            let (file, offset) = (draw.file as usize, draw.record * record);
            let done = if draw.write {
                pwrite(
                    &hand.files[file],
                    hand.content.record(hand.keys[file], offset, record as usize),
                    offset,
                )
            } else {
                pread(&hand.files[file], &mut hand.buffer[..record as usize], offset)
            };
            match done {
                Ok(n) if n as u64 == record => {}
                Ok(n) => return Err(self.short(draw, n as u64)),
                Err(errno) => return Err(self.failure(draw, errno)),
            }
            let operation = if draw.write { &mut hand.writes } else { &mut hand.reads };
            if operation.lap(meter, record) >= deadline {
                break;
            }
        }
        Ok(())
    }
}

impl Load for Jumping<'_> {
    type Hand = Hand;

    fn prepare(&self, worker: u64) -> Result<Hand, Failure> {
        let (job, record, depth) = (self.job, self.random.record.0 as usize, self.random.depth as usize);
        let access = if self.writes() { OFlags::RDWR } else { OFlags::RDONLY };
        let flags = if self.random.direct { access | OFlags::DIRECT } else { access };
        let open = |file| files::open_existing(job, &self.layout, file, flags);
        let content = Content::new(job.seed, job.name, record);
        let mut hand = Hand {
            files: (0..self.layout.files).map(open).collect::<Result<_, _>>()?,
            buffer: Buffer::new(Ring::spacing(record) * depth),
            keys: (0..self.layout.files).map(|file| content.key(file)).collect(),
            content,
            reads: Operation::new("read"),
            writes: Operation::new("write"),
            draws: self.draws(worker),
            ring: None,
        };
        if depth > 1 {
            hand.ring = Some(Ring::new(self.random, &mut hand)?);
        }
        Ok(hand)
    }

    fn work(&self, worker: u64, hand: &mut Hand, meter: &mut Meter, stop: Stop) -> Result<(), Failure> {
        match hand.ring.take() {
            None => self.one_by_one(worker, hand, meter, stop),
            Some(mut ring) => {
                let done = ring.run(self, worker, hand, meter, stop);
                hand.ring = Some(ring);
                done
            }
        }
    }

    fn report(&self, hand: Hand) -> (Vec<Operation>, Vec<String>) {
        let mut engine = match &hand.ring {
            Some(ring) => ring.granted().to_vec(),
            None => [("pread", self.read_percent() > 0), ("pwrite", self.writes())]
                .iter()
                .filter(|call| call.1)
                .map(|call| call.0.to_string())
                .collect(),
        };
        if self.random.direct {
            engine.push("O_DIRECT".to_string());
        }
        drop(hand.ring);
        (vec![hand.reads, hand.writes], engine)
    }
}

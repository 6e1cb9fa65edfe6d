//! Workers: how a load runs on several threads, starts at one moment, is watched, and ends.
//!
//! Everything that costs is done before the gate opens (opening, buffers, rings) or after the last
//! operation (merging). While the clock runs, a worker shares nothing that is written to: it is
//! pinned to a CPU, has counters on cache lines of its own, and a descriptor table of its own, so
//! that opening, closing and using a file takes no lock and no reference count that another worker
//! takes too. The calling thread sleeps, and reads the counters ten times a second.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use fsdyno_probe::clock::Clock;
use fsdyno_probe::histogram::Recorder;
use fsdyno_probe::host::allowed_cpus;
use fsdyno_probe::meter::{Meter, Published};
use fsdyno_spec::outcome::{Outcome, Reason};
use fsdyno_spec::workload::Series;
use rustix::thread::CpuSet;

use crate::failure::Failure;
use crate::series::{INTERVAL_NS, Sampler};
use crate::{Job, Progress};

/// One kind of operation: how often, how many bytes, how long.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    pub(crate) bytes: u64,
    pub(crate) recorder: Recorder,
}

impl Operation {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, bytes: 0, recorder: Recorder::new() }
    }

    /// Ends an operation on `bytes` that began where the last one ended. Returns the moment, ns.
    #[inline]
    pub(crate) fn lap(&mut self, meter: &mut Meter, bytes: u64) -> u64 {
        self.bytes += bytes;
        meter.lap(&mut self.recorder, bytes)
    }
}

/// What makes a worker stop: the caller, or another worker's failure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stop<'a> {
    asked: &'a AtomicBool,
    failed: &'a AtomicBool,
}

impl Stop<'_> {
    /// Checked once per operation; two plain loads of lines that nobody writes to.
    #[inline]
    pub(crate) fn asked(self) -> bool {
        self.asked.load(Ordering::Relaxed) | self.failed.load(Ordering::Relaxed)
    }

    /// As an error.
    #[inline]
    pub(crate) fn check(self) -> Result<(), Failure> {
        if self.asked() { Err(Failure::cancelled()) } else { Ok(()) }
    }
}

/// A load as a crew runs it.
pub(crate) trait Load: Sync {
    /// What a worker owns: descriptors, buffers, rings, recorders. Made and dropped in its thread.
    type Hand;

    /// Makes everything that worker number `worker` needs, before the clock starts.
    fn prepare(&self, worker: u64) -> Result<Self::Hand, Failure>;

    /// The hot path.
    fn work(&self, worker: u64, hand: &mut Self::Hand, meter: &mut Meter, stop: Stop) -> Result<(), Failure>;

    /// What was done, and how the I/O was done.
    fn report(&self, hand: Self::Hand) -> (Vec<Operation>, Vec<String>);
}

/// What a crew did.
#[derive(Debug)]
pub(crate) struct Done {
    /// By kind, merged over workers; kinds that did not occur are left out.
    pub(crate) operations: Vec<Operation>,
    /// Operations counted by each worker.
    pub(crate) by_worker: Vec<u64>,
    /// From the first worker's start to the last one's last operation.
    pub(crate) elapsed_ns: u64,
    /// The workers' times, added up.
    pub(crate) thread_ns: u64,
    pub(crate) series: Series,
    pub(crate) engine: Vec<String>,
}

/// How much there is to do, for the progress.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Amount {
    Operations(u64),
    Nanoseconds(u64),
}

struct Report {
    operations: Vec<Operation>,
    engine: Vec<String>,
    count: u64,
    start: u64,
    end: u64,
}

/// Runs a load on `threads` workers.
pub(crate) fn run<L: Load>(job: &Job, load: &L, threads: u32, amount: Amount) -> Result<Done, Failure> {
    let cpus = allowed_cpus();
    let published: Vec<Published> = (0..threads).map(|_| Published::default()).collect();
    let failed = AtomicBool::new(false);
    let stop = Stop { asked: job.stop, failed: &failed };
    let gate = Gate::default();
    let left = AtomicUsize::new(threads as usize);
    let watcher = thread::current();
    let clock = Clock::get();

    thread::scope(|scope| {
        let mut crew = Vec::with_capacity(threads as usize);
        let mut refused = None;
        for (worker, published) in published.iter().enumerate() {
            let cpu = cpus[worker % cpus.len()];
            let leaving = Leaving { left: &left, watcher: &watcher, failed: &failed };
            let gate = &gate;
            let body = move || one(load, worker as u64, cpu, published, gate, stop, leaving);
            match thread::Builder::new().name(format!("load {worker}")).spawn_scoped(scope, body) {
                Ok(handle) => crew.push(handle),
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        if refused.is_some() {
            failed.store(true, Ordering::Relaxed);
            left.fetch_sub(threads as usize - crew.len(), Ordering::Release);
        }
        gate.open_when(crew.len());
        let start = clock.now();
        let sampler = watch(&published, &left, job.progress, amount, || clock.now() - start);
        let reports: Vec<_> = crew.into_iter().map(thread::ScopedJoinHandle::join).collect();
        let reports = reports.into_iter().map(|r| r.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        let reports = first_failure(reports.collect())?;
        if let Some(error) = refused {
            let reason = Reason::new(format!("could not start {threads} threads: {error}"));
            return Err(Failure::failed(reason.advise("use fewer threads, or raise the limit (ulimit -u)")));
        }
        let series = sampler.end(totals(&published));
        Ok(summary(reports, series, &cpus))
    })
}

/// One worker from its first to its last breath.
fn one<L: Load>(
    load: &L,
    worker: u64,
    cpu: usize,
    published: &Published,
    gate: &Gate,
    stop: Stop,
    leaving: Leaving,
) -> Result<Report, Failure> {
    let mut engine = Vec::new();
    if pin(cpu) {
        engine.push("pinned threads".to_string());
    }
    if own_descriptors() {
        engine.push("own descriptor tables".to_string());
    }
    let prepared = load.prepare(worker);
    if prepared.is_err() {
        leaving.failed.store(true, Ordering::Relaxed);
    }
    // Every worker passes the gate, also one that has nothing to do behind it.
    gate.pass();
    let mut hand = prepared?;
    let mut meter = Meter::start(published);
    let worked = load.work(worker, &mut hand, &mut meter, stop);
    if worked.is_err() {
        leaving.failed.store(true, Ordering::Relaxed);
    }
    let (operations, engines) = load.report(hand);
    worked?;
    engine.extend(engines);
    Ok(Report { operations, engine, count: meter.operations(), start: meter.started(), end: meter.last() })
}

/// Sleeps until all workers have left; samples and publishes meanwhile.
fn watch(
    published: &[Published],
    left: &AtomicUsize,
    progress: &Progress,
    amount: Amount,
    now: impl Fn() -> u64,
) -> Sampler {
    let mut sampler = Sampler::new();
    let report = |done: u64| match amount {
        Amount::Operations(total) => progress.set(done, total),
        Amount::Nanoseconds(total) => progress.set(now(), total),
    };
    report(0);
    while left.load(Ordering::Acquire) > 0 {
        let wait = sampler.due().saturating_sub(now()).clamp(1, INTERVAL_NS);
        thread::park_timeout(Duration::from_nanos(wait));
        let done = totals(published);
        if left.load(Ordering::Acquire) > 0 {
            sampler.take(now(), done);
            report(done.0);
        }
    }
    report(totals(published).0);
    sampler
}

fn totals(published: &[Published]) -> (u64, u64) {
    published.iter().map(Published::read).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

/// The reports, or the failure that made the others stop.
fn first_failure(reports: Vec<Result<Report, Failure>>) -> Result<Vec<Report>, Failure> {
    let cause = |r: &Result<Report, Failure>| matches!(r, Err(f) if f.outcome != Outcome::Cancelled);
    match reports.iter().position(cause) {
        Some(index) => reports.into_iter().nth(index).map_or(Ok(Vec::new()), |r| r.map(|r| vec![r])),
        None => reports.into_iter().collect(),
    }
}

fn summary(reports: Vec<Report>, series: Series, cpus: &[usize]) -> Done {
    let start = reports.iter().map(|r| r.start).min().unwrap_or(0);
    let end = reports.iter().map(|r| r.end).max().unwrap_or(start);
    let thread_ns = reports.iter().map(|r| r.end - r.start).sum();
    let by_worker = reports.iter().map(|r| r.count).collect();
    let (mut operations, mut engine) = (Vec::<Operation>::new(), Vec::<String>::new());
    for report in reports {
        for said in report.engine {
            if !engine.contains(&said) {
                engine.push(said);
            }
        }
        for one in report.operations {
            match operations.iter_mut().find(|o| o.name == one.name) {
                Some(sum) => {
                    sum.recorder.merge(&one.recorder);
                    sum.bytes += one.bytes;
                }
                None => operations.push(one),
            }
        }
    }
    operations.retain(|o| o.recorder.count() > 0);
    engine.push(format!("CPUs {}", cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")));
    Done { operations, by_worker, elapsed_ns: end - start, thread_ns, series, engine }
}

fn pin(cpu: usize) -> bool {
    let mut set = CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set).is_ok()
}

/// Gives this thread a descriptor table of its own, empty but for the standard streams. Descriptors
/// of the rest of the process are out of reach from here on, so a worker opens what it needs by path.
fn own_descriptors() -> bool {
    // SAFETY: with CLOSE_RANGE_UNSHARE the call changes this thread's table only, so no descriptor
    // that anybody else owns is closed; this thread has opened none yet.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_UNSHARE) == 0 }
}

/// Tells the watcher that a worker has left, however it left.
struct Leaving<'a> {
    left: &'a AtomicUsize,
    watcher: &'a Thread,
    failed: &'a AtomicBool,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.failed.store(true, Ordering::Relaxed);
        }
        self.left.fetch_sub(1, Ordering::Release);
        self.watcher.unpark();
    }
}

/// Where workers wait until all are ready. (The standard barrier wants to know beforehand how many
/// come, and waits for ever if a thread could not be started.)
#[derive(Default)]
struct Gate {
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, (usize, bool)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the gate is open.
    fn pass(&self) {
        let mut state = self.state();
        state.0 += 1;
        self.changed.notify_all();
        while !state.1 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Opens when so many wait.
    fn open_when(&self, workers: usize) {
        let mut state = self.state();
        while state.0 < workers {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.1 = true;
        self.changed.notify_all();
    }
}

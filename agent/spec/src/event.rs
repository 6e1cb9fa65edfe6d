//! What the agent says, one JSON object a line. Events are the record; samples are derived from
//! them. A trial without `end` is *lost*.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::outcome::{Flag, Outcome, Reason};
use crate::units::{Bytes, Seconds};
use crate::workload::WorkloadResult;

/// An event with where and when it comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Envelope {
    /// Counts from 0 for each agent process, without gaps.
    pub seq: u64,
    /// Which machine speaks.
    pub from: Origin,
    /// Boot id of that machine.
    pub boot: String,
    /// Its monotonic clock, ns.
    pub at_ns: u64,
    /// The trial it belongs to; none for the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<String>,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// Which machine an event comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The rig itself.
    Rig,
    /// A guest of the rig.
    Guest,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// First line of a run.
    Hello(Hello),
    /// The rig is taken. What an earlier agent had left and was undone at the start.
    Cleaned(Cleaned),
    /// A trial begins.
    TrialStart(TrialStart),
    /// A part of the stack stands, as read back from the kernel.
    Built(Built),
    /// A timed phase begins; until its end only heartbeats come.
    PhaseStart(PhaseStart),
    /// Still there.
    Heartbeat(Heartbeat),
    /// A timed phase ended.
    PhaseEnd(Box<PhaseEnd>),
    /// A piece of a file worth keeping.
    Artefact(Artefact),
    /// A trial ended; nothing more comes for it.
    End(End),
    /// The agent cannot go on with what was asked.
    Error(ErrorEvent),
}

/// First line of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hello {
    /// [`crate::PROTOCOL`].
    pub protocol: u32,
    /// Version of the agent.
    pub version: String,
    /// [`crate::ENGINE`].
    pub engine: u32,
    /// Process id.
    pub pid: u32,
    /// Kernel release.
    pub kernel: String,
    /// What measuring costs here.
    pub calibration: Calibration,
}

/// What measuring costs on this machine, measured at start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibration {
    /// `tsc` or `clock_gettime`.
    pub clock: String,
    /// One clock read, ns.
    pub clock_ns: f64,
    /// The engine's whole bookkeeping around an empty operation (clocks, histogram, counters), ns.
    pub operation_ns: f64,
    /// An empty system call, ns.
    pub syscall_ns: f64,
}

/// What `clean` found and did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cleaned {
    /// What was undone, a sentence each.
    pub undone: Vec<String>,
    /// What is in a ledger but was not touched, and why (not ours any more, or in use).
    pub left: Vec<String>,
    /// What is ours and could not be undone. Not empty: the rig needs a person.
    pub failed: Vec<String>,
    /// Ledgers of agents that still live, left alone.
    pub live: u32,
}

/// A trial begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialStart {
    /// Wall-clock time, seconds since the epoch: for people only, never for durations.
    pub wall_clock: f64,
    /// Where it runs: `native`, `directory`, later `guest`.
    pub place: String,
    /// Phases to come.
    pub phases: u32,
}

/// A part of the stack stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Built {
    /// `machine`, `device` (one for each leaf), `array`, `lvm`, `settings`, `file_system`, `mount`,
    /// `directory`.
    pub part: String,
    /// What the kernel or the medium says about it, by name; sizes in bytes.
    pub facts: BTreeMap<String, Value>,
}

/// A timed phase begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseStart {
    /// Counts from 0 in the trial.
    pub index: u32,
    /// See [`crate::trial::Phase::label`].
    pub name: String,
    /// See [`crate::trial::Action::kind`].
    pub kind: String,
    /// The sweep point it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point: Option<BTreeMap<String, Value>>,
}

/// Still there, once a second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Heartbeat {
    /// The phase that runs; none between phases (building, taking down).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// What is being done outside a phase: `writing backing file`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doing: Option<String>,
    /// Since it began.
    pub elapsed: Seconds,
    /// Share done, 0 to 1, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<f64>,
}

/// A timed phase ended: everything measured in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseEnd {
    /// As in [`PhaseStart`].
    #[serde(flatten)]
    pub phase: PhaseStart,
    /// How it ended.
    pub outcome: Outcome,
    /// Why it did not end well, or was not applicable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Monotonic clock at its start, ns.
    pub start_ns: u64,
    /// Wall time.
    pub wall: Seconds,
    /// CPU use of the agent and the tools that it ran.
    pub cpu: CpuUse,
    /// Counters of each leaf device over the phase, in slot order.
    pub leaves: Vec<DeviceCounts>,
    /// Counters of the device that the file system sees, where that is no leaf: an array or a volume. It
    /// counts no flushes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top: Option<DeviceCounts>,
    /// Counters of the disks under backing files, to tell foreign I/O.
    #[serde(default)]
    pub underneath: Vec<DeviceCounts>,
    /// Host-wide counters over the phase.
    pub host: HostCounts,
    /// New kernel-log lines, `<level>text`.
    #[serde(default)]
    pub kernel_log: Vec<String>,
    /// Tools that ran, in order.
    #[serde(default)]
    pub tools: Vec<ToolRun>,
    /// Results of a workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<WorkloadResult>,
    /// What was read back: mount options, driver, settings, superblock.
    #[serde(default)]
    pub facts: BTreeMap<String, Value>,
    /// What makes it doubtful.
    #[serde(default)]
    pub flags: Vec<Flag>,
}

/// CPU time and context switches, from `getrusage` (self and waited-for children).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuUse {
    /// User time.
    pub user: Seconds,
    /// System time.
    pub system: Seconds,
    /// Voluntary context switches.
    pub voluntary_switches: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
}

/// Differences of a block device's counters (`/sys/block/X/stat`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceCounts {
    /// Kernel name, e.g. `loop3`.
    pub device: String,
    /// Completed reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: Bytes,
    /// Completed writes.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: Bytes,
    /// Completed discards.
    pub discards: u64,
    /// Bytes discarded.
    pub discard_bytes: Bytes,
    /// Completed flushes (merged ones count once; FUA writes do not count).
    pub flushes: u64,
    /// Reads and writes merged before they were sent.
    pub merges: u64,
    /// Time during which at least one request was in flight, ms.
    pub busy_ms: u64,
}

/// Host-wide differences over a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostCounts {
    /// Pages dirtied (`nr_dirtied`).
    pub pages_dirtied: u64,
    /// Pages written back (`nr_written`).
    pub pages_written: u64,
    /// CPU time that the hypervisor took, summed over CPUs.
    pub steal: Seconds,
    /// CPU time used by anybody, summed over CPUs.
    pub busy: Seconds,
    /// Pressure stall time, tasks waiting for CPU; none where the kernel has no PSI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_pressure: Option<Seconds>,
    /// Tasks waiting for I/O.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_pressure: Option<Seconds>,
    /// Tasks waiting for memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_pressure: Option<Seconds>,
    /// CPU throttle events, where the machine counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttles: Option<u64>,
}

/// A tool that ran. What it printed is kept whole and parsed in Python.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolRun {
    /// Exact argument vector; the first is the resolved path.
    pub argv: Vec<String>,
    /// The tool's version line, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Exit code; none if a signal ended it.
    pub exit: Option<i32>,
    /// What this exit code means for this tool.
    pub meaning: String,
    /// Wall time.
    pub wall: Seconds,
    /// Its own CPU use.
    pub cpu: CpuUse,
    /// Peak resident memory.
    pub peak_memory: Bytes,
    /// SHA-256 of the artefact with what it printed (standard output).
    pub stdout: String,
    /// SHA-256 of the artefact with what it printed (standard error).
    pub stderr: String,
}

/// A piece of a file worth keeping, named by the SHA-256 of the whole uncompressed file. The file
/// is one zlib stream, cut into parts, each part in base64; parts come in order. A file is whole
/// when the joined and inflated parts have that digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Artefact {
    /// Hex SHA-256 of the whole file.
    pub sha256: String,
    /// What it is, e.g. `mkfs stdout`.
    pub name: String,
    /// Counts from 0.
    pub part: u32,
    /// Number of parts.
    pub parts: u32,
    /// The piece.
    pub data: String,
}

/// A trial ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct End {
    /// How.
    pub outcome: Outcome,
    /// Why not ok.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Doubts of the trial as a whole.
    #[serde(default)]
    pub flags: Vec<Flag>,
    /// From the request to here.
    pub wall: Seconds,
    /// Taking the stack down.
    pub teardown: Seconds,
    /// Commands that repeat the trial by hand, in order; see [`Step`].
    #[serde(default)]
    pub shell: Vec<Step>,
}

/// One step of the commands that repeat a trial by hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// The phase it belongs to, or what it builds.
    pub phase: String,
    /// Shell commands.
    pub command: String,
}

/// Kinds of refusal, each with its own exit code in Python.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The request is not understood.
    BadRequest,
    /// Another campaign measures on this rig.
    Busy,
    /// Not privileged enough.
    NoRoot,
    /// A device is not ours to write.
    Unsafe,
    /// Something outside (disk full, folder read-only) stands in the way.
    Environment,
}

/// The agent cannot go on with what was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorEvent {
    /// Kind.
    pub refusal: Refusal,
    /// Why, and what to do.
    #[serde(flatten)]
    pub reason: Reason,
}

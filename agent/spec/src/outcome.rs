//! How a trial or a phase ended, and what makes its numbers doubtful.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a trial or a phase ended. *Lost* (no `end` came) is known only to the reader, never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Done, and what was asked for really happened.
    Ok,
    /// A tool or the kernel said no.
    Failed,
    /// This kernel or these tools cannot; the reason names the alternative.
    Unsupported,
    /// It did not end within its time.
    TimedOut,
    /// The stack could not be taken down: the rig must stop.
    TeardownFailed,
    /// Somebody asked to stop.
    Cancelled,
    /// Nothing to do here for this file system (a phase only), e.g. mkfs on tmpfs.
    NotApplicable,
}

/// Why something did not go as asked, for a person: what happened, what to do instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// What happened, in one sentence.
    pub message: String,
    /// What would change it: a package, an option, another value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Reason {
    /// A reason without advice.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), advice: None }
    }

    /// Adds what would change it.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}

/// What makes a number doubtful. A flag stands beside the outcome and never replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// The kernel logged a warning or an error meanwhile.
    KernelLog,
    /// The kernel log could not be read, so silence proves nothing.
    KernelLogUnread,
    /// The hypervisor took more than 5 % of the CPU time.
    StolenTime,
    /// Tasks waited for memory.
    MemoryPressure,
    /// Tasks other than the trial's own waited for, or used, the CPUs.
    CpuPressure,
    /// Bytes moved on the device (or the disk under it) that the trial did not ask for.
    ForeignIo,
    /// A read that should have been cold may have been served from memory.
    NotCold,
    /// The kernel's counters do not show the work that the workload claims.
    Unproven,
    /// The tool's own cost exceeds 5 % of the operation time.
    ToolCost,
    /// The CPU was throttled.
    Throttled,
    /// The array rebuilt, reshaped or checked itself meanwhile, and the plan had not asked for that.
    Resyncing,
}

/// One doubt with its reason: what was seen, against which limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Flag {
    /// The kind of doubt.
    pub doubt: Doubt,
    /// What was seen, against which limit.
    pub reason: String,
}

impl Flag {
    /// A doubt with its reason.
    pub fn new(doubt: Doubt, reason: impl Into<String>) -> Self {
        Self { doubt, reason: reason.into() }
    }
}

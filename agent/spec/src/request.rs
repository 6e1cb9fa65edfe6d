//! What Python sends to `fsdyno-agent run`, one JSON object a line. Closing the stream asks the
//! agent to take down what stands and to exit.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::trial::TrialSpec;

/// One line to the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Run a trial; events follow, the last one is `end`. One at a time.
    Trial(Box<TrialRequest>),
    /// End the running trial after taking its stack down.
    Cancel {},
}

/// A trial to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrialRequest {
    /// Its identity, a UUID chosen by the campaign; echoed in every event.
    pub trial: String,
    /// Seed of everything random inside it: data, offsets, name order.
    pub seed: u64,
    /// The round that it belongs to; guests are booted anew for each.
    #[serde(default)]
    pub round: u32,
    /// What to do. Kept as it came, so that a wrong one is answered with a located error.
    pub spec: TrialSpec,
}

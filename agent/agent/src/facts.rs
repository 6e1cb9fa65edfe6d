//! Facts that events carry: named values as the kernel or the medium gives them.

use std::collections::BTreeMap;

use fsdyno_spec::event::{Built, Event};
use serde_json::Value;

/// Named values; sizes in bytes.
pub type Facts = BTreeMap<String, Value>;

/// The event that says that a part of the stack stands.
pub fn built(part: &str, facts: Facts) -> Event {
    Event::Built(Built { part: part.to_string(), facts })
}

//! Attributes of request queues as facts: numbers as numbers, choices as the one that was chosen.

use fsdyno_spec::record::Facts;
use serde_json::{Value, json};

use crate::sysfs;

/// Attributes of a whole disk's queue that decide on speed, order or safety of writes
/// (Documentation/ABI/stable/sysfs-block of Linux).
const ATTRIBUTES: [&str; 16] = [
    "write_cache",
    "fua",
    "logical_block_size",
    "physical_block_size",
    "minimum_io_size",
    "optimal_io_size",
    "rotational",
    "nr_requests",
    "read_ahead_kb",
    "discard_granularity",
    "discard_max_bytes",
    "max_sectors_kb",
    "max_hw_sectors_kb",
    "zoned",
    "dax",
    "scheduler",
];

/// Of the disk that `name` is or is part of, and `alignment_offset` of `name` itself; empty if there is
/// no queue.
pub fn facts(name: &str) -> Facts {
    let queue = sysfs::queue(name);
    let mut facts: Facts = ATTRIBUTES
        .iter()
        .filter_map(|attribute| {
            let text = sysfs::text(&queue.join(attribute)).ok().filter(|text| !text.is_empty())?;
            Some(match *attribute {
                "scheduler" => schedulers(&text),
                other => vec![(other.to_string(), value(&text))],
            })
        })
        .flatten()
        .collect();
    if !facts.is_empty()
        && let Ok(text) = sysfs::text(&sysfs::class(name).join("alignment_offset"))
    {
        facts.insert("alignment_offset".into(), value(&text));
    }
    facts
}

fn value(text: &str) -> Value {
    text.parse::<i128>()
        .ok()
        .and_then(|n| i64::try_from(n).map(Value::from).or(u64::try_from(n).map(Value::from)).ok())
        .unwrap_or_else(|| json!(text))
}

/// `none [mq-deadline] kyber`: the chosen one, and all.
fn schedulers(text: &str) -> Vec<(String, Value)> {
    let all: Vec<&str> = text.split_whitespace().map(|word| word.trim_matches(['[', ']'])).collect();
    let chosen = text.split_whitespace().find(|word| word.starts_with('[')).unwrap_or(text);
    vec![
        ("scheduler".to_string(), json!(chosen.trim_matches(['[', ']']))),
        ("schedulers".to_string(), json!(all)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_scheduler_stands_without_brackets_beside_all() {
        let found: Facts = schedulers("none [mq-deadline] kyber").into_iter().collect();
        assert_eq!(found["scheduler"], "mq-deadline");
        assert_eq!(found["schedulers"], json!(["none", "mq-deadline", "kyber"]));
        // Arrays and mapped devices have none, and no brackets.
        assert_eq!(schedulers("none")[0].1, "none");
    }

    #[test]
    fn numbers_are_numbers_and_words_are_words() {
        assert_eq!(value("4294967295"), json!(4_294_967_295u64));
        assert_eq!(value("18446744073709551615"), json!(u64::MAX));
        assert_eq!(value("-1"), json!(-1));
        assert_eq!(value("write back"), json!("write back"));
        assert_eq!(value("99999999999999999999"), json!("99999999999999999999"));
    }
}

//! Whether a file system lies on its array as it should: its superblock has the array's geometry, and
//! its first byte lies where a stripe begins. Said beside the superblock, for people and for tables.

use fsdyno_filesystems::{FileSystem, Geometry};
use fsdyno_spec::trial::Stack;
use fsdyno_spec::units::Bytes;
use serde_json::{Value, json};

use super::geometry;
use crate::facts::Facts;

/// `aligned` and `alignment` (a sentence); nothing where there is no stripe to lie on, or the file system
/// knows of none. `found`: facts of the superblock. `off_stripe`: bytes from the start of a stripe to the
/// volume's first one.
pub fn judge(
    filesystem: &FileSystem,
    stack: &Stack,
    members: Option<u32>,
    found: &Facts,
    off_stripe: Option<u64>,
) -> Facts {
    let declared = stack.geometry.as_ref().and_then(|declared| {
        let layout = declared.layout.as_deref();
        Geometry::of(declared.level, declared.members, Some(declared.chunk), layout).ok().flatten()
    });
    let below = declared.or_else(|| geometry::of_stack(stack, members).ok().flatten());
    let rule = filesystem.disk.as_ref().and_then(|disk| disk.geometry);
    let (Some(below), Some(rule)) = (below, rule) else { return Facts::new() };
    let number = |name: &str| found.get(name).and_then(Value::as_u64).unwrap_or(0);
    let Ok(wanted) = (rule.facts)(Some(&below), number("block_size")) else { return Facts::new() };
    let has =
        wanted.iter().map(|(name, _)| format!("{name} {}", number(name))).collect::<Vec<_>>().join(", ");
    let wants = wanted.iter().map(|(name, n)| format!("{name} {n}")).collect::<Vec<_>>().join(", ");
    let knows = wanted.iter().all(|(name, n)| number(name) == *n);
    let mut said = match knows {
        true => format!("the superblock has the array's geometry ({has})"),
        false => format!("the superblock has {has} where the array has {wants}"),
    };
    if let Some(off) = off_stripe {
        said += &match off {
            0 => ", and the volume begins with a stripe".to_string(),
            _ => format!(", and the volume begins {} into a stripe", Bytes(off)),
        };
    }
    Facts::from([
        ("aligned".to_string(), json!(knows && off_stripe.unwrap_or(0) == 0)),
        ("alignment".to_string(), json!(said)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::from_value;

    fn judged(kind: &str, found: Value, off_stripe: Option<u64>) -> (Option<bool>, String) {
        let stack: Stack = from_value(json!({
            "devices": [{"file": {"size": 1 << 30, "count": 4}}], "array": {"level": 5, "chunk": 65536}
        }))
        .expect("a stack");
        let found = from_value(found).expect("facts");
        let row = fsdyno_filesystems::find(kind).expect("a row");
        let facts = judge(row, &stack, None, &found, off_stripe);
        let said = facts.get("alignment").and_then(Value::as_str).unwrap_or_default().to_string();
        (facts.get("aligned").and_then(Value::as_bool), said)
    }

    #[test]
    fn the_superblock_must_have_the_stripe_and_the_volume_must_begin_with_one() {
        let right = json!({"block_size": 4096, "stride": 16, "stripe_width": 48});
        assert_eq!(judged("ext4", right.clone(), None).0, Some(true));
        assert_eq!(judged("ext4", right.clone(), Some(0)).0, Some(true));
        let (aligned, said) = judged("ext4", right, Some(128 << 10));
        assert_eq!(aligned, Some(false));
        assert!(said.ends_with("the volume begins 128 KiB into a stripe"), "{said}");
        let none = json!({"block_size": 4096, "sunit": 0, "swidth": 0});
        let (aligned, said) = judged("xfs", none, None);
        assert_eq!(aligned, Some(false));
        assert!(said.contains("sunit 0, swidth 0 where the array has sunit 128, swidth 384"), "{said}");
    }

    #[test]
    fn who_knows_no_stripe_is_not_judged() {
        assert_eq!(judged("btrfs", json!({"block_size": 4096}), None).0, None);
    }
}

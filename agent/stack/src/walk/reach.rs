//! Which layers lie below which, and whether reading a device would come back: a suspended volume or a
//! dead disk holds up whoever reads it, for as long as it is so.

use std::collections::BTreeSet;

use fsdyno_spec::outcome::Reason;
use fsdyno_spec::record::StackLayer;

/// The state (`device/state`) in which a disk answers, by its driver; other drivers mean other things by
/// it.
const ANSWERING: [(&str, &str); 2] = [("scsi", "running"), ("nvme", "live")];

/// Kernel names directly below a layer, each once, in the order of its pieces.
pub fn below(layer: &StackLayer) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let known = layer.below.iter().map(|piece| &piece.on);
    for name in known.chain(&layer.somewhere_on) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// The layer of a kernel name.
pub fn named<'a>(layers: &'a [StackLayer], name: &str) -> Option<&'a StackLayer> {
    layers.iter().find(|layer| layer.name == name)
}

/// Kernel names of a layer and of all below it.
pub fn all_below(layers: &[StackLayer], name: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut next = vec![name.to_string()];
    while let Some(name) = next.pop() {
        if let Some(layer) = named(layers, &name)
            && found.insert(name)
        {
            next.extend(below(layer));
        }
    }
    found
}

/// Whether the device `name` of these layers would answer a read.
///
/// # Errors
/// What at or below it would hold up the reader.
pub fn answers(layers: &[StackLayer], name: &str) -> Result<(), Reason> {
    for name in all_below(layers, name) {
        let Some(layer) = named(layers, &name) else { continue };
        if layer.facts.get("suspended").and_then(serde_json::Value::as_bool) == Some(true) {
            return Err(Reason::new(format!("{} is suspended, and so is whoever reads it", layer.node))
                .advise("resume it (dmsetup resume), then ask again"));
        }
        let text = |name: &str| layer.facts.get(name).and_then(serde_json::Value::as_str);
        let answering = ANSWERING.iter().find(|(driver, _)| text("driver") == Some(driver));
        if let Some((state, (_, wanted))) = text("state").zip(answering)
            && state != *wanted
        {
            return Err(Reason::new(format!("the disk {} is in the state `{state}`", layer.node))
                .advise("bring the disk back, then ask again"));
        }
    }
    Ok(())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use fsdyno_spec::record::{LayerKind, Piece};
    use fsdyno_spec::units::Bytes;
    use serde_json::json;

    /// A layer of pieces `(start, size, on, offset, chunk)`.
    pub fn layer(name: &str, pieces: &[(u64, u64, &str, u64, Option<u64>)]) -> StackLayer {
        let below = pieces.iter().map(|&(start, size, on, offset, chunk)| Piece {
            start: Bytes(start),
            size: Bytes(size),
            on: on.to_string(),
            offset: Bytes(offset),
            chunk: chunk.map(Bytes),
        });
        StackLayer {
            name: name.to_string(),
            node: format!("/dev/{name}"),
            kind: LayerKind::Unknown,
            size: Bytes(pieces.iter().map(|(start, size, ..)| start + size).max().unwrap_or(0)),
            queue: Default::default(),
            facts: Default::default(),
            below: below.collect(),
            somewhere_on: Vec::new(),
        }
    }

    #[test]
    fn whoever_lies_on_a_suspended_or_dead_device_is_not_read() {
        let on = |lower: &'static str| [(0, 8, lower, 0, None)];
        let mut layers =
            vec![layer("dm-1", &on("dm-0")), layer("dm-0", &on("sda")), layer("sda", &[]), layer("sdb", &[])];
        layers[2].facts.insert("state".into(), json!("running"));
        assert_eq!(answers(&layers, "dm-1"), Ok(()));
        layers[1].facts.insert("suspended".into(), json!(true));
        assert!(answers(&layers, "dm-1").unwrap_err().message.contains("/dev/dm-0 is suspended"));
        assert_eq!(answers(&layers, "sda"), Ok(()));
        layers[2].facts.insert("state".into(), json!("offline"));
        assert_eq!(answers(&layers, "sda"), Ok(()), "a state of an unknown driver");
        layers[2].facts.insert("driver".into(), json!("scsi"));
        assert!(answers(&layers, "sda").unwrap_err().message.contains("`offline`"));
        assert_eq!(answers(&layers, "sdb"), Ok(()));
    }
}

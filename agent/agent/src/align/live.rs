//! An array as the kernel has it, and how what is asked for lies on its stripes.

use std::path::Path;

use fsdyno_filesystems::Geometry;
use fsdyno_spec::outcome::Reason;
use fsdyno_spec::record::{LayerKind, StackLayer, Striped};
use fsdyno_spec::units::Bytes;
use fsdyno_stack::walk::{UnderDevice, array_under};

use super::Found;
use super::steps::{Place, exactly};

/// The array at or below a device.
pub fn found(device: &Path) -> Result<Found, Reason> {
    let UnderDevice { array, geometry, layers, striped, users } = array_under(device)?;
    let Some(top) = layers.first() else {
        return Err(Reason::new(format!("nothing is known of {}", device.display()))
            .advise("describe the array: --level, --members, --chunk"));
    };
    let mut notes = Vec::new();
    let layer = |name: &str| layers.iter().find(|layer| layer.name == name);
    for (striped, geometry) in striped.iter().filter_map(|striped| Some((striped, geometry.as_ref()?))) {
        notes.extend(announced(layer(&striped.on), geometry));
        notes.extend(off(top, striped, geometry, &layer));
    }
    notes.extend(upon(&layers, &striped));
    Ok(Found { place: Place::of(top), array, geometry, users, notes })
}

/// That below the stripes of these numbers there are others, which they do not keep.
fn upon(layers: &[StackLayer], striped: &[Striped]) -> Option<String> {
    let first = striped.first()?;
    let (upper, lower) = lower_stripes(layers, &first.on)?;
    Some(format!(
        "{upper} lies on {lower}, which is striped itself: these numbers are those of {upper}, and no write of them fills \
         stripes of {lower} for certain"
    ))
}

/// The node of a layer, and that of the first one below it whose bytes lie in turn on several others.
fn lower_stripes<'a>(layers: &'a [StackLayer], name: &str) -> Option<(&'a str, &'a str)> {
    let named = |name: &str| layers.iter().find(|layer| layer.name == name);
    let upper = named(name)?;
    let below = |layer: &'a StackLayer| layer.below.iter().map(|piece| piece.on.as_str());
    let mut next: Vec<&str> = below(upper).collect();
    let mut at = 0;
    while let Some(layer) = next.get(at).map(|name| named(name)) {
        at += 1;
        let Some(layer) = layer else { continue };
        if layer.below.iter().any(|piece| piece.chunk.is_some()) {
            return Some((&upper.node, &layer.node));
        }
        let more: Vec<&str> = below(layer).filter(|name| !next.contains(name)).collect();
        next.extend(more);
    }
    None
}

/// What the kernel announces of the array, where that is something else: tools that detect believe it.
fn announced(array: Option<&StackLayer>, geometry: &Geometry) -> Option<String> {
    let array = array?;
    let says = |name: &str| array.queue.get(name).and_then(serde_json::Value::as_u64);
    let (chunk, stripe) = (says("minimum_io_size")?, says("optimal_io_size")?);
    (chunk != geometry.chunk.0 || stripe != geometry.stripe().0).then(|| {
        format!(
            "the kernel announces a chunk of {} and a stripe of {} for {}, which does not follow from its members: \
             tools that detect will take that",
            exactly(Bytes(chunk)),
            exactly(Bytes(stripe)),
            array.node
        )
    })
}

/// Whether the device begins with a stripe and keeps that beat to its end; if not, by whose fault.
fn off<'a>(
    top: &StackLayer,
    striped: &Striped,
    geometry: &Geometry,
    layer: &impl Fn(&str) -> Option<&'a StackLayer>,
) -> Option<String> {
    let node = &top.node;
    let array = layer(&striped.on).map_or(striped.on.as_str(), |layer| layer.node.as_str());
    if striped.pieces.is_empty() {
        let more = if rustix::process::geteuid().is_root() { "" } else { ": ask again as root" };
        return Some(format!(
            "where {node} lies on {array} could not be read, so whether it begins with a stripe is not known{more}"
        ));
    }
    let piece = striped.pieces.iter().find(|piece| piece.off.0 > 0)?;
    let stripe = exactly(geometry.stripe());
    let into = exactly(piece.off);
    let what = if piece.start.0 == 0 {
        format!(
            "{node} begins {into} into a stripe of {array} ({stripe}): as it lies, these numbers align nothing"
        )
    } else {
        format!("{node} is {into} off the stripes of {array} ({stripe}) from {} on", exactly(piece.start))
    };
    let culprit = striped.steps.iter().find(|step| step.off.0 > 0).and_then(|step| layer(&step.layer));
    let start = exactly(geometry.data_alignment());
    let mend = match culprit.map(|layer| (layer.kind, &layer.node)) {
        Some((LayerKind::Partition, node)) => {
            format!("make the partition {node} anew with its start at {start} or a multiple of it")
        }
        Some((LayerKind::Lvm, node)) => format!(
            "make {node} anew in a group with extents of {} on a data start of whole stripes, or move it there (pvmove)",
            exactly(geometry.extent())
        ),
        Some((_, node)) => format!("make {node} anew so that its data begins at a multiple of {stripe}"),
        None => format!("make it anew so that each piece begins at a multiple of {stripe}"),
    };
    Some(format!("{what}; {mend}"))
}

#[cfg(test)]
mod tests {
    use fsdyno_spec::record::Piece;

    use super::*;

    fn layer(name: &str, on: &[&str], chunk: Option<u64>) -> StackLayer {
        let piece = |on: &&str| Piece {
            start: Bytes(0),
            size: Bytes::mib(8),
            on: (*on).to_string(),
            offset: Bytes(0),
            chunk: chunk.map(Bytes),
        };
        StackLayer {
            name: name.into(),
            node: format!("/dev/{name}"),
            kind: LayerKind::Unknown,
            size: Bytes::mib(8),
            queue: Default::default(),
            facts: Default::default(),
            below: on.iter().map(piece).collect(),
            somewhere_on: Vec::new(),
        }
    }

    #[test]
    fn stripes_below_those_of_the_answer_are_told() {
        let chunk = Some(64 << 10);
        let below = |lower| {
            let layers = [
                layer("md9", &["md1", "sdz"], chunk),
                layer("md1", &["sda1", "sdb1"], lower),
                layer("sda1", &["sda"], None),
                layer("sda", &[], None),
            ];
            lower_stripes(&layers, "md9").map(|(upper, lower)| (upper.to_string(), lower.to_string()))
        };
        assert_eq!(below(chunk), Some(("/dev/md9".to_string(), "/dev/md1".to_string())));
        assert_eq!(below(None), None);
    }
}

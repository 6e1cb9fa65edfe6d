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
    Ok(Found { place: Place::of(top), array, geometry, users, notes })
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
        return Some(format!(
            "where {node} lies on {array} could not be read, so whether it begins with a stripe is not known: ask again as root"
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

//! How the uppermost layer lies on the stripes below it: its pieces followed down through every layer
//! between, and what each of these contributes to their being off.

use std::collections::BTreeMap;

use fsdyno_filesystems::{Geometry, off};
use fsdyno_spec::outcome::Reason;
use fsdyno_spec::record::{LayerKind, Piece, StackLayer, Striped, StripedPiece, StripedStep, Unseen};
use fsdyno_spec::units::Bytes;

use crate::walk::md::Found;
use crate::walk::{reach, told};

/// Pieces that are followed: more than any stack of sense has.
const PIECES: usize = 16_384;

/// A run of bytes of the uppermost layer, and where it is on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    start: u64,
    size: u64,
    offset: u64,
}

/// Stripes of one width, and the parts of their layer that have them (start, size).
struct Stripes {
    geometry: Geometry,
    parts: Vec<(u64, u64)>,
}

/// For each striped layer at or below the first one, the uppermost first.
pub fn striped(layers: &[StackLayer], unseen: &mut Vec<Unseen>) -> Vec<Striped> {
    let Some(top) = layers.first() else { return Vec::new() };
    let below_top = reach::all_below(layers, &top.name);
    let mut found = Vec::new();
    for layer in layers.iter().filter(|layer| below_top.contains(&layer.name)) {
        let all = match stripes(layer) {
            Ok(all) => all,
            Err(reason) => {
                unseen.push(told("segments", Some(&layer.name), reason));
                continue;
            }
        };
        if all.is_empty() {
            continue;
        }
        let spans = spans(layers, &top.name, &layer.name);
        if let Err(Some(why)) = &spans {
            let reason = Reason::new(format!("how {} lies on {} is not known: {why}", top.node, layer.node))
                .advise("judge each layer between by its own start");
            unseen.push(told("segments", Some(&layer.name), reason));
        }
        let spans = spans.unwrap_or_default();
        found.extend(all.into_iter().map(|stripes| Striped {
            on: layer.name.clone(),
            chunk: stripes.geometry.chunk,
            data_disks: stripes.geometry.data_disks,
            stripe: stripes.geometry.stripe(),
            read_ahead: Some(stripes.geometry.read_ahead()),
            pieces: pieces(&spans, &stripes),
            steps: steps(layers, top, &layer.name, stripes.geometry.stripe().0),
        }));
    }
    found
}

/// Those that do not lie below another striped layer, in order.
pub fn uppermost<'a>(layers: &[StackLayer], striped: &'a [Striped]) -> Vec<&'a Striped> {
    let lies_on = |above: &str, name: &str| above != name && reach::all_below(layers, above).contains(name);
    striped.iter().filter(|one| !striped.iter().any(|other| lies_on(&other.on, &one.on))).collect()
}

/// Stripes that a layer has: those of its array, or of each width that its table stripes in.
fn stripes(layer: &StackLayer) -> Result<Vec<Stripes>, Reason> {
    if layer.kind == LayerKind::Md {
        let geometry = Found::of(&layer.facts).geometry()?;
        let of_array = geometry.map(|geometry| Stripes { geometry, parts: vec![(0, layer.size.0)] });
        return Ok(of_array.into_iter().collect());
    }
    // Pieces of one start are the devices of one segment.
    let mut segments: BTreeMap<u64, (u64, u64, u32)> = BTreeMap::new();
    for piece in &layer.below {
        if let Some(chunk) = piece.chunk {
            segments.entry(piece.start.0).or_insert((piece.size.0, chunk.0, 0)).2 += 1;
        }
    }
    let mut all: Vec<Stripes> = Vec::new();
    for (start, (size, chunk, data_disks)) in segments {
        if chunk.checked_mul(u64::from(data_disks)).is_none_or(|stripe| stripe == 0) {
            return Err(Reason::new(format!("{} says that it is striped by {chunk} bytes", layer.node)));
        }
        let geometry = Geometry { chunk: Bytes(chunk), data_disks };
        match all.iter_mut().find(|known| known.geometry == geometry) {
            Some(known) => known.parts.push((start, size)),
            None => all.push(Stripes { geometry, parts: vec![(start, size)] }),
        }
    }
    Ok(all)
}

/// The part of each span that has these stripes, which begin anew with each part.
fn pieces(spans: &[Span], stripes: &Stripes) -> Vec<StripedPiece> {
    let mut found = Vec::new();
    for span in spans {
        for (start, size) in &stripes.parts {
            let Some(piece) = within(span, *start, *size) else { continue };
            let from = |unit: Bytes| Bytes(off(piece.start, piece.offset - start, unit.0));
            found.push(StripedPiece {
                start: Bytes(piece.start),
                size: Bytes(piece.size),
                offset: Bytes(piece.offset),
                off: from(stripes.geometry.stripe()),
                off_chunk: Some(from(stripes.geometry.chunk)),
            });
        }
    }
    found
}

/// What of a span lies in `[start, start + size)` of the layer that its offset counts in.
fn within(span: &Span, start: u64, size: u64) -> Option<Span> {
    let first = span.offset.max(start);
    let end = span.offset.checked_add(span.size)?.min(start.checked_add(size)?);
    let size = end.checked_sub(first).filter(|size| *size > 0)?;
    Some(Span { start: span.start.checked_add(first - span.offset)?, size, offset: first })
}

/// Where the bytes of `top` are on `target`, in the order of `top`.
///
/// # Errors
/// Why the way is not known; nothing if a layer between did not tell, which was told where it was read.
fn spans(layers: &[StackLayer], top: &str, target: &str) -> Result<Vec<Span>, Option<String>> {
    let whole = reach::named(layers, top).map_or(0, |layer| layer.size.0);
    let mut open = vec![(top.to_string(), Span { start: 0, size: whole, offset: 0 })];
    let mut found = Vec::new();
    let mut followed = 0usize;
    while let Some((name, span)) = open.pop() {
        if name == target {
            found.push(span);
            continue;
        }
        let Some(layer) = reach::named(layers, &name) else { continue };
        let leads = |name: &str| reach::all_below(layers, name).contains(target);
        if layer.somewhere_on.iter().any(|name| leads(name)) {
            return Err(None);
        }
        for piece in layer.below.iter().filter(|piece| leads(&piece.on)) {
            if piece.chunk.is_some() {
                return Err(Some(format!("{} is striped itself", layer.node)));
            }
            followed += 1;
            if followed > PIECES {
                return Err(Some(format!("there are more than {PIECES} pieces")));
            }
            let Some(part) = within(&span, piece.start.0, piece.size.0) else { continue };
            let moved = piece.offset.0.checked_add(part.offset - piece.start.0);
            let offset = moved.ok_or_else(|| Some(format!("{} ends behind all devices", layer.node)))?;
            open.push((piece.on.clone(), Span { offset, ..part }));
        }
    }
    found.sort_by_key(|span| (span.start, span.offset));
    found.dedup();
    Ok(joined(found))
}

/// Spans that go on where another ends, as one.
fn joined(spans: Vec<Span>) -> Vec<Span> {
    let mut found: Vec<Span> = Vec::new();
    for span in spans {
        match found.last_mut() {
            Some(last)
                if last.start + last.size == span.start
                    && last.offset.checked_add(last.size) == Some(span.offset) =>
            {
                last.size += span.size;
            }
            _ => found.push(span),
        }
    }
    found
}

/// What each layer on the way to `target` adds, by the first piece of it that leads there. Where LVM's
/// data begins on a physical volume is a step of its own.
fn steps(layers: &[StackLayer], top: &StackLayer, target: &str, stripe: u64) -> Vec<StripedStep> {
    let mut found = Vec::new();
    let mut at = top;
    while at.name != target {
        let leads = |piece: &&Piece| reach::all_below(layers, &piece.on).contains(target);
        let Some(piece) = at.below.iter().find(leads) else { break };
        let Some(next) = reach::named(layers, &piece.on) else { break };
        let data = next.facts.get("pv_start").and_then(serde_json::Value::as_u64);
        let data = data.filter(|data| at.kind == LayerKind::Lvm && *data <= piece.offset.0);
        let own = off(piece.start.0, piece.offset.0 - data.unwrap_or(0), stripe);
        found.push(StripedStep { layer: at.name.clone(), off: Bytes(own), pv: false });
        if let Some(data) = data {
            found.push(StripedStep { layer: next.name.clone(), off: Bytes(data % stripe), pv: true });
        }
        at = next;
    }
    found
}

#[cfg(test)]
#[path = "stripes_tests.rs"]
mod tests;

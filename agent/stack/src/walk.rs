//! A live stack, read from a path or a device down to the disks: what is where, in bytes, from sysfs,
//! /proc, ioctls and labels on devices. Nothing is changed, no tool is run, and what cannot be read is
//! told instead of guessed: an audit is worth as much as its record.

mod control;
mod descend;
mod device;
mod label;
mod mapper;
mod md;
mod mounted;
mod physical;
mod queue;
mod reach;
mod stripes;
mod table;
mod target;

use std::path::Path;

use fsdyno_filesystems::Geometry;
use fsdyno_spec::align::KnownArray;
use fsdyno_spec::array::Level;
use fsdyno_spec::outcome::Reason;
use fsdyno_spec::record::{LayerKind, Mounted, StackLayer, Striped, Unseen};

pub use reach::answers;

/// What was found below a path or a device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Walked {
    /// Where it is mounted; none if it is not.
    pub mount: Option<Mounted>,
    /// The driver's name for the file system, if it is mounted.
    pub fstype: Option<String>,
    /// Kernel names of the devices that the file system lies on; of the device that was asked for, if it
    /// is not mounted. None of them for file systems on no device.
    pub on: Vec<String>,
    /// Each before those that it lies on; the first is `on[0]`.
    pub layers: Vec<StackLayer>,
    /// How the first layer lies on each striped one at or below it, the uppermost first.
    pub striped: Vec<Striped>,
    /// What could not be read.
    pub unseen: Vec<Unseen>,
}

/// Reads what lies below `target`: a file, a folder, a mount point, or the node of a block device.
///
/// # Errors
/// What it is that nothing can be said of, with what to name instead.
pub fn walk(target: &Path) -> Result<Walked, Reason> {
    let found = target::find(target)?;
    let mut unseen = Vec::new();
    let mount = found.mount.as_ref().map(|line| mounted::mounted(line, found.group.as_deref()));
    let fstype = found.mount.map(|line| line.fstype);
    if found.on.is_empty() {
        let kind = fstype.as_deref().unwrap_or_default();
        unseen.push(told(
            "layer",
            None,
            Reason::new(format!("{kind} at {} lies on no block device of this host", target.display()))
                .advise(
                    "name a path on the file system that it takes its files from, on the host that has it",
                ),
        ));
        return Ok(Walked { mount, fstype, unseen, ..Walked::default() });
    }
    let mut layers = descend::layers(&found.on, &mut unseen);
    physical::look(&mut layers, mount.is_none(), &mut unseen);
    let striped = stripes::striped(&layers, &mut unseen);
    Ok(Walked { mount, fstype, on: found.on, layers, striped, unseen })
}

/// An array, its geometry, all layers from the device down to it and further, and how the device lies on
/// its stripes.
pub type UnderDevice = (KnownArray, Option<Geometry>, Vec<StackLayer>, Option<Striped>);

/// The array of md that decides what is put on `device`: the first striped one at or below it, else the
/// first whose members are copies (its geometry is none). With it all layers, and how `device` lies on
/// the array's stripes.
///
/// # Errors
/// If there is none, or it cannot be read; with what to do instead.
pub fn array_under(device: &Path) -> Result<UnderDevice, Reason> {
    let walked = walk(device)?;
    let arrays: Vec<&StackLayer> = walked.layers.iter().filter(|l| l.kind == LayerKind::Md).collect();
    let is_striped = |layer: &&&StackLayer| walked.striped.iter().any(|found| found.on == layer.name);
    let chosen = arrays.iter().find(is_striped).or_else(|| arrays.first());
    let by_hand = "describe the array: --level, --members, --chunk";
    let Some(layer) = chosen else {
        let mut message = format!("no array of md lies below {}", device.display());
        if let Some(gap) = walked.unseen.iter().find(|gap| gap.what == "segments" || gap.what == "layer") {
            message = format!("{message} as far as can be seen: {}", gap.reason.message);
        }
        return Err(Reason::new(message).advise(by_hand));
    };
    let found = md::Found::of(&layer.facts);
    let level = found.level.as_deref().unwrap_or("none");
    let (Some(members), Some(known)) = (found.members, level_of(level)) else {
        return Err(Reason::new(format!("{} has the level `{level}`, which has no advice", layer.node))
            .advise("levels 0, 1, 5, 6 and 10 have; one disk of parity at a fixed place (4) counts as 5"));
    };
    let geometry = found.geometry().map_err(|reason| match reason.advice {
        None => reason.advise(by_hand),
        Some(_) => reason,
    })?;
    let array = KnownArray {
        device: Some(layer.node.clone()),
        level: known,
        members,
        chunk: geometry.map(|geometry| geometry.chunk),
        layout: found.layout,
    };
    let striped = walked.striped.iter().find(|found| found.on == layer.name).cloned();
    Ok((array, geometry, walked.layers, striped))
}

/// The level of the kernel's name for it.
fn level_of(name: &str) -> Option<Level> {
    Level::try_from(name.strip_prefix("raid")?.parse::<u8>().ok()?).ok()
}

/// A gap in a record.
fn told(what: &str, layer: Option<&str>, reason: Reason) -> Unseen {
    Unseen { what: what.to_string(), layer: layer.map(str::to_string), reason }
}

//! A live stack, read from a path or a device down to the disks: what is where, in bytes, from sysfs,
//! /proc, ioctls and labels on devices. Nothing is changed, no tool is run, and what cannot be read is
//! told instead of guessed: an audit is worth as much as its record.

mod aside;
mod control;
mod descend;
mod device;
mod held;
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
mod under;

use std::path::Path;

use fsdyno_filesystems::Geometry;
use fsdyno_spec::array::Level;
use fsdyno_spec::outcome::Reason;
use fsdyno_spec::record::{Mounted, StackLayer, Striped, Unseen};

pub use aside::within;
pub use reach::answers;
pub use under::{UnderDevice, array_under};

/// What was found below a path or a device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Walked {
    /// The device that was asked for, else the mount point that the path is on: a record goes to others, and
    /// what lies below a mount is nobody's business there.
    pub target: String,
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
    /// Kernel names of the devices that hold the first one, if it is not mounted: what is on it is theirs.
    pub held: Vec<String>,
    /// What could not be read.
    pub unseen: Vec<Unseen>,
}

impl Walked {
    /// The stripe that a file system on the first layer should work with: the one of all uppermost striped
    /// layers, if they are alike. None if there is none, or if it cannot be said: a striped layer on
    /// another one has two beats, and only who knows the work can choose.
    #[must_use]
    pub fn stripe(&self) -> Option<Geometry> {
        let of = |striped: &Striped| Geometry { chunk: striped.chunk, data_disks: striped.data_disks };
        let uppermost = stripes::uppermost(&self.layers, &self.striped);
        let first = uppermost.first().map(|striped| of(striped))?;
        let alone = uppermost.len() == self.striped.len();
        (alone && uppermost.iter().all(|striped| of(striped) == first)).then_some(first)
    }
}

/// Reads what lies below `target`: a file, a folder, a mount point, or the node of a block device.
///
/// # Errors
/// What it is that nothing can be said of, with what to name instead.
pub fn walk(target: &Path) -> Result<Walked, Reason> {
    let asked = target.to_path_buf();
    let found = aside::within(target, move || target::find(&asked))?;
    let mut unseen = Vec::new();
    let mount =
        found.mount.as_ref().map(|line| mounted::mounted(line, found.group.as_deref(), !found.on.is_empty()));
    let fstype = found.mount.map(|line| line.fstype);
    let point = mount.as_ref().filter(|_| !found.device).map(|mount| mount.point.clone());
    let target = point.unwrap_or_else(|| target.display().to_string());
    if found.on.is_empty() {
        let kind = fstype.as_deref().unwrap_or_default();
        unseen.push(told(
            "layer",
            None,
            Reason::new(format!("{kind} at {target} lies on no block device of this host")).advise(
                "name a path on the file system that it takes its files from, on the host that has it",
            ),
        ));
        return Ok(Walked { target, mount, fstype, unseen, ..Walked::default() });
    }
    let mut layers = descend::layers(&found.on, &mut unseen);
    physical::look(&mut layers, mount.is_none(), &mut unseen);
    let striped = stripes::striped(&layers, &mut unseen);
    let held = match (&mount, layers.first()) {
        (None, Some(first)) => held::holders(&first.name),
        _ => Vec::new(),
    };
    Ok(Walked { target, mount, fstype, on: found.on, layers, striped, held, unseen })
}

/// The level of the kernel's name for it.
fn level_of(name: &str) -> Option<Level> {
    Level::try_from(name.strip_prefix("raid")?.parse::<u8>().ok()?).ok()
}

/// A gap in a record.
fn told(what: &str, layer: Option<&str>, reason: Reason) -> Unseen {
    Unseen { what: what.to_string(), layer: layer.map(str::to_string), reason }
}

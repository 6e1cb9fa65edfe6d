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

pub use aside::{late, within};

use crate::mountinfo::MountLine;
use crate::sysfs;
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
    /// Nodes of the partitions of the first one, if it is not mounted.
    pub partitions: Vec<String>,
    /// What could not be read.
    pub unseen: Vec<Unseen>,
}

impl Walked {
    /// The stripe that a file system on the first layer should work with: the one of all uppermost striped
    /// layers, if they are alike. None if there is none, or if it cannot be said: a striped layer on
    /// another one has two beats, and only who knows the work can choose; and where the way down to one is
    /// not known, nothing tells that what lies there in a row does so above (thin volumes).
    #[must_use]
    pub fn stripe(&self) -> Option<Geometry> {
        let of = |striped: &Striped| Geometry { chunk: striped.chunk, data_disks: striped.data_disks };
        let uppermost = stripes::uppermost(&self.layers, &self.striped);
        let first = uppermost.first().map(|striped| of(striped))?;
        let alone = uppermost.len() == self.striped.len();
        let known = uppermost.iter().all(|striped| !striped.pieces.is_empty());
        (alone && known && uppermost.iter().all(|striped| of(striped) == first)).then_some(first)
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
    let folders = found.mount.as_ref().is_some_and(on_folders);
    let fstype = found.mount.map(|line| line.fstype);
    let point = mount.as_ref().filter(|_| !found.device).map(|mount| mount.point.clone());
    let target = point.unwrap_or_else(|| target.display().to_string());
    if found.on.is_empty() {
        unseen.push(told(
            "layer",
            None,
            on_no_device(fstype.as_deref().unwrap_or_default(), &target, folders),
        ));
        return Ok(Walked { target, mount, fstype, unseen, ..Walked::default() });
    }
    let mut layers = descend::layers(&found.on, &mut unseen);
    physical::look(&mut layers, mount.is_none(), &mut unseen);
    let striped = stripes::striped(&layers, &mut unseen);
    let (held, partitions) = match (&mount, layers.first()) {
        (None, Some(first)) => (held::holders(&first.name), sysfs::partitions(&first.name)),
        _ => Default::default(),
    };
    let partitions = partitions.iter().map(|name| device::node(name)).collect();
    Ok(Walked { target, mount, fstype, on: found.on, layers, striped, held, partitions, unseen })
}

/// Whether a file system is laid over folders of others, which it names in its options.
fn on_folders(line: &MountLine) -> bool {
    line.super_options.split(',').any(|word| word.starts_with("lowerdir"))
}

/// Why nothing lies below a mount.
fn on_no_device(kind: &str, target: &str, folders: bool) -> Reason {
    match folders {
        true => Reason::new(format!("{kind} at {target} is laid over folders of other file systems"))
            .advise("audit those folders: its mount in /proc/self/mountinfo names them"),
        false => Reason::new(format!("{kind} at {target} lies on no block device of this host"))
            .advise("name a path on the file system that it takes its files from, on the host that has it"),
    }
}

/// The level of the kernel's name for it.
fn level_of(name: &str) -> Option<Level> {
    Level::try_from(name.strip_prefix("raid")?.parse::<u8>().ok()?).ok()
}

/// A gap in a record.
fn told(what: &str, layer: Option<&str>, reason: Reason) -> Unseen {
    Unseen { what: what.to_string(), layer: layer.map(str::to_string), reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mountinfo;

    #[test]
    fn what_is_laid_over_folders_is_not_said_to_be_on_no_device() {
        let told = |line: &str| {
            let line = mountinfo::parse(line).unwrap();
            on_no_device(&line.fstype, "/mnt", on_folders(&line))
        };
        let over = told("36 35 0:50 / /mnt rw - overlay overlay rw,lowerdir=/a:/b,upperdir=/c,workdir=/d");
        assert!(over.message.contains("over folders of other file systems"), "{over:?}");
        // Records go to others: whose folders they are is not told.
        assert!(!over.message.contains("/a") && over.advice.unwrap().starts_with("audit those"));
        let memory = told("36 35 0:50 / /mnt rw - tmpfs tmpfs rw,size=8k");
        assert!(memory.message.contains("on no block device"), "{memory:?}");
    }
}

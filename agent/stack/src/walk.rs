//! A live stack, read from a path or a device down to the disks: what is where, in bytes, from sysfs,
//! /proc, ioctls and labels on devices. Nothing is changed, no tool is run, and what cannot be read is
//! told instead of guessed: an audit is worth as much as its record.

use std::path::Path;

use fsdyno_filesystems::Geometry;
use fsdyno_spec::align::KnownArray;
use fsdyno_spec::outcome::Reason;
use fsdyno_spec::record::{Mounted, StackLayer, Striped, Unseen};

/// What was found below a path or a device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Walked {
    /// Where it is mounted; none if it is not.
    pub mount: Option<Mounted>,
    /// The driver's name for the file system, if it is mounted.
    pub fstype: Option<String>,
    /// Kernel names of the devices that the file system lies on; of the device that was asked for, if it
    /// is not mounted.
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
    Err(Reason::new(format!("{} cannot be read yet", target.display())))
}

/// The first striped array of md at or below a device.
///
/// # Errors
/// If there is none, or it cannot be read; with what to do instead.
pub fn array_under(
    device: &Path,
) -> Result<(KnownArray, Option<Geometry>, Vec<StackLayer>, Option<Striped>), Reason> {
    Err(Reason::new(format!("{} cannot be read yet", device.display())))
}

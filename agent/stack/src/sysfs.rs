//! Block devices as sysfs describes them: sizes, queues, counters, and which disk lies under what.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fsdyno_spec::units::Bytes;
use rustix::fs::{major, minor};

use crate::mountinfo;

/// A block device that a file system can be made on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDevice {
    /// Node to open, `/dev/…`.
    pub path: PathBuf,
    /// Kernel name, e.g. `loop3`, `sda1`.
    pub kernel_name: String,
    /// Size.
    pub size: Bytes,
    /// Logical block size.
    pub logical_block_size: Bytes,
    /// Whether we made it ourselves: only then may mkfs be forced.
    pub ours: bool,
}

impl BlockDevice {
    /// The device at `path`, as the kernel describes it.
    ///
    /// # Errors
    /// If it is no block device or sysfs does not know it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let meta = fs::metadata(path)?;
        let kernel_name = name_of(meta.rdev())?;
        let size = Bytes(number(&class(&kernel_name).join("size"))? * 512);
        let logical_block_size = Bytes(number(&queue(&kernel_name).join("logical_block_size"))?);
        Ok(Self { path: path.to_path_buf(), kernel_name, size, logical_block_size, ours: false })
    }

    /// Kernel name of the whole disk, which owns the queue and counts the flushes.
    #[must_use]
    pub fn disk(&self) -> String {
        disk_of(&self.kernel_name)
    }
}

/// `/sys/class/block/<name>`.
pub fn class(name: &str) -> PathBuf {
    Path::new("/sys/class/block").join(name)
}

/// The queue folder of the disk that `name` is or is part of.
pub fn queue(name: &str) -> PathBuf {
    class(&disk_of(name)).join("queue")
}

/// Kernel name of a device number.
pub fn name_of(dev: u64) -> io::Result<String> {
    name_of_number(&format!("{}:{}", major(dev), minor(dev)))
}

/// Kernel name of a device number as the kernel writes it, `major:minor`.
pub fn name_of_number(number: &str) -> io::Result<String> {
    let link = fs::read_link(Path::new("/sys/dev/block").join(number))?;
    let name = link.file_name().ok_or(io::ErrorKind::NotFound)?;
    Ok(name.to_string_lossy().into_owned())
}

/// The whole disk of a partition; a disk is its own.
pub fn disk_of(name: &str) -> String {
    if !class(name).join("partition").exists() {
        return name.to_string();
    }
    let parent = fs::canonicalize(class(name)).ok().and_then(|path| Some(path.parent()?.to_path_buf()));
    parent.and_then(|p| Some(p.file_name()?.to_string_lossy().into_owned())).unwrap_or(name.to_string())
}

/// Partitions of a disk, by kernel name.
pub fn partitions(disk: &str) -> Vec<String> {
    let entries = fs::read_dir(class(disk)).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().join("partition").exists())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Names in a folder such as `holders` or `slaves`.
pub fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Text of an attribute, trimmed.
pub fn text(path: &Path) -> io::Result<String> {
    Ok(fs::read_to_string(path)?.trim().to_string())
}

/// Number in an attribute.
pub fn number(path: &Path) -> io::Result<u64> {
    text(path)?.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not a number"))
}

/// Flush requests that a whole disk completed (`stat`, 16th field; kernel 5.5 and later).
pub fn flushes(disk: &str) -> io::Result<u64> {
    let stat = text(&class(disk).join("stat"))?;
    let field = stat.split_whitespace().nth(15).and_then(|n| n.parse().ok());
    field.ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, "this kernel does not count flushes"))
}

/// Whole disks under the files of `path`, down to those with no members of their own; empty where
/// there are none (tmpfs, network).
pub fn disks_under(path: &Path) -> Vec<String> {
    let Ok(meta) = fs::metadata(path) else { return Vec::new() };
    // A file system of several devices has an anonymous number: then its source says where it is.
    let name = name_of(meta.dev()).or_else(|_| {
        let device = format!("{}:{}", major(meta.dev()), minor(meta.dev()));
        let mounts = mountinfo::read()?;
        let mount = mounts.iter().find(|m| m.device == device).ok_or(io::ErrorKind::NotFound)?;
        name_of(fs::metadata(&mount.source)?.rdev())
    });
    let mut found = BTreeSet::new();
    if let Ok(name) = name {
        descend(&name, &mut found);
    }
    found.into_iter().collect()
}

fn descend(name: &str, found: &mut BTreeSet<String>) {
    let disk = disk_of(name);
    let members = names_in(&class(&disk).join("slaves"));
    if members.is_empty() {
        found.insert(disk);
    }
    for member in members {
        descend(&member, found);
    }
}

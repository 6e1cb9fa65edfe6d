//! Backing files of loop devices. `written` files are filled once and reused, so that every cell
//! and round meets the same extents and the host's file system allocates nothing while a trial
//! runs; `sparse` ones are made for each trial. Both are unlinked as soon as they are open, so that
//! they end with their holder.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use fsdyno_spec::trial::Backing;
use fsdyno_spec::units::Bytes;
use rustix::fs::{FallocateFlags, IFlags, fallocate, ftruncate, ioctl_getflags, ioctl_setflags, statvfs};

use crate::failure::Refused;
use crate::identity::{Identity, nonce};
use crate::ledger::{Entry, Ledger};

/// Space that must stay free beside a backing file: the host's own metadata and our records.
const SPARE: u64 = 64 << 20;
/// One write while filling.
const CHUNK: usize = 4 << 20;

/// An open, unlinked backing file.
#[derive(Debug)]
pub struct BackingFile {
    /// The file.
    pub file: File,
    /// Which.
    pub identity: Identity,
    /// The name that it had; the kernel still shows it with the loop device.
    pub name: String,
    /// The folder that it is in.
    pub folder: PathBuf,
    /// Size in bytes.
    pub size: u64,
    /// How it is laid out.
    pub backing: Backing,
    /// Whether the file system that it is on takes direct I/O.
    pub direct: bool,
    /// Its place in the order of making.
    pub number: u64,
}

/// A page-aligned buffer for direct I/O.
pub struct Aligned {
    data: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    /// `len` zeroes on a page boundary.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        let data = vec![0u8; len + 4096];
        let start = data.as_ptr().align_offset(4096);
        Self { data, start, len }
    }

    /// The bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.data[self.start..self.start + self.len]
    }
}

impl BackingFile {
    /// Makes a file of `size` bytes in `folder`; a `written` one is filled with data that no layer
    /// can compress or recognise. The ledger has its name before it exists; the name is gone when
    /// this returns.
    ///
    /// # Errors
    /// A refusal: no room (with how much is needed), the folder cannot be written, stopped.
    pub fn make(
        ledger: &mut Ledger,
        folder: &Path,
        size: u64,
        backing: Backing,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&str, f64),
    ) -> Result<Self, Refused> {
        let place = folder;
        let fail = |error: io::Error| Refused::io("cannot make a backing file in", place, &error);
        room(folder, size, backing)?;
        let name = format!("fsdyno-{}.img", nonce().map_err(fail)?);
        let path = folder.join(&name);
        ledger.record(&Entry::File { path: path.clone(), made: None }).map_err(fail)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        // Not every file system takes direct I/O; the loop device tells later whether it is used.
        let (file, direct) = match options.clone().custom_flags(libc::O_DIRECT).open(&path) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                let _ = std::fs::remove_file(&path);
                (options.open(&path).map_err(fail)?, false)
            }
            other => (other.map_err(fail)?, true),
        };
        let identity = Identity::of(&file).map_err(fail)?;
        // The name goes at once: from here the file lives as long as we, or a loop device, hold it.
        std::fs::remove_file(&path).map_err(fail)?;
        let folder = folder.to_path_buf();
        let made = Self { file, identity, name, folder, size, backing, direct, number: 0 };
        keep_extents(&made.file);
        match backing {
            Backing::Sparse => ftruncate(&made.file, size).map_err(|e| fail(e.into()))?,
            Backing::Written => made.fill(stop, progress)?,
        }
        Ok(made)
    }

    fn fill(&self, stop: &AtomicBool, progress: &mut dyn FnMut(&str, f64)) -> Result<(), Refused> {
        let fail = |error: io::Error| match error.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => no_room(&self.folder, self.size, "it became full meanwhile"),
            _ => Refused::io("cannot fill a backing file in", &self.folder, &error),
        };
        // Asks for one allocation, so that extents are as large as the file system can make them;
        // where it cannot, writing allocates.
        match fallocate(&self.file, FallocateFlags::empty(), 0, self.size) {
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => {}
            Err(errno) => return Err(fail(errno.into())),
        }
        let mut buffer = Aligned::zeroed(CHUNK);
        let mut noise = self.identity.ino | 1;
        let mut at = 0;
        while at < self.size {
            if stop.load(Ordering::Relaxed) {
                return Err(Refused::environment("stopped while writing the backing file", "run it again"));
            }
            progress("writing backing file", at as f64 / self.size as f64);
            for word in buffer.bytes().chunks_exact_mut(8) {
                // xorshift64 (Marsaglia 2003).
                noise ^= noise << 13;
                noise ^= noise >> 7;
                noise ^= noise << 17;
                word.copy_from_slice(&noise.to_le_bytes());
            }
            let length = (self.size - at).min(CHUNK as u64) as usize;
            self.file.write_all_at(&buffer.bytes()[..length], at).map_err(fail)?;
            at += length as u64;
        }
        self.file.sync_all().map_err(fail)?;
        progress("writing backing file", 1.0);
        Ok(())
    }

    /// Bytes that the host's file system has allocated for it.
    ///
    /// # Errors
    /// Of `fstat(2)`.
    pub fn allocated(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.blocks() * 512)
    }
}

/// Asks a copy-on-write file system to write this file in place. Others refuse the flag and need none.
fn keep_extents(file: &File) {
    if let Ok(flags) = ioctl_getflags(file) {
        let _ = ioctl_setflags(file, flags | IFlags::NOCOW);
    }
}

/// Refuses when the folder's file system has no room for the file.
fn room(folder: &Path, size: u64, backing: Backing) -> Result<(), Refused> {
    let found = statvfs(folder).map_err(|errno| Refused::io("cannot look at", folder, &errno.into()))?;
    let free = found.f_bavail * found.f_frsize;
    if backing == Backing::Written && free < size + SPARE {
        return Err(no_room(folder, size, &format!("{} are free there", Bytes(free))));
    }
    Ok(())
}

fn no_room(folder: &Path, size: u64, found: &str) -> Refused {
    Refused::environment(
        format!(
            "{} has no room for a backing file of {} (and {} to spare): {found}",
            folder.display(),
            Bytes(size),
            Bytes(SPARE)
        ),
        "choose a smaller device size, make room, or choose another folder (`folder` of the device, or --work)",
    )
}

/// Zeroes the places where file systems, RAID and partition tables keep what they are known by: the
/// first and the last MiB, and the copies of btrfs at 64 MiB and 256 GiB. A device on which an
/// earlier trial left a file system then looks blank to mkfs and to the kernel.
///
/// # Errors
/// Of the device.
pub fn wipe_signatures(device: &File, size: u64) -> io::Result<()> {
    const MIB: u64 = 1 << 20;
    let mut zeroes = Aligned::zeroed(MIB as usize + 4096);
    let mut wipe = |start: u64, length: u64| match size.checked_sub(start) {
        Some(rest) if rest > 0 => device.write_all_at(&zeroes.bytes()[..rest.min(length) as usize], start),
        _ => Ok(()),
    };
    wipe(0, MIB)?;
    wipe(64 * MIB, 65536)?;
    wipe(256 << 30, 65536)?;
    wipe(size.saturating_sub(MIB) / 4096 * 4096, MIB + 4096)?;
    Ok(rustix::fs::fsync(device.as_fd())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_of_a_signature_is_zeroed_and_no_other() {
        const MIB: u64 = 1 << 20;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device");
        let size = 66 * MIB + 512;
        std::fs::write(&path, vec![0xff; size as usize]).unwrap();
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        wipe_signatures(&file, size).unwrap();
        let data = std::fs::read(&path).unwrap();
        assert_eq!(data.len() as u64, size);
        let byte = |at: u64| data[at as usize];
        // ext at 1 KiB, btrfs at 64 KiB and 64 MiB, md and swap and tables at the edges.
        for at in [0, 1080, 65536 + 64, MIB - 1, 64 * MIB + 64, size - MIB, size - 1] {
            assert_eq!(byte(at), 0, "{at}");
        }
        for at in [MIB, 32 * MIB, 64 * MIB - 1, 64 * MIB + 65536] {
            assert_eq!(byte(at), 0xff, "{at}");
        }
    }

    #[test]
    fn a_small_device_is_wiped_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device");
        std::fs::write(&path, vec![0xff; 300 << 10]).unwrap();
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        wipe_signatures(&file, 300 << 10).unwrap();
        assert!(std::fs::read(&path).unwrap().iter().all(|&b| b == 0));
    }

    #[test]
    fn a_file_that_is_filled_is_stopped_on_request_and_leaves_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let ledgers = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::create(ledgers.path(), "t").unwrap();
        let mut make = |stop: &AtomicBool, told: &mut dyn FnMut(&str, f64)| {
            BackingFile::make(&mut ledger, folder.path(), 8 << 20, Backing::Written, stop, told)
        };
        let stop = AtomicBool::new(true);
        let refused = make(&stop, &mut |_, _| ()).unwrap_err();
        assert!(refused.reason.message.contains("stopped"));
        let mut last = -1.0;
        let made = make(&AtomicBool::new(false), &mut |_, share| {
            assert!(share > last);
            last = share;
        })
        .unwrap();
        assert!((last - 1.0).abs() < f64::EPSILON && made.allocated().unwrap() >= 8 << 20);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

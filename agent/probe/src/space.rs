//! How full a mounted file system is, and into what pieces its free space fell. The kernel counts the first
//! by itself; the second it lists by FS_IOC_GETFSMAP where the driver can (ext4, XFS), reading what it has
//! not in memory. So the listing has a deadline, and says whether it was whole.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use fsdyno_spec::record::{FreePieces, Space};
use fsdyno_spec::units::Bytes;
use rustix::fs::{Mode, OFlags};

/// From this size on a piece counts as large: a write of 1 MiB fits without a seek.
const LARGE: u64 = 1 << 20;

/// Sizes and counts of the file system that `path` is on, without its pieces.
///
/// # Errors
/// If the path cannot be reached.
pub fn space(path: &Path) -> io::Result<Space> {
    let found = rustix::fs::statvfs(path)?;
    let bytes = |blocks: u64| Bytes(blocks.saturating_mul(found.f_frsize));
    Ok(Space {
        size: bytes(found.f_blocks),
        free: bytes(found.f_bfree),
        available: bytes(found.f_bavail),
        inodes: found.f_files,
        inodes_free: found.f_ffree,
        pieces: None,
    })
}

/// Pieces of free space on the device of the file system that `path` is on: all, or if the time does not
/// suffice those that begin each of [`REGIONS`] parts of it, since the start alone is no fair sample.
///
/// # Errors
/// `Unsupported` if the driver does not list them; else why they could not be listed, mostly
/// `PermissionDenied`.
pub fn free_pieces(path: &Path, time: Duration) -> io::Result<FreePieces> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    let device = device_number(rustix::fs::fstat(&file)?.st_dev);
    let part = space(path)?.size.0 / u64::from(REGIONS);
    let begin = Instant::now();
    let mut listing = Listing { file, device, buffer: Box::new(Map::default()) };
    let mut tally = Tally::default();
    let mut window = FIRST_WINDOW;
    let mut region = 0;
    let mut skipped = false;
    let mut at = 0u64;
    loop {
        let asked = Instant::now();
        let to = at.saturating_add(window);
        let mut seen = listing.list(at, to, RECORDS, &mut tally)?;
        if seen.is_none() {
            // A driver need not list what is not free: the next record is somewhere behind.
            seen = listing.list(to, u64::MAX, 1, &mut tally)?;
        }
        let Some(seen) = seen else {
            // Where there is no record any more the device is over.
            tally.whole = at > 0 && !skipped;
            break;
        };
        at = seen;
        while region < REGIONS && at >= part.saturating_mul(u64::from(region + 1)) {
            region += 1;
        }
        let spent = begin.elapsed();
        if spent >= time {
            break;
        }
        if region < REGIONS && spent >= time * (region + 1) / REGIONS {
            region += 1;
            skipped = true;
            at = part.saturating_mul(u64::from(region)).max(at);
        }
        // A call reads the free lists of its whole window, however slow the disk.
        window = match asked.elapsed() {
            quick if quick < time / 30 && seen >= to => (window * 2).min(part).max(FIRST_WINDOW),
            slow if slow > time / 8 => (window / 4).max(FIRST_WINDOW),
            _ => window,
        };
    }
    if at == 0 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(tally.finish())
}

/// What is asked for at first: two block groups of an ext4.
const FIRST_WINDOW: u64 = 256 << 20;

/// Parts of the device that each get their share of the time.
const REGIONS: u32 = 16;

/// A device number as the kernel's `new_encode_dev`: 12 bits of major between 20 of minor.
fn device_number(dev: u64) -> u32 {
    let (major, minor) = (rustix::fs::major(dev), rustix::fs::minor(dev));
    minor & 0xFF | major << 8 | (minor & !0xFF) << 12
}

/// Counts pieces that arrive in order, cut where a window ended.
#[derive(Debug, Default)]
struct Tally {
    pieces: FreePieces,
    whole: bool,
    /// The last piece, which may go on.
    start: u64,
    end: u64,
}

impl Tally {
    fn free(&mut self, start: u64, end: u64) {
        // A window may show again what reached into it.
        let start = start.max(self.end);
        if start >= end {
            return;
        }
        if start > self.end {
            self.count();
            self.start = start;
        }
        self.end = end;
    }

    fn count(&mut self) {
        let bytes = self.end - self.start;
        self.start = self.end;
        if bytes == 0 {
            return;
        }
        self.pieces.count += 1;
        self.pieces.bytes.0 += bytes;
        self.pieces.largest = self.pieces.largest.max(Bytes(bytes));
        if bytes >= LARGE {
            self.pieces.in_large.0 += bytes;
        }
    }

    fn finish(mut self) -> FreePieces {
        self.count();
        FreePieces { whole: self.whole, ..self.pieces }
    }
}

/// `struct fsmap` of `linux/fsmap.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Record {
    device: u32,
    flags: u32,
    physical: u64,
    owner: u64,
    offset: u64,
    length: u64,
    reserved: [u64; 3],
}

/// Records that one call may answer.
const RECORDS: usize = 512;

/// `struct fsmap_head` of `linux/fsmap.h`, with room for the answer.
#[repr(C)]
struct Map {
    iflags: u32,
    oflags: u32,
    count: u32,
    entries: u32,
    reserved: [u64; 6],
    keys: [Record; 2],
    records: [Record; RECORDS],
}

impl Default for Map {
    fn default() -> Self {
        let none = Record::default();
        Self {
            iflags: 0,
            oflags: 0,
            count: 0,
            entries: 0,
            reserved: [0; 6],
            keys: [none; 2],
            records: [none; RECORDS],
        }
    }
}

/// `_IOWR('X', 59, struct fsmap_head)`, where the head has 192 bytes without records.
const GETFSMAP: libc::Ioctl = 0xC0C0_583B_u32 as libc::Ioctl;
/// The owner is one of the special ones.
const SPECIAL: u32 = 0x10;
/// The special owner of free space.
const FREE: u64 = 1;

struct Listing {
    file: OwnedFd,
    device: u32,
    buffer: Box<Map>,
}

impl Listing {
    /// Counts the free pieces from `at` to `to`, or to where `count` records were seen. The end of the last
    /// one; none if there was none.
    fn list(&mut self, at: u64, to: u64, count: usize, tally: &mut Tally) -> io::Result<Option<u64>> {
        let high = u64::MAX;
        let map = &mut *self.buffer;
        map.count = count.min(RECORDS) as u32;
        map.entries = 0;
        map.keys = [
            Record { device: self.device, physical: at, ..Record::default() },
            Record {
                device: self.device,
                flags: u32::MAX,
                physical: to - 1,
                owner: high,
                offset: high,
                ..Record::default()
            },
        ];
        // SAFETY: the kernel reads the head and writes at most `count` records behind it, which the struct
        // has room for; the descriptor is open.
        let done = unsafe { libc::ioctl(self.file.as_raw_fd(), GETFSMAP, std::ptr::from_mut(map)) };
        if done != 0 {
            let error = io::Error::last_os_error();
            return Err(match error.raw_os_error() {
                Some(libc::ENOTTY | libc::EOPNOTSUPP | libc::ENOSYS) => io::ErrorKind::Unsupported.into(),
                _ => error,
            });
        }
        let mut seen = None;
        for record in map.records.iter().take(map.entries as usize) {
            let end = record.physical.saturating_add(record.length);
            if record.flags & SPECIAL != 0 && record.owner == FREE {
                tally.free(record.physical, end);
            }
            seen = seen.max(Some(end)).filter(|end| *end > at);
        }
        Ok(seen)
    }
}

#[cfg(test)]
#[path = "space_tests.rs"]
mod tests;

//! Loop devices by `LOOP_CONFIGURE`: one call that binds the file, sets the block size, direct I/O
//! and autoclear together, so that there is no moment at which the device is half made.
//!
//! The token in `lo_file_name` and the backing inode are the device's identity; its number is not.
//! Numbers are added to the kernel's pool by `LOOP_CTL_ADD`, so that no attribute which somebody
//! else set on a number (they survive a detach) reaches a trial, and ours reach nobody. They are
//! drawn at random from where nobody counts up to, so that the ledger can name one before it exists.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::sysfs;

/// Requests and flags of linux/loop.h.
const LOOP_CTL_ADD: libc::c_ulong = 0x4C80;
const LOOP_CTL_REMOVE: libc::c_ulong = 0x4C81;
const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
const LOOP_CLR_FD: libc::c_ulong = 0x4C01;
const LOOP_GET_STATUS64: libc::c_ulong = 0x4C05;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// `struct loop_info64`, linux/loop.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    sizelimit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`, linux/loop.h.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

const EMPTY: LoopInfo = LoopInfo {
    device: 0,
    inode: 0,
    rdevice: 0,
    offset: 0,
    sizelimit: 0,
    number: 0,
    encrypt_type: 0,
    encrypt_key_size: 0,
    flags: 0,
    file_name: [0; 64],
    crypt_name: [0; 64],
    encrypt_key: [0; 32],
    init: [0; 2],
};

/// What a bound loop device says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// `lo_file_name`.
    pub token: String,
    /// Device number of the backing file's file system.
    pub dev: u64,
    /// Inode of the backing file.
    pub ino: u64,
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn control(request: libc::c_ulong, argument: libc::c_long) -> io::Result<u32> {
    let file = OpenOptions::new().read(true).write(true).open("/dev/loop-control")?;
    // SAFETY: both requests take an integer and touch no memory of ours.
    let result = check(unsafe { libc::ioctl(file.as_raw_fd(), request as _, argument) })?;
    Ok(result as u32)
}

/// A number to [`add`]. The range leaves five bits for partitions (`max_part`) of 20-bit minors.
///
/// # Errors
/// Of `getrandom(2)`.
pub fn draw() -> io::Result<u32> {
    let mut bytes = [0u8; 4];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(1024 + u32::from_le_bytes(bytes) % 31_744)
}

/// Adds a number to the kernel's pool.
///
/// # Errors
/// `EEXIST` if there is one; others if there is no loop driver, or we may not.
pub fn add(number: u32) -> io::Result<()> {
    control(LOOP_CTL_ADD, number.into()).map(drop)
}

/// Takes a number out of the pool. The kernel refuses (`EBUSY`) while it is bound or open.
///
/// # Errors
/// `EBUSY`; `ENODEV` if there is none.
pub fn remove(number: u32) -> io::Result<()> {
    control(LOOP_CTL_REMOVE, number.into())?;
    // devtmpfs takes its node along; one made by `node` must go too.
    let path = path(number);
    let ours = fs::metadata(&path).is_ok_and(|m| m.file_type().is_block_device());
    if ours && sysfs::name_of(fs::metadata(&path)?.rdev()).is_err() {
        fs::remove_file(&path)?;
    }
    Ok(())
}

/// `/dev/loopN`.
#[must_use]
pub fn path(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/loop{number}"))
}

/// Whether the number is in the kernel's pool.
#[must_use]
pub fn exists(number: u32) -> bool {
    sysfs::class(&format!("loop{number}")).exists()
}

/// Whether a file is bound to the number.
#[must_use]
pub fn bound(number: u32) -> bool {
    sysfs::class(&format!("loop{number}")).join("loop").exists()
}

/// Opens the node, making it where /dev is no devtmpfs.
fn node(number: u32) -> io::Result<File> {
    let path = path(number);
    let open = || OpenOptions::new().read(true).write(true).open(&path);
    match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let device = sysfs::text(&sysfs::class(&format!("loop{number}")).join("dev"))?;
            let (major, minor) = device.split_once(':').ok_or(io::ErrorKind::InvalidData)?;
            let parse = |n: &str| n.parse::<u32>().map_err(|_| io::Error::from(io::ErrorKind::InvalidData));
            rustix::fs::mknodat(
                rustix::fs::CWD,
                &path,
                rustix::fs::FileType::BlockDevice,
                rustix::fs::Mode::from_raw_mode(0o600),
                rustix::fs::makedev(parse(major)?, parse(minor)?),
            )?;
            open()
        }
        other => other,
    }
}

/// Binds a file to a number. The device lives as long as the returned descriptor and whatever is
/// mounted from it (autoclear).
///
/// # Errors
/// `EBUSY` if somebody else bound the number first; others of the driver.
pub fn configure(number: u32, backing: &File, token: &str, block_size: u32) -> io::Result<File> {
    let device = node(number)?;
    let mut info = LoopInfo { flags: LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO, ..EMPTY };
    let token = token.as_bytes();
    assert!(token.len() < info.file_name.len(), "a token fits lo_file_name");
    info.file_name[..token.len()].copy_from_slice(token);
    let config = LoopConfig { fd: backing.as_raw_fd() as u32, block_size, info, reserved: [0; 8] };
    // SAFETY: the argument is a `struct loop_config` that lives during the call.
    check(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE as _, &raw const config) })?;
    Ok(device)
}

/// What the open loop device says of itself; none if nothing is bound.
///
/// # Errors
/// Of the driver.
pub fn status(device: &File) -> io::Result<Option<Status>> {
    let mut info = EMPTY;
    // SAFETY: the argument is a `struct loop_info64` that lives during the call.
    let result = check(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64 as _, &raw mut info) });
    match result {
        Ok(_) => {
            let end = info.file_name.iter().position(|&b| b == 0).unwrap_or(info.file_name.len());
            let token = String::from_utf8_lossy(&info.file_name[..end]).into_owned();
            Ok(Some(Status { token, dev: info.device, ino: info.inode }))
        }
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Unbinds an open loop device; if it is in use, when that ends.
///
/// # Errors
/// Of the driver.
pub fn clear(device: &File) -> io::Result<()> {
    // SAFETY: the request takes no argument.
    check(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CLR_FD as _, 0) }).map(drop)
}

/// Numbers with something bound whose backing file has this name (deleted or not). Only these are
/// opened and asked for their token: other people's devices are left alone.
#[must_use]
pub fn candidates(backing_name: &str) -> Vec<u32> {
    let numbers = sysfs::names_in(Path::new("/sys/block")).into_iter().filter_map(|name| {
        let number: u32 = name.strip_prefix("loop")?.parse().ok()?;
        let file = sysfs::text(&sysfs::class(&name).join("loop/backing_file")).ok()?;
        file.contains(backing_name).then_some(number)
    });
    numbers.collect()
}

/// Waits until nothing is bound to the number; false if something still is after `patience`.
#[must_use]
pub fn wait_unbound(number: u32, patience: Duration) -> bool {
    crate::patience::until(patience, || !bound(number))
}

/// A descriptor to the block device for direct I/O, apart from the one that keeps it alive.
pub fn open_direct(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(path)
}

/// `BLKDISCARD` of linux/fs.h over a range.
///
/// # Errors
/// `EOPNOTSUPP` where discards are not passed through.
pub fn discard(device: &File, start: u64, length: u64) -> io::Result<()> {
    const BLKDISCARD: libc::c_ulong = 0x1277;
    let range = [start, length];
    // SAFETY: the argument is two 64-bit numbers that live during the call.
    check(unsafe { libc::ioctl(device.as_raw_fd(), BLKDISCARD as _, &raw const range) }).map(drop)
}

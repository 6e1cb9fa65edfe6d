//! Tables of the device mapper, asked of the kernel (linux/dm-ioctl.h): `DM_TABLE_STATUS` with the flag
//! that asks for the table. It reads, and changes nothing; the kernel grants it to root only.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use crate::walk::table::Line;

/// `_IOWR(0xfd, 12, struct dm_ioctl)`.
const DM_TABLE_STATUS: libc::c_ulong = 0xC138_FD0C;

/// `DM_STATUS_TABLE_FLAG`: the table and not the state.
const TABLE: u32 = 1 << 4;

/// `DM_BUFFER_FULL_FLAG`: there is more than fits.
const FULL: u32 = 1 << 8;

/// `DM_NOFLUSH_FLAG`: no pool is made to write for the answer.
const NO_FLUSH: u32 = 1 << 11;

/// `DM_SECURE_DATA_FLAG`: the kernel wipes its own buffer behind itself too, as the table may have a key in it.
const SECURE: u32 = 1 << 15;

/// `struct dm_ioctl` and `struct dm_target_spec`, bytes.
const HEADER: usize = 312;
const SPEC: usize = 40;

/// Buffers tried, from a usual table to one of more segments than any volume has.
const FIRST: usize = 16 << 10;
const LAST: usize = 16 << 20;

/// The table of the mapped device of this number (`major:minor`).
///
/// # Errors
/// Of the control node, or that the answer cannot be read.
pub fn table(device: &str) -> io::Result<Vec<Line>> {
    let (major, minor) = numbers(device).ok_or(io::ErrorKind::InvalidInput)?;
    let control = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/mapper/control")?;
    let mut size = FIRST;
    loop {
        let mut buffer = request(size, rustix::fs::makedev(major, minor));
        // SAFETY: the argument begins with a `struct dm_ioctl` that tells the size of the buffer, which
        // lives during the call; the kernel writes no more than that.
        let result = unsafe { libc::ioctl(control.as_raw_fd(), DM_TABLE_STATUS as _, buffer.as_mut_ptr()) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        let full = number(&buffer, 28).is_some_and(|flags| flags & FULL != 0);
        let lines = if full { None } else { lines(&buffer) };
        // As the kernel does with its own.
        buffer.fill(0);
        std::hint::black_box(&buffer);
        match lines {
            Some(lines) => return Ok(lines),
            None if full && size < LAST => size *= 4,
            None => return Err(io::Error::new(io::ErrorKind::InvalidData, "the table cannot be read")),
        }
    }
}

fn numbers(device: &str) -> Option<(u32, u32)> {
    let (major, minor) = device.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// A buffer with the question in it.
fn request(size: usize, device: u64) -> Vec<u8> {
    let mut buffer = vec![0u8; size];
    let mut put = |at: usize, bytes: &[u8]| buffer[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &4u32.to_ne_bytes());
    put(12, &(size as u32).to_ne_bytes());
    put(16, &(HEADER as u32).to_ne_bytes());
    put(28, &(TABLE | NO_FLUSH | SECURE).to_ne_bytes());
    put(40, &device.to_ne_bytes());
    buffer
}

/// Reads an answer: after the header `data_start` bytes from the buffer's start, `target_count` times
/// { first sector u64, sectors u64, status i32, next u32, name 16 bytes, text ended by 0 }, where `next`
/// is the distance of the next one from `data_start`.
fn lines(buffer: &[u8]) -> Option<Vec<Line>> {
    let data = buffer.get(number(buffer, 16)? as usize..)?;
    let count = number(buffer, 20)?;
    let mut lines = Vec::new();
    let mut at = 0usize;
    for _ in 0..count {
        let spec = data.get(at..)?;
        let first = u64::from_ne_bytes(spec.get(0..8)?.try_into().ok()?);
        let length = u64::from_ne_bytes(spec.get(8..16)?.try_into().ok()?);
        let next = number(spec, 20)? as usize;
        let kind = text(spec.get(24..SPEC)?)?;
        let parameters = text(spec.get(SPEC..)?)?;
        lines.push(Line::of(first, length, kind, parameters)?);
        // Each must go on, so that no answer is read for ever.
        if next <= at && lines.len() < count as usize {
            return None;
        }
        at = next;
    }
    Some(lines)
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn text(bytes: &[u8]) -> Option<&str> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(&bytes[..end]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(targets: &[(u64, u64, &str, &str)]) -> Vec<u8> {
        let mut buffer = request(4096, 0);
        buffer[20..24].copy_from_slice(&(targets.len() as u32).to_ne_bytes());
        let mut at = HEADER;
        for (first, length, kind, parameters) in targets {
            buffer[at..at + 8].copy_from_slice(&first.to_ne_bytes());
            buffer[at + 8..at + 16].copy_from_slice(&length.to_ne_bytes());
            buffer[at + 24..at + 24 + kind.len()].copy_from_slice(kind.as_bytes());
            buffer[at + SPEC..at + SPEC + parameters.len()].copy_from_slice(parameters.as_bytes());
            let next = (at + SPEC + parameters.len() + 1).next_multiple_of(8);
            buffer[at + 20..at + 24].copy_from_slice(&((next - HEADER) as u32).to_ne_bytes());
            at = next;
        }
        buffer
    }

    #[test]
    fn an_answer_of_two_targets_is_read_in_order() {
        let found =
            lines(&answer(&[(0, 8192, "linear", "9:0 2304"), (8192, 8, "striped", "2 8 8:1 0 8:2 0")]));
        let found = found.unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!((found[1].start, found[1].kind.as_str()), (8192 * 512, "striped"));
        assert_eq!(lines(&answer(&[])), Some(Vec::new()));
    }

    #[test]
    fn an_answer_with_any_byte_changed_is_read_or_refused() {
        let good = answer(&[(0, 8192, "linear", "9:0 2304"), (8192, 8, "crypt", "aes - 0 8:1 0")]);
        for at in 0..HEADER + 160 {
            for byte in [0u8, 1, 0x7f, 0x80, 0xff] {
                let mut changed = good.clone();
                changed[at] = byte;
                let _ = lines(&changed);
            }
        }
        for end in 0..HEADER + 160 {
            assert_eq!(lines(&good[..end.min(HEADER + 30)]), None);
        }
    }

    #[test]
    fn the_number_of_the_request_is_that_of_the_header() {
        // _IOWR(type, number, size) of asm-generic/ioctl.h: both directions, 14 bits of size.
        assert_eq!(DM_TABLE_STATUS, (3 << 30) | ((HEADER as libc::c_ulong) << 16) | (0xfd << 8) | 12);
    }
}

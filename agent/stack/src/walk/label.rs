//! Physical volumes of LVM by what they have written in front of their data: where the data begins, and
//! the extent size and name of their group. The layout is that of `label_header`, `pv_header`,
//! `mda_header` and `raw_locn` in lib/label/label.h and lib/format_text/layout.h of LVM2; sums are those
//! of lib/misc/crc.c. Whatever stands there: what is not whole and proved by its sum is not told.

/// Bytes of the device from an offset; none if they cannot be read.
pub type Read<'a> = dyn FnMut(u64, usize) -> Option<Vec<u8>> + 'a;

/// Sector of everything here, bytes.
const SECTOR: u64 = 512;

/// Sectors that a label may be in.
const SECTORS: u64 = 4;

/// Areas in a list: LVM writes one or two.
const AREAS: usize = 16;

/// Longest metadata that is read: of several thousand volumes.
const TEXT: u64 = 1 << 20;

/// First value of LVM's sums.
const SUM: u32 = 0xf597_a6cf;

/// Mark of a metadata area.
const MAGIC: &[u8; 16] = b" LVM2 x[5A%r0N*>";

/// Flag of a text that another device has the valid one of.
const IGNORED: u32 = 1;

/// What a physical volume says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Physical {
    /// Where its data begins, bytes.
    pub start: u64,
    /// Its group; none if it is in none, or only other devices of the group say so.
    pub group: Option<Group>,
}

/// A group, as the metadata of one of its devices has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Name.
    pub name: String,
    /// Extent, bytes.
    pub extent: u64,
}

/// Reads it; none if the device is no physical volume.
pub fn physical(read: &mut Read<'_>) -> Option<Physical> {
    let front = read(0, (SECTORS * SECTOR) as usize)?;
    let sectors = front.chunks_exact(SECTOR as usize).zip(0u64..);
    let sector =
        sectors.filter(|(sector, number)| is_label(sector, *number)).map(|(sector, _)| sector).next()?;
    let header = sector.get(u32_at(sector, 20)? as usize..)?;
    // UUID of 32 bytes, size of the device, then both lists.
    let (data, behind) = areas(header, 40)?;
    let (metadata, _) = areas(header, behind)?;
    let group = metadata.into_iter().find_map(|area| group(area, read));
    Some(Physical { start: data.first()?.0, group })
}

/// `LABELONE`, the sector's own number, a sum over what follows it, where the contents begin, and the
/// type.
fn is_label(sector: &[u8], number: u64) -> bool {
    sector.get(..8) == Some(b"LABELONE")
        && u64_at(sector, 8) == Some(number)
        && sector.get(24..32) == Some(b"LVM2 001")
        && u32_at(sector, 16) == sector.get(20..).map(sum)
}

/// A list of offset and size, ended by zeros, and where it ends.
fn areas(header: &[u8], mut at: usize) -> Option<(Vec<(u64, u64)>, usize)> {
    let mut found = Vec::new();
    loop {
        let area = (u64_at(header, at)?, u64_at(header, at.checked_add(8)?)?);
        at = at.checked_add(16)?;
        if area.0 == 0 {
            return Some((found, at));
        }
        if found.len() == AREAS {
            return None;
        }
        found.push(area);
    }
}

/// The group that a metadata area tells of.
fn group((start, size): (u64, u64), read: &mut Read<'_>) -> Option<Group> {
    let header = read(start, SECTOR as usize)?;
    let whole = u32_at(&header, 0)? == sum(header.get(4..)?)
        && header.get(4..20)? == MAGIC
        && u32_at(&header, 20)? == 1
        && u64_at(&header, 24)? == start;
    let (offset, length) = (u64_at(&header, 40)?, u64_at(&header, 48)?);
    let (checked, flags) = (u32_at(&header, 56)?, u32_at(&header, 60)?);
    let fits =
        (SECTOR..size).contains(&offset) && (1..=TEXT.min(size.checked_sub(SECTOR)?)).contains(&length);
    if !whole || !fits || flags & IGNORED != 0 {
        return None;
    }
    // A ring: what does not fit before the area's end goes on behind its header.
    let first = length.min(size - offset);
    let mut text = read(start.checked_add(offset)?, first as usize)?;
    if first < length {
        text.extend(read(start.checked_add(SECTOR)?, (length - first) as usize)?);
    }
    (sum(&text) == checked).then(|| described(&String::from_utf8_lossy(&text)))?
}

/// A text begins with the group's name; its extent is in sectors.
fn described(text: &str) -> Option<Group> {
    let name = text.split_whitespace().next()?.to_string();
    let sectors = text.lines().find_map(|line| line.trim().strip_prefix("extent_size = "))?;
    let extent = sectors.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(SECTOR)?;
    (extent > 0).then_some(Group { name, extent })
}

/// The polynomial is that of Ethernet, its bits reversed; nothing is done to the result.
fn sum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(SUM, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg()))
    })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

#[cfg(test)]
#[path = "label_tests.rs"]
mod tests;

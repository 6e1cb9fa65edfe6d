//! The geometry of an array as file systems and volumes want to know it: the arithmetic, once. What a
//! plan declares of a hardware array, what fsdyno computes for its own, and what `align` advises for
//! either must be the same numbers.

use fsdyno_spec::array::Level;
use fsdyno_spec::outcome::Reason;
use fsdyno_spec::units::Bytes;

use crate::layout::Layout;

/// A sector as mkfs.xfs and the kernel count them, bytes.
const SECTOR: u64 = 512;

const MIB: u64 = 1 << 20;

/// LVM's own extent (lvm.conf(5), `allocation/physical_extent_size`).
pub const LVM_EXTENT: Bytes = Bytes::mib(4);

/// What the chunk of RAID 0 is a multiple of, and the least one of each level: a page.
const PAGE: u64 = 4 << 10;

/// Chunks that arrays have: from a page to what no array has had yet.
const CHUNKS: std::ops::RangeInclusive<u64> = PAGE..=1 << 30;

/// The most read-ahead that is advised, which a reader would fill memory with: many times what disks take at once.
pub const MOST_READ_AHEAD: Bytes = Bytes::mib(256);

/// A striped array as it looks from above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes on one member before the next one's turn.
    pub chunk: Bytes,
    /// Members' worth of data in one stripe: `optimal_io_size / minimum_io_size`.
    pub data_disks: u32,
}

/// Bytes from the start of a stripe (or chunk) below to where something above expects one, if byte `start` of
/// what is above is byte `offset` of what has the stripes: 0 where both beat together. `stripe` is in bytes
/// and not 0.
#[must_use]
pub fn off(start: u64, offset: u64, stripe: u64) -> u64 {
    let (start, offset) = (start % stripe, offset % stripe);
    if offset >= start { offset - start } else { stripe - (start - offset) }
}

impl Geometry {
    /// Geometry of an array of `members` disks (without spares) with `chunk` bytes on each in turn;
    /// `layout` as in [`fsdyno_spec::array::Array::layout`]. None where nothing is striped: RAID 1, and
    /// a single disk as RAID 0; their chunk, if any, means nothing.
    ///
    /// Data disks: RAID 0 all, RAID 5 all but one, RAID 6 all but two; RAID 10 what Linux announces
    /// (`raid10_nr_stripes` in `drivers/md/raid10.c`): members / near copies where that is whole, else
    /// members. Far and offset copies do not count there.
    ///
    /// # Errors
    /// What no such array can be: too few members, a chunk that is missing, out of range or no power of two (RAID 0:
    /// no multiple of 4 KiB), a layout that the level does not have, more copies than members.
    pub fn of(
        level: Level,
        members: u32,
        chunk: Option<Bytes>,
        layout: Option<&str>,
    ) -> Result<Option<Self>, Reason> {
        let layout = Layout::of(level, layout)?;
        let number = level.number();
        let least = match level {
            Level::Raid0 => 1,
            // Of RAID 5 with two members each is the other one's parity, which is a copy.
            Level::Raid1 | Level::Raid5 => 2,
            Level::Raid6 => 4,
            Level::Raid10 => layout.map_or(2, Layout::copies),
        };
        if members < least {
            let why = match layout {
                Some(layout) if layout.copies() > 1 => format!(" with the layout {}", layout.name()),
                _ => String::new(),
            };
            return Err(Reason::new(format!(
                "RAID {number}{why} needs {least} members at least, this one has {members}"
            ))
            .advise("give it more members, fewer copies, or another level"));
        }
        if level == Level::Raid1 || members == 1 {
            return Ok(None);
        }
        let Some(chunk) = chunk else {
            return Err(Reason::new(format!("RAID {number} without a chunk size has no geometry"))
                .advise("state `chunk`: the bytes on one member before the next one's turn"));
        };
        // `mddev->chunk_sectors` is divided by in drivers/md/raid0.c, and shifted by in the other levels.
        let (what, fits) = match level {
            Level::Raid0 => ("a multiple of 4 KiB up to 1 GiB", chunk.0.is_multiple_of(PAGE)),
            _ => ("a power of two from 4 KiB to 1 GiB", chunk.0.is_power_of_two()),
        };
        if !fits || !CHUNKS.contains(&chunk.0) {
            return Err(Reason::new(format!(
                "a chunk of {chunk} ({} bytes) cannot be: in RAID {number} it is {what}",
                chunk.0
            ))
            .advise("64 KiB to 512 KiB are usual; state the chunk of one member, not the whole stripe"));
        }
        let data_disks = match level {
            Level::Raid5 => members - 1,
            Level::Raid6 => members - 2,
            Level::Raid10 => match layout.map_or(1, Layout::near_copies) {
                near if members.is_multiple_of(near) => members / near,
                _ => members,
            },
            Level::Raid0 | Level::Raid1 => members,
        };
        Ok(Some(Self { chunk, data_disks }))
    }

    /// Bytes of data in one whole stripe: what one write must have, and start at a multiple of, for
    /// nothing to be read first.
    #[must_use]
    pub fn stripe(&self) -> Bytes {
        Bytes(self.chunk.0.saturating_mul(u64::from(self.data_disks)))
    }

    /// The chunk in file-system blocks of `block_size` bytes (mke2fs `stride`).
    ///
    /// # Errors
    /// If a block does not fit the chunk.
    pub fn stride(&self, block_size: u64) -> Result<u64, Reason> {
        self.in_units(block_size)
    }

    /// The stripe in file-system blocks of `block_size` bytes (mke2fs `stripe_width`, mount `stripe=`).
    ///
    /// # Errors
    /// If a block does not fit the chunk.
    pub fn stripe_width(&self, block_size: u64) -> Result<u64, Reason> {
        Ok(self.in_units(block_size)?.saturating_mul(u64::from(self.data_disks)))
    }

    /// The chunk in sectors of 512 bytes (mkfs.xfs and mount `sunit`).
    #[must_use]
    pub fn sunit(&self) -> u64 {
        self.chunk.0 / SECTOR
    }

    /// The stripe in sectors of 512 bytes (mkfs.xfs and mount `swidth`).
    #[must_use]
    pub fn swidth(&self) -> u64 {
        self.sunit().saturating_mul(u64::from(self.data_disks))
    }

    /// What the start of a partition is to be a multiple of: whole stripes for what is put on it, and whole
    /// MiB, to which partitioning tools round.
    #[must_use]
    pub fn data_alignment(&self) -> Bytes {
        Bytes(least_common_multiple(self.stripe().0, MIB))
    }

    /// The smallest extent of LVM that is whole stripes and not smaller than LVM's own of 4 MiB. Being whole
    /// MiB it is a multiple of 128 KiB, as LVM wants of one that is no power of two (vgcreate(8), `-s`).
    #[must_use]
    pub fn extent(&self) -> Bytes {
        let whole = self.data_alignment().0;
        Bytes(LVM_EXTENT.0.div_ceil(whole).saturating_mul(whole))
    }

    /// Read-ahead that keeps all data disks busy: two stripes, which md sets by itself
    /// (`blk_apply_bdi_limits` in `block/blk-settings.c`: twice `optimal_io_size`), but no more than
    /// [`MOST_READ_AHEAD`].
    #[must_use]
    pub fn read_ahead(&self) -> Bytes {
        Bytes(self.stripe().0.saturating_mul(2)).min(MOST_READ_AHEAD)
    }

    fn in_units(&self, block_size: u64) -> Result<u64, Reason> {
        if block_size == 0 || !self.chunk.0.is_multiple_of(block_size) {
            return Err(Reason::new(format!(
                "a chunk of {} is no multiple of a block of {block_size} bytes",
                self.chunk
            ))
            .advise("make `block_size` smaller, or the chunk larger"));
        }
        Ok(self.chunk.0 / block_size)
    }
}

fn least_common_multiple(a: u64, b: u64) -> u64 {
    let (mut divisor, mut rest) = (a, b);
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    (a / divisor.max(1)).saturating_mul(b)
}

#[cfg(test)]
#[path = "geometry_tests.rs"]
mod tests;

//! What is written: bytes that neither compress nor deduplicate, that cost next to nothing to make,
//! and that can be verified later from three numbers.
//!
//! The byte at `offset` of file `n` is that of a seeded pattern of 256 KiB, repeated (longer than
//! any extent that a file system compresses at once), except that the first 8 bytes of each
//! 512-byte sector hold `key(n) + sector × odd`: so no two sectors of a dataset are equal, whatever
//! the record size that they are written with, and a misplaced sector is found.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use fsdyno_spec::outcome::Reason;
use fsdyno_spec::workload::Dataset;

use crate::buffer::Buffer;
use crate::names::Layout;
use crate::order::{GOLDEN, Numbers, mix};

/// Length of the pattern.
pub(crate) const PERIOD: usize = 256 << 10;

/// Bytes that share a stamp.
const SECTOR: usize = 512;

/// Makes records of one dataset, for one thread.
#[derive(Debug)]
pub(crate) struct Content {
    seed: u64,
    buffer: Buffer,
}

impl Content {
    /// For records of up to `largest` bytes of a dataset.
    pub(crate) fn new(seed: u64, dataset: &str, largest: usize) -> Self {
        let seed = dataset.bytes().fold(mix(seed), |sum, byte| mix(sum ^ u64::from(byte)));
        let mut buffer = Buffer::new(PERIOD + largest + SECTOR);
        let mut numbers = Numbers::new(seed, 0);
        let (pattern, rest) = buffer.split_at_mut(PERIOD);
        for word in pattern.chunks_exact_mut(8) {
            word.copy_from_slice(&numbers.next().to_le_bytes());
        }
        for copy in rest.chunks_mut(PERIOD) {
            copy.copy_from_slice(&pattern[..copy.len()]);
        }
        Self { seed, buffer }
    }

    /// What the stamps of a file start from.
    #[inline]
    pub(crate) fn key(&self, file: u64) -> u64 {
        mix(self.seed ^ mix(file))
    }

    /// `length` bytes of the file with this key from `offset` on. `length` is at most `largest`.
    #[inline]
    pub(crate) fn record(&mut self, key: u64, offset: u64, length: usize) -> &[u8] {
        let start = offset as usize % PERIOD;
        let first = start - start % SECTOR;
        let mut stamp = key.wrapping_add((offset / SECTOR as u64).wrapping_mul(GOLDEN));
        for sector in self.buffer[first..start + length].chunks_mut(SECTOR) {
            let bytes = stamp.to_le_bytes();
            match sector.first_chunk_mut::<8>() {
                Some(place) => *place = bytes,
                None => sector.copy_from_slice(&bytes[..sector.len()]),
            }
            stamp = stamp.wrapping_add(GOLDEN);
        }
        &self.buffer[start..start + length]
    }

    /// Puts a record where the caller needs it.
    #[inline]
    pub(crate) fn copy(&mut self, key: u64, offset: u64, place: &mut [u8]) {
        place.copy_from_slice(self.record(key, offset, place.len()));
    }

    /// What making a record of this length costs, ns, with or without a copy: the best of some
    /// batches.
    pub(crate) fn cost(&mut self, length: usize, copied: bool) -> f64 {
        let calls = (16_384 / length.max(1)).clamp(4, 64);
        let mut place = vec![0; if copied { length } else { 0 }];
        let batch = |_| {
            let start = Instant::now();
            for call in 0..calls {
                if copied {
                    self.copy(black_box(call as u64), 0, black_box(&mut place));
                } else {
                    black_box(self.record(black_box(call as u64), 0, length));
                }
            }
            start.elapsed().as_nanos() as f64 / calls as f64
        };
        (0..3).map(batch).fold(f64::INFINITY, f64::min)
    }
}

/// Compares every byte of a dataset with what its phases must have written.
///
/// # Errors
/// The first file that is missing, of another size, or holds something else, and where.
pub fn verify(root: &Path, name: &str, dataset: &Dataset, seed: u64) -> Result<(), Reason> {
    const PIECE: u64 = 1 << 20;
    let layout = Layout::of(dataset);
    let mut content = Content::new(seed, name, PIECE as usize);
    let mut found = vec![0; PIECE as usize];
    for file in 0..dataset.files {
        let path = layout.path(root, name, file);
        let wrong = |what: String| Reason::new(format!("{}: {what}", path.display()));
        let open = File::open(&path).map_err(|e| wrong(e.to_string()))?;
        let size = open.metadata().map_err(|e| wrong(e.to_string()))?.len();
        if size != dataset.size.0 {
            return Err(wrong(format!("{size} bytes where the dataset says {}", dataset.size.0)));
        }
        let key = content.key(file);
        for offset in (0..size).step_by(PIECE as usize) {
            let length = PIECE.min(size - offset) as usize;
            open.read_exact_at(&mut found[..length], offset).map_err(|e| wrong(e.to_string()))?;
            let expected = content.record(key, offset, length);
            if let Some(at) = expected.iter().zip(&found).position(|(a, b)| a != b) {
                return Err(wrong(format!("other data than was written, from byte {}", offset + at as u64)));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// The definition, byte by byte.
    fn byte(content: &Content, pattern: &[u8], file: u64, offset: u64) -> u8 {
        let within = offset % 512;
        if within < 8 {
            let stamp = content.key(file).wrapping_add((offset / 512).wrapping_mul(GOLDEN));
            return stamp.to_le_bytes()[within as usize];
        }
        pattern[offset as usize % PERIOD]
    }

    #[test]
    fn a_byte_depends_on_seed_file_and_offset_and_not_on_the_record_it_came_in() {
        let pattern = Content::new(5, "small", 0).buffer[..PERIOD].to_vec();
        let mut content = Content::new(5, "small", 1 << 20);
        let mut numbers = Numbers::new(1, 1);
        for _ in 0..300 {
            let (file, offset) = (numbers.below(1000), numbers.below(3 << 20));
            let length = numbers.below(2000) as usize;
            let key = content.key(file);
            let record = content.record(key, offset, length).to_vec();
            for (at, &found) in record.iter().enumerate() {
                let at = offset + at as u64;
                assert_eq!(found, byte(&content, &pattern, file, at), "file {file}, byte {at}");
            }
        }
    }

    #[test]
    fn no_two_sectors_of_a_dataset_are_equal() {
        let mut content = Content::new(5, "small", 4096);
        let mut seen = HashSet::new();
        for file in 0..50 {
            let key = content.key(file);
            for offset in (0..2 << 20).step_by(4096) {
                for sector in content.record(key, offset, 4096).chunks(512) {
                    assert!(seen.insert(sector.to_vec()), "file {file} near {offset}");
                }
            }
        }
    }

    #[test]
    fn seeds_and_datasets_have_contents_of_their_own() {
        let of = |seed, name: &str| {
            let mut content = Content::new(seed, name, 512);
            let key = content.key(0);
            content.record(key, 0, 512).to_vec()
        };
        assert_ne!(of(1, "a"), of(2, "a"));
        assert_ne!(of(1, "a"), of(1, "b"));
        assert_eq!(of(1, "a"), of(1, "a"));
    }

    #[test]
    fn bytes_are_spread_evenly() {
        let mut content = Content::new(5, "small", PERIOD);
        let key = content.key(3);
        let mut counts = [0u32; 256];
        for &byte in content.record(key, 0, PERIOD) {
            counts[byte as usize] += 1;
        }
        // 1024 each with a standard deviation of 32; six of them.
        assert!(counts.iter().all(|n| n.abs_diff(1024) < 192), "{counts:?}");
    }
}

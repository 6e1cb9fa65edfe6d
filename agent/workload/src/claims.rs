//! What random I/O proves at the device. Buffered writes to one place reach the device once, and
//! buffered reads of one place come from it once, so only distinct records can be claimed. Which
//! these were is found after the clock has stopped, by drawing the same numbers again.

use fsdyno_spec::units::Bytes;
use fsdyno_spec::workload::Claim;

use crate::random::Draws;

/// Beyond so many records (a bitmap of 16 MiB each) nothing is claimed for buffered I/O.
const MOST_RECORDS: u64 = 1 << 27;

/// The claim of buffered operations: for each worker its draws from the start and their number.
pub(crate) fn distinct(workers: impl Iterator<Item = (Draws, u64)>, records: u64, record: u64) -> Claim {
    if records > MOST_RECORDS {
        return Claim::default();
    }
    let mut read = Bits::new(records);
    let mut written = Bits::new(records);
    for (mut draws, count) in workers {
        for _ in 0..count {
            let draw = draws.draw();
            let set = if draw.write { &mut written } else { &mut read };
            set.insert(draws.place(&draw));
        }
    }
    // What was also written may have been read from memory.
    let from_device =
        read.words.iter().zip(&written.words).map(|(r, w)| u64::from((r & !w).count_ones())).sum::<u64>();
    let to_device = written.words.iter().map(|w| u64::from(w.count_ones())).sum::<u64>();
    Claim { read: Bytes(from_device * record), written: Bytes(to_device * record), ..Claim::default() }
}

struct Bits {
    words: Vec<u64>,
}

impl Bits {
    fn new(length: u64) -> Self {
        Self { words: vec![0; length.div_ceil(64) as usize] }
    }

    fn insert(&mut self, place: u64) {
        self.words[(place / 64) as usize] |= 1 << (place % 64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn only_distinct_records_are_claimed_and_none_that_were_written_as_read() {
        let draws = |worker| Draws::new(9, worker, 3, 50, 40);
        let (mut read, mut written) = (HashSet::new(), HashSet::new());
        for worker in 0..2 {
            let mut draws = draws(worker);
            for _ in 0..100 {
                let draw = draws.draw();
                let set = if draw.write { &mut written } else { &mut read };
                set.insert((draw.file, draw.record));
            }
        }
        let claim = distinct((0..2).map(|w| (draws(w), 100)), 150, 4096);
        assert_eq!(claim.written, Bytes(written.len() as u64 * 4096));
        assert_eq!(claim.read, Bytes(read.difference(&written).count() as u64 * 4096));
        assert!(claim.read.0 > 0 && claim.written.0 > 0);
    }

    #[test]
    fn what_cannot_be_known_is_not_claimed() {
        let workers = std::iter::once((Draws::new(9, 0, 1, MOST_RECORDS + 1, 0), 10));
        assert_eq!(distinct(workers, MOST_RECORDS + 1, 1), Claim::default());
    }
}

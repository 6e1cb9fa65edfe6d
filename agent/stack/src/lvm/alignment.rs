//! How a volume lies against stripes: a file system puts what should begin a stripe at multiples of the
//! stripe from its first byte, which is right only where each piece of the volume keeps that beat.

use fsdyno_filesystems::off;

use crate::lvm::report::Segment;

/// A volume against the stripes that count for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alignment {
    /// Bytes of a stripe.
    pub stripe: u64,
    /// Bytes from the start of a stripe to where the volume has one: of the first piece that is off.
    pub off: u64,
}

impl Alignment {
    /// Of all pieces of one volume. `below` is the stripe of the devices, if they have one: it counts for
    /// linear pieces. A striped volume brings its own, which begins anew with each piece.
    #[must_use]
    pub fn of(segments: &[&Segment], below: Option<u64>) -> Option<Self> {
        let mut found: Option<Self> = None;
        for segment in segments {
            let own = segment.stripe_size * segment.on.len() as u64;
            let offsets: Vec<(u64, u64)> = match (own, below) {
                (0, None | Some(0)) => Vec::new(),
                (0, Some(stripe)) => {
                    let off = |offset: u64| off(segment.start, offset, stripe);
                    segment.on.iter().map(|(_, offset)| (stripe, off(*offset))).collect()
                }
                (own, _) => vec![(own, segment.start % own)],
            };
            for (stripe, off) in offsets {
                if found.is_none_or(|found| found.off == 0 && off > 0) {
                    found = Some(Self { stripe, off });
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(start: u64, stripe_size: u64, offsets: &[u64]) -> Segment {
        Segment {
            volume: "x".into(),
            volume_size: 0,
            kind: String::new(),
            stripe_size,
            start,
            size: 0,
            on: offsets.iter().map(|offset| ("/dev/x".to_string(), *offset)).collect(),
        }
    }

    fn off(segments: &[Segment], below: Option<u64>) -> Option<(u64, u64)> {
        let all: Vec<_> = segments.iter().collect();
        Alignment::of(&all, below).map(|found| (found.stripe, found.off))
    }

    #[test]
    fn every_piece_counts_not_only_the_first() {
        let first = piece(0, 0, &[1200]);
        assert_eq!(off(std::slice::from_ref(&first), Some(300)), Some((300, 0)));
        // Byte 900 of the volume begins a stripe for the file system, but lies 100 behind one.
        assert_eq!(off(&[first.clone(), piece(900, 0, &[3100])], Some(300)), Some((300, 100)));
        // Its own start is off, and so is its place in the volume: both by as much.
        assert_eq!(off(&[first, piece(1000, 0, &[3100])], Some(300)), Some((300, 0)));
    }

    #[test]
    fn without_stripes_there_is_nothing_to_be_off() {
        assert_eq!(off(&[piece(0, 0, &[1234])], None), None);
        assert_eq!(off(&[], Some(300)), None);
    }

    #[test]
    fn a_striped_volume_is_measured_by_its_own_stripes() {
        assert_eq!(off(&[piece(0, 64, &[7, 9])], Some(300)), Some((128, 0)));
        assert_eq!(off(&[piece(0, 64, &[7, 9, 11]), piece(256, 64, &[1, 2, 3])], None), Some((192, 64)));
    }
}

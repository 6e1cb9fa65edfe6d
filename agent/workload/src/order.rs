//! Seeded choices that cost a few nanoseconds and no memory: random numbers, and permutations that
//! are computed instead of stored.

/// 2^64 divided by the golden ratio, odd: consecutive multiples are spread evenly.
pub(crate) const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// A bijection of 64-bit numbers that scatters neighbours.
/// Source: D. Stafford's variant 13 of MurmurHash3's finaliser, as SplitMix64 uses it.
#[inline]
pub(crate) const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Random numbers. Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
/// OOPSLA 2014 (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Numbers(u64);

impl Numbers {
    /// The stream number `stream` of a seed.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self(mix(seed ^ mix(stream.wrapping_add(GOLDEN))))
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// Uniform below `limit`, by multiplication instead of division; the bias is below
    /// `limit / 2^64`.
    #[inline]
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }
}

/// A seeded permutation of `0..length`, computed.
///
/// Each step below is a bijection of `bits`-bit numbers: adding, multiplying by an odd number, and
/// xor with a right shift. Results outside the range are sent through again until they fall inside
/// (cycle walking), which keeps it a bijection of the range and takes less than two turns on average.
#[derive(Clone, Debug)]
pub(crate) struct Permutation {
    length: u64,
    mask: u64,
    shift: u32,
    keys: [u64; 3],
}

impl Permutation {
    pub(crate) fn new(length: u64, seed: u64) -> Self {
        let bits = u64::BITS - length.saturating_sub(1).leading_zeros();
        let mask = if bits == 0 { 0 } else { u64::MAX >> (u64::BITS - bits) };
        let mut numbers = Numbers::new(seed, length);
        let keys = std::array::from_fn(|_| numbers.next());
        Self { length, mask, shift: (bits / 2).max(1), keys }
    }

    /// Where `index` goes. Requires `index < length`.
    #[inline]
    pub(crate) fn at(&self, index: u64) -> u64 {
        debug_assert!(index < self.length);
        let mut x = index;
        loop {
            for key in self.keys {
                x = x.wrapping_add(key).wrapping_mul(GOLDEN) & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.length {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_reaches_everything_once() {
        for length in (1..200).chain([255, 256, 257, 1000, 4096, 99_999]) {
            for seed in 0..3 {
                let permutation = Permutation::new(length, seed);
                let mut seen = vec![false; length as usize];
                for index in 0..length {
                    let place = permutation.at(index) as usize;
                    assert!(!std::mem::replace(&mut seen[place], true), "{place} twice in {length}");
                }
            }
        }
    }

    #[test]
    fn a_permutation_depends_on_its_seed_and_leaves_no_neighbours() {
        let order = |seed| (0..1000).map(|i| Permutation::new(1000, seed).at(i)).collect::<Vec<_>>();
        assert_ne!(order(1), order(2));
        assert_eq!(order(1), order(1));
        let neighbours = order(1).windows(2).filter(|w| w[0].abs_diff(w[1]) == 1).count();
        assert!(neighbours < 20, "{neighbours} of 999"); // about 2 are expected by chance
    }

    #[test]
    fn numbers_below_a_limit_are_uniform() {
        let mut numbers = Numbers::new(7, 0);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[numbers.below(10) as usize] += 1;
        }
        // Standard deviation is 95; five of them.
        assert!(counts.iter().all(|&n| n.abs_diff(10_000) < 475), "{counts:?}");
    }

    #[test]
    fn streams_of_one_seed_differ() {
        assert_ne!(Numbers::new(7, 0).next(), Numbers::new(7, 1).next());
        assert_ne!(Numbers::new(7, 0).next(), Numbers::new(8, 0).next());
    }
}

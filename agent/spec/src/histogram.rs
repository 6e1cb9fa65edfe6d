//! Latency histograms as they travel.
//!
//! Bins are fio's layout, so that json+ imports merge exactly: 64 sub-buckets per octave, the
//! first 128 values exact, error below 1/128. Bin `i < 128` holds the value `i`; else with
//! `e = (i >> 6) - 1` it holds `[(64 + (i & 63)) << e, (65 + (i & 63)) << e)`. fio prints the
//! midpoint of a bin as its key. Source: fio `stat.h` and `stat.c` (`plat_idx_to_val`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sub-buckets per octave.
pub const SUB_BUCKETS: usize = 64;

/// Number of bins: 29 groups of 64, up to 2^34 ns (17 s); anything longer counts in the last bin.
pub const BINS: usize = 29 * SUB_BUCKETS;

/// A latency distribution in nanoseconds. Only bins that hold something are sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Histogram {
    /// Number of values.
    pub count: u64,
    /// Sum of the values, ns.
    pub sum: u64,
    /// Smallest value, ns (0 when empty).
    pub min: u64,
    /// Largest value, ns (0 when empty).
    pub max: u64,
    /// Pairs of bin index and count, ascending.
    pub bins: Vec<(u32, u64)>,
}

/// The bin of a value in nanoseconds.
#[inline]
#[must_use]
pub const fn bin_of(ns: u64) -> usize {
    if ns < 128 {
        return ns as usize;
    }
    let exponent = ns.ilog2() as usize - 6;
    let bin = (exponent + 1) * SUB_BUCKETS + ((ns >> exponent) as usize & (SUB_BUCKETS - 1));
    if bin < BINS { bin } else { BINS - 1 }
}

/// The lowest value of a bin, ns.
#[must_use]
pub const fn lower_edge(bin: usize) -> u64 {
    if bin < 128 {
        return bin as u64;
    }
    let exponent = (bin >> 6) - 1;
    ((SUB_BUCKETS + (bin & (SUB_BUCKETS - 1))) as u64) << exponent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bin_begins_where_the_last_one_ended() {
        for bin in 1..BINS {
            assert_eq!(bin_of(lower_edge(bin)), bin);
            assert_eq!(bin_of(lower_edge(bin) - 1), bin - 1);
        }
    }

    #[test]
    fn a_bin_is_narrower_than_one_part_in_sixty_four() {
        for bin in 128..BINS - 1 {
            let width = lower_edge(bin + 1) - lower_edge(bin);
            assert!(width * 64 <= lower_edge(bin));
        }
    }

    #[test]
    fn the_longest_wait_is_counted_last() {
        assert_eq!(bin_of(u64::MAX), BINS - 1);
    }

    #[test]
    fn agrees_with_fios_own_arithmetic() {
        // fio: idx 128..191 have base 1<<7, step 2; key = base + (k + 0.5) * 2.
        assert_eq!(lower_edge(128), 128);
        assert_eq!(lower_edge(129), 130);
        assert_eq!(lower_edge(192), 256);
    }
}

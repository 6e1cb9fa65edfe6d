//! Does the kernel confirm what a workload says it did?
//!
//! A workload claims bytes and inodes; the leaves' counters and `statfs` are asked. A shortfall
//! makes the numbers doubtful: either the work did not reach the device, or the cache was not cold.
//! So does far more than was claimed, on a device that others use too.

use fsdyno_spec::event::DeviceCounts;
use fsdyno_spec::outcome::{Doubt, Flag};
use fsdyno_spec::units::Bytes;
use fsdyno_spec::workload::Claim;

/// Counters may fall short of the claim by this part: a workload that runs for a time may end
/// with its last operations completed but not yet counted.
const TOLERANCE: f64 = 0.02;

/// On a shared device, up to twice the claim (a journal writes data twice) and this much more is the
/// trial's own.
const SHARED_ALLOWANCE: u64 = 64 << 20;

/// Direct writes dirty no page cache. This share of the written pages proves that they went through
/// it after all; host-wide noise stays well below.
const BUFFERED: f64 = 0.5;

/// With fewer fsyncs than this, an array's flushes for its own records could pass for theirs.
const OWN_RECORDS: u64 = 32;

/// What was seen while a workload ran.
pub struct Seen<'a> {
    /// Counters of the leaves; empty where there is no device.
    pub leaves: &'a [DeviceCounts],
    /// Whether others may use the leaves too: an existing directory, a real disk.
    pub shared: bool,
    /// Whether nothing of the data was in memory when the phase began.
    pub cold: bool,
    /// Change in the number of inodes in use; none where the file system does not count them.
    pub inodes: Option<i64>,
    /// Pages dirtied on this host, by anybody.
    pub pages_dirtied: u64,
    /// Whether the file system may send no flush: barriers are off, or it has none.
    pub no_flushes: bool,
    /// Flushes of the members below an array or a volume, that of the most; none where the file system lies
    /// on the leaf itself.
    pub below: Option<u64>,
    /// Operations of the workload that a barrier would have ended with a flush.
    pub fsyncs: u64,
}

/// Doubts about a claim.
pub fn judge(claim: &Claim, seen: &Seen<'_>) -> Vec<Flag> {
    let mut flags = Vec::new();
    if !seen.leaves.is_empty() {
        let read = seen.leaves.iter().map(|l| l.read_bytes.0).sum::<u64>();
        let written = seen.leaves.iter().map(|l| l.write_bytes.0).sum::<u64>();
        if claim.direct && short(read, claim.read.0) {
            flags.push(Flag::new(Doubt::Unproven, said("read directly", claim.read, read)));
        } else if seen.cold && short(read, claim.read.0) {
            flags.push(Flag::new(Doubt::NotCold, said("read from a cold cache", claim.read, read)));
        }
        if short(written, claim.written.0) {
            flags.push(Flag::new(Doubt::Unproven, said("wrote", claim.written, written)));
        }
        let (moved, claimed) = (read + written, claim.read.0 + claim.written.0);
        if seen.shared && moved > claimed.saturating_mul(2).saturating_add(SHARED_ALLOWANCE) {
            let (moved, claimed) = (Bytes(moved), Bytes(claimed));
            let reason = format!("the device moved {moved} where the workload asked for {claimed} at most");
            flags.push(Flag::new(Doubt::ForeignIo, reason));
        }
        let dirtied = seen.pages_dirtied.saturating_mul(rustix::param::page_size() as u64);
        if claim.direct && claim.written.0 > 0 && dirtied as f64 > claim.written.0 as f64 * BUFFERED {
            let reason = format!(
                "{} were written directly, but {} of page cache were dirtied: the file system buffered them",
                claim.written,
                Bytes(dirtied)
            );
            flags.push(Flag::new(Doubt::Unproven, reason));
        }
    }
    let flushes = seen.leaves.iter().map(|leaf| leaf.flushes).sum::<u64>();
    if seen.no_flushes && seen.below.is_none() && flushes > 0 {
        let reason = format!("there are no barriers, but the device counted {flushes} flushes");
        flags.push(Flag::new(Doubt::Unproven, reason));
    }
    // What lies between flushes for its own records too, but far more seldom than at each fsync.
    if let Some(below) = seen.below.filter(|below| *below >= seen.fsyncs)
        && seen.no_flushes
        && seen.fsyncs >= OWN_RECORDS
    {
        let reason = format!(
            "there are no barriers, but a member counted {below} flushes while the workload asked for {} fsyncs",
            seen.fsyncs
        );
        flags.push(Flag::new(Doubt::Unproven, reason));
    }
    match seen.inodes {
        Some(change) if change != claim.inodes => flags.push(Flag::new(
            Doubt::Unproven,
            format!(
                "the workload changed the number of inodes by {}, the file system by {change}",
                claim.inodes
            ),
        )),
        _ => {}
    }
    flags
}

fn short(counted: u64, claimed: u64) -> bool {
    (counted as f64) < claimed as f64 * (1.0 - TOLERANCE)
}

fn said(did: &str, claimed: Bytes, counted: u64) -> String {
    format!("the workload {did} {claimed}, the device counted {}", Bytes(counted))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: Seen<'static> = Seen {
        leaves: &[],
        shared: false,
        cold: false,
        inodes: None,
        pages_dirtied: 0,
        no_flushes: false,
        below: None,
        fsyncs: 0,
    };

    fn leaf(read: u64, written: u64) -> Vec<DeviceCounts> {
        vec![DeviceCounts {
            device: "loop0".into(),
            read_bytes: Bytes(read),
            write_bytes: Bytes(written),
            ..DeviceCounts::default()
        }]
    }

    fn claim(read: u64, written: u64, direct: bool) -> Claim {
        Claim { read: Bytes(read), written: Bytes(written), direct, inodes: 0 }
    }

    fn doubts(claim: &Claim, leaves: &[DeviceCounts], cold: bool) -> Vec<Doubt> {
        judge(claim, &Seen { leaves, cold, ..SEEN }).iter().map(|f| f.doubt).collect()
    }

    #[test]
    fn direct_reads_must_be_seen_by_the_device() {
        assert_eq!(doubts(&claim(1000, 0, true), &leaf(900, 0), false), [Doubt::Unproven]);
        assert!(doubts(&claim(1000, 0, true), &leaf(1000, 0), false).is_empty());
    }

    #[test]
    fn buffered_reads_need_no_device_unless_the_cache_was_cold() {
        assert!(doubts(&claim(1000, 0, false), &leaf(0, 0), false).is_empty());
        assert_eq!(doubts(&claim(1000, 0, false), &leaf(0, 0), true), [Doubt::NotCold]);
    }

    #[test]
    fn what_was_written_must_have_arrived() {
        assert_eq!(doubts(&claim(0, 1000, false), &leaf(0, 10), false), [Doubt::Unproven]);
        assert!(doubts(&claim(0, 1000, false), &leaf(0, 1200), false).is_empty());
    }

    #[test]
    fn without_a_device_there_is_nothing_to_prove() {
        assert!(doubts(&claim(1000, 1000, true), &[], true).is_empty());
    }

    #[test]
    fn without_barriers_no_flush_reaches_the_device() {
        let doubts = |no_flushes, flushes| {
            let leaves = [DeviceCounts { flushes, ..DeviceCounts::default() }];
            let flags = judge(&Claim::default(), &Seen { leaves: &leaves, no_flushes, ..SEEN });
            flags.iter().map(|f| f.doubt).collect::<Vec<_>>()
        };
        assert_eq!(doubts(true, 1), [Doubt::Unproven]);
        assert!(doubts(true, 0).is_empty() && doubts(false, 9).is_empty());
    }

    #[test]
    fn members_of_an_array_flush_for_its_records_but_not_at_each_fsync() {
        let flags = |no_flushes, below, fsyncs| {
            judge(&Claim::default(), &Seen { no_flushes, below, fsyncs, ..SEEN }).len()
        };
        assert_eq!(flags(true, Some(1000), 1000), 1);
        assert_eq!(flags(true, Some(40), 1000), 0, "its own records");
        assert_eq!(flags(true, Some(12), 10), 0, "too few to tell");
        assert_eq!(flags(false, Some(1000), 1000), 0, "with barriers they are due");
    }

    #[test]
    fn inodes_must_agree_where_they_are_counted() {
        let claim = Claim { inodes: 10, ..Claim::default() };
        let seen = |inodes| Seen { inodes, ..SEEN };
        assert_eq!(judge(&claim, &seen(Some(9))).len(), 1);
        assert!(judge(&claim, &seen(Some(10))).is_empty());
        assert!(judge(&claim, &seen(None)).is_empty());
    }

    #[test]
    fn direct_writes_that_dirty_the_page_cache_were_buffered() {
        let leaves = leaf(0, 1 << 20);
        let doubts = |direct, pages_dirtied| {
            let flags = judge(&claim(0, 1 << 20, direct), &Seen { leaves: &leaves, pages_dirtied, ..SEEN });
            flags.iter().map(|f| f.doubt).collect::<Vec<_>>()
        };
        assert_eq!(doubts(true, 256), [Doubt::Unproven]);
        assert!(doubts(true, 20).is_empty());
        assert!(doubts(false, 256).is_empty());
    }

    #[test]
    fn a_shared_device_that_moves_far_more_than_asked_is_busy_with_others() {
        let doubts = |shared, written| {
            let leaves = leaf(0, written);
            let flags = judge(&claim(0, 1 << 20, false), &Seen { leaves: &leaves, shared, ..SEEN });
            flags.iter().map(|f| f.doubt).collect::<Vec<_>>()
        };
        assert_eq!(doubts(true, 100 << 20), [Doubt::ForeignIo]);
        assert!(doubts(true, 60 << 20).is_empty());
        assert!(doubts(false, 100 << 20).is_empty());
    }
}

//! Counters of block devices (`/sys/class/block/X/stat`), and which disk lies under a file.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use fsdyno_spec::event::DeviceCounts;
use fsdyno_spec::units::Bytes;

/// The unit of sectors in `stat`, whatever the device's own block size.
/// Source: Linux `Documentation/block/stat.rst`.
const SECTOR: u64 = 512;

/// Counters of one device since it exists; none if it does not.
pub(super) fn counts(device: &str) -> Option<DeviceCounts> {
    parse(device, &fs::read_to_string(format!("/sys/class/block/{device}/stat")).ok()?)
}

/// Fields in order: reads, read merges, read sectors, read ms, the same four of writes, in flight,
/// busy ms, queue ms, the four of discards, flushes, flush ms. Discards came with Linux 4.18 and
/// flushes with 5.5; missing ones are 0.
fn parse(device: &str, stat: &str) -> Option<DeviceCounts> {
    let fields: Vec<u64> = stat.split_ascii_whitespace().map(|f| f.parse().ok()).collect::<Option<_>>()?;
    let field = |index: usize| fields.get(index).copied().unwrap_or(0);
    (fields.len() >= 11).then(|| DeviceCounts {
        device: device.to_string(),
        reads: field(0),
        read_bytes: Bytes(field(2) * SECTOR),
        writes: field(4),
        write_bytes: Bytes(field(6) * SECTOR),
        discards: field(11),
        discard_bytes: Bytes(field(13) * SECTOR),
        flushes: field(15),
        merges: field(1) + field(5) + field(12),
        busy_ms: field(9),
    })
}

/// Differences of the devices that are in both lists.
pub(super) fn differences(before: &[DeviceCounts], after: &[DeviceCounts]) -> Vec<DeviceCounts> {
    let of = |a: &DeviceCounts| before.iter().find(|b| b.device == a.device).map(|b| difference(b, a));
    after.iter().filter_map(of).collect()
}

fn difference(before: &DeviceCounts, after: &DeviceCounts) -> DeviceCounts {
    let bytes = |a: Bytes, b: Bytes| Bytes(a.0.saturating_sub(b.0));
    DeviceCounts {
        device: after.device.clone(),
        reads: after.reads.saturating_sub(before.reads),
        read_bytes: bytes(after.read_bytes, before.read_bytes),
        writes: after.writes.saturating_sub(before.writes),
        write_bytes: bytes(after.write_bytes, before.write_bytes),
        discards: after.discards.saturating_sub(before.discards),
        discard_bytes: bytes(after.discard_bytes, before.discard_bytes),
        flushes: after.flushes.saturating_sub(before.flushes),
        merges: after.merges.saturating_sub(before.merges),
        busy_ms: after.busy_ms.saturating_sub(before.busy_ms),
    }
}

/// Kernel name of the whole disk under the file system that holds `path`. None where no single
/// block device does: memory, overlay, network, or a file system with devices of its own.
#[must_use]
pub fn backing_disk(path: &Path) -> Option<String> {
    disk_of(fs::metadata(path).ok()?.dev())
}

/// Kernel name of the whole disk of a device number (`st_dev`): a partition's is its parent's.
#[must_use]
pub fn disk_of(device: u64) -> Option<String> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let node = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    let disk = if node.join("partition").exists() { node.parent()? } else { &node };
    Some(disk.file_name()?.to_str()?.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = " 1 2 3 4 5 6 7 8 0 10 11 12 13 14 15 16 17\n";

    #[test]
    fn each_field_of_stat_is_where_the_kernel_puts_it() {
        let found = parse("sda", STAT).expect("17 fields");
        let expected = DeviceCounts {
            device: "sda".into(),
            reads: 1,
            read_bytes: Bytes(3 * 512),
            writes: 5,
            write_bytes: Bytes(7 * 512),
            discards: 12,
            discard_bytes: Bytes(14 * 512),
            flushes: 16,
            merges: 2 + 6 + 13,
            busy_ms: 10,
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn an_old_kernel_counts_no_flushes_and_nonsense_is_no_device() {
        assert_eq!(parse("sda", "1 2 3 4 5 6 7 8 0 10 11").map(|c| c.flushes), Some(0));
        assert_eq!(parse("sda", ""), None);
        assert_eq!(parse("sda", "a b c"), None);
    }

    #[test]
    fn only_devices_seen_twice_have_a_difference() {
        let (a, mut b) = (parse("a", STAT).expect("a"), parse("b", STAT).expect("b"));
        b.reads = 10;
        let later = vec![DeviceCounts { reads: 4, ..a.clone() }, b];
        let found = differences(std::slice::from_ref(&a), &later);
        assert_eq!(found, vec![DeviceCounts { device: "a".into(), reads: 3, ..DeviceCounts::default() }]);
    }

    #[test]
    fn memory_has_no_disk_and_a_disk_has_counters() {
        assert_eq!(backing_disk(Path::new("/proc")), None);
        if let Some(disk) = backing_disk(Path::new("/")) {
            assert!(counts(&disk).is_some(), "{disk}");
        }
    }
}

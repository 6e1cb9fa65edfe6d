//! Whether barriers are on is told by what the kernel shows, however they were turned off.

use fsdyno_filesystems::{BarrierOff, Barriers, TABLE, find};

fn of(name: &str, super_options: &str, write_through: bool) -> Barriers {
    find(name).expect("a row").barriers(super_options, "rw,relatime", write_through)
}

#[test]
fn each_way_to_turn_them_off_is_seen() {
    for (name, shown) in [
        ("ext2", "rw,nobarrier"),
        ("ext3", "rw,barrier=0"),
        ("ext4", "rw,nobarrier,stripe=64"),
        ("btrfs", "rw,nobarrier,space_cache=v2"),
        ("reiserfs", "rw,barrier=none"),
        ("nilfs2", "rw,nobarrier"),
        ("f2fs", "rw,fsync_mode=nobarrier"),
        ("f2fs", "rw,nobarrier,fsync_mode=posix"),
    ] {
        assert_eq!(of(name, shown, false), Barriers::Off, "{name}: {shown}");
    }
}

#[test]
fn a_queue_that_is_write_through_gets_no_flush() {
    for name in ["ext4", "xfs", "ntfs"] {
        assert_eq!(of(name, "rw", true), Barriers::Off, "{name}");
    }
}

#[test]
fn what_has_none_cannot_have_them_off() {
    for name in ["jfs", "tmpfs"] {
        assert_eq!([of(name, "rw", false), of(name, "rw", true)], [Barriers::None; 2], "{name}");
    }
}

#[test]
fn they_are_on_where_nothing_says_otherwise() {
    for fs in TABLE.iter().filter(|fs| fs.flushes && fs.disk.is_some()) {
        let shown = "rw,barrier,barrier=flush,barrier=1,fsync_mode=posix,nobarriers";
        assert_eq!(fs.barriers(shown, "rw,relatime", false), Barriers::On, "{}", fs.name);
        if let Some(BarrierOff::MountOption(words)) = fs.barrier_off {
            assert!(!words.is_empty(), "{}: nothing would ever show that they are off", fs.name);
        }
    }
}

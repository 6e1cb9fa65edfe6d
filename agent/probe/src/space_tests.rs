//! The kernel's listing against the file systems' own tools, on free space that was torn on purpose.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::*;

#[test]
fn pieces_that_a_window_cut_are_one() {
    let mut tally = Tally::default();
    for (start, end) in [(0, 4096), (4096, 8192), (4096, 8192), (16384, LARGE + 16384), (6 << 20, 6 << 20)] {
        tally.free(start, end);
    }
    let pieces = tally.finish();
    assert_eq!((pieces.count, pieces.bytes), (2, Bytes(8192 + LARGE)));
    assert_eq!((pieces.largest, pieces.in_large), (Bytes(LARGE), Bytes(LARGE)));
    assert!(!pieces.whole);
}

#[test]
fn sizes_are_those_of_statvfs_and_what_lists_no_pieces_says_so() {
    let space = space(Path::new("/proc")).expect("/proc");
    assert_eq!((space.size, space.pieces), (Bytes(0), None));
    assert!(super::space(Path::new("/does not exist")).is_err());
    let refused = free_pieces(Path::new("/proc"), Duration::from_secs(1)).expect_err("nothing to list");
    assert_eq!(refused.kind(), io::ErrorKind::Unsupported);
}

/// A mounted file system on a sparse file; gone when dropped.
struct Torn {
    folder: tempfile::TempDir,
}

impl Torn {
    /// Made by this command line, filled with files of 24 KiB, of which every second one was deleted; none
    /// where that is not possible, with a visible line.
    fn new(mkfs: &str, mib: u64) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let torn = Self { folder };
        fs::File::create(torn.image()).and_then(|file| file.set_len(mib << 20)).expect("a sparse file");
        fs::create_dir(torn.point()).expect("a mount point");
        let (image, point) = (torn.image(), torn.point());
        let command = format!("{mkfs} {0} && mount -o loop {0} {1}", image.display(), point.display());
        if let Err(why) = shell(&command) {
            eprintln!("SKIPPED: {why}");
            return None;
        }
        for n in 0..600 {
            fs::write(torn.point().join(format!("file{n}")), [7; 24 << 10]).expect("a file");
        }
        sync(&torn.point());
        for n in (0..600).step_by(2) {
            fs::remove_file(torn.point().join(format!("file{n}"))).expect("deleted");
        }
        // What the allocator keeps back for open files is given back at an unmount.
        torn.unmount();
        shell(&format!("mount -o loop {} {}", image.display(), point.display())).expect("mounted again");
        Some(torn)
    }

    fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    fn point(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }

    fn unmount(&self) {
        let _ = shell(&format!("umount {} 2>&1", self.point().display()));
    }
}

impl Drop for Torn {
    fn drop(&mut self) {
        self.unmount();
    }
}

fn sync(point: &Path) {
    let file = fs::File::open(point).expect("the mount point");
    rustix::fs::syncfs(file).expect("written");
}

fn shell(command: &str) -> Result<String, String> {
    let output = Command::new("/bin/sh").args(["-c", command]).output().expect("a shell");
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{command}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// Counts pieces of blocks as a tool lists them.
fn count(mut blocks: Vec<(u64, u64)>, size: u64) -> FreePieces {
    blocks.sort_unstable();
    let mut tally = Tally { whole: true, ..Tally::default() };
    for (first, length) in blocks {
        tally.free(first * size, (first + length) * size);
    }
    tally.finish()
}

#[test]
fn ext4_lists_what_dumpe2fs_lists() {
    // More than two windows, and small groups whose free space is one piece beyond their ends.
    let mkfs = "mke2fs -q -F -t ext4 -b 4096 -E lazy_itable_init=0,lazy_journal_init=0";
    let Some(torn) = Torn::new(mkfs, 700) else { return };
    let pieces = free_pieces(&torn.point(), Duration::from_secs(60)).expect("listed");
    let free = space(&torn.point()).expect("statvfs").free;
    assert!(pieces.whole && pieces.count > 200, "{pieces:?}");
    torn.unmount();
    let told = shell(&format!("dumpe2fs {} 2>/dev/null", torn.image().display())).expect("dumpe2fs");
    let ranges = told.lines().filter_map(|line| line.strip_prefix("  Free blocks: "));
    let number = |text: &str| text.trim().parse::<u64>().expect("a block");
    let blocks =
        ranges.flat_map(|line| line.split(',')).filter(|range| !range.trim().is_empty()).map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            (number(first), number(last) + 1 - number(first))
        });
    assert_eq!(pieces, count(blocks.collect(), 4096));
    assert_eq!(pieces.bytes, free, "the listing has every free block");
}

#[test]
fn xfs_lists_what_its_free_space_trees_have() {
    let Some(torn) = Torn::new("mkfs.xfs -q -f", 1400) else { return };
    let pieces = free_pieces(&torn.point(), Duration::from_secs(60)).expect("listed");
    assert!(pieces.whole && pieces.count > 200, "{pieces:?}");
    torn.unmount();
    let image = torn.image();
    let field = |place: &str, name: &str| {
        let told =
            shell(&format!("xfs_db -r -c '{place}' -c 'p {name}' {}", image.display())).expect("xfs_db");
        told.rsplit('=').next().and_then(|text| text.trim().parse::<u64>().ok()).expect("a number")
    };
    let (agblocks, size) = (field("sb 0", "agblocks"), field("sb 0", "blocksize"));
    let told = shell(&format!("xfs_db -r -c 'freesp -d' {}", image.display())).expect("xfs_db");
    let mut listed: Vec<(u64, u64, u64)> = told
        .lines()
        .skip(1)
        .map_while(|line| {
            let mut numbers = line.split_whitespace().map(|word| word.parse().ok());
            Some((numbers.next()??, numbers.next()??, numbers.next()??))
        })
        .collect();
    // First of each group it lists the blocks that are kept for the group's own trees: no free space.
    for group in 0..field("sb 0", "agcount") {
        let first = listed.iter().position(|(of, ..)| *of == group).expect("each group has some");
        listed.drain(first..first + field(&format!("agf {group}"), "flcount") as usize);
    }
    let blocks = listed.into_iter().map(|(group, first, length)| (group * agblocks + first, length));
    assert_eq!(pieces, count(blocks.collect(), size));
}

#[test]
fn time_that_is_over_makes_the_listing_a_part_that_is_true() {
    // Sixteen parts of less than a window each, so that each is begun.
    let Some(torn) = Torn::new("mke2fs -q -F -t ext4 -b 4096", 3000) else { return };
    let all = free_pieces(&torn.point(), Duration::from_secs(60)).expect("listed");
    assert!(all.whole);
    for micros in [0, 10, 100, 300, 1000, 3000, 10_000, 100_000] {
        let part = free_pieces(&torn.point(), Duration::from_micros(micros)).expect("the first window");
        assert!(part.bytes <= all.bytes && part.largest <= all.largest, "{micros}: {part:?}, {all:?}");
        assert!(part.in_large <= all.in_large, "{micros}: {part:?}, {all:?}");
        assert_eq!(part.whole, part == all, "{micros}: {part:?}, {all:?}");
        assert!(micros > 0 || !part.whole, "no time: {part:?}");
    }
}

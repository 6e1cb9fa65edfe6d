//! A damaged medium is an error or strange facts, never a panic and never an endless read.

mod common;

use std::io::{Cursor, Read};

use common::{given, make};
use fsdyno_filesystems::{TABLE, probe};
use fsdyno_spec::units::Bytes;
use serde_json::json;

/// A small generator (xorshift64*): the same mutations at each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

#[test]
fn mutated_superblocks_never_panic() {
    let mut random = Random(0x5EED);
    for fs in TABLE.iter().filter(|fs| fs.disk.is_some()) {
        let options = fs.options(&given(json!({}))).expect("no options");
        let Some(image) = make(fs, &options, Bytes::mib(320)) else { continue };
        let mut bytes = Vec::new();
        image.open().take(32 << 20).read_to_end(&mut bytes).expect("the image");
        let whole = fs.superblock(&mut Cursor::new(&bytes)).expect("not yet damaged");
        assert_eq!(whole.uuid, fs.identity_of(&image.uuid));
        let mut refused = 0;
        for _ in 0..3000 {
            let mut touched = Vec::new();
            for _ in 0..=random.below(8) {
                // Where the structures are: ext, nilfs2 and f2fs at 1 KiB, xfs and ntfs at 0, btrfs and reiserfs
                // at 64 KiB, jfs at 32 KiB; the record of an ntfs volume at 19 KiB.
                let base = [0, 1024, 65536, 32768, 19456][random.below(5) as usize];
                let at = (base + random.below(1024)) as usize;
                touched.push((at, bytes[at]));
                bytes[at] = [0, 0xFF, random.next() as u8][random.below(3) as usize];
            }
            refused += u32::from(fs.superblock(&mut Cursor::new(&bytes)).is_err());
            let _ = (fs.upkeep(&mut Cursor::new(&bytes)), probe(&mut Cursor::new(&bytes)));
            for (at, byte) in touched.into_iter().rev() {
                bytes[at] = byte;
            }
        }
        assert!(refused > 0, "{}: no damage was ever noticed", fs.name);
        for length in [0, 1, 511, 1024, 1500, 65536, 66000, 69632] {
            let _ = fs.superblock(&mut Cursor::new(&bytes[..length]));
        }
        assert!(fs.superblock(&mut Cursor::new(&bytes[..511])).is_err(), "{}", fs.name);
    }
}

#[test]
fn noise_is_no_file_system() {
    let mut random = Random(7);
    let noise: Vec<u8> = (0..80 << 10).map(|_| random.next() as u8).collect();
    for fs in TABLE.iter().filter(|fs| fs.disk.is_some()) {
        let reason = fs.superblock(&mut Cursor::new(&noise)).expect_err("noise");
        assert!(reason.message.contains("superblock"), "{reason:?}");
    }
}

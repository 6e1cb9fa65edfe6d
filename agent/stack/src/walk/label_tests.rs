//! Physical volumes written by hand, whole and broken.

use super::*;

const GROUP: &str = "vg_data {\nid = \"x\"\nseqno = 3\nextent_size = 8192\t\t# 4 Megabytes\nmax_lv = 0\n}\n";

/// Where its parts are: the metadata area (offset, size), where the text begins in it, the data.
const AREA: (u64, u64) = (4096, 4096);
const DATA: u64 = 1152 << 10;

fn put(device: &mut [u8], at: u64, bytes: &[u8]) {
    device[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
}

/// The first 8 KiB of a device with a label in `sector` and a text at `offset` of its area.
fn device(sector: u64, offset: u64, flags: u32) -> Vec<u8> {
    let mut device = vec![0u8; 8192];
    let at = sector * 512;
    put(&mut device, at, b"LABELONE");
    put(&mut device, at + 8, &sector.to_le_bytes());
    put(&mut device, at + 20, &32u32.to_le_bytes());
    put(&mut device, at + 24, b"LVM2 001");
    put(&mut device, at + 32, &[b'u'; 32]);
    put(&mut device, at + 64, &(1u64 << 30).to_le_bytes());
    put(&mut device, at + 72, &DATA.to_le_bytes());
    put(&mut device, at + 104, &AREA.0.to_le_bytes());
    put(&mut device, at + 112, &AREA.1.to_le_bytes());
    let text = GROUP.as_bytes();
    let before_end = text.len().min((AREA.1 - offset) as usize);
    put(&mut device, AREA.0 + offset, &text[..before_end]);
    put(&mut device, AREA.0 + 512, &text[before_end..]);
    put(&mut device, AREA.0 + 4, MAGIC);
    put(&mut device, AREA.0 + 20, &1u32.to_le_bytes());
    put(&mut device, AREA.0 + 24, &AREA.0.to_le_bytes());
    put(&mut device, AREA.0 + 32, &AREA.1.to_le_bytes());
    put(&mut device, AREA.0 + 40, &offset.to_le_bytes());
    put(&mut device, AREA.0 + 48, &(text.len() as u64).to_le_bytes());
    put(&mut device, AREA.0 + 56, &sum(text).to_le_bytes());
    put(&mut device, AREA.0 + 60, &flags.to_le_bytes());
    seal(&mut device, sector);
    device
}

/// Puts the sums of label and area right.
fn seal(device: &mut [u8], sector: u64) {
    let at = sector as usize * 512;
    let label = sum(&device[at + 20..at + 512]);
    put(device, sector * 512 + 16, &label.to_le_bytes());
    let area = sum(&device[AREA.0 as usize + 4..AREA.0 as usize + 512]);
    put(device, AREA.0, &area.to_le_bytes());
}

fn read(device: &[u8]) -> Option<Physical> {
    physical(&mut |at, length| {
        assert!(length <= TEXT as usize, "{length} bytes are too many to ask for");
        let at = usize::try_from(at).ok()?;
        device.get(at..at.checked_add(length)?).map(<[u8]>::to_vec)
    })
}

fn whole() -> Option<Physical> {
    Some(Physical { start: DATA, group: Some(Group { name: "vg_data".into(), extent: 4 << 20 }) })
}

#[test]
fn a_physical_volume_tells_where_its_data_begins_and_its_groups_extent() {
    for sector in 0..4 {
        assert_eq!(read(&device(sector, 512, 0)), whole());
    }
    assert_eq!(read(&[0; 8192]), None);
    assert_eq!(read(&[]), None);
}

#[test]
fn a_text_may_go_on_behind_the_header_of_its_area() {
    assert_eq!(read(&device(1, AREA.1 - 20, 0)), whole());
}

#[test]
fn where_another_device_has_the_text_only_the_start_is_known() {
    assert_eq!(read(&device(1, 512, IGNORED)), Some(Physical { start: DATA, group: None }));
}

#[test]
fn one_changed_byte_is_seen_by_the_sums() {
    let good = device(1, 512, 0);
    for at in [512 + 30, 512 + 75] {
        let mut changed = good.clone();
        changed[at] ^= 1;
        assert_eq!(read(&changed), None, "byte {at} of the label");
    }
    for at in [4096 + 50, 4096 + 512 + 40] {
        let mut changed = good.clone();
        changed[at] ^= 1;
        assert_eq!(read(&changed), Some(Physical { start: DATA, group: None }), "byte {at} of the area");
    }
}

#[test]
fn whatever_stands_there_with_right_sums_gives_something_or_nothing() {
    // A small generator, always the same: splitmix64.
    let mut state = 1u64;
    let mut random = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let good = device(1, AREA.1 - 20, 0);
    let mut survived = 0;
    for _ in 0..4_000 {
        let mut changed = good.clone();
        for _ in 0..1 + random() % 4 {
            // In the label, in the header of the area, or in the text behind it.
            let at = match random() % 3 {
                0 => 512 + random() % 160,
                1 => 4096 + random() % 64,
                _ => 4608 + random() % 80,
            };
            let byte = [0, 1, 0x7f, 0x80, 0xff, random() as u8][(random() % 6) as usize];
            changed[at as usize] = byte;
        }
        seal(&mut changed, 1);
        survived += usize::from(read(&changed).is_some());
    }
    assert!(survived > 0, "the sums were not put right: nothing behind them was tried");
}

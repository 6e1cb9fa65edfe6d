//! Leaves of a machine that was booted for trials: virtio disks on images that the rig made and gave to
//! it. They are known by their serial, which starts with [`SERIAL`], and by nothing else: a disk of
//! another serial is somebody's.

use std::io;
use std::path::Path;
use std::time::Duration;

use fsdyno_spec::outcome::Outcome;
use fsdyno_spec::trial::FileDevice;
use serde_json::json;

use crate::backing::wipe_signatures;
use crate::disk::open_exclusive;
use crate::failure::{Failure, Refused};
use crate::patience;
use crate::rig::Rig;
use crate::settings::{self, DISK_KEEPS, DISK_NEEDS, Facts};
use crate::sysfs::{self, BlockDevice};

/// How the serial of a disk begins that the rig gave for trials; its number follows.
pub const SERIAL: &str = "fsdyno-";

/// How long the kernel may take to end its own use of a disk.
const VANISHING: Duration = Duration::from_secs(5);

/// A disk that this machine was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// Number in its serial: the order in which they are used.
    pub number: u32,
    /// The device.
    pub device: BlockDevice,
}

/// The number in a serial of ours. The kernel may pad what it shows.
fn number(serial: &str) -> Option<u32> {
    serial.trim().strip_prefix(SERIAL)?.parse().ok()
}

/// All disks that this machine was given, in the order of their numbers.
pub fn given() -> Vec<Given> {
    let names = sysfs::names_in(Path::new("/sys/block")).into_iter().filter(|name| name.starts_with("vd"));
    let mut found: Vec<_> = names
        .filter_map(|name| {
            let number = number(&sysfs::text(&sysfs::class(&name).join("serial")).ok()?)?;
            let device = BlockDevice::open(&Path::new("/dev").join(&name)).ok()?;
            Some(Given { number, device: BlockDevice { ours: true, ..device } })
        })
        .collect();
    found.sort_by_key(|given| given.number);
    found
}

/// The first disk of the wanted size and block size that is not `used` (kernel names).
fn choose<'a>(given: &'a [Given], spec: &FileDevice, used: &[String]) -> Option<&'a Given> {
    given.iter().find(|given| {
        let BlockDevice { size, logical_block_size, kernel_name, .. } = &given.device;
        (*size, *logical_block_size) == (spec.size, spec.logical_block_size) && !used.contains(kernel_name)
    })
}

/// Takes a disk for a trial that has `used` others already: blank, with its queue as the first trial in
/// this machine found it; with its facts.
///
/// # Errors
/// `Environment` if there is none, or it does not do as it should.
pub fn take(rig: &mut Rig, spec: &FileDevice, used: &[String]) -> Result<(BlockDevice, Facts), Refused> {
    let given = given();
    let Some(Given { number, device }) = choose(&given, spec, used) else {
        let message = format!(
            "this machine was given no (other) disk of {} with blocks of {}",
            spec.size, spec.logical_block_size
        );
        return Err(Refused::environment(message, "boot it with a disk for each device of the stack"));
    };
    let name = &device.kernel_name;
    let found = rig.attached.entry(name.clone()).or_insert_with(|| {
        let value = |attribute: &&'static str| Some((*attribute, settings::get(name, attribute).ok()?));
        DISK_KEEPS.iter().filter_map(value).collect()
    });
    let found: Vec<_> = found.iter().map(|(attribute, value)| (*attribute, value.as_str())).collect();
    settings::assert_all(name, &found)?;
    settings::assert_all(name, &DISK_NEEDS)?;
    // The image below is not to be punched, whatever the machine that made this disk allows.
    if settings::get(name, "discard_max_bytes").is_ok_and(|bytes| bytes != "0") {
        settings::put(name, "discard_max_bytes", "0")?;
    }
    let io = |error: io::Error| Refused::io("cannot prepare", &device.path, &error);
    let raw = open_exclusive(device).map_err(io)?;
    wipe_signatures(&raw, device.size.0).map_err(io)?;
    let facts = Facts::from([
        ("kind".to_string(), json!("attached")),
        ("path".to_string(), json!(device.path)),
        ("kernel_name".to_string(), json!(name)),
        ("serial".to_string(), json!(format!("{SERIAL}{number}"))),
        ("size".to_string(), json!(device.size)),
        ("logical_block_size".to_string(), json!(device.logical_block_size)),
        ("backing".to_string(), json!(spec.backing)),
        ("discards_passed".to_string(), json!(false)),
    ]);
    Ok((device.clone(), facts))
}

/// Sees that nobody holds a disk any more when a trial ends: something of ours that could not be undone
/// would be below the next trial.
///
/// # Errors
/// `TeardownFailed`, if somebody does.
pub fn let_go(device: &BlockDevice) -> Result<(), Failure> {
    let mut last = Ok(());
    patience::until(VANISHING, || {
        last = open_exclusive(device).map(drop);
        last.is_ok()
    });
    last.map_err(|error| {
        let message = format!("{} is still in use: {error}", device.path.display());
        Failure::new(Outcome::TeardownFailed, message, "boot this machine again")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_spec::trial::Backing;
    use fsdyno_spec::units::Bytes;

    fn disk(number: u32, mib: u64, block: u64) -> Given {
        let kernel_name = format!("vd{}", (b'a' + number as u8) as char);
        let path = Path::new("/dev").join(&kernel_name);
        let (size, logical_block_size) = (Bytes::mib(mib), Bytes(block));
        Given { number, device: BlockDevice { path, kernel_name, size, logical_block_size, ours: true } }
    }

    #[test]
    fn disks_are_taken_in_the_order_of_their_numbers_and_each_once() {
        let given = [disk(0, 64, 4096), disk(1, 64, 512), disk(2, 128, 512), disk(3, 64, 512)];
        let wanted = |mib, block| FileDevice {
            size: Bytes::mib(mib),
            backing: Backing::Written,
            logical_block_size: Bytes(block),
            folder: None,
            count: 1,
        };
        let chosen = |spec: &FileDevice, used: &[&str]| {
            let used: Vec<_> = used.iter().map(ToString::to_string).collect();
            choose(&given, spec, &used).map(|given| given.number)
        };
        assert_eq!(chosen(&wanted(64, 512), &[]), Some(1));
        assert_eq!(chosen(&wanted(64, 512), &["vdb"]), Some(3));
        assert_eq!(chosen(&wanted(64, 512), &["vdb", "vdd"]), None);
        assert_eq!(chosen(&wanted(64, 4096), &[]), Some(0));
    }

    #[test]
    fn only_a_serial_of_ours_with_a_number_counts() {
        assert_eq!(number("fsdyno-12"), Some(12));
        assert_eq!(number("fsdyno-3\n"), Some(3));
        for foreign in ["", "fsdyno-", "fsdyno-x", "xfsdyno-1", "QEMU0001"] {
            assert_eq!(number(foreign), None, "{foreign}");
        }
    }
}

//! A leaf on a file of ours: a loop device with direct I/O to its file, which discards do not reach.

use std::fs::File;
use std::io;
use std::time::Duration;

use fsdyno_spec::event::Refusal;
use fsdyno_spec::trial::FileDevice;
use fsdyno_spec::units::Bytes;
use serde_json::json;

use crate::backing::{BackingFile, wipe_signatures};
use crate::failure::{Failure, Refused};
use crate::identity::nonce;
use crate::ledger::{Entry, Ledger};
use crate::loopdev;
use crate::rig::Rig;
use crate::settings::{self, Facts, LOOP_DEFAULTS};
use crate::sysfs::{self, BlockDevice};

/// How long a loop device may take to let its file go.
const AUTOCLEAR: Duration = Duration::from_secs(5);

/// A bound loop device; it lives as long as `held` is open.
#[derive(Debug)]
pub struct Looped {
    /// The device.
    pub device: BlockDevice,
    /// Its file.
    pub backing: BackingFile,
    number: u32,
    held: File,
}

/// A loop device is not what was asked for, or there is none.
fn fail(error: io::Error) -> Refused {
    Refused::environment(
        format!("cannot make a loop device: {error}"),
        "the kernel needs the loop driver (5.8 or later), and the agent CAP_SYS_ADMIN",
    )
}

/// Refuses sizes that no device can have.
///
/// # Errors
/// `BadRequest` with what would do.
pub fn check(spec: &FileDevice) -> Result<(), Refused> {
    let block = spec.logical_block_size.0;
    let possible = block.is_power_of_two() && (512..=65536).contains(&block);
    if possible && spec.size.0 > 0 && spec.size.0.is_multiple_of(block.max(4096)) {
        return Ok(());
    }
    Err(Refused::new(
        Refusal::BadRequest,
        format!("a device of {} cannot have blocks of {}", spec.size, spec.logical_block_size),
        "use 512 or 4096 byte blocks and a size that is a multiple of 4 KiB",
    ))
}

impl Looped {
    /// Binds a file to a loop device and makes it look as each trial is to find it; with its facts.
    ///
    /// # Errors
    /// A refusal; then nothing of it stands.
    pub fn build(
        rig: &mut Rig,
        ledger: &mut Ledger,
        trial: &str,
        spec: &FileDevice,
        progress: &mut dyn FnMut(&str, f64),
    ) -> Result<(Self, Facts), Refused> {
        check(spec)?;
        let (backing, reused) = rig.take_file(ledger, spec, progress)?;
        let prefix: String = trial.chars().take(36).collect();
        let token = nonce().map(|nonce| format!("fsdyno:{prefix}:{nonce}")).map_err(fail)?;
        let entry =
            Entry::Loop { token: token.clone(), backing: backing.identity, name: backing.name.clone() };
        ledger.record(&entry).map_err(fail)?;
        let (number, held) = bind(rig, &backing, &token, spec.logical_block_size.0 as u32).map_err(fail)?;
        let device = match BlockDevice::open(&loopdev::path(number)) {
            Ok(device) => BlockDevice { ours: true, ..device },
            Err(error) => {
                drop(held);
                rig.give_number(number);
                return Err(fail(error));
            }
        };
        let leaf = Self { device, backing, number, held };
        match leaf.prepare(spec, reused, &token) {
            Ok(facts) => Ok((leaf, facts)),
            Err(refused) => {
                // What resists is in the ledger, and the refusal says more.
                let _ = leaf.let_go(rig);
                Err(refused)
            }
        }
    }

    /// Sees that it is the device asked for, resets its queue and makes it blank.
    fn prepare(&self, spec: &FileDevice, reused: bool, token: &str) -> Result<Facts, Refused> {
        let (device, backing) = (&self.device, &self.backing);
        let identity = backing.identity;
        let status = loopdev::status(&self.held).map_err(fail)?;
        let ours = status.is_some_and(|s| s.token == token && s.dev == identity.dev && s.ino == identity.ino);
        if !ours || device.size != spec.size || device.logical_block_size != spec.logical_block_size {
            return Err(fail(io::Error::other("the kernel made another device than asked for")));
        }
        settings::assert_all(&device.kernel_name, &LOOP_DEFAULTS)?;
        let raw = loopdev::open_direct(&device.path).map_err(fail)?;
        let before = backing.allocated().map_err(fail)?;
        wipe_signatures(&raw, device.size.0).map_err(fail)?;
        let passed = loopdev::discard(&raw, 0, device.size.0).is_ok();
        let after = backing.allocated().map_err(fail)?;
        if passed || after < before {
            return Err(fail(io::Error::other(
                "discards reach the backing file in spite of discard_max_bytes=0",
            )));
        }
        let direct = sysfs::text(&sysfs::class(&device.kernel_name).join("loop/dio")).map_err(fail)? == "1";
        Ok(Facts::from([
            ("kind".to_string(), json!("loop")),
            ("path".to_string(), json!(device.path)),
            ("kernel_name".to_string(), json!(device.kernel_name)),
            ("size".to_string(), json!(device.size)),
            ("logical_block_size".to_string(), json!(device.logical_block_size)),
            ("backing".to_string(), json!(spec.backing)),
            ("backing_reused".to_string(), json!(reused)),
            ("backing_folder".to_string(), json!(backing.folder)),
            ("backing_allocated".to_string(), json!(after)),
            ("underneath".to_string(), json!(sysfs::disks_under(&backing.folder))),
            ("direct_io".to_string(), json!(direct)),
            ("discards_passed".to_string(), json!(false)),
            ("token".to_string(), json!(token)),
        ]))
    }

    /// Lets the kernel detach it, and gives file and number back to the rig.
    ///
    /// # Errors
    /// If somebody keeps it.
    pub fn let_go(self, rig: &mut Rig) -> Result<(), Failure> {
        let Self { number, held, backing, .. } = self;
        drop(held);
        if !loopdev::wait_unbound(number, AUTOCLEAR) {
            let message = format!("/dev/loop{number} does not let its file go");
            return Err(Failure::failed(message, "see who has it open: lsof, lsblk"));
        }
        rig.give_number(number);
        rig.give_file(backing);
        Ok(())
    }

    /// A sentence, if the disk below a sparse file is full.
    pub fn full(&self) -> Option<String> {
        let backing = &self.backing;
        let free = rustix::fs::statvfs(&backing.folder).ok().map(|f| f.f_bavail * f.f_frsize)?;
        let lacking = backing.size.saturating_sub(backing.allocated().ok()?);
        let sparse = backing.backing == fsdyno_spec::trial::Backing::Sparse;
        let (folder, left) = (backing.folder.display(), Bytes(free));
        (sparse && free < lacking && free < (16 << 20))
            .then(|| format!("{folder} is full ({left} free): the backing file cannot grow"))
    }
}

/// Binds the file to a number of ours. Until it is bound anybody may bind it; then the next one.
fn bind(rig: &mut Rig, backing: &BackingFile, token: &str, block: u32) -> io::Result<(u32, File)> {
    for _ in 0..16 {
        let number = rig.take_number()?;
        match loopdev::configure(number, &backing.file, token, block) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => rig.forget_number(number),
            Err(error) => {
                rig.give_number(number);
                return Err(error);
            }
            Ok(device) => return Ok((number, device)),
        }
    }
    Err(io::Error::other("somebody else takes every loop device first"))
}

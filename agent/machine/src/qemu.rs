//! QEMU as it is installed here: where it is, its version, and the command line of a guest. The command
//! line is made of values only, so that it can be read in a test and in the record of a trial.

use std::fs;
use std::path::{Path, PathBuf};

use fsdyno_spec::outcome::Reason;
use fsdyno_spec::units::Bytes;

use crate::boot::Accelerated;

/// Disks per slot of the PCI bus: its functions.
const FUNCTIONS: usize = 8;

/// First PCI slot for disks; the ones below hold the bridge, the port and the shared root.
const FIRST_SLOT: usize = 5;

/// An installed QEMU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qemu {
    /// The program.
    pub path: PathBuf,
    /// Its version line.
    pub version: String,
}

/// What a command line says, besides what is the same for every guest.
pub struct Line<'a> {
    pub accelerated: Accelerated,
    pub memory: Bytes,
    pub cpus: u32,
    pub image: &'a Path,
    /// Descriptor of the initramfs.
    pub initramfs: i32,
    /// Descriptor of our end of the port.
    pub port: i32,
    pub disks: &'a [DiskLine],
}

/// A disk on the command line.
pub struct DiskLine {
    pub descriptor: i32,
    pub slot: usize,
    pub logical_block_size: Bytes,
    pub direct: bool,
}

impl Qemu {
    /// The program for this machine's architecture.
    pub const PROGRAM: &str = "qemu-system-x86_64";

    /// The QEMU that was found at `path` and says this `version`.
    ///
    /// # Errors
    /// If there is none, with the package that has it, or this architecture has no guests.
    pub fn of(path: Option<&Path>, version: Option<&str>) -> Result<Self, Reason> {
        let install = "install the package qemu-system-x86 (it needs no root to run)";
        if std::env::consts::ARCH != "x86_64" {
            return Err(Reason::new(format!("guests are not built for {} yet", std::env::consts::ARCH))
                .advise("run fsdyno on an x86_64 host, or natively"));
        }
        let path =
            path.ok_or_else(|| Reason::new(format!("{} is missing", Self::PROGRAM)).advise(install))?;
        let version = version.ok_or_else(|| {
            Reason::new(format!("{} does not say its version", path.display())).advise(install)
        })?;
        Ok(Self { path: path.to_path_buf(), version: version.to_string() })
    }
}

/// Whether `/dev/kvm` can be opened; that it boots a kernel is only known when it did.
///
/// # Errors
/// Why not.
pub fn kvm() -> Result<(), String> {
    let open = fs::OpenOptions::new().read(true).write(true).open("/dev/kvm");
    open.map(drop).map_err(|error| format!("/dev/kvm: {error}"))
}

impl Line<'_> {
    /// The arguments of QEMU.
    pub fn arguments(&self) -> Vec<String> {
        let mut all = words(&[
            "-nodefaults",
            "-no-user-config",
            "-no-reboot",
            "-sandbox",
            "on,obsolete=deny,elevateprivileges=deny,spawn=deny",
            "-display",
            "none",
            "-monitor",
            "none",
            "-machine",
            "pc",
            "-cpu",
            "max",
            "-accel",
        ]);
        all.push(self.accelerated.argument().to_string());
        all.extend(["-m".to_string(), format!("{}M", self.memory.0 >> 20)]);
        all.extend(["-smp".to_string(), self.cpus.to_string()]);
        all.extend(["-kernel".to_string(), self.image.display().to_string()]);
        all.extend(["-initrd".to_string(), format!("/dev/fd/{}", self.initramfs)]);
        all.extend(["-append".to_string(), self.accelerated.kernel_line().to_string()]);
        all.extend(words(&["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"]));
        all.extend(words(&["-device", "virtio-serial-pci,addr=0x3", "-chardev"]));
        all.push(format!("socket,id=port,fd={}", self.port));
        all.extend(words(&["-device", "virtserialport,chardev=port,name=fsdyno"]));
        all.extend(words(&[
            "-fsdev",
            "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap",
            "-device",
            "virtio-9p-pci,fsdev=root,mount_tag=root,addr=0x4",
        ]));
        for disk in self.disks {
            all.extend(disk.arguments());
        }
        all
    }
}

impl DiskLine {
    /// The file is known by its descriptor only: it has no name any more. Neither discards nor zeroing
    /// reach it, so that its extents stay. What the rig's disk refuses, the guest sees as an I/O error (by
    /// itself QEMU would stop the machine when that disk is full, which looks like a guest that hangs).
    /// What the guest's kernel asks for is not merged once more: QEMU before 8.1 pads merged requests that
    /// are not aligned beyond IOV_MAX pieces, which the rig's kernel refuses.
    fn arguments(&self) -> Vec<String> {
        let Self { descriptor, slot, logical_block_size: block, direct } = self;
        let direct = if *direct { "on" } else { "off" };
        let (place, function) = (FIRST_SLOT + slot / FUNCTIONS, slot % FUNCTIONS);
        vec![
            "-add-fd".to_string(),
            format!("fd={descriptor},set={slot}"),
            "-blockdev".to_string(),
            format!(
                "driver=file,node-name=disk{slot},filename=/dev/fdset/{slot},cache.direct={direct},locking=off,\
                 discard=ignore,aio=threads"
            ),
            "-device".to_string(),
            format!(
                "virtio-blk-pci,drive=disk{slot},serial=fsdyno-{slot},addr={place:#x}.{function:#x},\
                 multifunction=on,logical_block_size={0},physical_block_size={0},discard=off,write-zeroes=off,\
                 write-cache=on,werror=report,rerror=report,request-merging=off",
                block.0
            ),
        ]
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_disk_has_a_place_of_its_own() {
        let disk = |slot| {
            DiskLine { descriptor: 9, slot, logical_block_size: Bytes(4096), direct: true }.arguments()
        };
        assert!(disk(0)[5].contains("addr=0x5.0x0") && disk(7)[5].contains("addr=0x5.0x7"));
        assert!(disk(8)[5].contains("addr=0x6.0x0") && disk(63)[5].contains("addr=0xc.0x7"));
        assert!(disk(1)[5].contains("logical_block_size=4096") && disk(1)[3].contains("cache.direct=on"));
    }

    #[test]
    fn a_guest_can_write_nothing_of_the_host_but_its_disks() {
        let line = Line {
            accelerated: Accelerated::Tcg,
            memory: Bytes::mib(512),
            cpus: 2,
            image: Path::new("/k"),
            initramfs: 5,
            port: 6,
            disks: &[],
        };
        let text = line.arguments().join(" ");
        assert!(text.contains("path=/,security_model=none,readonly=on"), "{text}");
        assert!(text.contains("-m 512M") && text.contains("-no-reboot") && !text.contains("-net"), "{text}");
    }
}

//! What a guest is booted from: its kernel, its disks, and how its CPUs run.

use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::os::fd::AsRawFd;

use fsdyno_spec::units::Bytes;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::init::{NEXT_ROOT, Wiring};
use crate::initramfs::Archive;
use crate::kernel::Kernel;
use crate::modules::Modules;

/// Modules that a guest needs before it can see the rig's root and its disks.
const FIRST: [&str; 5] = ["virtio_pci", "virtio_console", "virtio_blk", "9pnet_virtio", "9p"];

/// What a guest is booted from.
#[derive(Debug)]
pub struct Boot<'a> {
    /// Its kernel.
    pub kernel: &'a Kernel,
    /// What runs its CPUs.
    pub accelerated: Accelerated,
    /// Its memory.
    pub memory: Bytes,
    /// Its CPUs.
    pub cpus: u32,
    /// Its disks, in slot order.
    pub disks: Vec<Disk<'a>>,
}

/// A disk of a guest.
#[derive(Debug)]
pub struct Disk<'a> {
    /// The file, open for reading and writing.
    pub file: &'a File,
    /// Whether the file takes direct I/O.
    pub direct: bool,
    /// Logical block size.
    pub logical_block_size: Bytes,
}

/// What runs a guest's CPUs, decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accelerated {
    /// The processor itself.
    Kvm,
    /// QEMU's emulation.
    Tcg,
}

impl Accelerated {
    /// As events spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }

    pub(crate) fn argument(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg,thread=multi",
        }
    }

    /// Options of the kernel. A panic ends the guest at once (QEMU runs with `-no-reboot`), and so does an
    /// oops: a kernel that has lost its way measures nothing. Arrays are
    /// assembled by nobody but the trial. An emulated processor has no speculation to mitigate, and its
    /// clock is checked against nothing better.
    pub(crate) fn kernel_line(self) -> &'static str {
        match self {
            Self::Kvm => "console=ttyS0 loglevel=4 panic=-1 oops=panic raid=noautodetect",
            Self::Tcg => {
                "console=ttyS0 loglevel=4 panic=-1 oops=panic raid=noautodetect mitigations=off no_timer_check \
                 tsc=reliable cryptomgr.notests random.trust_cpu=on"
            }
        }
    }
}

/// The initramfs in memory, positioned at its start.
///
/// # Errors
/// If this program, a module or the memory file cannot be read or written.
pub fn initramfs(kernel: &Kernel) -> io::Result<File> {
    let mut archive = Archive::default();
    archive.folder("dev");
    archive.device("dev/console", 5, 1);
    for folder in ["proc", "sys", "modules", NEXT_ROOT.trim_start_matches('/')] {
        archive.folder(folder);
    }
    archive.file("init", 0o755, &fs::read("/proc/self/exe")?);
    let modules = Modules::read(&kernel.modules);
    let mut files = Vec::new();
    for name in FIRST {
        let order = modules.order(name).map_err(io::Error::other)?;
        files.extend(order.into_iter().filter(|file| !files.contains(file)).collect::<Vec<_>>());
    }
    let mut wiring = Wiring::of(kernel)?;
    for file in &files {
        let name = format!("modules/{}", file.file_name().unwrap_or_default().to_string_lossy());
        let contents = fs::read(file)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))?;
        archive.file(&name, 0o644, &contents);
        wiring.first_modules.push(format!("/{name}"));
    }
    archive.file("wiring.json", 0o644, &serde_json::to_vec(&wiring)?);
    // Not closed when QEMU is executed: it opens it by its number.
    let mut file = File::from(memfd_create("fsdyno-initramfs", MemfdFlags::empty())?);
    file.write_all(&archive.finish())?;
    file.rewind()?;
    debug_assert!(file.as_raw_fd() > 2);
    Ok(file)
}

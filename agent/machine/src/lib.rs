//! Guests: small machines that the rig agent boots with QEMU, so that kernels and layers that the rig
//! does not have are measured all the same, also without root.
//!
//! A guest runs this same program as its first process. Its tools are the rig's, whose root it sees
//! read-only through 9p; its modules come from the cache that the kernel came from; its disks are files
//! that the rig agent made. It speaks lines over one virtio port, and what it says on its console is
//! kept as its last words.

mod boot;
mod console;
mod guest;
mod init;
mod initramfs;
mod kernel;
mod modules;
mod qemu;

pub use boot::{Accelerated, Boot, Disk};
pub use guest::{Guest, Heard};
pub use init::{GUEST_HOME, Wiring, first_process, is_first_process, is_module_request, module_request};
pub use kernel::Kernel;
pub use modules::Modules;
pub use qemu::{Qemu, kvm};

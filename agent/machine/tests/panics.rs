//! A guest whose first process goes away: the kernel panics, really, and its last words are heard.
//!
//! This test program is itself the guest's first process (it is what `/proc/self/exe` names), and ends
//! there at once, which no kernel survives.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use fsdyno_machine::{Accelerated, Boot, Guest, Heard, Kernel, Qemu};
use fsdyno_spec::outcome::Reason;
use fsdyno_spec::units::Bytes;

fn cache() -> PathBuf {
    let named = std::env::var_os("FSDYNO_CACHE").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/fsdyno");
    let root = Path::new("/var/cache/fsdyno");
    named.unwrap_or_else(|| if root.join("kernels").exists() { root.to_path_buf() } else { home() })
}

fn qemu() -> Result<Qemu, Reason> {
    let output = Command::new(Qemu::PROGRAM).arg("--version").output().ok();
    let version = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    Qemu::of(version.as_ref().map(|_| Path::new(Qemu::PROGRAM)), version.as_deref())
}

#[test]
fn a_panic_is_heard_with_its_words_and_nothing_is_left() {
    if std::process::id() == 1 {
        return;
    }
    let (qemu, kernel) = match (qemu(), Kernel::find(&cache(), None)) {
        (Ok(qemu), Ok(kernel)) => (qemu, kernel),
        (qemu, kernel) => {
            let why = qemu.err().or(kernel.err()).map(|reason| reason.message);
            return eprintln!("SKIPPED: no guest can be booted here: {}", why.unwrap_or_default());
        }
    };
    let boot = Boot {
        kernel: &kernel,
        accelerated: Accelerated::Tcg,
        memory: Bytes::mib(512),
        cpus: 1,
        disks: Vec::new(),
    };
    let mut guest = Guest::start(&qemu, &boot).expect("QEMU starts");
    let born = Instant::now();
    while guest.hear(Duration::from_millis(100)) != Heard::Gone {
        assert!(born.elapsed() < Duration::from_secs(120), "it neither speaks nor dies");
    }
    // Its console is read on another thread.
    std::thread::sleep(Duration::from_millis(100));
    let words = guest.last_words();
    assert!(words.contains("Kernel panic"), "{words}");
    assert!(guest.end(), "it is gone");
    assert!(!Path::new("/proc").join(guest.pid().to_string()).join("exe").exists());
}

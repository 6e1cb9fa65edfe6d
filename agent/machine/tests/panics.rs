//! A guest whose first process goes away: the kernel panics, really, and its last words are heard.
//!
//! This test program is itself the guest's first process (it is what `/proc/self/exe` names), and ends
//! there at once, which no kernel survives.

use std::path::Path;
use std::time::{Duration, Instant};

use fsdyno_machine::{Accelerated, Boot, Guest, Heard, Kernel};
use fsdyno_spec::units::Bytes;

#[path = "common/here.rs"]
mod here;

#[test]
fn a_panic_is_heard_with_its_words_and_nothing_is_left() {
    if std::process::id() == 1 {
        return;
    }
    let (qemu, kernel) = match (here::qemu(), Kernel::find(&here::cache(), None)) {
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

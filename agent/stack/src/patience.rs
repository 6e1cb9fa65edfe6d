//! Waiting for what the kernel finishes by itself (a dying mount namespace, an autoclear), with an
//! end: a resource that does not go away is reported, never waited for for ever.

use std::thread;
use std::time::{Duration, Instant};

/// Calls `done` until it is true; false if it is not after `patience`. Asks at least once.
pub fn until(patience: Duration, mut done: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + patience;
    let mut pause = Duration::from_micros(200);
    loop {
        if done() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

//! What a guest says on its console: kept, with a limit, because its last words are there.

use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The newest so many bytes are kept.
const LIMIT: usize = 1 << 20;

/// A console that is being read.
#[derive(Clone, Debug, Default)]
pub struct Console(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    text: Vec<u8>,
    /// Bytes before `text` that are not kept any more.
    gone: usize,
}

impl Console {
    /// Reads `from` on a thread of its own until it ends.
    pub fn follow(&self, mut from: impl Read + Send + 'static) {
        let kept = Arc::clone(&self.0);
        thread::spawn(move || {
            let mut buffer = [0u8; 4096];
            while let Ok(length @ 1..) = from.read(&mut buffer) {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.text.extend_from_slice(&buffer[..length]);
                let excess = kept.text.len().saturating_sub(LIMIT);
                kept.text.drain(..excess);
                kept.gone += excess;
            }
        });
    }

    /// Bytes so far.
    pub fn length(&self) -> usize {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.gone + kept.text.len()
    }

    /// What was said since it had that length.
    pub fn since(&self, length: usize) -> Vec<u8> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.text[length.saturating_sub(kept.gone).min(kept.text.len())..].to_vec()
    }
}

/// The last words among a console's text: from a panic or an oops on, else the last lines.
pub fn last_words(text: &[u8]) -> String {
    const LINES: usize = 4;
    let text = String::from_utf8_lossy(text);
    let plain = |c: &char| !c.is_control() || *c == '\n';
    let text: String = text.chars().filter(plain).collect();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let starts = ["Kernel panic", "Oops", "BUG:", "Out of memory", "fsdyno:"];
    let loud = lines.iter().position(|line| starts.iter().any(|start| line.contains(start)));
    let from = loud.unwrap_or(lines.len().saturating_sub(LINES));
    lines[from..].iter().take(LINES).copied().collect::<Vec<_>>().join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_found_among_what_follows_it() {
        let text = b"boot\r\n[ 1.0] Kernel panic - not syncing: x\r\n[ 1.1] CPU: 0\na\nb\nc\nd\n";
        assert_eq!(last_words(text), "[ 1.0] Kernel panic - not syncing: x | [ 1.1] CPU: 0 | a | b");
        assert_eq!(last_words(b"a\nb\nc\nd\ne\n"), "b | c | d | e");
        assert_eq!(last_words(b""), "");
    }

    #[test]
    fn only_the_newest_is_kept() {
        let console = Console::default();
        console.follow(std::io::Cursor::new(vec![b'x'; LIMIT + 10]));
        while console.length() < LIMIT + 10 {
            thread::yield_now();
        }
        assert_eq!(console.since(0).len(), LIMIT);
        assert_eq!(console.since(LIMIT + 4).len(), 6);
        assert!(console.since(LIMIT + 99).is_empty());
    }
}

//! What the agent says: one JSON line per event on standard output.
//!
//! One writer numbers all lines, so a reader can tell that none is missing. Nothing is written
//! during a timed phase except heartbeats: what a phase has to tell waits until its clock stopped.
//! What a guest says is numbered there and passed on as it is.

use std::io::{self, Write};
use std::sync::Mutex;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use fsdyno_spec::event::{Artefact, Envelope, ErrorEvent, Event, Origin, Refusal};
use fsdyno_spec::outcome::Reason;
use sha2::{Digest, Sha256};

/// Largest part of an artefact, in bytes before base64: keeps lines short for every reader.
const PART: usize = 192 * 1024;

/// The one writer of events.
pub struct Channel {
    origin: Origin,
    boot: String,
    inner: Mutex<Inner>,
}

struct Inner {
    seq: u64,
    trial: Option<String>,
    out: Box<dyn Write + Send>,
    broken: bool,
}

impl Channel {
    /// A channel to `out` for the machine with this boot id.
    pub fn new(origin: Origin, boot: String, out: Box<dyn Write + Send>) -> Self {
        Self { origin, boot, inner: Mutex::new(Inner { seq: 0, trial: None, out, broken: false }) }
    }

    /// From here on events belong to this trial (or to none).
    pub fn set_trial(&self, trial: Option<String>) {
        self.lock().trial = trial;
    }

    /// Sends one event. A reader that went away is noticed by [`Channel::broken`], not here: the
    /// stack must still be taken down.
    pub fn send(&self, event: Event) {
        let mut inner = self.lock();
        if inner.broken {
            return;
        }
        let envelope = Envelope {
            seq: inner.seq,
            from: self.origin,
            boot: self.boot.clone(),
            at_ns: fsdyno_probe::clock::monotonic_ns(),
            trial: inner.trial.clone(),
            event,
        };
        inner.seq += 1;
        inner.broken = write_line(&mut *inner.out, &envelope).is_err();
    }

    /// Says that the rig cannot go on with what was asked. Not from a guest: there it is only the trial
    /// that cannot, which its end says.
    pub fn refuse(&self, refusal: Refusal, reason: Reason) {
        if self.origin == Origin::Rig {
            self.send(Event::Error(ErrorEvent { refusal, reason }));
        }
    }

    /// Passes on a line that another machine's channel made, with its end.
    pub fn relay(&self, line: &[u8]) {
        let mut inner = self.lock();
        if !inner.broken {
            inner.broken = inner.out.write_all(line).and_then(|()| inner.out.flush()).is_err();
        }
    }

    /// Whether the reader went away.
    pub fn broken(&self) -> bool {
        self.lock().broken
    }

    /// Sends a file in parts and returns its digest. An empty file is sent too: its digest says so.
    pub fn send_artefact(&self, name: &str, contents: &[u8]) -> String {
        let sha256 = Sha256::digest(contents).iter().map(|b| format!("{b:02x}")).collect::<String>();
        let stream = deflate(contents);
        let parts = stream.chunks(PART).collect::<Vec<_>>();
        for (part, data) in parts.iter().enumerate() {
            self.send(Event::Artefact(Artefact {
                sha256: sha256.clone(),
                name: name.to_string(),
                part: part as u32,
                parts: parts.len() as u32,
                data: STANDARD.encode(data),
            }));
        }
        sha256
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn write_line(out: &mut dyn Write, envelope: &Envelope) -> io::Result<()> {
    let mut line = serde_json::to_vec(envelope)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

/// One zlib stream. Writing to memory cannot fail.
fn deflate(contents: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    let _ = encoder.write_all(contents);
    encoder.finish().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::ZlibDecoder;
    use std::io::Read;
    use std::sync::{Arc, Mutex as StdMutex};

    #[derive(Clone, Default)]
    struct Sink(Arc<StdMutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(buf);
            Ok(buf.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn lines(sink: &Sink) -> Vec<Envelope> {
        let bytes = sink.0.lock().unwrap().clone();
        bytes
            .split(|b| *b == b'\n')
            .filter(|l| !l.is_empty())
            .map(|l| serde_json::from_slice(l).unwrap())
            .collect()
    }

    #[test]
    fn a_large_artefact_comes_whole_and_in_order() {
        let sink = Sink::default();
        let channel = Channel::new(Origin::Rig, "boot".into(), Box::new(sink.clone()));
        // Incompressible, so that there is more than one part.
        let mut state = 1u64;
        let contents = (0..700_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect::<Vec<u8>>();
        let sha = channel.send_artefact("x", &contents);
        let mut joined = Vec::new();
        for (n, line) in lines(&sink).iter().enumerate() {
            assert_eq!(line.seq, n as u64);
            let Event::Artefact(a) = &line.event else { panic!("not an artefact") };
            assert_eq!((a.part as usize, &a.sha256), (n, &sha));
            joined.extend(STANDARD.decode(&a.data).unwrap());
        }
        assert!(lines(&sink).len() > 1);
        let mut back = Vec::new();
        ZlibDecoder::new(&joined[..]).read_to_end(&mut back).unwrap();
        assert_eq!(back, contents);
    }

    #[test]
    fn an_empty_artefact_is_one_part() {
        let sink = Sink::default();
        let channel = Channel::new(Origin::Rig, "boot".into(), Box::new(sink.clone()));
        let sha = channel.send_artefact("x", b"");
        assert_eq!(sha, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(lines(&sink).len(), 1);
    }
}

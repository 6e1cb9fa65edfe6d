//! Reading superblocks: what mkfs chose, from the medium itself and not from what a tool prints.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};

use fsdyno_spec::outcome::Reason;
use serde_json::Value;

/// Something to read a superblock from: an open device or file.
pub trait Medium: Read + Seek {}

impl<T: Read + Seek> Medium for T {}

/// What the medium says of its file system.
#[derive(Clone, Debug, PartialEq)]
pub struct Superblock {
    /// UUID, hyphenated lower-case hex.
    pub uuid: String,
    /// Facts by name; sizes in bytes unless an option of the same name has another unit.
    pub facts: BTreeMap<String, Value>,
}

/// Bytes of a medium, with typed access. An offset beyond the end reads as zero, so that a parser
/// of damaged structures needs no check at each step: it checks counts before it believes them.
#[derive(Debug)]
pub struct Block(Vec<u8>);

macro_rules! number {
    ($name:ident, $type:ty, $from:ident, $doc:literal) => {
        #[doc = $doc]
        #[must_use]
        pub fn $name(&self, at: usize) -> $type {
            let mut bytes = [0; size_of::<$type>()];
            bytes.copy_from_slice(&self.slice(at, size_of::<$type>()));
            <$type>::$from(bytes)
        }
    };
}

impl Block {
    /// These bytes.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Reads `length` bytes at `offset`.
    ///
    /// # Errors
    /// If the medium ends before, or cannot be read.
    pub fn read(medium: &mut dyn Medium, offset: u64, length: usize, what: &str) -> Result<Self, Reason> {
        let mut bytes = vec![0; length];
        medium
            .seek(SeekFrom::Start(offset))
            .and_then(|_| medium.read_exact(&mut bytes))
            .map_err(|e| Reason::new(format!("cannot read the {what} at byte {offset}: {e}")))?;
        Ok(Self(bytes))
    }

    /// Part of the block; what lies beyond its end is zero.
    #[must_use]
    pub fn slice(&self, at: usize, length: usize) -> Vec<u8> {
        (0..length).map(|i| at.checked_add(i).and_then(|i| self.0.get(i)).copied().unwrap_or(0)).collect()
    }

    /// A byte.
    #[must_use]
    pub fn byte(&self, at: usize) -> u8 {
        self.slice(at, 1)[0]
    }

    number!(le16, u16, from_le_bytes, "Little-endian, 16 bits.");
    number!(le32, u32, from_le_bytes, "Little-endian, 32 bits.");
    number!(le64, u64, from_le_bytes, "Little-endian, 64 bits.");
    number!(be16, u16, from_be_bytes, "Big-endian, 16 bits.");
    number!(be32, u32, from_be_bytes, "Big-endian, 32 bits.");
    number!(be64, u64, from_be_bytes, "Big-endian, 64 bits.");

    /// A UUID as text.
    #[must_use]
    pub fn uuid(&self, at: usize) -> String {
        let hex: String = self.slice(at, 16).iter().map(|byte| format!("{byte:02x}")).collect();
        [&hex[0..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..32]].join("-")
    }

    /// A label, up to its first NUL.
    #[must_use]
    pub fn text(&self, at: usize, length: usize) -> String {
        let bytes = self.slice(at, length);
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(length);
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }
}

/// Names of the bits that are set; a bit without a name appears as `word:0x…`, never silently.
#[must_use]
pub fn names(word: &str, bits: u64, known: &[(u64, &str)]) -> Vec<String> {
    (0..64)
        .map(|shift| 1u64 << shift)
        .filter(|bit| bits & bit != 0)
        .map(|bit| match known.iter().find(|(value, _)| *value == bit) {
            Some((_, name)) => (*name).to_string(),
            None => format!("{word}:{bit:#x}"),
        })
        .collect()
}

/// `2^exponent` if that is a sane block size, else an error that names the field.
///
/// # Errors
/// If it is outside 512 B to 1 MiB.
pub fn block_size(size: u64, what: &str) -> Result<u64, Reason> {
    if size.is_power_of_two() && (512..=1 << 20).contains(&size) {
        return Ok(size);
    }
    Err(Reason::new(format!("{what}: a block size of {size} bytes cannot be; the superblock is damaged")))
}

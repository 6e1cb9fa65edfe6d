//! The answer of `align`: what follows from the geometry of an array for everything that is put on it.

use std::path::PathBuf;

use clap::Args;
use fsdyno_spec::align::Advice;
use fsdyno_spec::outcome::Reason;

/// The array, described by hand or found.
#[derive(Args, Debug)]
#[group(id = "array")]
pub struct Options {
    /// RAID level: 0, 1, 5, 6 or 10.
    #[arg(long, required_unless_present = "device", conflicts_with = "device", requires = "members")]
    level: Option<u8>,
    /// Members, without spares.
    #[arg(long, conflicts_with = "device")]
    members: Option<u32>,
    /// Bytes on one member before the next one's turn.
    #[arg(long, value_name = "BYTES", conflicts_with = "device")]
    chunk: Option<u64>,
    /// Where copies or parity go: `near2`, `left-symmetric`, …
    #[arg(long, conflicts_with = "device")]
    layout: Option<String>,
    /// A live array, or a partition or volume on one.
    #[arg(long)]
    device: Option<PathBuf>,
    /// File-system block, bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 4096)]
    block: u64,
}

/// What to do about an array.
pub fn align(options: &Options) -> Result<Advice, Reason> {
    let _ = options;
    Err(Reason::new("not built yet"))
}

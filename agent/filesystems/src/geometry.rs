//! The geometry of an array as file systems and volumes want to know it: the arithmetic, once.

use fsdyno_spec::units::Bytes;

/// A striped array as it looks from above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes on one member before the next one's turn.
    pub chunk: Bytes,
    /// Members that carry data in one stripe.
    pub data_disks: u32,
}

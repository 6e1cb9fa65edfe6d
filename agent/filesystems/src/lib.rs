//! One file per file system, one row each in one table: everything that fsdyno knows about a file
//! system by name. Descriptions and superblock reading only; no device is opened here.
//!
//! Adding a file system is one new file that makes a [`FileSystem`], and one row in [`TABLE`].
//! Adding an option is one row in the file system's own table.

mod advise;
mod argv;
mod barriers;
mod btrfs;
mod ext;
mod ext2;
mod ext3;
mod ext4;
mod extra;
mod f2fs;
mod filesystem;
mod found;
mod geometry;
mod geometry_rule;
mod here;
mod jfs;
mod layout;
mod medium;
mod nilfs2;
mod ntfs;
mod options;
mod plan;
mod reiserfs;
mod rule;
mod tmpfs;
mod verdict;
mod verify;
mod xfs;

pub use advise::{Advise, Asked, Hints};
pub use argv::Argv;
pub use barriers::{BarrierOff, Barriers, Off};
pub use extra::MkfsFlag;
pub use filesystem::{DiscardOff, Disk, Elsewhere, FileSystem, Identity, Program, Role, Target};
pub use found::{Standing, of_mount, probe};
pub use geometry::{Geometry, LVM_EXTENT, MOST_READ_AHEAD, off};
pub use geometry_rule::{Facts, GeometryChoice, GeometryRule, Mismatch, Parameters, Told};
pub use here::{Here, KernelConfig};
pub use layout::Layout;
pub use medium::{Medium, Superblock};
pub use options::{Kind, OptionRow, Options};
pub use plan::{CommandLine, DEVICE, EMPTY_FILE, MountPlan, POINT, VERSION, quote, spell_parameter};
pub use rule::{Choice, Feature, Param, Rule};
pub use verdict::ToolVerdict;

use fsdyno_spec::outcome::Reason;

/// Every file system that fsdyno knows.
pub static TABLE: &[&FileSystem] = &[
    &ext2::EXT2,
    &ext3::EXT3,
    &ext4::EXT4,
    &xfs::XFS,
    &btrfs::BTRFS,
    &jfs::JFS,
    &reiserfs::REISERFS,
    &nilfs2::NILFS2,
    &f2fs::F2FS,
    &ntfs::NTFS,
    &tmpfs::TMPFS,
];

/// The file system of a type.
///
/// # Errors
/// If the table has none, with those that it has.
pub fn find(name: &str) -> Result<&'static FileSystem, Reason> {
    TABLE.iter().find(|row| row.name == name).copied().ok_or_else(|| {
        let known: Vec<_> = TABLE.iter().map(|row| row.name).collect();
        Reason::new(format!("fsdyno knows no file system `{name}`"))
            .advise(format!("it knows: {}", known.join(", ")))
    })
}

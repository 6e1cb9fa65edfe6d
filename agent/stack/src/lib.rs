//! The stack under a trial: devices, mounts, folders, kernel settings, tools, and the ledger that
//! undoes all of it. The only code of fsdyno that creates and destroys things; everything that is
//! privileged happens here, and nothing here has an opinion on results.

mod apart;
mod array;
mod backing;
mod clean;
mod companion;
mod dirty;
mod disk;
mod failure;
mod folder;
mod identity;
mod layer;
mod leaf;
pub mod ledger;
mod loopdev;
mod lvm;
mod mount;
mod mountinfo;
mod patience;
mod reconfigure;
mod rig;
mod safety;
mod settings;
mod sysfs;
mod tool;
mod trial;
pub mod walk;

pub use apart::apart;
pub use array::plan as arrays;
pub use clean::clean;
pub use failure::{Failure, Refused};
pub use layer::Change;
pub use rig::{Image, Rig, RigOptions};
pub use settings::Facts;
pub use sysfs::BlockDevice;
pub use tool::{ToolOutput, find_program, warm};
pub use trial::TrialStack;

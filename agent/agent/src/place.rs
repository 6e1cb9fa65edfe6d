//! Where this agent is: on the rig itself, or in a guest of it.

use std::path::{Path, PathBuf};

use fsdyno_spec::event::Origin;

/// Where this agent is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the rig; guests boot kernels of this cache.
    Rig {
        /// The folder with `kernels`.
        cache: PathBuf,
    },
    /// In a guest: its disks are given, and its rig tells the rest of the story.
    Guest,
}

impl Place {
    /// As events say it.
    pub fn origin(&self) -> Origin {
        match self {
            Self::Rig { .. } => Origin::Rig,
            Self::Guest => Origin::Guest,
        }
    }

    /// The folder with `kernels`; in a guest there is none.
    pub fn cache(&self) -> &Path {
        match self {
            Self::Rig { cache } => cache,
            Self::Guest => Path::new("/nonexistent"),
        }
    }
}

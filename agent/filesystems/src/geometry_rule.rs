//! How a file system is told the geometry of the array below it, and how it is seen to know it. The
//! arithmetic is [`Geometry`]'s; this is what each type makes of it.

use fsdyno_spec::outcome::Reason;
use fsdyno_spec::record;
use fsdyno_spec::units::Bytes;

use crate::argv::Argv;
use crate::filesystem::FileSystem;
use crate::geometry::Geometry;
use crate::options::Options;

/// Numbers of a superblock by the names of [`crate::Superblock::facts`].
pub type Facts = Vec<(&'static str, u64)>;

/// How a file system is told the geometry of the array below it.
#[derive(Clone, Copy, Debug)]
pub struct GeometryRule {
    /// Adds mkfs's arguments for a device of this size: a geometry, or none at all by force. An error
    /// where the file system cannot have it.
    pub mkfs: fn(&mut Argv, &Options, Bytes, Option<&Geometry>) -> Result<(), Reason>,
    /// The least device that mkfs gives a geometry to by itself; none if any.
    pub least: Option<Bytes>,
    /// Facts of the superblock that it must show up in, for the same, with their values.
    pub facts: fn(Option<&Geometry>, block_size: u64) -> Result<Facts, Reason>,
    /// Options of a remount that tell a mounted one a new geometry, or why it cannot be told.
    pub tell: fn(&Geometry, block_size: u64) -> Result<Parameters, Reason>,
    /// Options by which a mount shows what it works with instead of the superblock's, in the same unit: the
    /// option's key and the fact.
    pub shown: &'static [(&'static str, &'static str)],
    /// The option that a mount shows if it works with no geometry, whatever the superblock says.
    pub ignored_by: Option<&'static str>,
    /// A line for a shell that tells it the right one; a comment where a person must do more.
    pub mend: fn(&Mismatch<'_>) -> String,
}

/// A file system that does not know the stripe that it lies on.
#[derive(Clone, Copy, Debug)]
pub struct Mismatch<'a> {
    /// Node of its device.
    pub device: &'a str,
    /// Where it is mounted, if it is.
    pub point: Option<&'a str>,
    /// The driver that serves the mount, if `/sys/fs` tells ([`FileSystem::driver`]).
    pub driver: Option<&'a str>,
    /// Options that the mount shows.
    pub shown: &'a [String],
    /// What its superblock says, the geometry that it was made with among it.
    pub superblock: &'a record::Facts,
    /// The geometry below.
    pub geometry: &'a Geometry,
    /// That as facts of the superblock.
    pub expected: &'a [(&'static str, u64)],
}

/// Mount parameters: a key, and a value unless it is a flag.
pub type Parameters = Vec<(String, Option<String>)>;

/// What mkfs is told of the array below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Told<'a> {
    /// Nothing: it finds what it finds.
    #[default]
    Nothing,
    /// That there is none, whatever the device says.
    None,
    /// This.
    This(&'a Geometry),
}

impl<'a> Told<'a> {
    /// What mkfs must be made to believe: none if it is left alone, else a geometry or (none) no array.
    pub(crate) fn forced(self) -> Option<Option<&'a Geometry>> {
        match self {
            Self::Nothing => None,
            Self::None => Some(None),
            Self::This(geometry) => Some(Some(geometry)),
        }
    }
}

/// Where a plan wants the geometry from. Whoever knows the stack resolves it to [`Told`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GeometryChoice {
    /// mkfs finds what it finds: [`Told::Nothing`].
    #[default]
    Detect,
    /// From the stack's own array: [`Told::This`], or [`Told::None`] where nothing is striped.
    Computed,
    /// Forced off: [`Told::None`].
    None,
    /// From the stack's `geometry`: [`Told::This`], or [`Told::None`] where nothing is striped.
    Declared,
}

impl FileSystem {
    /// Where the plan wants the geometry from; what is not asked is left to mkfs.
    #[must_use]
    pub fn geometry_choice(&self, options: &Options) -> GeometryChoice {
        match options.word("geometry") {
            Some("computed") => GeometryChoice::Computed,
            Some("none") => GeometryChoice::None,
            Some("declared") => GeometryChoice::Declared,
            _ => GeometryChoice::Detect,
        }
    }

    /// Options of a remount that tell the mounted file system a new geometry. The kernel shows them
    /// afterwards as `key=value`.
    ///
    /// # Errors
    /// Why it cannot be told, and what to do instead.
    pub fn tell_geometry(&self, geometry: &Geometry, block_size: u64) -> Result<Parameters, Reason> {
        let rule = self.on_disk()?.geometry.ok_or_else(|| self.takes_no_geometry())?;
        (rule.tell)(geometry, block_size)
    }

    pub(crate) fn takes_no_geometry(&self) -> Reason {
        Reason::new(format!("{} cannot be told the geometry of an array", self.name))
            .advise("leave `geometry` out for it")
    }

    /// Names of the superblock's facts that tell the geometry; none if it takes none.
    #[must_use]
    pub fn geometry_facts(&self) -> Vec<&'static str> {
        let rule = self.disk.as_ref().and_then(|disk| disk.geometry);
        let facts = rule.and_then(|rule| (rule.facts)(None, 4096).ok()).unwrap_or_default();
        facts.into_iter().map(|(name, _)| name).collect()
    }
}

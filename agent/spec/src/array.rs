//! Arrays and volumes between the leaf devices and the file system, and the phases that change them.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// An md array over all devices of the stack but the last `spares`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Array {
    /// RAID level.
    pub level: Level,
    /// Bytes on one member before the next one's turn; not for level 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<Bytes>,
    /// Where copies or parity go. Levels 5 and 6: `left-symmetric` (the default), `left-asymmetric`,
    /// `right-symmetric`, `right-asymmetric`; level 10: `near2` (the default), `far2`, `offset2`, … with
    /// the number of copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// What happens to parity and copies at the start.
    #[serde(default)]
    pub resync: ResyncPolicy,
    /// Whether a write-intent bitmap is kept.
    #[serde(default)]
    pub bitmap: Bitmap,
    /// Devices at the end of the list that stay out until a `grow` or `add` phase takes them.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(max = 63))]
    pub spares: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// A RAID level that md has and the studies use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum Level {
    /// Striped, nothing to lose.
    Raid0,
    /// Mirrored.
    Raid1,
    /// Striped with one parity.
    Raid5,
    /// Striped with two parities.
    Raid6,
    /// Striped and mirrored.
    Raid10,
}

impl Level {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Raid0, Self::Raid1, Self::Raid5, Self::Raid6, Self::Raid10];

    /// As a plan and mdadm write it.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Raid0 => 0,
            Self::Raid1 => 1,
            Self::Raid5 => 5,
            Self::Raid6 => 6,
            Self::Raid10 => 10,
        }
    }
}

impl From<Level> for u8 {
    fn from(level: Level) -> Self {
        level.number()
    }
}

impl TryFrom<u8> for Level {
    type Error = String;

    fn try_from(number: u8) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|level| level.number() == number)
            .ok_or_else(|| format!("there is no RAID level {number} here: it is 0, 1, 5, 6 or 10"))
    }
}

impl JsonSchema for Level {
    fn schema_name() -> Cow<'static, str> {
        "Level".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let numbers = Self::ALL.map(Self::number);
        json_schema!({ "type": "integer", "enum": numbers, "description": "A RAID level." })
    }
}

/// What happens to parity and copies when an array is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResyncPolicy {
    /// They are computed, and the trial waits for it.
    #[default]
    Wait,
    /// They are taken as they are (`--assume-clean`): only where they cannot matter to the figure.
    AssumeClean,
}

/// Whether an array keeps a write-intent bitmap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Bitmap {
    /// None: nothing is written but data and parity.
    #[default]
    None,
    /// On the members.
    Internal,
}

/// A volume group, and which of its volumes the file system goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lvm {
    /// Extent size (`vgcreate -s`); LVM's own 4 MiB if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extent: Option<Bytes>,
    /// What the start of the data is a multiple of (`pvcreate --dataalignment`); what LVM detects if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_alignment: Option<Bytes>,
    /// Volumes in the order of their making; one over the whole group if left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Volume>,
    /// Name of the volume that the file system goes on; the last one if left out.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "use")]
    pub used: Option<String>,
}

/// A logical volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// Its name.
    #[schemars(regex(pattern = r"^[a-z][a-z0-9]{0,31}$"))]
    pub name: String,
    /// Its size, a multiple of the extent; all that is left if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// Physical volumes that its data is dealt to in turn; one after the other if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 64))]
    pub stripes: Option<u32>,
    /// Bytes on one of them before the next one's turn (`lvcreate -I`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stripe_size: Option<Bytes>,
}

/// What a hardware array is, as its owner knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeclaredGeometry {
    /// RAID level.
    pub level: Level,
    /// Disks in it, without spares.
    #[schemars(range(min = 1, max = 1024))]
    pub members: u32,
    /// Bytes on one disk before the next one's turn.
    pub chunk: Bytes,
    /// As [`Array::layout`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
}

/// Members are marked as failed and taken out: the array runs degraded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fail {
    /// Their slots, counted from 0 in `stack.devices`.
    pub members: Vec<u32>,
}

/// Members (or spares) are put in; a degraded array begins to rebuild.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Add {
    /// Their slots, counted from 0 in `stack.devices`.
    pub members: Vec<u32>,
    /// Wait for the rebuild. Without it the next phases are measured during the rebuild, and say so.
    #[serde(default = "yes")]
    pub wait: bool,
}

fn yes() -> bool {
    true
}

/// Wait until the array neither rebuilds nor reshapes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resync {}

/// The array takes spares in as data members, and the volume and the file system take the room.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Grow {
    /// Members that the array has afterwards.
    #[schemars(range(min = 2, max = 64))]
    pub members: u32,
    /// The mounted file system is told the new stripe, where it can be told.
    #[serde(default = "yes")]
    pub tell: bool,
}

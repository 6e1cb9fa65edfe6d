//! Where an array keeps its copies or its parity, by name: as plans write it and as mdadm does.

use fsdyno_spec::array::Level;
use fsdyno_spec::outcome::Reason;

/// Where parity goes in RAID 5 and 6: its name as mdadm has it, the kernel's number (`ALGORITHM_*` in
/// `drivers/md/raid5.h`), and whether RAID 6 only has it. The ones of the end are those of other controllers (DDF), and
/// of a RAID 5 to which a second parity was added behind: a disk more, nothing moved.
const PARITY: [(&str, u32, bool); 14] = [
    (DEFAULT_PARITY, 2, false),
    ("left-asymmetric", 0, false),
    ("right-symmetric", 3, false),
    ("right-asymmetric", 1, false),
    ("parity-first", 4, false),
    ("parity-last", 5, false),
    ("ddf-zero-restart", 8, true),
    ("ddf-N-restart", 9, true),
    ("ddf-N-continue", 10, true),
    ("left-symmetric-6", 18, true),
    ("left-asymmetric-6", 16, true),
    ("right-symmetric-6", 19, true),
    ("right-asymmetric-6", 17, true),
    ("parity-first-6", 20, true),
];

/// What mdadm takes by itself.
const DEFAULT_PARITY: &str = "left-symmetric";

/// How copies lie in RAID 10, each with mdadm's letter.
const COPIES: [(&str, &str); 3] = [("near", "n"), ("far", "f"), ("offset", "o")];

/// A layout that a RAID level has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Parity goes where this name says.
    Parity(&'static str),
    /// Copies lie in this way, so many of each chunk.
    Copies {
        /// `near`, `far` or `offset`.
        how: &'static str,
        /// Copies of each chunk, the first one included.
        count: u32,
    },
}

impl Layout {
    /// The layout of a name, or the level's default (left-symmetric, near2) without one; none for levels
    /// that have no layouts.
    ///
    /// # Errors
    /// A name that the level does not have, with those that it has.
    pub fn of(level: Level, name: Option<&str>) -> Result<Option<Self>, Reason> {
        let number = level.number();
        let unknown = |name: &str, known: &str| {
            Err(Reason::new(format!("RAID {number} has no layout `{name}`")).advise(known.to_string()))
        };
        match (level, name) {
            (Level::Raid0 | Level::Raid1, None) => Ok(None),
            (Level::Raid0 | Level::Raid1, Some(name)) => unknown(name, "leave `layout` out for this level"),
            (Level::Raid5 | Level::Raid6, name) => {
                let name = name.unwrap_or(DEFAULT_PARITY);
                let mut names = parity_of(level).map(|(name, _)| name);
                match names.clone().find(|known| *known == name) {
                    Some(known) => Ok(Some(Self::Parity(known))),
                    None => {
                        let known = names.by_ref().collect::<Vec<_>>().join(", ");
                        unknown(name, &format!("its layouts are: {known}"))
                    }
                }
            }
            (Level::Raid10, name) => {
                let name = name.unwrap_or("near2");
                match Self::copied(name) {
                    Some(layout) => Ok(Some(layout)),
                    None => unknown(
                        name,
                        "its layouts are nearN, farN and offsetN with N copies, 2 at least: near2, far2, offset2",
                    ),
                }
            }
        }
    }

    /// The layout of a number as the kernel shows it (`md/layout` in sysfs); none for levels that have no
    /// layouts, and for layouts without a name here.
    ///
    /// RAID 10: near copies in the lowest byte, far
    /// copies in the next one, bit 16 if those lie at an offset; the next two bits say which members make
    /// a set of far copies, which changes no stripe (`setup_geo` in `drivers/md/raid10.c`).
    #[must_use]
    pub fn from_kernel(level: Level, number: u32) -> Option<Self> {
        match level {
            Level::Raid0 | Level::Raid1 => None,
            Level::Raid5 | Level::Raid6 => {
                parity_of(level).find(|(_, known)| *known == number).map(|(name, _)| Self::Parity(name))
            }
            Level::Raid10 => {
                let (near, far, offset) = (number & 0xff, number >> 8 & 0xff, number >> 16 & 1 == 1);
                let (how, count) = match (near, far, offset) {
                    (2.., 1, false) => ("near", near),
                    (1, 2.., false) => ("far", far),
                    (1, 2.., true) => ("offset", far),
                    _ => return None,
                };
                (number >> 19 == 0).then_some(Self::Copies { how, count })
            }
        }
    }

    /// The number that the kernel shows for it.
    #[must_use]
    pub fn kernel(self) -> u32 {
        match self {
            Self::Parity(name) => {
                PARITY.iter().find(|(known, ..)| *known == name).map_or(0, |(_, number, _)| *number)
            }
            Self::Copies { how: "near", count } => count | 1 << 8,
            Self::Copies { how: "far", count } => 1 | count << 8,
            Self::Copies { count, .. } => 1 | count << 8 | 1 << 16,
        }
    }

    fn copied(name: &str) -> Option<Self> {
        COPIES.iter().find_map(|(how, _)| {
            let digits = name.strip_prefix(how)?;
            let plain = !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
            let count = digits.parse().ok().filter(|count| plain && (2..=200).contains(count))?;
            Some(Self::Copies { how, count })
        })
    }

    /// As a plan writes it.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Parity(name) => name.to_string(),
            Self::Copies { how, count } => format!("{how}{count}"),
        }
    }

    /// As `mdadm --layout=` takes it.
    #[must_use]
    pub fn mdadm(self) -> String {
        match self {
            Self::Parity(name) => name.to_string(),
            Self::Copies { how, count } => {
                let letter = COPIES.iter().find(|(known, _)| *known == how).map_or(how, |(_, letter)| letter);
                format!("{letter}{count}")
            }
        }
    }

    /// Copies of each chunk; 1 where parity protects it.
    #[must_use]
    pub fn copies(self) -> u32 {
        if let Self::Copies { count, .. } = self { count } else { 1 }
    }

    /// Copies that lie side by side in one stripe.
    pub(crate) fn near_copies(self) -> u32 {
        if let Self::Copies { how: "near", count } = self { count } else { 1 }
    }
}

/// Names and numbers of where parity goes in a level.
fn parity_of(level: Level) -> impl Iterator<Item = (&'static str, u32)> + Clone {
    let has = move |only_six: bool| level == Level::Raid6 || !only_six;
    PARITY.into_iter().filter(move |(_, _, only_six)| has(*only_six)).map(|(name, number, _)| (name, number))
}

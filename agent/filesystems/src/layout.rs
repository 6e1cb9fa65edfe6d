//! Where an array keeps its copies or its parity, by name: as plans write it and as mdadm does.

use fsdyno_spec::array::Level;
use fsdyno_spec::outcome::Reason;

/// How parity goes round in RAID 5 and 6.
const PARITY: [&str; 4] = ["left-symmetric", "left-asymmetric", "right-symmetric", "right-asymmetric"];

/// The same in the order of the kernel's numbers.
const KERNEL_PARITY: [&str; 4] = ["left-asymmetric", "right-asymmetric", "left-symmetric", "right-symmetric"];

/// How copies lie in RAID 10, each with mdadm's letter.
const COPIES: [(&str, &str); 3] = [("near", "n"), ("far", "f"), ("offset", "o")];

/// A layout that a RAID level has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Parity goes round in this order.
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
                let name = name.unwrap_or(PARITY[0]);
                match PARITY.into_iter().find(|known| *known == name) {
                    Some(known) => Ok(Some(Self::Parity(known))),
                    None => unknown(name, &format!("its layouts are: {}", PARITY.join(", "))),
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
    /// RAID 5 and 6: `ALGORITHM_*` in `drivers/md/raid5.h`. RAID 10: near copies in the lowest byte, far
    /// copies in the next one, bit 16 if those lie at an offset; the next two bits say which members make
    /// a set of far copies, which changes no stripe (`setup_geo` in `drivers/md/raid10.c`).
    #[must_use]
    pub fn from_kernel(level: Level, number: u32) -> Option<Self> {
        match level {
            Level::Raid0 | Level::Raid1 => None,
            Level::Raid5 | Level::Raid6 => {
                let name = *KERNEL_PARITY.get(usize::try_from(number).ok()?)?;
                Some(Self::Parity(name))
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

//! A file system that was found and not made by us: which it is, which stripe it works with, and the
//! commands that would mend it. Nobody asked it for anything, so nothing here is a proof that something
//! was taken: it is what the medium and the mount show.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};

use fsdyno_spec::outcome::Reason;
use fsdyno_spec::record::{Facts, FoundGeometry};
use fsdyno_spec::trial::CheckMode;
use serde_json::Value;

use crate::TABLE;
use crate::barriers::Off;
use crate::filesystem::{DiscardOff, Elsewhere, FileSystem};
use crate::geometry::Geometry;
use crate::geometry_rule::Mismatch;
use crate::medium::{Medium, Superblock};
use crate::options::Options;
use crate::plan::{CommandLine, fresh_mount, quote};

/// The file system on a medium and its superblock; none if it has none of the table. Where an older one was
/// not wiped, the first of the table is found.
///
/// # Errors
/// If none was found on a medium that could not be read where one may be.
pub fn probe(medium: &mut dyn Medium) -> Result<Option<(&'static FileSystem, Superblock)>, Reason> {
    let mut watched = Watched { medium, failed: None };
    let found = TABLE.iter().find_map(|row| row.is_on(&mut watched).map(|superblock| (*row, superblock)));
    match watched.failed {
        Some(error) if found.is_none() => {
            Err(Reason::new(format!("it cannot be read where file systems have their superblocks: {error}"))
                .advise("look into the kernel log: the device fails to read, or is not what it says"))
        }
        _ => Ok(found),
    }
}

/// A medium whose first error is kept. That it ends before what was looked for is none.
struct Watched<'a> {
    medium: &'a mut dyn Medium,
    failed: Option<io::Error>,
}

impl Watched<'_> {
    fn keep<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        done.inspect_err(|error| {
            if error.kind() != io::ErrorKind::Interrupted && self.failed.is_none() {
                let same = error.raw_os_error().map(io::Error::from_raw_os_error);
                self.failed = Some(same.unwrap_or_else(|| error.kind().into()));
            }
        })
    }
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let done = self.medium.read(buffer);
        self.keep(done)
    }
}

impl Seek for Watched<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let done = self.medium.seek(to);
        self.keep(done)
    }
}

/// The file system of a mount whose driver names itself so, by its superblock where the medium can be read.
/// One driver may serve several, and one name (`fuseblk`) many that are not known here: then only the
/// superblock tells.
#[must_use]
pub fn of_mount(
    fstype: &str,
    medium: Option<&mut dyn Medium>,
) -> Option<(&'static FileSystem, Option<Superblock>)> {
    let named = TABLE.iter().find(|row| row.name == fstype).copied();
    if let Some(medium) = medium {
        let may_be =
            |row: &FileSystem| [row.name, row.fstype].contains(&fstype) || row.modules.contains(&fstype);
        let mut served = TABLE.iter().copied().filter(|row| may_be(row));
        if let Some((row, superblock)) = served.find_map(|row| Some((row, row.is_on(medium)?))) {
            return Some((row, Some(superblock)));
        }
    }
    // The first module of a row is its own, others may serve anything.
    let own = || TABLE.iter().find(|row| row.modules.first() == Some(&fstype)).copied();
    named.or_else(own).map(|row| (row, None))
}

/// A file system as it stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standing<'a> {
    /// Node of its first device.
    pub device: &'a str,
    /// Where it is mounted, if it is.
    pub point: Option<&'a str>,
    /// Options that the mount shows.
    pub shown: &'a [String],
    /// The driver that serves the mount, if `/sys/fs` tells ([`FileSystem::driver`]).
    pub driver: Option<&'a str>,
    /// What its superblock says; none if it was not read.
    pub superblock: Option<&'a Facts>,
    /// The uppermost stripe that it lies on, if it lies on one that is known.
    pub geometry: Option<&'a Geometry>,
}

impl Standing<'_> {
    fn number(&self, name: &str) -> Option<u64> {
        self.superblock?.get(name).and_then(Value::as_u64)
    }
}

impl FileSystem {
    /// Its superblock, if the medium has this type and no other that reads the same.
    fn is_on(&self, medium: &mut dyn Medium) -> Option<Superblock> {
        let disk = self.disk.as_ref()?;
        (disk.superblock)(medium).ok().filter(disk.is_it)
    }

    /// What of it lies on devices of their own, by what its superblock (if it was read) and its mount show:
    /// `its log`. None of that can be found below its first device.
    #[must_use]
    pub fn elsewhere(&self, superblock: Option<&Facts>, shown: &[String]) -> Vec<String> {
        let is_elsewhere = |part: &&Elsewhere| {
            let fact = superblock.and_then(|facts| facts.get(part.fact)) == Some(&Value::Bool(true));
            let key = |word: &String| word.split_once('=').map(|(key, _)| key.to_string());
            fact || part
                .shown
                .is_some_and(|wanted| shown.iter().any(|word| key(word).as_deref() == Some(wanted)))
        };
        let parts = self.disk.iter().flat_map(|disk| disk.elsewhere);
        parts.filter(is_elsewhere).map(|part| part.what.to_string()).collect()
    }

    /// The stripe that it works with against the one below. None if its type knows of none, or neither
    /// medium nor mount tells.
    #[must_use]
    pub fn found_geometry(&self, standing: &Standing<'_>) -> Option<FoundGeometry> {
        let rule = self.disk.as_ref()?.geometry?;
        let mut found: BTreeMap<String, u64> = self
            .geometry_facts()
            .into_iter()
            .filter_map(|name| Some((name.to_string(), standing.number(name)?)))
            .collect();
        if rule.ignored_by.is_some_and(|word| standing.shown.iter().any(|shown| shown == word)) {
            found.values_mut().for_each(|number| *number = 0);
        }
        for (key, fact) in rule.shown {
            let value = |shown: &String| shown.strip_prefix(key)?.strip_prefix('=')?.parse().ok();
            if let Some(number) = standing.shown.iter().find_map(value) {
                found.insert((*fact).to_string(), number);
            }
        }
        if found.is_empty() {
            return None;
        }
        let mut expected: Option<BTreeMap<String, u64>> =
            self.expected(standing).map(|facts| facts.into_iter().map(|(k, v)| (k.to_string(), v)).collect());
        if let Some(expected) = &mut expected {
            // Of what could not be read nothing is expected.
            expected.retain(|name, _| found.contains_key(name));
        }
        Some(FoundGeometry { found, expected })
    }

    /// Facts that its superblock should have for the stripe below.
    fn expected(&self, standing: &Standing<'_>) -> Option<crate::geometry_rule::Facts> {
        let rule = self.disk.as_ref()?.geometry?;
        // Where no superblock was read a mount shows units that need no block.
        let block = standing.number("block_size").unwrap_or(4096);
        let facts = (rule.facts)(Some(standing.geometry?), block).ok()?;
        let has_none = self.geometry_facts().into_iter().all(|name| standing.number(name) == Some(0));
        let too_small = || Some(standing.number("size")? < rule.least?.0);
        // Nobody can make it with one.
        (!(has_none && too_small().unwrap_or(false))).then_some(facts)
    }

    /// Lines for a shell, by purpose: `check` where a program can, `barriers_on` where an option of the mount
    /// turned them off, `discard_off` where it discards what is freed, `tell_geometry` where the stripe is another one than below. Comments where a person
    /// must do more than type.
    #[must_use]
    pub fn commands(&self, standing: &Standing<'_>) -> BTreeMap<String, String> {
        let mut commands = BTreeMap::new();
        let said = [
            ("check", self.check_command(standing)),
            ("barriers_on", self.barriers_command(standing)),
            ("discard_off", self.discard_command(standing)),
            ("tell_geometry", self.geometry_command(standing)),
        ];
        commands.extend(said.into_iter().filter_map(|(name, line)| Some((name.to_string(), line?))));
        commands
    }

    fn check_command(&self, standing: &Standing<'_>) -> Option<String> {
        let by_hand = self.disk.as_ref()?.check_by_hand;
        let CommandLine { program, .. } =
            self.check(CheckMode::Full, &Options::default(), standing.device).ok()?;
        let args = by_hand.iter().copied().chain([standing.device]).map(ToString::to_string).collect();
        let check = CommandLine { program, args }.shell();
        Some(match standing.point {
            Some("/") => format!("# it is the root: start a rescue system, then {check}"),
            Some(point) => format!("umount {} && {check}", quote(point)),
            None => check,
        })
    }

    fn barriers_command(&self, standing: &Standing<'_>) -> Option<String> {
        let is_shown = |word: &str| standing.shown.iter().any(|shown| shown == word);
        let off: Vec<&Off> = self.off_words().iter().filter(|off| is_shown(off.shown)).collect();
        (!off.is_empty()).then_some(())?;
        let point = standing.point?;
        let back: Option<Vec<&str>> = off.iter().map(|off| off.back).collect();
        Some(match back {
            Some(mut back) => {
                back.dedup();
                format!("mount -o remount,{} {}", back.join(","), quote(point))
            }
            None => {
                let words: Vec<&str> = off.iter().map(|off| off.shown).collect();
                fresh_mount(&format!("take {} out of", words.join(" and ")), Some(point))
            }
        })
    }

    fn discard_command(&self, standing: &Standing<'_>) -> Option<String> {
        let word = standing.shown.iter().find(|word| word.split('=').next() == Some("discard"))?;
        let point = standing.point?;
        Some(match self.disk.as_ref()?.discard_off? {
            DiscardOff::Remount(parameter) => format!("mount -o remount,{parameter} {}", quote(point)),
            DiscardOff::FreshMount => fresh_mount(&format!("take {word} out of"), Some(point)),
        })
    }

    fn geometry_command(&self, standing: &Standing<'_>) -> Option<String> {
        let rule = self.disk.as_ref()?.geometry?;
        let expected = self.expected(standing)?;
        let found = self.found_geometry(standing)?.found;
        let wrong = expected.iter().any(|(name, wanted)| found.get(*name) != Some(wanted));
        // What it was made with must be known, or the wrong thing would be said.
        if !wrong || !self.geometry_facts().into_iter().any(|name| standing.number(name).is_some()) {
            return None;
        }
        Some((rule.mend)(&Mismatch {
            device: standing.device,
            point: standing.point,
            driver: standing.driver,
            shown: standing.shown,
            superblock: standing.superblock?,
            geometry: standing.geometry?,
            expected: &expected,
        }))
    }
}

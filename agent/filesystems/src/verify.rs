//! Proofs that a mount and a medium are what was asked for. A kernel or a tool may refuse an option, or
//! take and ignore it; only what mountinfo and the superblock show afterwards counts.

use fsdyno_spec::outcome::Reason;
use fsdyno_spec::units::Bytes;
use serde_json::Value;

use crate::filesystem::FileSystem;
use crate::geometry_rule::Told;
use crate::medium::Superblock;
use crate::options::{Choice, Kind, OptionRow, Options, Rule, spell};

/// Words of `mount -o` that are attributes of the mount, not parameters of the file system.
pub const ATTRIBUTES: [&str; 7] =
    ["noatime", "nodiratime", "relatime", "strictatime", "nodev", "nosuid", "noexec"];

/// The options that a line of mountinfo shows.
#[derive(Debug)]
pub struct Shown<'a> {
    superblock: &'a str,
    mount: &'a str,
}

impl<'a> Shown<'a> {
    /// Field 11 (super options) and field 6 (mount options) of a line of mountinfo.
    #[must_use]
    pub fn new(superblock: &'a str, mount: &'a str) -> Self {
        Self { superblock, mount }
    }

    fn words(&self) -> impl Iterator<Item = &'a str> {
        self.superblock.split(',').chain(self.mount.split(','))
    }

    pub(crate) fn has(&self, word: &str) -> bool {
        self.words().any(|shown| shown == word)
    }

    fn value(&self, key: &str) -> Option<&'a str> {
        self.words().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    /// Proves that the kernel took one option.
    ///
    /// # Errors
    /// What it shows instead.
    pub fn has_taken(&self, filesystem: &str, row: &OptionRow, value: &Value) -> Result<(), Reason> {
        let taken = match row.rule {
            Rule::MountValue { key, silent } => match self.value(key) {
                Some(shown) => same(&row.kind, shown, value),
                None => silent == Some(spell(value).as_str()),
            },
            Rule::MountQuiet(key) => self.value(key).is_none_or(|shown| same(&row.kind, shown, value)),
            Rule::MountChoice(choices) => {
                let of = |choice: &Choice| choice.shown.is_some_and(|word| self.has(word));
                choices.iter().all(|choice| match Some(choice.value) == value.as_str() {
                    true => choice.shown.is_none() || of(choice),
                    false => !of(choice),
                })
            }
            Rule::MountSwitch { shown, .. } => {
                shown.iter().any(|word| self.has(word)) != row.kind.is_default(value)
            }
            Rule::Attribute(word) => self.has(word) == (*value == Value::Bool(true)),
            Rule::MountExtra => {
                let mut list = value.as_array().into_iter().flatten().filter_map(Value::as_str);
                return list.try_for_each(|word| self.has_taken_extra(filesystem, word));
            }
            _ => true,
        };
        if taken { Ok(()) } else { Err(self.refusal(filesystem, &format!("{} = {value}", row.name))) }
    }

    /// A user's own option must be shown, with its value or a refined one (`zstd` as `zstd:3`).
    fn has_taken_extra(&self, filesystem: &str, word: &str) -> Result<(), Reason> {
        let taken = self.has(word)
            || word.split_once('=').is_some_and(|(key, value)| {
                self.value(key)
                    .and_then(|shown| shown.strip_prefix(value))
                    .is_some_and(|s| s.starts_with(':'))
            });
        if taken {
            return Ok(());
        }
        Err(self.refusal(filesystem, &format!("extra_mount `{word}`")).advise(
            "spell it as the kernel shows it; leave it out if it is the kernel's default, which is not shown",
        ))
    }

    fn refusal(&self, filesystem: &str, asked: &str) -> Reason {
        Reason::new(format!(
            "the kernel did not take {asked} for {filesystem}: the mount has `{}` and `{}`",
            self.superblock, self.mount
        ))
        .advise("leave it out, or the option that excludes it; the kernel log may name it")
    }
}

impl FileSystem {
    /// Proves from mountinfo that the kernel took each option that was asked for, and that barriers which
    /// nobody turned off are not off: by a default of the superblock, say. Other switches that were left
    /// out may follow from other options, and are not proved.
    ///
    /// # Errors
    /// The first option that it did not take, with what the kernel shows instead.
    pub fn verify_mount(
        &self,
        options: &Options,
        super_options: &str,
        mount_options: &str,
    ) -> Result<(), Reason> {
        let shown = Shown::new(super_options, mount_options);
        options.rows(self.options).try_for_each(|(row, value)| shown.has_taken(self.name, row, value))?;
        let barrier = self.options.iter().find(|row| row.name == "barrier");
        let left_out = |row: &&OptionRow| {
            let Rule::MountSwitch { shown, .. } = row.rule else { return false };
            let by_hand = options.strings("extra_mount").any(|word| shown.contains(&word));
            options.get(row.name).is_none() && !by_hand
        };
        match barrier.filter(left_out).and_then(|row| Some((row, row.kind.default()?))) {
            Some((row, default)) => shown.has_taken(self.name, row, &default),
            None => Ok(()),
        }
    }

    /// Proves from the medium that mkfs made what was asked for: the UUID, a size that fits the
    /// device, and each option and geometry that the
    /// superblock tells. `told`: what mkfs was told of the array.
    ///
    /// # Errors
    /// The first thing that differs.
    pub fn verify_medium(
        &self,
        options: &Options,
        uuid: &str,
        size: Bytes,
        superblock: &Superblock,
        told: Told<'_>,
    ) -> Result<(), Reason> {
        let uuid = self.identity_of(uuid);
        if superblock.uuid != uuid {
            return Err(Reason::new(format!(
                "the medium carries a {} with UUID {}, not the one asked for ({uuid})",
                self.name, superblock.uuid
            ))
            .advise("leave the UUID out of extra_mkfs; the messages of mkfs are in the trial's artefacts"));
        }
        if let Some(made) = superblock.facts.get("size").and_then(Value::as_u64).filter(|made| *made > size.0)
        {
            return Err(Reason::new(format!(
                "mkfs made a {} of {}, larger than its device of {size}",
                self.name,
                Bytes(made)
            )));
        }
        for row in self.options.iter().filter(|row| row.rule.stage() == "mkfs") {
            let certain = row.kind.default();
            let Some(asked) = options.get(row.name).or(certain.as_ref()) else { continue };
            let found = superblock.facts.get(row.name);
            let differs = match row.rule {
                Rule::MkfsFeatures(known) => options.strings(row.name).any(|word| {
                    let plain = word.strip_prefix('^').unwrap_or(word);
                    let fact =
                        known.iter().find(|feature| feature.name == plain).map(|f| Value::from(f.fact));
                    let has = found
                        .and_then(Value::as_array)
                        .is_some_and(|all| fact.is_some_and(|f| all.contains(&f)));
                    has == word.starts_with('^')
                }),
                _ => found.is_some_and(|found| found != asked),
            };
            if differs {
                let found = found.map_or_else(|| "nothing of it".to_string(), Value::to_string);
                return Err(Reason::new(format!(
                    "{}: mkfs was asked for {} = {asked}, but the superblock says {found}",
                    self.name, row.name
                ))
                .advise("its messages are in the trial's artefacts; the device may be too small for this"));
            }
        }
        self.verify_geometry(superblock, told)
    }

    /// Proves that the superblock has the geometry that mkfs was told, or none.
    fn verify_geometry(&self, superblock: &Superblock, told: Told<'_>) -> Result<(), Reason> {
        let (Some(geometry), Some(rule)) = (told.forced(), self.on_disk()?.geometry) else { return Ok(()) };
        let number = |name: &str| superblock.facts.get(name).and_then(Value::as_u64);
        for (name, wanted) in (rule.facts)(geometry, number("block_size").unwrap_or(0))? {
            let found = number(name);
            if found != Some(wanted) {
                let found = found.map_or_else(|| "nothing".to_string(), |found| found.to_string());
                return Err(Reason::new(format!(
                    "{}: the geometry that mkfs was told means {name} = {wanted}, but the superblock says {found}",
                    self.name
                ))
                .advise(
                    "its messages are in the trial's artefacts; state `block_size`, give the array more room, and \
                     leave geometry out of extra_mkfs",
                ));
            }
        }
        Ok(())
    }
}

/// Whether a shown value is the one asked for; sizes may be shown as `256k`.
fn same(kind: &Kind, shown: &str, asked: &Value) -> bool {
    match kind {
        Kind::Size(..) | Kind::SizeOf(_) => asked.as_u64().is_some() && size(shown) == asked.as_u64(),
        // A kernel refines some words: `zstd` is shown as `zstd:3`.
        Kind::Word(_) => {
            shown.strip_prefix(&spell(asked)).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
        }
        _ => shown == spell(asked),
    }
}

/// A size as the kernel prints it: bytes, or with `k`, `m`, `g`.
fn size(text: &str) -> Option<u64> {
    let shift = match text.as_bytes().last()?.to_ascii_lowercase() {
        b'k' => 10,
        b'm' => 20,
        b'g' => 30,
        _ => return text.parse().ok(),
    };
    text[..text.len() - 1].parse::<u64>().ok()?.checked_shl(shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn barriers_that_nobody_turned_off_must_be_on() {
        let verified = |given: Value, shown: &str| {
            let row = crate::find("ext4").expect("a row");
            let options = row.options(&serde_json::from_value(given).expect("a map")).expect("options");
            row.verify_mount(&options, shown, "rw,relatime").is_ok()
        };
        assert!(verified(json!({}), "rw"));
        assert!(!verified(json!({}), "rw,nobarrier"), "turned off by somebody else");
        assert!(verified(json!({"barrier": false}), "rw,nobarrier"));
        assert!(verified(json!({"extra_mount": ["nobarrier"]}), "rw,nobarrier"));
        // Journaled data turn delayed allocation off by themselves.
        assert!(verified(json!({"data": "journal"}), "rw,nodelalloc,data=journal"));
    }
}

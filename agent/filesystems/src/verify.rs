//! Proof from mountinfo that a mount is what was asked for. A kernel may refuse an option, or take
//! and ignore it; only what it shows afterwards counts.

use fsdyno_spec::outcome::Reason;
use serde_json::Value;

use crate::options::{Kind, OptionRow, Rule, spell};

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

    fn has(&self, word: &str) -> bool {
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

/// Whether a shown value is the one asked for; sizes may be shown as `256k`.
fn same(kind: &Kind, shown: &str, asked: &Value) -> bool {
    match kind {
        Kind::Size(..) | Kind::SizeOf(_) => asked.as_u64().is_some() && size(shown) == asked.as_u64(),
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

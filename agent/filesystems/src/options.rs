//! Options as data: what a plan may write, how the tool or the kernel spells it, and how it is seen
//! to have been taken. Adding an option to a file system is one more row in its table.

use std::collections::BTreeMap;

use fsdyno_spec::describe::OptionInfo;
use fsdyno_spec::outcome::Reason;
use serde_json::{Value, json};

use crate::extra::{MkfsFlag, only_flags, stays_inside};

/// One option of a file system.
#[derive(Debug)]
pub struct OptionRow {
    /// As in a plan. If it is a mkfs option and the superblock facts hold this name, both must agree.
    pub name: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// How it is asked for, and how it is seen to have been taken.
    pub rule: Rule,
    /// What it does, and the tool's own spelling.
    pub help: &'static str,
}

/// What values an option takes.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Yes or no; what it is when left out.
    Flag(bool),
    /// A whole number from, to (both included).
    Number(u64, u64),
    /// A size in bytes from, to (both included).
    Size(u64, u64),
    /// One of these sizes in bytes.
    SizeOf(&'static [u64]),
    /// Whole seconds from, to (both included).
    Seconds(u64, u64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list of strings, handed on as they are; none may name a device or a file.
    Strings,
}

/// A mount parameter: a key, and a value unless it is a flag.
pub type Param = (&'static str, Option<&'static str>);

/// How an option is asked for, and how it is seen to have been taken.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    /// A flag of mkfs with the value as next argument: `-i 8192`.
    MkfsWord(&'static str),
    /// A member of a comma-separated list of mkfs: `-E stride=16`.
    MkfsGroup(&'static str, &'static str),
    /// A feature of mkfs, on or off: `-O has_journal`, `-O ^has_journal`.
    MkfsFeature(&'static str, &'static str),
    /// A mkfs option that the file system's own code spells.
    MkfsOwn,
    /// More arguments for mkfs: of these flags.
    MkfsExtra(&'static [MkfsFlag]),
    /// A mount parameter with a value. The kernel may stay silent about its default.
    MountValue {
        /// The key.
        key: &'static str,
        /// The value that the kernel has if it shows none.
        silent: Option<&'static str>,
    },
    /// A mount parameter that turns a flag into the opposite of its default. Not given for the
    /// default, which is proved all the same.
    MountSwitch {
        /// Asks for the opposite of the default.
        param: Param,
        /// Words of which mountinfo shows one if, and only if, the default does not hold.
        shown: &'static [&'static str],
    },
    /// An attribute of the mount (`MOUNT_ATTR_*`), shown under the same word.
    Attribute(&'static str),
    /// Not a mount option (any more): the stack sets `queue/write_cache`.
    Queue,
    /// More mount parameters and attributes.
    MountExtra,
}

impl Rule {
    /// `mkfs` or `mount`.
    #[must_use]
    pub fn stage(&self) -> &'static str {
        match self {
            Self::MkfsWord(_)
            | Self::MkfsGroup(..)
            | Self::MkfsFeature(..)
            | Self::MkfsOwn
            | Self::MkfsExtra(_) => "mkfs",
            Self::MountValue { .. }
            | Self::MountSwitch { .. }
            | Self::Attribute(_)
            | Self::Queue
            | Self::MountExtra => "mount",
        }
    }
}

/// Access times are not written. Every file system has it.
pub const NOATIME: OptionRow = OptionRow {
    name: "noatime",
    kind: Kind::Flag(false),
    rule: Rule::Attribute("noatime"),
    help: "Reading does not write access times (mount -o noatime). Left out: the kernel's relatime.",
};

/// Further arguments of mkfs, for what has no option of its own.
pub(crate) const fn extra_mkfs(flags: &'static [MkfsFlag]) -> OptionRow {
    OptionRow {
        name: "extra_mkfs",
        kind: Kind::Strings,
        rule: Rule::MkfsExtra(flags),
        help: "More arguments for mkfs, one string each, put before the device. Only flags that stay on this \
               device, with their values: anything else, a path, or another device's name is refused.",
    }
}

/// Further mount options, for what has no option of its own.
pub const EXTRA_MOUNT: OptionRow = OptionRow {
    name: "extra_mount",
    kind: Kind::Strings,
    rule: Rule::MountExtra,
    help: "More mount options, one string each, spelt as /proc/self/mountinfo shows them (key or \
           key=value): one that the kernel does not show is an error. A path or another device's name is \
           refused.",
};

impl Kind {
    /// JSON Schema of a value.
    #[must_use]
    pub fn schema(&self) -> Value {
        match *self {
            Self::Flag(default) => json!({ "type": "boolean", "default": default }),
            Self::Number(from, to) => json!({ "type": "integer", "minimum": from, "maximum": to }),
            Self::Size(from, to) => {
                json!({ "type": "integer", "format": "bytes", "minimum": from, "maximum": to })
            }
            Self::SizeOf(sizes) => json!({ "type": "integer", "format": "bytes", "enum": sizes }),
            Self::Seconds(from, to) => {
                json!({ "type": "number", "format": "seconds", "minimum": from, "maximum": to })
            }
            Self::Word(words) => json!({ "type": "string", "enum": words }),
            Self::Strings => json!({ "type": "array", "items": { "type": "string" } }),
        }
    }

    /// What an option is when left out, where that is certain.
    #[must_use]
    pub fn default(&self) -> Option<Value> {
        if let Self::Flag(default) = self { Some(json!(default)) } else { None }
    }

    pub(crate) fn is_default(&self, value: &Value) -> bool {
        self.default().as_ref() == Some(value)
    }

    /// The value as it will be handed on, or what would have been expected.
    fn check(&self, value: &Value) -> Result<Value, String> {
        let whole = || {
            value
                .as_u64()
                .or_else(|| value.as_f64().filter(|n| *n >= 0.0 && n.fract() == 0.0).map(|n| n as u64))
        };
        let within = |from: u64, to: u64, unit: &str| match whole() {
            Some(n) if (from..=to).contains(&n) => Ok(json!(n)),
            _ => Err(format!("a whole number{unit} from {from} to {to}")),
        };
        match *self {
            Self::Flag(_) if value.is_boolean() => Ok(value.clone()),
            Self::Flag(_) => Err("true or false".to_string()),
            Self::Number(from, to) => within(from, to, ""),
            Self::Size(from, to) => within(from, to, " of bytes"),
            Self::Seconds(from, to) => within(from, to, " of seconds"),
            Self::SizeOf(sizes) => match whole() {
                Some(n) if sizes.contains(&n) => Ok(json!(n)),
                _ => Err(format!("one of {sizes:?} bytes")),
            },
            Self::Word(words) => match value.as_str() {
                Some(word) if words.contains(&word) => Ok(value.clone()),
                _ => Err(format!("one of: {}", words.join(", "))),
            },
            Self::Strings => match value.as_array() {
                Some(list) if list.iter().all(|item| item.as_str().is_some_and(|s| !s.is_empty())) => {
                    Ok(value.clone())
                }
                _ => Err("a list of strings, none of them empty".to_string()),
            },
        }
    }
}

/// Options of one file system, every name known and every value in its range.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options(BTreeMap<&'static str, Value>);

impl Options {
    /// Checks the options of a plan against a table.
    ///
    /// # Errors
    /// An unknown name or a wrong value, with what was expected; a word that could reach another device
    /// or a file.
    pub fn check(
        filesystem: &str,
        rows: &'static [OptionRow],
        given: &BTreeMap<String, Value>,
    ) -> Result<Self, Reason> {
        let mut checked = BTreeMap::new();
        for (name, value) in given {
            let row = rows.iter().find(|row| row.name == name).ok_or_else(|| {
                let known: Vec<_> = rows.iter().map(|row| row.name).collect();
                Reason::new(format!("{filesystem} has no option `{name}`"))
                    .advise(format!("its options are: {}", known.join(", ")))
            })?;
            let value = row.kind.check(value).map_err(|expected| {
                Reason::new(format!("{filesystem}: `{name}` cannot be {value}"))
                    .advise(format!("write {expected}"))
            })?;
            row.check_words(filesystem, &value)?;
            checked.insert(row.name, value);
        }
        Ok(Self(checked))
    }

    /// The value of an option, if given.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// A yes-or-no option, if given.
    #[must_use]
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.get(name)?.as_bool()
    }

    /// A number or size, if given.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.as_u64()
    }

    /// A list of strings; empty if not given.
    pub fn strings(&self, name: &str) -> impl Iterator<Item = &str> {
        self.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    /// Given options with their rows, in the order of the table.
    pub(crate) fn rows<'a>(
        &'a self,
        table: &'static [OptionRow],
    ) -> impl Iterator<Item = (&'static OptionRow, &'a Value)> {
        table.iter().filter_map(|row| Some((row, self.get(row.name)?)))
    }
}

/// A value as tools write it.
pub(crate) fn spell(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

impl OptionRow {
    /// Refuses words that could reach another device, or a file.
    fn check_words(&self, filesystem: &str, value: &Value) -> Result<(), Reason> {
        let Kind::Strings = self.kind else { return Ok(()) };
        let words: Vec<_> = value.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        words.iter().try_for_each(|word| stays_inside(filesystem, self.name, word))?;
        match self.rule {
            Rule::MkfsExtra(flags) => only_flags(filesystem, self.name, flags, &words),
            _ => Ok(()),
        }
    }

    /// For `describe` and `schema`.
    #[must_use]
    pub fn info(&self) -> OptionInfo {
        OptionInfo {
            name: self.name.to_string(),
            value: self.kind.schema(),
            stage: self.rule.stage().to_string(),
            help: self.help.to_string(),
        }
    }
}

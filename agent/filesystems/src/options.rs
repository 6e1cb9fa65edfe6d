//! Options as data: what a plan may write, how the tool or the kernel spells it, and how it is seen
//! to have been taken. Adding an option to a file system is one more row in its table.

use std::collections::BTreeMap;

use fsdyno_spec::describe::OptionInfo;
use fsdyno_spec::outcome::Reason;
use fsdyno_spec::units::Bytes;
use serde_json::{Value, json};

use crate::extra::{MkfsFlag, only_flags, stays_inside};
pub use crate::rule::{Choice, Feature, Rule};

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
    /// Yes or no; left out, the tool decides by its version.
    Switch,
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

/// Access times are not written. Every file system has it.
pub const NOATIME: OptionRow = OptionRow {
    name: "noatime",
    kind: Kind::Flag(false),
    rule: Rule::Attribute("noatime"),
    help: "Reading does not write access times (mount -o noatime). Left out: the kernel's relatime.",
};

/// What mkfs is told of the array below. Only for file systems with a [`crate::GeometryRule`].
pub(crate) const GEOMETRY: OptionRow = OptionRow {
    name: "geometry",
    kind: Kind::Word(&["detect", "computed", "none", "declared"]),
    rule: Rule::Geometry,
    help: "What mkfs is told of the array below, read back from the superblock. detect: nothing, it finds by \
           itself what it can (today's tools do, also through LVM); computed: the stack's own array; none: \
           that there is none, by force; declared: the stack's `geometry`, for a hardware array. Left out: detect.",
};

/// Refuses a stated geometry beside options that say the same in the tool's own units.
pub(crate) fn geometry_alone(options: &Options, explicit: &[&str]) -> Result<(), Reason> {
    let stated = options.word("geometry").filter(|word| *word != "detect");
    match (stated, explicit.iter().find(|name| options.get(name).is_some())) {
        (Some(geometry), Some(name)) => {
            Err(Reason::new(format!("`geometry = \"{geometry}\"` and `{name}` both say what the array is"))
                .advise(format!("leave `{name}` out, or `geometry`")))
        }
        _ => Ok(()),
    }
}

/// The kernel discards what is deleted.
pub(crate) const ONLINE_DISCARD: OptionRow = OptionRow {
    name: "online_discard",
    kind: Kind::Flag(false),
    rule: Rule::MountSwitch { param: ("discard", None), shown: &["discard"] },
    help: "The kernel discards blocks as they are freed (mount -o discard).",
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
            Self::Switch => json!({ "type": "boolean" }),
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
            Self::Flag(_) | Self::Switch if value.is_boolean() => Ok(value.clone()),
            Self::Flag(_) | Self::Switch => Err("true or false".to_string()),
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
            row.check_unit(filesystem, &value)?;
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

    /// A word, if given.
    #[must_use]
    pub fn word(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
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

/// Refuses features that are not in the table, or asked for twice.
fn only_features(filesystem: &str, option: &str, known: &[Feature], words: &[&str]) -> Result<(), Reason> {
    let plain = |word: &str| word.strip_prefix('^').unwrap_or(word).to_string();
    for (n, word) in words.iter().enumerate() {
        if !known.iter().any(|feature| feature.name == plain(word)) {
            let names: Vec<_> = known.iter().map(|feature| feature.name).collect();
            return Err(Reason::new(format!("{filesystem}: `{option}` knows no feature `{word}`"))
                .advise(format!("with `^` before it it is turned off; it knows: {}", names.join(", "))));
        }
        if words[..n].iter().any(|other| plain(other) == plain(word)) {
            return Err(Reason::new(format!("{filesystem}: `{option}` names `{word}` twice"))
                .advise("ask for it once, with or without `^`"));
        }
    }
    Ok(())
}

impl OptionRow {
    /// Refuses words that could reach another device, or a file.
    fn check_words(&self, filesystem: &str, value: &Value) -> Result<(), Reason> {
        let Kind::Strings = self.kind else { return Ok(()) };
        let words: Vec<_> = value.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        words.iter().try_for_each(|word| stays_inside(filesystem, self.name, word))?;
        match self.rule {
            Rule::MkfsExtra(flags) => only_flags(filesystem, self.name, flags, &words),
            Rule::MkfsFeatures(known) => only_features(filesystem, self.name, known, &words),
            _ => Ok(()),
        }
    }

    /// Refuses a size that the tool's unit cannot say.
    fn check_unit(&self, filesystem: &str, value: &Value) -> Result<(), Reason> {
        let Rule::CheckValue { unit, .. } = self.rule else { return Ok(()) };
        if value.as_u64().is_none_or(|bytes| bytes % unit == 0) {
            return Ok(());
        }
        let unit = Bytes(unit);
        Err(Reason::new(format!("{filesystem}: {} = {value} is no whole number of {unit}", self.name))
            .advise(format!("write a multiple of {unit}: the tool counts in them")))
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

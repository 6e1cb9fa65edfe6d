//! Words that a plan hands on to mkfs and mount as they are. mkfs runs as root and with force on
//! devices that the agent made, and it takes a word too many for one more device to overwrite
//! (`mkfs.btrfs -f /dev/sdb /dev/loop0`). So only what is known to stay on the trial's own device
//! passes; all else is refused before anything is touched.

use fsdyno_spec::outcome::Reason;

/// A flag of mkfs that a plan may give in `extra_mkfs`: one that neither names another device or file,
/// nor forces, nor takes away what the agent relies on (type, UUID, that something is made at all).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MkfsFlag {
    /// One dash and one letter, or two dashes and a word.
    pub name: &'static str,
    /// Whether a value follows it, as next word or glued (`-b4096`, `--csum=xxhash`).
    pub value: bool,
}

impl MkfsFlag {
    /// A flag with a value.
    pub(crate) const fn with_value(name: &'static str) -> Self {
        Self { name, value: true }
    }

    /// A flag that stands for itself.
    pub(crate) const fn alone(name: &'static str) -> Self {
        Self { name, value: false }
    }

    /// What of a word comes after this flag, if the word begins with it as the tool's parser reads it.
    fn begins<'a>(&self, word: &'a str) -> Option<&'a str> {
        let rest = word.strip_prefix(self.name)?;
        let long = self.name.starts_with("--");
        (!long || rest.is_empty() || rest.starts_with('=')).then_some(rest)
    }
}

/// Keys, flags and features by which tools and kernels take another device, or a file, than the one
/// they work on.
const OUTSIDE: &[&str] = &[
    "device",
    "file",
    "grpjquota",
    "journal_dev",
    "journal_path",
    "logdev",
    "name",
    "rtdev",
    "source",
    "usrjquota",
];

/// Refuses a word of which a part, between `=`, `,` and spaces, is a path or names another device.
///
/// # Errors
/// The word, why, and what to do instead.
pub(crate) fn stays_inside(filesystem: &str, option: &str, word: &str) -> Result<(), Reason> {
    without_outside(filesystem, option, word, word)
}

/// Looks at a word, or at the value that is glued to a flag in it.
fn without_outside(filesystem: &str, option: &str, word: &str, text: &str) -> Result<(), Reason> {
    let why = if text.contains('/') {
        "is, or contains, a path".to_string()
    } else {
        let mut parts = text.split(|c: char| c == '=' || c == ',' || c.is_whitespace());
        // mke2fs takes `^`, `+` and `-` before a feature, and features in either case.
        let plain = |part: &str| part.trim_start_matches(['^', '+', '-']).to_ascii_lowercase();
        match parts.find(|part| OUTSIDE.contains(&plain(part).as_str())) {
            Some(part) => format!("names another device or a file (`{part}`)"),
            None => return Ok(()),
        }
    };
    Err(refused(filesystem, option, word, &why).advise(
        "leave it out: a trial may touch nothing but the devices of its stack, so journals, logs and \
         real-time sections on other devices, and files, cannot be asked for here",
    ))
}

/// Refuses words for mkfs that are not flags of the table with their values.
///
/// # Errors
/// The first such word, why, and which flags there are.
pub(crate) fn only_flags(
    filesystem: &str,
    option: &str,
    flags: &[MkfsFlag],
    words: &[&str],
) -> Result<(), Reason> {
    let refuse = |word: &str, why: &str| {
        let known: Vec<_> = flags
            .iter()
            .map(|flag| if flag.value { format!("{} VALUE", flag.name) } else { flag.name.to_string() })
            .collect();
        Err(refused(filesystem, option, word, why).advise(format!(
            "each string is one word of the command line, a value follows its flag; {option} takes: {}",
            known.join(", ")
        )))
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if !word.starts_with('-') || *word == "-" {
            return refuse(word, "is no flag and no flag's value: mkfs would take it for a device");
        }
        if *word == "--" {
            return refuse(word, "would make devices of the words after it");
        }
        let begun = flags.iter().find_map(|flag| Some((flag, flag.begins(word)?)));
        let Some((flag, rest)) = begun else {
            return refuse(word, "is no flag that is known to stay on the trial's own device");
        };
        let value = match (flag.value, rest) {
            (false, "") => continue,
            (false, _) => return refuse(word, "has something glued to a flag that takes no value"),
            (true, "") => match words.next() {
                Some(value) => value,
                None => return refuse(word, "lacks its value"),
            },
            (true, glued) if flag.name.starts_with("--") => &glued[1..],
            (true, glued) => glued,
        };
        if value.is_empty() || value.starts_with('-') {
            return refuse(word, &format!("lacks its value (`{value}` is none)"));
        }
        without_outside(filesystem, option, word, value)?;
    }
    Ok(())
}

fn refused(filesystem: &str, option: &str, word: &str, why: &str) -> Reason {
    Reason::new(format!("{filesystem}: `{option}` cannot have the word `{word}`: it {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAGS: &[MkfsFlag] =
        &[MkfsFlag::with_value("-b"), MkfsFlag::alone("-q"), MkfsFlag::with_value("--csum")];

    fn flags(words: &[&str]) -> Result<(), String> {
        only_flags("anyfs", "extra_mkfs", FLAGS, words).map_err(|reason| reason.message)
    }

    #[test]
    fn a_flag_takes_its_value_as_next_word_or_glued() {
        for words in [&["-b", "4096", "-q"][..], &["-b4096"], &["--csum", "x"], &["--csum=x", "-q"], &[]] {
            assert_eq!(flags(words), Ok(()), "{words:?}");
        }
    }

    #[test]
    fn whatever_could_become_a_device_is_refused_and_named() {
        for (words, named, why) in [
            (&["sdb"][..], "`sdb`", "for a device"),
            (&["-q", "sdb"], "`sdb`", "for a device"),
            (&["-b", "1", "sdb"], "`sdb`", "for a device"),
            (&["-b4096", "sdb"], "`sdb`", "for a device"),
            (&["--csum=x", "sdb"], "`sdb`", "for a device"),
            (&["-"], "`-`", "for a device"),
            (&["--", "sdb"], "`--`", "make devices"),
            (&["-f"], "`-f`", "no flag that is known"),
            (&["--cs", "x"], "`--cs`", "no flag that is known"),
            (&["--csumx"], "`--csumx`", "no flag that is known"),
            (&["-qf"], "`-qf`", "glued"),
            (&["-q", "-b"], "`-b`", "lacks its value"),
            (&["-b", "-q"], "`-b`", "lacks its value"),
            (&["-b-q"], "`-b-q`", "lacks its value"),
            (&["--csum="], "`--csum=`", "lacks its value"),
            (&["-bdevice=sdb"], "`-bdevice=sdb`", "another device"),
            (&["-bfile,size=4"], "`-bfile,size=4`", "another device"),
            (&["--csum=rtdev"], "`--csum=rtdev`", "another device"),
        ] {
            let message = flags(words).expect_err("refused");
            assert!(message.contains("anyfs: `extra_mkfs`"), "{message}");
            assert!(message.contains(named) && message.contains(why), "{words:?}: {message}");
        }
    }

    #[test]
    fn a_path_or_another_device_is_found_in_any_part_of_a_word() {
        let message = |word| stays_inside("anyfs", "extra_mount", word).map_err(|reason| reason.message);
        for word in ["/dev/sdb", "device=sdb", "size=4,logdev=sdb", "a b=1 rtdev=c", "file", "^Journal_Dev"] {
            let message = message(word).expect_err("refused");
            assert!(message.contains("`extra_mount`") && message.contains(word), "{message}");
        }
        for word in ["size=4", "devices", "a label", "usrquota", "compress=zstd:3", "^metadata_csum"] {
            assert_eq!(message(word), Ok(()), "{word}");
        }
    }
}

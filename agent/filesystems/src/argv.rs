//! Building the argument vector of a mkfs. Some of its flags take comma-separated lists of which
//! the tool keeps only the last one (`mke2fs -E`), so lists of our own and of a user's extra
//! arguments must become one.

use crate::plan::CommandLine;

/// Arguments under construction.
#[derive(Debug)]
pub struct Argv {
    program: &'static str,
    /// Flags whose values are joined.
    joined: &'static [&'static str],
    words: Vec<String>,
    lists: Vec<(&'static str, Vec<String>)>,
}

impl Argv {
    /// Arguments of a program; values of the flags in `joined` become one comma-separated list each.
    #[must_use]
    pub fn new(program: &'static str, joined: &'static [&'static str]) -> Self {
        Self { program, joined, words: Vec::new(), lists: Vec::new() }
    }

    /// One argument.
    pub fn word(&mut self, word: impl Into<String>) {
        self.words.push(word.into());
    }

    /// One member of a list. A flag that is not joined gets the member as next argument.
    pub fn member(&mut self, flag: &'static str, member: impl Into<String>) {
        if !self.joined.contains(&flag) {
            self.words.push(flag.to_string());
            self.words.push(member.into());
        } else if let Some((_, list)) = self.lists.iter_mut().find(|(known, _)| *known == flag) {
            list.push(member.into());
        } else {
            self.lists.push((flag, vec![member.into()]));
        }
    }

    /// A user's own arguments: lists are joined (`-E x` and `-Ex`), the rest is handed on.
    pub fn extra<'a>(&mut self, words: impl Iterator<Item = &'a str>) {
        let mut pending: Option<&'static str> = None;
        for word in words {
            if let Some(flag) = pending.take() {
                self.member(flag, word);
            } else if let Some(flag) = self.joined.iter().copied().find(|flag| word.starts_with(flag)) {
                match &word[flag.len()..] {
                    "" => pending = Some(flag),
                    glued => self.member(flag, glued),
                }
            } else {
                self.word(word);
            }
        }
        if let Some(flag) = pending {
            self.word(flag);
        }
    }

    /// The command line for a device.
    #[must_use]
    pub fn finish(self, device: &str) -> CommandLine {
        let mut args = self.words;
        for (flag, list) in self.lists {
            args.push(flag.to_string());
            args.push(list.join(","));
        }
        args.push(device.to_string());
        CommandLine { program: self.program.to_string(), args }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_ours_and_of_the_user_become_one() {
        let mut argv = Argv::new("mke2fs", &["-E"]);
        argv.member("-E", "nodiscard");
        argv.extra(["-E", "stride=16", "-v", "-Eoffset=0"].into_iter());
        argv.member("-m", "1");
        assert_eq!(argv.finish("/d").args, ["-v", "-m", "1", "-E", "nodiscard,stride=16,offset=0", "/d"]);
    }

    #[test]
    fn a_flag_without_its_value_is_left_for_the_tool_to_refuse() {
        let mut argv = Argv::new("mke2fs", &["-E"]);
        argv.extra(["-E"].into_iter());
        assert_eq!(argv.finish("/d").args, ["-E", "/d"]);
    }
}

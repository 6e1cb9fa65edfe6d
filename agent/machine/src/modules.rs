//! Kernel modules by name or alias, from what depmod wrote. A guest has no modprobe of its own kernel's:
//! the kernel asks this program instead, and it loads what the trial needs and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// `MODULE_INIT_COMPRESSED_FILE` of `linux/module.h`: the kernel unpacks the file itself.
const COMPRESSED: libc::c_int = 4;

/// A kernel's modules.
#[derive(Clone, Debug, Default)]
pub struct Modules {
    folder: PathBuf,
    /// Module -> its file and the files that it depends on, relative to the folder.
    files: BTreeMap<String, (String, Vec<String>)>,
    builtin: BTreeSet<String>,
    aliases: BTreeMap<String, Vec<String>>,
    /// Module -> what must be loaded before it though no symbol says so.
    before: BTreeMap<String, Vec<String>>,
}

impl Modules {
    /// Reads `modules.dep`, `modules.builtin`, `modules.alias` and `modules.softdep` of a folder; what
    /// is missing is empty. See modules.dep(5) and depmod.d(5).
    #[must_use]
    pub fn read(folder: &Path) -> Self {
        let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        Self::parse(
            folder,
            &text("modules.dep"),
            &text("modules.builtin"),
            &text("modules.alias"),
            &text("modules.softdep"),
        )
    }

    fn parse(folder: &Path, dep: &str, builtin: &str, alias: &str, softdep: &str) -> Self {
        let mut modules = Self { folder: folder.to_path_buf(), ..Self::default() };
        for (file, needs) in dep.lines().filter_map(|line| line.split_once(':')) {
            let needs = needs.split_whitespace().map(str::to_string).collect();
            modules.files.insert(name_of(file), (file.to_string(), needs));
        }
        modules.builtin = builtin.lines().map(name_of).collect();
        // Patterns are what devices ask by, and most of the file; drivers are asked for by plain words.
        let plain = alias.lines().filter(|line| !line.contains(['*', ':']));
        for line in plain.chain(softdep.lines()) {
            let mut words = line.split_whitespace();
            match (words.next(), words.next()) {
                (Some("alias"), Some(alias)) => {
                    modules.aliases.entry(normal(alias)).or_default().extend(words.map(normal));
                }
                (Some("softdep"), Some(module)) => {
                    let pre = words.skip_while(|w| *w != "pre:").skip(1).take_while(|w| *w != "post:");
                    modules.before.entry(normal(module)).or_default().extend(pre.map(normal));
                }
                _ => {}
            }
        }
        modules
    }

    /// Whether the kernel has a module or an alias, built in or as a file.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        let name = normal(name);
        self.builtin.contains(&name)
            || self.files.contains_key(&name)
            || self.aliases.get(&name).is_some_and(|names| names.iter().any(|n| self.files.contains_key(n)))
    }

    /// Files to load for a module or alias, in order, each once; empty if it is built in.
    ///
    /// # Errors
    /// A sentence, if there is no such module.
    pub fn order(&self, name: &str) -> Result<Vec<PathBuf>, String> {
        let mut order = Vec::new();
        self.collect(&normal(name), &mut order, &mut BTreeSet::new())?;
        Ok(order.into_iter().map(|file| self.folder.join(file)).collect())
    }

    fn collect(
        &self,
        name: &str,
        order: &mut Vec<String>,
        seen: &mut BTreeSet<String>,
    ) -> Result<(), String> {
        if !seen.insert(name.to_string()) || self.builtin.contains(name) {
            return Ok(());
        }
        if let Some((file, needs)) = self.files.get(name) {
            // What is only wished for may be missing.
            for wish in self.before.get(name).into_iter().flatten() {
                let _ = self.collect(wish, order, seen);
            }
            // modules.dep names the nearest first: a file comes after all that follow it.
            for need in needs.iter().rev() {
                self.collect(&name_of(need), order, seen)?;
            }
            if !order.contains(file) {
                order.push(file.clone());
            }
            return Ok(());
        }
        let Some(names) = self.aliases.get(name) else {
            return Err(format!("this kernel has no module {name} ({})", self.folder.display()));
        };
        // Any of them will do (an algorithm in several makes), so one failure is none.
        let mut tried = names.iter().map(|real| self.collect(real, order, seen)).collect::<Vec<_>>();
        if tried.iter().any(Result::is_ok) { Ok(()) } else { tried.pop().unwrap_or(Ok(())) }
    }
}

/// Loads a module file into the running kernel; one that is there already is no error.
///
/// # Errors
/// A sentence with what the kernel said.
pub fn load_module(path: &Path) -> Result<(), String> {
    let fail = |error: &dyn std::fmt::Display| format!("cannot load {}: {error}", path.display());
    let file = File::open(path).map_err(|e| fail(&e))?;
    let flags = if path.extension().is_some_and(|end| end == "ko") { 0 } else { COMPRESSED };
    // SAFETY: `finit_module(int fd, const char *param_values, int flags)` reads the descriptor and an
    // empty string that lives for ever.
    let result = unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), c"".as_ptr(), flags) };
    let error = std::io::Error::last_os_error();
    match result {
        0 => Ok(()),
        _ if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        _ => Err(fail(&error)),
    }
}

/// `kernel/fs/xfs/xfs.ko.xz` -> `xfs`.
fn name_of(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    normal(name.split(".ko").next().unwrap_or(name))
}

/// Module names are the same with `-` and `_`.
fn normal(name: &str) -> String {
    name.replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules() -> Modules {
        Modules::parse(
            Path::new("/m"),
            "kernel/fs/ext4/ext4.ko: kernel/fs/jbd2/jbd2.ko kernel/lib/crc16.ko\n\
             kernel/fs/jbd2/jbd2.ko:\nkernel/lib/crc16.ko:\n\
             kernel/drivers/md/raid456.ko.xz: kernel/drivers/md/md-mod.ko.xz kernel/x/xor.ko\n\
             kernel/drivers/md/md-mod.ko.xz:\nkernel/x/xor.ko:\n\
             kernel/crypto/crc32c_generic.ko:\n",
            "kernel/fs/tmpfs.ko\n",
            "# Aliases\nalias md-level-5 raid456\nalias crypto-crc32c crc32c_intel\n\
             alias crypto-crc32c crc32c_generic\nalias nothing gone\n",
            "softdep ext4 pre: crc32c not_there\nsoftdep raid456 pre: x post: y\n",
        )
    }

    fn order(name: &str) -> Vec<String> {
        let found = modules().order(name).unwrap();
        found.iter().map(|p| p.file_name().unwrap().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn what_is_needed_comes_first_and_once() {
        assert_eq!(order("ext4"), ["crc16.ko", "jbd2.ko", "ext4.ko"]);
        assert_eq!(order("md-level-5"), ["xor.ko", "md-mod.ko.xz", "raid456.ko.xz"]);
    }

    #[test]
    fn an_alias_takes_what_there_is() {
        assert_eq!(order("crypto-crc32c"), ["crc32c_generic.ko"]);
        assert!(modules().order("nothing").is_err());
    }

    #[test]
    fn built_in_needs_nothing_and_unknown_is_said() {
        assert!(order("tmpfs").is_empty());
        assert!(modules().order("jfs").unwrap_err().contains("no module jfs"));
        let has = |name: &str| modules().has(name);
        assert!(has("tmpfs") && has("md_mod") && has("crypto-crc32c") && !has("jfs") && !has("nothing"));
    }
}

//! What kernel and tools are here, as far as file systems ask: one value, so that what they cannot do
//! is known by table before anything is built.

use std::collections::{BTreeMap, BTreeSet};

use fsdyno_spec::outcome::Reason;

use crate::options::Options;

/// The text of a kernel's build configuration (`CONFIG_…=y` lines).
#[derive(Clone, Debug, Default)]
pub struct KernelConfig(pub String);

impl KernelConfig {
    /// Whether a symbol (with its `CONFIG_`) is built in or a module.
    #[must_use]
    pub fn has(&self, symbol: &str) -> bool {
        self.0
            .lines()
            .any(|line| line.strip_prefix(symbol).is_some_and(|value| value == "=y" || value == "=m"))
    }
}

/// What kernel and tools are here, as far as file systems ask.
#[derive(Clone, Debug, Default)]
pub struct Here {
    /// Kernel release.
    pub release: String,
    /// The kernel's build configuration; empty where it cannot be read.
    pub config: KernelConfig,
    /// Names of file systems that the kernel has, or loads on demand; empty where that is not known.
    pub serves: BTreeSet<String>,
    /// Version lines of tools by name.
    pub tools: BTreeMap<String, String>,
}

/// Something that came or went with a version of Linux: its name, major and minor number of the first
/// release with the change, and what to do without it.
pub(crate) type Change = (&'static str, (u32, u32), &'static str);

impl Here {
    /// Major and minor number of the kernel; zeros where unknown.
    #[must_use]
    pub fn kernel(&self) -> (u32, u32) {
        let mut numbers = self.release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }

    /// Whether the kernel is known, and older than this.
    #[must_use]
    pub fn older_than(&self, version: (u32, u32)) -> bool {
        self.kernel() != (0, 0) && self.kernel() < version
    }

    /// Bytes of a page of memory, where the configuration tells.
    #[must_use]
    pub fn page_size(&self) -> Option<u64> {
        let fixed = [
            ("CONFIG_PAGE_SIZE_4KB", 4096),
            ("CONFIG_PAGE_SIZE_16KB", 16384),
            ("CONFIG_PAGE_SIZE_64KB", 65536),
            ("CONFIG_X86_64", 4096),
            ("CONFIG_ARM64_4K_PAGES", 4096),
            ("CONFIG_ARM64_16K_PAGES", 16384),
            ("CONFIG_ARM64_64K_PAGES", 65536),
        ];
        fixed.iter().find(|(symbol, _)| self.config.has(symbol)).map(|(_, size)| *size)
    }

    /// The first word of `extra_mount` that this kernel has dropped.
    pub(crate) fn dropped(&self, filesystem: &str, options: &Options, dropped: &[Change]) -> Option<Reason> {
        options.strings("extra_mount").find_map(|word| {
            let key = word.split('=').next().unwrap_or(word);
            let (_, (major, minor), instead) =
                dropped.iter().find(|(name, since, _)| *name == key && self.kernel() >= *since)?;
            Some(
                Reason::new(format!(
                    "{filesystem}: the mount option `{key}` was removed in Linux {major}.{minor}; this is {}",
                    self.release
                ))
                .advise(*instead),
            )
        })
    }

    /// The first feature asked for that this kernel is too old for.
    pub(crate) fn too_old(&self, filesystem: &str, options: &Options, came: &[Change]) -> Option<Reason> {
        options.strings("features").find_map(|word| {
            let (name, (major, minor), instead) =
                came.iter().find(|(name, since, _)| *name == word && self.older_than(*since))?;
            Some(
                Reason::new(format!(
                    "{filesystem}: the feature `{name}` needs Linux {major}.{minor}; this is {}",
                    self.release
                ))
                .advise(*instead),
            )
        })
    }
}

//! Kernels in the cache, as `fsdyno guest setup` leaves them: a folder each, whole or not there.

use std::fs;
use std::path::{Path, PathBuf};

use fsdyno_spec::outcome::Reason;
use serde::Deserialize;

/// A kernel that guests can boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// As `uname -r` says in the guest.
    pub release: String,
    /// Package and version, or the files that were given.
    pub source: String,
    /// The image to boot.
    pub image: PathBuf,
    /// The folder with `modules.dep`.
    pub modules: PathBuf,
    /// Its build configuration.
    pub config: Option<PathBuf>,
}

/// `kernel.json`. Paths are absolute or relative to its folder.
#[derive(Deserialize)]
struct Manifest {
    release: String,
    source: String,
    image: PathBuf,
    modules: PathBuf,
    #[serde(default)]
    config: Option<PathBuf>,
}

/// What to do without one.
const SETUP: &str = "run `fsdyno guest setup`";

impl Kernel {
    /// All kernels of a cache, newest release first. What is not whole is not there.
    #[must_use]
    pub fn all(cache: &Path) -> Vec<Self> {
        let folders = fs::read_dir(cache.join("kernels")).into_iter().flatten().flatten();
        let mut found: Vec<_> = folders.filter_map(|folder| Self::read(&folder.path())).collect();
        found.sort_by(|a, b| age(&b.release).cmp(&age(&a.release)));
        found
    }

    /// The kernel of a release, or the newest.
    ///
    /// # Errors
    /// If there is none, with what there is.
    pub fn find(cache: &Path, release: Option<&str>) -> Result<Self, Reason> {
        let all = Self::all(cache);
        let known = all.iter().map(|kernel| kernel.release.clone()).collect::<Vec<_>>().join(", ");
        let found = all.into_iter().find(|kernel| release.is_none_or(|wanted| kernel.release == wanted));
        found.ok_or_else(|| match release {
            Some(release) if !known.is_empty() => {
                Reason::new(format!("no kernel {release} is in the cache, which has: {known}"))
                    .advise("leave `machine.kernel` out for the newest, or add it with `fsdyno guest setup`")
            }
            _ => Reason::new(format!("no kernel for guests is in {}", cache.display())).advise(SETUP),
        })
    }

    fn read(folder: &Path) -> Option<Self> {
        let text = fs::read(folder.join("kernel.json")).ok()?;
        let manifest: Manifest = serde_json::from_slice(&text).ok()?;
        let kernel = Self {
            release: manifest.release,
            source: manifest.source,
            image: folder.join(manifest.image),
            modules: folder.join(manifest.modules),
            config: manifest.config.map(|config| folder.join(config)),
        };
        (kernel.image.is_file() && kernel.modules.join("modules.dep").is_file()).then_some(kernel)
    }
}

/// What releases are ordered by: their numbers; where these are equal, the text. Python's half of the cache
/// (`fsdyno/guest/cache.py`) has the same order, so that both name the same one as the newest.
fn age(release: &str) -> (Vec<u64>, &str) {
    let numbers = release.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
    (numbers, release)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(cache: &Path, folder: &str, release: &str) {
        let folder = cache.join("kernels").join(folder);
        fs::create_dir_all(folder.join("m")).unwrap();
        fs::write(folder.join("vmlinuz"), "").unwrap();
        fs::write(folder.join("m/modules.dep"), "").unwrap();
        let text = format!(r#"{{"release":"{release}","source":"s","image":"vmlinuz","modules":"m"}}"#);
        fs::write(folder.join("kernel.json"), text).unwrap();
    }

    #[test]
    fn the_newest_is_taken_by_number_and_halves_are_not_there() {
        let cache = tempfile::tempdir().unwrap();
        assert!(Kernel::find(cache.path(), None).unwrap_err().advice.unwrap().contains("guest setup"));
        put(cache.path(), "a", "6.1.0-9-amd64");
        put(cache.path(), "b", "6.1.0-10-amd64");
        put(cache.path(), "c", "6.12.1-1-amd64");
        fs::remove_file(cache.path().join("kernels/c/vmlinuz")).unwrap();
        assert_eq!(Kernel::find(cache.path(), None).unwrap().release, "6.1.0-10-amd64");
        assert_eq!(Kernel::find(cache.path(), Some("6.1.0-9-amd64")).unwrap().source, "s");
        let wrong = Kernel::find(cache.path(), Some("5.0")).unwrap_err();
        assert!(wrong.message.contains("6.1.0-10-amd64, 6.1.0-9-amd64"), "{}", wrong.message);
    }

    #[test]
    fn flavours_of_one_release_have_an_order_too() {
        let cache = tempfile::tempdir().unwrap();
        let releases =
            ["6.1.0", "6.1.0-1-amd64", "6.1.0-9-amd64", "6.1.0-9-cloud-amd64", "6.1.0-rc2", "6.10.2-amd64"];
        for (n, release) in releases.iter().enumerate() {
            put(cache.path(), &n.to_string(), release);
        }
        let found: Vec<_> = Kernel::all(cache.path()).into_iter().map(|kernel| kernel.release).collect();
        let (newest, rest) = found.split_first().unwrap();
        assert_eq!(newest, "6.10.2-amd64");
        assert_eq!(rest, ["6.1.0-9-cloud-amd64", "6.1.0-9-amd64", "6.1.0-rc2", "6.1.0-1-amd64", "6.1.0"]);
    }
}

//! What this host can do, and for each "no" the reason and what would change it. Looks, and changes
//! nothing; fast enough to be asked at each start.

mod guest;
mod stack;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::layers::{LAYERS, LayerRow};
use fsdyno_filesystems::{FileSystem, KernelConfig, Role, TABLE};
use fsdyno_probe::{host, kernel_log::KernelLog};
use fsdyno_spec::PROTOCOL;
use fsdyno_spec::outcome::Reason;
use fsdyno_spec::survey::{Ability, FileSystemAbility, Folders, Host, Survey, Tool};
use fsdyno_spec::units::Bytes;
use guest::GuestHere;
use rustix::fs::{Access, AtFlags, CWD, StatxFlags};
use rustix::io::Errno;
use rustix::mount::FsOpenFlags;
pub use stack::stack;

/// A tool that does not say its version in this time has none.
const PATIENCE: Duration = Duration::from_secs(2);

/// Tools that no file system names, with package and the arguments that print the version.
const OTHER_TOOLS: &[(&str, &str, &[&str])] = &[
    ("blkid", "util-linux", &["--version"]),
    ("mdadm", "mdadm", &["--version"]),
    ("lvm", "lvm2", &["version"]),
    (fsdyno_machine::Qemu::PROGRAM, "qemu-system-x86", &["--version"]),
];

/// The answer of `survey`.
pub fn survey(state: &Path, work: &Path, cache: &Path) -> Survey {
    let kernel = kernel();
    let (host, tools) = std::thread::scope(|scope| {
        let tools = scope.spawn(tools);
        (host::host(), tools.join().unwrap_or_default())
    });
    let features = features(&host, kernel);
    let mut places = places(&host, &features);
    let guest = GuestHere::find(state, cache, &tools);
    let mut filesystems: Vec<_> =
        TABLE.iter().map(|fs| filesystem(fs, kernel, &places[NATIVE], &tools)).collect();
    let mut layers: Vec<_> = LAYERS.iter().map(|row| layer(row, kernel, &places[NATIVE], &tools)).collect();
    for (found, fs) in filesystems.iter_mut().zip(TABLE) {
        found.places.insert(GUEST.into(), guest.newest(fs.name, |kernel| &kernel.filesystems));
    }
    for (found, row) in layers.iter_mut().zip(LAYERS) {
        found.places.insert(GUEST.into(), guest.newest(row.key, |kernel| &kernel.layers));
    }
    places.insert(GUEST.into(), guest.place.clone());
    Survey {
        protocol: PROTOCOL,
        filesystems,
        layers,
        kernels: guest.kernels,
        places,
        features,
        tools,
        folders: folders(state, work),
        host,
    }
}

/// The version line of a program of the distribution, by its name or path; none if it is missing,
/// unknown here, or does not say.
pub fn version_of(program: &str) -> Option<String> {
    let name = Path::new(program).file_name()?.to_str()?;
    let (_, args) = known_tools().remove(name)?;
    let mut child = Command::new(fsdyno_stack::find_program(program)?)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().ok()?.is_none() {
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let output = child.wait_with_output().ok()?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_string)
}

/// Package and version arguments of every tool that fsdyno may run, by name.
fn known_tools() -> BTreeMap<&'static str, (&'static str, &'static [&'static str])> {
    let of_filesystems = TABLE.iter().flat_map(|fs| fs.tools().into_iter().map(|(_, program)| program));
    let growers = TABLE.iter().filter_map(|fs| fs.grower());
    of_filesystems
        .chain(growers)
        .map(|program| (program.name, (program.package, program.version)))
        .chain(OTHER_TOOLS.iter().map(|(name, package, args)| (*name, (*package, *args))))
        .collect()
}

/// Where each tool is and what version, all asked at once.
fn tools() -> BTreeMap<String, Tool> {
    std::thread::scope(|scope| {
        let ask = |name: &'static str, package: &str| {
            let path = fsdyno_stack::find_program(name).map(|path| path.display().to_string());
            let version = path.as_deref().and_then(version_of);
            Tool { path, version, package: package.to_string() }
        };
        let asked: Vec<_> = known_tools()
            .into_iter()
            .map(|(name, (package, _))| (name, scope.spawn(move || ask(name, package))))
            .collect();
        asked.into_iter().filter_map(|(name, asked)| Some((name.to_string(), asked.join().ok()?))).collect()
    })
}

/// Names of places.
pub const NATIVE: &str = "native";
/// See [`NATIVE`].
pub const GUEST: &str = "guest";

/// What can be done with a layer in a place.
fn layer(
    row: &LayerRow,
    kernel: &Kernel,
    place: &Ability,
    tools: &BTreeMap<String, Tool>,
) -> FileSystemAbility {
    let there = fs::read_to_string(row.shown.0).is_ok_and(|text| text.contains(row.shown.1));
    let ability = layer_ability(row, there, kernel, place, tools);
    FileSystemAbility {
        name: row.key.to_string(),
        driver: Some(row.driver.to_string()),
        places: BTreeMap::from([(NATIVE.to_string(), ability)]),
        tools: BTreeMap::from([(row.tool.to_string(), "build".to_string())]),
    }
}

fn layer_ability(
    row: &LayerRow,
    there: bool,
    kernel: &Kernel,
    place: &Ability,
    tools: &BTreeMap<String, Tool>,
) -> Ability {
    if !there && !row.modules.iter().all(|module| kernel.has_module(module)) {
        let message = format!("this kernel ({}) has no {}", kernel.release, row.driver);
        return unable(message, format!("boot a kernel that has {}, or run in a guest", row.driver));
    }
    if tools.get(row.tool).is_none_or(|tool| tool.path.is_none()) {
        return unable(format!("{} is missing", row.tool), format!("install {}", row.package));
    }
    place.clone()
}

fn able(detail: Option<String>) -> Ability {
    Ability { able: true, detail, reason: None }
}

fn unable(message: impl Into<String>, advice: impl Into<String>) -> Ability {
    Ability { able: false, detail: None, reason: Some(Reason::new(message).advise(advice)) }
}

const BECOME_ROOT: &str = "run fsdyno as root or through sudo";

/// What the running kernel was built with.
pub struct Kernel {
    /// As `uname -r` says.
    pub release: String,
    /// How it was built; empty where that cannot be read.
    pub config: KernelConfig,
    /// `/proc/filesystems`.
    pub filesystems: String,
    /// Names of loadable modules, one `…/name.ko…:` each.
    modules: String,
}

/// The running kernel, read once: it does not change while an agent runs.
pub fn kernel() -> &'static Kernel {
    static KERNEL: std::sync::OnceLock<Kernel> = std::sync::OnceLock::new();
    KERNEL.get_or_init(Kernel::read)
}

impl Kernel {
    /// The running one.
    pub fn read() -> Self {
        let release = host::kernel();
        let modules = PathBuf::from("/lib/modules").join(&release);
        let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        Self {
            config: config(&release),
            filesystems: text(Path::new("/proc/filesystems")),
            modules: text(&modules.join("modules.dep")),
            release,
        }
    }

    /// The kernel of a guest, from its files: what a guest has not loaded yet, it loads when asked.
    fn of_guest(kernel: &fsdyno_machine::Kernel) -> Self {
        let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        let config = kernel.config.as_deref().map(text).unwrap_or_default();
        let modules = ["modules.dep", "modules.builtin"].map(|name| text(&kernel.modules.join(name)));
        Self {
            release: kernel.release.clone(),
            config: KernelConfig(config),
            filesystems: TABLE
                .iter()
                .filter(|fs| fs.disk.is_none())
                .map(|fs| format!("nodev\t{}\n", fs.fstype))
                .collect(),
            modules: modules.concat(),
        }
    }

    /// Whether it has this module, to be loaded on demand.
    pub fn has_module(&self, name: &str) -> bool {
        let file = format!("/{name}.ko");
        self.modules.lines().any(|line| line.split(':').next().is_some_and(|path| path.contains(&file)))
    }

    /// Major and minor number.
    fn version(&self) -> (u32, u32) {
        let mut numbers = self.release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }

    /// Built in, loaded, or there to be loaded by a mount.
    fn serves(&self, fs: &FileSystem) -> bool {
        let registered =
            self.filesystems.lines().any(|line| line.split_whitespace().next_back() == Some(fs.fstype));
        registered || fs.modules.iter().any(|name| self.has_module(name))
    }
}

/// The kernel's build configuration, where it can be read; empty else.
fn config(release: &str) -> KernelConfig {
    if let Some(text) = fsdyno_machine::Wiring::kernel_config() {
        return KernelConfig(text);
    }
    let mut text = String::new();
    if let Ok(file) = fs::File::open("/proc/config.gz")
        && flate2::read::GzDecoder::new(file).read_to_string(&mut text).is_ok()
    {
        return KernelConfig(text);
    }
    let files = [format!("/boot/config-{release}"), format!("/lib/modules/{release}/config")];
    KernelConfig(files.iter().find_map(|file| fs::read_to_string(file).ok()).unwrap_or_default())
}

fn features(host: &Host, kernel: &Kernel) -> BTreeMap<String, Ability> {
    [
        ("loop_configure", loop_configure(host, kernel)),
        ("fsopen", fsopen()),
        ("io_uring", io_uring(host, kernel)),
        ("kernel_log", kernel_log()),
        ("pressure", pressure()),
        ("mount_namespace", mount_namespace(host)),
        ("unique_mount_id", unique_mount_id()),
    ]
    .map(|(name, ability)| (name.to_string(), ability))
    .into()
}

/// `LOOP_CONFIGURE` came with Linux 5.8.
fn loop_configure(host: &Host, kernel: &Kernel) -> Ability {
    const CONTROL: &str = "/dev/loop-control";
    if !Path::new(CONTROL).exists() {
        return unable(
            format!("{CONTROL} is missing"),
            "load the module `loop`, or give the container its devices",
        );
    }
    if kernel.version() < (5, 8) {
        return unable(
            format!("Linux {} is older than 5.8, which brought LOOP_CONFIGURE", kernel.release),
            "boot a newer kernel",
        );
    }
    if !host.root || rustix::fs::access(CONTROL, Access::READ_OK | Access::WRITE_OK).is_err() {
        return unable("loop devices need root", BECOME_ROOT);
    }
    able(None)
}

/// Opens a context for a file system and drops it: nothing is mounted.
fn fsopen() -> Ability {
    match rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC) {
        Ok(_) => able(None),
        Err(Errno::PERM) => unable("mounting needs root (the capability CAP_SYS_ADMIN)", BECOME_ROOT),
        Err(Errno::NOSYS) => unable("this kernel has no fsopen", "boot Linux 5.2 or newer"),
        Err(e) => unable(format!("fsopen: {e}"), "look into the container's system-call filter"),
    }
}

/// From what the kernel says of itself; a system-call filter shows only when it is used.
fn io_uring(host: &Host, kernel: &Kernel) -> Ability {
    let allowed = "write 0 into /proc/sys/kernel/io_uring_disabled (sysctl kernel.io_uring_disabled=0)";
    let disabled = fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    match disabled.trim() {
        "2" => return unable("io_uring is turned off on this host", allowed),
        "1" if !host.root => {
            return unable("io_uring is allowed here to privileged processes only", allowed);
        }
        "" if kernel.version() < (5, 1) => {
            return unable("this kernel has no io_uring", "boot Linux 5.1 or newer");
        }
        "" if !kernel.config.0.is_empty() && !kernel.config.has("CONFIG_IO_URING") => {
            return unable("this kernel was built without io_uring", "boot a kernel with CONFIG_IO_URING");
        }
        _ => {}
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let filtered = status.lines().any(|line| line.starts_with("Seccomp:") && line.trim_end().ends_with('2'));
    able(filtered.then(|| "a system-call filter is active and may refuse it".to_string()))
}

fn kernel_log() -> Ability {
    match KernelLog::open() {
        Ok(_) => able(None),
        Err(reason) => Ability { able: false, detail: None, reason: Some(reason) },
    }
}

fn pressure() -> Ability {
    match fs::read_to_string("/proc/pressure/io") {
        Ok(_) => able(None),
        Err(_) => unable(
            "this kernel does not account stalls (PSI)",
            "boot with psi=1, or a kernel with CONFIG_PSI",
        ),
    }
}

fn mount_namespace(host: &Host) -> Ability {
    if !Path::new("/proc/self/ns/mnt").exists() {
        return unable("this kernel has no mount namespaces", "boot a kernel with CONFIG_NAMESPACES");
    }
    if host.root { able(None) } else { unable("a mount namespace of our own needs root", BECOME_ROOT) }
}

/// Asks `statx(2)` for a mount id that is never reused (Linux 6.8).
fn unique_mount_id() -> Ability {
    const STATX_MNT_ID_UNIQUE: u32 = 0x4000;
    let wanted = StatxFlags::from_bits_retain(STATX_MNT_ID_UNIQUE);
    match rustix::fs::statx(CWD, "/", AtFlags::empty(), wanted) {
        Ok(found) if found.stx_mask & STATX_MNT_ID_UNIQUE != 0 => able(None),
        _ => unable(
            "this kernel reuses mount ids at once",
            "boot Linux 6.8 or newer; it only proves less without",
        ),
    }
}

/// Places where trials run.
fn places(host: &Host, features: &BTreeMap<String, Ability>) -> BTreeMap<String, Ability> {
    let needed = ["loop_configure", "fsopen", "mount_namespace"];
    let missing = needed.iter().find_map(|name| features[*name].reason.clone());
    let native = match missing {
        _ if !host.root => {
            unable("building file systems needs root", format!("{BECOME_ROOT}, or measure a directory"))
        }
        Some(reason) => Ability { able: false, detail: None, reason: Some(reason) },
        None => able(None),
    };
    let detail = if host.root {
        "an existing directory is measured as it is: it is not made, checked or made cold by a remount"
    } else {
        "an existing directory is measured as it is: it is not made, checked or made cold; without root the \
         caches cannot be dropped either"
    };
    [(NATIVE, native), ("directory", able(Some(detail.to_string())))].map(|(k, v)| (k.to_string(), v)).into()
}

/// What can be done with one file system: its own obstacles first, then those of the place.
fn filesystem(
    fs: &FileSystem,
    kernel: &Kernel,
    place: &Ability,
    tools: &BTreeMap<String, Tool>,
) -> FileSystemAbility {
    let native = ability(fs, kernel, place, tools);
    FileSystemAbility {
        name: fs.name.to_string(),
        driver: (fs.driver_hint)(&kernel.config).filter(|_| kernel.serves(fs)),
        places: BTreeMap::from([(NATIVE.to_string(), native)]),
        tools: fs
            .tools()
            .iter()
            .map(|(role, tool)| (tool.name.to_string(), role.name().to_string()))
            .collect(),
    }
}

/// The same, in one place.
fn ability(fs: &FileSystem, kernel: &Kernel, place: &Ability, tools: &BTreeMap<String, Tool>) -> Ability {
    let missing = |role: Role| {
        let mut needed = fs.tools().into_iter().filter(|(of, _)| *of == role);
        needed.find(|(_, program)| tools.get(program.name).is_none_or(|tool| tool.path.is_none()))
    };
    if !kernel.serves(fs) {
        let message = format!("this kernel ({}) has no {}, built in or as a module", kernel.release, fs.name);
        unable(message, format!("boot a kernel that has {}", fs.name))
    } else if let Some((_, program)) = missing(Role::Mkfs) {
        unable(format!("{} is missing", program.name), format!("install {}", program.package))
    } else if !place.able {
        place.clone()
    } else {
        able(missing(Role::Check).map(|(_, program)| {
            format!("it cannot be checked: {} is missing; install {}", program.name, program.package)
        }))
    }
}

/// The agent's folders, or where they would be made.
fn folders(state: &Path, work: &Path) -> Folders {
    let mut there = work.to_path_buf();
    while !there.exists() && there.pop() {}
    let there = if there.as_os_str().is_empty() { PathBuf::from(".") } else { there };
    let free = rustix::fs::statvfs(&there).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize));
    let advice = "name another folder with --work (or FSDYNO_WORK) and --state (or FSDYNO_STATE)";
    let problem = [state, work].into_iter().find_map(unusable);
    Folders {
        state: state.display().to_string(),
        work: work.display().to_string(),
        free: Bytes(free),
        filesystem: mounted_type(&there).unwrap_or_else(|| "unknown".to_string()),
        problem: problem.map(|message| Reason::new(message).advise(advice)),
    }
}

/// Why a folder cannot be used, or made.
fn unusable(folder: &Path) -> Option<String> {
    let there = folder.ancestors().find(|path| path.exists())?;
    if !there.is_dir() {
        return Some(format!("{} is not a folder", there.display()));
    }
    match rustix::fs::access(there, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => None,
        Err(Errno::ROFS) => Some(format!("{} is on a read-only file system", there.display())),
        Err(_) => Some(format!("{} is not writable", there.display())),
    }
}

/// The type of the file system that holds a path, by the mount id that the kernel gives for it.
fn mounted_type(path: &Path) -> Option<String> {
    let found = rustix::fs::statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
    let mounts = fs::read_to_string("/proc/thread-self/mountinfo").ok()?;
    let mut lines = mounts.lines().filter_map(|line| line.split_once(" - "));
    let id = found.stx_mnt_id.to_string();
    let (_, right) = lines.find(|(left, _)| left.split(' ').next() == Some(id.as_str()))?;
    right.split(' ').next().map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(filesystems: &str, modules: &str) -> Kernel {
        Kernel {
            release: "6.1.0-18-amd64".to_string(),
            config: KernelConfig::default(),
            filesystems: filesystems.to_string(),
            modules: modules.to_string(),
        }
    }

    fn row(name: &str) -> &'static FileSystem {
        fsdyno_filesystems::find(name).expect("a row")
    }

    pub(super) fn found(names: &[&str]) -> BTreeMap<String, Tool> {
        let tool = || Tool { path: Some("/sbin/x".into()), version: None, package: "p".into() };
        names.iter().map(|name| (name.to_string(), tool())).collect()
    }

    #[test]
    fn this_host_is_surveyed_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let survey = survey(folder.path(), &folder.path().join("a/b"), folder.path());
        assert_eq!(survey.filesystems.len(), TABLE.len());
        assert!(survey.places["directory"].able);
        assert!(survey.folders.problem.is_none() && survey.folders.free.0 > 0);
        assert_ne!(survey.folders.filesystem, "unknown");
        assert!(!folder.path().join("a").exists(), "a survey makes nothing");
        let abilities = survey
            .features
            .values()
            .chain(survey.places.values())
            .chain(survey.filesystems.iter().flat_map(|fs| fs.places.values()));
        for ability in abilities {
            let advised = ability.reason.as_ref().is_some_and(|reason| reason.advice.is_some());
            assert_ne!(ability.able, advised, "every no has its reason and advice: {ability:?}");
        }
        for tool in survey.tools.values() {
            assert_eq!(tool.path.is_some(), tool.version.is_some(), "{tool:?}");
        }
        for fs in &survey.filesystems {
            assert!(fs.tools.keys().all(|name| survey.tools.contains_key(name)), "{fs:?}");
        }
    }

    #[test]
    fn a_module_that_a_mount_would_load_counts() {
        let modules = "kernel/fs/xfs/xfs.ko.xz: kernel/lib/libcrc32c.ko.xz\nkernel/fs/ext4/ext4.ko: x.ko\n";
        let kernel = kernel("nodev\ttmpfs\n", modules);
        assert!(kernel.serves(row("xfs")) && kernel.serves(row("ext2")) && kernel.serves(row("tmpfs")));
        assert!(!kernel.serves(row("btrfs")));
        assert_eq!(kernel.version(), (6, 1));
    }

    #[test]
    fn each_obstacle_has_its_reason_and_the_package_that_changes_it() {
        let here = able(None);
        let native = |fs: &str, kernel: &Kernel, place: &Ability, tools: &[&str]| {
            filesystem(row(fs), kernel, place, &found(tools)).places["native"].clone()
        };
        let has = kernel("\txfs\n\text4\n", "");
        let none = kernel("", "");
        assert!(native("xfs", &has, &here, &["mkfs.xfs", "xfs_repair"]).able);
        let missing = native("xfs", &has, &here, &["xfs_repair"]).reason.expect("a reason");
        assert_eq!(missing.advice.as_deref(), Some("install xfsprogs"));
        let unchecked = native("xfs", &has, &here, &["mkfs.xfs"]);
        assert!(unchecked.able && unchecked.detail.expect("a detail").contains("xfs_repair"));
        let reason = native("ext4", &none, &here, &["mke2fs", "e2fsck"]).reason.expect("a reason");
        assert!(reason.message.contains("has no ext4"));
        let place = unable("no root", BECOME_ROOT);
        assert_eq!(native("xfs", &has, &place, &["mkfs.xfs", "xfs_repair"]), place);
    }

    #[test]
    fn a_folder_that_cannot_be_used_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        fs::write(&file, "").expect("a file");
        let problem = folders(folder.path(), &file.join("work")).problem.expect("a problem");
        assert!(problem.message.contains("is not a folder") && problem.advice.is_some());
    }

    #[test]
    fn versions_are_one_line_and_only_of_known_tools() {
        assert_eq!(version_of("/bin/sh"), None, "not a tool of ours: never started");
        match fsdyno_stack::find_program("mke2fs") {
            Some(path) => {
                let version = version_of(path.to_str().expect("a plain path")).expect("a version");
                assert!(version.starts_with("mke2fs ") && !version.contains('\n'), "{version}");
            }
            None => eprintln!("SKIPPED: mke2fs is not installed"),
        }
    }
}

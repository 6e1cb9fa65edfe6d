//! This program as the first process of a guest: it puts the rig's root under its feet, hands the port to
//! the agent proper, and powers off when that ends. Also the answer to the kernel's requests for modules.

use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::chroot;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::OnceLock;

use rustix::mount::{MountFlags, mount, mount_move};
use rustix::process::{WaitOptions, wait};
use rustix::system::{RebootCommand, reboot};
use serde::{Deserialize, Serialize};

use crate::kernel::Kernel;
use crate::modules::{Modules, load_module};

/// The folder, in a guest, that everything of ours is in.
pub const GUEST_HOME: &str = "/run/fsdyno";

/// Where the wiring lies in the initramfs, and later, when the rig's root is `/`.
const WIRING: [&str; 2] = ["/wiring.json", "/run/fsdyno/wiring.json"];

/// Where the rig's root is mounted before it becomes `/`.
pub(crate) const NEXT_ROOT: &str = "/rig";

/// The rig's root without anything mounted over it.
const BARE_ROOT: &str = "/run/fsdyno/rig";

/// How a guest is wired.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Wiring {
    /// Modules to load first, in order, in the initramfs.
    pub first_modules: Vec<String>,
    /// The folder of `modules.dep`, on the rig.
    pub modules: PathBuf,
    /// The kernel's build configuration, on the rig.
    #[serde(default)]
    pub config: Option<PathBuf>,
    /// Where the rig looks for its tools.
    pub path: String,
}

impl Wiring {
    /// For a kernel; no first modules yet.
    ///
    /// # Errors
    /// If the folder of its modules cannot be resolved.
    pub fn of(kernel: &Kernel) -> io::Result<Self> {
        let path = std::env::var("PATH").unwrap_or_default();
        let config = kernel.config.as_ref().and_then(|config| fs::canonicalize(config).ok());
        Ok(Self { first_modules: Vec::new(), modules: fs::canonicalize(&kernel.modules)?, config, path })
    }

    /// As it was written, from inside the guest.
    fn read() -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(WIRING[1])?)?)
    }

    /// A path of the rig's, as the guest sees it with nothing mounted over it.
    fn bare(path: &Path) -> PathBuf {
        Path::new(BARE_ROOT).join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The build configuration of the running kernel, from inside a guest; none elsewhere.
    #[must_use]
    pub fn kernel_config() -> Option<String> {
        fs::read_to_string(Self::bare(&Self::read().ok()?.config?)).ok()
    }

    /// The guest's modules, from inside the guest; read once, as they come from the rig. None elsewhere.
    #[must_use]
    pub fn modules_of_guest() -> Option<&'static Modules> {
        static MODULES: OnceLock<Option<Modules>> = OnceLock::new();
        let read = || Some(Modules::read(&Self::bare(&Self::read().ok()?.modules)));
        MODULES.get_or_init(read).as_ref()
    }

    /// Loads a module and what it needs, from inside the guest.
    ///
    /// # Errors
    /// A sentence.
    pub fn load(name: &str) -> Result<(), String> {
        if Path::new("/sys/module").join(name.replace('-', "_")).exists() {
            return Ok(());
        }
        let modules = Self::modules_of_guest().ok_or("this is no guest")?;
        modules.order(name)?.iter().try_for_each(|file| load_module(file))
    }
}

/// Whether this process is a guest's first one.
#[must_use]
pub fn is_first_process() -> bool {
    std::process::id() == 1 && Path::new(WIRING[0]).exists()
}

/// Whether the kernel started this process to have a module loaded (`argv`: program, `-q`, `--`, name).
#[must_use]
pub fn is_module_request() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    let asked = arguments.next().is_some_and(|a| a == "-q") && arguments.next().is_some_and(|a| a == "--");
    asked && Path::new(WIRING[1]).exists()
}

/// Answers the kernel's request for a module.
#[must_use]
pub fn module_request() -> ExitCode {
    let name = std::env::args().nth(3).unwrap_or_default();
    // A module that does not exist is nothing to talk about: the kernel asks for many.
    if Wiring::load(&name).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The life of a guest's first process. `verb` is the argument that makes this program the agent proper,
/// with the port on its standard input and output.
pub fn first_process(verb: &str) -> ! {
    if let Err(error) = settle() {
        // The console is all there is; what is on it becomes the guest's last words.
        eprintln!("fsdyno: the guest cannot settle: {error}");
    } else {
        match agent(verb) {
            Ok(mut agent) => {
                while let Ok(found) = wait(WaitOptions::empty()) {
                    let ended = found.map(|(pid, _)| pid.as_raw_nonzero().get() as u32);
                    if ended == Some(agent.id()) || agent.try_wait().is_ok_and(|s| s.is_some()) {
                        break;
                    }
                }
            }
            Err(error) => eprintln!("fsdyno: the agent does not start in the guest: {error}"),
        }
    }
    // The disks are files of the rig's: nothing on them outlives the trial, so nothing is flushed.
    let _ = reboot(RebootCommand::PowerOff);
    std::process::exit(1)
}

/// From the initramfs to the rig's root.
fn settle() -> io::Result<()> {
    let said = |what: &str, error: io::Error| io::Error::new(error.kind(), format!("{what}: {error}"));
    let put = |kind: &str, source: &str, target: &str, flags: MountFlags, data: &CStr| {
        mount(source, target, kind, flags, data).map_err(|e| said(target, e.into()))
    };
    let none = MountFlags::empty();
    // Not there if the kernel mounts it itself.
    let _ = put("devtmpfs", "dev", "/dev", none, c"");
    // Where libc keeps semaphores, without which some daemons do not start.
    let _ = fs::create_dir("/dev/shm");
    put("proc", "proc", "/proc", none, c"")?;
    put("sysfs", "sys", "/sys", none, c"")?;
    let text = fs::read(WIRING[0])?;
    let wiring: Wiring = serde_json::from_slice(&text)?;
    for module in &wiring.first_modules {
        load_module(Path::new(module)).map_err(io::Error::other)?;
    }
    let options = c"trans=virtio,version=9p2000.L,cache=loose,msize=524288";
    let below = |path: &str| format!("{NEXT_ROOT}{path}");
    put("9p", "root", NEXT_ROOT, MountFlags::RDONLY, options)?;
    for folder in ["/run", "/tmp"] {
        put("tmpfs", "tmpfs", &below(folder), none, c"mode=0755")?;
    }
    fs::create_dir_all(below(BARE_ROOT))?;
    mount(NEXT_ROOT, below(BARE_ROOT), "", MountFlags::BIND, c"")
        .map_err(|e| said("the rig's root", e.into()))?;
    fs::write(below(WIRING[1]), text)?;
    for folder in ["/dev", "/proc", "/sys"] {
        mount_move(folder, below(folder)).map_err(|e| said(folder, e.into()))?;
    }
    std::env::set_current_dir(NEXT_ROOT)?;
    mount_move(".", "/").map_err(|e| said("the root", e.into()))?;
    chroot(".")?;
    std::env::set_current_dir("/")?;
    // The kernel's requests for modules come to this program: PID 1 keeps the initramfs's copy alive.
    fs::write("/proc/sys/kernel/modprobe", "/proc/1/exe\n").map_err(|e| said("modprobe", e))?;
    Ok(())
}

fn agent(verb: &str) -> io::Result<std::process::Child> {
    let wiring = Wiring::read()?;
    let port = port()?;
    let mut command = Command::new("/proc/1/exe");
    command
        .arg0("fsdyno-agent")
        .arg(verb)
        .env_clear()
        .env("PATH", format!("{}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin", wiring.path))
        .env("LC_ALL", "C.UTF-8")
        .env("HOME", GUEST_HOME)
        .stdin(port.try_clone()?)
        .stdout(port);
    command.spawn()
}

/// The port to the rig, from inside a guest.
fn port() -> io::Result<File> {
    let ports = "/sys/class/virtio-ports";
    for entry in fs::read_dir(ports)? {
        let entry = entry?;
        let name = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
        if name.trim() == "fsdyno" {
            let node = Path::new("/dev").join(entry.file_name());
            return OpenOptions::new().read(true).write(true).open(node);
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, format!("no port `fsdyno` in {ports}")))
}

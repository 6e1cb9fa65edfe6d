//! Runs a shell script in a guest, where arrays, volumes and wrong stacks can be built that no host would
//! bear: `guest_script [--disks N] [--size BYTES] [--memory BYTES] [--cpus N] [--limit SECONDS] SCRIPT`.
//!
//! The script is bash, as root, with this host's programs and files (read-only; `/run` and `/tmp` are the
//! guest's own), the disks `/dev/vda`, …, an LVM that needs no udev, and the function
//! `load MODULE [PARAMETER=VALUE …]`. What it prints comes out as it is printed, and its exit code is this
//! program's; 124 says that time was over, 125 that there was no guest.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use fsdyno_machine::{Accelerated, Boot, Disk, Guest, Heard, Kernel, Wiring};
use fsdyno_spec::outcome::Reason;
use fsdyno_spec::units::Bytes;
use serde::{Deserialize, Serialize};

#[path = "../tests/common/here.rs"]
mod here;

/// What this program is in a guest, besides its first process.
const RUNNER: &str = "guest";

/// Time was over, as timeout(1) says it.
const LATE: u8 = 124;

/// There was no guest, or it died.
const NO_GUEST: u8 = 125;

/// How long what the script said last may take to be read.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Read by every bash of the guest. Modules with parameters are the business of insmod, which finds none.
const PRELUDE: &str = r#"
load() {
    local name=$1 file
    shift
    if [ $# = 0 ]; then
        /proc/1/exe -q -- "$name"
        return
    fi
    for file in $(/proc/1/exe modules "$name"); do
        [ -e "/sys/module/$(basename "${file//-/_}" .ko)" ] && continue
        case "$(basename "${file//-/_}")" in
            "${name//-/_}".ko*) insmod "$file" "$@" || return ;;
            *) insmod "$file" || return ;;
        esac
    done
}
"#;

/// No udev, no daemons, nothing of the host's.
const LVM: &str = "devices { dir = \"/dev\" scan = [ \"/dev\" ] use_devicesfile = 0 hints = \"none\" \
    obtain_device_list_from_udev = 0 external_device_info_source = \"none\" multipath_component_detection = 0 }\n\
    global { locking_dir = \"/run/lvm-locks\" use_lvmlockd = 0 use_lvmpolld = 0 notify_dbus = 0 \
    event_activation = 0 system_id_source = \"none\" }\n\
    activation { udev_sync = 0 udev_rules = 0 verify_udev_operations = 0 monitoring = 0 }\n\
    backup { backup = 0 archive = 0 }\n\
    log { syslog = 0 }\n";

/// What goes into a guest: one line.
#[derive(Serialize, Deserialize)]
struct Order {
    script: String,
    /// Variables for it.
    variables: Vec<(String, String)>,
}

/// What comes out: a line each.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Said {
    /// The guest is up.
    Up,
    /// A line on standard output, without its end.
    Out(String),
    /// A line on standard error.
    Err(String),
    /// The script ended.
    Exit(u8),
}

fn main() -> ExitCode {
    if fsdyno_machine::is_first_process() {
        fsdyno_machine::first_process(RUNNER);
    }
    if fsdyno_machine::is_module_request() {
        return fsdyno_machine::module_request();
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [RUNNER] => run_here(),
        ["modules", name] => modules(name),
        _ => Options::of(&arguments).and_then(|options| run_there(&options)),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(why) => {
            eprintln!("guest_script: {why}");
            ExitCode::from(NO_GUEST)
        }
    }
}

/// What the command line asks for.
struct Options {
    disks: usize,
    size: u64,
    memory: u64,
    cpus: u32,
    limit: Duration,
    script: PathBuf,
}

impl Options {
    fn of(arguments: &[String]) -> Result<Self, String> {
        let usage =
            "guest_script [--disks N] [--size BYTES] [--memory BYTES] [--cpus N] [--limit SECONDS] SCRIPT";
        let mut options = Self {
            disks: 8,
            size: 3 << 30,
            memory: 1 << 30,
            cpus: 2,
            limit: Duration::from_secs(300),
            script: PathBuf::new(),
        };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            if !word.starts_with("--") {
                options.script = PathBuf::from(word);
                continue;
            }
            let number: u64 =
                words.next().and_then(|n| n.parse().ok()).ok_or(format!("{word} needs a number: {usage}"))?;
            match word.as_str() {
                "--disks" => options.disks = number as usize,
                "--size" => options.size = number,
                "--memory" => options.memory = number,
                "--cpus" => options.cpus = number as u32,
                "--limit" => options.limit = Duration::from_secs(number),
                _ => return Err(format!("there is no {word}: {usage}")),
            }
        }
        if options.script.as_os_str().is_empty() { Err(usage.to_string()) } else { Ok(options) }
    }
}

/// At the host: boots a guest, has the script run there, and prints what it says.
fn run_there(options: &Options) -> Result<u8, String> {
    let path = &options.script;
    let script = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let said = |reason: Reason| match reason.advice {
        Some(advice) => format!("{} ({advice})", reason.message),
        None => reason.message,
    };
    let kernel = Kernel::find(&here::cache(), None).map_err(said)?;
    let disks = (0..options.disks)
        .map(|_| image(options.size))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| format!("no disk of {} can be made: {error}", Bytes(options.size)))?;
    let boot = Boot {
        kernel: &kernel,
        accelerated: Accelerated::Tcg,
        memory: Bytes(options.memory),
        cpus: options.cpus,
        disks: disks
            .iter()
            .map(|file| Disk { file, direct: false, logical_block_size: Bytes(512) })
            .collect(),
    };
    let mut guest = Guest::start(&here::qemu().map_err(said)?, &boot).map_err(said)?;
    // What begins with this is meant for the script.
    let variables = std::env::vars().filter(|(name, _)| name.starts_with("GUEST_")).collect();
    let order = serde_json::to_vec(&Order { script, variables }).map_err(|error| error.to_string())?;
    let code = converse(&mut guest, &order, options.limit);
    if !guest.end() {
        eprintln!("guest_script: QEMU {} does not die", guest.pid());
    }
    code
}

/// Gives the guest its order and relays what it says until the script ends.
fn converse(guest: &mut Guest, order: &[u8], limit: Duration) -> Result<u8, String> {
    let begin = Instant::now();
    while begin.elapsed() < limit {
        let line = match guest.hear(Duration::from_millis(100)) {
            Heard::Line(line) => line,
            Heard::Silence => continue,
            Heard::TooLong(_) => return Err("a line of the script has no end".into()),
            Heard::Gone => {
                // Its console is read on another thread.
                thread::sleep(Duration::from_millis(100));
                return Err(format!("the guest died: {}", guest.last_words()));
            }
        };
        match serde_json::from_slice(&line).map_err(|error| error.to_string())? {
            Said::Up => guest.send(order).map_err(|error| format!("the guest does not listen: {error}"))?,
            Said::Out(line) => println!("{line}"),
            Said::Err(line) => eprintln!("{line}"),
            Said::Exit(code) => return Ok(code),
        }
    }
    eprintln!("guest_script: not done within {} s: {}", limit.as_secs(), guest.last_words());
    Ok(LATE)
}

/// A sparse file without a name.
fn image(size: u64) -> std::io::Result<File> {
    let file = tempfile::tempfile()?;
    file.set_len(size)?;
    Ok(file)
}

/// In the guest: runs the script that comes on standard input; all that it says goes out as JSON.
fn run_here() -> Result<u8, String> {
    let fail = |what: &'static str| move |error: std::io::Error| format!("{what}: {error}");
    let (sender, receiver) = channel();
    let mut out = std::io::stdout();
    say(&mut out, &Said::Up).map_err(fail("the port"))?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).map_err(fail("the port"))?;
    let order: Order = serde_json::from_str(&line).map_err(|error| error.to_string())?;
    for folder in ["/run/lvm", "/run/lvm-locks"] {
        fs::create_dir_all(folder).map_err(fail("/run"))?;
    }
    fs::write("/run/lvm/lvm.conf", LVM).map_err(fail("/run"))?;
    fs::write("/run/prelude.sh", PRELUDE).map_err(fail("/run"))?;
    fs::write("/run/script.sh", order.script).map_err(fail("/run"))?;
    let mut child = Command::new("bash")
        .arg("/run/script.sh")
        .env("BASH_ENV", "/run/prelude.sh")
        .env("LVM_SYSTEM_DIR", "/run/lvm")
        .env("LVM_SUPPRESS_FD_WARNINGS", "1")
        .env("DM_DISABLE_UDEV", "1")
        .env("TMPDIR", "/run")
        .envs(order.variables)
        .current_dir("/run")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(fail("bash"))?;
    let followers = [
        child.stdout.take().map(|pipe| follow(pipe, Said::Out, sender.clone())),
        child.stderr.take().map(|pipe| follow(pipe, Said::Err, sender.clone())),
    ];
    thread::spawn(move || {
        let code = match child.wait() {
            Ok(status) => status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1),
            Err(_) => 1,
        };
        // What the script left running may hold the pipes for ever.
        let end = Instant::now();
        while followers.iter().flatten().any(|f| !f.is_finished()) && end.elapsed() < LAST_LINES {
            thread::sleep(Duration::from_millis(5));
        }
        let _ = sender.send(Said::Exit(code as u8));
    });
    for said in receiver {
        say(&mut out, &said).map_err(fail("the port"))?;
        if matches!(said, Said::Exit(_)) {
            break;
        }
    }
    // Before the guest powers off, the host is to have heard that.
    thread::sleep(Duration::from_secs(5));
    Ok(0)
}

/// Sends what a pipe says, line by line, until it ends.
fn follow(
    pipe: impl Read + Send + 'static,
    wrap: fn(String) -> Said,
    to: Sender<Said>,
) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            if to.send(wrap(String::from_utf8_lossy(&line).into_owned())).is_err() {
                break;
            }
        }
    })
}

fn say(out: &mut impl Write, said: &Said) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(said)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

/// In the guest: files to load for a module, in order.
fn modules(name: &str) -> Result<u8, String> {
    let modules = Wiring::modules_of_guest().ok_or("this is no guest")?;
    for file in modules.order(name)? {
        println!("{}", file.display());
    }
    Ok(0)
}

//! Programs that live beside a mount: the FUSE driver that serves it, a daemon that works on it. They
//! are started as tools are, without a shell, and end with the mount. Whatever kills the agent kills
//! them too, even one that makes a daemon of itself and leaves its parent, group and session.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fsdyno_filesystems::{CommandLine, EMPTY_FILE};
use fsdyno_spec::outcome::Outcome;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};

use crate::failure::Failure;
use crate::identity::process_start;
use crate::ledger::{Entry, Ledger};
use crate::patience;
use crate::sysfs;
use crate::tool;

/// How long a daemon that was asked to end may take before it is killed.
const POLITE: Duration = Duration::from_secs(5);
/// How long a killed program may take to die.
const DEATH: Duration = Duration::from_secs(10);
/// How long a daemon is watched for an early end.
const SETTLING: Duration = Duration::from_millis(150);
/// How much of its last words is told.
const WORDS: usize = 2000;

/// A running program beside a mount. Killed when dropped.
#[derive(Debug)]
pub struct Companion {
    /// Exact argument vector; the first is the resolved path.
    pub argv: Vec<String>,
    /// Its keeper (see [`guard`], [`contain`]); the program is below it.
    pid: Pid,
    pidfd: OwnedFd,
    output: File,
    /// It was waited for: its number may be another's.
    reaped: AtomicBool,
}

impl Companion {
    /// Starts a program that stays in the foreground.
    ///
    /// # Errors
    /// `Unsupported` if it is not installed; else of the start.
    pub fn start(command: &CommandLine) -> Result<Self, Failure> {
        let parent = rustix::process::getpid();
        Self::spawn(command, move || {
            tool::die_with(parent)?;
            guard(parent.as_raw_nonzero().get())
        })
    }

    /// Starts a program that makes a daemon of itself, and sees that it does not end at once.
    ///
    /// # Errors
    /// As [`Companion::start`]; `Failed` if it ended, with what it said.
    pub fn start_daemon(command: &CommandLine) -> Result<Self, Failure> {
        let parent = rustix::process::getpid();
        let started = Self::spawn(command, move || {
            tool::die_with(parent)?;
            contain()
        })?;
        if patience::until(SETTLING, || started.has_ended()) {
            return Err(Failure::failed(
                format!("{} ended at once{}", command.program, started.last_words()),
                "look into the system log; it may need root, or a writable /dev/shm",
            ));
        }
        Ok(started)
    }

    fn spawn(
        command: &CommandLine,
        before: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
    ) -> Result<Self, Failure> {
        let program = tool::find_program(&command.program).ok_or_else(|| {
            Failure::new(
                Outcome::Unsupported,
                format!("the program {} is not installed", command.program),
                "install the package that has it",
            )
        })?;
        let io = |error: io::Error| Failure::io("cannot start", &program, &error);
        // Nobody reads while it runs, so a pipe would fill up and stop it.
        let output = File::from(memfd_create("output", MemfdFlags::CLOEXEC).map_err(|e| io(e.into()))?);
        // Inherited, and open until it was started; it has no name anywhere.
        let empty = File::from(memfd_create("empty", MemfdFlags::empty()).map_err(|e| io(e.into()))?);
        let node = format!("/proc/self/fd/{}", empty.as_raw_fd());
        let fill = |word: &String| if word == EMPTY_FILE { node.clone() } else { word.clone() };
        let arguments: Vec<String> = command.args.iter().map(fill).collect();
        let mut child = Command::new(&program);
        child.args(&arguments).env("LC_ALL", "C").env_remove("LANGUAGE");
        child.stdin(Stdio::null()).process_group(0).current_dir("/");
        child.stdout(output.try_clone().map_err(io)?).stderr(output.try_clone().map_err(io)?);
        // SAFETY: between fork and exec only system calls are made, which allocate nothing.
        unsafe { child.pre_exec(before) };
        let mut child = child.spawn().map_err(io)?;
        let pid = Pid::from_child(&child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|errno| {
            // Not reaped yet, so the id is still its own.
            let _ = child.kill().and_then(|()| child.wait());
            io(errno.into())
        })?;
        let mut argv = vec![program.to_string_lossy().into_owned()];
        argv.extend(arguments);
        Ok(Self { argv, pid, pidfd, output, reaped: AtomicBool::new(false) })
    }

    /// Puts it into the ledger. It dies with us anyway; an unrecorded one is only found more slowly, so
    /// this may follow its start.
    pub fn record(&self, ledger: &mut Ledger) -> io::Result<()> {
        let pid = self.pid.as_raw_nonzero().get().unsigned_abs();
        match process_start(pid) {
            Some(start) => ledger.record(&Entry::Process { pid, start }),
            None => Ok(()),
        }
    }

    /// Whether it ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
    }

    /// A descriptor that is readable when it ended.
    #[must_use]
    pub fn pidfd(&self) -> &OwnedFd {
        &self.pidfd
    }

    /// Waits until it ended by itself; false if it did not.
    #[must_use]
    pub fn wait(&self, patience: Duration) -> bool {
        let ended = patience::until(patience, || self.has_ended());
        if ended {
            let _ = waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED);
            self.reaped.store(true, Ordering::Relaxed);
        }
        ended
    }

    /// Processes whose CPU use the kernel has not added to ours yet: its keeper and
    /// those below it. None when it was waited for.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        if self.reaped.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let mut found = vec![self.pid];
        let mut looked = 0;
        while looked < found.len() {
            found.extend(children(found[looked]));
            looked += 1;
        }
        found.into_iter().map(|pid| pid.as_raw_nonzero().get().unsigned_abs()).collect()
    }

    /// What it printed last, for the end of a sentence.
    #[must_use]
    pub fn last_words(&self) -> String {
        let length = self.output.metadata().map_or(0, |meta| meta.len());
        let mut bytes = vec![0; WORDS.min(length as usize)];
        let from = length - bytes.len() as u64;
        match self.output.read_exact_at(&mut bytes, from) {
            Ok(()) if !bytes.is_empty() => format!(": {}", String::from_utf8_lossy(&bytes).trim()),
            _ => String::new(),
        }
    }

    /// Asks a daemon to end, so that it lets go what others wait for, and kills it if it does not.
    ///
    /// # Errors
    /// `TeardownFailed` if it does not die.
    pub fn end(&self) -> Result<(), Failure> {
        // Of one that ended the number may be another's already.
        let living = if self.has_ended() { Vec::new() } else { children(self.pid) };
        for daemon in living.into_iter().flat_map(children) {
            if let Ok(handle) = pidfd_open(daemon, PidfdFlags::empty()) {
                let _ = pidfd_send_signal(&handle, Signal::TERM);
            }
        }
        if self.wait(POLITE) || self.kill() {
            return Ok(());
        }
        let message = format!("{} does not die: it is stuck in the kernel", self.argv[0]);
        Err(Failure::new(Outcome::TeardownFailed, message, "look into the kernel log; reboot"))
    }

    /// Kills it; false if it does not die.
    fn kill(&self) -> bool {
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        self.wait(DEATH)
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Living children of a process, by field 4 of `/proc/<pid>/stat`.
fn children(parent: Pid) -> Vec<Pid> {
    let parent = parent.as_raw_nonzero().get().to_string();
    let of = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)) == Some(parent.as_str())
    };
    let all = sysfs::names_in(Path::new("/proc")).into_iter().filter_map(|name| name.parse().ok());
    all.filter(of).filter_map(Pid::from_raw).collect()
}

/// Puts a keeper between us and the program: it stays here, the program goes on in a child of it. When
/// `agent` dies the keeper kills the program, waits for it, and goes last. A FUSE driver must not be the
/// last one in the namespace of its own mount: the kernel would unmount while it exits, and wait for an
/// answer of the very process that is exiting; everything that walks the mounted file systems of the
/// machine would wait with it.
fn guard(agent: libc::pid_t) -> io::Result<()> {
    // SAFETY: plain system calls on values of this function; after the fork this is the only thread of its
    // process, and nothing but system calls follows.
    unsafe {
        let mut signals: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut signals);
        libc::sigaddset(&raw mut signals, libc::SIGTERM);
        libc::sigaddset(&raw mut signals, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const signals, &raw mut before);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
        // Had the agent died before the call, nobody would tell.
        if libc::getppid() != agent {
            libc::_exit(1);
        }
        let keeper = libc::getpid();
        match libc::fork() {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                libc::sigprocmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                if libc::getppid() == keeper { Ok(()) } else { libc::_exit(1) }
            }
            program => {
                libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0);
                let mut status = 0;
                while libc::waitpid(program, &raw mut status, libc::WNOHANG) == 0 {
                    if libc::sigwaitinfo(&raw const signals, std::ptr::null_mut()) == libc::SIGTERM {
                        libc::kill(program, libc::SIGKILL);
                    }
                }
                libc::_exit(if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 1 })
            }
        }
    }
}

/// Makes of the calling process, which is between fork and exec, three: a keeper, whose child is the
/// first process of a PID namespace, whose child returns from here and goes on to exec. A daemon
/// leaves its parent, group and session, and with a fork the signal of its parent's death, but never
/// its namespace: when the keeper dies its child does, and with the first process of a namespace the
/// kernel kills all others. When the last other one ends, so do these two.
fn contain() -> io::Result<()> {
    let mut pipe = [0; 2];
    // SAFETY: plain system calls on values of this function. After each fork this is the only thread of
    // its process, and nothing but system calls follows.
    unsafe {
        if libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC) != 0 || libc::unshare(libc::CLONE_NEWPID) != 0 {
            return Err(io::Error::last_os_error());
        }
        match libc::fork() {
            -1 => return Err(io::Error::last_os_error()),
            0 => {}
            first => {
                keep_only(pipe[1]);
                let mut status = 0;
                while libc::waitpid(first, &raw mut status, 0) < 0 && *libc::__errno_location() == libc::EINTR
                {
                }
                libc::_exit(0);
            }
        }
        libc::close(pipe[1]);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // Had the keeper died before the call, its end of the pipe would be closed.
        let mut alive = libc::pollfd { fd: pipe[0], events: 0, revents: 0 };
        if libc::poll(&raw mut alive, 1, 0) != 0 {
            libc::_exit(1);
        }
        match libc::fork() {
            -1 => Err(io::Error::last_os_error()),
            0 => own_proc(),
            _ => {
                keep_only(pipe[0]);
                let mut status = 0;
                while libc::waitpid(-1, &raw mut status, 0) >= 0 || *libc::__errno_location() == libc::EINTR {
                }
                libc::_exit(0);
            }
        }
    }
}

/// Gives the calling process a `/proc` of its PID namespace: a daemon that looks itself up by number
/// (`/proc/<pid>/oom_score_adj`) would meet somebody else in the agent's. Its copies of mounts go with
/// it, before the unmount.
fn own_proc() -> io::Result<()> {
    // SAFETY: plain system calls on constants.
    let done = unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(
                std::ptr::null(),
                c"/".as_ptr(),
                std::ptr::null(),
                libc::MS_REC | libc::MS_SLAVE,
                std::ptr::null(),
            ) == 0
            && libc::mount(c"proc".as_ptr(), c"/proc".as_ptr(), c"proc".as_ptr(), 0, std::ptr::null()) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Closes all descriptors but the standard ones and this: those of the agent (locks, devices) must not
/// live on in here.
///
/// # Safety
/// Only in a process in which nobody uses the others any more.
unsafe fn keep_only(fd: libc::c_int) {
    // SAFETY: plain system calls; the caller vouches for the descriptors.
    unsafe {
        libc::dup2(fd, 3);
        libc::syscall(libc::SYS_close_range, 4, libc::c_uint::MAX, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_probe::counters::cpu_use;

    fn shell(script: &str) -> CommandLine {
        CommandLine { program: "sh".into(), args: vec!["-c".into(), script.into()] }
    }

    fn gone(mark: &str) -> bool {
        let names = sysfs::names_in(Path::new("/proc")).into_iter();
        !names.filter(|n| n.parse::<u32>().is_ok()).any(|pid| {
            fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).split('\0').any(|word| word == mark))
        })
    }

    #[test]
    fn what_it_said_and_that_it_ended_is_known() {
        let program = Companion::start(&shell("echo why >&2; exit 3")).unwrap();
        assert!(program.wait(Duration::from_secs(10)) && program.has_ended());
        assert_eq!(program.last_words(), ": why");
    }

    #[test]
    fn a_dropped_one_is_dead() {
        let program = Companion::start(&shell("exec sleep 86411")).unwrap();
        assert!(!program.wait(Duration::from_millis(50)));
        drop(program);
        assert!(gone("86411"));
    }

    #[test]
    fn one_that_is_not_installed_is_unsupported() {
        let command = CommandLine { program: "fsdyno-no-such".into(), args: vec![] };
        assert_eq!(Companion::start(&command).unwrap_err().outcome, Outcome::Unsupported);
    }

    #[test]
    fn a_daemon_that_left_its_session_ends_on_request_and_dies_with_its_keeper() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: a PID namespace needs root");
            return;
        }
        let polite = Companion::start_daemon(&shell("setsid -f sleep 86412; exit 0")).unwrap();
        assert!(!gone("86412"));
        polite.end().unwrap();
        assert!(gone("86412"));
        let deaf = "setsid -f sh -c 'trap \"\" TERM; sleep 86413; sleep 86413'; exit 0";
        let dropped = Companion::start_daemon(&shell(deaf)).unwrap();
        assert!(!gone("86413"));
        drop(dropped);
        assert!(patience::until(Duration::from_secs(5), || gone("86413")), "killed with its namespace");
    }

    #[test]
    fn a_daemon_is_charged_while_it_works_and_nobody_once_it_was_waited_for() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: a PID namespace needs root");
            return;
        }
        let works =
            "setsid -f sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; sleep 86415'; exit 0";
        let daemon = Companion::start_daemon(&shell(works)).unwrap();
        let total = |used: fsdyno_spec::event::CpuUse| used.user.0 + used.system.0;
        // Only those beside: what this process and its other children use is in both.
        let used = |daemon: &Companion| total(cpu_use(&daemon.processes())) - total(cpu_use(&[]));
        assert!(patience::until(Duration::from_secs(30), || used(&daemon) > 0.1), "{}", used(&daemon));
        assert!(daemon.processes().len() > 2, "keeper, first of its namespace, and the daemon");
        daemon.end().unwrap();
        assert_eq!(daemon.processes(), Vec::<u32>::new());
    }

    #[test]
    fn a_daemon_finds_itself_by_its_number() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: a PID namespace needs root");
            return;
        }
        let looks = "test \"$(cat /proc/$$/comm)\" = sh && exec setsid -f sleep 86414";
        let daemon = Companion::start_daemon(&shell(looks)).unwrap();
        daemon.end().unwrap();
        assert!(fs::read_to_string("/proc/self/stat").unwrap().starts_with(&std::process::id().to_string()));
    }

    #[test]
    fn a_daemon_that_ends_at_once_is_told_with_its_words() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: a PID namespace needs root");
            return;
        }
        let failure = Companion::start_daemon(&shell("echo no such device; exit 1")).unwrap_err();
        assert!(failure.reason.message.contains("no such device"), "{failure:?}");
        let missing = CommandLine { program: "/etc/passwd".into(), args: vec![] };
        assert!(Companion::start_daemon(&missing).is_err());
    }
}

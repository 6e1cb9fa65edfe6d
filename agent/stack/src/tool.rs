//! Starting a tool: an argument vector and never a shell, nothing inherited but the environment,
//! its whole output kept, its own resource use measured, and no way for it to outlive us.

use std::collections::VecDeque;
use std::env;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fsdyno_filesystems::CommandLine;
use fsdyno_spec::event::CpuUse;
use fsdyno_spec::outcome::Outcome;
use fsdyno_spec::units::{Bytes, Seconds};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::failure::Failure;

/// More output than this is dropped, and said so, so that a tool in a loop cannot take our memory.
const OUTPUT_LIMIT: usize = 64 << 20;
/// How long a killed tool may take to die before it counts as stuck in the kernel.
const DEATH: Duration = Duration::from_secs(10);

/// What a tool did.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutput {
    /// Exact argument vector; the first is the resolved path.
    pub argv: Vec<String>,
    /// Exit code; none if a signal ended it.
    pub exit: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// What it printed, whole.
    pub stdout: Vec<u8>,
    /// What it complained about, whole.
    pub stderr: Vec<u8>,
    /// From start to end.
    pub wall: Seconds,
    /// Its own and its waited-for children's (`wait4(2)`).
    pub cpu: CpuUse,
    /// Peak resident memory (`ru_maxrss`). The kernel counts the moment between fork and exec too, so
    /// it is never below the agent's own size.
    pub peak_memory: Bytes,
}

/// Where a program is: `PATH`, then the system folders that users' paths often lack.
#[must_use]
pub fn find_program(name: &str) -> Option<PathBuf> {
    let runs = |path: &Path| {
        path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| runs(path));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
    env::split_paths(&path).filter(|p| p.is_absolute()).chain(system).map(|p| p.join(name)).find(|p| runs(p))
}

/// Runs a tool to its end, or kills its process group when `stop` is set or `deadline` passes.
/// `started` is told the process id.
///
/// # Errors
/// `Unsupported` if there is no such program, `Cancelled`, `TimedOut`, `TeardownFailed` if it could
/// not be killed. An exit code that means failure is no error here: it is the caller's to judge.
pub fn run(
    command: &CommandLine,
    stop: &AtomicBool,
    deadline: Option<Instant>,
    started: impl FnOnce(u32),
) -> Result<ToolOutput, Failure> {
    let program = find_program(&command.program).ok_or_else(|| {
        Failure::new(
            Outcome::Unsupported,
            format!("the program {} is not installed", command.program),
            "install the package that has it (`fsdyno env` names it)",
        )
    })?;
    let start = Instant::now();
    let mut child =
        spawn(&program, &command.args).map_err(|error| Failure::io("cannot start", &program, &error))?;
    started(child.id());
    let failed = |error: io::Error| Failure::io("cannot watch", &program, &error);
    let mut running = Running::new(&mut child).map_err(|error| {
        // Not reaped yet, so the id is still its own.
        let _ = child.kill().and_then(|()| child.wait());
        failed(error)
    })?;
    let ended = running.follow(stop, deadline).map_err(|error| {
        running.kill();
        failed(error)
    })?;
    let name = &command.program;
    match ended {
        Ended::Itself => {}
        Ended::Stopped => {
            return Err(Failure::new(
                Outcome::Cancelled,
                format!("{name} was ended on request"),
                "run it again",
            ));
        }
        Ended::Late => {
            let message = format!("{name} did not end within its time and was killed");
            return Err(Failure::new(Outcome::TimedOut, message, "give the phase a longer timeout"));
        }
        Ended::Never => {
            let message = format!("{name} (pid {}) does not die: it is stuck in the kernel", running.pid());
            return Err(Failure::new(Outcome::TeardownFailed, message, "look into the kernel log; reboot"));
        }
    }
    let wall = start.elapsed().into();
    let (exit, signal, cpu, peak_memory) = running.reaped.unwrap_or_default();
    let mut argv = vec![program.to_string_lossy().into_owned()];
    argv.extend(command.args.iter().cloned());
    let [stdout, stderr] = running.output;
    Ok(ToolOutput { argv, exit, signal, stdout, stderr, wall, cpu, peak_memory })
}

fn spawn(program: &Path, args: &[String]) -> io::Result<Child> {
    let parent = rustix::process::getpid();
    let mut command = Command::new(program);
    command.args(args).env("LC_ALL", "C").env_remove("LANGUAGE");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0).current_dir("/");
    // SAFETY: between fork and exec only two system calls are made, which allocate nothing.
    unsafe {
        command.pre_exec(move || die_with(parent));
    }
    command.spawn()
}

/// Makes the calling process, which is between fork and exec, die with its parent.
///
/// # Errors
/// `ESRCH` if the parent is dead already.
pub(crate) fn die_with(parent: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // Had the parent died before the call, no signal would ever come.
    if rustix::process::getppid() == Some(parent) {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::ESRCH))
    }
}

enum Ended {
    Itself,
    Stopped,
    Late,
    Never,
}

type Reaped = (Option<i32>, Option<i32>, CpuUse, Bytes);

/// A started tool with its pipes.
struct Running {
    pid: Pid,
    pidfd: OwnedFd,
    pipes: [Option<OwnedFd>; 2],
    output: [Vec<u8>; 2],
    reaped: Option<Reaped>,
}

impl Running {
    fn new(child: &mut Child) -> io::Result<Self> {
        let pid = Pid::from_child(child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        let pipes = [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)];
        for pipe in pipes.iter().flatten() {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        Ok(Self { pid, pidfd, pipes, output: [Vec::new(), Vec::new()], reaped: None })
    }

    fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Reads its output until it ends; what background children of it still print is not waited for.
    fn follow(&mut self, stop: &AtomicBool, deadline: Option<Instant>) -> io::Result<Ended> {
        let mut killed = None;
        loop {
            let ready = self.wait(Duration::from_millis(50))?;
            for n in 0..2 {
                self.drain(n)?;
            }
            if ready {
                // Children that it left behind are in its group and end with it: now, while it is a
                // zombie, which keeps the number of the group from being anybody else's.
                self.kill();
                self.reaped = Some(reap(self.pid())?);
                for n in 0..2 {
                    self.drain(n)?;
                }
                return Ok(killed.map_or(Ended::Itself, |(_, ended)| ended));
            }
            match &killed {
                Some((since, _)) if Instant::elapsed(since) > DEATH => return Ok(Ended::Never),
                Some(_) => {}
                None if stop.load(Ordering::Relaxed) => killed = Some((self.kill(), Ended::Stopped)),
                None if deadline.is_some_and(|end| Instant::now() >= end) => {
                    killed = Some((self.kill(), Ended::Late));
                }
                None => {}
            }
        }
    }

    /// Kills its group, unless it was reaped: then the number may be another's.
    fn kill(&self) -> Instant {
        if self.reaped.is_none() {
            let _ = kill_process_group(self.pid, Signal::KILL);
        }
        Instant::now()
    }

    /// Waits for output or the end; true if it ended.
    fn wait(&self, patience: Duration) -> io::Result<bool> {
        let mut fds: VecDeque<_> =
            self.pipes.iter().flatten().map(|pipe| PollFd::new(pipe, PollFlags::IN)).collect();
        fds.push_front(PollFd::new(&self.pidfd, PollFlags::IN));
        let timeout = Timespec { tv_sec: 0, tv_nsec: patience.subsec_nanos().into() };
        match poll(fds.make_contiguous(), Some(&timeout)) {
            Err(rustix::io::Errno::INTR) => Ok(false),
            other => other.map(|_| !fds[0].revents().is_empty()).map_err(Into::into),
        }
    }

    fn drain(&mut self, n: usize) -> io::Result<()> {
        let Some(pipe) = &self.pipes[n] else { return Ok(()) };
        let mut buffer = [0u8; 65536];
        loop {
            match rustix::io::read(pipe.as_fd(), &mut buffer) {
                Ok(0) => {
                    self.pipes[n] = None;
                    return Ok(());
                }
                Ok(read) => {
                    let room = OUTPUT_LIMIT - self.output[n].len().min(OUTPUT_LIMIT);
                    self.output[n].extend_from_slice(&buffer[..read.min(room)]);
                }
                Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(other) => return Err(other.into()),
            }
        }
    }
}

/// Reaps a process that ended. `wait4(2)`, as std tells no resource use.
fn reap(pid: i32) -> io::Result<Reaped> {
    let mut status = 0;
    // SAFETY: all zeroes is a valid `struct rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live variables of the right type; the child is ours and unreaped.
    let result = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let seconds = |t: libc::timeval| Seconds(t.tv_sec as f64 + t.tv_usec as f64 / 1e6);
    let cpu = CpuUse {
        user: seconds(usage.ru_utime),
        system: seconds(usage.ru_stime),
        voluntary_switches: usage.ru_nvcsw as u64,
        involuntary_switches: usage.ru_nivcsw as u64,
    };
    let exit = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
    let signal = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
    Ok((exit, signal, cpu, Bytes::kib(usage.ru_maxrss as u64)))
}

/// Runs a short helper whose output we read ourselves (probing), ten seconds at most.
pub(crate) fn ask(program: &str, args: &[&str]) -> Result<ToolOutput, Failure> {
    let args = args.iter().map(ToString::to_string).collect();
    let command = CommandLine { program: program.to_string(), args };
    let deadline = Instant::now() + Duration::from_secs(10);
    run(&command, &AtomicBool::new(false), Some(deadline), |_| ())
}

/// Brings a program, its libraries and its path into memory: it is read, and run with arguments that make
/// it print its version. Nothing where there is none: whoever needs it will say so.
pub fn warm(program: &str, version: &[&str]) {
    if let Some(path) = find_program(program) {
        // Reading is the purpose; running loads the libraries.
        let _ = std::fs::read(path);
        let _ = ask(program, version);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> CommandLine {
        CommandLine { program: "sh".into(), args: vec!["-c".into(), script.into()] }
    }

    fn go(script: &str) -> ToolOutput {
        run(&shell(script), &AtomicBool::new(false), None, |_| ()).unwrap()
    }

    #[test]
    fn output_is_kept_whole_and_apart() {
        let out = go("head -c 300000 /dev/zero; echo oops >&2; exit 3");
        assert_eq!((out.stdout.len(), out.stderr.as_slice(), out.exit), (300_000, &b"oops\n"[..], Some(3)));
        assert!(out.argv[0].starts_with('/'));
        assert!(out.peak_memory.0 > 0);
    }

    #[test]
    fn a_tool_gets_no_input_and_a_plain_locale() {
        let out = go("cat; echo $LC_ALL");
        assert_eq!(out.stdout, b"C\n");
    }

    #[test]
    fn a_signal_is_no_exit_code() {
        let out = go("kill -9 $$");
        assert_eq!((out.exit, out.signal), (None, Some(9)));
    }

    #[test]
    fn its_own_cpu_time_is_measured_and_not_that_of_others() {
        let busy = go("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done");
        let idle = go("true");
        assert!(busy.cpu.user.0 > idle.cpu.user.0);
    }

    #[test]
    fn a_late_tool_is_killed_with_its_children() {
        let soon = Some(Instant::now() + Duration::from_millis(100));
        let mut pid = 0;
        let failure =
            run(&shell("sleep 100 & sleep 100"), &AtomicBool::new(false), soon, |p| pid = p).unwrap_err();
        assert_eq!(failure.outcome, Outcome::TimedOut);
        let group = rustix::process::Pid::from_raw(pid as i32).unwrap();
        let gone = || rustix::process::test_kill_process_group(group).is_err();
        assert!(crate::patience::until(Duration::from_secs(5), gone));
    }

    #[test]
    fn what_a_tool_leaves_running_ends_with_it_and_its_own_end_is_told_as_it_was() {
        let mut pid = 0;
        let run = run(&shell("sleep 100 & exit 3"), &AtomicBool::new(false), None, |p| pid = p).unwrap();
        assert_eq!((run.exit, run.signal), (Some(3), None));
        let group = rustix::process::Pid::from_raw(pid as i32).unwrap();
        let gone = || rustix::process::test_kill_process_group(group).is_err();
        assert!(crate::patience::until(Duration::from_secs(5), gone));
    }

    #[test]
    fn a_stopped_tool_is_cancelled() {
        let failure = run(&shell("sleep 100"), &AtomicBool::new(true), None, |_| ()).unwrap_err();
        assert_eq!(failure.outcome, Outcome::Cancelled);
    }

    #[test]
    fn a_missing_tool_is_unsupported_and_named() {
        let command = CommandLine { program: "fsdyno-no-such".into(), args: vec![] };
        let failure = run(&command, &AtomicBool::new(false), None, |_| ()).unwrap_err();
        assert_eq!(failure.outcome, Outcome::Unsupported);
        assert!(failure.reason.message.contains("fsdyno-no-such"));
    }
}

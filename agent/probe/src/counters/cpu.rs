//! CPU use: of this process, of the children that it has waited for, and of programs beside it that
//! still live. The kernel adds a child to its parent only when it is waited for: what a FUSE driver
//! used since its mount would else all be charged to its unmount.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::ops::AddAssign;
use std::time::{Duration, Instant};

use fsdyno_spec::event::CpuUse;
use fsdyno_spec::units::Seconds;

/// What something took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Took {
    /// Wall time.
    pub wall: Duration,
    /// CPU use within it.
    pub cpu: CpuUse,
}

impl AddAssign for Took {
    fn add_assign(&mut self, other: Self) {
        self.wall += other.wall;
        add(&mut self.cpu, &other.cpu);
    }
}

/// A running clock of wall time and CPU use.
#[derive(Debug)]
pub struct Clock {
    cpu: CpuUse,
    begin: Instant,
}

impl Clock {
    /// Starts. `beside`: as in [`cpu_use`].
    #[must_use]
    pub fn start(beside: &[u32]) -> Self {
        Self { cpu: cpu_use(beside), begin: Instant::now() }
    }

    /// What was taken until now. `beside`: those that live now; one that was waited for since is counted
    /// all the same.
    #[must_use]
    pub fn took(&self, beside: &[u32]) -> Took {
        let wall = self.begin.elapsed();
        Took { wall, cpu: difference(&self.cpu, &cpu_use(beside)) }
    }
}

/// CPU use of this process (all threads) and its waited-for children (`getrusage(2)`), and of processes
/// that live `beside` it, with the children that these have waited for.
///
/// Whoever is waited for moves from the one sum to the other, so that differences hold over its end.
/// Context switches of a living one are those of its living threads.
#[must_use]
pub fn cpu_use(beside: &[u32]) -> CpuUse {
    let mut sum = CpuUse::default();
    for pid in beside {
        if let Some(used) = of_living(*pid) {
            add(&mut sum, &used);
        }
    }
    for who in [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN] {
        add(&mut sum, &of_usage(who));
    }
    sum
}

/// What was used from one moment to another. Where living processes are among them, the halves are known
/// less exactly than their sum: what one half seems to lose, the other has not won.
pub(super) fn difference(before: &CpuUse, after: &CpuUse) -> CpuUse {
    let (user, system) = (after.user.0 - before.user.0, after.system.0 - before.system.0);
    let total = (user + system).max(0.0);
    let user = user.clamp(0.0, total);
    CpuUse {
        user: Seconds(user),
        system: Seconds(total - user),
        voluntary_switches: after.voluntary_switches.saturating_sub(before.voluntary_switches),
        involuntary_switches: after.involuntary_switches.saturating_sub(before.involuntary_switches),
    }
}

fn add(sum: &mut CpuUse, other: &CpuUse) {
    sum.user.0 += other.user.0;
    sum.system.0 += other.system.0;
    sum.voluntary_switches += other.voluntary_switches;
    sum.involuntary_switches += other.involuntary_switches;
}

fn of_usage(who: libc::c_int) -> CpuUse {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for a `rusage`, for which all zeroes is a valid value.
    let usage = unsafe {
        assert_eq!(libc::getrusage(who, usage.as_mut_ptr()), 0, "{}", io::Error::last_os_error());
        usage.assume_init()
    };
    let seconds = |t: libc::timeval| Seconds(t.tv_sec as f64 + t.tv_usec as f64 / 1e6);
    CpuUse {
        user: seconds(usage.ru_utime),
        system: seconds(usage.ru_stime),
        voluntary_switches: usage.ru_nvcsw as u64,
        involuntary_switches: usage.ru_nivcsw as u64,
    }
}

/// None if there is no such process.
fn of_living(pid: u32) -> Option<CpuUse> {
    let [user, system, children_user, children_system] =
        ticks(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
    // Ticks are coarse; the process's own clock has nanoseconds, but not by halves.
    let system = clock(pid).map_or(system, |total| (total - user).max(0.0));
    let mut used = CpuUse {
        user: Seconds(user + children_user),
        system: Seconds(system + children_system),
        ..CpuUse::default()
    };
    for thread in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        used.voluntary_switches += named(&status, "voluntary_ctxt_switches:");
        used.involuntary_switches += named(&status, "nonvoluntary_ctxt_switches:");
    }
    Some(used)
}

/// Seconds in `/proc/<pid>/stat`: user, system, and both of waited-for children. Fields 14 to 17, counted
/// from 1; the second is the name in brackets, which may have blanks and brackets itself. Source: proc(5).
fn ticks(stat: &str) -> Option<[f64; 4]> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    let mut next = || Some(fields.next()?.parse::<f64>().ok()? / per_second);
    Some([next()?, next()?, next()?, next()?])
}

/// CPU time of a process (all threads, ended ones included), in seconds.
fn clock(pid: u32) -> Option<f64> {
    let pid = libc::pid_t::try_from(pid).ok()?;
    let (mut id, mut time) = (0, MaybeUninit::<libc::timespec>::zeroed());
    // SAFETY: both pointers are to live variables of the right types; all zeroes is a valid `timespec`.
    let time = unsafe {
        if libc::clock_getcpuclockid(pid, &raw mut id) != 0 || libc::clock_gettime(id, time.as_mut_ptr()) != 0
        {
            return None;
        }
        time.assume_init()
    };
    Some(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
}

/// The value of `name value` lines.
fn named(text: &str, name: &str) -> u64 {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    fn total(used: &CpuUse) -> f64 {
        used.user.0 + used.system.0
    }

    /// A shell that has used CPU time and now waits for its input to end.
    fn busy() -> (Child, f64) {
        let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done; read -r end; exit 0";
        let mut shell = Command::new("sh");
        let mut child =
            shell.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sh");
        let mut said = [0; 5];
        std::io::Read::read_exact(child.stdout.as_mut().expect("piped"), &mut said).expect("its word");
        let used = total(&of_living(child.id()).expect("it lives"));
        (child, used)
    }

    #[test]
    fn a_living_program_is_charged_to_the_time_in_which_it_works_and_not_to_its_end() {
        let before = Clock::start(&[]);
        let (mut child, used) = busy();
        let beside = [child.id()];
        let working = before.took(&beside).cpu;
        assert!(used > 0.0 && total(&working) >= used, "{used} s of {working:?}");
        let ending = Clock::start(&beside);
        drop(child.stdin.take());
        assert!(child.wait().expect("it ends").success());
        let ending = ending.took(&[]).cpu;
        assert!(total(&ending) < used / 2.0, "{used} s until its end, then {ending:?}");
        // Without it, its end pays for all.
        let whole = difference(&before.cpu, &cpu_use(&[]));
        assert!(total(&whole) >= used, "{whole:?}");
    }

    #[test]
    fn the_fields_are_counted_behind_the_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 10 20 30 40 100 200 300 400 20 0 1 0 99\n";
        let per_second = rustix::param::clock_ticks_per_second() as f64;
        assert_eq!(ticks(stat).map(|t| t.map(|s| s * per_second)), Some([100.0, 200.0, 300.0, 400.0]));
        assert_eq!(ticks("7 (a) S 1"), None);
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(named(status, "voluntary_ctxt_switches:"), 12);
        assert_eq!(named(status, "nonvoluntary_ctxt_switches:"), 3);
    }

    #[test]
    fn a_half_that_seems_to_lose_takes_from_the_other() {
        let used =
            |user, system| CpuUse { user: Seconds(user), system: Seconds(system), ..CpuUse::default() };
        assert_eq!(difference(&used(1.0, 2.0), &used(1.5, 1.75)), used(0.25, 0.0));
        assert_eq!(difference(&used(1.0, 2.0), &used(0.75, 2.5)), used(0.0, 0.25));
        assert_eq!(difference(&used(1.0, 2.0), &used(0.5, 2.0)), used(0.0, 0.0));
    }
}

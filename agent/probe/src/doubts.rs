//! When a phase's figures are doubtful because something else happened meanwhile. Pure: counters
//! and log lines in, flags out. Each limit is a constant with its meaning.

use fsdyno_spec::event::DeviceCounts;
use fsdyno_spec::outcome::{Doubt, Flag};
use fsdyno_spec::units::{Bytes, Seconds};

use crate::counters::Delta;
use crate::kernel_log::Line;

/// Lines up to this level are complaints: 4 is a warning, 3 an error; what a mount or an unmount
/// says in passing is 5 or 6.
pub const COMPLAINT: u8 = 4;

/// Share of the CPUs' time that a hypervisor may take.
pub const STOLEN_SHARE: f64 = 0.05;

/// Share of the wall time in which tasks may wait for memory.
pub const MEMORY_SHARE: f64 = 0.01;

/// Share of the wall time in which tasks may wait for a CPU, where each worker can have its own.
/// Not less: the kernel's own workers (write-back, journals, loop devices) compete a little.
pub const CPU_SHARE: f64 = 0.20;

/// Bytes moved at the disk under a backing file, beyond those moved at the device on it, as a share
/// of these: the file system that holds the file adds metadata of its own.
pub const FOREIGN_SHARE: f64 = 0.25;

/// The same as an absolute amount, so that a log rotation in a quiet phase is no doubt.
pub const FOREIGN_BYTES: u64 = 32 << 20;

/// Shorter phases are not judged by shares of time: the kernel counts CPU time in ticks of 10 ms,
/// and one of them would be a large share.
pub const SHORTEST: f64 = 0.2;

/// Complaints that say nothing about the machine's health. A device that cannot write zeroes or
/// discard by itself says so once, and the kernel writes the zeroes. A rate limit only counts lines
/// of a kind of which others stand in the log and are judged themselves. A driver that will go one day
/// is here today.
const HARMLESS: [(&str, &str); 4] = [
    ("deprecated", "removed from the kernel"),
    ("operation not supported error", "(WRITE_ZEROES)"),
    ("operation not supported error", "(DISCARD)"),
    (": ", " callbacks suppressed"),
];

/// What a phase was, as far as doubts depend on it.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Kernel names of the trial's devices and of the disks under them. A complaint about other
    /// devices is not about this trial.
    pub devices: &'a [String],
    /// CPUs that the agent may run on.
    pub cpus: u32,
    /// Worker threads of the phase; 1 for a tool.
    pub threads: u32,
    /// Whether the kernel log could be read.
    pub kernel_log: bool,
}

/// All doubts about a phase, in the order of [`Doubt`].
#[must_use]
pub fn judge(delta: &Delta, lines: &[Line], context: &Context<'_>) -> Vec<Flag> {
    let wall = delta.wall_ns as f64 / 1e9;
    let long = wall >= SHORTEST;
    let share = |time: Option<Seconds>| time.map_or(0.0, |t| if wall > 0.0 { t.0 / wall } else { 0.0 });
    let mut flags = Vec::new();
    let mut doubt = |when: bool, doubt: Doubt, reason: &dyn Fn() -> String| {
        if when {
            flags.push(Flag::new(doubt, reason()));
        }
    };

    let complaints: Vec<&Line> =
        lines.iter().filter(|line| is_complaint(line) && concerns(line, context.devices)).collect();
    doubt(!complaints.is_empty(), Doubt::KernelLog, &|| {
        let more = if complaints.len() > 1 {
            format!(" (and {} more)", complaints.len() - 1)
        } else {
            String::new()
        };
        format!("the kernel complained: {}{more}", complaints[0].text)
    });
    doubt(!context.kernel_log, Doubt::KernelLogUnread, &|| {
        "the kernel log could not be read, so its silence proves nothing".into()
    });
    let stolen = share(Some(delta.host.steal)) / f64::from(context.cpus.max(1));
    doubt(long && stolen > STOLEN_SHARE, Doubt::StolenTime, &|| {
        format!("the hypervisor took {} of the CPU time (limit {})", percent(stolen), percent(STOLEN_SHARE))
    });
    let memory = share(delta.host.memory_pressure);
    doubt(long && memory > MEMORY_SHARE, Doubt::MemoryPressure, &|| {
        format!(
            "tasks waited for memory in {} of the time (limit {})",
            percent(memory),
            percent(MEMORY_SHARE)
        )
    });
    let cpu = share(delta.host.cpu_pressure);
    doubt(long && context.threads <= context.cpus && cpu > CPU_SHARE, Doubt::CpuPressure, &|| {
        format!("tasks waited for a CPU in {} of the time (limit {})", percent(cpu), percent(CPU_SHARE))
    });
    if !delta.leaves.is_empty() && !delta.underneath.is_empty() {
        let (leaf, under) = (moved(&delta.leaves), moved(&delta.underneath));
        let allowed = ((leaf as f64 * FOREIGN_SHARE) as u64).max(FOREIGN_BYTES);
        doubt(under > leaf.saturating_add(allowed), Doubt::ForeignIo, &|| {
            format!(
                "the disk under the devices moved {} where the devices moved {} (limit {} more)",
                Bytes(under),
                Bytes(leaf),
                Bytes(allowed)
            )
        });
    }
    let throttles = delta.host.throttles.unwrap_or(0);
    doubt(throttles > 0, Doubt::Throttled, &|| format!("the CPUs were throttled {throttles} times"));
    flags
}

/// Whether a line makes a figure doubtful.
#[must_use]
pub fn is_complaint(line: &Line) -> bool {
    let harmless = HARMLESS.iter().any(|(what, kind)| line.text.contains(what) && line.text.contains(kind));
    line.level <= COMPLAINT && !harmless
}

/// Whether a line may be about one of these devices: it names one, or none at all.
#[must_use]
pub fn concerns(line: &Line, devices: &[String]) -> bool {
    let words = line.text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    let named: Vec<&str> = words.filter(|word| is_disk(word)).collect();
    let ours = |word: &&str| devices.iter().any(|device| is_of(word, device) || is_of(device, word));
    named.is_empty() || named.iter().any(ours)
}

/// Whether a word is the name of this disk or of a partition of it.
fn is_of(word: &str, disk: &str) -> bool {
    let number = |rest: &str| !rest.is_empty() && rest.bytes().all(|c| c.is_ascii_digit());
    word.strip_prefix(disk).is_some_and(|rest| match disk.ends_with(|c: char| c.is_ascii_digit()) {
        true => rest.is_empty() || rest.strip_prefix('p').is_some_and(number),
        false => rest.is_empty() || number(rest),
    })
}

/// Whether a word is the kernel's name of a disk or a partition.
fn is_disk(word: &str) -> bool {
    const NUMBERED: [&str; 6] = ["loop", "nvme", "md", "dm-", "zram", "mmcblk"];
    const LETTERED: [&str; 4] = ["sd", "vd", "hd", "xvd"];
    let digit = |c: char| c.is_ascii_digit();
    let numbered = |p: &&str| word.strip_prefix(*p).is_some_and(|rest| rest.starts_with(digit));
    let lettered = |p: &&str| {
        word.strip_prefix(*p)
            .map(|rest| rest.trim_end_matches(digit))
            .is_some_and(|rest| (1..=2).contains(&rest.len()) && rest.bytes().all(|c| c.is_ascii_lowercase()))
    };
    NUMBERED.iter().any(numbered) || LETTERED.iter().any(lettered)
}

fn moved(devices: &[DeviceCounts]) -> u64 {
    devices.iter().map(|d| d.read_bytes.0 + d.write_bytes.0).sum()
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_spec::event::HostCounts;

    const QUIET: Context<'static> = Context { devices: &[], cpus: 2, threads: 2, kernel_log: true };

    fn second(host: HostCounts) -> Delta {
        Delta { host, wall_ns: 1_000_000_000, ..Delta::default() }
    }

    fn doubts(delta: &Delta, lines: &[Line], context: &Context<'_>) -> Vec<Doubt> {
        judge(delta, lines, context).into_iter().map(|flag| flag.doubt).collect()
    }

    fn line(level: u8, text: &str) -> Line {
        Line { level, text: text.into() }
    }

    #[test]
    fn a_quiet_phase_is_not_doubted() {
        assert_eq!(judge(&second(HostCounts::default()), &[], &QUIET), vec![]);
    }

    #[test]
    fn complaints_of_the_kernel_count_and_notices_do_not() {
        let delta = second(HostCounts::default());
        assert_eq!(doubts(&delta, &[line(6, "mounted filesystem")], &QUIET), vec![]);
        assert_eq!(doubts(&delta, &[line(4, "a warning")], &QUIET), vec![Doubt::KernelLog]);
        let zeroes = "operation not supported error, dev loop8, sector 0 op 0x9:(WRITE_ZEROES) flags 0x800";
        assert_eq!(doubts(&delta, &[line(3, zeroes)], &QUIET), vec![]);
        assert_eq!(doubts(&delta, &[line(4, "blk_print_req_error: 9 callbacks suppressed")], &QUIET), vec![]);
        let lost = "I/O error on the medium, sector 0 op 0x1:(WRITE) flags 0x800";
        let flags = judge(&delta, &[line(3, lost), line(3, lost)], &QUIET);
        assert_eq!(flags[0].reason, format!("the kernel complained: {lost} (and 1 more)"));
    }

    #[test]
    fn complaints_about_other_devices_are_not_ours() {
        let ours = ["loop7".to_string(), "vda".to_string()];
        let about = |text: &str| concerns(&line(3, text), &ours);
        assert!(about("EXT4-fs error (device loop7): bad block"));
        assert!(about("I/O error, dev vda1, sector 0 op 0x1:(WRITE)"));
        assert!(about("page allocation failure"), "a line that names no device may be about ours");
        assert!(!about("XFS (loop71908): log mount failed"));
        assert!(!about("EXT4-fs (loop30707): Can't find ext4 filesystem"));
        assert!(!about("xfs-log/loop14230: writeback error"));
        assert!(!about("I/O error, dev sdb, sector 8"));
    }

    #[test]
    fn silence_of_an_unread_log_is_a_doubt() {
        let deaf = Context { kernel_log: false, ..QUIET };
        assert_eq!(doubts(&second(HostCounts::default()), &[], &deaf), vec![Doubt::KernelLogUnread]);
    }

    #[test]
    fn each_limit_is_a_limit() {
        let steal = |s| HostCounts { steal: Seconds(s), ..HostCounts::default() };
        assert_eq!(doubts(&second(steal(0.09)), &[], &QUIET), vec![]); // 4.5 % of two CPUs
        assert_eq!(doubts(&second(steal(0.11)), &[], &QUIET), vec![Doubt::StolenTime]);
        let memory = |s| HostCounts { memory_pressure: Some(Seconds(s)), ..HostCounts::default() };
        assert_eq!(doubts(&second(memory(0.009)), &[], &QUIET), vec![]);
        assert_eq!(doubts(&second(memory(0.011)), &[], &QUIET), vec![Doubt::MemoryPressure]);
        let cpu = |s| HostCounts { cpu_pressure: Some(Seconds(s)), ..HostCounts::default() };
        assert_eq!(doubts(&second(cpu(0.19)), &[], &QUIET), vec![]);
        assert_eq!(doubts(&second(cpu(0.21)), &[], &QUIET), vec![Doubt::CpuPressure]);
        let hot = HostCounts { throttles: Some(1), ..HostCounts::default() };
        assert_eq!(doubts(&second(hot), &[], &QUIET), vec![Doubt::Throttled]);
    }

    #[test]
    fn waiting_for_a_cpu_is_expected_with_more_threads_than_cpus() {
        let waiting = HostCounts { cpu_pressure: Some(Seconds(0.9)), ..HostCounts::default() };
        assert_eq!(doubts(&second(waiting), &[], &Context { threads: 3, ..QUIET }), vec![]);
    }

    #[test]
    fn a_phase_of_a_few_ticks_is_not_judged_by_shares() {
        let host = HostCounts {
            steal: Seconds(0.01),
            memory_pressure: Some(Seconds(0.01)),
            ..HostCounts::default()
        };
        assert_eq!(doubts(&Delta { host, wall_ns: 20_000_000, ..Delta::default() }, &[], &QUIET), vec![]);
    }

    #[test]
    fn bytes_under_the_device_beyond_its_own_are_foreign() {
        let device =
            |mib: u64| vec![DeviceCounts { write_bytes: Bytes::mib(mib), ..DeviceCounts::default() }];
        let delta =
            |leaf, under| Delta { leaves: device(leaf), underneath: device(under), ..Delta::default() };
        assert_eq!(doubts(&delta(1000, 1249), &[], &QUIET), vec![]);
        assert_eq!(doubts(&delta(1000, 1251), &[], &QUIET), vec![Doubt::ForeignIo]);
        assert_eq!(doubts(&delta(1, 32), &[], &QUIET), vec![]);
        assert_eq!(doubts(&delta(1, 34), &[], &QUIET), vec![Doubt::ForeignIo]);
        let unknown = Delta { leaves: vec![], ..delta(0, 1000) };
        assert_eq!(doubts(&unknown, &[], &QUIET), vec![]);
    }
}

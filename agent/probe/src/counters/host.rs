//! Host-wide counters: pages dirtied, stolen and used CPU time, pressure, throttling.

use std::fs;

use fsdyno_spec::event::HostCounts;
use fsdyno_spec::units::Seconds;

/// Host-wide counters since boot. What this kernel does not count is none, or 0 where it has always
/// been counted.
pub(super) fn counts() -> HostCounts {
    let vmstat = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let (busy, steal) = processor_time(&fs::read_to_string("/proc/stat").unwrap_or_default());
    HostCounts {
        pages_dirtied: named(&vmstat, "nr_dirtied"),
        pages_written: named(&vmstat, "nr_written"),
        steal,
        busy,
        cpu_pressure: pressure("cpu"),
        io_pressure: pressure("io"),
        memory_pressure: pressure("memory"),
        throttles: throttles(),
    }
}

pub(super) fn difference(before: &HostCounts, after: &HostCounts) -> HostCounts {
    let seconds = |a: Seconds, b: Seconds| Seconds((a.0 - b.0).max(0.0));
    let stall = |a: Option<Seconds>, b: Option<Seconds>| Some(seconds(a?, b?));
    HostCounts {
        pages_dirtied: after.pages_dirtied.saturating_sub(before.pages_dirtied),
        pages_written: after.pages_written.saturating_sub(before.pages_written),
        steal: seconds(after.steal, before.steal),
        busy: seconds(after.busy, before.busy),
        cpu_pressure: stall(after.cpu_pressure, before.cpu_pressure),
        io_pressure: stall(after.io_pressure, before.io_pressure),
        memory_pressure: stall(after.memory_pressure, before.memory_pressure),
        throttles: after.throttles.zip(before.throttles).map(|(a, b)| a.saturating_sub(b)),
    }
}

/// The value of `name value` lines.
fn named(text: &str, name: &str) -> u64 {
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok();
    text.lines().find_map(value).unwrap_or(0)
}

/// Busy and stolen time, summed over CPUs, from the first line of `/proc/stat`: user, nice, system,
/// idle, iowait, irq, softirq, steal (guest time is within user), in ticks.
fn processor_time(stat: &str) -> (Seconds, Seconds) {
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = line.split_ascii_whitespace().skip(1).filter_map(|f| f.parse().ok()).collect();
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    let sum =
        |fields: &[usize]| Seconds(fields.iter().filter_map(|&f| ticks.get(f)).sum::<f64>() / per_second);
    (sum(&[0, 1, 2, 5, 6]), sum(&[7]))
}

/// Time in which at least one task waited for `what`, from `/proc/pressure`.
fn pressure(what: &str) -> Option<Seconds> {
    stalled(&fs::read_to_string(format!("/proc/pressure/{what}")).ok()?)
}

fn stalled(text: &str) -> Option<Seconds> {
    let some = text.lines().find(|line| line.starts_with("some "))?;
    let total = some.split_ascii_whitespace().find_map(|word| word.strip_prefix("total="))?;
    Some(Seconds(total.parse::<f64>().ok()? / 1e6))
}

/// Throttle events of all cores; none on machines that do not count them.
fn throttles() -> Option<u64> {
    let cpus = fs::read_dir("/sys/devices/system/cpu").ok()?.flatten();
    let count = |cpu: fs::DirEntry| {
        let text = fs::read_to_string(cpu.path().join("thermal_throttle/core_throttle_count")).ok()?;
        text.trim().parse::<u64>().ok()
    };
    cpus.filter_map(count).fold(None, |sum, n| Some(sum.unwrap_or(0) + n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_prints() {
        assert_eq!(named("nr_dirtied_x 1\nnr_dirtied 42\n", "nr_dirtied"), 42);
        assert_eq!(named("", "nr_dirtied"), 0);
        let per_second = rustix::param::clock_ticks_per_second() as f64;
        let (busy, steal) = processor_time("cpu  1 2 4 1000 1000 8 16 32 64 128\ncpu0 9 9 9\n");
        assert_eq!((busy.0 * per_second, steal.0 * per_second), (31.0, 32.0));
        let text = "some avg10=0.00 avg60=0.03 avg300=0.75 total=14329664\nfull avg10=0.00 total=7\n";
        assert_eq!(stalled(text), Some(Seconds(14.329_664)));
        assert_eq!(stalled(""), None);
    }

    #[test]
    fn what_is_unknown_at_either_end_stays_unknown() {
        let with =
            HostCounts { cpu_pressure: Some(Seconds(2.0)), throttles: Some(3), ..HostCounts::default() };
        assert_eq!(difference(&HostCounts::default(), &with).cpu_pressure, None);
        assert_eq!(difference(&with, &with).cpu_pressure, Some(Seconds(0.0)));
        assert_eq!(difference(&with, &with).throttles, Some(0));
    }
}

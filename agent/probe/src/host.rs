//! Facts of the host, as the survey and the *where* of a result need them.

use std::fs;

use fsdyno_spec::survey::Host;
use fsdyno_spec::units::Bytes;
use rustix::thread::{CapabilitySet, CpuSet};

/// Everything at once.
#[must_use]
pub fn host() -> Host {
    let names = rustix::system::uname();
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    Host {
        name: names.nodename().to_string_lossy().into_owned(),
        kernel: kernel(),
        machine: names.machine().to_string_lossy().into_owned(),
        distribution: distribution(),
        boot: boot_id(),
        cpu: cpu_model(&cpuinfo).unwrap_or("unknown").to_string(),
        cpus: allowed_cpus().len() as u32,
        memory: memory(),
        root: is_root(),
        hypervisor: hypervisor(&cpuinfo),
    }
}

/// Kernel release, e.g. `6.1.0-18-amd64`.
#[must_use]
pub fn kernel() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// The boot's own id: things that live with the kernel lapse when it changes.
#[must_use]
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_string()
}

/// Numbers of the CPUs that this thread may run on, ascending; never empty.
#[must_use]
pub fn allowed_cpus() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None).unwrap_or_default();
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect();
    if cpus.is_empty() { vec![0] } else { cpus }
}

/// Memory of the machine.
#[must_use]
pub fn memory() -> Bytes {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = |line: &str| line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse().ok();
    Bytes::kib(text.lines().find_map(total).unwrap_or(0))
}

/// Whether this process may build stacks: user 0 **and** the capability to mount; root in a
/// container often has only the first.
#[must_use]
pub fn is_root() -> bool {
    let capable = rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN));
    rustix::process::geteuid().is_root() && capable
}

fn distribution() -> String {
    let files = ["/etc/os-release", "/usr/lib/os-release"];
    let text = files.iter().find_map(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    pretty_name(&text).unwrap_or("unknown").to_string()
}

fn pretty_name(os_release: &str) -> Option<&str> {
    os_release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .map(|name| name.trim_matches(['"', '\'']))
}

fn cpu_model(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim())
}

/// The hypervisor by its own name where it tells one, else by its maker's.
fn hypervisor(cpuinfo: &str) -> Option<String> {
    let read =
        |file: &str| fs::read_to_string(file).ok().map(|s| s.trim().to_string()).filter(|s| !s.is_empty());
    if let Some(kind) = read("/sys/hypervisor/type") {
        return Some(kind);
    }
    let flagged = cpuinfo
        .lines()
        .find(|line| line.starts_with("flags"))
        .is_some_and(|line| line.split_ascii_whitespace().any(|flag| flag == "hypervisor"));
    flagged.then(|| read("/sys/class/dmi/id/sys_vendor").unwrap_or("unknown".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_its_facts() {
        let host = host();
        assert!(host.cpus >= 1 && host.memory.0 > 1 << 20);
        assert_eq!(host.boot.len(), 36);
        assert!(!host.kernel.is_empty() && !host.machine.is_empty() && !host.name.is_empty());
        assert_eq!(host.kernel, fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim());
    }

    #[test]
    fn reads_what_the_files_say() {
        assert_eq!(
            pretty_name("ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n"),
            Some("Debian GNU/Linux 12")
        );
        assert_eq!(cpu_model("processor\t: 0\nmodel name\t: AMD EPYC\n"), Some("AMD EPYC"));
        assert_eq!(cpu_model(""), None);
    }

    #[test]
    fn a_narrowed_thread_sees_fewer_cpus() {
        let all = allowed_cpus();
        std::thread::spawn(move || {
            let mut one = CpuSet::new();
            one.set(all[0]);
            rustix::thread::sched_setaffinity(None, &one).expect("narrow to a CPU of our own");
            assert_eq!(allowed_cpus(), vec![all[0]]);
        })
        .join()
        .expect("no panic");
    }
}

//! Whether KVM really boots a kernel here. A `/dev/kvm` that opens proves nothing, so it is tried with a
//! short deadline, and the answer is kept until the host's next boot.

use std::fs;
use std::path::{Path, PathBuf};

use fsdyno_machine::{Accelerated, Kernel, Qemu, kvm};
use fsdyno_spec::machine::Accelerator;
use fsdyno_spec::outcome::Reason;

/// Whether KVM boots this kernel here, remembered until the host's next boot.
pub struct Memory {
    file: PathBuf,
    key: String,
}

impl Memory {
    /// What is remembered in a rig's state folder.
    pub fn of(state: &Path, qemu: &Qemu, kernel: &Kernel) -> Self {
        let boot = fsdyno_probe::host::host().boot;
        let key = [boot.as_str(), qemu.version.as_str(), kernel.release.as_str()].join(" / ");
        Self { file: state.join("kvm"), key }
    }

    /// Whether KVM has booted this kernel; false if that was not tried yet.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn kvm(&self) -> Result<bool, String> {
        kvm()?;
        let known = fs::read_to_string(&self.file).unwrap_or_default();
        // One line for each kernel and QEMU of this boot: what was tried, a tab, and why it failed.
        match known.lines().filter_map(|line| line.split_once('\t')).find(|(key, _)| *key == self.key) {
            Some((_, "")) => Ok(true),
            Some((_, why)) => Err(why.to_string()),
            None => Ok(false),
        }
    }

    /// What to try, in order, each with why it is not the processor itself. `used`: what this agent's
    /// guests have had so far.
    ///
    /// # Errors
    /// If what is wanted cannot be had.
    pub fn choices(
        &self,
        wanted: Accelerator,
        used: Option<Accelerated>,
    ) -> Result<Vec<(Accelerated, Option<String>)>, Reason> {
        let works = self.kvm();
        // Figures of both are never compared: what began with one goes on with it.
        if let (Accelerator::Auto, Some(used)) = (wanted, used) {
            let emulated = used == Accelerated::Tcg;
            return Ok(vec![(used, emulated.then(|| works.err().unwrap_or_else(|| "as before".into())))]);
        }
        let emulated = |why: String| (Accelerated::Tcg, Some(why));
        match (wanted, works) {
            (Accelerator::Tcg, _) => Ok(vec![emulated("the plan asks for it".into())]),
            (Accelerator::Kvm, Ok(_)) => Ok(vec![(Accelerated::Kvm, None)]),
            (Accelerator::Kvm, Err(why)) => Err(Reason::new(format!("KVM does not boot guests here: {why}"))
                .advise("leave `machine.accelerator` out, or give this host a working /dev/kvm")),
            (Accelerator::Auto, Ok(_)) => {
                Ok(vec![(Accelerated::Kvm, None), emulated("KVM did not boot this kernel".into())])
            }
            (Accelerator::Auto, Err(why)) => Ok(vec![emulated(why)]),
        }
    }

    /// Remembers how KVM did: nothing, or why it failed.
    pub fn remember(&mut self, failed: Option<&Reason>) {
        let why = failed.map_or(String::new(), |reason| reason.message.replace(['\n', '\t'], " "));
        let known = fs::read_to_string(&self.file).unwrap_or_default();
        let boot = self.key.split(" / ").next().unwrap_or_default();
        let others = known.lines().filter(|line| {
            line.starts_with(boot) && line.split_once('\t').is_some_and(|(key, _)| key != self.key)
        });
        let all: String =
            others.map(str::to_string).chain([format!("{}\t{why}", self.key)]).map(|l| l + "\n").collect();
        // Without it the next agent tries again: late, and harmless.
        let _ = fs::write(&self.file, all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_remembered_for_this_boot_qemu_and_kernel_only() {
        let folder = tempfile::tempdir().unwrap();
        let memory = |key: &str| Memory { file: folder.path().join("kvm"), key: key.into() };
        let known = |key: &str| memory(key).kvm();
        if kvm().is_err() {
            assert!(known("boot a").is_err());
            return eprintln!("SKIPPED: there is no /dev/kvm here");
        }
        assert_eq!(known("boot a"), Ok(false));
        memory("boot a").remember(Some(&Reason::new("it hung\n")));
        assert_eq!(known("boot a"), Err("it hung ".to_string()));
        assert_eq!(known("boot b"), Ok(false));
        memory("boot b").remember(None);
        assert_eq!((known("boot b"), known("boot")), (Ok(true), Ok(false)));
    }

    #[test]
    fn who_asks_for_kvm_gets_it_or_the_reason() {
        let memory = Memory { file: "/nonexistent/kvm".into(), key: "k".into() };
        let tried =
            |wanted| memory.choices(wanted, None).map(|all| all.iter().map(|c| c.0).collect::<Vec<_>>());
        assert_eq!(tried(Accelerator::Tcg).unwrap(), [Accelerated::Tcg]);
        match kvm() {
            Ok(()) => {
                assert_eq!(tried(Accelerator::Kvm).unwrap(), [Accelerated::Kvm]);
                assert_eq!(tried(Accelerator::Auto).unwrap(), [Accelerated::Kvm, Accelerated::Tcg]);
            }
            Err(_) => {
                assert!(tried(Accelerator::Kvm).is_err());
                assert_eq!(tried(Accelerator::Auto).unwrap(), [Accelerated::Tcg]);
            }
        }
        for used in [Accelerated::Kvm, Accelerated::Tcg] {
            let again = memory.choices(Accelerator::Auto, Some(used)).unwrap();
            assert_eq!(again.iter().map(|c| c.0).collect::<Vec<_>>(), [used], "no campaign has both");
        }
    }
}

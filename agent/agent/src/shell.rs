//! The commands that repeat a trial by hand: nothing buys more trust.
//!
//! Only coreutils, util-linux and the file system's own tools are used, on a loop device that the
//! person makes. The work is the same (files, sizes, names, order of steps, cold caches); the pace
//! is the shell's, so the commands show *that* it works so, not how fast fsdyno does it.

mod array;
mod load;
mod settings;
mod stack;

use fsdyno_filesystems::{CommandLine, MountPlan, quote};
use fsdyno_spec::event::Step;
use fsdyno_spec::workload::{Dataset, Workload};

/// Collects steps. `$DEV` and `$MNT` stand for the device and the mount point of the moment.
#[derive(Default)]
pub struct Script {
    steps: Vec<Step>,
    /// The array of the moment.
    array: Option<array::ArrayByHand>,
}

impl Script {
    /// Adds a step.
    pub fn add(&mut self, phase: &str, command: impl Into<String>) {
        self.steps.push(Step { phase: phase.to_string(), command: command.into() });
    }

    /// A trial without a device of its own: in memory, or in a folder.
    pub fn folder(&mut self, inside: Option<&std::path::Path>) {
        let made = match inside {
            Some(dir) => format!("MNT=$(mktemp -d -p {})", quote(&dir.to_string_lossy())),
            None => "MNT=$(mktemp -d)".to_string(),
        };
        let undo = match inside {
            Some(_) => "trap 'rm -rf \"$MNT\"' EXIT",
            None => "trap 'umount \"$MNT\" 2>/dev/null || :; rmdir \"$MNT\"' EXIT",
        };
        self.add("folder", format!("{made}\n{undo}"));
    }

    /// A tool with the trial's own arguments, `device` replaced by `$DEV`.
    pub fn tool(&mut self, phase: &str, tool: &CommandLine, device: &str) {
        let words = std::iter::once(&tool.program).chain(&tool.args);
        let line = words.map(|w| if w == device { "\"$DEV\"".to_string() } else { quote(w) });
        self.add(phase, format!("time {}", line.collect::<Vec<_>>().join(" ")));
    }

    /// A mount at `$MNT`, of `$DEV` where there is a device.
    pub fn mount(&mut self, phase: &str, plan: &MountPlan, device: &str) {
        let (source, target) = ("@DEV@", "@MNT@");
        let mut plan = plan.clone();
        if !device.is_empty() && plan.source == device {
            plan.source = source.to_string();
        }
        let line = plan.shell(target).replace(source, "\"$DEV\"").replace(target, "\"$MNT\"");
        self.add(phase, format!("time {line}"));
    }

    /// A workload, in plain shell.
    pub fn workload(&mut self, phase: &str, workload: &Workload, name: &str, set: &Dataset) {
        let command = match workload {
            Workload::Tree(tree) => load::of_tree(tree, name, set),
            Workload::Stream(stream) => load::of_stream(stream, name, set),
            Workload::Random(random) => load::of_random(random, name, set),
        };
        self.add(phase, command);
    }

    /// The steps, in order.
    pub fn into_steps(self) -> Vec<Step> {
        self.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_of_the_trial_becomes_the_readers_own() {
        let mut script = Script::default();
        let tool = CommandLine { program: "mke2fs".into(), args: vec!["-q".into(), "/dev/loop7".into()] };
        script.tool("mkfs", &tool, "/dev/loop7");
        assert_eq!(script.into_steps()[0].command, "time mke2fs -q \"$DEV\"");
    }
}

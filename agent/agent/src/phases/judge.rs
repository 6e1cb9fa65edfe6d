//! What is read back and judged when the clock has stopped.

use std::time::{Duration, Instant};

use fsdyno_probe::counters::Delta;
use fsdyno_probe::doubts::{self, Context};
use fsdyno_probe::kernel_log::Line;
use fsdyno_spec::event::ToolRun;
use fsdyno_spec::outcome::{Doubt, Flag, Outcome, Reason};
use fsdyno_spec::trial::Action;
use fsdyno_spec::workload::Workload;
use fsdyno_stack::{Failure, ToolOutput};
use serde_json::{Value, json};

use super::{Bench, Done};
use crate::facts::built;
use crate::here;
use crate::proof::{self, Seen};

/// How long the count of inodes may lag behind (XFS frees inodes in the background).
const INODES_SETTLE: Duration = Duration::from_millis(500);

/// A larger share of the threads' time taken by fsdyno itself is a doubt.
const TOOL_COST: f64 = 0.05;

/// What was seen around a phase, besides its counters.
pub struct Around {
    /// Inodes in use before it.
    pub inodes: Option<i64>,
    /// What the array did by itself before it.
    pub at_work: Option<String>,
    /// New lines of the kernel log.
    pub lines: Vec<Line>,
}

impl Bench<'_, '_> {
    /// Sends what the tools printed, outside the clock.
    pub(super) fn tell_tools(&self, phase: &str, tools: Vec<(ToolOutput, String)>) -> Vec<ToolRun> {
        let mut told = Vec::new();
        for (output, meaning) in tools {
            let version = here::version(&output.argv[0]);
            told.push(ToolRun {
                stdout: self.channel.send_artefact(&format!("{phase} stdout"), &output.stdout),
                stderr: self.channel.send_artefact(&format!("{phase} stderr"), &output.stderr),
                argv: output.argv,
                version,
                exit: output.exit,
                meaning,
                wall: output.wall,
                cpu: output.cpu,
                peak_memory: output.peak_memory,
            });
        }
        told
    }

    /// Brings the programs back that a dropped cache took along: their pages, libraries and path are
    /// not what a check, a mount by FUSE or a grow of a cold file system is to be charged for.
    pub fn warm_tools(&self) {
        let Some((row, options)) = &self.filesystem else { return };
        for (program, version) in here::programs(row, options, &self.status.here) {
            fsdyno_stack::warm(&program, version);
        }
    }

    /// What is read back and judged after the clock.
    pub(super) fn judge(&mut self, action: &Action<'_>, done: &mut Done, delta: &Delta, around: &Around) {
        if done.outcome.is_none() {
            self.read_back(action, done);
        }
        // A cold remount has done so itself, before it mounted.
        if matches!(action, Action::DropCaches(_)) {
            self.warm_tools();
        }
        let threads = match action {
            Action::Workload(workload) => threads_of(workload),
            _ => 1,
        };
        let devices = self.devices();
        let context =
            Context { devices: &devices, cpus: self.cpus, threads, kernel_log: self.kernel_log.is_some() };
        // That a member fails is what such a phase is for, and the kernel logs it as an error.
        let told = ["Disk failure on", "Operation continuing on"];
        let wanted = |line: &&Line| {
            matches!(action, Action::Fail(_)) && told.iter().any(|words| line.text.contains(words))
        };
        let lines: Vec<Line> = around.lines.iter().filter(|line| !wanted(line)).cloned().collect();
        done.flags.extend(doubts::judge(delta, &lines, &context));
        self.judge_layers(action, done, around.at_work.as_deref());
        if let Some(result) = &done.workload {
            let inodes = self.inodes_changed(around.inodes, result.claim.inodes);
            let most = delta.leaves.iter().map(|leaf| leaf.flushes).max();
            let seen = Seen {
                // Members hold copies and parity: what the workload did is seen where the file system sees it.
                leaves: done.top.as_ref().map_or(&delta.leaves, std::slice::from_ref),
                shared: !self.stack.device().is_some_and(|d| d.ours),
                cold: self.status.cold,
                inodes,
                pages_dirtied: delta.host.pages_dirtied,
                no_flushes: self.flushes_nothing(),
                below: most.filter(|_| !self.stack.layers().is_empty()),
                fsyncs: result.operations.iter().filter(|op| op.op == "fsync").map(|op| op.count).sum(),
            };
            done.flags.extend(proof::judge(&result.claim, &seen));
            if result.tool_cost.share > TOOL_COST {
                let share = result.tool_cost.share * 100.0;
                done.flags
                    .push(Flag::new(Doubt::ToolCost, format!("fsdyno itself took {share:.1} % of the time")));
            }
            self.status.cold = false;
        }
    }

    /// Whether the file system is never to send a flush.
    fn flushes_nothing(&self) -> bool {
        self.filesystem
            .as_ref()
            .is_some_and(|(row, options)| !row.flushes || options.flag("barrier") == Some(false))
    }

    /// What mkfs chose and what the kernel took, from the medium and from the kernel.
    fn read_back(&mut self, action: &Action<'_>, done: &mut Done) {
        let Some((filesystem, options)) = self.filesystem.as_ref() else { return };
        match action {
            Action::Mkfs(_) => {
                let Some(device) = self.stack.device() else { return };
                let read = std::fs::File::open(&device.path)
                    .map_err(|e| Reason::new(format!("{}: {e}", device.path.display())))
                    .and_then(|mut file| filesystem.superblock(&mut file));
                match read {
                    Ok(found) => {
                        if let Err(reason) = filesystem.verify_medium(
                            options,
                            &self.status.uuid,
                            device.size,
                            &found,
                            self.status.geometry.told(),
                        ) {
                            done.outcome = Some((Outcome::Failed, reason));
                        }
                        self.status.block_size =
                            found.facts.get("block_size").and_then(Value::as_u64).unwrap_or(0);
                        done.facts.extend(found.facts);
                        done.facts.insert("uuid".into(), json!(found.uuid));
                        let aligned = self.alignment(filesystem, &done.facts);
                        done.facts.extend(aligned);
                        self.channel.send(built("file_system", done.facts.clone()));
                    }
                    Err(reason) => done.outcome = Some((Outcome::Failed, reason)),
                }
            }
            Action::Mount(_) | Action::Remount(_) => {
                let text =
                    |key: &str| done.facts.get(key).and_then(Value::as_str).unwrap_or_default().to_string();
                let (of_super, of_mount) = (text("super_options"), text("mount_options"));
                if let Err(reason) = filesystem.verify_mount(options, &of_super, &of_mount) {
                    done.outcome = Some((Outcome::Failed, reason));
                }
                let by_device = self.stack.device().and_then(|d| filesystem.driver(&d.kernel_name));
                let driver = by_device.unwrap_or_else(|| text("fstype"));
                done.facts.insert("driver".into(), json!(driver));
                let barriers = filesystem.barriers(&of_super, &of_mount, self.stack.is_write_through());
                done.facts.insert("barriers".into(), json!(barriers.name()));
                self.channel.send(built("mount", done.facts.clone()));
            }
            Action::Grow(_) => self.stands_again(filesystem, done),
            _ => {}
        }
    }

    pub(super) fn outcome(&self, done: &mut Done) -> (Outcome, Option<Reason>) {
        if let Some(why) = self.stop.why() {
            let (outcome, reason) = why.outcome();
            return (outcome, Some(reason));
        }
        match done.outcome.take() {
            Some((Outcome::Failed, reason)) => {
                let failure = self.stack.explain(Failure { outcome: Outcome::Failed, reason });
                (failure.outcome, Some(failure.reason))
            }
            Some((outcome, reason)) => (outcome, Some(reason)),
            None => (Outcome::Ok, None),
        }
    }

    /// Inodes in use, where the file system counts them.
    pub(super) fn inodes(&self) -> Option<i64> {
        // An existing directory is shared with others; and some file systems make the figures up.
        let row = self.filesystem.as_ref().map(|(row, _)| *row)?;
        if self.spec.stack.directory.is_some() || !row.counts_inodes {
            return None;
        }
        let found = rustix::fs::statvfs(self.stack.data_root()?).ok()?;
        (found.f_files > 0).then(|| found.f_files as i64 - found.f_ffree as i64)
    }

    /// The change since `before`; waits a moment for counts that follow in the background.
    fn inodes_changed(&self, before: Option<i64>, claimed: i64) -> Option<i64> {
        let end = Instant::now() + INODES_SETTLE;
        loop {
            let change = self.inodes()? - before?;
            if change == claimed || Instant::now() > end {
                return Some(change);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn threads_of(workload: &Workload) -> u32 {
    match workload {
        Workload::Stream(w) => w.threads,
        Workload::Random(w) => w.threads,
        Workload::Tree(w) => w.threads,
    }
}

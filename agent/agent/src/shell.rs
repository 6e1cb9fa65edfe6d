//! The commands that repeat a trial by hand: nothing buys more trust.
//!
//! Only coreutils, util-linux and the file system's own tools are used, on a loop device that the
//! person makes. The work is the same (files, sizes, names, order of steps, cold caches); the pace
//! is the shell's, so the commands show *that* it works so, not how fast fsdyno does it.

use fsdyno_filesystems::{CommandLine, MountPlan, quote};
use fsdyno_spec::event::Step;
use fsdyno_spec::trial::{Settings, WriteCache};
use fsdyno_spec::units::Bytes;
use fsdyno_spec::workload::{
    Dataset, Order, Random, RandomOp, Stream, StreamOp, SyncPolicy, Tree, TreeOp, Workload,
};

/// Collects steps. `$DEV` and `$MNT` stand for the device and the mount point of the moment.
#[derive(Default)]
pub struct Script {
    steps: Vec<Step>,
}

impl Script {
    /// Adds a step.
    pub fn add(&mut self, phase: &str, command: impl Into<String>) {
        self.steps.push(Step { phase: phase.to_string(), command: command.into() });
    }

    /// A loop device like the trial's; `MNT` is a folder for the mount.
    pub fn loop_device(&mut self, size: Bytes, block: Bytes, written: bool) {
        let mib = size.0.div_ceil(1 << 20);
        let fill = if written {
            format!("dd if=/dev/zero of=\"$IMG\" bs=1M count={mib} conv=fsync status=none\n")
        } else {
            String::new()
        };
        self.add(
            "device",
            format!(
                "IMG=$(mktemp -p \"${{TMPDIR:-/var/tmp}}\" --suffix=.fsdyno-by-hand); MNT=$(mktemp -d)\n{fill}\
                 truncate -s {} \"$IMG\"\n\
                 DEV=$(losetup --find --show --direct-io=on --sector-size {} \"$IMG\")\n\
                 RESTORE=; trap 'umount \"$MNT\" 2>/dev/null || :; eval \"$RESTORE\"; losetup -d \"$DEV\"; rm -f \"$IMG\"; rmdir \"$MNT\"' EXIT",
                size.0, block.0
            ),
        );
    }

    /// A real disk, by the name that outlives a reboot; only if it is blank, and named once more.
    pub fn disk(&mut self, link: &std::path::Path) {
        let link = quote(&link.to_string_lossy());
        self.add(
            "device",
            format!(
                "DEV={link}; MNT=$(mktemp -d)\n\
                 [ \"${{FSDYNO_DESTROY:-}}\" = \"$DEV\" ] || \
                 {{ echo \"all data on $DEV is lost: set FSDYNO_DESTROY=$DEV if you mean it\" >&2; exit 6; }}\n\
                 if blkid -p \"$DEV\"; then echo \"$DEV is not blank\" >&2; exit 6; fi\n\
                 RESTORE=; trap 'umount \"$MNT\" 2>/dev/null || :; eval \"$RESTORE\"; rmdir \"$MNT\"' EXIT"
            ),
        );
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

    /// Kernel settings. A loop device keeps them when it is let go, so the script puts them back.
    pub fn settings(&mut self, phase: &str, settings: &Settings) {
        let mut lines = vec![
            "queue=/sys/class/block/$(basename \"$DEV\")/queue; ahead=$(cat $queue/read_ahead_kb)"
                .to_string(),
        ];
        let mut put = |attribute: &str, old: &str, value: &str| {
            lines.push(format!("RESTORE=\"$RESTORE echo '$({old} {attribute})' > {attribute};\""));
            lines.push(format!("echo {value} > {attribute}"));
        };
        if let Some(scheduler) = &settings.scheduler {
            put("$queue/scheduler", "sed 's/.*\\[\\(.*\\)\\].*/\\1/'", &quote(scheduler));
        }
        if let Some(mode) = settings.write_cache {
            let mode = match mode {
                WriteCache::WriteBack => "write back",
                WriteCache::WriteThrough => "write through",
            };
            put("$queue/write_cache", "cat", mode);
        }
        if let Some(bytes) = settings.read_ahead {
            lines.push(format!("echo {} > $queue/read_ahead_kb", bytes.0 / 1024));
            // A file system may have a backing-device info of its own, the newest that is named by itself.
            lines.push(format!(
                "bdi=/sys/class/bdi/$(mountpoint -qd \"$MNT\" || :); \
                 [ -e \"$bdi/read_ahead_kb\" ] || bdi=$(ls -td /sys/class/bdi/*-[0-9]* 2>/dev/null | head -n 1)\n\
                 if mountpoint -q \"$MNT\" && [ -n \"$bdi\" ]; then echo {} > \"$bdi\"/read_ahead_kb; fi",
                bytes.0 / 1024
            ));
        }
        // Last: the kernel computes it anew when another setting changes.
        lines.push("RESTORE=\"$RESTORE echo $ahead > $queue/read_ahead_kb;\"".to_string());
        self.add(phase, lines.join("\n"));
    }

    /// A workload, in plain shell.
    pub fn workload(&mut self, phase: &str, workload: &Workload, name: &str, set: &Dataset) {
        let command = match workload {
            Workload::Tree(tree) => of_tree(tree, name, set),
            Workload::Stream(stream) => of_stream(stream, name, set),
            Workload::Random(random) => of_random(random, name, set),
        };
        self.add(phase, command);
    }

    /// The steps, in order.
    pub fn into_steps(self) -> Vec<Step> {
        self.steps
    }
}

/// A shell loop over the files of a dataset: `$f` is the path, `$i` the number.
fn each_file(name: &str, set: &Dataset, order: Order, body: &str) -> String {
    let numbers = match order {
        Order::Sequential => "seq 0 ",
        Order::Random => "shuf -i 0-",
    };
    format!(
        "for i in $({numbers}{}); do f=\"$MNT\"/{}/$(printf 'd%05d/f%08d' $((i / {})) $i); {body}; done",
        set.files - 1,
        quote(name),
        set.files_per_directory
    )
}

fn make_directories(name: &str, set: &Dataset) -> String {
    let last = (set.files - 1) / set.files_per_directory;
    format!("for d in $(seq -f d%05.0f 0 {last}); do mkdir -p \"$MNT\"/{}/$d; done", quote(name))
}

fn timed(body: &str) -> String {
    format!("time {{ {body}; }}")
}

fn of_tree(tree: &Tree, name: &str, set: &Dataset) -> String {
    let threads = said_threads(tree.threads, 1);
    let body = match tree.op {
        TreeOp::Create => {
            let flush = if tree.sync == SyncPolicy::File { "; sync \"$f\"" } else { "" };
            let write = if set.size.0 == 0 {
                format!(": > \"$f\"{flush}")
            } else {
                format!("head -c {} /dev/urandom > \"$f\"{flush}", set.size.0)
            };
            format!(
                "{}; {}; sync -f \"$MNT\"",
                make_directories(name, set),
                each_file(name, set, tree.order, &write)
            )
        }
        TreeOp::Stat => each_file(name, set, tree.order, "stat \"$f\" > /dev/null"),
        TreeOp::Read => each_file(name, set, tree.order, "cat \"$f\" > /dev/null"),
        TreeOp::Delete => {
            format!(
                "{}; rm -r \"$MNT\"/{}; sync -f \"$MNT\"",
                each_file(name, set, tree.order, "rm \"$f\""),
                quote(name)
            )
        }
    };
    format!("{threads}{}", timed(&body))
}

fn of_stream(stream: &Stream, name: &str, set: &Dataset) -> String {
    let record = stream.record.0;
    let body = match stream.op {
        StreamOp::Write | StreamOp::Rewrite => {
            let direct = if stream.direct { " oflag=direct" } else { "" };
            let keep = if stream.op == StreamOp::Rewrite { ",notrunc" } else { "" };
            let write = format!(
                "dd if=/dev/urandom of=\"$f\" bs={record} count={} iflag=fullblock,count_bytes{direct} conv=fsync{keep} status=none",
                set.size.0
            );
            let dirs = make_directories(name, set);
            format!("{dirs}; {}; sync -f \"$MNT\"", each_file(name, set, Order::Sequential, &write))
        }
        StreamOp::Read => {
            let direct = if stream.direct { " iflag=direct" } else { "" };
            each_file(
                name,
                set,
                Order::Sequential,
                &format!("dd if=\"$f\" of=/dev/null bs={record}{direct} status=none"),
            )
        }
    };
    format!("{}{}", said_threads(stream.threads, 1), timed(&body))
}

fn of_random(random: &Random, name: &str, set: &Dataset) -> String {
    let record = random.record.0;
    let records = set.size.0 / record;
    let operations = match (random.operations, random.runtime) {
        (Some(n), _) => format!("{n}"),
        (None, _) => "1000".to_string(), // for a time: as many as show the pattern
    };
    let (flag_in, flag_out) = if random.direct { (" iflag=direct", " oflag=direct") } else { ("", "") };
    let read = format!("dd if=\"$f\" of=/dev/null bs={record} count=1 skip=$k{flag_in} status=none");
    let write = format!(
        "dd if=/dev/urandom of=\"$f\" bs={record} count=1 seek=$k conv=notrunc{flag_out} status=none"
    );
    let one = match random.op {
        RandomOp::Read => read,
        RandomOp::Write => write,
        RandomOp::Mix => {
            format!("if [ $((RANDOM % 100)) -lt {} ]; then {read}; else {write}; fi", random.read_percent)
        }
    };
    let pick = format!(
        "i=$((n % {})); f=\"$MNT\"/{}/$(printf 'd%05d/f%08d' $((i / {})) $i); k=$((n / {} % {records}))",
        set.files,
        quote(name),
        set.files_per_directory,
        set.files
    );
    let all = records * set.files;
    let loops = format!("for n in $(shuf -r -n {operations} -i 0-{}); do {pick}; {one}; done", all - 1);
    let end = if random.op == RandomOp::Read { "" } else { "; sync -f \"$MNT\"" };
    format!("{}{}", said_threads(random.threads, random.depth), timed(&format!("{loops}{end}")))
}

fn said_threads(threads: u32, depth: u32) -> String {
    if threads > 1 || depth > 1 {
        format!("# the trial had {threads} threads, {depth} operations each in flight; by hand it is one\n")
    } else {
        String::new()
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

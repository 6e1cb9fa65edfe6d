//! Kernel settings by hand, each at its layer, and how they come back.

use fsdyno_filesystems::quote;
use fsdyno_spec::trial::{Settings, WriteCache};
use fsdyno_spec::units::Bytes;

use super::Script;

impl Script {
    /// Kernel settings. A loop device keeps them when it is let go, and the dirty limits are the host's, so
    /// the script puts them back.
    pub fn settings(&mut self, phase: &str, settings: &Settings) {
        let queue = "/sys/class/block/$(basename \"$(readlink -f \"$DEV\")\")/queue";
        let mut lines = vec![format!("queue={queue}; ahead=$(cat $queue/read_ahead_kb); back=")];
        let mut of_leaves = Vec::new();
        if let Some(scheduler) = &settings.scheduler {
            of_leaves.push(put("$q/scheduler", "sed 's/.*\\[\\(.*\\)\\].*/\\1/'", &quote(scheduler)));
        }
        if let Some(requests) = settings.nr_requests {
            of_leaves.push(put("$q/nr_requests", "cat", &requests.to_string()));
        }
        if !of_leaves.is_empty() {
            let queue = "q=/sys/class/block/$(basename \"$(readlink -f \"$d\")\")/queue";
            // A scheduler changes the number of requests, so both are read before either is set.
            let (read, set): (Vec<_>, Vec<_>) = of_leaves.into_iter().unzip();
            let both = [read, set].concat().join("\n");
            lines.push(format!("for d in $DEVS; do {queue}\n{both}\ndone"));
        }
        if let Some(mode) = settings.write_cache {
            let mode = match mode {
                WriteCache::WriteBack => "write back",
                WriteCache::WriteThrough => "write through",
            };
            lines.extend(<[String; 2]>::from(put("$queue/write_cache", "cat", mode)));
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
        lines.push("back=\"$back echo $ahead > $queue/read_ahead_kb;\"".to_string());
        lines.extend(settings.dirty_bytes.map(|bytes| dirty("dirty", bytes)));
        lines.extend(settings.dirty_background_bytes.map(|bytes| dirty("dirty_background", bytes)));
        // What was set last goes back first.
        lines.push("RESTORE=\"$back $RESTORE\"".to_string());
        self.add(phase, lines.join("\n"));
    }
}

/// Remembers what `old` reads of an attribute, and sets it.
fn put(attribute: &str, old: &str, value: &str) -> (String, String) {
    (
        format!("back=\"$back echo '$({old} {attribute})' > {attribute};\""),
        format!("echo {value} > {attribute}"),
    )
}

/// Sets one of the host's limits; if it was a ratio, that comes back.
fn dirty(limit: &str, bytes: Bytes) -> String {
    format!(
        "vm=/proc/sys/vm/{limit}; was=bytes; [ \"$(cat ${{vm}}_bytes)\" != 0 ] || was=ratio\n\
         back=\"$back echo $(cat ${{vm}}_$was) > ${{vm}}_$was;\"\n\
         echo {} > ${{vm}}_bytes",
        bytes.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_limits_come_back_as_they_were_and_the_steps_are_shell() {
        let mut script = Script::default();
        script.settings(
            "settings",
            &Settings {
                read_ahead: Some(Bytes::kib(256)),
                scheduler: Some("mq-deadline".into()),
                write_cache: Some(WriteCache::WriteThrough),
                nr_requests: Some(64),
                dirty_bytes: Some(Bytes::mib(64)),
                dirty_background_bytes: Some(Bytes::mib(32)),
            },
        );
        let text = script.into_steps().remove(0).command;
        let shell = |args: &[&str]| std::process::Command::new("sh").args(args).output().expect("a shell");
        let checked = shell(&["-n", "-c", &text]);
        assert!(checked.status.success(), "{}\n{text}", String::from_utf8_lossy(&checked.stderr));
        // The two lines that remember, on a host whose limits are ratios and on one whose limits are bytes.
        for (bytes, kept) in [("0", "ratio"), ("7", "bytes")] {
            let folder = tempfile::tempdir().expect("a folder");
            let vm = folder.path().join("dirty");
            let file = |end: &str| format!("{}_{end}", vm.display());
            std::fs::write(file("bytes"), bytes).expect("a file");
            std::fs::write(file("ratio"), "20").expect("a file");
            let lines = dirty("dirty", Bytes(9)).replace("/proc/sys/vm/dirty", &vm.to_string_lossy());
            let out = shell(&["-c", &format!("{lines}\necho $back")]);
            let old = if kept == "ratio" { "20" } else { "7" };
            let said = String::from_utf8_lossy(&out.stdout).trim().to_string();
            assert_eq!(said, format!("echo {old} > {};", file(kept)));
            assert_eq!(std::fs::read_to_string(file("bytes")).expect("a file").trim(), "9");
        }
    }
}

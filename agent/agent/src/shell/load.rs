//! Workloads in plain shell: the same files, sizes, names and order of steps, at the pace of a shell.

use fsdyno_filesystems::quote;
use fsdyno_spec::workload::{Dataset, Order, Random, RandomOp, Stream, StreamOp, SyncPolicy, Tree, TreeOp};

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

/// A tree of files.
pub fn of_tree(tree: &Tree, name: &str, set: &Dataset) -> String {
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

/// Whole files, one after the other.
pub fn of_stream(stream: &Stream, name: &str, set: &Dataset) -> String {
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

/// Records here and there.
pub fn of_random(random: &Random, name: &str, set: &Dataset) -> String {
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

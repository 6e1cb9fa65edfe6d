//! What can be asked for, told before anything is touched.

use fsdyno_spec::outcome::Reason;
use fsdyno_spec::units::Bytes;
use fsdyno_spec::workload::{Dataset, Random, Stream, Tree, Workload};

use crate::names::{Layout, MOST_DIRECTORIES, MOST_FILES};

/// Direct I/O is in units of this at least.
const SECTOR: u64 = 512;

/// Largest record: what fits several times into the memory of a small guest.
const LARGEST_RECORD: u64 = 1 << 30;

/// Whether a workload can run on a dataset.
///
/// # Errors
/// What cannot be, and what to write instead.
pub fn validate(workload: &Workload, dataset: &Dataset) -> Result<(), Reason> {
    of_dataset(dataset)?;
    match workload {
        Workload::Stream(stream) => of_stream(stream, dataset),
        Workload::Random(random) => of_random(random, dataset),
        Workload::Tree(tree) => of_tree(tree, dataset),
    }
}

fn refuse(
    when: bool,
    message: impl FnOnce() -> String,
    advice: impl FnOnce() -> String,
) -> Result<(), Reason> {
    if when { Err(Reason::new(message()).advise(advice())) } else { Ok(()) }
}

fn of_dataset(dataset: &Dataset) -> Result<(), Reason> {
    let Dataset { files, size, files_per_directory } = dataset;
    refuse(*files == 0, || "a dataset has no files".into(), || "set `files` to 1 at least".into())?;
    refuse(
        *files_per_directory == 0,
        || "a dataset has no files in a directory".into(),
        || "set `files_per_directory` to 1 at least".into(),
    )?;
    refuse(
        *files > MOST_FILES,
        || format!("a dataset has {files} files, and names are made for {MOST_FILES}"),
        || "use several datasets".into(),
    )?;
    let directories = Layout::of(dataset).directories;
    refuse(
        directories > MOST_DIRECTORIES,
        || format!("a dataset has {directories} directories, and names are made for {MOST_DIRECTORIES}"),
        || format!("set `files_per_directory` to {} at least", files.div_ceil(MOST_DIRECTORIES)),
    )?;
    let whole = files.checked_mul(size.0).filter(|bytes| *bytes <= i64::MAX as u64);
    refuse(
        whole.is_none(),
        || format!("a dataset of {files} files of {size} is larger than any device"),
        || "use fewer or smaller files".into(),
    )
}

fn of_threads(threads: u32, parts: u64, what: &str, advice: impl FnOnce() -> String) -> Result<(), Reason> {
    refuse(threads == 0, || "no threads to work".into(), || "set `threads` to 1 at least".into())?;
    refuse(
        u64::from(threads) > parts,
        || format!("{threads} threads are more than the dataset's {parts} {what}, and some would do nothing"),
        advice,
    )
}

fn of_record(record: Bytes, dataset: &Dataset, direct: bool) -> Result<(), Reason> {
    refuse(
        record.0 == 0 || record.0 > LARGEST_RECORD,
        || format!("a record of {record}"),
        || format!("set `record` to something from 1 byte to {}", Bytes(LARGEST_RECORD)),
    )?;
    refuse(
        dataset.size.0 == 0,
        || "the files of this dataset are empty, so there is nothing to read or write".into(),
        || "set the dataset's `size`, or use a `tree` workload".into(),
    )?;
    refuse(
        direct && (!record.0.is_multiple_of(SECTOR) || !dataset.size.0.is_multiple_of(SECTOR)),
        || format!("direct I/O with records of {record} on files of {}", dataset.size),
        || format!("use multiples of {SECTOR} bytes for both, or direct = false"),
    )
}

fn of_stream(stream: &Stream, dataset: &Dataset) -> Result<(), Reason> {
    of_record(stream.record, dataset, stream.direct)?;
    of_threads(stream.threads, dataset.files, "files", || {
        format!("use {} threads at most, or more files", dataset.files)
    })
}

fn of_random(random: &Random, dataset: &Dataset) -> Result<(), Reason> {
    of_record(random.record, dataset, random.direct)?;
    refuse(
        random.record > dataset.size,
        || format!("a record of {} does not fit into files of {}", random.record, dataset.size),
        || "use a smaller record or larger files".into(),
    )?;
    of_threads(random.threads, u64::MAX, "files", String::new)?;
    refuse(
        random.depth == 0 || random.depth > 4096,
        || format!("a depth of {}", random.depth),
        || "set `depth` to something from 1 to 4096".into(),
    )?;
    refuse(
        random.operations.is_some() == random.runtime.is_some(),
        || "a random load ends after a number of operations or after a time".into(),
        || "give `operations` or `runtime`, one of them".into(),
    )?;
    refuse(
        random.operations.is_some_and(|n| n < u64::from(random.threads)),
        || {
            format!(
                "{} operations are not one for each of {} threads",
                random.operations.unwrap_or(0),
                random.threads
            )
        },
        || "use fewer threads or more operations".into(),
    )?;
    refuse(
        random.runtime.is_some_and(|t| t.0.is_nan() || t.0 <= 0.0),
        || "a runtime of no time".into(),
        || "set `runtime` to some seconds".into(),
    )?;
    refuse(
        random.read_percent > 100,
        || format!("{} % reads", random.read_percent),
        || "set `read_percent` to something from 0 to 100".into(),
    )
}

fn of_tree(tree: &Tree, dataset: &Dataset) -> Result<(), Reason> {
    of_threads(tree.threads, Layout::of(dataset).directories, "directories", || {
        let most = dataset.files / u64::from(tree.threads).max(1);
        format!("use fewer threads, or set `files_per_directory` to {} at most", most.max(1))
    })
}

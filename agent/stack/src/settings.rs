//! Kernel settings of a queue and of a file system's read-ahead: set, read back, and proved by
//! what they change. A setting that the kernel did not take is an error that says what it took.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsdyno_spec::trial::WriteCache;
use fsdyno_spec::units::Bytes;
use rustix::fs::{major, minor};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::sysfs::{self, BlockDevice};

/// Facts by name.
pub type Facts = BTreeMap<String, Value>;

/// What a loop device's queue is put to before each trial: the kernel's own defaults of a fresh
/// one, except that discards end at it. The order matters: a scheduler brings its own depth, and
/// the kernel computes read-ahead anew whenever a limit of the queue changes.
pub const LOOP_DEFAULTS: [(&str, &str); 9] = [
    ("scheduler", "none"),
    ("nr_requests", "128"),
    ("nomerges", "0"),
    ("rq_affinity", "1"),
    ("add_random", "0"),
    ("iostats", "1"),
    ("write_cache", "write back"),
    // A discard would punch the backing file: its blocks would be allocated anew within the trial.
    // The driver then refuses to zero by punching, too.
    ("discard_max_bytes", "0"),
    ("read_ahead_kb", "128"),
];

/// What a real disk's queue must have whatever the host set: without them counters lie.
pub const DISK_NEEDS: [(&str, &str); 2] = [("iostats", "1"), ("nomerges", "0")];

/// What of a real disk's queue a trial may change, and the next one must find as the first did.
pub const DISK_KEEPS: [&str; 6] =
    ["scheduler", "nr_requests", "nomerges", "iostats", "write_cache", "read_ahead_kb"];

/// What of any device between the leaves and the file system must be so: its counters count, and
/// requests are merged.
pub const LAYER_NEEDS: [(&str, &str); 2] = [("iostats", "1"), ("nomerges", "0")];

/// What is looked at again before each phase.
const STANDING: [&str; 5] = ["scheduler", "nr_requests", "nomerges", "iostats", "write_cache"];

/// How often flushes are counted before they count as proved wrong, and how far apart.
const FLUSH_TRIES: u32 = 8;
const FLUSH_PAUSE: Duration = Duration::from_millis(50);

/// Value of an attribute; of a choice in brackets, the chosen one.
///
/// # Errors
/// Of sysfs.
pub fn get(disk: &str, attribute: &str) -> io::Result<String> {
    let text = sysfs::text(&sysfs::queue(disk).join(attribute))?;
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(chosen, _)| chosen);
    Ok(chosen.unwrap_or(&text).to_string())
}

/// Sets an attribute and reads it back.
///
/// # Errors
/// If the kernel refuses, or takes something else.
pub fn put(disk: &str, attribute: &str, value: &str) -> Result<(), Failure> {
    let path = sysfs::queue(disk).join(attribute);
    let shown = format!("{attribute} of {disk}");
    let problem = match fs::write(&path, value) {
        Ok(()) => match get(disk, attribute) {
            Ok(taken) if taken == value => return Ok(()),
            Ok(taken) => format!("the kernel took `{taken}` for {shown} instead of `{value}`"),
            Err(error) => format!("{shown} cannot be read back: {error}"),
        },
        Err(error) => format!("the kernel refuses `{value}` for {shown}: {error}"),
    };
    let choices = sysfs::text(&path).unwrap_or_default();
    let advice = match attribute {
        "scheduler" => format!("choose one of: {}", choices.replace(['[', ']'], "")),
        "write_cache" => "a device without a volatile cache is always `write through`".to_string(),
        "nr_requests" => {
            let scheduler = get(disk, "scheduler").unwrap_or_default();
            format!(
                "it has {choices} now; with the scheduler `{scheduler}` its queue holds no other number: \
                     give fewer, or choose another scheduler"
            )
        }
        _ => format!("this kernel has `{choices}` there"),
    };
    Err(Failure::failed(problem, advice))
}

/// Sets what differs, and sees in the end that no later one undid an earlier one; attributes that
/// this kernel's queue does not have are left out.
///
/// # Errors
/// As [`put`].
pub fn assert_all(disk: &str, wanted: &[(&str, &str)]) -> Result<(), Failure> {
    for (attribute, value) in wanted {
        match get(disk, attribute) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(found) if found == *value => {}
            _ => put(disk, attribute, value)?,
        }
    }
    for (attribute, value) in wanted {
        if let Some(found) = get(disk, attribute).ok().filter(|found| found != value) {
            let message = format!("{attribute} of {disk} is `{found}` again instead of `{value}`");
            return Err(Failure::failed(message, "this kernel couples it with another setting; report it"));
        }
    }
    Ok(())
}

/// All readable attributes of a queue that matter to a measurement.
#[must_use]
pub fn queue_facts(disk: &str) -> Facts {
    let names = LOOP_DEFAULTS.iter().map(|(name, _)| *name);
    let more = ["rotational", "physical_block_size", "max_sectors_kb", "wbt_lat_usec", "fua"];
    names.chain(more).filter_map(|name| Some((name.to_string(), json!(get(disk, name).ok()?)))).collect()
}

/// Flushes that one `fsync` of a raw device sends to the leaves below it (kernel names of whole disks;
/// arrays and volumes count none themselves). It writes nothing. None where flushes are not counted.
///
/// # Errors
/// Of the device.
pub fn flushes_per_fsync(device: &BlockDevice, leaves: &[String]) -> io::Result<Option<u64>> {
    let count = || leaves.iter().map(|leaf| sysfs::flushes(leaf)).sum::<io::Result<u64>>();
    let Ok(before) = count() else { return Ok(None) };
    File::open(&device.path)?.sync_all()?;
    Ok(Some(count()?.saturating_sub(before)))
}

/// Puts the cache mode of the device that a file system sees, and proves it at the leaves: with `write
/// back` an `fsync` sends at least one flush, with `write through` none. An array now and then flushes
/// its members by itself, so a count that should be 0 is taken again.
///
/// # Errors
/// If the kernel does not take it, or its effect is not seen.
pub fn write_cache(device: &BlockDevice, leaves: &[String], mode: WriteCache) -> Result<Facts, Failure> {
    let flushes = mode == WriteCache::WriteBack;
    put(&device.disk(), "write_cache", mode_name(mode))?;
    let mut seen = None;
    for _ in 0..FLUSH_TRIES {
        let count = flushes_per_fsync(device, leaves);
        seen = count.map_err(|e| Failure::io("cannot flush", &device.path, &e))?;
        if seen.is_none_or(|count| (count > 0) == flushes) {
            return Ok(Facts::from([
                ("write_cache".to_string(), json!(mode_name(mode))),
                ("flushes_per_fsync".to_string(), json!(seen)),
            ]));
        }
        std::thread::sleep(FLUSH_PAUSE);
    }
    let (name, count) = (&device.kernel_name, seen.unwrap_or_default());
    let message = format!(
        "{name} is `{}`, but an fsync sent {count} flushes to {}",
        mode_name(mode),
        leaves.join(", ")
    );
    Err(Failure::failed(message, "leave `write_cache` out for this device"))
}

/// As the kernel spells it.
#[must_use]
pub fn mode_name(mode: WriteCache) -> &'static str {
    match mode {
        WriteCache::WriteBack => "write back",
        WriteCache::WriteThrough => "write through",
    }
}

/// Names of all backing-device infos.
#[must_use]
pub fn all_bdi() -> BTreeSet<String> {
    sysfs::names_in(Path::new("/sys/class/bdi")).into_iter().collect()
}

/// The read-ahead attribute of the file system just mounted at `path`: that of its own
/// backing-device info. Most share the block device's; one that has its own registers it, named by
/// its type and a running number, while it is mounted, so it is the one that was not there `before`.
/// None for file systems in memory.
#[must_use]
pub fn read_ahead_of(path: &Path, fstype: &str, before: &BTreeSet<String>) -> Option<PathBuf> {
    let dev = fs::metadata(path).ok()?.dev();
    let by = |name: &str| Path::new("/sys/class/bdi").join(name).join("read_ahead_kb");
    let shared = by(&format!("{}:{}", major(dev), minor(dev)));
    if shared.exists() {
        return Some(shared);
    }
    let prefix = format!("{fstype}-");
    let mut own = all_bdi().into_iter().filter(|name| name.starts_with(&prefix) && !before.contains(name));
    match (own.next(), own.next()) {
        (Some(name), None) => Some(by(&name)),
        _ => None,
    }
}

/// Sets a read-ahead attribute and reads it back.
///
/// # Errors
/// If the kernel does not take it.
pub fn read_ahead(attribute: &Path, wanted: Bytes) -> Result<Facts, Failure> {
    let advice = "give read-ahead as a multiple of 4 KiB";
    let failed = |error: io::Error| Failure::failed(format!("read-ahead of {wanted}: {error}"), advice);
    fs::write(attribute, (wanted.0 / 1024).to_string()).map_err(failed)?;
    let taken = sysfs::number(attribute).map_err(failed)? * 1024;
    if taken != wanted.0 {
        let message = format!("the kernel took a read-ahead of {} instead of {wanted}", Bytes(taken));
        return Err(Failure::failed(message, advice));
    }
    Ok(Facts::from([
        ("read_ahead".to_string(), json!(taken)),
        ("read_ahead_layer".to_string(), json!(attribute.to_string_lossy())),
    ]))
}

/// Puts scheduler and number of requests of a leaf's queue, in this order: a scheduler brings its own
/// number.
///
/// # Errors
/// If the kernel does not take one.
pub fn apply_queue(leaf: &str, scheduler: Option<&str>, requests: Option<u32>) -> Result<(), Failure> {
    if let Some(scheduler) = scheduler {
        put(leaf, "scheduler", scheduler)?;
    }
    if let Some(requests) = requests {
        put(leaf, "nr_requests", &requests.to_string())?;
    }
    Ok(())
}

/// What of the queues may not change behind a trial's back, as it is now: kernel name, attribute, value.
#[must_use]
pub fn standing(devices: &[String]) -> Vec<(String, &'static str, String)> {
    let of = |device: &String| {
        let value = |name: &&'static str| Some((device.clone(), *name, get(device, name).ok()?));
        STANDING.iter().filter_map(value).collect::<Vec<_>>()
    };
    devices.iter().flat_map(of).collect()
}

//! The answer of `align`: what follows from the geometry of an array for everything that is put on it.
//! All numbers come from one [`Geometry`], which trials and records use as well.

mod live;
mod steps;

use std::path::PathBuf;

use clap::Args;
use fsdyno_filesystems::{Asked, Geometry, Layout, TABLE};
use fsdyno_spec::align::{ADVICE, Advice, KnownArray, Numbers};
use fsdyno_spec::array::Level;
use fsdyno_spec::outcome::Reason;
use fsdyno_spec::units::Bytes;

use steps::Place;

/// The array, described by hand or found.
#[derive(Args, Debug)]
#[group(id = "array")]
pub struct Options {
    /// RAID level: 0, 1, 5, 6 or 10.
    #[arg(long, required_unless_present = "device", conflicts_with = "device", requires = "members")]
    level: Option<u64>,
    /// Members, without spares.
    #[arg(long, conflicts_with = "device")]
    members: Option<u64>,
    /// Bytes on one member before the next one's turn.
    #[arg(long, value_name = "BYTES", conflicts_with = "device")]
    chunk: Option<u64>,
    /// Where copies or parity go: `near2`, `left-symmetric`, …
    #[arg(long, conflicts_with = "device")]
    layout: Option<String>,
    /// A live array, or a partition or volume on one.
    #[arg(long)]
    device: Option<PathBuf>,
    /// File-system block, bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 4096)]
    block: u64,
}

/// Members that an array may have, as the geometry that a plan declares.
const MOST_MEMBERS: u64 = 1024;

/// Blocks that file systems have.
const BLOCKS: std::ops::RangeInclusive<u64> = 1 << 10..=64 << 10;

/// An array, and what is put on it where.
struct Found {
    array: KnownArray,
    /// None if nothing is striped.
    geometry: Option<Geometry>,
    place: Place,
    /// Who uses the device, in words.
    users: Vec<String>,
    notes: Vec<String>,
}

/// What to do about an array.
///
/// # Errors
/// What no such array can be, or that there is none; with what to do instead.
pub fn align(options: &Options) -> Result<Advice, Reason> {
    let found = match &options.device {
        Some(device) => live::found(device)?,
        None => by_hand(options)?,
    };
    advice(found, options.block)
}

fn advice(found: Found, block: u64) -> Result<Advice, Reason> {
    let Found { array, geometry, mut place, users, mut notes } = found;
    let geometry = geometry.as_ref();
    let numbers = numbers(geometry, block)?;
    notes.extend(place.without_volumes(geometry));
    let mut steps = steps::below(&place, geometry);
    notes.extend(raid10(&array, geometry));
    for row in TABLE {
        let Some(advise) = row.advise else { continue };
        let asked =
            Asked { geometry, block_size: block, device: &place.node, size: place.size, point: "/mnt" };
        match advise(&asked) {
            Ok(hints) => {
                steps.extend(hints.steps);
                notes.extend(hints.notes);
            }
            Err(Reason { message, advice }) => {
                let advice = advice.map_or(String::new(), |advice| format!("; {advice}"));
                notes.push(format!("no advice for {}: {message}{advice}", row.name));
            }
        }
    }
    steps.extend(steps::read_ahead(&place, geometry));
    steps.sort_by_key(|step| ORDER.iter().position(|kind| *kind == step.kind));
    notes.extend(steps::names(&place));
    let warnings = warnings(&place, &users);
    Ok(Advice { fsdyno_align: ADVICE, array, numbers, warnings, steps, notes })
}

/// What the commands cost whoever types them, the worst first.
fn warnings(place: &Place, users: &[String]) -> Vec<String> {
    let lost = "these commands make everything anew: what is on the device is lost";
    let used = (!users.is_empty()).then(|| format!("{} is in use: {}", place.node, users.join("; ")));
    used.into_iter().chain([lost.to_string()]).collect()
}

/// Kinds of steps in the order of doing them: a file system with a read-ahead of its own has it when mounted.
const ORDER: [&str; 7] = ["partition", "pvcreate", "vgcreate", "lvcreate", "mkfs", "mount", "read_ahead"];

/// An array as somebody describes it.
fn by_hand(options: &Options) -> Result<Found, Reason> {
    let (Some(level), Some(members)) = (options.level, options.members) else {
        return Err(Reason::new("neither an array is described nor a device named")
            .advise("give --level and --members, or --device"));
    };
    let level = known_level(level)?;
    let Some(members) = u32::try_from(members).ok().filter(|_| members <= MOST_MEMBERS) else {
        return Err(Reason::new(format!(
            "an array of {members} members is none: {MOST_MEMBERS} are the most"
        ))
        .advise("--members counts the disks of one array, without spares"));
    };
    let layout = options.layout.as_deref();
    let geometry = Geometry::of(level, members, options.chunk.map(Bytes), layout)?;
    let mut notes = Vec::new();
    if geometry.is_none() && options.chunk.is_some() {
        notes.push("the chunk means nothing here: nothing is striped".to_string());
    }
    let array = KnownArray {
        device: None,
        level,
        members,
        chunk: geometry.map(|geometry| geometry.chunk),
        layout: Layout::of(level, layout)?.map(Layout::name),
    };
    Ok(Found { array, geometry, place: Place::by_hand(), users: Vec::new(), notes })
}

fn known_level(number: u64) -> Result<Level, Reason> {
    let level = u8::try_from(number).ok().and_then(|number| Level::try_from(number).ok());
    level.ok_or_else(|| {
        let advice = match number {
            4 => "RAID 4 is laid out as RAID 5 for what lies on it: take --level 5",
            50 | 60 => {
                "a stripe over arrays: describe one of the arrays, or take what its vendor calls full stripe"
            }
            _ => "levels 0, 1, 5, 6 and 10 have advice",
        };
        Reason::new(format!("RAID {number} has no advice here")).advise(advice)
    })
}

/// All numbers that tools take; none where nothing is striped.
fn numbers(geometry: Option<&Geometry>, block: u64) -> Result<Option<Numbers>, Reason> {
    if !block.is_power_of_two() || !BLOCKS.contains(&block) {
        return Err(Reason::new(format!("no file system has blocks of {block} bytes"))
            .advise("a block is a power of two from 1 KiB to 64 KiB; 4 KiB is usual"));
    }
    let Some(geometry) = geometry else { return Ok(None) };
    if block > geometry.chunk.0 {
        return Err(Reason::new(format!(
            "a block of {} is larger than the chunk of {}",
            Bytes(block),
            geometry.chunk
        ))
        .advise("make --block smaller, or the array with a larger chunk"));
    }
    Ok(Some(Numbers {
        block_size: Bytes(block),
        data_disks: geometry.data_disks,
        stripe: geometry.stripe(),
        stride: geometry.stride(block)?,
        stripe_width: geometry.stripe_width(block)?,
        su: geometry.chunk,
        sw: geometry.data_disks,
        sunit: geometry.sunit(),
        swidth: geometry.swidth(),
        data_alignment: geometry.data_alignment(),
        extent: geometry.extent(),
        read_ahead: geometry.read_ahead(),
        minimum_io_size: geometry.chunk,
        optimal_io_size: geometry.stripe(),
    }))
}

/// Where the stripe of RAID 10 is not what people work out, why.
fn raid10(array: &KnownArray, geometry: Option<&Geometry>) -> Option<String> {
    let geometry = geometry.filter(|_| array.level == Level::Raid10)?;
    let layout = array.layout.as_deref()?;
    (geometry.data_disks == array.members && geometry.data_disks > 1).then(|| {
        format!(
            "RAID 10 with {layout} on {} members: Linux announces all members as one stripe (only near copies that \
             divide the members make it shorter)",
            array.members
        )
    })
}

#[cfg(test)]
#[path = "align_tests.rs"]
mod tests;

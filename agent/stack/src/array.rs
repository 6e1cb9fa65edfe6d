//! An md array over the leaves: made with everything stated, known by a UUID of our own, read back from
//! sysfs, changed by phases, and stopped with its members' superblocks wiped.

mod change;
pub mod plan;
pub mod state;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fsdyno_filesystems::{CommandLine, Geometry};
use fsdyno_spec::array::{Array, Bitmap, ResyncPolicy};
use fsdyno_spec::outcome::Outcome;
use serde_json::json;

use crate::array::plan::Plan;
use crate::array::state::State;
use crate::failure::Failure;
use crate::identity::uuid;
use crate::layer::{Change, Changed, Context, Layer};
use crate::ledger::Entry;
use crate::patience;
use crate::settings::Facts;
use crate::sysfs::{self, BlockDevice};
use crate::tool::{self, ToolOutput};

/// Numbers that arrays of ours get: the kernel and other tools count down from 127, mdadm ends at 511.
const NUMBERS: std::ops::RangeInclusive<u32> = 256..=511;

/// How long the kernel may take to do what it does at once: make a node, let a member go, begin.
const SOON: Duration = Duration::from_secs(10);

/// Between two looks at an array that rebuilds.
const LOOK: Duration = Duration::from_millis(20);

/// Speed that a rebuild is allowed while it is waited for, KiB/s a member: more than any disk has, so
/// that the disks and not the kernel's politeness decide.
const SPEED: &str = "10000000";

/// An array that stands.
#[derive(Debug)]
pub struct MdArray {
    device: BlockDevice,
    state: State,
    uuid: String,
    plan: Plan,
    /// All leaves in slot order, spares too.
    leaves: Vec<BlockDevice>,
    /// What was run to make it, and what it took.
    made: Facts,
}

impl MdArray {
    /// Makes an array over `leaves`, and waits for parity and copies where the plan says so.
    ///
    /// # Errors
    /// What cannot be, what mdadm or the kernel said, or what became different from what was asked;
    /// nothing of it stands then.
    pub fn build(
        context: &mut Context<'_>,
        spec: &Array,
        leaves: &[BlockDevice],
    ) -> Result<Box<dyn Layer>, Failure> {
        let plan = Plan::of(spec, leaves.len()).map_err(said)?;
        let fail = |error| Failure::failed(format!("cannot name an array: {error}"), "see the kernel log");
        let uuid = uuid().map_err(fail)?;
        let name = free_name().map_err(fail)?;
        let path = PathBuf::from("/dev").join(&name);
        let mut array = Self {
            device: BlockDevice { path, kernel_name: name.clone(), ..leaves[0].clone() },
            state: State { name },
            uuid,
            plan,
            leaves: leaves.to_vec(),
            made: Facts::new(),
        };
        // Spares too: a later phase takes them in.
        for leaf in leaves {
            context.own(leaf, &array.uuid)?;
        }
        context.record(&Entry::Array { uuid: array.uuid.clone() })?;
        match array.make(context) {
            Ok(()) => Ok(Box::new(array)),
            Err(failure) => {
                // Also when somebody asked to stop: what was made is undone.
                let going = AtomicBool::new(false);
                let undone = array.take_down(&mut context.unstopped(&going));
                Err(match undone {
                    Ok(()) => failure,
                    Err(undoing) => undoing.after(&failure),
                })
            }
        }
    }

    fn make(&mut self, context: &mut Context<'_>) -> Result<(), Failure> {
        (context.progress)("making the array", 0.0);
        let begin = Instant::now();
        let devices: Vec<String> = self.leaves.iter().map(path).collect();
        let devices: Vec<&str> = devices.iter().map(String::as_str).collect();
        let name = format!("fsdyno-{}", context.nonce);
        let command = self.plan.create(&self.node(), &name, &self.uuid, &devices);
        let made = mdadm(context, &command)?;
        self.made.insert("command".into(), json!(made.argv.join(" ")));
        self.look()?;
        if self.state.uuid().as_ref() != Some(&self.uuid) {
            return Err(Failure::failed(
                format!("{} is another array than the one asked for", self.node()),
                "somebody took its number in this moment: try again",
            ));
        }
        self.verify()?;
        self.made.insert("create_seconds".into(), json!(begin.elapsed().as_secs_f64()));
        if self.plan.resync == ResyncPolicy::Wait {
            let took = self.wait(context, "building the array's parity or copies")?;
            self.made.insert("resync_seconds".into(), json!(took.as_secs_f64()));
        }
        match self.state.at_work() {
            None => Ok(()),
            Some(action) => Err(Failure::failed(
                format!("the new array is at work ({action}) in spite of `assume_clean`"),
                "use `resync = \"wait\"`",
            )),
        }
    }

    fn node(&self) -> String {
        path(&self.device)
    }

    /// Whether what stands under our number is ours: by its UUID, or, while it never ran and nothing tells
    /// one, by having no members but our leaves.
    fn is_ours(&self) -> bool {
        let leaf = |name: &str| self.leaves.iter().any(|leaf| leaf.kernel_name == name);
        match self.state.uuid() {
            Some(uuid) => uuid == self.uuid,
            None => self.state.members().iter().all(|member| leaf(&member.name)),
        }
    }

    /// Looks at the device again: its size changes.
    fn look(&mut self) -> Result<(), Failure> {
        let path = self.device.path.clone();
        let mut found = BlockDevice::open(&path);
        patience::until(SOON, || {
            found = BlockDevice::open(&path);
            found.as_ref().is_ok_and(|device| device.size.0 > 0)
        });
        let found = found.map_err(|error| Failure::io("cannot open", &path, &error))?;
        self.device = BlockDevice { ours: true, ..found };
        Ok(())
    }

    /// Sees that the kernel made what was asked for.
    fn verify(&self) -> Result<(), Failure> {
        let bitmap = match self.plan.bitmap {
            Bitmap::None => "none".to_string(),
            Bitmap::Internal => "on the members".to_string(),
        };
        let found_bitmap = match self.state.text("bitmap/location") {
            Ok(place) if place.starts_with(['+', '-']) => "on the members".to_string(),
            Ok(other) => other,
            // Level 0 has none.
            Err(_) => "none".to_string(),
        };
        let number = |n: Option<u64>| n.map_or("nothing".to_string(), |n| n.to_string());
        let plan = &self.plan;
        let mut asked = vec![
            ("level", format!("raid{}", plan.level.number()), self.state.text("level").unwrap_or_default()),
            ("members", plan.members.to_string(), number(self.state.number("raid_disks"))),
            ("bitmap", bitmap, found_bitmap),
        ];
        if let Some(chunk) = plan.chunk {
            asked.push(("chunk", chunk.0.to_string(), number(self.state.number("chunk_size"))));
        }
        if let Some(layout) = plan.kernel_layout() {
            asked.push(("layout", layout.to_string(), number(self.state.number("layout"))));
        }
        if let (Some(geometry), Some(found)) = (plan.geometry, self.announced()) {
            asked.push(("chunk announced", geometry.chunk.0.to_string(), found.chunk.0.to_string()));
            asked.push((
                "data disks announced",
                geometry.data_disks.to_string(),
                found.data_disks.to_string(),
            ));
        }
        match asked.into_iter().find(|(_, asked, found)| asked != found) {
            None => Ok(()),
            Some((what, asked, found)) => Err(Failure::failed(
                format!("the array's {what} was to be {asked}, but the kernel says {found}"),
                "look into the kernel log; another version of mdadm or of the kernel may differ",
            )),
        }
    }

    /// The geometry that the kernel announces above; none where the members' own announcements mix in.
    fn announced(&self) -> Option<Geometry> {
        let queue = |name: &str, attribute: &str| sysfs::number(&sysfs::queue(name).join(attribute)).ok();
        let plain = |leaf: &BlockDevice| queue(&leaf.kernel_name, "optimal_io_size").unwrap_or(0) == 0;
        let chunk = queue(&self.state.name, "minimum_io_size").filter(|chunk| *chunk > 0)?;
        let stripe = queue(&self.state.name, "optimal_io_size")?;
        self.leaves.iter().all(plain).then_some(Geometry {
            chunk: fsdyno_spec::units::Bytes(chunk),
            data_disks: u32::try_from(stripe / chunk).ok()?,
        })
    }

    /// Waits until the array does nothing by itself, as fast as its members allow. How long that took,
    /// without the looks that only confirm it.
    fn wait(&self, context: &mut Context<'_>, doing: &str) -> Result<Duration, Failure> {
        let speed = |min: &str, max: &str| {
            let _ = self.state.put("sync_speed_max", max);
            let _ = self.state.put("sync_speed_min", min);
        };
        speed(SPEED, SPEED);
        let result = self.wait_for_rest(context, doing);
        speed("system", "system");
        result
    }

    fn wait_for_rest(&self, context: &mut Context<'_>, doing: &str) -> Result<Duration, Failure> {
        let (begin, mut quiet, mut since) = (Instant::now(), Quiet::default(), Instant::now());
        while self.state.runs() {
            let action = self.state.at_work();
            if let Some(took) = quiet.look(begin.elapsed(), action.is_none()) {
                return Ok(took);
            }
            match action {
                None => {}
                Some(action) => {
                    if action != "about to rebuild" {
                        since = Instant::now();
                        (context.progress)(doing, self.state.done().unwrap_or(0.0));
                    } else if since.elapsed() > SOON {
                        return Err(Failure::failed(
                            format!("{} should rebuild, but does not begin", self.node()),
                            "look into the kernel log: a member may have failed",
                        ));
                    }
                }
            }
            if context.stop.load(Ordering::Relaxed) {
                return Err(Failure::new(
                    Outcome::Cancelled,
                    format!("{doing} was ended on request"),
                    "give it more time, or smaller devices",
                ));
            }
            thread::sleep(LOOK);
        }
        Err(Failure::failed(format!("{} does not run any more", self.node()), "look into the kernel log"))
    }

    /// Without how it was made.
    fn facts_now(&self) -> Facts {
        let plan = &self.plan;
        let mut facts = self.state.facts();
        facts.insert("path".into(), json!(self.device.path));
        facts.insert("size".into(), json!(self.device.size));
        facts.insert("logical_block_size".into(), json!(self.device.logical_block_size));
        facts.insert("uuid".into(), json!(self.uuid));
        facts.insert("resync".into(), json!(plan.resync));
        facts.insert("layout".into(), json!(plan.layout.map(fsdyno_filesystems::Layout::name)));
        facts.insert("data_disks".into(), json!(plan.geometry.map(|g| g.data_disks)));
        facts.insert("stripe".into(), json!(plan.geometry.map(|g| g.stripe())));
        facts
    }
}

impl Layer for MdArray {
    fn part(&self) -> &'static str {
        "array"
    }

    fn device(&self) -> &BlockDevice {
        &self.device
    }

    fn facts(&self) -> Facts {
        let mut facts = self.facts_now();
        facts.extend(self.made.clone());
        facts
    }

    fn at_work(&self) -> Option<String> {
        self.state.at_work()
    }

    fn state(&self) -> Facts {
        let short = ["array_state", "sync_action", "degraded", "members"];
        self.state.facts().into_iter().filter(|(name, _)| short.contains(&name.as_str())).collect()
    }

    fn change(&mut self, context: &mut Context<'_>, change: &Change<'_>) -> Result<Option<Changed>, Failure> {
        Ok(Some(match *change {
            Change::Fail(slots) => self.fail(context, slots)?,
            Change::Add { members, wait } => self.add(context, members, wait)?,
            Change::Resync => self.resync(context)?,
            Change::Grow { members } => self.grow(context, members)?,
        }))
    }

    fn take_down(&mut self, context: &mut Context<'_>) -> Result<(), Failure> {
        if self.state.stands() && self.is_ours() {
            let command = plan::stop(&self.node());
            stop(&self.state, || context.tool(&command, None)).map_err(|why| {
                let message = format!("{} does not stop: {why}", self.node());
                Failure::new(Outcome::TeardownFailed, message, "see what holds it: lsblk, lsof")
            })?;
        }
        let members: Vec<String> = self
            .leaves
            .iter()
            .filter(|leaf| state::member_of(&leaf.path).as_ref() == Some(&self.uuid))
            .map(path)
            .collect();
        if !members.is_empty() {
            let members: Vec<&str> = members.iter().map(String::as_str).collect();
            mdadm(context, &plan::zero(&members))
                .map_err(|failure| Failure { outcome: Outcome::TeardownFailed, ..failure })?;
        }
        Ok(())
    }
}

/// Looks at something that may pause between two things that it does: it has come to rest when three
/// looks in a row find it quiet, and then it has since the first of them.
#[derive(Debug, Default)]
struct Quiet {
    looks: u32,
    since: Duration,
}

impl Quiet {
    /// Takes a look `at` a time; when it came to rest, once that is sure.
    fn look(&mut self, at: Duration, quiet: bool) -> Option<Duration> {
        if !quiet {
            self.looks = 0;
            return None;
        }
        if self.looks == 0 {
            self.since = at;
        }
        self.looks += 1;
        (self.looks >= 3).then_some(self.since)
    }
}

/// Stops the array that a dead agent left, if there is one of this UUID. What was done, or nothing.
///
/// # Errors
/// Why it does not stop.
pub fn undo(uuid: &str) -> Result<Option<String>, String> {
    let names = sysfs::names_in(std::path::Path::new("/sys/block"));
    let arrays = names.into_iter().filter(|name| name.starts_with("md")).map(|name| State { name });
    let Some(state) = arrays.into_iter().find(|s| s.uuid().is_some_and(|u| u.eq_ignore_ascii_case(uuid)))
    else {
        return Ok(None);
    };
    let node = format!("/dev/{}", state.name);
    stop(&state, || tool::ask("mdadm", &["--stop", "--config=none", &node]))
        .map_err(|why| format!("{node} does not stop: {why}"))?;
    Ok(Some(format!("stopped the array {node}")))
}

/// Runs the tool that stops until the array is gone: who looks at new devices may hold it for an instant.
fn stop(state: &State, mut run: impl FnMut() -> Result<ToolOutput, Failure>) -> Result<(), String> {
    let mut last = String::new();
    let gone = patience::until(SOON, || {
        match run() {
            Ok(output) => last = complaint(&output),
            Err(failure) => last = failure.to_string(),
        }
        !state.stands()
    });
    if gone { Ok(()) } else { Err(last) }
}

/// Runs mdadm, which exits with 0 if and only if it did what it should in the modes used here.
fn mdadm(context: &mut Context<'_>, command: &CommandLine) -> Result<ToolOutput, Failure> {
    let output = context.tool(command, None)?;
    match output.exit {
        Some(0) => Ok(output),
        _ => Err(Failure::failed(
            format!("`{}` failed: {}", output.argv.join(" "), complaint(&output)),
            "look into the kernel log; the kernel needs the md driver and the module of this level",
        )),
    }
}

/// What a tool complained of, in one line, for a person.
pub(crate) fn complaint(output: &ToolOutput) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match output.exit {
        _ if !lines.is_empty() => lines.join("; "),
        Some(code) => format!("exit code {code}"),
        None => "it was killed by a signal".to_string(),
    }
}

fn said(reason: fsdyno_spec::outcome::Reason) -> Failure {
    Failure { outcome: Outcome::Failed, reason }
}

fn path(device: &BlockDevice) -> String {
    device.path.to_string_lossy().into_owned()
}

/// A name that no array and no node has, at random so that two agents hardly meet.
fn free_name() -> std::io::Result<String> {
    let mut bytes = [0u8; 4];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    let (first, count) = (*NUMBERS.start(), NUMBERS.end() - NUMBERS.start() + 1);
    let start = u32::from_le_bytes(bytes) % count;
    (0..count)
        .map(|n| format!("md{}", first + (start + n) % count))
        .find(|name| !sysfs::class(name).exists() && !PathBuf::from("/dev").join(name).exists())
        .ok_or_else(|| std::io::Error::other("all numbers of arrays are taken"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_the_first_of_three_quiet_looks_in_a_row() {
        let mut quiet = Quiet::default();
        let looks = [(1, false), (2, true), (3, true), (4, false), (5, true), (6, true), (7, true)];
        let took: Vec<_> =
            looks.iter().map(|(at, rests)| quiet.look(Duration::from_secs(*at), *rests)).collect();
        assert_eq!(took.last(), Some(&Some(Duration::from_secs(5))));
        assert!(took[..6].iter().all(Option::is_none), "{took:?}");
    }
}

//! A volume group on an array or on the leaves, and the volume in it that the file system goes on. What
//! matters above is where the volume's bytes lie: that is read back, and told against the stripe below.

pub mod alignment;
mod plan;
mod report;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fsdyno_filesystems::CommandLine;
use fsdyno_spec::array::Lvm;
use fsdyno_spec::outcome::Outcome;
use fsdyno_spec::units::Bytes;
use serde_json::{Value, json};

use crate::array::complaint;
use crate::failure::Failure;
use crate::identity::nonce;
use crate::layer::{Change, Changed, Context, Layer};
use crate::ledger::Entry;
use crate::lvm::alignment::Alignment;
use crate::lvm::plan::{Commands, Plan};
use crate::lvm::report::{Physical, Segment};
use crate::patience;
use crate::settings::Facts;
use crate::sysfs::{self, BlockDevice};
use crate::tool::{self, ToolOutput, find_program};

/// How long a device may stay busy because somebody looks at it.
const SOON: Duration = Duration::from_secs(10);

/// Where the stripe of the devices below is known from. What plain disks announce as their optimal size
/// is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stripes {
    /// There are none.
    None,
    /// A hardware array that the kernel cannot see, of which the plan tells this many bytes.
    Declared(Bytes),
    /// An array of ours: what it announces, which a reshape changes.
    Announced,
}

/// A volume group that stands.
#[derive(Debug)]
pub struct Group {
    device: BlockDevice,
    plan: Plan,
    commands: Commands,
    below: Vec<BlockDevice>,
    stripes: Stripes,
    physicals: Vec<Physical>,
    segments: Vec<Segment>,
    made: Facts,
}

impl Group {
    /// Makes a group of all devices `below`, and its volumes.
    ///
    /// # Errors
    /// What cannot be, or what LVM said; nothing of it stands then.
    pub fn build(
        context: &mut Context<'_>,
        spec: &Lvm,
        below: &[BlockDevice],
        stripes: Stripes,
    ) -> Result<Box<dyn Layer>, Failure> {
        let plan =
            Plan::of(spec, below.len()).map_err(|reason| Failure { outcome: Outcome::Failed, reason })?;
        if find_program("lvm").is_none() {
            return Err(Failure::new(
                Outcome::Unsupported,
                "the program lvm is not installed",
                "install lvm2, or leave `stack.lvm` out",
            ));
        }
        let (system, locks) = (context.folder.join("lvm"), context.folder.join("lvm-locks"));
        let io = |error| Failure::io("cannot configure LVM in", context.folder, &error);
        fs::create_dir(&system).map_err(io)?;
        fs::create_dir(&locks).map_err(io)?;
        fs::write(system.join("lvm.conf"), plan::configuration(&locks)).map_err(io)?;
        let commands = Commands {
            system: system.to_string_lossy().into_owned(),
            group: format!("fsdyno_{}", context.nonce),
            devices: below.iter().map(node).collect(),
        };
        let mut uuids = Vec::new();
        for device in below {
            let uuid = physical_uuid()?;
            context.own(device, &uuid)?;
            uuids.push(uuid);
        }
        context.record(&Entry::VolumeGroup { name: commands.group.clone() })?;
        let mut group = Self {
            device: below[0].clone(),
            plan,
            commands,
            below: below.to_vec(),
            stripes,
            physicals: Vec::new(),
            segments: Vec::new(),
            made: Facts::new(),
        };
        match group.make(context, &uuids) {
            Ok(()) => Ok(Box::new(group)),
            Err(failure) => {
                let going = std::sync::atomic::AtomicBool::new(false);
                let undone = group.take_down(&mut context.unstopped(&going));
                Err(match undone {
                    Ok(()) => failure,
                    Err(undoing) => undoing.after(&failure),
                })
            }
        }
    }

    fn make(&mut self, context: &mut Context<'_>, uuids: &[String]) -> Result<(), Failure> {
        let begin = Instant::now();
        let mut commands: Vec<CommandLine> = self
            .commands
            .devices
            .iter()
            .zip(uuids)
            .map(|(device, uuid)| self.commands.physical(&self.plan, device, uuid))
            .collect();
        commands.push(self.commands.group(&self.plan));
        commands.extend(self.plan.volumes.iter().map(|volume| self.commands.volume(volume)));
        let mut lines = Vec::new();
        for command in &commands {
            (context.progress)("making volumes", lines.len() as f64 / commands.len() as f64);
            lines.push(lvm(context, command)?.argv.join(" "));
        }
        self.look(context)?;
        self.verify()?;
        self.made.insert("commands".into(), json!(lines));
        self.made.insert("create_seconds".into(), json!(begin.elapsed().as_secs_f64()));
        Ok(())
    }

    /// Reads back where everything lies.
    fn look(&mut self, context: &mut Context<'_>) -> Result<(), Failure> {
        let wrong = |why: String| Failure::failed(why, "another version of LVM may differ: report it");
        let said = lvm(context, &self.commands.physicals())?.stdout;
        self.physicals = report::physicals(&said).map_err(wrong)?;
        self.physicals.retain(|pv| pv.group == self.commands.group);
        let said = lvm(context, &self.commands.segments())?.stdout;
        self.segments = report::segments(&said, &self.physicals).map_err(wrong)?;
        let name = mapped(&self.commands.group, &self.plan.used);
        let path = by_name(&name).ok_or_else(|| {
            Failure::failed(
                format!("the kernel has no volume `{name}`"),
                "look into the kernel log; the kernel needs the device mapper (dm_mod)",
            )
        })?;
        let found = BlockDevice::open(&path).map_err(|error| Failure::io("cannot open", &path, &error))?;
        self.device = BlockDevice { ours: true, ..found };
        Ok(())
    }

    /// Sees that LVM made what was asked for.
    fn verify(&self) -> Result<(), Failure> {
        let differs = |what: String| {
            Err(Failure::failed(
                format!("LVM made something else than asked for: {what}"),
                "the trial's artefacts and the kernel log tell more; another version of LVM may differ",
            ))
        };
        if self.physicals.len() != self.below.len() {
            return differs(format!("{} of {} devices", self.physicals.len(), self.below.len()));
        }
        for pv in &self.physicals {
            if pv.extent != self.plan.extent.0 {
                return differs(format!("extents of {}", Bytes(pv.extent)));
            }
            if let Some(wanted) = self.plan.data_alignment.filter(|a| !pv.start.is_multiple_of(a.0)) {
                return differs(format!("data from {} on, no multiple of {wanted}", Bytes(pv.start)));
            }
        }
        for volume in &self.plan.volumes {
            let Some(first) = self.first(&volume.name) else {
                return differs(format!("no volume `{}`", volume.name));
            };
            if volume.size.is_some_and(|size| size.0 > first.volume_size) {
                return differs(format!("`{}` of {}", volume.name, Bytes(first.volume_size)));
            }
            if volume.stripes.unwrap_or(1) as usize != first.on.len() {
                return differs(format!("`{}` with {} stripes", volume.name, first.on.len()));
            }
        }
        let size = self.first(&self.plan.used).map(|first| first.volume_size);
        if size != Some(self.device.size.0) {
            return differs(format!("a device of {}", self.device.size));
        }
        Ok(())
    }

    /// The first segment of a volume.
    fn first(&self, volume: &str) -> Option<&Segment> {
        self.segments.iter().find(|segment| segment.volume == volume && segment.start == 0)
    }

    /// Stripe of the devices below, bytes.
    fn stripe(&self) -> Option<u64> {
        let stripe = match self.stripes {
            Stripes::None => None,
            Stripes::Declared(stripe) => Some(stripe.0),
            Stripes::Announced => {
                sysfs::number(&sysfs::queue(&self.below[0].kernel_name).join("optimal_io_size")).ok()
            }
        };
        stripe.filter(|stripe| *stripe > 0)
    }

    /// Without how it was made.
    fn facts_now(&self) -> Facts {
        let volumes: serde_json::Map<_, _> = self
            .plan
            .volumes
            .iter()
            .map(|volume| {
                let segments: Vec<_> =
                    self.segments.iter().filter(|s| s.volume == volume.name).map(Segment::fact).collect();
                let size = self.first(&volume.name).map(|s| s.volume_size);
                (volume.name.clone(), json!({ "size": size, "segments": segments }))
            })
            .collect();
        let starts: serde_json::Map<_, _> =
            self.physicals.iter().map(|pv| (pv.device.clone(), json!(pv.start))).collect();
        let mut facts = Facts::from([
            ("group".to_string(), json!(self.commands.group)),
            ("uuid".to_string(), json!(self.physicals.first().map(|pv| &pv.group_uuid))),
            ("extent".to_string(), json!(self.plan.extent)),
            ("data_alignment".to_string(), json!(self.plan.data_alignment)),
            ("pe_start".to_string(), starts.into()),
            ("volumes".to_string(), volumes.into()),
            ("used".to_string(), json!(self.plan.used)),
            ("path".to_string(), json!(self.device.path)),
            ("size".to_string(), json!(self.device.size)),
            ("logical_block_size".to_string(), json!(self.device.logical_block_size)),
        ]);
        let first = self.first(&self.plan.used).and_then(|segment| segment.on.first());
        if let Some((_, first)) = first {
            facts.insert("first_byte".into(), json!(first));
        }
        let used: Vec<_> = self.segments.iter().filter(|s| s.volume == self.plan.used).collect();
        if let Some(Alignment { stripe, off }) = Alignment::of(&used, self.stripe()) {
            facts.insert("stripe_below".into(), json!(stripe));
            facts.insert("off_stripe".into(), json!(off));
            facts.insert("aligned".into(), json!(off == 0));
        }
        facts
    }

    /// Takes the new room of the devices below, if there is any.
    fn grow(&mut self, context: &mut Context<'_>) -> Result<Option<Changed>, Failure> {
        let (mut grown, mut took) = (false, Duration::ZERO);
        for device in &mut self.below {
            let now = BlockDevice::open(&device.path)
                .map_err(|error| Failure::io("cannot open", &device.path, &error))?;
            if now.size > device.size {
                device.size = now.size;
                grown = true;
                took += lvm(context, &self.commands.resize(&node(device)))?.wall.duration();
            }
        }
        if !grown {
            return Ok(None);
        }
        self.look(context)?;
        if self.physicals.iter().any(|pv| pv.free > 0) {
            took += lvm(context, &self.commands.extend(&self.plan.used))?.wall.duration();
            self.look(context)?;
        }
        self.verify()?;
        let facts = Facts::from([("lvm".to_string(), self.facts_now().into_iter().collect::<Value>())]);
        Ok(Some(Changed { facts, took }))
    }
}

impl Layer for Group {
    fn part(&self) -> &'static str {
        "lvm"
    }

    fn device(&self) -> &BlockDevice {
        &self.device
    }

    fn facts(&self) -> Facts {
        let mut facts = self.facts_now();
        facts.extend(self.made.clone());
        facts
    }

    fn change(&mut self, context: &mut Context<'_>, change: &Change<'_>) -> Result<Option<Changed>, Failure> {
        match change {
            Change::Grow { .. } => self.grow(context),
            _ => Ok(None),
        }
    }

    fn take_down(&mut self, context: &mut Context<'_>) -> Result<(), Failure> {
        let group = &self.commands.group;
        let stands = || !volumes_of(group).is_empty();
        let labelled = |device: &&BlockDevice| is_physical(&device.path);
        if stands() || self.below.iter().any(|device| is_physical(&device.path)) {
            let mut last = String::new();
            let removed = patience::until(SOON, || {
                // Made only half there is no group yet; removed before there is none any more.
                let known = context.tool(&self.commands.known(), None);
                if !stands() && known.is_ok_and(|output| output.exit.is_some_and(|code| code != 0)) {
                    return true;
                }
                last = match context.tool(&self.commands.remove(), None) {
                    Ok(output) if output.exit == Some(0) && !stands() => return true,
                    Ok(output) => complaint(&output),
                    Err(failure) => failure.to_string(),
                };
                false
            });
            if !removed {
                let message = format!("the volume group {group} cannot be removed: {last}");
                return Err(Failure::new(Outcome::TeardownFailed, message, "see what holds it: lsblk, lsof"));
            }
        }
        // Refused for what is in a group: so nothing is taken for gone that is not.
        for device in self.below.iter().filter(labelled) {
            lvm(context, &self.commands.forget(&node(device)))
                .map_err(|failure| Failure { outcome: Outcome::TeardownFailed, ..failure })?;
        }
        Ok(())
    }
}

/// Removes the volumes that a dead agent left of a group of ours. What was done, or nothing.
///
/// # Errors
/// What resists.
pub fn undo(group: &str) -> Result<Option<String>, String> {
    if !group.starts_with("fsdyno_") || volumes_of(group).is_empty() {
        return Ok(None);
    }
    let mut last = String::new();
    let gone = patience::until(SOON, || {
        for name in volumes_of(group) {
            match tool::ask("dmsetup", &["remove", "--noudevsync", "--noudevrules", &name]) {
                Ok(output) => last = complaint(&output),
                Err(failure) => last = failure.to_string(),
            }
        }
        volumes_of(group).is_empty()
    });
    if !gone {
        return Err(format!("the volume group {group} cannot be removed: {last}"));
    }
    // The links that LVM makes for people.
    let _ = fs::remove_dir_all(Path::new("/dev").join(group));
    Ok(Some(format!("removed the volume group {group}")))
}

/// What the device mapper calls a volume. Neither name holds a hyphen, which would be doubled.
fn mapped(group: &str, volume: &str) -> String {
    format!("{group}-{volume}")
}

/// Mapped devices: kernel name and name.
fn mapped_devices() -> impl Iterator<Item = (String, String)> {
    sysfs::names_in(Path::new("/sys/block")).into_iter().filter_map(|kernel| {
        let name = sysfs::text(&sysfs::class(&kernel).join("dm/name")).ok()?;
        Some((kernel, name))
    })
}

/// Names of the volumes of a group that the kernel has.
fn volumes_of(group: &str) -> Vec<String> {
    let prefix = mapped(group, "");
    mapped_devices().map(|(_, name)| name).filter(|name| name.starts_with(&prefix)).collect()
}

fn by_name(wanted: &str) -> Option<PathBuf> {
    let (kernel, _) = mapped_devices().find(|(_, name)| name == wanted)?;
    Some(Path::new("/dev").join(kernel))
}

/// Whether LVM's label is in the second sector (`LABELONE`, where LVM puts it).
fn is_physical(device: &Path) -> bool {
    use std::os::unix::fs::OpenOptionsExt;
    let mut block = crate::backing::Aligned::zeroed(4096);
    let read = fs::OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(device);
    read.and_then(|file| file.read_exact_at(block.bytes(), 0)).is_ok()
        && block.bytes()[512..].starts_with(b"LABELONE")
}

/// A UUID as LVM writes it: 32 characters in groups of 6, 4, 4, 4, 4, 4, 6.
fn physical_uuid() -> Result<String, Failure> {
    let fail = |error| Failure::failed(format!("cannot draw a UUID: {error}"), "see the kernel log");
    let text = format!("{}{}", nonce().map_err(fail)?, nonce().map_err(fail)?);
    let parts = [&text[..6], &text[6..10], &text[10..14], &text[14..18], &text[18..22], &text[22..26]];
    Ok(format!("{}-{}", parts.join("-"), &text[26..]))
}

/// Runs LVM, which exits with 0 if and only if it did what it should.
fn lvm(context: &mut Context<'_>, command: &CommandLine) -> Result<ToolOutput, Failure> {
    let output = context.tool(command, None)?;
    match output.exit {
        Some(0) => Ok(output),
        _ => Err(Failure::failed(
            format!("`{}` failed: {}", output.argv.join(" "), complaint(&output)),
            "look into the kernel log; the kernel needs the device mapper (dm_mod)",
        )),
    }
}

fn node(device: &BlockDevice) -> String {
    device.path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_physical_volumes_uuid_is_as_lvm_writes_it() {
        let uuid = physical_uuid().unwrap();
        let lengths: Vec<_> = uuid.split('-').map(str::len).collect();
        assert_eq!(lengths, [6, 4, 4, 4, 4, 4, 6]);
        assert_ne!(uuid, physical_uuid().unwrap());
    }

    #[test]
    fn undoing_a_group_that_is_not_ours_or_not_there_does_nothing() {
        assert_eq!(undo("system"), Ok(None));
        assert_eq!(undo("fsdyno_0000000000000000"), Ok(None));
    }
}

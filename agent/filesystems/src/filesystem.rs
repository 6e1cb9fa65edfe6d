//! What is known of a file system, as one value, and what follows from it: command lines, mounts,
//! and the proofs that both did what was asked.

use std::path::Path;

use fsdyno_spec::describe::FileSystemInfo;
use fsdyno_spec::outcome::Reason;
use fsdyno_spec::trial::CheckMode;
use fsdyno_spec::units::Bytes;
use serde_json::Value;

use crate::argv::Argv;
use crate::geometry::Geometry;
use crate::medium::{Medium, Superblock};
use crate::options::{OptionRow, Options, Rule, spell};
use crate::plan::{CommandLine, MountPlan};
use crate::verdict::ToolVerdict;
use crate::verify;

/// A file system. One value in one file, one row in [`crate::TABLE`].
#[derive(Debug)]
pub struct FileSystem {
    /// Its type, as in a plan.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Name for `fsopen` and in `/proc/filesystems`.
    pub fstype: &'static str,
    /// How it lives on a block device; none where it has none.
    pub disk: Option<Disk>,
    /// How barriers can be turned off; none if they cannot, or there are none.
    pub barrier_off: Option<BarrierOff>,
    /// Whether it sends flushes at all; false: always without barriers, whatever is asked.
    pub flushes: bool,
    /// What its rows should be read with.
    pub notes: &'static [&'static str],
    /// Options.
    pub options: &'static [OptionRow],
    /// Combinations that cannot be.
    pub refuse: fn(&Options) -> Result<(), Reason>,
    /// What this kernel or these tools cannot do (any more), with the version and the alternative.
    pub unsupported: fn(&Options, &Here) -> Option<Reason>,
    /// Changes its mount from what the table says: a helper program, a daemon beside it.
    pub adjust_mount: fn(&Options, &Here, &mut MountPlan),
    /// Modules that can serve it where the kernel does not have it built in.
    pub modules: &'static [&'static str],
    /// The driver that serves the mounted device, given `/sys/fs`.
    pub driver: fn(sys_fs: &Path, kernel_device: &str) -> Option<String>,
    /// The driver that would serve it, given the kernel's configuration.
    pub driver_hint: fn(config: &KernelConfig) -> Option<String>,
}

/// What a file system on a block device has besides.
#[derive(Debug)]
pub struct Disk {
    /// Smallest device that its mkfs takes with default options and makes whole.
    pub minimum_size: Bytes,
    /// Makes it.
    pub mkfs: Program,
    /// Flags of mkfs that take comma-separated lists.
    pub lists: &'static [&'static str],
    /// Arguments of mkfs for a UUID that do not come from the table.
    pub mkfs_arguments: fn(&mut Argv, &Options, uuid: &str, force: bool),
    /// Checks it without changing anything; arguments before the device. Or why nothing can.
    pub check: Result<(Program, &'static [&'static str]), &'static str>,
    /// How a medium of ours is told from others.
    pub identity: Identity,
    /// How it is told the geometry of an array; none if it takes none.
    pub geometry: Option<GeometryRule>,
    /// Reads what mkfs chose from the medium.
    pub superblock: fn(&mut dyn Medium) -> Result<Superblock, Reason>,
}

/// How a medium that our mkfs made is told from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// mkfs takes a UUID of 128 bits, and the superblock keeps it.
    Uuid,
    /// mkfs takes no UUID: as many characters of one as fit are its label, and
    /// [`Superblock::uuid`] is that label. Such a medium cannot be proved ours on a real disk.
    Label(usize),
}

/// How a file system is told the geometry of the array below it.
#[derive(Clone, Copy, Debug)]
pub struct GeometryRule {
    /// Adds mkfs's arguments: a geometry, or none at all by force.
    pub mkfs: fn(&mut Argv, Option<&Geometry>),
    /// Facts of the superblock that it must show up in, for the same.
    pub facts: fn(Option<&Geometry>, block_size: u64) -> Vec<(&'static str, u64)>,
    /// Options of a remount that tell a mounted one a new geometry, or why it cannot be told.
    pub tell: fn(&Geometry, block_size: u64) -> Result<Vec<(String, Option<String>)>, Reason>,
}

/// What kernel and tools are here, as far as file systems ask.
#[derive(Clone, Debug, Default)]
pub struct Here {
    /// Kernel release.
    pub release: String,
    /// The kernel's build configuration; empty where it cannot be read.
    pub config: KernelConfig,
    /// Names of file systems that the kernel has, or loads on demand.
    pub serves: std::collections::BTreeSet<String>,
    /// Version lines of tools by name.
    pub tools: std::collections::BTreeMap<String, String>,
}

impl Here {
    /// Major and minor number of the kernel; zeros where unknown.
    #[must_use]
    pub fn kernel(&self) -> (u32, u32) {
        let mut numbers = self.release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }
}

/// What mkfs is to make a file system on.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The device's node.
    pub device: &'a str,
    /// Its size.
    pub size: Bytes,
    /// The UUID chosen for it.
    pub uuid: &'a str,
    /// Write over what is there.
    pub force: bool,
    /// What to tell mkfs of the array below.
    pub geometry: Told<'a>,
}

impl<'a> Target<'a> {
    /// A device of which mkfs is told nothing but its name and the UUID.
    #[must_use]
    pub fn plain(device: &'a str, size: Bytes, uuid: &'a str, force: bool) -> Self {
        Self { device, size, uuid, force, geometry: Told::Nothing }
    }
}

/// What mkfs is told of the array below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Told<'a> {
    /// Nothing: it finds what it finds.
    #[default]
    Nothing,
    /// That there is none, whatever the device says.
    None,
    /// This.
    This(&'a Geometry),
}

/// A program of the distribution.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// The distribution's package that has it (Debian's name).
    pub package: &'static str,
    /// Arguments that make it print its version.
    pub version: &'static [&'static str],
    /// What its exit codes mean.
    pub exit: fn(i32) -> ToolVerdict,
}

/// What a program is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Makes the file system.
    Mkfs,
    /// Checks it.
    Check,
}

impl Role {
    /// `mkfs` or `check`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mkfs => "mkfs",
            Self::Check => "check",
        }
    }
}

/// How barriers are turned off. One idea with two means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarrierOff {
    /// By a mount option.
    MountOption,
    /// By `queue/write_cache` = `write through` on the device that the file system sees.
    Queue,
}

impl BarrierOff {
    /// `mount option` or `queue`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::MountOption => "mount option",
            Self::Queue => "queue",
        }
    }
}

/// The text of a kernel's build configuration (`CONFIG_…=y` lines).
#[derive(Clone, Debug, Default)]
pub struct KernelConfig(pub String);

impl KernelConfig {
    /// Whether a symbol (with its `CONFIG_`) is built in or a module.
    #[must_use]
    pub fn has(&self, symbol: &str) -> bool {
        self.0
            .lines()
            .any(|line| line.strip_prefix(symbol).is_some_and(|value| value == "=y" || value == "=m"))
    }
}

impl FileSystem {
    /// Options of a plan, checked.
    ///
    /// # Errors
    /// An unknown name, a wrong value, or a combination that cannot be.
    pub fn options(&self, given: &std::collections::BTreeMap<String, Value>) -> Result<Options, Reason> {
        let options = Options::check(self.name, self.options, given)?;
        (self.refuse)(&options)?;
        Ok(options)
    }

    /// The programs that it needs, with what for.
    #[must_use]
    pub fn tools(&self) -> Vec<(Role, Program)> {
        let checker = |disk: &Disk| disk.check.ok().map(|(program, _)| (Role::Check, program));
        self.disk.iter().flat_map(|disk| [Some((Role::Mkfs, disk.mkfs)), checker(disk)]).flatten().collect()
    }

    /// The command that makes it. The UUID is chosen by the caller, so that the medium can be told as
    /// ours even if mkfs is killed. `force`: write over what is there.
    ///
    /// # Errors
    /// If there is nothing to make, or the device is too small.
    pub fn mkfs(&self, options: &Options, target: &Target<'_>) -> Result<CommandLine, Reason> {
        let disk = self.on_disk()?;
        let Target { device, size, force, .. } = *target;
        let uuid = self.identity_of(target.uuid);
        if size < disk.minimum_size {
            return Err(Reason::new(format!(
                "{} needs a device of {} at least, this one has {size}",
                self.name, disk.minimum_size
            ))
            .advise("make the device larger, or leave this file system out"));
        }
        let mut argv = Argv::new(disk.mkfs.name, disk.lists);
        (disk.mkfs_arguments)(&mut argv, options, uuid, force);
        for (row, value) in options.rows(self.options) {
            match row.rule {
                Rule::MkfsWord(flag) => {
                    argv.word(flag);
                    argv.word(spell(value));
                }
                Rule::MkfsGroup(flag, key) => argv.member(flag, format!("{key}={}", spell(value))),
                Rule::MkfsFeature(flag, feature) => {
                    let off = if value == &Value::Bool(false) { "^" } else { "" };
                    argv.member(flag, format!("{off}{feature}"));
                }
                Rule::MkfsExtra(_) => argv.extra(options.strings(row.name)),
                _ => {}
            }
        }
        let told = match target.geometry {
            Told::Nothing => None,
            Told::None => Some(None),
            Told::This(geometry) => Some(Some(geometry)),
        };
        match (told, disk.geometry) {
            (Some(geometry), Some(rule)) => (rule.mkfs)(&mut argv, geometry),
            (Some(_), None) => {
                return Err(Reason::new(format!("{} cannot be told the geometry of an array", self.name))
                    .advise("leave `geometry` out for it"));
            }
            (None, _) => {}
        }
        Ok(argv.finish(device))
    }

    /// What of a chosen UUID the medium will carry.
    #[must_use]
    pub fn identity_of<'a>(&self, uuid: &'a str) -> &'a str {
        match self.disk.as_ref().map(|disk| disk.identity) {
            Some(Identity::Label(length)) => &uuid[..length.min(uuid.len())],
            _ => uuid,
        }
    }

    /// The mount of a device, or of memory of `size` where there is no device.
    #[must_use]
    pub fn mount(&self, options: &Options, device: &str, size: Bytes, here: &Here) -> MountPlan {
        let mut plan = MountPlan { fstype: self.fstype.to_string(), ..MountPlan::default() };
        if self.disk.is_some() {
            plan.source = device.to_string();
        } else {
            plan.source = self.name.to_string();
            plan.params.push(("size".to_string(), Some(size.0.to_string())));
        }
        let owned = |(key, value): (&str, Option<&str>)| (key.to_string(), value.map(str::to_string));
        for (row, value) in options.rows(self.options) {
            match row.rule {
                Rule::MountValue { key, .. } => plan.params.push((key.to_string(), Some(spell(value)))),
                Rule::MountSwitch { param, .. } if !row.kind.is_default(value) => {
                    plan.params.push(owned(param));
                }
                Rule::Attribute(word) if value == &Value::Bool(true) => {
                    plan.attributes.push(word.to_string())
                }
                Rule::MountExtra => {
                    for word in options.strings(row.name) {
                        match word.split_once('=') {
                            Some(pair) => plan.params.push(owned((pair.0, Some(pair.1)))),
                            None if word == "ro" => plan.read_only = true,
                            None if verify::ATTRIBUTES.contains(&word) => {
                                plan.attributes.push(word.to_string())
                            }
                            None => plan.params.push((word.to_string(), None)),
                        }
                    }
                }
                _ => {}
            }
        }
        (self.adjust_mount)(options, here, &mut plan);
        plan
    }

    /// Proves from mountinfo that the kernel took each option that was asked for.
    ///
    /// # Errors
    /// The first option that it did not take, with what the kernel shows instead.
    pub fn verify_mount(
        &self,
        options: &Options,
        super_options: &str,
        mount_options: &str,
    ) -> Result<(), Reason> {
        let shown = verify::Shown::new(super_options, mount_options);
        options.rows(self.options).try_for_each(|(row, value)| shown.has_taken(self.name, row, value))
    }

    /// Proves from the medium that mkfs made what was asked for: the UUID, a size that fits the
    /// device, and each option that the superblock tells.
    ///
    /// # Errors
    /// The first thing that differs.
    pub fn verify_medium(
        &self,
        options: &Options,
        uuid: &str,
        size: Bytes,
        superblock: &Superblock,
    ) -> Result<(), Reason> {
        let uuid = self.identity_of(uuid);
        if superblock.uuid != uuid {
            return Err(Reason::new(format!(
                "the medium carries a {} with UUID {}, not the one asked for ({uuid})",
                self.name, superblock.uuid
            ))
            .advise("leave the UUID out of extra_mkfs; the messages of mkfs are in the trial's artefacts"));
        }
        if let Some(made) = superblock.facts.get("size").and_then(Value::as_u64).filter(|made| *made > size.0)
        {
            return Err(Reason::new(format!(
                "mkfs made a {} of {}, larger than its device of {size}",
                self.name,
                Bytes(made)
            )));
        }
        for row in self.options.iter().filter(|row| row.rule.stage() == "mkfs") {
            let certain = row.kind.default();
            let asked = options.get(row.name).or(certain.as_ref());
            if let (Some(asked), Some(found)) = (asked, superblock.facts.get(row.name))
                && found != asked
            {
                return Err(Reason::new(format!(
                    "{}: mkfs was asked for {} = {asked}, but the superblock says {found}",
                    self.name, row.name
                ))
                .advise("its messages are in the trial's artefacts; the device may be too small for this"));
            }
        }
        Ok(())
    }

    /// Whether the stack must turn the device's announced cache off for these options.
    #[must_use]
    pub fn wants_write_through(&self, options: &Options) -> bool {
        self.barrier_off == Some(BarrierOff::Queue) && options.flag("barrier") == Some(false)
    }

    /// The command that checks it and changes nothing.
    ///
    /// # Errors
    /// If it has no checker.
    pub fn check(&self, mode: CheckMode, device: &str) -> Result<CommandLine, Reason> {
        let CheckMode::Full = mode;
        let (program, arguments) = self.on_disk()?.check.map_err(Reason::new)?;
        let mut args: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        args.push(device.to_string());
        Ok(CommandLine { program: program.name.to_string(), args })
    }

    /// What an exit code of one of its programs means.
    #[must_use]
    pub fn exit_meaning(&self, role: Role, code: i32) -> ToolVerdict {
        let program = self.tools().into_iter().find(|(known, _)| *known == role);
        program.map_or(ToolVerdict::unknown(), |(_, program)| (program.exit)(code))
    }

    /// Reads what mkfs chose from the medium.
    ///
    /// # Errors
    /// If it is not there or damaged, or cannot be read.
    pub fn superblock(&self, medium: &mut dyn Medium) -> Result<Superblock, Reason> {
        (self.on_disk()?.superblock)(medium)
    }

    /// The driver that serves the mounted device, proved from `/sys/fs`. None if no driver lists the
    /// device there: then it is the one that mountinfo names.
    #[must_use]
    pub fn driver(&self, kernel_device: &str) -> Option<String> {
        (self.driver)(Path::new("/sys/fs"), kernel_device)
    }

    /// As `describe` prints it.
    #[must_use]
    pub fn info(&self) -> FileSystemInfo {
        FileSystemInfo {
            name: self.name.to_string(),
            summary: self.summary.to_string(),
            needs_device: self.disk.is_some(),
            minimum_size: self.disk.as_ref().map_or(Bytes(0), |disk| disk.minimum_size),
            barrier_off: self.barrier_off.map(|means| means.name().to_string()),
            flushes: self.flushes,
            checks: self.disk.iter().filter(|d| d.check.is_ok()).map(|_| "full".to_string()).collect(),
            notes: self.notes.iter().map(ToString::to_string).collect(),
            options: self.options.iter().map(OptionRow::info).collect(),
        }
    }

    fn on_disk(&self) -> Result<&Disk, Reason> {
        self.disk.as_ref().ok_or_else(|| {
            Reason::new(format!(
                "{} lives in memory: there is nothing to make, to read or to check",
                self.name
            ))
        })
    }
}

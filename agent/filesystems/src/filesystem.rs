//! What is known of a file system, as one value, and what follows from it: command lines, mounts,
//! and the proofs that both did what was asked.

use std::path::Path;

use fsdyno_spec::describe::FileSystemInfo;
use fsdyno_spec::outcome::Reason;
use fsdyno_spec::record::Upkeep;
use fsdyno_spec::trial::CheckMode;
use fsdyno_spec::units::Bytes;
use serde_json::Value;

use crate::advise::Advise;
use crate::argv::Argv;
use crate::barriers::BarrierOff;
use crate::geometry_rule::{GeometryRule, Told};
pub use crate::here::{Here, KernelConfig};
use crate::medium::{Medium, Superblock};
use crate::options::{OptionRow, Options, Rule, spell};
use crate::plan::{CommandLine, DEVICE, MountPlan, POINT};
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
    /// Whether `statfs` counts its inodes one by one, so that it proves what was made and deleted.
    pub counts_inodes: bool,
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
    /// What `align` tells of it; none where people are not advised to put it on an array.
    pub advise: Option<Advise>,
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
    /// Arguments of the same program before the device when a person starts it at a terminal: what it asks
    /// there it may mend, so that the superblock knows of the check.
    pub check_by_hand: &'static [&'static str],
    /// How a medium of ours is told from others.
    pub identity: Identity,
    /// How it is told the geometry of an array; none if it takes none.
    pub geometry: Option<GeometryRule>,
    /// Makes it take the room of a device that has grown, while it is mounted; in the arguments [`POINT`]
    /// stands for the mount point and [`DEVICE`] for the device. Or why it is not grown.
    pub grow: Result<(Program, &'static [&'static str]), &'static str>,
    /// Reads what mkfs chose from the medium.
    pub superblock: fn(&mut dyn Medium) -> Result<Superblock, Reason>,
    /// Whether a superblock is of this type, where several read the same.
    pub is_it: fn(&Superblock) -> bool,
    /// Reads what changes with each mount and check, and is no part of what mkfs chose.
    pub upkeep: fn(&mut dyn Medium) -> Result<Upkeep, Reason>,
    /// What of it may lie on devices of their own. fsdyno makes none of these, but finds them.
    pub elsewhere: &'static [Elsewhere],
    /// How a mounted one is kept from discarding what is freed; none if it never does.
    pub discard_off: Option<DiscardOff>,
}

/// What keeps a mounted file system from discarding blocks as they are freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscardOff {
    /// A remount with this parameter.
    Remount(&'static str),
    /// A fresh mount without the option: a remount takes its opposite, and changes nothing.
    FreshMount,
}

/// A part of a file system that may lie on another device than the rest, and how that is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// The part, as a person calls it.
    pub what: &'static str,
    /// Fact of the superblock that is true then, and not there otherwise.
    pub fact: &'static str,
    /// Key of the option by which a mount shows the other device, if it does.
    pub shown: Option<&'static str>,
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
    /// Makes it larger.
    Grow,
}

impl Role {
    /// `mkfs`, `check` or `grow`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mkfs => "mkfs",
            Self::Check => "check",
            Self::Grow => "grow",
        }
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

    /// What this kernel or these tools cannot do (any more) of what is asked for, with the version and the
    /// alternative; none if nothing is known against it. A name in `unsupported` of the row speaks before
    /// the bare fact that the kernel has no such file system.
    #[must_use]
    pub fn cannot(&self, options: &Options, here: &Here) -> Option<Reason> {
        if let Some(reason) = (self.unsupported)(options, here) {
            return Some(reason);
        }
        // The mount as it would be: with a helper program the kernel needs another file system.
        let plan = self.mount(options, "", Bytes(0), here);
        let known = !here.serves.is_empty();
        (known && plan.helper.is_none() && !here.serves.contains(&plan.fstype)).then(|| {
            Reason::new(format!(
                "this kernel ({}) has no {}, built in or as a module",
                here.release, self.name
            ))
            .advise(format!("run it in a guest with a kernel that has {}, or boot such a kernel", self.name))
        })
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
                Rule::MkfsSwitch(flag, key) => {
                    let digit = u8::from(value == &Value::Bool(true));
                    argv.member(flag, format!("{key}={digit}"));
                }
                Rule::MkfsFeatures(known) => {
                    for word in options.strings(row.name) {
                        let plain = word.trim_start_matches('^');
                        for feature in known.iter().filter(|feature| feature.name == plain) {
                            argv.member(feature.flag, word);
                        }
                    }
                }
                Rule::MkfsExtra(_) => argv.extra(options.strings(row.name)),
                _ => {}
            }
        }
        if let Some(geometry) = target.geometry.forced() {
            let rule = disk.geometry.ok_or_else(|| self.takes_no_geometry())?;
            (rule.mkfs)(&mut argv, options, size, geometry)?;
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
                Rule::MountQuiet(key) => plan.params.push((key.to_string(), Some(spell(value)))),
                Rule::MountChoice(choices) => {
                    let chosen = choices.iter().filter(|choice| Some(choice.value) == value.as_str());
                    plan.params.extend(chosen.map(|choice| owned(choice.param)));
                }
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

    /// The command that checks it and changes nothing, with those of its options that are about the check.
    ///
    /// # Errors
    /// If it has no checker.
    pub fn check(&self, mode: CheckMode, options: &Options, device: &str) -> Result<CommandLine, Reason> {
        let CheckMode::Full = mode;
        let (program, arguments) = self.on_disk()?.check.map_err(Reason::new)?;
        let mut args: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        for (row, value) in options.rows(self.options) {
            match row.rule {
                Rule::CheckValue { flag, key, unit } => {
                    let value = value.as_u64().map_or_else(|| spell(value), |n| (n / unit).to_string());
                    args.extend([flag.to_string(), format!("{key}{value}")]);
                }
                Rule::CheckSwitch(flag) if !row.kind.is_default(value) => args.push(flag.to_string()),
                _ => {}
            }
        }
        args.push(device.to_string());
        Ok(CommandLine { program: program.name.to_string(), args })
    }

    /// The command that makes the mounted file system take the room of a device that has grown.
    ///
    /// # Errors
    /// Why it is not grown.
    pub fn grow(&self, device: &str, point: &str) -> Result<CommandLine, Reason> {
        let (program, arguments) = self.on_disk()?.grow.map_err(Reason::new)?;
        let word = |argument: &&str| match *argument {
            DEVICE => device.to_string(),
            POINT => point.to_string(),
            other => other.to_string(),
        };
        Ok(CommandLine { program: program.name.to_string(), args: arguments.iter().map(word).collect() })
    }

    /// The program that makes it larger, if one does.
    #[must_use]
    pub fn grower(&self) -> Option<Program> {
        self.disk.as_ref().and_then(|disk| disk.grow.ok()).map(|(program, _)| program)
    }

    /// What an exit code of one of its programs means.
    #[must_use]
    pub fn exit_meaning(&self, role: Role, code: i32) -> ToolVerdict {
        let grower = self.grower().map(|program| (Role::Grow, program));
        let program = self.tools().into_iter().chain(grower).find(|(known, _)| *known == role);
        program.map_or(ToolVerdict::unknown(), |(_, program)| (program.exit)(code))
    }

    /// Reads what mkfs chose from the medium.
    ///
    /// # Errors
    /// If it is not there or damaged, or cannot be read.
    pub fn superblock(&self, medium: &mut dyn Medium) -> Result<Superblock, Reason> {
        (self.on_disk()?.superblock)(medium)
    }

    /// Reads what changes with each mount and check.
    ///
    /// # Errors
    /// If it is not there or damaged, or cannot be read.
    pub fn upkeep(&self, medium: &mut dyn Medium) -> Result<Upkeep, Reason> {
        (self.on_disk()?.upkeep)(medium)
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

    pub(crate) fn on_disk(&self) -> Result<&Disk, Reason> {
        self.disk.as_ref().ok_or_else(|| {
            Reason::new(format!(
                "{} lives in memory: there is nothing to make, to read or to check",
                self.name
            ))
        })
    }
}

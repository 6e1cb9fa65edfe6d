//! What lies between the leaf devices and the file system: an array, a volume group. Each is built on
//! what stands below it, changed by phases, and taken down in reverse order, before the leaves are let
//! go. A layer knows its own tools and kernel attributes; the trial's stack knows only this trait.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use fsdyno_filesystems::CommandLine;

use crate::disk::Disk;
use crate::failure::Failure;
use crate::identity::process_start;
use crate::ledger::{Entry, Ledger};
use crate::settings::Facts;
use crate::sysfs::BlockDevice;
use crate::tool::{self, ToolOutput};

/// What a layer works with while it is built, changed or taken down.
pub struct Context<'a> {
    /// The trial's ledger: what is about to be made is recorded before it is made.
    pub ledger: &'a mut Ledger,
    /// A folder of the trial's own for configuration and the like; it is removed with the trial.
    pub folder: &'a Path,
    /// 16 hexadecimal digits, drawn anew for each trial: for names that nobody else uses.
    pub nonce: &'a str,
    /// Set when somebody wants an end: what waits, looks at it.
    pub stop: &'a AtomicBool,
    /// Is told what is being done, and the share (0 to 1) that is done.
    pub progress: &'a mut dyn FnMut(&str, f64),
    /// Real disks right below this layer.
    pub(crate) disks: Vec<&'a mut Disk>,
}

impl Context<'_> {
    /// Runs a tool to its end, or kills it when the stop flag is set or `deadline` passes. Real disks
    /// below are let go first, and stay so: from here the layer holds them. What the exit code means is
    /// the caller's to judge.
    ///
    /// # Errors
    /// `Unsupported` if there is no such program, `Cancelled`, `TimedOut`, `TeardownFailed` if it could
    /// not be killed.
    pub fn tool(&mut self, command: &CommandLine, deadline: Option<Instant>) -> Result<ToolOutput, Failure> {
        for disk in &mut self.disks {
            disk.release();
        }
        run(self.ledger, command, self.stop, deadline)
    }

    /// Records that what will carry this UUID (as `blkid -p` prints it: an array's, a physical
    /// volume's) on a device right below is ours. Only real disks need it; call it for each device
    /// all the same, before the tool that writes it, and while no tool of this layer has run yet.
    ///
    /// # Errors
    /// If it cannot be recorded, or something else is on the disk: then the tool must not run.
    pub fn own(&mut self, below: &BlockDevice, uuid: &str) -> Result<(), Failure> {
        match self.disks.iter_mut().find(|disk| disk.device.kernel_name == below.kernel_name) {
            Some(disk) => disk
                .own(uuid, self.ledger)
                .map_err(|error: io::Error| Failure::io("cannot claim", &disk.link, &error)),
            None => Ok(()),
        }
    }
}

/// What only layers need.
impl Context<'_> {
    /// Records what is about to be made.
    ///
    /// # Errors
    /// If it cannot be recorded: then it must not be made.
    pub(crate) fn record(&mut self, entry: &Entry) -> Result<(), Failure> {
        self.ledger.record(entry).map_err(|error| {
            let message = format!("cannot record what is about to be made: {error}");
            Failure::failed(message, "make room for the ledger, or choose another folder with --state")
        })
    }

    /// The same with another stop flag: undoing goes on when somebody asked to stop.
    pub(crate) fn unstopped<'b>(&'b mut self, stop: &'b AtomicBool) -> Context<'b> {
        Context {
            ledger: self.ledger,
            folder: self.folder,
            nonce: self.nonce,
            stop,
            progress: self.progress,
            disks: self.disks.iter_mut().map(|disk| &mut **disk).collect(),
        }
    }
}

/// Runs a tool that the ledger knows, so that a killed agent's tools are found.
pub fn run(
    ledger: &mut Ledger,
    command: &CommandLine,
    stop: &AtomicBool,
    deadline: Option<Instant>,
) -> Result<ToolOutput, Failure> {
    tool::run(command, stop, deadline, |pid| {
        if let Some(start) = process_start(pid) {
            // It dies with us anyway; an unrecorded one is only found more slowly.
            let _ = ledger.record(&Entry::Process { pid, start });
        }
    })
}

/// What a phase asks of the layers. Members are slots, counted from 0 in `stack.devices` with every
/// `count` spelt out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// Mark these as failed and take them out.
    Fail(&'a [u32]),
    /// Put these in; `wait` until the array is whole.
    Add {
        /// Slots.
        members: &'a [u32],
        /// Return only when the array neither rebuilds nor reshapes.
        wait: bool,
    },
    /// Wait until the array neither rebuilds nor reshapes.
    Resync,
    /// Take spares in as data members until there are so many, then all of the new room.
    Grow {
        /// Members afterwards.
        members: u32,
    },
}

/// What a change came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changed {
    /// What changed, by name.
    pub facts: Facts,
    /// What the tools and the kernel took for it, without our own looks and read-backs around it.
    pub took: Duration,
}

/// An array or a volume group that stands.
pub trait Layer: fmt::Debug {
    /// Its key in `stack` and name in `built` events: `array`, `lvm`.
    fn part(&self) -> &'static str;

    /// The block device that it gives to what lies above; its size is that of the moment.
    fn device(&self) -> &BlockDevice;

    /// What the kernel and the tools say of it now, by name; sizes in bytes.
    fn facts(&self) -> Facts;

    /// What it does by itself now (rebuilds, reshapes, checks), if anything.
    fn at_work(&self) -> Option<String> {
        None
    }

    /// What of it may differ from phase to phase, by name; cheap enough to be asked after each.
    fn state(&self) -> Facts {
        Facts::new()
    }

    /// Changes it. Layers are asked from below to above, so what is below has its new size. None if
    /// the change does not concern this kind of layer; else what changed.
    ///
    /// # Errors
    /// What the kernel or a tool said.
    fn change(&mut self, context: &mut Context<'_>, change: &Change<'_>) -> Result<Option<Changed>, Failure> {
        let _ = (context, change);
        Ok(None)
    }

    /// Takes it down: afterwards nothing of it stands and the devices below are free. Called again if it
    /// failed before; what is gone already is no error.
    ///
    /// # Errors
    /// What resists.
    fn take_down(&mut self, context: &mut Context<'_>) -> Result<(), Failure>;
}

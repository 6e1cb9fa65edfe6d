//! Working on a stack that stands: claims, mounts, tools, syncs.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use fsdyno_filesystems::{CommandLine, MountPlan};
use fsdyno_probe::counters::Took;
use serde_json::json;

use super::{TrialStack, disks_of};
use crate::disk::Disk;
use crate::failure::Failure;
use crate::folder;
use crate::identity::uuid;
use crate::layer;
use crate::leaf::Leaf;
use crate::mount::{self, Mounted};
use crate::reconfigure::reconfigure;
use crate::settings::{self, Facts};
use crate::sysfs;
use crate::tool::ToolOutput;

impl TrialStack<'_> {
    /// A UUID for the next mkfs to use. On a real disk it is on record as ours before this returns.
    ///
    /// # Errors
    /// If it cannot be recorded: then mkfs must not run.
    pub fn claim_uuid(&mut self) -> Result<String, Failure> {
        let state = self.rig.options.state.clone();
        let fail = |error: io::Error| Failure::io("cannot record a UUID in", &state, &error);
        let uuid = uuid().map_err(fail)?;
        // On an array or a volume it is not the disks that carry it.
        if self.layers.is_empty()
            && let Some(ledger) = self.ledger.as_mut()
        {
            for disk in disks_of(self.rig, &self.leaves) {
                disk.own(&uuid, ledger).map_err(fail)?;
            }
        }
        Ok(uuid)
    }

    /// Mounts the file system in the trial's folder and puts the read-ahead that was set on it.
    ///
    /// # Errors
    /// `Unsupported` if the kernel has no such file system; else `Failed`, with what the kernel said.
    pub fn mount(&mut self, plan: &MountPlan) -> Result<Facts, Failure> {
        let Some(point) = self.folder.as_ref().map(|f| f.path.clone()) else {
            return Err(Failure::failed("nothing is built to mount on", "build the stack first"));
        };
        if self.mounted.is_some() || self.spec.directory.is_some() {
            return Err(Failure::failed("something is mounted already", "put an `unmount` phase before"));
        }
        let Some(ledger) = self.ledger.as_mut() else {
            return Err(Failure::failed("the trial is over", "begin another"));
        };
        // The file system takes the hold from here.
        for disk in disks_of(self.rig, &self.leaves) {
            disk.release();
        }
        let result = mount::mount(ledger, plan, &point);
        let (mounted, mut facts) = match result {
            Ok(done) => done,
            Err(failure) => {
                self.hold_disks()?;
                return Err(failure);
            }
        };
        let attribute = mounted.read_ahead.clone();
        self.took = mounted.took;
        self.mounted = Some(mounted);
        match (attribute, self.wanted.read_ahead) {
            (Some(attribute), Some(wanted)) => facts.extend(settings::read_ahead(&attribute, wanted)?),
            (Some(attribute), None) => {
                let now = sysfs::number(&attribute).map(|kib| kib * 1024).ok();
                facts.insert("read_ahead".into(), json!(now));
            }
            (None, _) => {}
        }
        Ok(facts)
    }

    /// Takes the real disks again that nothing of ours lies on; layers hold theirs themselves.
    fn hold_disks(&mut self) -> Result<(), Failure> {
        if !self.layers.is_empty() {
            return Ok(());
        }
        disks_of(self.rig, &self.leaves).into_iter().try_for_each(Disk::hold)
    }

    /// What the last mount, unmount or change of the layers took, without our records and read-backs
    /// around it.
    #[must_use]
    pub fn took(&self) -> Took {
        self.took
    }

    /// Processes beside the mount whose CPU use the kernel has not added to ours yet: what serves it, and
    /// daemons that work on it.
    #[must_use]
    pub fn beside(&self) -> Vec<u32> {
        self.mounted.as_ref().map(Mounted::processes).unwrap_or_default()
    }

    /// Where the file system is mounted.
    #[must_use]
    pub fn mount_point(&self) -> Option<&Path> {
        self.mounted.as_ref().map(|m| m.point.as_path())
    }

    /// Where a workload may work: the mount point, or our folder in the given directory.
    #[must_use]
    pub fn data_root(&self) -> Option<&Path> {
        match &self.spec.directory {
            Some(_) => self.folder.as_ref().map(|f| f.path.as_path()),
            None => self.mount_point(),
        }
    }

    /// Unmounts; nothing mounted is no error.
    ///
    /// # Errors
    /// `TeardownFailed` with who still holds it; `Failed` if the daemon beside it was gone.
    pub fn unmount(&mut self) -> Result<(), Failure> {
        let deserted = self.mounted.as_ref().and_then(Mounted::deserted);
        self.detach()?;
        deserted.map_or(Ok(()), Err)
    }

    /// Unmounts, whatever became of the daemon.
    pub(super) fn detach(&mut self) -> Result<(), Failure> {
        if let Some(mounted) = &self.mounted {
            self.took = mounted.unmount()?;
            self.mounted = None;
        }
        self.hold_disks()
    }

    /// Gives the mounted file system new options without unmounting it, and sees that the kernel shows
    /// them as `key=value` afterwards.
    ///
    /// # Errors
    /// If nothing is mounted, or the kernel refuses or ignores them.
    pub fn reconfigure(&self, params: &[(String, Option<String>)]) -> Result<Facts, Failure> {
        match &self.mounted {
            Some(mounted) => reconfigure(mounted, params),
            None => Err(Failure::failed("nothing is mounted", "put a `mount` phase before")),
        }
    }

    /// Brings everything of the trial's file system to its device (`syncfs`).
    ///
    /// # Errors
    /// Of the file system, writeback errors included.
    pub fn sync(&self) -> Result<(), Failure> {
        match self.data_root() {
            Some(root) => folder::sync(root).map_err(|e| self.explain(Failure::io("cannot sync", root, &e))),
            None => Ok(()),
        }
    }

    /// Forgets clean cached pages, dentries and inodes of the whole host, after a sync.
    ///
    /// # Errors
    /// `Unsupported` without root.
    pub fn drop_caches(&self) -> Result<(), Failure> {
        self.sync()?;
        fs::write("/proc/sys/vm/drop_caches", "3").map_err(|error| {
            Failure::new(
                fsdyno_spec::outcome::Outcome::Unsupported,
                format!("the caches cannot be dropped: {error}"),
                "run as root on a host whose /proc/sys is writable",
            )
        })
    }

    /// Adds to a failure what often stands behind it: the disk below is full, so that a sparse
    /// backing file could not grow and the file system saw I/O errors.
    #[must_use]
    pub fn explain(&self, mut failure: Failure) -> Failure {
        if let Some(full) = self.full() {
            failure.reason.message = format!("{}; {full}", failure.reason.message);
            failure.reason.advice =
                Some("use `written` backing, a smaller device, or a folder with room".into());
        }
        failure
    }

    /// A sentence, if the disk below a sparse backing file is full.
    #[must_use]
    pub fn full(&self) -> Option<String> {
        let files =
            self.leaves.iter().filter_map(|leaf| if let Leaf::Loop(l) = leaf { Some(l) } else { None });
        files.into_iter().find_map(|leaf| leaf.full())
    }

    /// Runs a tool to its end, or kills its process group when `stop` is set or `deadline` passes. A
    /// real disk is let go while it runs. What its exit code means is the caller's to judge.
    ///
    /// # Errors
    /// `Unsupported` if there is no such program, `Cancelled`, `TimedOut`, `TeardownFailed` if it
    /// could not be killed, `Failed` if somebody took the disk meanwhile.
    pub fn tool(
        &mut self,
        command: &CommandLine,
        stop: &AtomicBool,
        deadline: Option<Instant>,
    ) -> Result<ToolOutput, Failure> {
        if self.layers.is_empty() {
            disks_of(self.rig, &self.leaves).into_iter().for_each(Disk::release);
        }
        let Some(ledger) = self.ledger.as_mut() else {
            return Err(Failure::failed("the trial is over", "begin another"));
        };
        let output = layer::run(ledger, command, stop, deadline);
        let held = if self.mounted.is_none() { self.hold_disks() } else { Ok(()) };
        // What the tool did comes first: a disk that cannot be held again may be its doing.
        output.and_then(|output| held.map(|()| output))
    }
}

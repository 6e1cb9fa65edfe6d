//! One trial's stack, from the bare devices to the mount point and back. Everything that a trial
//! creates is created here, after the ledger knows it, and undone by [`TrialStack::teardown`].

mod build;
mod live;
mod set;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use fsdyno_probe::counters::{Clock, Took};
use fsdyno_spec::trial::{Settings, Stack};

use crate::dirty::Limits;
use crate::disk::Disk;
use crate::failure::Failure;
use crate::folder::WorkFolder;
use crate::layer::{self, Change, Changed, Layer};
use crate::leaf::{Leaf, attached};
use crate::ledger::Ledger;
use crate::mount::Mounted;
use crate::rig::Rig;
use crate::settings::Facts;
use crate::sysfs::{self, BlockDevice};

/// The stack of one trial.
#[derive(Debug)]
pub struct TrialStack<'rig> {
    rig: &'rig mut Rig,
    ledger: Option<Ledger>,
    trial: String,
    spec: Stack,
    folder: Option<WorkFolder>,
    /// In slot order.
    leaves: Vec<Leaf>,
    /// From below to above.
    layers: Vec<Box<dyn Layer>>,
    /// What layers keep their files in, and the nonce that names them.
    scratch: Option<(WorkFolder, String)>,
    mounted: Option<Mounted>,
    /// What was asked for so far, the last of each.
    wanted: Settings,
    /// Queue attributes as they were after that: they are to stay so.
    standing: Vec<(String, &'static str, String)>,
    /// Limits of the host that this trial has changed.
    limits: Limits,
    took: Took,
}

impl<'rig> TrialStack<'rig> {
    pub(crate) fn new(rig: &'rig mut Rig, ledger: Ledger, trial: &str, spec: Stack) -> Self {
        Self {
            rig,
            ledger: Some(ledger),
            trial: trial.to_string(),
            spec,
            folder: None,
            leaves: Vec::new(),
            layers: Vec::new(),
            scratch: None,
            mounted: None,
            wanted: Settings::default(),
            standing: Vec::new(),
            limits: Limits::default(),
            took: Took::default(),
        }
    }

    /// The block device that the file system goes on, the top of the stack; none for a directory or in
    /// memory.
    #[must_use]
    pub fn device(&self) -> Option<&BlockDevice> {
        let top = self.layers.last().map(|layer| layer.device());
        top.or_else(|| self.leaves.first().map(Leaf::device))
    }

    /// Kernel names of the devices between the leaves and the file system, from below to above: the last
    /// one is what the file system sees. Empty where it sees a leaf.
    #[must_use]
    pub fn layers(&self) -> Vec<String> {
        self.layers.iter().map(|layer| layer.device().disk()).collect()
    }

    /// The devices that the next layer is built on: the leaves in slot order, or the one below.
    #[must_use]
    pub fn members(&self) -> Vec<BlockDevice> {
        match self.layers.last() {
            Some(layer) => vec![layer.device().clone()],
            None => self.leaves.iter().map(|leaf| leaf.device().clone()).collect(),
        }
    }

    /// Kernel names of the whole disks that count this stack's I/O, in slot order; of a directory, the
    /// disks under it.
    #[must_use]
    pub fn leaves(&self) -> Vec<String> {
        match (&self.spec.directory, &self.folder) {
            (Some(_), Some(folder)) => sysfs::disks_under(&folder.path),
            _ => self.leaves.iter().map(|leaf| leaf.device().disk()).collect(),
        }
    }

    /// Kernel names of the whole disks under the backing files, each once.
    #[must_use]
    pub fn underneath(&self) -> Vec<String> {
        let mut folders: Vec<&Path> = Vec::new();
        for leaf in &self.leaves {
            if let Leaf::Loop(leaf) = leaf
                && !folders.contains(&leaf.backing.folder.as_path())
            {
                folders.push(&leaf.backing.folder);
            }
        }
        let mut disks: Vec<String> = folders.into_iter().flat_map(sysfs::disks_under).collect();
        disks.sort();
        disks.dedup();
        disks
    }

    /// What the layers do by themselves now (a rebuild, a reshape, a check), if anything.
    #[must_use]
    pub fn at_work(&self) -> Option<String> {
        self.layers.iter().find_map(|layer| layer.at_work())
    }

    /// What of the layers may differ from phase to phase, by layer and name.
    #[must_use]
    pub fn state(&self) -> Facts {
        let states = self.layers.iter().map(|layer| (layer.part(), layer.state()));
        states
            .filter(|(_, state)| !state.is_empty())
            .map(|(part, state)| (part.to_string(), state.into_iter().collect()))
            .collect()
    }

    /// Changes the layers from below to above, and sees that the settings of the device on top are what
    /// they were. None if no layer is concerned; else what changed.
    ///
    /// # Errors
    /// What the kernel or a tool said.
    pub fn change(&mut self, change: &Change<'_>, stop: &AtomicBool) -> Result<Option<Facts>, Failure> {
        let (clock, mut done) = (Clock::start(&self.beside()), None::<Changed>);
        for index in 0..self.layers.len() {
            let changed =
                self.with_layer(index, stop, &mut |_, _| (), |layer, context| layer.change(context, change))?;
            if let Some(Changed { facts, took }) = changed {
                let all = done.get_or_insert_default();
                all.facts.extend(facts);
                all.took += took;
            }
        }
        let Some(Changed { mut facts, took }) = done else { return Ok(None) };
        // What our looks use in between is little beside the tools.
        self.took = Took { wall: took, cpu: clock.took(&self.beside()).cpu };
        facts.extend(self.put_again()?);
        Ok(Some(facts))
    }

    /// Lends a layer, and what it works with, to `work`.
    fn with_layer<T>(
        &mut self,
        index: usize,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&str, f64),
        work: impl FnOnce(&mut dyn Layer, &mut layer::Context<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let Self { rig, ledger, leaves, layers, scratch, .. } = self;
        let (Some(layer), Some(ledger), Some((folder, nonce))) =
            (layers.get_mut(index), ledger.as_mut(), scratch.as_ref())
        else {
            return Err(Failure::failed("there is no such layer", "build the stack first"));
        };
        let disks = if index == 0 { disks_of(rig, leaves) } else { Vec::new() };
        let mut context = layer::Context { ledger, folder: &folder.path, nonce, stop, progress, disks };
        work(layer.as_mut(), &mut context)
    }

    /// Takes everything down that stands, in reverse order, as far as it goes. The failures, a
    /// sentence each; if there are none, the ledger is gone.
    pub fn teardown(mut self) -> Vec<String> {
        self.undo()
    }

    fn undo(&mut self) -> Vec<String> {
        let mut failures = Vec::new();
        let mut note = |result: Result<(), Failure>| {
            if let Err(failure) = result {
                failures.push(failure.to_string());
            }
        };
        note(self.detach());
        note(self.limits.restore());
        let mounted = self.mounted.is_some();
        while !mounted && !self.layers.is_empty() {
            let down = self.with_layer(
                self.layers.len() - 1,
                &AtomicBool::new(false),
                &mut |_, _| (),
                |layer, context| layer.take_down(context),
            );
            let stands = down.is_err();
            note(down);
            if stands {
                break;
            }
            self.layers.pop();
        }
        let used = mounted || !self.layers.is_empty();
        // In slot order, so that the rig gets the files back in the order in which they were taken. If
        // something still uses them, the kernel lets them go when that ends.
        for leaf in std::mem::take(&mut self.leaves).into_iter().filter(|_| !used) {
            match leaf {
                Leaf::Loop(leaf) => note(leaf.let_go(self.rig)),
                // Nothing of ours but a layer holds it, and the next trial needs it.
                Leaf::Attached(device) => note(attached::let_go(&device)),
                Leaf::Disk(link, _) => {
                    if let Some(disk) = self.rig.disks.get_mut(&link) {
                        note(disk.wipe());
                        note(disk.restore());
                    }
                }
            }
        }
        let folders = [self.scratch.take().map(|(folder, _)| folder), self.folder.take()];
        for folder in folders.into_iter().flatten().filter(|_| !used) {
            note(folder.remove().map_err(|e| Failure::io("cannot remove", &folder.path, &e)));
        }
        if let Some(ledger) = self.ledger.take().filter(|_| failures.is_empty())
            && let Err(error) = ledger.discard()
        {
            failures.push(format!("the ledger cannot be removed: {error}"));
        }
        failures
    }
}

impl Drop for TrialStack<'_> {
    /// A stack that was not taken down (a panic) is taken down here; the ledger tells the rest.
    fn drop(&mut self) {
        if self.ledger.is_some() {
            self.undo();
        }
    }
}

/// The real disks among the leaves, in no particular order.
fn disks_of<'a>(rig: &'a mut Rig, leaves: &[Leaf]) -> Vec<&'a mut Disk> {
    let links: Vec<&PathBuf> = leaves.iter().filter_map(Leaf::link).collect();
    rig.disks.iter_mut().filter(|(link, _)| links.contains(link)).map(|(_, disk)| disk).collect()
}

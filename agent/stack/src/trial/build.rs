//! Making a trial's stack, up to, but not with, the file system.

use std::path::Path;
use std::sync::Arc;

use fsdyno_filesystems::Geometry;
use fsdyno_spec::event::{Built, Refusal};
use fsdyno_spec::outcome::Outcome;
use fsdyno_spec::trial::{Device, FileDevice};
use fsdyno_spec::units::Bytes;
use serde_json::json;

use super::TrialStack;
use crate::array::MdArray;
use crate::backing::wipe_signatures;
use crate::disk::{self, Disk, open_exclusive};
use crate::failure::{Failure, Refused};
use crate::folder::{self, WorkFolder};
use crate::identity::nonce;
use crate::layer::{Context, Layer};
use crate::leaf::looped::Looped;
use crate::leaf::{Leaf, attached, slots};
use crate::lvm::{Group, Stripes};
use crate::settings::{self, Facts, LAYER_NEEDS};
use crate::sysfs::{self, BlockDevice};
use crate::trial::disks_of;

impl TrialStack<'_> {
    /// Makes the stack up to, but not with, the file system: the devices with their queues reset, the
    /// layers on them, and the settings applied and proved; or the work folder in the given directory.
    /// `needs_device` is false for file systems in memory, which take none of the devices. `minimum` is
    /// the smallest device that the file system's mkfs takes. `progress` is told what is being done and
    /// the share that is done.
    ///
    /// # Errors
    /// A refusal with advice; [`TrialStack::teardown`] undoes what stood by then.
    pub fn build(
        &mut self,
        needs_device: bool,
        minimum: Bytes,
        progress: &mut dyn FnMut(&str, f64),
    ) -> Result<Vec<Built>, Refused> {
        if let Some(directory) = self.spec.directory.clone() {
            return Ok(vec![self.build_directory(&directory)?]);
        }
        self.folder = Some(self.make_folder(&self.rig.options.work.clone())?);
        if !needs_device {
            return Ok(Vec::new());
        }
        let mut built = self.build_leaves(minimum, progress)?;
        built.extend(self.build_layers(minimum, progress)?);
        let settings = self.spec.settings.clone();
        let applied = self.set(&settings)?;
        let mut facts = self.device().map(|d| settings::queue_facts(&d.disk())).unwrap_or_default();
        if !self.layers.is_empty() {
            let leaves = self.leaves();
            let queues: serde_json::Map<_, _> =
                leaves.into_iter().map(|name| (name.clone(), json!(settings::queue_facts(&name)))).collect();
            facts.insert("leaves".into(), queues.into());
        }
        facts.extend(applied);
        built.push(Built { part: "settings".into(), facts });
        Ok(built)
    }

    fn make_folder(&mut self, parent: &Path) -> Result<WorkFolder, Refused> {
        let made = nonce().and_then(|nonce| {
            let ledger = self.ledger.as_mut().ok_or_else(|| std::io::Error::other("the trial is over"))?;
            WorkFolder::make(ledger, parent, &format!("fsdyno-{nonce}"))
        });
        made.map_err(|error| Refused::io("cannot make a folder in", parent, &error))
    }

    fn build_directory(&mut self, directory: &Path) -> Result<Built, Refused> {
        if !self.spec.settings.is_empty() {
            return Err(Refused::new(
                Refusal::BadRequest,
                "kernel settings of a directory's device belong to its owner and are not changed",
                "leave `stack.settings` out",
            ));
        }
        let directory = folder::offered(directory)?;
        let folder = self.make_folder(&directory)?;
        let mut facts = Facts::from([
            ("directory".to_string(), json!(directory)),
            ("folder".to_string(), json!(folder.path)),
            ("disks".to_string(), json!(sysfs::disks_under(&directory))),
        ]);
        // The mount whose point is the longest prefix, the latest of equals, serves the directory.
        let mounts = crate::mountinfo::read().unwrap_or_default();
        let below = mounts.iter().filter(|m| directory.starts_with(&m.point));
        if let Some(mount) = below.max_by_key(|m| m.point.as_os_str().len()) {
            facts.insert("fstype".into(), json!(mount.fstype));
            facts.insert("source".into(), json!(mount.source));
            facts.insert("mount_point".into(), json!(mount.point));
            facts.insert("mount_options".into(), json!(mount.options));
            facts.insert("super_options".into(), json!(mount.super_options));
        }
        self.folder = Some(folder);
        Ok(Built { part: "directory".into(), facts })
    }

    /// Makes each leaf, in slot order.
    fn build_leaves(
        &mut self,
        minimum: Bytes,
        progress: &mut dyn FnMut(&str, f64),
    ) -> Result<Vec<Built>, Refused> {
        let devices = slots(&self.spec.devices)?;
        let layered = self.spec.array.is_some() || self.spec.lvm.is_some();
        if devices.len() > 1 && !layered {
            return Err(Refused::new(
                Refusal::BadRequest,
                format!("{} devices, and nothing that makes one of them", devices.len()),
                "add `stack.array` or `stack.lvm`, or give `stack.devices` one entry without `count`",
            ));
        }
        let (all, smallest) = (devices.len(), if layered { Bytes(1) } else { minimum });
        let mut built = Vec::new();
        for (slot, device) in devices.iter().enumerate() {
            let mut overall = |doing: &str, share: f64| progress(doing, (slot as f64 + share) / all as f64);
            let (leaf, mut facts) = match device {
                Device::File(file) => self.build_file(file, smallest, &mut overall)?,
                Device::Disk(disk) => self.build_disk(&disk.path, smallest)?,
            };
            self.leaves.push(leaf);
            facts.insert("slot".into(), json!(slot));
            built.push(Built { part: "device".into(), facts });
        }
        Ok(built)
    }

    fn build_file(
        &mut self,
        spec: &FileDevice,
        minimum: Bytes,
        progress: &mut dyn FnMut(&str, f64),
    ) -> Result<(Leaf, Facts), Refused> {
        check_size(spec.size, minimum)?;
        if self.rig.options.attached {
            let (device, facts) = attached::take(self.rig, spec, &self.leaves())?;
            return Ok((Leaf::Attached(device), facts));
        }
        let Some(ledger) = self.ledger.as_mut() else { return Err(over()) };
        let (leaf, facts) = Looped::build(self.rig, ledger, &self.trial, spec, progress)?;
        Ok((Leaf::Loop(leaf), facts))
    }

    fn build_disk(&mut self, link: &Path, minimum: Bytes) -> Result<(Leaf, Facts), Refused> {
        if self.rig.options.attached {
            return Err(Refused::new(
                Refusal::BadRequest,
                format!("{} is a disk of the rig, and this machine was given images only", link.display()),
                "measure real disks natively (leave `machine` out), or use `file` devices",
            ));
        }
        if !self.rig.disks.contains_key(link) {
            let options = &self.rig.options;
            let disk = Disk::claim(link, &options.destroy, &options.state)?;
            self.rig.disks.insert(link.to_path_buf(), disk);
        }
        let (Some(disk), Some(ledger)) = (self.rig.disks.get_mut(link), self.ledger.as_mut()) else {
            return Err(over());
        };
        disk.verify()?;
        disk.hold().map_err(|failure| Refused { refusal: Refusal::Unsafe, ..failure.into() })?;
        check_size(disk.device.size, minimum)?;
        let leaf = Leaf::Disk(link.to_path_buf(), disk.device.clone());
        if let Err(failure) = disk.reset(ledger) {
            // It counts as ours from here: what of its queue was changed is put back.
            self.leaves.push(leaf);
            return Err(failure.into());
        }
        let facts = Facts::from([
            ("kind".to_string(), json!("disk")),
            ("path".to_string(), json!(link)),
            ("kernel_name".to_string(), json!(disk.device.kernel_name)),
            ("size".to_string(), json!(disk.device.size)),
            ("logical_block_size".to_string(), json!(disk.device.logical_block_size)),
            ("serial".to_string(), json!(disk::serial(&disk.device))),
        ]);
        Ok((leaf, facts))
    }

    /// Makes the layers that the stack asks for, from below to above: each finds a blank device below
    /// it and leaves one above.
    fn build_layers(
        &mut self,
        minimum: Bytes,
        progress: &mut dyn FnMut(&str, f64),
    ) -> Result<Vec<Built>, Refused> {
        let mut built = Vec::new();
        if let Some(spec) = self.spec.array.clone() {
            built.push(self.build_layer(progress, |context, below| MdArray::build(context, &spec, below))?);
        }
        if let Some(spec) = self.spec.lvm.clone() {
            let stripes = match self.declared_stripe()? {
                Some(stripe) => Stripes::Declared(stripe),
                None if self.spec.array.is_some() => Stripes::Announced,
                None => Stripes::None,
            };
            let build = |context: &mut Context<'_>, below: &[BlockDevice]| {
                Group::build(context, &spec, below, stripes)
            };
            built.push(self.build_layer(progress, build)?);
        }
        if let Some(layer) = self.layers.last() {
            check_size(layer.device().size, minimum)?;
        }
        Ok(built)
    }

    /// Stripe of a hardware array, where the plan declares one.
    fn declared_stripe(&self) -> Result<Option<Bytes>, Refused> {
        let Some(spec) = &self.spec.geometry else { return Ok(None) };
        let geometry = Geometry::of(spec.level, spec.members, Some(spec.chunk), spec.layout.as_deref());
        let geometry = geometry.map_err(|reason| Refused {
            refusal: Refusal::BadRequest,
            outcome: Outcome::Failed,
            reason,
        })?;
        Ok(geometry.map(|geometry| geometry.stripe()))
    }

    /// Makes one layer by `make`, which is told the devices below and undoes what it made if it fails.
    fn build_layer(
        &mut self,
        progress: &mut dyn FnMut(&str, f64),
        make: impl FnOnce(&mut Context<'_>, &[BlockDevice]) -> Result<Box<dyn Layer>, Failure>,
    ) -> Result<Built, Refused> {
        if self.scratch.is_none() {
            let fail = |error| Refused::io("cannot name things in", &self.rig.options.work, &error);
            let nonce = nonce().map_err(fail)?;
            let folder = self.make_folder(&self.rig.options.work.clone())?;
            self.scratch = Some((folder, nonce));
        }
        let (members, stop) = (self.members(), Arc::clone(&self.rig.stop));
        let first = self.layers.is_empty();
        let Self { rig, ledger, leaves, scratch, .. } = self;
        let (Some(ledger), Some((folder, nonce))) = (ledger.as_mut(), scratch.as_ref()) else {
            return Err(over());
        };
        let disks = if first { disks_of(rig, leaves) } else { Vec::new() };
        let mut context = Context { ledger, folder: &folder.path, nonce, stop: &stop, progress, disks };
        let layer = make(&mut context, &members)?;
        let (part, device) = (layer.part().to_string(), layer.device().clone());
        self.layers.push(layer);
        let io = |error| Refused::io("cannot prepare", &device.path, &error);
        // What an earlier trial wrote through other layers may lie where this device begins or ends.
        let raw = open_exclusive(&device).map_err(io)?;
        wipe_signatures(&raw, device.size.0).map_err(io)?;
        drop(raw);
        settings::assert_all(&device.disk(), &LAYER_NEEDS)?;
        let facts = self.layers.last().map(|layer| layer.facts()).unwrap_or_default();
        Ok(Built { part, facts })
    }
}

fn over() -> Refused {
    Refused::environment("the trial is over", "begin another")
}

fn check_size(size: Bytes, minimum: Bytes) -> Result<(), Refused> {
    if size.0 >= minimum.0 && size.0 > 0 {
        return Ok(());
    }
    Err(Refused::new(
        Refusal::BadRequest,
        format!("a device of {size} is too small: this file system needs {minimum}"),
        format!("give the device at least {minimum}"),
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use fsdyno_spec::trial::{Backing, Stack};

    use super::*;
    use crate::rig::{Rig, RigOptions};

    /// What was taken down, in order.
    static DOWN: Mutex<Vec<&str>> = Mutex::new(Vec::new());

    /// Passes one of the devices below on.
    #[derive(Debug)]
    struct Through(&'static str, BlockDevice);

    impl Layer for Through {
        fn part(&self) -> &'static str {
            self.0
        }

        fn device(&self) -> &BlockDevice {
            &self.1
        }

        fn facts(&self) -> Facts {
            Facts::from([("name".to_string(), json!(self.0))])
        }

        fn take_down(&mut self, context: &mut Context<'_>) -> Result<(), Failure> {
            assert!(context.folder.exists());
            // Leaves stand until the last layer is down.
            BlockDevice::open(&self.1.path).map_err(|e| Failure::io("gone", &self.1.path, &e))?;
            DOWN.lock().unwrap().push(self.0);
            Ok(())
        }
    }

    #[test]
    fn leaves_stand_in_slot_order_below_layers_that_are_taken_down_first() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: making devices needs root");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (state, work) = (folder.path().join("state"), folder.path().join("work"));
        let mut rig = Rig::open(RigOptions { state, work, ..RigOptions::default() }).unwrap();
        let file = |mib, count| {
            let (size, backing) = (Bytes::mib(mib), Backing::Written);
            Device::File(FileDevice { size, backing, logical_block_size: Bytes(512), folder: None, count })
        };
        let spec = Stack {
            devices: vec![file(4, 2), file(8, 1)],
            lvm: Some(fsdyno_spec::array::Lvm::default()),
            ..Stack::default()
        };
        let mut inodes = Vec::new();
        for name in ["a", "b"] {
            let mut trial = rig.begin(name, &spec).unwrap();
            let mut shares = Vec::new();
            let built = trial.build_leaves(Bytes::mib(100), &mut |_, share| shares.push(share)).unwrap();
            assert!(shares.is_sorted() && shares.iter().all(|share| *share <= 1.0), "{shares:?}");
            let told = |key: &str| built.iter().map(|b| b.facts[key].clone()).collect::<Vec<_>>();
            assert_eq!(told("slot"), [0, 1, 2]);
            assert_eq!(told("size"), [Bytes::mib(4).0, Bytes::mib(4).0, Bytes::mib(8).0]);
            let sizes: Vec<_> = trial.members().iter().map(|member| member.size).collect();
            assert_eq!(sizes, [Bytes::mib(4), Bytes::mib(4), Bytes::mib(8)]);
            assert!(trial.layers().is_empty());
            inodes.push(trial.leaves.iter().map(file_of).collect::<Vec<_>>());
            for part in ["lower", "upper"] {
                let last = trial.members().pop().unwrap();
                let made = trial.build_layer(&mut |_, _| (), |_, members| {
                    assert_eq!(members.last(), Some(&last));
                    Ok(Box::new(Through(part, last.clone())))
                });
                assert_eq!(made.unwrap().facts["name"], part);
            }
            assert_eq!(trial.leaves().len(), 3, "what counts stays the leaves");
            assert_eq!(
                (trial.layers().pop(), trial.device().unwrap().size),
                (Some(trial.leaves()[2].clone()), Bytes::mib(8))
            );
            assert!(trial.teardown().is_empty());
            assert_eq!(std::mem::take(&mut *DOWN.lock().unwrap()), ["upper", "lower"]);
        }
        assert_eq!(inodes[0], inodes[1], "each slot has the same file in each trial");
    }

    fn file_of(leaf: &Leaf) -> u64 {
        match leaf {
            Leaf::Loop(leaf) => leaf.backing.identity.ino,
            _ => 0,
        }
    }
}

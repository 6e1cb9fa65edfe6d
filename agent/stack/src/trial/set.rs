//! Kernel settings of a stack that stands, each at its layer: scheduler and requests at the leaves, the
//! cache mode at the device that the file system sees, read-ahead at the file system's own info, dirty
//! limits at the host. One setting does not undo another: what the kernel changes along is put again.

use std::path::PathBuf;

use fsdyno_spec::outcome::Outcome;
use fsdyno_spec::trial::{Settings, WriteCache};
use fsdyno_spec::units::Bytes;
use serde_json::json;

use super::TrialStack;
use crate::failure::Failure;
use crate::settings::{self, Facts};
use crate::sysfs;

impl TrialStack<'_> {
    /// Applies and proves settings. Read-ahead goes to the mounted file system, before a mount to the
    /// device on top, and again to each later mount.
    ///
    /// # Errors
    /// If the kernel does not take one, or the effect is not seen; `Unsupported` where there is no
    /// such layer, as with file systems in memory.
    pub fn set(&mut self, settings: &Settings) -> Result<Facts, Failure> {
        let (Some(device), leaves) = (self.device().cloned(), self.leaves()) else {
            if settings.is_empty() {
                return Ok(Facts::new());
            }
            return Err(Failure::new(
                Outcome::Unsupported,
                "there is no device of ours whose settings could be changed",
                "leave the settings out for file systems in memory and for directories",
            ));
        };
        let attribute = self.read_ahead_attribute();
        // The kernel computes read-ahead anew when the cache mode changes: it must not pass unnoticed.
        let before = attribute.as_ref().and_then(|path| sysfs::number(path).map(Bytes::kib).ok());
        self.remember(settings);
        let mut facts = Facts::new();
        let requests =
            settings.nr_requests.or(self.wanted.nr_requests.filter(|_| settings.scheduler.is_some()));
        for leaf in &leaves {
            settings::apply_queue(leaf, settings.scheduler.as_deref(), requests)?;
        }
        if let Some(scheduler) = &settings.scheduler {
            facts.insert("scheduler".into(), json!(scheduler));
        }
        if let Some(requests) = requests {
            facts.insert("nr_requests".into(), json!(requests));
        }
        if let Some(mode) = settings.write_cache {
            facts.extend(settings::write_cache(&device, &leaves, mode)?);
        }
        if let (Some(attribute), Some(wanted), false) =
            (attribute, settings.read_ahead.or(before), settings.is_empty())
        {
            facts.extend(settings::read_ahead(&attribute, wanted)?);
        }
        if let Some(ledger) = self.ledger.as_mut() {
            facts.extend(self.limits.apply(ledger, settings)?);
        }
        self.standing = settings::standing(&self.queues());
        Ok(facts)
    }

    /// Whether the queue of the device that the file system sees takes no flushes.
    #[must_use]
    pub fn is_write_through(&self) -> bool {
        let mode = self.device().map(|device| settings::get(&device.disk(), "write_cache"));
        mode.is_some_and(|mode| mode.is_ok_and(|mode| mode == settings::mode_name(WriteCache::WriteThrough)))
    }

    /// Where read-ahead is set now.
    fn read_ahead_attribute(&self) -> Option<PathBuf> {
        let own = self.mounted.as_ref().and_then(|mounted| mounted.read_ahead.clone());
        own.or_else(|| Some(sysfs::queue(&self.device()?.kernel_name).join("read_ahead_kb")))
    }

    /// The last wish for each setting counts.
    fn remember(&mut self, settings: &Settings) {
        let wanted = &mut self.wanted;
        let new = settings.clone();
        wanted.read_ahead = new.read_ahead.or(wanted.read_ahead);
        wanted.scheduler = new.scheduler.or(wanted.scheduler.take());
        wanted.write_cache = new.write_cache.or(wanted.write_cache);
        wanted.nr_requests = new.nr_requests.or(wanted.nr_requests);
        wanted.dirty_bytes = new.dirty_bytes.or(wanted.dirty_bytes);
        wanted.dirty_background_bytes = new.dirty_background_bytes.or(wanted.dirty_background_bytes);
    }

    /// Kernel names of all devices with a queue: leaves, then layers.
    fn queues(&self) -> Vec<String> {
        let layers = self.layers.iter().map(|layer| layer.device().disk());
        self.leaves().into_iter().chain(layers).collect()
    }

    /// Sees that no queue attribute has changed since it was last set, whoever changed it. Cheap enough
    /// to be asked before each phase.
    ///
    /// # Errors
    /// The first that has.
    pub fn assert_settings(&self) -> Result<(), Failure> {
        for (device, attribute, value) in &self.standing {
            match settings::get(device, attribute) {
                Ok(found) if found != *value => {
                    let message = format!("{attribute} of {device} became `{found}`; it was `{value}`");
                    let advice = "find out what changed it (a tool, a udev rule, a tuning service)";
                    return Err(Failure::failed(message, advice));
                }
                // A member that was taken out may be gone.
                _ => {}
            }
        }
        Ok(())
    }

    /// Puts again what a change of the layers has reset, and says what that was.
    pub(super) fn put_again(&mut self) -> Result<Facts, Failure> {
        let reset: Vec<String> = self
            .standing
            .iter()
            .filter(|(device, name, value)| settings::get(device, name).is_ok_and(|found| found != *value))
            .map(|(device, name, _)| format!("{name} of {device}"))
            .collect();
        // The host's limits are nobody's layer.
        let wanted = Settings { dirty_bytes: None, dirty_background_bytes: None, ..self.wanted.clone() };
        let mut facts = self.set(&wanted)?;
        if !reset.is_empty() {
            facts.insert("put_again".into(), json!(reset));
        }
        Ok(facts)
    }
}

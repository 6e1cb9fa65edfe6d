//! Changing options of a mounted file system (`mount -o remount`) by `fspick` and `fsconfig`, and the
//! proof that the kernel took them: some take an option and ignore it.

use std::io;

use fsdyno_filesystems::spell_parameter;
use fsdyno_spec::outcome::Outcome;
use rustix::fs::CWD;
use rustix::mount::{FsPickFlags, fsconfig_reconfigure, fsconfig_set_flag, fsconfig_set_string, fspick};
use serde_json::json;

use crate::failure::Failure;
use crate::mount::Mounted;
use crate::mountinfo;
use crate::settings::Facts;

/// Gives a mount of ours these parameters, and sees them in mountinfo as `key=value` afterwards.
///
/// # Errors
/// If the kernel refuses, or does not show what it was told: then it did not take it.
pub fn reconfigure(mounted: &Mounted, params: &[(String, Option<String>)]) -> Result<Facts, Failure> {
    let shown = || params.iter().map(spell_parameter).collect::<Vec<_>>().join(",");
    let fail = |error: io::Error| {
        Failure::new(
            Outcome::Failed,
            format!("the kernel refuses `remount,{}` at {}: {error}", shown(), mounted.point.display()),
            "look into the kernel log; a fresh mount may take what a remount does not",
        )
    };
    let context =
        fspick(CWD, &mounted.point, FsPickFlags::FSPICK_CLOEXEC | FsPickFlags::FSPICK_SYMLINK_NOFOLLOW)
            .map_err(|errno| fail(errno.into()))?;
    for (key, value) in params {
        let set = match value {
            Some(value) => fsconfig_set_string(&context, key.as_str(), value.as_str()),
            None => fsconfig_set_flag(&context, key.as_str()),
        };
        set.map_err(|errno| fail(errno.into()))?;
    }
    fsconfig_reconfigure(&context).map_err(|errno| fail(errno.into()))?;
    let mounts = mountinfo::read().map_err(fail)?;
    let line = mounts.into_iter().rfind(|mount| mount.point == mounted.point);
    let options = line.map(|mount| mount.super_options).unwrap_or_default();
    for param in params {
        let wanted = spell_parameter(param);
        if !options.split(',').any(|word| word == wanted) {
            let message = format!("the kernel took `remount,{wanted}` and ignored it: it shows `{options}`");
            return Err(Failure::failed(message, "unmount and mount it anew with this option"));
        }
    }
    Ok(Facts::from([("super_options".to_string(), json!(options))]))
}

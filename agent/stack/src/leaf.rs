//! The leaf devices of a trial: where the stack ends and I/O is counted. Whatever a leaf is, it looks
//! the same at the start of each trial: blank, with its queue at known values.

pub mod attached;
pub mod looped;

use std::path::PathBuf;

use fsdyno_spec::event::Refusal;
use fsdyno_spec::trial::Device;

use crate::failure::Refused;
use crate::leaf::looped::Looped;
use crate::sysfs::BlockDevice;

/// Devices that one trial may have: names, descriptors and a guest's slots stay few.
pub const MOST: usize = 64;

/// A leaf that stands.
#[derive(Debug)]
pub enum Leaf {
    /// A loop device on a file that we made.
    Loop(Looped),
    /// A real disk, held by the rig under this link.
    Disk(PathBuf, BlockDevice),
    /// A disk that the machine was given for this.
    Attached(BlockDevice),
}

impl Leaf {
    /// The block device.
    pub fn device(&self) -> &BlockDevice {
        match self {
            Self::Loop(leaf) => &leaf.device,
            Self::Disk(_, device) | Self::Attached(device) => device,
        }
    }

    /// The link of a real disk.
    pub fn link(&self) -> Option<&PathBuf> {
        match self {
            Self::Disk(link, _) => Some(link),
            _ => None,
        }
    }
}

/// The devices of a stack in slot order, one entry each: what has a `count` is repeated.
///
/// # Errors
/// `BadRequest` if there is none, or there are more than [`MOST`].
pub fn slots(devices: &[Device]) -> Result<Vec<Device>, Refused> {
    let spelt: Vec<Device> = devices
        .iter()
        .flat_map(|device| match device {
            Device::File(file) => {
                let mut one = file.clone();
                one.count = 1;
                vec![Device::File(one); (file.count as usize).min(MOST + 1)]
            }
            Device::Disk(_) => vec![device.clone()],
        })
        .collect();
    if spelt.is_empty() || spelt.len() > MOST {
        let message = format!("a stack has 1 to {MOST} devices, not {}", spelt.len());
        return Err(Refused::new(Refusal::BadRequest, message, "change `stack.devices` or a `count` in it"));
    }
    let links: Vec<_> =
        spelt.iter().filter_map(|d| if let Device::Disk(d) = d { Some(&d.path) } else { None }).collect();
    if let Some(twice) = links.iter().enumerate().find(|(n, link)| links[..*n].contains(link)) {
        let message = format!("{} is in `stack.devices` twice", twice.1.display());
        return Err(Refused::new(Refusal::BadRequest, message, "name each disk once"));
    }
    Ok(spelt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_spec::trial::{Backing, DiskDevice, FileDevice};
    use fsdyno_spec::units::Bytes;

    fn file(mib: u64, count: u32) -> Device {
        let (size, backing) = (Bytes::mib(mib), Backing::Sparse);
        Device::File(FileDevice { size, backing, logical_block_size: Bytes(512), folder: None, count })
    }

    #[test]
    fn slots_follow_the_list_with_every_count_spelt_out() {
        let spelt = slots(&[file(1, 2), file(2, 1), file(3, 2)]).unwrap();
        assert_eq!(spelt, [file(1, 1), file(1, 1), file(2, 1), file(3, 1), file(3, 1)]);
    }

    #[test]
    fn no_device_too_many_and_the_same_disk_twice_are_refused() {
        let disk = Device::Disk(DiskDevice { path: "/dev/disk/by-id/a".into() });
        for wrong in
            [vec![], vec![file(1, 0)], vec![file(1, 65)], vec![file(1, u32::MAX)], vec![disk.clone(), disk]]
        {
            assert_eq!(slots(&wrong).unwrap_err().refusal, Refusal::BadRequest);
        }
        assert_eq!(slots(&[file(1, 64)]).unwrap().len(), MOST);
    }
}

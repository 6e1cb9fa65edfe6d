//! Which disks a guest gets: those of the trial that it is booted for, and those that the last guest of
//! the same machine had, so that a round of different stacks does not boot for each.

use fsdyno_spec::outcome::Reason;
use fsdyno_spec::trial::{Device, FileDevice, Stack};

/// The disks that a stack needs, one entry each.
///
/// # Errors
/// If one of its devices cannot go into a guest.
pub fn disks(stack: &Stack) -> Result<Vec<FileDevice>, Reason> {
    let mut found = Vec::new();
    if stack.directory.is_some() {
        return Err(
            Reason::new("a directory of the rig cannot be measured in a guest").advise("leave `machine` out")
        );
    }
    for device in &stack.devices {
        match device {
            Device::File(file) => {
                found.extend((0..file.count).map(|_| FileDevice { count: 1, ..file.clone() }));
            }
            Device::Disk(disk) => {
                let message = format!("{} cannot be used in a guest", disk.path.display());
                return Err(Reason::new(message).advise("use a `file` device, or leave `machine` out"));
            }
        }
    }
    if found.len() > 64 {
        let message = format!("a guest takes 64 disks, not {}", found.len());
        return Err(Reason::new(message).advise("use fewer devices"));
    }
    Ok(found)
}

/// Whether there is a disk for each that is needed.
pub fn holds(has: &[FileDevice], needed: &[FileDevice]) -> bool {
    needed.iter().all(|one| count(has, one) >= count(needed, one))
}

/// The disks of both: of equal ones, as many as the one that has more.
pub fn union(had: &[FileDevice], needed: &[FileDevice]) -> Vec<FileDevice> {
    // A guest tells its disks apart by size and block size only.
    let alike = |a: &FileDevice, b: &FileDevice| {
        (a.size, a.logical_block_size) == (b.size, b.logical_block_size) && a != b
    };
    if had.iter().any(|one| needed.iter().any(|other| alike(one, other))) {
        return needed.to_vec();
    }
    let mut all = had.to_vec();
    for one in needed {
        if count(&all, one) < count(needed, one) {
            all.push(one.clone());
        }
    }
    // Too many for one machine: then only what this trial needs.
    if all.len() > 64 { needed.to_vec() } else { all }
}

fn count(of: &[FileDevice], one: &FileDevice) -> usize {
    of.iter().filter(|other| *other == one).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_spec::trial::Backing;
    use fsdyno_spec::units::Bytes;

    fn disk(mib: u64) -> FileDevice {
        FileDevice {
            size: Bytes::mib(mib),
            backing: Backing::Sparse,
            logical_block_size: Bytes(512),
            folder: None,
            count: 1,
        }
    }

    #[test]
    fn a_guest_serves_trials_that_need_no_more_disks_than_it_has() {
        let has = [disk(1), disk(1), disk(2)];
        assert!(holds(&has, &[disk(1), disk(1)]) && holds(&has, &[disk(2)]) && holds(&has, &[]));
        assert!(!holds(&has, &[disk(2), disk(2)]) && !holds(&has, &[disk(3)]));
    }

    #[test]
    fn the_next_guest_has_the_disks_of_the_last_one_too() {
        let all = union(&[disk(1), disk(1)], &[disk(1), disk(2)]);
        assert_eq!(all, [disk(1), disk(1), disk(2)]);
        let many = |n| vec![disk(1); n];
        assert!(holds(&union(&many(4), &many(12)), &many(12)));
        let written = FileDevice { backing: Backing::Written, ..disk(1) };
        assert_eq!(union(&[disk(1)], std::slice::from_ref(&written)), [written]);
    }

    #[test]
    fn devices_of_the_rig_do_not_go_into_a_guest() {
        let stack = Stack { directory: Some("/x".into()), ..Stack::default() };
        assert!(disks(&stack).is_err());
        let many = FileDevice { count: 12, ..disk(1) };
        let stack = Stack { devices: vec![Device::File(many)], ..Stack::default() };
        assert_eq!(disks(&stack).map_or(0, |disks| disks.len()), 12);
    }
}

//! Live stacks of this host, read from top to bottom: partitions and labels that really are there.

mod common;

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Foreign, run, unmount};
use fsdyno_spec::record::{LayerKind, StackLayer};
use fsdyno_spec::units::Bytes;
use fsdyno_stack::walk::{Walked, array_under, walk};
use rustix::mount::{MountFlags, mount};

/// A file of `size` MiB as a device.
fn attached(folder: &Path, name: &str, size: u64) -> Foreign {
    let path = folder.join(name);
    File::create(&path).unwrap().set_len(size << 20).unwrap();
    Foreign::attach(&path)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

fn mounted(device: &Path, point: &Path, fstype: &str) {
    fs::create_dir_all(point).unwrap();
    mount(device, point, fstype, MountFlags::NOATIME, None).unwrap();
}

fn first(walked: &Walked) -> &StackLayer {
    &walked.layers[0]
}

#[test]
fn the_root_is_read_down_to_what_it_lies_on() {
    let walked = walk(Path::new("/")).unwrap();
    let mount = walked.mount.as_ref().unwrap();
    assert_eq!(mount.point, "/");
    assert_eq!(walked.fstype.as_ref(), Some(&mount.fstype));
    match walked.layers.first() {
        Some(layer) => {
            assert_eq!(layer.name, walked.on[0]);
            assert!(layer.size > Bytes(0));
            assert!(layer.queue["logical_block_size"].as_u64().unwrap() >= 512, "{:?}", layer.queue);
        }
        None => assert_eq!(walked.unseen[0].what, "layer"),
    }
}

#[test]
fn files_that_lie_on_no_device_are_told_with_their_mount() {
    let walked = walk(Path::new("/proc/self/status")).unwrap();
    assert_eq!((walked.fstype.as_deref(), walked.layers.len()), (Some("proc"), 0));
    assert_eq!(walked.unseen.len(), 1);
    assert!(walked.unseen[0].reason.advice.is_some());
}

#[test]
fn a_device_without_an_array_below_is_no_array() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let device = attached(folder.path(), "plain", 16);
    let reason = array_under(&device.path).unwrap_err();
    assert!(reason.message.contains("no array"), "{reason:?}");
    assert!(reason.advice.unwrap().contains("--level"));
}

/// A disk with a second partition from sector 63 on, as old partitioning tools made them. The kernel is
/// told, not a table: this host's may read none.
struct Partitioned(Foreign);

impl Partitioned {
    fn of(disk: Foreign) -> Self {
        run("addpart", &[&disk.path.to_string_lossy(), "2", "63", "8192"]);
        Self(disk)
    }
}

impl Drop for Partitioned {
    fn drop(&mut self) {
        let _ = Command::new("delpart").arg(&self.0.path).arg("2").output();
    }
}

#[test]
fn a_partition_at_sector_63_lies_32256_bytes_behind_the_start_of_its_disk() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let device = Partitioned::of(attached(folder.path(), "disk", 16));
    let disk = name(&device.0.path);
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(format!("{}p2", device.0.path.display()), &link).unwrap();
    let walked = walk(&link).unwrap();
    assert_eq!((walked.mount.is_none(), &walked.on), (true, &vec![format!("{disk}p2")]));
    // The file behind the device is on a stack of its own.
    let [below] = walked.unseen.as_slice() else { panic!("{:?}", walked.unseen) };
    assert_eq!((below.what.as_str(), below.layer.as_deref()), ("layer", Some(disk.as_str())));
    let folder_of_file = folder.path().canonicalize().unwrap();
    assert_eq!(below.reason.advice, Some(format!("audit {}", folder_of_file.display())));
    let whole = walk(&device.0.path).unwrap();
    assert_eq!(whole.partitions, [format!("{}p2", device.0.path.display())]);
    let kinds: Vec<_> = walked.layers.iter().map(|layer| (layer.name.clone(), layer.kind)).collect();
    assert_eq!(kinds, [(format!("{disk}p2"), LayerKind::Partition), (disk.clone(), LayerKind::Loop)]);
    let partition = first(&walked);
    assert_eq!((partition.size, partition.facts["number"].as_u64()), (Bytes(8192 * 512), Some(2)));
    let piece = &partition.below[0];
    assert_eq!((piece.start, piece.size, piece.offset), (Bytes(0), Bytes(8192 * 512), Bytes(32256)));
    assert_eq!((piece.on.as_str(), piece.chunk), (disk.as_str(), None));
    let file = walked.layers[1].facts["backing_file"].as_str().unwrap();
    assert_eq!(Path::new(file), folder.path().canonicalize().unwrap().join("disk"));
    assert_eq!(walked.layers[1].facts["direct_io"], false);
    // It is not striped, and neither is what is below.
    assert_eq!(walked.striped, []);
}

#[test]
fn files_on_a_partition_are_read_ahead_as_its_disk_says() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let device = Partitioned::of(attached(folder.path(), "disk", 16));
    let node = PathBuf::from(format!("{}p2", device.0.path.display()));
    run("mkfs.ext4", &["-q", &node.to_string_lossy()]);
    let point = folder.path().join("point");
    mounted(&node, &point, "ext4");
    let walked = walk(&point);
    unmount(&point);
    let walked = walked.unwrap();
    let kib = first(&walked).queue["read_ahead_kb"].as_u64().unwrap();
    assert_eq!(walked.mount.unwrap().read_ahead, Some(Bytes::kib(kib)));
}

#[test]
fn a_path_and_its_device_lead_to_the_same_mount_and_stack() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let device = attached(folder.path(), "disk", 32);
    run("mkfs.ext4", &["-q", &device.path.to_string_lossy()]);
    let point = folder.path().join("a point");
    mounted(&device.path, &point, "ext4");
    fs::create_dir(point.join("below")).unwrap();
    let (by_path, by_device) = (walk(&point.join("below")).unwrap(), walk(&device.path).unwrap());
    unmount(&point);
    assert_eq!(by_device.target, device.path.display().to_string());
    assert_eq!(Path::new(&by_path.target), point.canonicalize().unwrap(), "nothing of what lies below it");
    assert_eq!(by_path, Walked { target: by_path.target.clone(), ..by_device });
    let found = by_path.mount.unwrap();
    assert_eq!(Path::new(&found.point), point.canonicalize().unwrap());
    assert_eq!(by_path.on, [name(&device.path)]);
    assert!(found.options.contains(&"noatime".to_string()), "{:?}", found.options);
    let mut once = found.options.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), found.options.len(), "{:?}", found.options);
    // The read-ahead is that of the device, whose number is the name of its backing-device info.
    let kib = by_path.layers[0].queue["read_ahead_kb"].as_u64().unwrap();
    assert_eq!(found.read_ahead, Some(Bytes::kib(kib)));
    assert!(walk(&device.path).unwrap().mount.is_none(), "unmounted");
}

#[test]
fn a_file_system_on_two_devices_is_found_from_each_and_has_its_own_read_ahead() {
    needs_root!();
    if fsdyno_stack::find_program("mkfs.btrfs").is_none() {
        eprintln!("SKIPPED: mkfs.btrfs is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let devices = [attached(folder.path(), "one", 128), attached(folder.path(), "two", 128)];
    let [one, two] = devices.each_ref().map(|device| device.path.to_string_lossy().into_owned());
    run("mkfs.btrfs", &["-q", "-f", &one, &two]);
    run("btrfs", &["device", "scan", &one, &two]);
    let point = folder.path().join("point");
    mounted(&devices[0].path, &point, "btrfs");
    run("btrfs", &["-q", "subvolume", "create", &point.join("sub").to_string_lossy()]);
    let by_path = walk(&point.join("sub"));
    let by_second = walk(&devices[1].path);
    unmount(&point);
    run("btrfs", &["device", "scan", "--forget", &one]);
    let (by_path, by_second) = (by_path.unwrap(), by_second.unwrap());
    let (one, two) = (name(&devices[0].path), name(&devices[1].path));
    assert_eq!(by_path.on, [one.clone(), two.clone()]);
    assert_eq!(by_second.on, [two.clone(), one.clone()]);
    let names = |walked: &Walked| walked.layers.iter().map(|layer| layer.name.clone()).collect::<Vec<_>>();
    assert_eq!((names(&by_path), names(&by_second)), (vec![one.clone(), two.clone()], vec![two, one]));
    let mount = by_path.mount.unwrap();
    assert_eq!(by_second.mount.as_ref(), Some(&mount));
    assert!(mount.bdi.starts_with("btrfs-"), "{mount:?}");
    assert_eq!(mount.read_ahead, Some(Bytes::mib(4)), "its own default");
}

#[test]
fn a_physical_volume_tells_where_its_data_begins_and_its_groups_extent() {
    needs_root!();
    if fsdyno_stack::find_program("lvm").is_none() {
        eprintln!("SKIPPED: lvm2 is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let device = attached(folder.path(), "disk", 64);
    let node = device.path.to_string_lossy().into_owned();
    let lvm = |args: &[&str]| {
        // A folder of its own: the host's LVM does not hear of it.
        let mut command = Command::new("lvm");
        command.env("LVM_SYSTEM_DIR", folder.path()).env("LVM_SUPPRESS_FD_WARNINGS", "1");
        let out = command.args(args).args(["--devices", &node]).output().unwrap();
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    };
    lvm(&["pvcreate", "--dataalignment", "192k", &node]);
    let alone = walk(&device.path).unwrap();
    let group = format!("fsdyno_walk_{}", device.path.metadata().unwrap().rdev());
    lvm(&["vgcreate", "-s", "1M", &group, &node]);
    let grouped = walk(&device.path).unwrap();
    // Each change of the group is written behind the one before, round and round.
    for _ in 0..3 {
        lvm(&["vgchange", "--addtag", "a", &group]);
        lvm(&["vgchange", "--deltag", "a", &group]);
    }
    let changed = walk(&device.path).unwrap();
    lvm(&["vgremove", "-f", &group]);
    let start = |walked: &Walked| first(walked).facts["pv_start"].as_u64().unwrap();
    assert_eq!(start(&alone), 1152 << 10, "1 MiB and on to a multiple of 192 KiB");
    assert!(!first(&alone).facts.contains_key("extent"));
    for walked in [grouped, changed] {
        assert_eq!(start(&walked), 1152 << 10);
        assert_eq!(first(&walked).facts["extent"].as_u64(), Some(1 << 20));
        assert_eq!(first(&walked).facts["pv_group"], group.as_str());
    }
}

#[test]
fn an_empty_device_is_refused_with_what_to_do() {
    let empty = fs::read_dir("/sys/class/block").unwrap().map(|entry| entry.unwrap().path()).find(|path| {
        let text = fs::read_to_string(path.join("size")).unwrap_or_default();
        text.trim() == "0" && PathBuf::from("/dev").join(path.file_name().unwrap()).exists()
    });
    let Some(empty) = empty else {
        eprintln!("SKIPPED: each device here holds something");
        return;
    };
    let reason = walk(&Path::new("/dev").join(empty.file_name().unwrap())).unwrap_err();
    assert!(reason.message.contains("holds nothing"), "{reason:?}");
    assert!(reason.advice.is_some());
}

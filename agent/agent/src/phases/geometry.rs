//! What mkfs is told of the array below: a plan says where the geometry is from, the stack says what it
//! is. Resolved before anything is built, so that what cannot be is refused at no cost.

use fsdyno_filesystems::{FileSystem, Geometry, GeometryChoice, Options, Told};
use fsdyno_spec::array::{Level, Volume};
use fsdyno_spec::outcome::Reason;
use fsdyno_spec::trial::{Device, Stack};
use fsdyno_spec::units::Bytes;

/// LVM's own stripe size, where a striped volume states none (`lvcreate(8)`, `-I`).
const LVM_STRIPE: Bytes = Bytes::kib(64);

/// A resolved choice; [`Told`] borrows from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resolved {
    /// mkfs finds what it finds.
    #[default]
    Nothing,
    /// There is no array, whatever the device says.
    None,
    /// This.
    This(Geometry),
}

impl Resolved {
    /// As mkfs takes it.
    pub fn told(&self) -> Told<'_> {
        match self {
            Self::Nothing => Told::Nothing,
            Self::None => Told::None,
            Self::This(geometry) => Told::This(geometry),
        }
    }

    fn of(geometry: Option<Geometry>) -> Self {
        geometry.map_or(Self::None, Self::This)
    }
}

/// What the options of a file system ask for, on this stack; `members`: that its array has by now, if it
/// has grown.
///
/// # Errors
/// If the stack does not say what is asked for, or says what cannot be.
pub fn resolve(
    filesystem: &FileSystem,
    options: &Options,
    stack: &Stack,
    members: Option<u32>,
) -> Result<Resolved, Reason> {
    match filesystem.geometry_choice(options) {
        GeometryChoice::Detect => Ok(Resolved::Nothing),
        GeometryChoice::None => Ok(Resolved::None),
        GeometryChoice::Computed => Ok(Resolved::of(of_stack(stack, members)?)),
        GeometryChoice::Declared => {
            let Some(declared) = &stack.geometry else {
                return Err(Reason::new("`geometry = \"declared\"`, and the stack declares none")
                    .advise("state `stack.geometry`, or choose `computed` or `detect`"));
            };
            let layout = declared.layout.as_deref();
            let geometry = Geometry::of(declared.level, declared.members, Some(declared.chunk), layout)?;
            Ok(Resolved::of(geometry))
        }
    }
}

/// The geometry that the stack's own array has, or, without one, the striped volume on its disks.
///
/// # Errors
/// If it has neither.
pub fn of_stack(stack: &Stack, members: Option<u32>) -> Result<Option<Geometry>, Reason> {
    if let Some(array) = &stack.array {
        let members = members.unwrap_or_else(|| slots(stack).saturating_sub(array.spares));
        return Geometry::of(array.level, members, array.chunk, array.layout.as_deref());
    }
    match striped(stack) {
        Some((stripes, size)) => Geometry::of(Level::Raid0, stripes, Some(size), None),
        None => Err(Reason::new("`geometry = \"computed\"`, and the stack has no array to compute it of")
            .advise("add `stack.array`, declare a hardware array in `stack.geometry`, or choose `detect`")),
    }
}

/// Stripes and stripe size of the volume in use, where it is striped.
fn striped(stack: &Stack) -> Option<(u32, Bytes)> {
    let lvm = stack.lvm.as_ref()?;
    let used = |volume: &&Volume| lvm.used.as_ref().is_none_or(|name| *name == volume.name);
    let volume = lvm.volumes.iter().rfind(used)?;
    Some((volume.stripes?, volume.stripe_size.unwrap_or(LVM_STRIPE)))
}

/// Devices of a stack, every `count` spelt out.
fn slots(stack: &Stack) -> u32 {
    let of = |device: &Device| match device {
        Device::File(file) => file.count,
        Device::Disk(_) => 1,
    };
    stack.devices.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    fn stack(text: Value) -> Stack {
        from_value(text).expect("a stack")
    }

    fn resolved(choice: &str, stack: &Stack, members: Option<u32>) -> Result<Resolved, Reason> {
        let row = fsdyno_filesystems::find("xfs").expect("a row");
        let options = row.options(&[("geometry".to_string(), json!(choice))].into()).expect("options");
        resolve(row, &options, stack, members)
    }

    fn this(chunk: u64, data_disks: u32) -> Resolved {
        Resolved::This(Geometry { chunk: Bytes::kib(chunk), data_disks })
    }

    #[test]
    fn computed_is_the_array_without_its_spares_and_after_it_grew() {
        let stack = stack(json!({
            "devices": [{"file": {"size": 1 << 30, "count": 6}}],
            "array": {"level": 6, "chunk": 65536, "spares": 1}
        }));
        assert_eq!(resolved("computed", &stack, None), Ok(this(64, 3)));
        assert_eq!(resolved("computed", &stack, Some(6)), Ok(this(64, 4)));
        assert_eq!(resolved("none", &stack, None), Ok(Resolved::None));
        assert_eq!(resolved("detect", &stack, None), Ok(Resolved::Nothing));
    }

    #[test]
    fn what_is_not_striped_is_told_to_be_none() {
        let stack = stack(json!({
            "devices": [{"file": {"size": 1 << 30, "count": 2}}], "array": {"level": 1}
        }));
        assert_eq!(resolved("computed", &stack, None), Ok(Resolved::None));
    }

    #[test]
    fn without_an_array_a_striped_volume_has_one() {
        let mut on = stack(json!({
            "devices": [{"file": {"size": 1 << 30, "count": 3}}],
            "lvm": {"volumes": [{"name": "a", "stripes": 3}, {"name": "b", "stripes": 2, "stripe_size": 131_072}]}
        }));
        assert_eq!(resolved("computed", &on, None), Ok(this(128, 2)));
        on.lvm.as_mut().expect("a group").used = Some("a".to_string());
        assert_eq!(resolved("computed", &on, None), Ok(this(64, 3)));
    }

    #[test]
    fn what_the_stack_does_not_say_is_refused_with_what_would_do() {
        let bare = stack(json!({"devices": [{"file": {"size": 1 << 30}}]}));
        assert!(resolved("computed", &bare, None).unwrap_err().advice.unwrap().contains("stack.array"));
        assert!(resolved("declared", &bare, None).unwrap_err().advice.unwrap().contains("stack.geometry"));
        let declared = stack(json!({
            "devices": [{"file": {"size": 1 << 30}}],
            "geometry": {"level": 5, "members": 10, "chunk": 131_072}
        }));
        assert_eq!(resolved("declared", &declared, None), Ok(this(128, 9)));
    }
}

//! What LVM says of a group, from its JSON reports: where each volume's bytes lie on the devices below.
//! Its reports are read strictly, as the alignment of everything above follows from them.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A physical volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Physical {
    /// Node of the device.
    pub device: String,
    /// Where its data begins, bytes.
    pub start: u64,
    /// Extent size of its group, bytes.
    pub extent: u64,
    /// Extents that are free in the group.
    pub free: u64,
    /// Name of its group.
    pub group: String,
    /// UUID of its group.
    pub group_uuid: String,
}

/// A piece of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Name of the volume.
    pub volume: String,
    /// Size of the whole volume, bytes.
    pub volume_size: u64,
    /// `linear`, `striped`.
    pub kind: String,
    /// Bytes on one device before the next one's turn; 0 if linear.
    pub stripe_size: u64,
    /// Where it begins in the volume, bytes.
    pub start: u64,
    /// Its size, bytes.
    pub size: u64,
    /// Devices with the first byte of it on each.
    pub on: Vec<(String, u64)>,
}

impl Segment {
    /// As a fact.
    #[must_use]
    pub fn fact(&self) -> Value {
        let on: Vec<_> =
            self.on.iter().map(|(device, offset)| json!({ "device": device, "offset": offset })).collect();
        json!({
            "type": self.kind,
            "start": self.start,
            "size": self.size,
            "stripe_size": (self.stripe_size > 0).then_some(self.stripe_size),
            "on": on,
        })
    }
}

#[derive(Deserialize)]
struct Reports<T> {
    report: Vec<T>,
}

#[derive(Deserialize)]
struct Segments {
    seg: Vec<RawSegment>,
}

#[derive(Deserialize)]
struct RawSegment {
    lv_name: String,
    lv_size: String,
    segtype: String,
    stripe_size: String,
    seg_start: String,
    seg_size: String,
    devices: String,
}

#[derive(Deserialize)]
struct Physicals {
    pv: Vec<RawPhysical>,
}

#[derive(Deserialize)]
struct RawPhysical {
    pv_name: String,
    pe_start: String,
    vg_name: String,
    vg_uuid: String,
    vg_extent_size: String,
    vg_free_count: String,
}

/// Reads `pvs`.
///
/// # Errors
/// A sentence, if it says anything else than it should.
pub fn physicals(text: &[u8]) -> Result<Vec<Physical>, String> {
    let raw: Vec<Physicals> = parse(text)?;
    raw.into_iter()
        .flat_map(|report| report.pv)
        .map(|pv| {
            Ok(Physical {
                device: pv.pv_name,
                start: number("pe_start", &pv.pe_start)?,
                extent: number("vg_extent_size", &pv.vg_extent_size)?,
                free: number("vg_free_count", &pv.vg_free_count)?,
                group: pv.vg_name,
                group_uuid: pv.vg_uuid,
            })
        })
        .collect()
}

/// Reads `lvs --segments` of a group on these physical volumes.
///
/// # Errors
/// A sentence, if it says anything else than it should.
pub fn segments(text: &[u8], physicals: &[Physical]) -> Result<Vec<Segment>, String> {
    let raw: Vec<Segments> = parse(text)?;
    raw.into_iter()
        .flat_map(|report| report.seg)
        .map(|seg| {
            Ok(Segment {
                on: seg
                    .devices
                    .split(',')
                    .map(|place| place_of(place, physicals))
                    .collect::<Result<_, _>>()?,
                volume_size: number("lv_size", &seg.lv_size)?,
                kind: seg.segtype,
                stripe_size: number("stripe_size", &seg.stripe_size)?,
                start: number("seg_start", &seg.seg_start)?,
                size: number("seg_size", &seg.seg_size)?,
                volume: seg.lv_name,
            })
        })
        .collect()
}

/// `DEVICE(EXTENT)` as device and byte offset on it.
fn place_of(place: &str, physicals: &[Physical]) -> Result<(String, u64), String> {
    let parsed = place.strip_suffix(')').and_then(|rest| rest.rsplit_once('('));
    let (device, extent) = parsed.ok_or_else(|| format!("LVM names a place `{place}`"))?;
    let physical = physicals.iter().find(|pv| pv.device == device);
    let physical = physical.ok_or_else(|| format!("LVM put a volume on {device}, which is not ours"))?;
    Ok((device.to_string(), physical.start + number("extent", extent)? * physical.extent))
}

fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<Vec<T>, String> {
    let reports: Reports<T> =
        serde_json::from_slice(text).map_err(|error| format!("LVM's report cannot be read: {error}"))?;
    Ok(reports.report)
}

fn number(name: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("LVM says {name} = `{text}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PVS: &str = r#"{"report":[{"pv":[{"pv_name":"/dev/md301","pv_uuid":"x","pe_start":"1179648",
        "pv_size":"620756992","vg_name":"g","vg_uuid":"u","vg_extent_size":"4194304","vg_free_count":"0"}]}]}"#;

    fn lvs(devices: &str) -> String {
        format!(
            r#"{{"report":[{{"seg":[{{"lv_name":"two","lv_size":"515899392","segtype":"linear","stripes":"1",
            "stripe_size":"0","seg_start":"0","seg_size":"515899392","devices":"{devices}"}}]}}]}}"#
        )
    }

    #[test]
    fn a_volumes_first_byte_follows_from_extents_and_the_start_of_the_data() {
        let physicals = physicals(PVS.as_bytes()).unwrap();
        let segments = segments(lvs("/dev/md301(25)").as_bytes(), &physicals).unwrap();
        let first = segments[0].on[0].1;
        assert_eq!(first, 1_179_648 + 25 * 4_194_304);
        // 4 members of level 5 with 64 KiB: the second volume of a group with 4 MiB extents.
        assert_eq!(first % (192 << 10), 64 << 10);
    }

    #[test]
    fn a_striped_segment_lies_on_several_devices() {
        let two = PVS.replace(
            "]}]}",
            r#",{"pv_name":"/dev/b","pe_start":"1048576","vg_name":"g","vg_uuid":"u",
            "vg_extent_size":"4194304","vg_free_count":"0"}]}]}"#,
        );
        let physicals = physicals(two.as_bytes()).unwrap();
        let found = segments(lvs("/dev/md301(0),/dev/b(2)").as_bytes(), &physicals).unwrap();
        assert_eq!(
            found[0].on,
            [("/dev/md301".into(), 1_179_648), ("/dev/b".into(), 1_048_576 + 2 * 4_194_304)]
        );
    }

    #[test]
    fn what_is_not_understood_is_an_error_and_no_guess() {
        let known = physicals(PVS.as_bytes()).unwrap();
        assert!(segments(lvs("/dev/md301").as_bytes(), &known).unwrap_err().contains("place"));
        assert!(segments(lvs("/dev/sda(0)").as_bytes(), &known).unwrap_err().contains("not ours"));
        assert!(segments(lvs("/dev/md301(x)").as_bytes(), &known).is_err());
        assert!(physicals(b"{}").is_err());
        assert!(physicals(PVS.replace("1179648", "1152.00k").as_bytes()).unwrap_err().contains("pe_start"));
    }
}

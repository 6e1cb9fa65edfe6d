//! Lines of device-mapper tables, as the kernel prints them (Documentation/admin-guide/device-mapper of
//! Linux): where the bytes of a mapped device lie. A line of dm-crypt has the key of the device in it;
//! it is passed over here and goes nowhere.

/// Sector of all tables, bytes.
const SECTOR: u64 = 512;

/// What one line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Bytes lie there in order.
    Mapped {
        /// Where, bytes.
        on: Vec<Place>,
        /// Bytes on one device before the next one's turn; none where all devices have the same.
        chunk: Option<u64>,
        /// How they are encrypted, if they are.
        cipher: Option<String>,
    },
    /// Lies on nothing.
    Nothing,
    /// Lies on devices in a way that is not known here.
    Other,
}

/// A place on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// `major:minor`.
    pub device: String,
    /// Its first byte.
    pub offset: u64,
}

/// A line of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// First byte in the mapped device.
    pub start: u64,
    /// Bytes.
    pub size: u64,
    /// Name of the target.
    pub kind: String,
    /// What it says.
    pub target: Target,
}

impl Line {
    /// Of what the kernel gives for one target, in sectors; none if that cannot be.
    pub fn of(start: u64, length: u64, kind: &str, parameters: &str) -> Option<Self> {
        let (start, size) = (start.checked_mul(SECTOR)?, length.checked_mul(SECTOR)?);
        start.checked_add(size)?;
        let words: Vec<&str> = parameters.split_whitespace().collect();
        let target = match kind {
            // <device> <first sector>
            "linear" => mapped(&words, None),
            // <devices> <sectors of a chunk> [<device> <first sector>]...
            "striped" => striped(&words),
            // <cipher> <key> <number added to sectors for the initial vector> <device> <first sector> ...
            "crypt" => match words.as_slice() {
                [cipher, _, _, device, offset, ..] => mapped(&[device, offset], Some(cipher)),
                _ => None,
            },
            // <device>: a volume that has snapshots lies there as it is (origin_map of drivers/md/dm-snap.c).
            "snapshot-origin" => match words.as_slice() {
                [device] => mapped(&[device, "0"], None),
                _ => None,
            },
            "error" | "zero" => Some(Target::Nothing),
            _ => Some(Target::Other),
        };
        Some(Self { start, size, kind: kind.to_string(), target: target.unwrap_or(Target::Other) })
    }
}

fn mapped(words: &[&str], cipher: Option<&str>) -> Option<Target> {
    let [device, offset] = words else { return None };
    let on = vec![place(device, offset)?];
    Some(Target::Mapped { on, chunk: None, cipher: cipher.map(str::to_string) })
}

fn striped(words: &[&str]) -> Option<Target> {
    let [count, chunk, places @ ..] = words else { return None };
    let count: usize = count.parse().ok().filter(|count| *count > 0)?;
    let chunk = chunk.parse::<u64>().ok()?.checked_mul(SECTOR).filter(|chunk| *chunk > 0)?;
    // One device is as good as linear.
    let chunk = (count > 1).then_some(chunk);
    let pairs = places.chunks_exact(2);
    if pairs.len() != count || !pairs.remainder().is_empty() {
        return None;
    }
    let on = pairs.map(|pair| place(pair[0], pair[1])).collect::<Option<_>>()?;
    Some(Target::Mapped { on, chunk, cipher: None })
}

/// The kernel names devices by number; their length is no word's business here.
fn place(device: &str, offset: &str) -> Option<Place> {
    let (major, minor) = device.split_once(':')?;
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    (is_number(major) && is_number(minor)).then_some(())?;
    Some(Place { device: device.to_string(), offset: offset.parse::<u64>().ok()?.checked_mul(SECTOR)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(device: &str, sectors: u64) -> Place {
        Place { device: device.into(), offset: sectors * 512 }
    }

    fn target(kind: &str, parameters: &str) -> Target {
        Line::of(0, 8192, kind, parameters).unwrap().target
    }

    #[test]
    fn linear_and_striped_lines_tell_where_their_bytes_lie() {
        let line = Line::of(2048, 8192, "linear", "9:0 2304").unwrap();
        assert_eq!((line.start, line.size), (2048 * 512, 8192 * 512));
        let on = vec![at("9:0", 2304)];
        assert_eq!(line.target, Target::Mapped { on, chunk: None, cipher: None });
        let wanted = Target::Mapped { on: vec![at("254:3", 0)], chunk: None, cipher: None };
        assert_eq!(target("snapshot-origin", "254:3"), wanted);
        let on = vec![at("254:16", 2048), at("254:32", 4096)];
        let wanted = Target::Mapped { on, chunk: Some(65536), cipher: None };
        assert_eq!(target("striped", "2 128 254:16 2048 254:32 4096"), wanted);
    }

    #[test]
    fn the_key_of_an_encrypted_device_is_passed_over() {
        for key in ["00112233445566778899aabbccddeeff", ":64:logon:cryptsetup:x-d0", "-"] {
            let line =
                Line::of(0, 8192, "crypt", &format!("aes-xts-plain64 {key} 0 9:0 32768 1 allow_discards"))
                    .unwrap();
            let cipher = Some("aes-xts-plain64".to_string());
            assert_eq!(line.target, Target::Mapped { on: vec![at("9:0", 32768)], chunk: None, cipher });
            assert!(key == "-" || !format!("{line:?}").contains(key));
        }
    }

    #[test]
    fn what_lies_on_nothing_and_what_is_not_known_are_told_apart() {
        assert_eq!(target("error", ""), Target::Nothing);
        assert_eq!(target("thin", "254:3 1"), Target::Other);
    }

    #[test]
    fn a_line_that_cannot_be_is_not_guessed_at() {
        let wrong = [
            ("linear", "9:0"),
            ("linear", "/dev/md0 0"),
            ("linear", "9:0 -1"),
            ("linear", "9:0 18446744073709551615"),
            ("striped", "2 128 254:16 2048"),
            ("striped", "0 128"),
            ("striped", "1 0 254:16 0"),
            ("striped", "18446744073709551615 128 254:16 2048"),
            ("crypt", "aes key 0 9:0"),
        ];
        for (kind, parameters) in wrong {
            assert_eq!(target(kind, parameters), Target::Other, "{kind} {parameters}");
        }
        assert_eq!(Line::of(u64::MAX, 1, "zero", ""), None);
        assert_eq!(Line::of(u64::MAX / 512, 8, "zero", ""), None);
    }
}

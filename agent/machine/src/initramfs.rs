//! The first root of a guest: this program as `/init`, the modules that it needs to reach the rig's
//! root, and how it is wired. Format: Linux, Documentation/driver-api/early-userspace/buffer-format.rst.

/// A newc archive under construction.
#[derive(Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    inodes: u32,
}

impl Archive {
    /// A folder.
    pub fn folder(&mut self, name: &str) {
        self.entry(name, 0o040_755, &[], (0, 0));
    }

    /// A file; `mode` are its permission bits.
    pub fn file(&mut self, name: &str, mode: u32, contents: &[u8]) {
        self.entry(name, 0o100_000 | mode, contents, (0, 0));
    }

    /// A character device.
    pub fn device(&mut self, name: &str, major: u32, minor: u32) {
        self.entry(name, 0o020_600, &[], (major, minor));
    }

    /// The archive.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[], (0, 0));
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, contents: &[u8], (major, minor): (u32, u32)) {
        self.inodes += 1;
        let fields = [
            self.inodes,
            mode,
            0,
            0,
            1,
            0,
            contents.len() as u32,
            0,
            0,
            major,
            minor,
            name.len() as u32 + 1,
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(contents);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_entry_begins_at_a_multiple_of_four_and_the_trailer_is_last() {
        let mut archive = Archive::default();
        archive.folder("dev");
        archive.device("dev/console", 5, 1);
        archive.file("init", 0o755, b"12345");
        let bytes = archive.finish();
        let text = String::from_utf8_lossy(&bytes);
        let starts: Vec<_> = text.match_indices("070701").map(|(at, _)| at).collect();
        assert_eq!(starts.len(), 4);
        assert!(starts.iter().all(|at| at % 4 == 0), "{starts:?}");
        // Size of `init`: the seventh field.
        assert_eq!(&text[starts[2] + 6 + 48..starts[2] + 6 + 56], "00000005");
        assert!(text.contains("TRAILER!!!"));
        assert_eq!(bytes.len() % 4, 0);
    }
}

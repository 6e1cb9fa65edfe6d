//! Names of a dataset's files, computed in place: `<dataset>/dDDDDD/fFFFFFFFF`.

use std::ffi::CStr;
use std::path::{Path, PathBuf};

use fsdyno_spec::workload::Dataset;

/// Digits of a directory's number.
const DIRECTORY_DIGITS: usize = 5;
/// Digits of a file's number.
const FILE_DIGITS: usize = 8;
/// Most directories of a dataset.
pub(crate) const MOST_DIRECTORIES: u64 = 10u64.pow(DIRECTORY_DIGITS as u32);
/// Most files of a dataset.
pub(crate) const MOST_FILES: u64 = 10u64.pow(FILE_DIGITS as u32);

/// A letter and a number with leading zeroes, ready for a system call.
#[derive(Clone, Debug)]
pub(crate) struct Name<const LENGTH: usize> {
    text: [u8; LENGTH],
}

/// `dDDDDD`.
pub(crate) type DirectoryName = Name<{ DIRECTORY_DIGITS + 2 }>;
/// `fFFFFFFFF`.
pub(crate) type FileName = Name<{ FILE_DIGITS + 2 }>;

impl DirectoryName {
    pub(crate) fn of(number: u64) -> Self {
        Self::new(b'd', number)
    }
}

impl FileName {
    pub(crate) fn of(number: u64) -> Self {
        Self::new(b'f', number)
    }
}

impl<const LENGTH: usize> Name<LENGTH> {
    fn new(letter: u8, number: u64) -> Self {
        let mut name = Self { text: [0; LENGTH] };
        name.text[0] = letter;
        name.set(number);
        name
    }

    /// Becomes the name of `number`.
    #[inline]
    pub(crate) fn set(&mut self, mut number: u64) {
        for digit in self.text[1..LENGTH - 1].iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
    }

    /// Becomes the name of the next number: mostly one store.
    #[inline]
    pub(crate) fn increment(&mut self) {
        for digit in self.text[1..LENGTH - 1].iter_mut().rev() {
            if *digit < b'9' {
                *digit += 1;
                return;
            }
            *digit = b'0';
        }
    }

    #[inline]
    pub(crate) fn as_c_str(&self) -> &CStr {
        // SAFETY: the last byte is zero and is never written; the others are a letter and digits.
        unsafe { CStr::from_bytes_with_nul_unchecked(&self.text) }
    }

    pub(crate) fn as_str(&self) -> &str {
        self.as_c_str().to_str().unwrap_or_default()
    }
}

/// Where things of a dataset are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) files: u64,
    pub(crate) per_directory: u64,
    pub(crate) directories: u64,
}

impl Layout {
    pub(crate) fn of(dataset: &Dataset) -> Self {
        let per_directory = dataset.files_per_directory.max(1);
        Self { files: dataset.files, per_directory, directories: dataset.files.div_ceil(per_directory) }
    }

    /// The files of a directory: the first one's number, and how many.
    pub(crate) fn within(&self, directory: u64) -> (u64, u64) {
        let first = directory * self.per_directory;
        (first, self.per_directory.min(self.files.saturating_sub(first)))
    }

    /// Files, directories, and the folder around them.
    pub(crate) fn inodes(&self) -> i64 {
        (self.files + self.directories + 1) as i64
    }

    /// Path of a file.
    pub(crate) fn path(&self, root: &Path, name: &str, file: u64) -> PathBuf {
        let directory = DirectoryName::of(file / self.per_directory);
        root.join(name).join(directory.as_str()).join(FileName::of(file).as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_spec::units::Bytes;

    #[test]
    fn names_count_up_in_place() {
        let mut name = FileName::of(0);
        for number in 0..12_345 {
            assert_eq!(name.as_str(), format!("f{number:08}"));
            name.increment();
        }
        let mut name = DirectoryName::of(0);
        for number in [0, 9, 10, 99_999, 4321] {
            name.set(number);
            assert_eq!(name.as_c_str().to_str(), Ok(format!("d{number:05}").as_str()));
        }
    }

    #[test]
    fn files_fill_directories_and_the_last_one_holds_the_rest() {
        let layout = Layout::of(&Dataset { files: 25, size: Bytes(0), files_per_directory: 10 });
        assert_eq!(layout.directories, 3);
        assert_eq!((0..3).map(|d| layout.within(d)).collect::<Vec<_>>(), vec![(0, 10), (10, 10), (20, 5)]);
        assert_eq!(layout.inodes(), 29);
        assert_eq!(layout.path(Path::new("/r"), "s", 24), Path::new("/r/s/d00002/f00000024"));
    }
}

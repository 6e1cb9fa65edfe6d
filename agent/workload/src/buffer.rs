//! Memory for data: page-aligned, as direct I/O and registered buffers want it, and touched before
//! the clock starts, so that no page fault is measured.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Alignment that satisfies direct I/O on any device with blocks up to the page size.
const ALIGNMENT: usize = 4096;

/// An aligned run of bytes, zeroed and resident.
#[derive(Debug)]
pub(crate) struct Buffer {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory is owned by this value alone, like that of a `Box<[u8]>`.
unsafe impl Send for Buffer {}
// SAFETY: shared references give shared access only.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// At least `length` bytes, rounded up to whole pages.
    pub(crate) fn new(length: usize) -> Self {
        let size = length.max(1).next_multiple_of(ALIGNMENT);
        let layout =
            Layout::from_size_align(size, ALIGNMENT).expect("a buffer smaller than the address space");
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        let mut buffer = Self { start, layout };
        for page in buffer.chunks_mut(ALIGNMENT) {
            // Volatile, since a plain store of zero to zeroed memory may be left out.
            // SAFETY: the pointer is to the first byte of a chunk that is not empty.
            unsafe { page.as_mut_ptr().write_volatile(0) };
        }
        buffer
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the allocation is that long, initialised, and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.layout.size()) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, and freed once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_aligned_zeroed_and_long_enough() {
        for length in [0, 1, 4096, 4097, 1 << 20] {
            let buffer = Buffer::new(length);
            assert_eq!(buffer.as_ptr() as usize % ALIGNMENT, 0);
            assert!(buffer.len() >= length && buffer.len().is_multiple_of(ALIGNMENT));
            assert!(buffer.iter().all(|&b| b == 0));
        }
    }
}

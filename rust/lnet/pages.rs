// SPDX-License-Identifier: GPL-2.0

//! Copies between buffers and page vectors, for small payloads. None of this sleeps.

use crate::ffi::{
    lnet as ffi, //
    types::{
        Kiov,
        PageSlice, //
    },
};
use kernel::{
    page::PAGE_SIZE, //
    prelude::*,
};

/// Whether the slice lies within its page, as LNet promises for every entry of a vector.
fn within_page(s: &PageSlice) -> bool {
    u64::from(s.offset) + u64::from(s.len) <= PAGE_SIZE as u64
}

/// Copies `src` to the first `src.len()` bytes of `dst`.
///
/// # Errors
///
/// `EFAULT` when `dst` has less room, or a slice leaves its page; part may have been copied.
pub(crate) fn copy_to_pages(dst: Kiov<'_>, src: &[u8]) -> Result {
    let mut rest = src;
    for s in dst.slices() {
        let (now, later) = rest.split_at(rest.len().min(s.len as usize));
        if !within_page(&s) {
            return Err(EFAULT);
        }
        // SAFETY: The page stays while `dst` is borrowed; `now` is at most `s.len` bytes long.
        unsafe { ffi::page_write(s.page.as_ptr(), s.offset, now.as_ptr(), now.len() as u32) };
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
    if rest.is_empty() {
        Ok(())
    } else {
        Err(EFAULT)
    }
}

/// Copies the first `dst.len()` bytes of `src` to `dst`.
///
/// # Errors
///
/// `EFAULT` when `src` is shorter, or a slice leaves its page; part may have been copied.
pub(crate) fn copy_from_pages(dst: &mut [u8], src: Kiov<'_>) -> Result {
    let mut rest = dst;
    for s in src.slices() {
        let at = rest.len().min(s.len as usize);
        let (now, later) = rest.split_at_mut(at);
        if !within_page(&s) {
            return Err(EFAULT);
        }
        // SAFETY: As in `copy_to_pages`, in the other direction.
        unsafe {
            ffi::page_read(
                s.page.as_ptr(),
                s.offset,
                now.as_mut_ptr(),
                now.len() as u32,
            )
        };
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
    if rest.is_empty() {
        Ok(())
    } else {
        Err(EFAULT)
    }
}

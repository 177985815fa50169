// SPDX-License-Identifier: GPL-2.0

//! Buffers of elements made by a closure.

use kernel::{
    alloc::AllocError,
    prelude::*, //
};

/// Allocates `n` elements, the `i`-th being `f(i)`; contiguous only virtually where `n` is large.
///
/// Sleeps. Use inside a [`NofsScope`](super::NofsScope).
///
/// # Errors
///
/// [`AllocError`] when there is no memory.
pub(crate) fn new_buf<U>(
    n: usize,
    mut f: impl FnMut(usize) -> U,
) -> core::result::Result<KVVec<U>, AllocError> {
    let mut buf = KVVec::with_capacity(n, GFP_KERNEL)?;
    for i in 0..n {
        buf.push(f(i), GFP_KERNEL)?;
    }
    Ok(buf)
}

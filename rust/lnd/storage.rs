// SPDX-License-Identifier: GPL-2.0

//! Where the engines take their memory from.

use crate::{
    kx,
    proto::Storage, //
};
use kernel::{
    alloc::AllocError,
    prelude::*, //
};

/// Kernel memory. Sleeps when it allocates, so use it inside a [`NofsScope`](kx::NofsScope).
pub(crate) struct KernelStorage;

/// A fixed number of `U`s in kernel memory.
pub(crate) struct Buf<U>(KVVec<U>);

impl<U> AsRef<[U]> for Buf<U> {
    fn as_ref(&self) -> &[U] {
        &self.0
    }
}

impl<U> AsMut<[U]> for Buf<U> {
    fn as_mut(&mut self) -> &mut [U] {
        &mut self.0
    }
}

impl Storage for KernelStorage {
    type Buf<U> = Buf<U>;
    type Error = AllocError;

    fn alloc<U>(
        &mut self,
        n: usize,
        init: impl FnMut(usize) -> U,
    ) -> core::result::Result<Buf<U>, AllocError> {
        kx::new_buf(n, init).map(Buf)
    }
}

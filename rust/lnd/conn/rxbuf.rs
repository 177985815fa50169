// SPDX-License-Identifier: GPL-2.0

//! The receive buffers of a connection.
//!
//! A buffer belongs to the device while it is posted, then to the scheduler thread, then to LNet if
//! it holds a message for it. The engine says which, so the buffers need no lock.

use crate::{
    kx::Node,
    proto::RxId,
    rdma::{
        Device,
        DmaBuf,
        FromDevice, //
    },
    wire::MSG_SIZE, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    }, //
};

/// A receive buffer.
struct RxBuf {
    buf: DmaBuf<FromDevice>,
    /// Bytes that the last receive brought.
    len: Atomic<u32>,
}

/// The receive buffers of a connection, each mapped once.
pub(crate) struct RxBufs(KVVec<RxBuf>);

impl RxBufs {
    /// Allocates and maps `n` buffers. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EIO`.
    pub(crate) fn new(device: &Arc<Device>, n: u16, node: Node) -> Result<Arc<Self>> {
        let mut bufs = KVVec::with_capacity(n.into(), GFP_KERNEL)?;
        for _ in 0..n {
            let buf = RxBuf {
                buf: DmaBuf::new(device, MSG_SIZE as u32, node)?,
                len: Atomic::new(0),
            };
            bufs.push(buf, GFP_KERNEL)?;
        }
        Ok(Arc::new(Self(bufs), GFP_KERNEL)?)
    }

    fn get(&self, rx: RxId) -> Option<&RxBuf> {
        self.0.get(usize::from(rx.0))
    }

    /// The buffer of `rx`, to be posted.
    pub(super) fn buf(&self, rx: RxId) -> Option<&DmaBuf<FromDevice>> {
        Some(&self.get(rx)?.buf)
    }

    /// A receive into `rx` has brought `len` bytes; reads them. For the scheduler thread, before
    /// the engine is told.
    pub(crate) fn received<R>(&self, rx: RxId, len: u32, f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let rx = self.get(rx)?;
        rx.buf.sync_for_cpu(len);
        rx.len.store(len, Relaxed);
        // SAFETY: The receive has completed and the buffer has just been synced. It is posted
        // again by the engine only, after it was told of the completion, which this thread does
        // when `f` has read the bytes.
        Some(f(unsafe { rx.buf.bytes(len) }))
    }

    /// Reads the message in `rx`, which the engine says is LNet's, or holds a descriptor.
    pub(crate) fn read<R>(&self, rx: RxId, f: impl FnOnce(&[u8]) -> R) -> R {
        match self.get(rx) {
            // SAFETY: The buffer was synced when its receive completed, and the engine does not
            // post it before it is given back.
            Some(rx) => f(unsafe { rx.buf.bytes(rx.len.load(Relaxed)) }),
            None => f(&[]),
        }
    }
}

/// What LNet still holds of a connection whose buffers are gone: copies.
#[derive(Default)]
pub(crate) struct Saved(KVec<(RxId, KVVec<u8>)>);

impl Saved {
    /// Copies what is in `rx`. Without memory, LNet will find an empty message. Sleeps.
    pub(super) fn add(&mut self, bufs: &RxBufs, rx: RxId) {
        let mut copy = KVVec::new();
        let copied = bufs.read(rx, |bytes| copy.extend_from_slice(bytes, GFP_KERNEL));
        if copied.is_ok() {
            // If this fails the copy is dropped.
            let _ = self.0.push((rx, copy), GFP_KERNEL);
        }
    }

    /// Takes the copy of what was in `rx`.
    pub(super) fn take(&mut self, rx: RxId) -> Option<KVVec<u8>> {
        let at = self.0.iter().position(|(of, _)| *of == rx)?;
        self.0.remove(at).ok().map(|(_, copy)| copy)
    }
}

/// A message that LNet has given back, but the engine not yet.
pub(crate) struct Returned {
    rx: RxId,
    bufs: Option<Arc<RxBufs>>,
    saved: Option<KVVec<u8>>,
}

impl Returned {
    /// What is in `rx` of `bufs`, or else the copy of it.
    pub(super) fn new(rx: RxId, bufs: Option<Arc<RxBufs>>, saved: Option<KVVec<u8>>) -> Self {
        Self { rx, bufs, saved }
    }

    /// Reads it; to be done before the engine is told.
    pub(crate) fn read<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        match &self.bufs {
            Some(bufs) => bufs.read(self.rx, f),
            None => f(self.saved.as_deref().unwrap_or(&[])),
        }
    }
}

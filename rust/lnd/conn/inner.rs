// SPDX-License-Identifier: GPL-2.0

//! What the lock of a connection protects.

use super::{
    super::{
        device::Hca,
        storage::KernelStorage,
        tx::Tx, //
    },
    rxbuf::{
        RxBufs,
        Saved, //
    }, //
};
use crate::{
    kx::{
        Key,
        Node, //
    },
    proto::conn::Conn as Engine,
    rdma::{
        DmaBuf,
        Failed,
        Live as QpLive,
        Qp,
        RecvChain,
        SendChain,
        ToDevice, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Requests that go to the device with one call.
pub(super) const CHAIN_WRS: u32 = 16;

/// Bytes of a send slot: enough for every message without payload.
const SLOT_SIZE: u32 = 256;

/// The queue pair, as far as it has come.
pub(crate) enum QpSlot {
    /// Taken out by connd, or gone.
    None,
    /// Usable.
    Live(Qp<Key, QpLive>),
    /// In the error state, for the sentinels.
    Failed(Qp<Key, Failed>),
}

impl QpSlot {
    /// Number of the QP, as `rdma resource` shows it, and the send requests it was granted.
    pub(crate) fn shape(&self) -> Option<(u32, u32)> {
        match self {
            Self::None => None,
            Self::Live(qp) => Some((qp.number(), qp.caps().max_send_wr)),
            Self::Failed(qp) => Some((qp.number(), qp.caps().max_send_wr)),
        }
    }
}

/// What the lock of a [`Conn`](super::Conn) protects.
pub(crate) struct ConnInner {
    pub(crate) engine: Engine<KernelStorage, KBox<Tx>>,
    pub(crate) qp: QpSlot,
    /// Buffers for messages to be sent, by `SlotId`, of [`SLOT_SIZE`] bytes. Dropped after the QP.
    pub(super) slots: KVVec<DmaBuf<ToDevice>>,
    /// Receive buffers, by `RxId`; `None` once the QP is gone.
    pub(super) rx: Option<Arc<RxBufs>>,
    /// Copies of the messages that LNet still held when the receive buffers went.
    pub(super) saved: Saved,
    /// Work requests that are being collected for one posting; empty while unlocked.
    pub(super) sends: SendChain,
    /// As `sends`, of the receive queue.
    pub(super) recvs: RecvChain,
    /// Keeps the device until buffers and QP are gone.
    pub(super) hca: Option<Arc<Hca>>,
}

impl ConnInner {
    /// An engine with `limits`, its queue pair and its buffers, in memory of `node`. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EIO`.
    pub(super) fn new(
        engine: Engine<KernelStorage, KBox<Tx>>,
        qp: Qp<Key>,
        hca: &Arc<Hca>,
        node: Node,
    ) -> Result<Self> {
        let limits = *engine.limits();
        let mut slots = KVVec::with_capacity(limits.send_slots.into(), GFP_KERNEL)?;
        for _ in 0..limits.send_slots {
            slots.push(DmaBuf::new(hca.device(), SLOT_SIZE, node)?, GFP_KERNEL)?;
        }
        let rx = RxBufs::new(hca.device(), limits.rx_slots, node)?;
        let chain_sges = CHAIN_WRS.saturating_mul(limits.max_send_sge.into());
        Ok(Self {
            engine,
            qp: QpSlot::Live(qp),
            slots,
            rx: Some(rx),
            saved: Saved::default(),
            sends: SendChain::new(hca.pd(), CHAIN_WRS, chain_sges)?,
            recvs: RecvChain::new(hca.pd(), limits.rx_slots.into())?,
            hca: Some(hca.clone()),
        })
    }
}

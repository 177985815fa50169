// SPDX-License-Identifier: GPL-2.0

//! Transmit descriptors: LNet messages on their way, and the memory that goes with them.

use super::{
    device::{
        Dev,
        Hca, //
    },
    stats::{
        Counted,
        Event,
        Live, //
    },
};
use crate::{
    driver::{
        admission,
        shell::Ended, //
    },
    kx::{
        Cpt,
        Kiov,
        Node, //
    },
    lnet::{
        self,
        Message,
        Reply, //
    },
    proto::{
        chain::{
            ChainError,
            Cursor,
            SrcFrag,
            Write, //
        },
        conn::{
            Sink,
            Submit, //
        },
        Limits, //
    },
    rdma::{
        self,
        DmaBuf,
        DmaSg,
        Mapped,
        Mr,
        PdId,
        Posted,
        SgTable,
        ToDevice, //
    },
    wire::{
        Desc,
        MAX_FRAGS,
        MSG_SIZE, //
    },
};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        SpinLock, //
    }, //
};

/// Memory that a device knows, or may know.
enum Data {
    /// No memory of LNet is mapped.
    Nothing,
    /// Mapped for the device to read: the source of RDMA WRITEs.
    Source(DmaSg<crate::rdma::ToDevice>),
    /// Mapped into an MR whose REG_MR has not been posted: the device does not know the key.
    Sink(Mr<Mapped>),
    /// Mapped into an MR whose REG_MR has been posted: the peer may write it.
    Exposed(Mr<Posted>),
}

/// A transmit descriptor.
///
/// It has one owner at a time: the engine of a connection or of a peer, or a function that has it
/// in its hands. [`TxPool::put`] unmaps what it has mapped.
pub(crate) struct Tx {
    /// The message that is sent or received; finalized when the descriptor ends.
    pub(crate) msg: Option<Message>,
    /// The REPLY that belongs to a GET.
    pub(crate) reply: Option<Reply>,
    /// What a connection is to do with it, for messages that LNet sends.
    pub(crate) what: Option<Submit>,
    data: Data,
    /// The scatter-gather table, `None` while `data` uses it.
    table: Option<SgTable>,
    /// The source as the device sees it.
    frags: KVVec<SrcFrag>,
    /// The transfer of the source to the peer, once its sink is known.
    transfer: Option<Cursor>,
    /// Payload of an IMMEDIATE.
    bounce: DmaBuf<ToDevice>,
    hca: Arc<Hca>,
    cpt: Cpt,
    /// While it is out of its pool: where it goes back to.
    home: Option<(Arc<TxPool>, Counted, Option<Served>)>,
    _live: Counted,
}

impl Tx {
    fn new(pool: &TxPool, hca: &Arc<Hca>) -> Result<KBox<Self>> {
        let frags = KVVec::with_capacity(usize::from(MAX_FRAGS), GFP_KERNEL)?;
        let tx = Self {
            msg: None,
            reply: None,
            what: None,
            data: Data::Nothing,
            table: Some(SgTable::new(MAX_FRAGS.into(), pool.node)?),
            frags,
            transfer: None,
            bounce: DmaBuf::new(hca.device(), MSG_SIZE as u32, pool.node)?,
            hca: hca.clone(),
            cpt: pool.cpt,
            home: None,
            _live: Live::Txs.hold(),
        };
        Ok(KBox::new(tx, GFP_KERNEL)?)
    }

    /// Copies the payload of an IMMEDIATE into the descriptor's own buffer.
    ///
    /// # Errors
    ///
    /// `EFAULT` when the pages have fewer bytes than the message's length.
    pub(crate) fn copy_in(&mut self, payload: Kiov<'_>) -> Result {
        if payload.is_empty() {
            return Ok(());
        }
        let len = payload.len();
        lnet::copy_from_pages(self.bounce.fill(len), payload)
    }

    /// The payload that was copied in, and its buffer.
    pub(crate) fn bounce(&mut self) -> &mut DmaBuf<ToDevice> {
        &mut self.bounce
    }

    /// Maps memory that is to be written to the peer.
    ///
    /// # Errors
    ///
    /// `EIO` when it cannot be mapped; `EMSGSIZE` for more pages than LNet ever sends at once.
    pub(crate) fn map_source(&mut self, memory: Kiov<'_>) -> Result {
        let table = self.table.take().ok_or(EBUSY)?;
        // SAFETY: The memory belongs to the message that this descriptor is for, which is
        // finalized, or goes back to LNet, after `unmap` has unmapped it.
        let mapped = unsafe { table.map(self.hca.device(), memory.slices()) };
        let sg = match mapped {
            Ok(sg) => sg,
            Err((e, table)) => {
                self.table = Some(table);
                Event::MapFailed.count();
                return Err(e);
            }
        };
        self.frags.clear();
        let complete = sg.len() == u64::from(memory.len())
            && sg.segs().iter().all(|seg| {
                let (addr, len) = (seg.addr().to_raw(), seg.len());
                self.frags
                    .push_within_capacity(SrcFrag { addr, len })
                    .is_ok()
            });
        self.data = Data::Source(sg);
        if complete {
            Ok(())
        } else {
            Event::MapFailed.count();
            Err(EIO)
        }
    }

    /// Maps and registers memory that the peer is to write.
    ///
    /// # Errors
    ///
    /// `EIO` when it cannot be mapped; `EINVAL` when it has gaps; `ENOMEM` without an MR.
    pub(crate) fn map_sink(&mut self, memory: Kiov<'_>) -> Result<Sink> {
        let sink = self.try_map_sink(memory);
        if sink.is_err() {
            Event::MapFailed.count();
        }
        sink
    }

    fn try_map_sink(&mut self, memory: Kiov<'_>) -> Result<Sink> {
        let nob = memory.len();
        let mr = self.hca.mrs(self.cpt).ok_or(ENOMEM)?.get()?;
        let table = self.table.take().ok_or(EBUSY)?;
        // SAFETY: As in `map_source`.
        let sg = match unsafe { table.map(self.hca.device(), memory.slices()) } {
            Ok(sg) => sg,
            Err((e, table)) => {
                self.table = Some(table);
                self.put_mr(mr);
                return Err(e);
            }
        };
        let failed = match mr.map(sg) {
            Ok(mr) if mr.len() == u64::from(nob) && !lnet::fail_map_sg() => {
                let sink = Sink {
                    key: mr.rkey(),
                    addr: mr.iova(),
                    nob,
                };
                self.data = Data::Sink(mr);
                return Ok(sink);
            }
            Ok(mr) => {
                let (mr, sg) = mr.cancel();
                (EINVAL, mr, sg)
            }
            Err(failed) => failed,
        };
        let (error, mr, sg) = failed;
        self.table = Some(sg.unmap());
        self.put_mr(mr);
        Err(error)
    }

    fn put_mr(&self, mr: Mr<crate::rdma::Free>) {
        if let Some(pool) = self.hca.mrs(self.cpt) {
            pool.put(mr);
        }
    }

    /// Sets out to write the first `len` bytes of the source to `sink`, whose fragments are in
    /// `buf`; the number of WRITEs on a connection with `limits`.
    ///
    /// # Errors
    ///
    /// Why there is no such number: then nothing may be written.
    pub(crate) fn plan(
        &mut self,
        sink: Desc,
        len: u32,
        buf: &[u8],
        limits: &Limits,
    ) -> core::result::Result<u16, ChainError> {
        let start = Cursor::new(sink, len);
        self.transfer = Some(start);
        start.count(&self.frags, buf, limits.max_send_sge, limits.max_frags)
    }

    /// The next WRITE of the source, from the pieces that are put into `sges`, and the source as it
    /// is mapped. `None` when there is nothing left to write; see [`Cursor::next`].
    ///
    /// # Errors
    ///
    /// As of [`Cursor::next`].
    pub(crate) fn next_write(
        &mut self,
        buf: &[u8],
        sges: &mut [SrcFrag],
    ) -> core::result::Result<Option<(&DmaSg<ToDevice>, Write)>, ChainError> {
        let (Some(transfer), Data::Source(sg)) = (&mut self.transfer, &self.data) else {
            return Ok(None);
        };
        let write = transfer.next(&self.frags, buf, sges)?;
        Ok(write.map(|write| (sg, write)))
    }

    /// The PD that the descriptor's memory is for.
    pub(crate) fn pd(&self) -> PdId {
        self.hca.pd().id()
    }

    /// Has `reg` put the registration of the MR into a chain.
    ///
    /// # Errors
    ///
    /// EINVAL when there is no MR whose registration has not been posted; that of `reg`.
    pub(crate) fn expose(&mut self, reg: impl FnOnce(Mr<Mapped>) -> rdma::Registered) -> Result {
        let (data, result) = match core::mem::replace(&mut self.data, Data::Nothing) {
            Data::Sink(mr) => match reg(mr) {
                Ok(mr) => (Data::Exposed(mr), Ok(())),
                Err((e, mr)) => (Data::Sink(mr), Err(e.into())),
            },
            other => (other, Err(EINVAL)),
        };
        self.data = data;
        result
    }

    /// The MR to be invalidated.
    pub(crate) fn exposed(&self) -> Option<&Mr<Posted>> {
        match &self.data {
            Data::Exposed(mr) => Some(mr),
            Data::Nothing | Data::Source(_) | Data::Sink(_) => None,
        }
    }

    /// Unmaps everything. Sleeps when an MR must be deregistered.
    ///
    /// # Errors
    ///
    /// The device cannot deregister the MR: its memory stays with the descriptor.
    fn unmap(&mut self, ended: Ended) -> Result {
        let table = match core::mem::replace(&mut self.data, Data::Nothing) {
            Data::Nothing => return Ok(()),
            Data::Source(sg) => sg.unmap(),
            Data::Sink(mr) => {
                let (mr, sg) = mr.cancel();
                self.put_mr(mr);
                sg.unmap()
            }
            Data::Exposed(mr) if ended == Ended::Clean => {
                // SAFETY: The engine ends a message whose MR was exposed in this way only when
                // the LOCAL_INV of its key, which it posts once, has completed successfully.
                let (mr, sg) = unsafe { mr.invalidated() };
                self.put_mr(mr);
                sg.unmap()
            }
            // SAFETY: Otherwise the engine ends it when the QP is drained, after which nothing is
            // posted.
            Data::Exposed(mr) => match unsafe { mr.dereg() } {
                Ok(sg) => sg.unmap(),
                Err((e, mr)) => {
                    self.data = Data::Exposed(mr);
                    return Err(e);
                }
            },
        };
        self.table = Some(table);
        Ok(())
    }
}

/// Counts a descriptor that serves a request of a peer.
struct Served(Arc<TxPool>);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.served.fetch_sub(1, Relaxed);
    }
}

/// Idle descriptors of one NI and CPT.
///
/// It grows when it is empty and keeps what fits its limit. An idle descriptor does not refer to
/// its pool. The lock is a leaf; no descriptor is dropped under it.
#[pin_data]
pub(crate) struct TxPool {
    cpt: Cpt,
    node: Node,
    /// Idle descriptors that it keeps.
    limit: u32,
    /// Descriptors that serve requests of peers.
    served: Atomic<u32>,
    #[pin]
    idle: SpinLock<KVec<KBox<Tx>>>,
}

impl TxPool {
    /// An empty pool that will keep `limit` descriptors.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(cpt: Cpt, limit: u32) -> Result<Arc<Self>> {
        let idle = KVec::with_capacity(limit as usize, GFP_KERNEL)?;
        let node = lnet::cpt_node(cpt);
        Arc::pin_init(
            pin_init!(Self {
                cpt,
                node,
                limit,
                served: Atomic::new(0),
                idle <- new_spinlock!(idle, "ko2iblnd::TxPool"),
            }),
            GFP_KERNEL,
        )
    }

    /// Fills the pool up to its limit.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EIO`; `ENETDOWN` without a device.
    pub(crate) fn fill(&self, dev: &Dev) -> Result {
        let hca = dev.hca()?;
        loop {
            let (have, want) = {
                let idle = self.idle.lock();
                (idle.len(), idle.capacity())
            };
            if have >= want {
                return Ok(());
            }
            self.keep(Tx::new(self, &hca)?);
        }
    }

    fn keep(&self, tx: KBox<Tx>) {
        let surplus = self.idle.lock().push_within_capacity(tx);
        // Dropped after the lock.
        drop(surplus);
    }

    /// Takes a descriptor, a new one if none is idle. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EIO`; `ENETDOWN` without a device.
    pub(crate) fn get(self: &Arc<Self>, dev: &Dev) -> Result<KBox<Tx>> {
        self.take(dev, None)
    }

    /// As [`TxPool::get`], to serve a request of a peer.
    ///
    /// # Errors
    ///
    /// As of [`TxPool::get`]; `ENOMEM` also when too many are served at a time.
    pub(crate) fn get_to_serve(self: &Arc<Self>, dev: &Dev) -> Result<KBox<Tx>> {
        let before = self.served.fetch_add(1, Relaxed);
        let served = Served(self.clone());
        if !admission::may_serve(before, self.limit) {
            Event::TooManyServed.count();
            return Err(ENOMEM);
        }
        self.take(dev, Some(served))
    }

    fn take(self: &Arc<Self>, dev: &Dev, served: Option<Served>) -> Result<KBox<Tx>> {
        let hca = dev.hca()?;
        loop {
            let idle = self.idle.lock().pop();
            let mut tx = match idle {
                Some(tx) => tx,
                None => Tx::new(self, &hca)?,
            };
            // One that was made for a device that is gone is dropped.
            if Arc::ptr_eq(&tx.hca, &hca) {
                tx.home = Some((self.clone(), Live::TxsBusy.hold(), served));
                return Ok(tx);
            }
        }
    }

    /// Unmaps what a descriptor has mapped, and returns it to the pool it came from. Its messages
    /// must have been taken out. May sleep.
    ///
    /// # Errors
    ///
    /// With the descriptor: a peer may still write its memory, which must be left alone until
    /// this is tried again with success.
    pub(crate) fn put(tx: KBox<Tx>, ended: Ended) -> core::result::Result<(), (Error, KBox<Tx>)> {
        let mut tx = tx;
        if let Err(e) = tx.unmap(ended) {
            return Err((e, tx));
        }
        tx.what = None;
        tx.transfer = None;
        let home = tx.home.take();
        match home {
            Some((pool, _busy, _served)) if !tx.hca.is_gone() => pool.keep(tx),
            Some(_) | None => drop(tx),
        }
        Ok(())
    }

    /// Drops all idle descriptors: their device is going away.
    pub(crate) fn drain(&self) {
        loop {
            let Some(tx) = self.idle.lock().pop() else {
                return;
            };
            drop(tx);
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Posts what the engine of a connection wants posted, under the connection's lock.

use super::{
    super::{
        stats::{
            self,
            Event, //
        },
        storage::KernelStorage,
        tx::Tx, //
    },
    inner::{
        ConnInner,
        QpSlot,
        CHAIN_WRS, //
    }, //
};
use crate::{
    driver::shell::Queue,
    kx::errno::ENOTCONN,
    proto::{
        chain::SrcFrag,
        conn::{
            Conn,
            OutMsg,
            Post,
            PostError, //
        },
        limits::MAX_SEND_SGE,
        OpId,
        RxId,
        SlotId,
        WrId, //
    },
    rdma::{
        self,
        DmaAddr,
        SendFlags, //
    },
};
use kernel::prelude::*;

/// What could not be posted, without the device having seen it.
fn failed(error: Error) -> PostError {
    PostError {
        errno: error.to_errno(),
        accepted: 0,
    }
}

impl From<rdma::PostError> for PostError {
    fn from(e: rdma::PostError) -> Self {
        Self {
            errno: e.error.to_errno(),
            accepted: e.accepted,
        }
    }
}

impl Queue for ConnInner {
    type Storage = KernelStorage;
    type Tx = KBox<Tx>;

    fn engine(&mut self) -> &mut Conn<KernelStorage, KBox<Tx>> {
        &mut self.engine
    }

    fn post(&mut self, post: &Post) -> Result<(), PostError> {
        let result = post_one(self, post);
        if result.is_err() {
            Event::PostError.count();
        }
        result
    }
}

fn post_one(inner: &mut ConnInner, post: &Post) -> Result<(), PostError> {
    match *post {
        Post::Recv { wr, rx, more } => post_recv(inner, wr, rx, more),
        Post::Send {
            wr,
            slot,
            ref msg,
            op,
            reg,
            payload,
            signal,
            cksum,
        } => {
            let message = MessageSend {
                slot,
                msg,
                op,
                payload,
                cksum,
            };
            post_message(inner, wr, signal, reg, &message)
        }
        Post::Writes {
            wr,
            op,
            rx,
            count,
            signal,
        } => {
            let writes = Writes { op, rx, count };
            post_writes(inner, wr, signal, &writes)
        }
        Post::Inv { wr, op, signal } => post_inv(inner, wr, op, signal),
        Post::SentinelSq { wr } => match &inner.qp {
            QpSlot::Failed(qp) => Ok(qp.post_sentinel_sq(&mut inner.sends, wr.to_raw())?),
            QpSlot::None | QpSlot::Live(_) => Err(failed(EINVAL)),
        },
        Post::SentinelRq { wr } => match &inner.qp {
            QpSlot::Failed(qp) => Ok(qp.post_sentinel_rq(wr.to_raw())?),
            QpSlot::None | QpSlot::Live(_) => Err(failed(EINVAL)),
        },
    }
}

/// Takes the key of an operation's MR away from the peer.
fn post_inv(inner: &mut ConnInner, wr: WrId, op: OpId, signal: bool) -> Result<(), PostError> {
    inner.sends.clear();
    let mr = inner.engine.tx(op).and_then(|tx| tx.exposed());
    let mr = mr.ok_or(failed(EINVAL))?;
    let flags = SendFlags { signaled: signal };
    let added = inner.sends.local_inv(wr.to_raw(), flags, mr);
    added.map_err(|e| failed(e.into()))?;
    post_sends(inner)
}

/// Collects a receive, and posts all that were collected when no more follow.
fn post_recv(inner: &mut ConnInner, wr: WrId, rx: RxId, more: bool) -> Result<(), PostError> {
    let buf = inner.rx.as_ref().and_then(|bufs| bufs.buf(rx));
    let buf = buf.ok_or(failed(EINVAL))?;
    let added = inner.recvs.recv(wr.to_raw(), buf);
    added.map_err(|e| failed(e.into()))?;
    if more {
        return Ok(());
    }
    match &inner.qp {
        // SAFETY: The buffers belong to the connection, which drops them after its QP. Its lock
        // keeps posts in order.
        QpSlot::Live(qp) => Ok(unsafe { qp.post_recv(&mut inner.recvs) }?),
        QpSlot::None | QpSlot::Failed(_) => {
            inner.recvs.clear();
            Err(failed(ENOTCONN.to_error()))
        }
    }
}

/// Posts the chain of sends.
fn post_sends(inner: &mut ConnInner) -> Result<(), PostError> {
    match &inner.qp {
        // SAFETY: Message buffers belong to the connection, which drops them after its QP.
        // Everything else is memory of a `Tx` that the engine holds until the request has
        // completed or the QP is drained; pieces of a source come from its own segments. The
        // connection's lock keeps posts in order.
        QpSlot::Live(qp) => Ok(unsafe { qp.post_send(&mut inner.sends) }?),
        QpSlot::None | QpSlot::Failed(_) => {
            inner.sends.clear();
            Err(failed(ENOTCONN.to_error()))
        }
    }
}

/// Puts the registration of an operation's MR into the chain.
fn add_reg(inner: &mut ConnInner, wr: WrId, op: OpId) -> Result<(), PostError> {
    let id = wr.not_last().to_raw();
    let flags = SendFlags { signaled: false };
    let tx = inner.engine.tx_mut(op).ok_or(failed(EINVAL))?;
    tx.expose(|mr| inner.sends.reg(id, flags, mr))
        .map_err(failed)
}

/// A message to be put into the chain.
struct MessageSend<'a> {
    slot: SlotId,
    msg: &'a OutMsg,
    op: Option<OpId>,
    payload: u16,
    cksum: bool,
}

/// Posts a message; `reg`: behind the registration of its operation's MR.
fn post_message(
    inner: &mut ConnInner,
    wr: WrId,
    signal: bool,
    reg: bool,
    message: &MessageSend<'_>,
) -> Result<(), PostError> {
    let reg = message.op.filter(|_| reg);
    inner.sends.clear();
    if let Some(op) = reg {
        add_reg(inner, wr, op)?;
    }
    let sent = add_send(inner, wr, signal, message)?;
    post_sends(inner)?;
    stats::sent(message.msg.kind(), sent);
    Ok(())
}

/// Writes a message into its buffer and puts its SEND into the chain. The result is its length.
fn add_send(
    inner: &mut ConnInner,
    wr: WrId,
    signal: bool,
    out: &MessageSend<'_>,
) -> Result<u32, PostError> {
    let slot = inner
        .slots
        .get_mut(usize::from(out.slot.0))
        .ok_or(failed(EINVAL))?;
    let size = slot.len();
    let buf = slot.fill(size);
    let emitted = out.msg.emit(out.cksum, buf).map_err(|_| failed(EINVAL))?;
    let payload = u32::from(out.payload);
    let mut tx = None;
    if payload > 0 {
        let op = out.op.ok_or(failed(EINVAL))?;
        tx = Some(inner.engine.tx_mut(op).ok_or(failed(EINVAL))?);
    }
    if let (Some(mut detached), Some(tx)) = (emitted.detached, tx.as_mut()) {
        detached.update(tx.bounce().fill(payload));
        detached.finish(buf).map_err(|_| failed(EINVAL))?;
    }
    // Fits: not more than the slot.
    let header = slot.piece(emitted.len as u32);
    let flags = SendFlags { signaled: signal };
    // Fits: a message is at most 4 KiB long.
    let len = (emitted.len as u32).saturating_add(payload);
    let added = match tx {
        None => inner.sends.send(wr.to_raw(), flags, &[header]),
        Some(tx) => {
            let payload = tx.bounce().piece(payload);
            inner.sends.send(wr.to_raw(), flags, &[header, payload])
        }
    };
    added.map_err(|e| failed(e.into()))?;
    Ok(len)
}

/// RDMA WRITEs to be posted.
struct Writes {
    op: OpId,
    rx: RxId,
    count: u16,
}

/// Posts the next WRITEs of an operation.
fn post_writes(
    inner: &mut ConnInner,
    wr: WrId,
    signal: bool,
    writes: &Writes,
) -> Result<(), PostError> {
    let mut accepted = 0u32;
    // Whatever fails, the device has the chains before.
    post_chains(inner, wr, signal, writes, &mut accepted).map_err(|e| PostError {
        errno: e.errno,
        accepted: accepted.saturating_add(e.accepted),
    })
}

/// Posts WRITEs, as many at a time as a chain holds. Adds those of whole chains to `accepted`.
fn post_chains(
    inner: &mut ConnInner,
    wr: WrId,
    signal: bool,
    writes: &Writes,
    accepted: &mut u32,
) -> Result<(), PostError> {
    let bufs = inner.rx.clone().ok_or(failed(EINVAL))?;
    let mut left = writes.count;
    inner.sends.clear();
    while left > 0 {
        left -= 1;
        let (id, signaled) = match left {
            0 => (wr, signal),
            _ => (wr.not_last(), false),
        };
        let full = inner.sends.len() + 1 >= CHAIN_WRS as usize;
        let max_sge = inner.engine.limits().max_send_sge;
        let flags = SendFlags { signaled };
        let tx = inner.engine.tx_mut(writes.op).ok_or(failed(EINVAL))?;
        let added = bufs.read(writes.rx, |buf| {
            let mut frags = [SrcFrag::default(); MAX_SEND_SGE as usize];
            let room = usize::from(max_sge).min(frags.len());
            let write = tx.next_write(buf, frags.get_mut(..room).unwrap_or(&mut []));
            let (source, write) = write.ok().flatten().ok_or(failed(EINVAL))?;
            let pieces = frags.iter().take(write.nsge);
            let pieces = pieces.map(|frag| (DmaAddr::from_raw(frag.addr), frag.len));
            let (id, to) = (id.to_raw(), write.remote);
            let added = inner.sends.write(id, flags, source, pieces, to, write.rkey);
            added.map_err(|e| failed(e.into()))
        });
        added?;
        if full || left == 0 {
            let chain = inner.sends.len() as u32;
            post_sends(inner)?;
            *accepted = accepted.saturating_add(chain);
        }
    }
    Ok(())
}

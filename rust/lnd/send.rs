// SPDX-License-Identifier: GPL-2.0

//! From LNet to a connection: `lnd_send`, and what follows when a message finds no connection.

use super::{
    conn::Conn,
    ni::Ni,
    now,
    peer::Peer,
    stats::Event,
    tx::{
        Ended,
        Tx, //
    }, //
};
use crate::{
    driver::form::{
        Form,
        Request, //
    },
    kx::NofsScope,
    lnet::{
        self,
        SendMsg, //
    },
    proto::{
        conn::Submit,
        peer::{
            PeerSubmit,
            Ticket, //
        },
        Cause,
        ConnId,
        Refused, //
    },
    wire::{
        LnetHdr,
        LnetMsgType,
        Nid, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    }, //
};

/// How often a message may find that its peer is being deleted before it is failed.
const MAX_PEERS: usize = 4;

/// Takes a message of LNet's: decides its form, maps its memory and gives it to a connection or
/// has it wait for one.
///
/// # Errors
///
/// ENOMEM without a descriptor, EIO when its memory cannot be mapped or the reply message of a GET
/// cannot be made, EINVAL for a type that is never sent. The message is as it was.
pub(crate) fn send(ni: ArcBorrow<'_, Ni>, m: SendMsg) -> core::result::Result<(), lnet::Refused> {
    let _nofs = NofsScope::enter();
    let ni: Arc<Ni> = ni.into();
    let nid = Nid(m.target);
    let mut tx = match ni.tx(nid) {
        Ok(tx) => tx,
        Err(error) => {
            Event::NoTx.count();
            return Err(lnet::Refused { error, msg: m.msg });
        }
    };
    let what = match prepare(&ni, &mut tx, &m) {
        Ok(what) => what,
        Err(error) => {
            ni.release(tx);
            return Err(lnet::Refused { error, msg: m.msg });
        }
    };
    tx.what = Some(what);
    if let Some(health) = m.msg.simulated_failure() {
        Event::FaultInjected.count();
        tx.msg = Some(m.msg);
        ni.finish_with(tx, EINVAL.to_errno(), health, Ended::Clean);
        return Ok(());
    }
    tx.msg = Some(m.msg);
    launch(&ni, nid, tx);
    Ok(())
}

/// Decides the form and gets the memory of the message ready for it.
fn prepare(ni: &Arc<Ni>, tx: &mut Tx, m: &SendMsg) -> Result<Submit> {
    let hdr = LnetHdr::from_bytes(&m.hdr);
    let request = Request {
        kind: LnetMsgType::from_wire(m.kind),
        payload: m.msg.source().len(),
        md_len: m.msg.sink().len(),
        gpu: m.gpu,
        routing: m.routing,
        to_router: m.target_is_router,
    };
    match request.form() {
        Form::Immediate(len) => {
            let payload = u16::try_from(len).map_err(|_| EINVAL)?;
            tx.copy_in(m.msg.source().truncated(len))?;
            Event::TxImmediate.count();
            Ok(Submit::Immediate { hdr, payload })
        }
        Form::Put(len) => {
            tx.map_source(m.msg.source())?;
            Event::TxPut.count();
            Ok(Submit::Put { hdr, len })
        }
        Form::Get(_) => {
            let sink = tx.map_sink(m.msg.sink())?;
            tx.reply = m.msg.create_reply(ni.handle());
            if tx.reply.is_none() {
                Event::NoReplyMsg.count();
                return Err(EIO);
            }
            Event::TxGet.count();
            Ok(Submit::Get { hdr, sink })
        }
        Form::Unsupported => Err(EINVAL),
    }
}

/// Gives a message to its peer, which is made if need be.
fn launch(ni: &Arc<Ni>, nid: Nid, tx: KBox<Tx>) {
    let mut tx = tx;
    for _ in 0..MAX_PEERS {
        let peer = match ni.peers.get_or_create(ni, nid) {
            Ok(peer) => peer,
            Err(cause) => return ni.finish(tx, cause.outcome_waiting().into(), Ended::Clean),
        };
        let (placed, conn) = {
            let mut inner = peer.inner.lock();
            let placed = inner.engine.submit(now(), tx);
            let conn = match &placed {
                PeerSubmit::Use { conn, .. } => inner.conn(*conn),
                PeerSubmit::Queued | PeerSubmit::Refused(_) => None,
            };
            (placed, conn)
        };
        match settle(&peer, placed, conn) {
            Ok(()) => return,
            // The peer is being deleted; another takes its place.
            Err(refused) if refused.cause == Cause::Deleted => {
                ni.peers.remove(&peer);
                tx = refused.tx;
            }
            Err(refused) => {
                return ni.finish(
                    refused.tx,
                    refused.cause.outcome_waiting().into(),
                    Ended::Clean,
                );
            }
        }
    }
    ni.finish(tx, Cause::Deleted.outcome_waiting().into(), Ended::Clean);
}

/// Does what the peer said about a message. `conn` is the connection it named, if it has it still.
fn settle(
    peer: &Arc<Peer>,
    placed: PeerSubmit<KBox<Tx>>,
    conn: Option<Arc<Conn>>,
) -> core::result::Result<(), Refused<KBox<Tx>>> {
    let mut placed = placed;
    let mut conn = conn;
    // The engine limits how often a message comes back.
    loop {
        let (id, tx, ticket) = match placed {
            PeerSubmit::Use { conn, tx, ticket } => (conn, tx, ticket),
            PeerSubmit::Queued => {
                peer.kick();
                return Ok(());
            }
            PeerSubmit::Refused(refused) => {
                peer.kick();
                return Err(refused);
            }
        };
        let refused = match submit(conn.take(), tx) {
            Ok(()) => return Ok(()),
            Err(refused) => refused,
        };
        let mut inner = peer.inner.lock();
        placed = inner.engine.handle_conn_refused(now(), id, refused, ticket);
        if let PeerSubmit::Use { conn: id, .. } = &placed {
            conn = inner.conn(*id);
        }
    }
}

/// A message that waited gets its connection.
pub(crate) fn assign(peer: &Arc<Peer>, id: ConnId, tx: KBox<Tx>, ticket: Ticket) {
    let conn = peer.inner.lock().conn(id);
    let placed = PeerSubmit::Use {
        conn: id,
        tx,
        ticket,
    };
    if let Err(refused) = settle(peer, placed, conn) {
        let done = refused.cause.outcome_waiting().into();
        peer.ni.finish(refused.tx, done, Ended::Clean);
    }
}

/// Gives a message to a connection.
fn submit(conn: Option<Arc<Conn>>, tx: KBox<Tx>) -> core::result::Result<(), Refused<KBox<Tx>>> {
    let (Some(conn), Some(what)) = (conn, tx.what) else {
        let cause = Cause::PeerGone;
        return Err(Refused { tx, cause });
    };
    conn.drive(|engine, now| engine.submit(now, tx, what).map(|_| ()))
}

// SPDX-License-Identifier: GPL-2.0

//! From LNet about a received message: `lnd_recv`.
//!
//! LNet says once for every message that it was given what becomes of it, at once or much later,
//! from any thread. A message without a match is not an error: the payload is discarded, and a
//! request is answered all the same.

use super::{
    conn::Conn,
    rxbuf::Returned,
    stats::Event,
    tx::Ended, //
};
use crate::{
    kx::{
        errno::{
            ENODATA,
            EPROTO, //
        },
        NofsScope, //
    },
    lnet::{
        self,
        Health,
        Message,
        Received,
        RxHandle, //
    },
    proto::{
        chain::{
            count_writes,
            ChainError, //
        },
        conn::Delivery,
        RxId, //
    },
    wire::{
        DescLoc,
        IMMEDIATE_HDR, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Does what LNet wants done with the message in receive buffer `rx`.
pub(crate) fn recv(rx: RxHandle<Conn>, m: Received) {
    let _nofs = NofsScope::enter();
    let RxHandle { conn, rx } = rx;
    let rx = RxId(rx);
    let msg = match m {
        Received::Matched(msg) => Some(msg),
        Received::Discard => {
            Event::RxDiscarded.count();
            None
        }
    };
    match conn.take_delivered(rx) {
        Some((Delivery::Immediate, bytes)) => immediate(&conn, rx, msg, &bytes),
        Some((Delivery::PutReq, _)) => put(&conn, rx, msg),
        Some((Delivery::GetReq { desc }, bytes)) => get(&conn, rx, msg, desc, &bytes),
        None => {
            // Only a driver that lost count gets here.
            Event::BadRxToken.count();
            if let Some(msg) = msg {
                msg.finalize(EIO.to_errno(), Health::LocalError);
            }
        }
    }
}

/// Copies the payload of an IMMEDIATE and gives the buffer back.
fn immediate(conn: &Arc<Conn>, rx: RxId, msg: Option<Message>, bytes: &Returned) {
    let copied = match &msg {
        Some(msg) => bytes.read(|buf| {
            // LNet never wants more than the header says, which the engine has checked.
            let end = IMMEDIATE_HDR.saturating_add(msg.sink().len() as usize);
            let payload = buf.get(IMMEDIATE_HDR..end).ok_or(EPROTO.to_error())?;
            lnet::copy_to_pages(msg.sink(), payload)
        }),
        None => Ok(()),
    };
    conn.drive(|engine, now| engine.rx_done(now, rx));
    if let Some(msg) = msg {
        end_received(msg, copied);
    }
}

/// Answers a PUT_REQ: with a sink, or without.
fn put(conn: &Arc<Conn>, rx: RxId, msg: Option<Message>) {
    let Some(msg) = msg else {
        return conn.drive(|engine, now| engine.put_nak(now, rx, 0));
    };
    if msg.sink().is_empty() {
        conn.drive(|engine, now| engine.put_nak(now, rx, 0));
        return end_received(msg, Ok(()));
    }
    let ni = &conn.peer.ni;
    let mapped = ni.tx_to_serve(conn.peer.nid).and_then(|mut tx| {
        let sink = tx.map_sink(msg.sink());
        match sink {
            Ok(sink) => Ok((tx, sink)),
            Err(e) => {
                ni.release(tx);
                Err(e)
            }
        }
    });
    match mapped {
        Ok((mut tx, sink)) => {
            tx.msg = Some(msg);
            let refused = conn.drive(|engine, now| engine.put_sink(now, rx, tx, sink).err());
            if let Some(refused) = refused {
                ni.finish(refused.tx, refused.cause.outcome().into(), Ended::Clean);
            }
        }
        Err(e) => {
            let status = e.to_errno();
            conn.drive(|engine, now| engine.put_nak(now, rx, status));
            end_received(msg, Err(e));
        }
    }
}

/// Answers a GET_REQ: with data, or without.
fn get(conn: &Arc<Conn>, rx: RxId, msg: Option<Message>, desc: DescLoc, bytes: &Returned) {
    let Some(msg) = msg else {
        let status = ENODATA.to_status();
        return conn.drive(|engine, now| engine.get_done(now, rx, status));
    };
    let len = msg.source().len();
    if len == 0 {
        conn.drive(|engine, now| engine.get_done(now, rx, 0));
        return end_received(msg, Ok(()));
    }
    let ni = &conn.peer.ni;
    let mapped =
        ni.tx_to_serve(conn.peer.nid)
            .and_then(|mut tx| match tx.map_source(msg.source()) {
                Ok(()) => Ok(tx),
                Err(e) => {
                    ni.release(tx);
                    Err(e)
                }
            });
    match mapped {
        Ok(mut tx) => {
            tx.start_writes(len);
            let writes = bytes.read(|buf| {
                let sink = desc.view(buf).ok_or(ChainError::BadArgument)?;
                let limits = conn.limits();
                count_writes(
                    tx.source(),
                    &sink,
                    len,
                    limits.max_send_sge,
                    limits.max_frags,
                )
            });
            tx.msg = Some(msg);
            let refused =
                conn.drive(|engine, now| engine.get_source(now, rx, tx, len, writes).err());
            if let Some(refused) = refused {
                ni.finish(refused.tx, refused.cause.outcome().into(), Ended::Clean);
            }
        }
        Err(e) => {
            let status = e.to_errno();
            conn.drive(|engine, now| engine.get_done(now, rx, status));
            end_received(msg, Err(e));
        }
    }
}

/// Finishes a received message that needed no transmit descriptor.
fn end_received(msg: Message, result: Result) {
    let status = result.err().map_or(0, Error::to_errno);
    msg.finalize(status, Health::Ok);
}

// SPDX-License-Identifier: GPL-2.0

//! From LNet about a received message: `lnd_recv`.
//!
//! What a message is answered with is decided in [`driver::recv`](crate::driver::recv).

use crate::{
    driver::{
        recv::{
            payload,
            prepare,
            Incoming, //
        },
        shell::Ended, //
    },
    kx::{
        errno::ENETDOWN,
        NofsScope, //
    },
    lnd::{
        conn::{
            Conn,
            Returned, //
        },
        stats::Event,
        traffic::send::no_gpu,
        tx::Tx, //
    },
    lnet::{
        self,
        Health,
        Message,
        Received,
        RxHandle, //
    },
    proto::{
        chain::ChainError,
        conn::Sink,
        Done,
        RxId, //
    },
    wire::Desc,
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
    let Some((kind, bytes)) = conn.returned(rx) else {
        // Only a driver that lost count gets here.
        Event::BadRxToken.count();
        if let Some(msg) = msg {
            msg.finalize(EIO.to_errno(), Health::LOCAL_ERROR);
        }
        return;
    };
    let mut incoming = Buffer { conn: &conn, bytes };
    let answer = prepare(&mut incoming, kind, msg);
    let after = conn.drive(|engine, now| answer.give(engine, now, rx));
    after.run(&mut incoming);
}

/// A received message in its buffer, which LNet has given back and the engine has not yet.
struct Buffer<'a> {
    conn: &'a Arc<Conn>,
    bytes: Returned,
}

impl Buffer<'_> {
    /// A descriptor, made ready by `map`.
    fn tx<R>(
        &self,
        map: impl FnOnce(&mut Tx) -> Result<R>,
    ) -> core::result::Result<(KBox<Tx>, R), i32> {
        let peer = &self.conn.peer;
        let mut tx = peer.ni.tx_to_serve(peer.nid).map_err(Error::to_errno)?;
        if tx.pd() != self.conn.pd {
            // The address has moved to another device, and the connection is on the old one.
            Event::TxForeign.count();
            peer.ni.release(tx);
            return Err(ENETDOWN.to_status());
        }
        match map(&mut tx) {
            Ok(mapped) => Ok((tx, mapped)),
            Err(e) => {
                peer.ni.release(tx);
                Err(e.to_errno())
            }
        }
    }
}

impl Incoming for Buffer<'_> {
    type Msg = Message;
    type Tx = KBox<Tx>;

    fn wanted(&self, msg: &Message) -> u32 {
        msg.sink().len()
    }

    fn offered(&self, msg: &Message) -> u32 {
        msg.source().len()
    }

    fn copy(&mut self, msg: &Message) -> core::result::Result<(), i32> {
        no_gpu(msg)?;
        self.bytes.read(|buf| {
            let payload = payload(buf, msg.sink().len())?;
            lnet::copy_to_pages(msg.sink(), payload).map_err(Error::to_errno)
        })
    }

    fn map_sink(&mut self, msg: &Message) -> core::result::Result<(KBox<Tx>, Sink), i32> {
        no_gpu(msg)?;
        self.tx(|tx| tx.map_sink(msg.sink()))
    }

    fn map_source(&mut self, msg: &Message) -> core::result::Result<KBox<Tx>, i32> {
        no_gpu(msg)?;
        let (tx, ()) = self.tx(|tx| tx.map_source(msg.source()))?;
        Ok(tx)
    }

    fn plan(
        &mut self,
        tx: &mut KBox<Tx>,
        sink: Desc,
        len: u32,
    ) -> core::result::Result<u16, ChainError> {
        let limits = self.conn.limits();
        self.bytes.read(|buf| tx.plan(sink, len, buf, &limits))
    }

    fn attach(&mut self, tx: &mut KBox<Tx>, msg: Message) {
        tx.msg = Some(msg);
    }

    fn end(&mut self, msg: Message, status: i32) {
        msg.finalize(status, Health::OK);
    }

    fn finish(&mut self, tx: KBox<Tx>, done: Done) {
        self.conn.peer.ni.finish(tx, done, Ended::Clean);
    }
}

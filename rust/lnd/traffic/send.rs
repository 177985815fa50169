// SPDX-License-Identifier: GPL-2.0

//! From LNet to a connection: `lnd_send`, and what follows when a message finds no connection.

use super::shell::Kernel;
use crate::{
    driver::{
        form::Request,
        send::{
            self,
            Outgoing,
            Sending, //
        },
        shell::Ended, //
    },
    kx::{
        errno::EOPNOTSUPP,
        NofsScope, //
    },
    lnd::{
        conn::{
            Network,
            Ni, //
        },
        stats::Event,
        tx::Tx, //
    },
    lnet::{
        self,
        Message,
        SendMsg, //
    },
    proto::conn::{
        Sink,
        Submit, //
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

/// Takes a message of LNet's: decides its form, maps its memory and gives it to a connection or
/// has it wait for one.
///
/// # Errors
///
/// `ENOMEM` without a descriptor, `EIO` when its memory cannot be mapped or the reply message of a
/// GET cannot be made, `EINVAL` for a type that is never sent. The message is as it was.
pub(crate) fn send(
    network: ArcBorrow<'_, Network>,
    m: SendMsg,
) -> core::result::Result<(), lnet::Refused> {
    let _nofs = NofsScope::enter();
    let network: Arc<Network> = network.into();
    let ni = &network.ni;
    let nid = Nid(m.target);
    let mut tx = match ni.tx(nid) {
        Ok(tx) => tx,
        Err(error) => {
            Event::NoTx.count();
            return Err(lnet::Refused { error, msg: m.msg });
        }
    };
    let what = match prepare(ni, &mut tx, &m) {
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
    run(&network, nid, Sending::new(tx));
    Ok(())
}

/// Decides the form and gets the memory of the message ready for it.
fn prepare(ni: &Arc<Ni>, tx: &mut Tx, m: &SendMsg) -> Result<Submit> {
    let hdr = LnetHdr::from_bytes(&m.hdr);
    let request = Request {
        kind: LnetMsgType::from_wire(m.kind),
        payload: m.msg.source().len(),
        md_len: m.msg.sink().len(),
        gpu: m.msg.is_gpu(),
        routing: m.routing,
        to_router: m.target_is_router,
    };
    let mut message = Unsent { ni, tx, m };
    send::prepare(&mut message, &request, hdr).map_err(Error::from_errno)
}

/// Refuses the memory of a GPU: mapped as it is given, the data would come from somewhere else, or
/// go there.
///
/// # Errors
///
/// `-EOPNOTSUPP`.
pub(super) fn no_gpu(msg: &Message) -> core::result::Result<(), i32> {
    if !msg.is_gpu() {
        return Ok(());
    }
    Event::GpuRefused.count();
    Err(EOPNOTSUPP.to_status())
}

/// A message with its descriptor.
struct Unsent<'a> {
    ni: &'a Arc<Ni>,
    tx: &'a mut Tx,
    m: &'a SendMsg,
}

impl Outgoing for Unsent<'_> {
    fn copy_in(&mut self, len: u32) -> core::result::Result<(), i32> {
        Event::TxImmediate.count();
        let copied = self.tx.copy_in(self.m.msg.source().truncated(len));
        copied.map_err(Error::to_errno)
    }

    fn map_source(&mut self) -> core::result::Result<(), i32> {
        no_gpu(&self.m.msg)?;
        Event::TxPut.count();
        self.tx
            .map_source(self.m.msg.source())
            .map_err(Error::to_errno)
    }

    fn map_sink(&mut self) -> core::result::Result<Sink, i32> {
        no_gpu(&self.m.msg)?;
        self.tx.map_sink(self.m.msg.sink()).map_err(Error::to_errno)
    }

    fn make_reply(&mut self) -> bool {
        let get = self.m.as_get();
        self.tx.reply = get.and_then(|get| get.create_reply(self.ni.handle()));
        let made = self.tx.reply.is_some();
        if made {
            Event::TxGet.count();
        } else {
            Event::NoReplyMsg.count();
        }
        made
    }
}

/// Goes on with a message until a connection has it, it waits for one, or it has ended.
pub(crate) fn run(network: &Arc<Network>, nid: Nid, sending: Sending<Kernel>) {
    let mut next = Some(sending);
    while let Some(sending) = next {
        next = sending.step(&mut Kernel, network, nid);
    }
}

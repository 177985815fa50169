// SPDX-License-Identifier: GPL-2.0

//! Connection requests: who may connect is decided by the engine, what it needs to know is found
//! here.

use super::{
    clock::now,
    conn::{
        Conn,
        Network,
        Peer, //
    },
    connd::{
        conn_param,
        encoding,
        make_conn,
        Link,
        Pending,
        Purpose,
        Wanted,
        Worker, //
    },
    stats::{
        self,
        Event, //
    }, //
};
use crate::{
    driver::{
        admission::{
            self,
            Found,
            RefusalKind,
            Request, //
        },
        handshake::{
            accepted_identity,
            connack, //
        },
    },
    kx::{
        Key,
        Reserved, //
    },
    lnet::Params,
    proto::{
        conn::Role,
        passive::{
            ConnReq,
            Refusal, //
        },
        peer::{
            Offer,
            Verdict, //
        },
        Cause, //
    },
    rdma::{
        CmId,
        SockAddr, //
    },
    wire::{
        Endian,
        MsgType,
        CONN_MSG_SIZE,
        REJECT_SIZE, //
    },
};
use kernel::{
    prelude::*,
    rbtree::RBTreeNode,
    sync::Arc, //
};

/// A request that a peer of ours accepts.
struct Admitted<'a> {
    peer: Arc<Peer>,
    req: ConnReq,
    offer: Offer,
    reserved: Reserved<'a, Conn>,
    pending: Pending,
}

impl<'a> Worker<'a> {
    /// A node wants to connect to the listener with `tag`; `data` is the private data of its
    /// request.
    pub(super) fn connect_request(&mut self, tag: u64, id: CmId, data: &[u8]) {
        Event::ConnReq.count();
        let (_, from) = id.addrs();
        let judged = self
            .judge(tag, &from, data)
            .and_then(|(network, req)| self.ask_peer(&network, req));
        match judged {
            Ok(admitted) => self.accept(id, &from, admitted),
            Err(refusal) => refuse(&id, &from, &refusal),
        }
    }

    /// Steps 1 to 10 of section 14.3: everything that needs no peer.
    fn judge(
        &self,
        tag: u64,
        from: &SockAddr,
        data: &[u8],
    ) -> core::result::Result<(Arc<Network>, ConnReq), Refusal> {
        let request = Request {
            private: data,
            addr: from.ipv4().map(u32::from_be_bytes),
            port: from.port(),
            privileged: Params::read().require_privileged_port != 0,
        };
        let find = |nid| {
            let network = self.shared.networks.by_nid(nid)?;
            let ni = &network.ni;
            let found = Found {
                info: ni.info(),
                on_listener: ni.dev.tag() == tag,
                in_service: ni.is_in_service(),
            };
            Some((network, found))
        };
        let readable = || stats::received(MsgType::ConnReq, CONN_MSG_SIZE as u32);
        admission::judge(&request, readable, find, || {
            self.shared.networks.is_complete(tag)
        })
    }

    /// Step 11 and 12: the peer's verdict.
    fn ask_peer(
        &mut self,
        network: &Arc<Network>,
        req: ConnReq,
    ) -> core::result::Result<Admitted<'a>, Refusal> {
        let no_resources = admission::no_resources(&network.ni.info(), &req, false);
        let too_many = admission::no_resources(&network.ni.info(), &req, true);
        // First, because a peer that is made and hears of nothing would stay for ever.
        if !Pending::is_room() {
            return Err(too_many);
        }
        let reserved = self.shared.conns.reserve().map_err(|_| no_resources)?;
        let Ok(peer) = network.get_or_create(req.peer) else {
            return Err(no_resources);
        };
        let Some(pending) = Pending::new(&peer) else {
            return Err(too_many);
        };
        let verdict = {
            let mut inner = peer.inner.lock();
            let name = Conn::name(reserved.key());
            inner.engine.handle_connreq(now(), name, &req)
        };
        match verdict {
            Verdict::Accept { version: _, offer } => Ok(Admitted {
                peer,
                req,
                offer,
                reserved,
                pending,
            }),
            Verdict::Reject(refusal) => {
                drop(reserved);
                // It may have old connections to close.
                self.drive_peer(&peer);
                Err(refusal)
            }
        }
    }

    /// Steps 13 and 14: makes the connection and accepts.
    fn accept(&mut self, id: CmId, from: &SockAddr, admitted: Admitted<'_>) {
        let Admitted {
            peer,
            req,
            offer,
            reserved,
            pending,
        } = admitted;
        let key = reserved.key();
        let tag = self.shared.devices.next_tag();
        id.set_tag(tag);
        let conn = match self.accepted_conn(&id, tag, &peer, &req, offer, key) {
            Ok(conn) => conn,
            Err(e) => {
                let refusal = admission::no_resources(&peer.ni.info(), &req, false);
                refuse(&id, from, &refusal);
                drop(reserved);
                let mut inner = peer.inner.lock();
                let cause = Cause::ConnectFailed(e.to_errno());
                inner
                    .engine
                    .handle_closed(now(), Conn::name(key), cause, now());
                inner.engine.handle_gone(now(), Conn::name(key));
                drop(inner);
                return self.drive_peer(&peer);
            }
        };
        reserved.keep();
        conn.set_known();
        let link = Link {
            id,
            purpose: Purpose::Passive,
            conn: Some(conn.clone()),
            pending: Some(pending),
            peer: peer.clone(),
        };
        let linked = RBTreeNode::new(tag, link, GFP_KERNEL).map(|node| self.links.insert(node));
        let added = peer.inner.lock().add_conn(conn.id, conn.clone());
        let sent = match linked {
            Ok(_) if added => self.send_connack(tag, &conn),
            Ok(_) | Err(_) => Err(ENOMEM),
        };
        if let Err(e) = sent {
            crate::warn_ratelimited!("{}: cannot accept: {:?}\n", peer.nid, e);
            let cause = Cause::ConnectFailed(e.to_errno());
            conn.drive(|engine, now| engine.handle_conn_failed(now, cause));
        }
        self.drive_peer(&peer);
    }

    fn accepted_conn(
        &self,
        id: &CmId,
        tag: u64,
        peer: &Arc<Peer>,
        req: &ConnReq,
        offer: Offer,
        key: Key,
    ) -> Result<Arc<Conn>> {
        let wanted = Wanted {
            tag,
            key,
            role: Role::Passive,
            ident: accepted_identity(&peer.ni.info(), req),
            version: req.version,
            offer,
        };
        make_conn(self.shared, peer, id, wanted)
    }

    fn send_connack(&self, tag: u64, conn: &Conn) -> Result {
        let (ident, limits) = conn.feed(|engine, _| (*engine.identity(), *engine.limits()));
        let msg = connack(&ident, &limits, encoding()).map_err(|_| EINVAL)?;
        let link = self.links.get(&tag).ok_or(ENODEV)?;
        link.id.accept(&conn_param(&msg))?;
        stats::sent(MsgType::ConnAck, CONN_MSG_SIZE as u32);
        Ok(())
    }
}

/// Rejects a request.
fn refuse(id: &CmId, from: &SockAddr, refusal: &Refusal) {
    Event::ConnReqRejected.count();
    match RefusalKind::from(&refusal.cause) {
        RefusalKind::Bad => Event::ConnReqBad.count(),
        RefusalKind::Port => Event::ConnReqPort.count(),
        RefusalKind::Forged => Event::ConnReqForged.count(),
        RefusalKind::Early => Event::ConnReqEarly.count(),
        RefusalKind::Stale => Event::ConnReqStale.count(),
        RefusalKind::Race => Event::ConnReqRace.count(),
        RefusalKind::Pending => Event::ConnReqPending.count(),
        RefusalKind::NoResources => Event::ConnReqNoResources.count(),
    }
    crate::info_ratelimited!(
        "connection request of {} rejected: {}\n",
        from,
        refusal.cause
    );
    let mut data = [0; REJECT_SIZE];
    let sent = match refusal.reject.emit(Endian::NATIVE, &mut data) {
        Ok(len) => id.reject(data.get(..len).unwrap_or(&data)),
        Err(_) => Err(EINVAL),
    };
    if sent.is_err() {
        // The requester has gone, or will time out; the id is destroyed in any case.
        Event::CmUnexpected.count();
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Calls of the connection manager, and its events.

use super::{
    link::{
        Entry,
        Pending, //
    },
    Worker, //
};
use crate::{
    driver::{
        cm::CmEvent,
        connect::{
            effects::{
                Ids,
                Link,
                Purpose, //
            },
            Work, //
        },
        handshake,
        tunables, //
    },
    kx::Reserved,
    lnd::{
        conn::{
            Conn,
            Peer, //
        },
        traffic::shell::Kernel, //
    },
    lnet::Params,
    proto::{
        AttemptId,
        Span, //
    },
    rdma::{
        self,
        CmEventKind,
        CmId,
        ConnParam,
        PrivateData,
        SockAddr, //
    },
    wire::{
        Endian,
        Nid,
        Reject, //
    }, //
};
use kernel::{
    prelude::*,
    rbtree::RBTreeNodeReservation,
    sync::Arc, //
};

/// What the errors of a call are called in [`driver`](crate::driver).
pub(super) fn errno(e: Error) -> i32 {
    e.to_errno()
}

/// What an event gives to do.
pub(super) fn work_of<'a>(event: rdma::CmEvent) -> Work<Worker<'a>> {
    let rdma::CmEvent {
        tag,
        kind,
        data: private,
    } = event;
    let event = match kind {
        CmEventKind::ConnectRequest(id) => return Work::request(tag, id, private),
        CmEventKind::AddrResolved => CmEvent::AddrResolved,
        CmEventKind::AddrError(e) => CmEvent::AddrError(e),
        CmEventKind::RouteResolved => CmEvent::RouteResolved,
        CmEventKind::RouteError(e) => CmEvent::RouteError(e),
        CmEventKind::ConnectError(e) => CmEvent::ConnectError(e),
        CmEventKind::Unreachable(e) => CmEvent::Unreachable(e),
        CmEventKind::Rejected(reason) => CmEvent::Rejected { reason, private },
        CmEventKind::Established => CmEvent::Established { private },
        CmEventKind::Disconnected => CmEvent::Disconnected,
        CmEventKind::DeviceRemoval => CmEvent::DeviceRemoval,
        CmEventKind::AddrChange => CmEvent::AddrChange,
        CmEventKind::TimewaitExit => CmEvent::TimewaitExit,
    };
    Work::Event { tag, event }
}

impl<'a> Worker<'a> {
    /// The id with this tag.
    pub(super) fn entry(&self, tag: u64) -> Result<&Entry<'a>, i32> {
        self.links.get(&tag).ok_or(ENODEV.to_errno())
    }

    /// The id with this tag, to have it resolve or to change its path.
    pub(super) fn entry_mut(&mut self, tag: u64) -> Result<&mut Entry<'a>, i32> {
        self.links.get_mut(&tag).ok_or(ENODEV.to_errno())
    }

    fn try_open(&mut self, link: Link<Self>) -> Result<u64> {
        let dev = &link.peer.ni.dev;
        // The device of an NI may be gone.
        dev.hca()?;
        let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let reserved = self.shared.conns.reserve()?;
        let tag = reserved.key().raw();
        let id = CmId::new(self.shared.devices.cm(), dev.net(), tag)?;
        let entry = Entry { id, link, reserved };
        drop(self.links.insert(node.into_node(tag, entry)));
        Ok(tag)
    }
}

impl<'a> Ids for Worker<'a> {
    type Shell = Kernel;
    type Tag = u64;
    type Reserved = Reserved<'a, Conn>;
    type Private = PrivateData;
    type Request = CmId;
    type Pending = Pending;

    fn open(&mut self, link: Link<Self>) -> Result<u64, i32> {
        self.try_open(link).map_err(errno)
    }

    fn adopt(
        &mut self,
        request: CmId,
        reserved: Reserved<'a, Conn>,
        link: Link<Self>,
    ) -> Result<u64, CmId> {
        let Ok(node) = RBTreeNodeReservation::new(GFP_KERNEL) else {
            return Err(request);
        };
        let tag = reserved.key().raw();
        request.set_tag(tag);
        let entry = Entry {
            id: request,
            link,
            reserved,
        };
        drop(self.links.insert(node.into_node(tag, entry)));
        Ok(tag)
    }

    fn disown(&mut self, tag: u64) -> Option<CmId> {
        self.links.remove(&tag).map(|entry| entry.id)
    }

    fn link(&mut self, tag: u64) -> Option<&mut Link<Self>> {
        self.links.get_mut(&tag).map(|entry| &mut entry.link)
    }

    fn find_attempt(&mut self, peer: &Arc<Peer>, attempt: AttemptId) -> Option<u64> {
        let is = |link: &Link<Self>| match link.purpose {
            Purpose::Active(plan) => plan.attempt == attempt && Arc::ptr_eq(&link.peer, peer),
            Purpose::Passive => false,
        };
        let mut links = self.links.iter();
        let found = links.find(|(_, entry)| is(&entry.link));
        found.map(|(&tag, _)| tag)
    }

    fn conn(&self, tag: u64) -> Option<Arc<Conn>> {
        self.links.get(&tag)?.reserved.get()
    }

    fn destroy(&mut self, tag: u64) {
        drop(self.links.remove(&tag));
    }

    fn resolve_addr(&mut self, tag: u64, timeout: Span, again: bool) -> Result<(), i32> {
        let entry = self.entry_mut(tag)?;
        let peer = &entry.link.peer;
        let to = address_of(peer.nid).map_err(errno)?;
        let from = SockAddr::v4(peer.ni.dev.addr().to_be_bytes(), 0);
        let timeout = millis(timeout);
        let resolving = if again {
            entry.id.resolve_addr(None, &to, timeout)
        } else if Params::read().use_privileged_port != 0 {
            entry.id.resolve_addr_privileged(&from, &to, timeout)
        } else {
            entry.id.resolve_addr(Some(&from), &to, timeout)
        };
        resolving.map_err(errno)
    }

    fn resolve_route(&mut self, tag: u64, timeout: Span) -> Result<(), i32> {
        let entry = self.entry_mut(tag)?;
        let live = entry.link.peer.ni.handle().tos();
        if let Some(tos) = tunables::live_tos(live, Params::read().tos) {
            entry.id.set_service_type(tos);
        }
        entry.id.resolve_route(millis(timeout)).map_err(errno)
    }

    fn connect(&mut self, tag: u64, private: &[u8]) -> Result<(), i32> {
        let id = &self.entry(tag)?.id;
        id.connect(&conn_param(private)).map_err(errno)
    }

    fn accept(&mut self, tag: u64, private: &[u8]) -> Result<(), i32> {
        let id = &self.entry(tag)?.id;
        id.accept(&conn_param(private)).map_err(errno)
    }

    fn reject(&mut self, request: CmId, reject: &Reject) -> Result<(), i32> {
        let data = handshake::reject(reject, Endian::NATIVE).map_err(|_| EINVAL.to_errno())?;
        request.reject(&data).map_err(errno)
    }

    fn notify_established(&mut self, conn: &Arc<Conn>) {
        if let Ok(entry) = self.entry(conn.key.raw()) {
            // It fails when the CM knows already.
            let _ = entry.id.notify_comm_est();
        }
    }

    fn disconnect(&mut self, conn: &Arc<Conn>) {
        if let Ok(entry) = self.entry(conn.key.raw()) {
            // It fails when there is no connection any more, or not yet.
            let _ = entry.id.disconnect();
        }
    }

    fn tag_of(&self, conn: &Arc<Conn>) -> u64 {
        conn.key.raw()
    }
}

/// Where `nid` listens.
fn address_of(nid: Nid) -> Result<SockAddr> {
    let service = u16::try_from(Params::read().service).map_err(|_| EINVAL)?;
    Ok(SockAddr::v4(nid.addr().to_be_bytes(), service))
}

/// As the CM takes it.
fn millis(span: Span) -> u32 {
    u32::try_from(span.0 / 1_000_000).unwrap_or(u32::MAX)
}

/// What a connection is requested or accepted with.
fn conn_param(msg: &[u8]) -> ConnParam<'_> {
    let params = Params::read();
    ConnParam {
        private_data: msg,
        responder_resources: 0,
        initiator_depth: 0,
        flow_control: true,
        retry_count: tunables::retries("retry_count", params.retry_count).0,
        rnr_retry_count: tunables::retries("rnr_retry_count", params.rnr_retry_count).0,
    }
}

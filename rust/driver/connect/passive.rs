// SPDX-License-Identifier: GPL-2.0

//! Connection requests of peers: from the CM to the CONNACK or the reject (protocol.md section
//! 14.3).

use super::{
    super::{
        admission::{
            self,
            RefusalKind, //
        },
        cm::{
            self,
            CmEvent,
            ConnInput, //
        },
        handshake::{
            accepted_identity,
            connack, //
        },
    },
    effects::{
        ConnOf,
        Connect,
        Count,
        Line,
        Link,
        NiOf,
        PeerOf,
        Purpose,
        Wanted, //
    },
    Work,
};
use crate::{
    driver::shell::Shell,
    proto::{
        conn::Role,
        errno,
        passive::{
            ConnReq,
            Refusal, //
        },
        peer::{
            Claim,
            Offer,
            Verdict, //
        },
        Cause,
        ConnId,
        Limits, //
    },
    wire::{
        Identity,
        MsgType, //
    },
};

/// What is next for a connection request. Each step holds one lock.
#[must_use]
pub struct Accept<C: Connect>(Next<C>);

enum Next<C: Connect> {
    /// Steps 1 to 10 of section 14.3: everything that needs no peer.
    Judge {
        listener: C::Tag,
        request: C::Request,
        private: C::Private,
    },
    /// Room, and the peer.
    Find {
        request: C::Request,
        ni: NiOf<C>,
        req: ConnReq,
    },
    /// The verdict of the peer.
    Ask {
        request: C::Request,
        peer: PeerOf<C>,
        req: ConnReq,
        reserved: C::Reserved,
    },
    /// The connection is made.
    Create {
        request: C::Request,
        peer: PeerOf<C>,
        req: ConnReq,
        offer: Offer,
        reserved: C::Reserved,
        pending: C::Pending,
    },
    /// It could not be: the peer, which had named it, is told.
    NotCreated {
        peer: PeerOf<C>,
        name: ConnId,
        errno: i32,
    },
    /// The peer has it in its list.
    List {
        tag: C::Tag,
        peer: PeerOf<C>,
        conn: ConnOf<C>,
        ident: Identity,
        limits: Limits,
    },
    /// The CONNACK is sent.
    Answer {
        tag: C::Tag,
        peer: PeerOf<C>,
        conn: ConnOf<C>,
        ident: Identity,
        limits: Limits,
        listed: bool,
    },
}

impl<C: Connect> Accept<C> {
    /// A node wants to connect to a listener; `private` is the private data of its request.
    pub(super) const fn new(listener: C::Tag, request: C::Request, private: C::Private) -> Self {
        Self(Next::Judge {
            listener,
            request,
            private,
        })
    }

    /// Goes one step.
    pub(super) fn step(self, c: &mut C) -> Option<Work<C>> {
        let next = match self.0 {
            Next::Judge {
                listener,
                request,
                private,
            } => judge(c, listener, request, private.as_ref())?,
            Next::Find { request, ni, req } => find(c, request, &ni, req)?,
            Next::Ask {
                request,
                peer,
                req,
                reserved,
            } => return Some(ask(c, request, peer, req, reserved)),
            Next::Create {
                request,
                peer,
                req,
                offer,
                reserved,
                pending,
            } => create(c, (request, peer, req), offer, reserved, pending),
            Next::NotCreated { peer, name, errno } => {
                let cause = Cause::ConnectFailed(errno);
                c.shell().peer(&peer, |engine, now| {
                    engine.handle_closed(now, name, cause, now);
                    engine.handle_gone(now, name);
                });
                return Some(Work::peer(peer));
            }
            Next::List {
                tag,
                peer,
                conn,
                ident,
                limits,
            } => {
                let (_, listed) = c.name_conn(&peer, &conn, |_, _, _| Claim::Taken);
                Next::Answer {
                    tag,
                    peer,
                    conn,
                    ident,
                    limits,
                    listed,
                }
            }
            Next::Answer {
                tag,
                peer,
                conn,
                ident,
                limits,
                listed,
            } => {
                let sent = if listed {
                    answer(c, tag, &peer, &ident, &limits)
                } else {
                    Err(errno::ENOMEM.wrapping_neg())
                };
                if let Err(e) = sent {
                    c.log(&peer, Line::CannotAccept(e));
                    c.feed(&conn, ConnInput::Failed(Cause::ConnectFailed(e)));
                }
                return Some(Work::peer(peer));
            }
        };
        Some(Work::Accept(Self(next)))
    }
}

/// Rejects a request.
fn refuse<C: Connect>(c: &mut C, request: C::Request, refusal: &Refusal) {
    c.count(Count::Refused(RefusalKind::from(&refusal.cause)));
    c.log_refused(&request, &refusal.cause);
    if c.reject(request, &refusal.reject).is_err() {
        // The requester has gone, or will time out; the id is destroyed in any case.
        c.count(Count::Unexpected);
    }
}

fn judge<C: Connect>(
    c: &mut C,
    listener: C::Tag,
    request: C::Request,
    private: &[u8],
) -> Option<Next<C>> {
    c.count(Count::Request);
    let mut readable = false;
    let judged = admission::judge(
        &c.incoming(&request, private),
        || readable = true,
        |nid| c.find_ni(listener, nid),
        || c.is_complete(listener),
    );
    if readable {
        c.count(Count::Received(MsgType::ConnReq));
    }
    match judged {
        Ok((ni, req)) => Some(Next::Find { request, ni, req }),
        Err(refusal) => {
            refuse(c, request, &refusal);
            None
        }
    }
}

fn find<C: Connect>(c: &mut C, request: C::Request, ni: &NiOf<C>, req: ConnReq) -> Option<Next<C>> {
    let info = c.ni_info(ni);
    // First, because a peer that is made and hears of nothing would stay for ever.
    if !admission::has_room(c.pending()) {
        refuse(c, request, &admission::no_resources(&info, &req, true));
        return None;
    }
    let no_resources = admission::no_resources(&info, &req, false);
    let Ok(reserved) = c.reserve() else {
        refuse(c, request, &no_resources);
        return None;
    };
    match c.shell().find_peer(ni, req.peer) {
        Ok(peer) => Some(Next::Ask {
            request,
            peer,
            req,
            reserved,
        }),
        Err(_) => {
            refuse(c, request, &no_resources);
            None
        }
    }
}

fn ask<C: Connect>(
    c: &mut C,
    request: C::Request,
    peer: PeerOf<C>,
    req: ConnReq,
    reserved: C::Reserved,
) -> Work<C> {
    if !admission::peer_has_room(c.pending_of(&peer)) {
        let info = c.info(&peer);
        refuse(c, request, &admission::no_resources(&info, &req, true));
        return Work::peer(peer);
    }
    let name = c.reserved_name(&reserved);
    let verdict = c
        .shell()
        .peer(&peer, |engine, now| engine.handle_connreq(now, name, &req));
    match verdict {
        Verdict::Accept { version: _, offer } => {
            let pending = c.hold_pending(&peer);
            Work::Accept(Accept(Next::Create {
                request,
                peer,
                req,
                offer,
                reserved,
                pending,
            }))
        }
        Verdict::Reject(refusal) => {
            refuse(c, request, &refusal);
            // It may have old connections to close.
            Work::peer(peer)
        }
    }
}

fn create<C: Connect>(
    c: &mut C,
    (request, peer, req): (C::Request, PeerOf<C>, ConnReq),
    offer: Offer,
    reserved: C::Reserved,
    pending: C::Pending,
) -> Next<C> {
    let name = c.reserved_name(&reserved);
    let info = c.info(&peer);
    let wanted = Wanted {
        role: Role::Passive,
        ident: accepted_identity(&info, &req),
        version: req.version,
        offer,
    };
    let link = Link {
        purpose: Purpose::Passive,
        pending: Some(pending),
        peer: peer.clone(),
    };
    let (request, errno) = match c.adopt(request, reserved, link) {
        Ok(tag) => match c.create(tag, &wanted) {
            Ok((conn, limits)) => {
                return Next::List {
                    tag,
                    peer,
                    conn,
                    ident: wanted.ident,
                    limits,
                };
            }
            Err(e) => (c.disown(tag), e),
        },
        Err(request) => (Some(request), errno::ENOMEM.wrapping_neg()),
    };
    if let Some(request) = request {
        refuse(c, request, &admission::no_resources(&info, &req, false));
    }
    Next::NotCreated { peer, name, errno }
}

fn answer<C: Connect>(
    c: &mut C,
    tag: C::Tag,
    peer: &PeerOf<C>,
    ident: &Identity,
    limits: &Limits,
) -> Result<(), i32> {
    let msg = connack(ident, limits, c.encoding(peer));
    let msg = msg.map_err(|_| errno::EINVAL.wrapping_neg())?;
    c.accept(tag, &msg)?;
    c.count(Count::Sent(MsgType::ConnAck));
    Ok(())
}

/// The CM has something to report about an accepted connection.
pub(super) fn event<C: Connect>(c: &mut C, tag: C::Tag, peer: &PeerOf<C>, event: CmEvent<&[u8]>) {
    let Some(conn) = c.conn(tag) else {
        return c.count(Count::Unexpected);
    };
    match cm::passive(event) {
        cm::Passive::Conn(input) => {
            if input.ends_pending() {
                if let Some(link) = c.link(tag) {
                    link.pending = None;
                }
            }
            super::log_moved(c, peer, event);
            c.feed(&conn, input);
        }
        cm::Passive::Nothing => {}
        cm::Passive::Unexpected => c.count(Count::Unexpected),
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Connection work: what the actions of a peer, the events of the CM and the requests of a
//! connection lead to, and in which order.
//!
//! - [`effects`]: what it needs done.
//! - [`active`]: attempts of ours.
//! - [`passive`]: connection requests of peers.
//! - [`teardown`]: the end of a connection.
//!
//! A piece of [`Work`] belongs to one peer, or will when its request has been read. What concerns
//! a peer is done piece by piece, by one thread at a time; which thread that is does not matter,
//! and there may be several for different peers. A piece is cut into steps where a lock is
//! released: what other threads do with the peer or the connection meanwhile comes between them.

pub mod active;
pub mod effects;
pub mod passive;
pub mod teardown;

use self::{
    active::Attempt,
    effects::{
        ConnOf,
        Connect,
        FailedQp,
        Line,
        PeerOf,
        Plan,
        Purpose,
        TxOf, //
    },
    passive::Accept,
};
use super::{
    cm::{
        CmEvent,
        ConnInput, //
    },
    handshake::Proposal,
    send::Sending,
    shell::Shell, //
};
use crate::proto::{
    peer::PeerAction,
    Cause,
    Span, //
};

/// How long the CM is asked to resolve an address, again and again. When the neighbour answers
/// just as the CM queues its request, the CM does not notice before the time is up.
const RESOLVE_SLICE: Span = Span(500_000_000);

/// A piece of connection work, as far as it has come.
#[must_use]
pub enum Work<C: Connect> {
    /// Runs the actions of a peer until there are none; then takes a drained connection of it
    /// down.
    Peer {
        /// The peer.
        peer: PeerOf<C>,
        /// The connection.
        drained: Option<ConnOf<C>>,
    },
    /// Runs one of them.
    Act {
        /// The peer.
        peer: PeerOf<C>,
        /// The action.
        action: PeerAction<TxOf<C>>,
        /// As of [`Work::Peer`].
        drained: Option<ConnOf<C>>,
    },
    /// Closes a connection of the peer; then there are other actions.
    Close {
        /// The peer.
        peer: PeerOf<C>,
        /// The connection.
        conn: ConnOf<C>,
        /// Why.
        cause: Cause,
        /// As of [`Work::Peer`].
        drained: Option<ConnOf<C>>,
    },
    /// Handles an event of an id.
    Event {
        /// The id.
        tag: C::Tag,
        /// The event.
        event: CmEvent<C::Private>,
    },
    /// Goes on with an attempt.
    Attempt(Attempt<C>),
    /// Goes on with a connection request.
    Accept(Accept<C>),
    /// Serves the requests of a connection until there are none.
    Conn(ConnOf<C>),
    /// Tells a connection what became of its queue pair; then there are other requests.
    QpFailed {
        /// The connection.
        conn: ConnOf<C>,
        /// What became of it.
        qp: FailedQp,
    },
}

impl<C: Connect> Work<C> {
    /// The actions of a peer.
    pub const fn peer(peer: PeerOf<C>) -> Self {
        let drained = None;
        Self::Peer { peer, drained }
    }

    /// A node wants to connect to a listener; `private` is the private data of its request.
    pub const fn request(listener: C::Tag, request: C::Request, private: C::Private) -> Self {
        Self::Accept(Accept::new(listener, request, private))
    }

    /// Goes on to the end.
    pub fn run(self, c: &mut C) {
        let mut next = Some(self);
        while let Some(work) = next {
            next = work.step(c);
        }
    }

    /// Goes one step, which holds one lock at a time.
    pub fn step(self, c: &mut C) -> Option<Self> {
        Some(match self {
            Self::Peer { peer, drained } => {
                let action = c.shell().peer(&peer, |engine, _| engine.poll_action());
                match (action, drained) {
                    (Some(action), drained) => Self::Act {
                        peer,
                        action,
                        drained,
                    },
                    (None, Some(conn)) => teardown::take_down(c, &conn),
                    (None, None) => return None,
                }
            }
            Self::Act {
                peer,
                action,
                drained,
            } => act(c, peer, action, drained),
            Self::Close {
                peer,
                conn,
                cause,
                drained,
            } => {
                c.feed(&conn, ConnInput::Close(cause));
                Self::Peer { peer, drained }
            }
            Self::Event { tag, event } => {
                let Some(link) = c.link(tag) else {
                    c.listener_event(tag, event.borrowed());
                    return None;
                };
                let (peer, purpose) = (link.peer.clone(), link.purpose);
                match purpose {
                    Purpose::Active(plan) => Self::Attempt(Attempt::event(tag, peer, plan, event)),
                    Purpose::Passive => {
                        passive::event(c, tag, &peer, event.borrowed());
                        Self::peer(peer)
                    }
                }
            }
            Self::Attempt(attempt) => attempt.step(c),
            Self::Accept(accept) => return accept.step(c),
            Self::Conn(conn) => return teardown::serve(c, conn),
            Self::QpFailed { conn, qp } => {
                teardown::qp_failed(c, &conn, qp);
                Self::Conn(conn)
            }
        })
    }
}

/// Runs an action of a peer.
fn act<C: Connect>(
    c: &mut C,
    peer: PeerOf<C>,
    action: PeerAction<TxOf<C>>,
    drained: Option<ConnOf<C>>,
) -> Work<C> {
    let close = match action {
        PeerAction::StartAttempt {
            id,
            version,
            offer,
            dst_stamp,
        } => {
            let proposal = Proposal {
                peer: c.nid(&peer),
                version,
                offer,
                dst_stamp,
            };
            let attempt = id;
            active::start(c, &peer, Plan { attempt, proposal });
            None
        }
        PeerAction::AbortAttempt { id, cause } => {
            active::abort(c, &peer, id, cause).map(|conn| (conn, cause))
        }
        PeerAction::Assign { conn, tx, ticket } => {
            let sending = Sending::assigned(peer.clone(), conn, tx, ticket);
            c.assign(&peer, sending);
            None
        }
        PeerAction::Fail { tx, done } => {
            c.fail(&peer, tx, done);
            None
        }
        PeerAction::CloseConn { conn, cause } => {
            // It may be gone.
            c.find_conn(&peer, conn).map(|conn| (conn, cause))
        }
        PeerAction::NotifyDown { alive } => {
            c.notify_down(&peer, alive);
            None
        }
        PeerAction::Idle => {
            // One that is out of service has no more actions.
            let _ = c.retire(&peer);
            None
        }
    };
    match close {
        Some((conn, cause)) => Work::Close {
            peer,
            conn,
            cause,
            drained,
        },
        None => Work::Peer { peer, drained },
    }
}

/// Logs that a connection ends because our address has moved.
fn log_moved<C: Connect>(c: &mut C, peer: &PeerOf<C>, event: CmEvent<&[u8]>) {
    if event == CmEvent::AddrChange {
        c.log(peer, Line::Moved);
    }
}

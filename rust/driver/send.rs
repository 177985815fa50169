// SPDX-License-Identifier: GPL-2.0

//! From LNet to a connection: how a message is prepared, and how it finds a connection that takes
//! it.

use super::{
    form::{
        Form,
        Request, //
    },
    shell::Shell, //
};
use crate::{
    proto::{
        conn::{
            Sink,
            Submit, //
        },
        errno,
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
        Nid, //
    },
};

/// A message fails when it has met this many peers that were being deleted.
const MAX_PEERS: u8 = 4;

/// A message of LNet's and its transmit descriptor. Errors are negative errnos.
pub trait Outgoing {
    /// Copies the first `len` bytes of the payload into the descriptor.
    ///
    /// # Errors
    ///
    /// The payload has fewer bytes.
    fn copy_in(&mut self, len: u32) -> Result<(), i32>;

    /// Maps the payload for the device to read.
    ///
    /// # Errors
    ///
    /// It cannot be mapped.
    fn map_source(&mut self) -> Result<(), i32>;

    /// Maps and registers the memory that the peer is to write.
    ///
    /// # Errors
    ///
    /// It cannot be mapped or registered.
    fn map_sink(&mut self) -> Result<Sink, i32>;

    /// Makes the REPLY that belongs to a GET. `false` when LNet cannot.
    fn make_reply(&mut self) -> bool;
}

/// Prepares a message: copies, maps or registers its memory, as its form needs it.
///
/// # Errors
///
/// The negative errno for LNet: that of the failed step; `-EIO` when LNet has no reply message;
/// `-EINVAL` for a type that is never sent.
pub fn prepare<O: Outgoing>(
    message: &mut O,
    request: &Request,
    hdr: LnetHdr,
) -> Result<Submit, i32> {
    const EINVAL: i32 = errno::EINVAL.wrapping_neg();
    const EIO: i32 = errno::EIO.wrapping_neg();
    match request.form() {
        Form::Immediate(len) => {
            let payload = u16::try_from(len).map_err(|_| EINVAL)?;
            message.copy_in(len)?;
            Ok(Submit::Immediate { hdr, payload })
        }
        Form::Put(len) => {
            message.map_source()?;
            Ok(Submit::Put { hdr, len })
        }
        Form::Get(_) => {
            let sink = message.map_sink()?;
            if message.make_reply() {
                Ok(Submit::Get { hdr, sink })
            } else {
                Err(EIO)
            }
        }
        Form::Unsupported => Err(EINVAL),
    }
}

/// A message on its way to a connection. Each [`Sending::step`] holds one lock.
#[must_use]
pub struct Sending<S: Shell> {
    /// How many more peers may turn out to be going away.
    peers: u8,
    next: Next<S>,
}

enum Next<S: Shell> {
    /// Finds the peer.
    Find { tx: S::Tx },
    /// The peer names a connection, or keeps the message until there is one.
    Ask { peer: S::Peer, tx: S::Tx },
    /// The peer has named a connection for a message that waited.
    Assigned {
        peer: S::Peer,
        named: PeerSubmit<S::Tx>,
    },
    /// It is given to the connection.
    Give {
        peer: S::Peer,
        conn: Option<S::Conn>,
        id: ConnId,
        tx: S::Tx,
        ticket: Ticket,
    },
    /// The connection refused it.
    Return {
        peer: S::Peer,
        id: ConnId,
        refused: Refused<S::Tx>,
        ticket: Ticket,
    },
    /// The peer refused it.
    Refused {
        peer: S::Peer,
        refused: Refused<S::Tx>,
    },
    /// It ends: no connection can take it.
    Fail { tx: S::Tx, cause: Cause },
}

impl<S: Shell> Sending<S> {
    /// A new message.
    pub fn new(tx: S::Tx) -> Self {
        Self {
            peers: MAX_PEERS,
            next: Next::Find { tx },
        }
    }

    /// A message that waited: its peer names a connection for it.
    pub fn assigned(peer: S::Peer, id: ConnId, tx: S::Tx, ticket: Ticket) -> Self {
        let named = PeerSubmit::Use {
            conn: id,
            tx,
            ticket,
        };
        let next = Next::Assigned { peer, named };
        // Its peer is being deleted with it: it does not look for another.
        Self { peers: 0, next }
    }

    /// Takes one step on the way to `nid` through `ni`. `None`: a connection has it, the peer keeps
    /// it, or it has ended.
    pub fn step(self, shell: &mut S, ni: &S::Ni, nid: Nid) -> Option<Self> {
        let Self { peers, next } = self;
        let next = match next {
            Next::Find { tx } => return Some(Self::find(shell, ni, nid, peers, tx)),
            Next::Ask { peer, tx } => {
                let placed = shell.place(&peer, |engine, now| engine.submit(now, tx));
                Self::placed(shell, peer, placed)?
            }
            Next::Assigned { peer, named } => {
                let placed = shell.place(&peer, |_, _| named);
                Self::placed(shell, peer, placed)?
            }
            Next::Give {
                peer,
                conn,
                id,
                tx,
                ticket,
            } => Next::Return {
                peer,
                id,
                refused: Self::give(shell, conn, tx).err()?,
                ticket,
            },
            Next::Return {
                peer,
                id,
                refused,
                ticket,
            } => {
                // The engine limits how often a message comes back.
                let placed = shell.place(&peer, |engine, now| {
                    engine.handle_conn_refused(now, id, refused, ticket)
                });
                Self::placed(shell, peer, placed)?
            }
            // The peer is being deleted; another takes its place.
            Next::Refused { peer, refused } if refused.cause == Cause::Deleted && peers > 0 => {
                shell.forget_peer(&peer);
                Next::Find { tx: refused.tx }
            }
            Next::Refused { peer: _, refused } => Next::Fail {
                tx: refused.tx,
                cause: refused.cause,
            },
            Next::Fail { tx, cause } => {
                shell.fail(ni, tx, cause.outcome_waiting().into());
                return None;
            }
        };
        Some(Self { peers, next })
    }

    /// Finds the peer, if `peers` lets it.
    fn find(shell: &mut S, ni: &S::Ni, nid: Nid, peers: u8, tx: S::Tx) -> Self {
        let Some(left) = peers.checked_sub(1) else {
            let cause = Cause::Deleted;
            let next = Next::Fail { tx, cause };
            return Self { peers, next };
        };
        let next = match shell.find_peer(ni, nid) {
            Ok(peer) => Next::Ask { peer, tx },
            Err(cause) => Next::Fail { tx, cause },
        };
        Self { peers: left, next }
    }

    /// Gives the message to the connection, if that is still there.
    fn give(shell: &mut S, conn: Option<S::Conn>, tx: S::Tx) -> Result<(), Refused<S::Tx>> {
        match conn {
            Some(conn) => shell.submit(&conn, tx),
            None => Err(Refused {
                tx,
                cause: Cause::PeerGone,
            }),
        }
    }

    /// The step that follows the answer of a peer. `None`: the peer keeps the message.
    fn placed(
        shell: &mut S,
        peer: S::Peer,
        (placed, conn): (PeerSubmit<S::Tx>, Option<S::Conn>),
    ) -> Option<Next<S>> {
        match placed {
            PeerSubmit::Use {
                conn: id,
                tx,
                ticket,
            } => Some(Next::Give {
                peer,
                conn,
                id,
                tx,
                ticket,
            }),
            PeerSubmit::Queued => {
                shell.kick_peer(&peer);
                None
            }
            PeerSubmit::Refused(refused) => {
                shell.kick_peer(&peer);
                Some(Next::Refused { peer, refused })
            }
        }
    }
}

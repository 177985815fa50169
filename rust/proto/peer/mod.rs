// SPDX-License-Identifier: GPL-2.0

//! One peer: what a local NI knows of a remote NID (protocol.md section 14).
//!
//! The peer owns the messages that wait for a connection, decides when connections are attempted,
//! retried and accepted, and knows which are usable. It never sees a QP: the driver makes and
//! destroys connections as [`PeerAction`]s say and reports what became of them.
//!
//! # Contract with the driver
//!
//! - All calls on one peer happen under one lock; actions are run after it is released. Actions
//!   are pulled after every call, until there is none.
//! - Every [`PeerAction::StartAttempt`] is answered by events for its id, the last of which is
//!   [`AttemptEvent::Released`] when its resources are gone, or by a connection: after
//!   [`AttemptEvent::Connected`] was taken, its resources are that connection's, and
//!   [`Peer::handle_gone`] stands for the release.
//! - Every failure of an attempt, whoever noticed it, is followed by one
//!   [`PeerAction::AbortAttempt`]: then the driver takes the attempt down. (It may have begun
//!   before; then it ignores the action.)
//! - Every connection that a [`Verdict::Accept`] or [`AttemptEvent::Connected`] named ends with
//!   [`Peer::handle_closed`], then [`Peer::handle_gone`].
//! - Before a peer is deleted it is taken out of the driver's table; a caller that found it before
//!   that sees [`Cause::Deleted`] and looks again.

mod active;
mod attempt;
mod conns;
mod ends;
mod pace;
mod queue;
mod reject;

pub use self::attempt::AttemptEvent;
pub use self::pace::{
    TieBreak,
    MAX_RACES, //
};
pub use self::queue::Ticket;
pub use self::reject::Offer;
#[cfg(feature = "tests")]
pub use self::reject::{
    CM_REJ_CONSUMER_DEFINED,
    CM_REJ_INVALID_SERVICE_ID,
    CM_REJ_STALE_CONN, //
};

use self::{
    attempt::Attempt,
    conns::Conns,
    queue::MsgQueue, //
};
use super::{
    passive::{
        NiInfo,
        Refusal, //
    },
    AttemptId,
    Cause,
    ConnId,
    Done,
    Instant,
    LiveTunables,
    NiTunables,
    Refused,
    Span,
    Storage, //
};
use crate::wire::{
    Nid,
    Stamp,
    Version,
    V1_QUEUE_DEPTH, //
};

/// Time to resolve an address, and again to resolve a route.
pub const RESOLVE_TIMEOUT: Span = Span::from_secs(5);

/// What a waiting message gets on top of the connect timeout: resolving address and route.
const RESOLVE_BOTH: Span = Span::from_secs(10);

/// How often a message may come back from connections that died meanwhile.
const MAX_TRIES: u8 = 8;

/// Fragments that version 1 peers accept: all of them are older than 2.15.
const V1_MAX_FRAGS: u16 = 256;

/// What a peer is made with. Only [`Peer::retune`] changes it afterwards.
#[derive(Clone, Copy, Debug)]
pub struct PeerConfig {
    /// The remote NID.
    pub peer: Nid,
    /// The local NI.
    pub ni: NiInfo,
    /// Fragments to propose.
    pub max_frags: u16,
    /// Attempts that are started when there is no connection; 0 means 1.
    pub conns_per_peer: u8,
    /// Deadline of an attempt that sent its CONNREQ, and of an accepted connection that is not
    /// established yet.
    pub connect_timeout: Span,
    /// Messages that can wait. LNet gives no more than the NI's `peer_credits` at a time.
    pub max_waiting: u16,
    /// Connections that the peer can have, those that are being taken down included.
    pub max_conns: u16,
    /// Which connection request gives way.
    pub tie_break: TieBreak,
}

impl PeerConfig {
    /// The usual configuration: room for twice what LNet may give, and for 64 connections more
    /// than we start.
    pub fn new(peer: Nid, ni: NiInfo, tunables: &NiTunables) -> Self {
        Self {
            peer,
            ni,
            max_frags: tunables.max_frags,
            conns_per_peer: tunables.conns_per_peer,
            connect_timeout: tunables.connect_timeout,
            max_waiting: tunables.peer_credits.saturating_mul(2),
            max_conns: u16::from(tunables.conns_per_peer).saturating_add(64),
            tie_break: TieBreak::Hash,
        }
    }
}

/// The connect timeout that belongs to an LND timeout: a quarter of it, at least 5 s.
pub fn connect_timeout(lnd_timeout: Span) -> Span {
    lnd_timeout.over(4).max(Span::from_secs(5))
}

/// What became of a message given to [`Peer::submit`].
#[derive(Debug)]
#[must_use]
pub enum PeerSubmit<T> {
    /// Give it to this connection. If that refuses it: [`Peer::handle_conn_refused`].
    Use {
        /// The connection.
        conn: ConnId,
        /// The message.
        tx: T,
        /// To be handed back if the connection refuses.
        ticket: Ticket,
    },
    /// It waits for a connection, and comes out as [`PeerAction::Assign`] or
    /// [`PeerAction::Fail`] by its deadline.
    Queued,
    /// It does not wait. It fails with [`Cause::outcome_waiting`], unless the cause is
    /// [`Cause::Deleted`] and the driver finds another peer.
    Refused(Refused<T>),
}

/// What the driver has to do.
#[derive(Debug)]
pub enum PeerAction<T> {
    /// Connect to the peer: resolve, create, and send a CONNREQ.
    StartAttempt {
        /// Name of the attempt, for its events.
        id: AttemptId,
        /// Version of the CONNREQ and of the connection.
        version: Version,
        /// What to propose. If the device cannot do it: [`AttemptEvent::LimitsLowered`].
        offer: Offer,
        /// The peer's incarnation for the CONNREQ, [`Stamp::UNKNOWN`] if not known.
        dst_stamp: Stamp,
    },
    /// Take the attempt down and report [`AttemptEvent::Released`].
    AbortAttempt {
        /// The attempt.
        id: AttemptId,
        /// Why it failed.
        cause: Cause,
    },
    /// Give the message to the connection. If that refuses it: [`Peer::handle_conn_refused`].
    Assign {
        /// The connection.
        conn: ConnId,
        /// The message.
        tx: T,
        /// To be handed back if the connection refuses.
        ticket: Ticket,
    },
    /// Finish the message: it found no connection.
    Fail {
        /// The message.
        tx: T,
        /// What to tell LNet.
        done: Done,
    },
    /// Close the connection. It may have ended already.
    CloseConn {
        /// The connection.
        conn: ConnId,
        /// Why.
        cause: Cause,
    },
    /// Tell LNet that the peer is down.
    NotifyDown {
        /// When it last gave a sign of life; when we began to look for it if it never did.
        alive: Instant,
    },
    /// No connections, attempts or messages are left: under the lock of its table the driver may
    /// call [`Peer::retire`] and, if that agrees, drop the peer.
    Idle,
}

/// The answer to a connection request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Make a connection and `rdma_accept`.
    Accept {
        /// Version of the connection and of the CONNACK.
        version: Version,
        /// What the requester proposed, for the CONNACK; the queue may be made shallower.
        offer: Offer,
    },
    /// `rdma_reject`.
    Reject(Refusal),
}

/// Whether a call on an attempt had an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Claim {
    /// The event counts.
    Taken,
    /// The outcome had been claimed before, or the attempt is unknown: nothing changed.
    /// [`AttemptEvent::Connected`] must not be passed on to the connection then.
    Late,
}

/// What happened to a peer since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerCounters {
    /// Attempts started.
    pub attempts: u32,
    /// Retries among them.
    pub retries: u32,
    /// Events that came after the outcome was claimed, or for nothing we know.
    pub late: u32,
    /// Connection requests rejected because of a race.
    pub races: u32,
    /// Times the peer was found restarted.
    pub stale: u32,
    /// Connection requests accepted.
    pub accepted: u32,
    /// Messages that came back from a connection.
    pub came_back: u32,
}

fn count(counter: &mut u32) {
    *counter = counter.saturating_add(1);
}

/// State of a peer, for the debug dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerSnapshot {
    /// Attempts whose outcome is open.
    pub connecting: u16,
    /// Attempts that are planned.
    pub reconnecting: u16,
    /// Attempts whose resources are being released.
    pub dying: u16,
    /// Accepted connections that are not established.
    pub accepting: u16,
    /// Established connections.
    pub up: u16,
    /// All connections, those that are being taken down included.
    pub conns: u16,
    /// Messages that wait.
    pub waiting: u16,
    /// Version of the peer, if known.
    pub version: Option<Version>,
    /// Incarnation of the peer, or [`Stamp::UNKNOWN`].
    pub stamp: Stamp,
    /// What the next attempt proposes.
    pub offer: Offer,
    /// Races that the peer lost since we last accepted.
    pub races: u8,
    /// Retries since the last success or final failure.
    pub retries: u16,
    /// Last sign of life, or when the peer was made.
    pub last_alive: Instant,
    /// Whether the peer was deleted.
    pub deleted: bool,
    /// What happened so far.
    pub counters: PeerCounters,
}

/// A peer. `T` is the driver's message.
///
/// # Invariants
///
/// - While a message waits, an attempt is in progress or planned, or an accepted connection is
///   being established; no connection is up.
/// - A slot has at most one attempt that has resources.
/// - Nothing waits and nothing is planned once `deleted`.
pub struct Peer<S: Storage, T> {
    config: PeerConfig,
    attempts: S::Buf<Attempt>,
    conns: Conns<S>,
    queue: MsgQueue<S, T>,
    /// Version of the peer as last heard; `None` is unknown.
    version: Option<Version>,
    /// Incarnation of the peer as last heard.
    stamp: Stamp,
    /// What the next attempt proposes: the lowest of our configuration and what the peer said.
    offer: Offer,
    races: u8,
    /// The peer once told us that we lose races: it does not get CONN_RACE from us any more.
    yields: bool,
    retries: u16,
    last_alive: Instant,
    /// The last connection ended with an error, and LNet was not told yet.
    lost: Option<Cause>,
    /// LNet was told that the peer is down, and it has not come up since.
    down: bool,
    /// LNet is to be told.
    notify: bool,
    deleted: bool,
    /// There may be an action to pull.
    dirty: bool,
    counters: PeerCounters,
}

impl<S: Storage, T> Peer<S, T> {
    /// Makes a peer that has no connection and starts none.
    ///
    /// # Errors
    ///
    /// When there is no memory.
    pub fn new(storage: &mut S, config: PeerConfig, now: Instant) -> Result<Self, S::Error> {
        let offer = Offer {
            queue_depth: config.ni.peer_credits,
            max_frags: config.max_frags,
        };
        let slots = usize::from(config.conns_per_peer.max(1));
        Ok(Self {
            config,
            attempts: storage.alloc(slots, |_| Attempt::new(offer))?,
            conns: Conns::new(storage, config.max_conns)?,
            queue: MsgQueue::new(storage, config.max_waiting)?,
            version: None,
            stamp: Stamp::UNKNOWN,
            offer,
            races: 0,
            yields: false,
            retries: 0,
            last_alive: now,
            lost: None,
            down: false,
            notify: false,
            deleted: false,
            dirty: false,
            counters: PeerCounters::default(),
        })
    }

    /// Takes over tunables that were changed. Deadlines that run already stay as they are.
    pub fn retune(&mut self, live: LiveTunables) {
        self.config.connect_timeout = live.connect_timeout;
    }

    /// Takes a message that LNet sends to this peer.
    pub fn submit(&mut self, now: Instant, tx: T) -> PeerSubmit<T> {
        let wait = self.config.connect_timeout.plus(RESOLVE_BOTH);
        let ticket = Ticket {
            deadline: now.after(wait),
            tries: 0,
        };
        self.place(now, tx, ticket)
    }

    /// Takes back a message that a connection refused, which had been chosen by
    /// [`PeerSubmit::Use`] or [`PeerAction::Assign`], and looks for another one. The message keeps
    /// its deadline, and fails when it has come back too often.
    pub fn handle_conn_refused(
        &mut self,
        now: Instant,
        conn: ConnId,
        refused: Refused<T>,
        mut ticket: Ticket,
    ) -> PeerSubmit<T> {
        self.dirty = true;
        count(&mut self.counters.came_back);
        let Refused { tx, cause } = refused;
        ticket.tries = ticket.tries.saturating_add(1);
        if matches!(cause, Cause::BadInput | Cause::DeviceGone) {
            // Not the connection's fault, and no other would take it: for the latter, it was made
            // ready for a device that is not in use any more.
            return PeerSubmit::Refused(Refused { tx, cause });
        }
        if cause == Cause::TooMany {
            // The connection lives; is there another?
            if ticket.tries >= MAX_TRIES || self.conns.count(conns::PeerConnState::is_up) < 2 {
                return PeerSubmit::Refused(Refused { tx, cause });
            }
        } else if let Some(conn) = self.conns.get_mut(conn) {
            if conn.state == conns::PeerConnState::Up {
                conn.state = conns::PeerConnState::Leaving;
            }
        }
        let cause = if ticket.deadline.passed(now) {
            Cause::WaitTimeout
        } else if ticket.tries >= MAX_TRIES {
            Cause::PeerGone
        } else {
            return self.place(now, tx, ticket);
        };
        PeerSubmit::Refused(Refused { tx, cause })
    }

    /// Finds a connection for a message, or has it wait for one.
    fn place(&mut self, now: Instant, tx: T, ticket: Ticket) -> PeerSubmit<T> {
        if self.deleted {
            let cause = Cause::Deleted;
            return PeerSubmit::Refused(Refused { tx, cause });
        }
        if let Some(conn) = self.conns.pick() {
            return PeerSubmit::Use { conn, tx, ticket };
        }
        self.dirty = true;
        if let Err(tx) = self.queue.push(tx, ticket) {
            let cause = Cause::TooMany;
            return PeerSubmit::Refused(Refused { tx, cause });
        }
        if !self.is_in_progress() {
            self.start_batch(now);
        }
        PeerSubmit::Queued
    }

    /// Whether an attempt or an accepted connection will settle the waiting messages.
    fn is_in_progress(&self) -> bool {
        self.attempts.as_ref().iter().any(Attempt::is_in_progress)
            || self.conns.any(conns::PeerConnState::is_accepting)
    }

    /// What to propose in a CONNREQ of `version`.
    fn offer_for(&self, version: Version) -> Offer {
        match version {
            Version::V1 => Offer {
                queue_depth: V1_QUEUE_DEPTH,
                max_frags: self.offer.max_frags.min(V1_MAX_FRAGS),
            },
            Version::V2 => self.offer,
        }
    }

    /// Whether nothing is left: no connection, attempt or message.
    pub fn is_idle(&self) -> bool {
        let free = |attempt: &Attempt| attempt.state == attempt::AttemptState::Free;
        self.queue.is_empty()
            && self.attempts.as_ref().iter().all(free)
            && !self.conns.any(|_| true)
    }

    /// Takes an idle peer out of service, so that it can be dropped. `false` when it is not idle
    /// any more, and stays. To be called under the lock of the table that it is found in.
    #[must_use]
    pub fn retire(&mut self) -> bool {
        let idle = self.is_idle();
        if idle {
            self.deleted = true;
        }
        idle
    }

    /// State, for the debug dump.
    pub fn snapshot(&self) -> PeerSnapshot {
        let attempts = |is: fn(&Attempt) -> bool| {
            let n = self.attempts.as_ref().iter().filter(|a| is(a)).count();
            u16::try_from(n).unwrap_or(u16::MAX)
        };
        let conns = |is: fn(&conns::PeerConnState) -> bool| {
            u16::try_from(self.conns.count(is)).unwrap_or(u16::MAX)
        };
        PeerSnapshot {
            connecting: attempts(Attempt::is_connecting),
            reconnecting: attempts(|a| a.is_in_progress() && !a.is_connecting()),
            dying: attempts(|a| matches!(a.state, attempt::AttemptState::Dying { .. })),
            accepting: conns(conns::PeerConnState::is_accepting),
            up: conns(conns::PeerConnState::is_up),
            conns: conns(|_| true),
            waiting: self.queue.waiting(),
            version: self.version,
            stamp: self.stamp,
            offer: self.offer,
            races: self.races,
            retries: self.retries,
            last_alive: self.last_alive,
            deleted: self.deleted,
            counters: self.counters,
        }
    }
}

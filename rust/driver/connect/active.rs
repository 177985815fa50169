// SPDX-License-Identifier: GPL-2.0

//! Attempts of ours: from the decision to connect to the CONNACK.

use super::{
    super::cm::{
        self,
        CmEvent,
        ConnInput, //
    },
    effects::{
        ConnOf,
        Connect,
        Count,
        Ids,
        Line,
        Link,
        PeerOf,
        Plan,
        Purpose,
        Wanted, //
    },
    Work,
    RESOLVE_SLICE, //
};
use crate::{
    driver::shell::Shell,
    proto::{
        conn::Role,
        errno,
        peer::{
            AttemptEvent,
            Claim,
            RESOLVE_TIMEOUT, //
        },
        AttemptId,
        Cause,
        Limits, //
    },
    wire::{
        Message,
        MsgType,
        Reject, //
    },
};

/// What is next for an attempt. Each step holds one lock.
#[must_use]
pub struct Attempt<C: Ids> {
    tag: C::Tag,
    peer: PeerOf<C>,
    plan: Plan,
    next: Next<C>,
}

enum Next<C: Ids> {
    /// The CM has something to report.
    Event(CmEvent<C::Private>),
    /// The address is resolved: the route is next.
    Route,
    /// The route is resolved: the connection is made.
    Create,
    /// The connection is made: the CONNREQ is sent.
    Request(Limits),
    /// The attempt has become a connection, which judges the CONNACK.
    Judge {
        conn: ConnOf<C>,
        event: CmEvent<C::Private>,
        listed: bool,
    },
    /// The connection was told: the peer is next.
    Report(CmEvent<C::Private>),
}

/// Tells a peer what happened to an attempt.
fn tell<C: Connect>(
    c: &mut C,
    peer: &PeerOf<C>,
    attempt: AttemptId,
    event: AttemptEvent<'_>,
) -> Claim {
    c.shell().peer(peer, |engine, now| {
        engine.handle_attempt(now, attempt, event)
    })
}

/// Starts an attempt: makes an id and has the address resolved.
pub(super) fn start<C: Connect>(c: &mut C, peer: &PeerOf<C>, plan: Plan) {
    c.count(Count::Attempt);
    let opened = c.open(Link {
        purpose: Purpose::Active(plan),
        pending: None,
        peer: peer.clone(),
    });
    let started = opened.and_then(|tag| c.resolve_addr(tag, RESOLVE_SLICE, false));
    if let Err(e) = started {
        c.log(peer, Line::CannotStart(e));
        let _ = tell(c, peer, plan.attempt, AttemptEvent::CallFailed(e));
    }
}

/// Takes an attempt down that has failed. What is next, if its connection is to be closed.
pub(super) fn abort<C: Connect>(
    c: &mut C,
    peer: &PeerOf<C>,
    attempt: AttemptId,
    cause: Cause,
) -> Option<ConnOf<C>> {
    c.count(Count::AttemptFailed);
    // What the peer said is in the log already.
    if cause != Cause::Rejected {
        c.log(peer, Line::AttemptFailed(cause));
    }
    let tag = c.find_attempt(peer, attempt);
    if let Some(tag) = tag {
        let conn = c.conn(tag);
        if conn.is_some() {
            // Released when it is drained.
            return conn;
        }
        c.destroy(tag);
    }
    // Without a tag it never got an id.
    let _ = tell(c, peer, attempt, AttemptEvent::Released);
    None
}

/// A drained connection was that of an attempt, which is over with it.
pub(super) fn released<C: Connect>(c: &mut C, peer: &PeerOf<C>, plan: Plan) {
    let _ = tell(c, peer, plan.attempt, AttemptEvent::Released);
}

impl<C: Connect> Attempt<C> {
    /// The CM has something to report.
    pub(super) fn event(
        tag: C::Tag,
        peer: PeerOf<C>,
        plan: Plan,
        event: CmEvent<C::Private>,
    ) -> Self {
        let next = Next::Event(event);
        Self {
            tag,
            peer,
            plan,
            next,
        }
    }

    /// Goes one step. When the attempt has nothing more to do, its peer has.
    pub(super) fn step(self, c: &mut C) -> Work<C> {
        let Self {
            tag,
            peer,
            plan,
            next,
        } = self;
        let context = Context {
            tag,
            peer: &peer,
            plan,
        };
        let next = match next {
            Next::Event(event) => context.report(c, event),
            Next::Route => context.route(c),
            Next::Create => context.create(c),
            Next::Request(limits) => context.request(c, &limits),
            Next::Judge {
                conn,
                event,
                listed,
            } => context.judge(c, &conn, event.private(), listed),
            Next::Report(event) => context.report_attempt(c, &event),
        };
        match next {
            Some(next) => Work::Attempt(Self {
                tag,
                peer,
                plan,
                next,
            }),
            None => Work::peer(peer),
        }
    }
}

/// Which attempt.
struct Context<'a, C: Ids> {
    tag: C::Tag,
    peer: &'a PeerOf<C>,
    plan: Plan,
}

impl<C: Connect> Context<'_, C> {
    fn tell(&self, c: &mut C, event: AttemptEvent<'_>) -> Claim {
        tell(c, self.peer, self.plan.attempt, event)
    }

    /// Goes on with `next`, unless the outcome of the attempt is settled.
    fn claim(&self, c: &mut C, event: AttemptEvent<'_>, next: Next<C>) -> Option<Next<C>> {
        match self.tell(c, event) {
            Claim::Taken => Some(next),
            Claim::Late => None,
        }
    }

    /// The attempt fails if a call has.
    fn check(&self, c: &mut C, called: Result<(), i32>) {
        if let Err(e) = called {
            let _ = self.tell(c, AttemptEvent::CallFailed(e));
        }
    }

    fn report(&self, c: &mut C, event: CmEvent<C::Private>) -> Option<Next<C>> {
        let input = match cm::active(event.borrowed()) {
            cm::Active::ResolveRoute => {
                return self.claim(c, AttemptEvent::AddrResolved, Next::Route);
            }
            cm::Active::Request => {
                return self.claim(c, AttemptEvent::RouteResolved, Next::Create);
            }
            cm::Active::ResolveAgain => {
                let resolving = c.resolve_addr(self.tag, RESOLVE_SLICE, true);
                self.check(c, resolving);
                return None;
            }
            cm::Active::Open { private: _ } => return self.open(c, event),
            cm::Active::Report { conn, attempt: _ } => conn,
        };
        self.log_failure(c, event.borrowed());
        let conn = c.conn(self.tag);
        if let (Some(input), Some(conn)) = (input, conn) {
            if c.shell().name_of(&conn).is_some() || input.is_for_unknown() {
                super::log_moved(c, self.peer, event.borrowed());
                c.feed(&conn, input);
            }
        }
        Some(Next::Report(event))
    }

    fn report_attempt(&self, c: &mut C, event: &CmEvent<C::Private>) -> Option<Next<C>> {
        if let cm::Active::Report {
            attempt: Some(attempt),
            ..
        } = cm::active(event.borrowed())
        {
            let _ = self.tell(c, attempt);
        }
        None
    }

    /// Logs why the CM could not connect; of a reject what the peer says, as far as it says
    /// anything.
    fn log_failure(&self, c: &mut C, event: CmEvent<&[u8]>) {
        let Some((what, status)) = event.failure() else {
            return;
        };
        let line = match Reject::parse(event.private()) {
            Ok(reject) => Line::Rejected(reject.why),
            Err(_) => Line::CmError { what, status },
        };
        c.log(self.peer, line);
    }

    fn route(&self, c: &mut C) -> Option<Next<C>> {
        let resolving = c.resolve_route(self.tag, RESOLVE_TIMEOUT);
        self.check(c, resolving);
        None
    }

    fn create(&self, c: &mut C) -> Option<Next<C>> {
        let proposal = &self.plan.proposal;
        let wanted = Wanted {
            role: Role::Active,
            ident: proposal.identity(&c.info(self.peer)),
            version: proposal.version,
            offer: proposal.offer,
        };
        let limits = match c.create(self.tag, &wanted) {
            Ok((_, limits)) => limits,
            Err(e) => {
                let _ = self.tell(c, AttemptEvent::CreateFailed(e));
                return None;
            }
        };
        if let Some(offer) = proposal.lowered(&limits) {
            let _ = self.tell(c, AttemptEvent::LimitsLowered(offer));
        }
        Some(Next::Request(limits))
    }

    fn request(&self, c: &mut C, limits: &Limits) -> Option<Next<C>> {
        let (info, encoding) = (c.info(self.peer), c.encoding(self.peer));
        let msg = self.plan.proposal.connreq(&info, limits, encoding);
        let msg = msg.map_err(|_| errno::EINVAL.wrapping_neg());
        let event = match msg.and_then(|msg| c.connect(self.tag, &msg)) {
            Ok(()) => {
                c.count(Count::Sent(MsgType::ConnReq));
                AttemptEvent::Connecting
            }
            Err(e) => AttemptEvent::CallFailed(e),
        };
        let _ = self.tell(c, event);
        None
    }

    /// The peer has accepted.
    fn open(&self, c: &mut C, event: CmEvent<C::Private>) -> Option<Next<C>> {
        let Some(conn) = c.conn(self.tag) else {
            c.count(Count::Unexpected);
            return None;
        };
        let attempt = self.plan.attempt;
        let (claim, listed) = c.name_conn(self.peer, &conn, |engine, now, name| {
            engine.handle_attempt(now, attempt, AttemptEvent::Connected(name))
        });
        match claim {
            Claim::Taken => Some(Next::Judge {
                conn,
                event,
                listed,
            }),
            Claim::Late => None,
        }
    }

    fn judge(&self, c: &mut C, conn: &ConnOf<C>, ack: &[u8], listed: bool) -> Option<Next<C>> {
        if listed {
            let ack = Message::parse(ack);
            if let Ok(msg) = &ack {
                c.count(Count::Received(msg.kind()));
            }
            c.feed(conn, ConnInput::Opened(ack));
        } else {
            c.feed(conn, ConnInput::Close(Cause::TooMany));
        }
        None
    }
}

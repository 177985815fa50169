// SPDX-License-Identifier: GPL-2.0

//! Messages of the peer, once the connection is established (protocol.md sections 9.3, 9.4, 10).

use super::{
    ops::{
        OpPhase,
        Transfer,
        Work, //
    },
    rx::{
        Grant,
        Parsed, //
    },
    state::ConnEvent,
    Conn, //
};
use crate::proto::{
    cause::Violation,
    chain::ChainError,
    slab::Storage,
    Cause,
    Done,
    Instant,
    OpId,
    RxId, //
};
use crate::wire::{
    Body,
    Completion,
    Cookie,
    Desc,
    LnetHdr,
    LnetMsgType,
    MsgType,
    Version, //
};

/// Whether an LNet message of type `lnet` may come in a message of type `kind`.
const fn carries(kind: MsgType, lnet: LnetMsgType) -> bool {
    match lnet {
        LnetMsgType::Ack => matches!(kind, MsgType::Immediate),
        LnetMsgType::Put | LnetMsgType::Reply => {
            matches!(kind, MsgType::Immediate | MsgType::PutReq)
        }
        LnetMsgType::Get => matches!(kind, MsgType::Immediate | MsgType::GetReq),
        LnetMsgType::Hello | LnetMsgType::Unknown(_) => false,
    }
}

impl<S: Storage, T> Conn<S, T> {
    /// Handles one message; `rx` is ours until it is given away or posted again.
    pub(super) fn process(&mut self, now: Instant, rx: RxId, parsed: Parsed) {
        let handled = self
            .admit(now, &parsed)
            .and_then(|()| self.dispatch(now, rx, parsed));
        if let Err(cause) = handled {
            self.event(now, ConnEvent::Close(cause));
            self.release_rx(rx, Grant::Nothing);
        }
    }

    /// What is checked before the type is looked at.
    fn admit(&mut self, now: Instant, parsed: &Parsed) -> Result<(), Cause> {
        parsed
            .hdr
            .check_identity(&self.ident)
            .map_err(Cause::Stale)?;
        self.alive = now;
        let (held, given) = (self.credits.held(), parsed.hdr.credits);
        if !self.credits.give(given) {
            let violation = Violation::TooManyCredits { held, given };
            return Err(Cause::Protocol(violation));
        }
        Ok(())
    }

    fn dispatch(&mut self, now: Instant, rx: RxId, parsed: Parsed) -> Result<(), Cause> {
        let kind = parsed.body.kind();
        match parsed.body {
            Body::ConnReq(_) | Body::ConnAck(_) => Err(Cause::Protocol(Violation::WrongType(kind))),
            Body::Noop => self.noop(rx),
            Body::Immediate { hdr, .. } | Body::PutReq { hdr, .. } => {
                self.request(rx, parsed, kind, &hdr)
            }
            Body::GetReq { hdr, desc, .. } => {
                let (total, room) = (desc.total(), hdr.get_room());
                if let Some(limit) = room.filter(|&room| total > room) {
                    return Err(Cause::Protocol(Violation::DescTooLong {
                        desc: total,
                        msg: limit,
                    }));
                }
                self.request(rx, parsed, kind, &hdr)
            }
            Body::PutAck {
                src_cookie,
                dst_cookie,
                desc,
            } => self.on_put_ack(now, rx, src_cookie, dst_cookie, desc),
            Body::PutNak(completion) => self.on_put_nak(rx, completion),
            Body::PutDone(completion) => self.on_put_done(now, rx, completion),
            Body::GetDone(completion) => self.on_get_done(now, rx, completion),
        }
    }

    /// Takes the credit that a message used.
    fn consume(&mut self, kind: MsgType) -> Result<(), Cause> {
        if self.credits.consume() {
            Ok(())
        } else {
            Err(Cause::Protocol(Violation::NoCredit(kind)))
        }
    }

    fn noop(&mut self, rx: RxId) -> Result<(), Cause> {
        let grant = match self.limits.version {
            Version::V2 => Grant::Nothing,
            Version::V1 => {
                self.consume(MsgType::Noop)?;
                Grant::Credit
            }
        };
        self.release_rx(rx, grant);
        Ok(())
    }

    /// A message for LNet.
    fn request(
        &mut self,
        rx: RxId,
        parsed: Parsed,
        kind: MsgType,
        hdr: &LnetHdr,
    ) -> Result<(), Cause> {
        self.consume(kind)?;
        if !carries(kind, hdr.kind) {
            return Err(Cause::Protocol(Violation::WrongLnetType(kind)));
        }
        self.rx.deliver(rx, parsed);
        Ok(())
    }

    /// The operation that waits for `cookie` and is of the right sort.
    fn waiting(
        &self,
        kind: MsgType,
        cookie: Cookie,
        sort: impl Fn(&Work) -> bool,
    ) -> Result<(OpId, Work), Cause> {
        self.ops
            .waiting(cookie)
            .map(|(id, op)| (id, op.work))
            .filter(|(_, work)| sort(work))
            .ok_or(Cause::Protocol(Violation::NoSuchCookie(kind)))
    }

    fn on_put_ack(
        &mut self,
        now: Instant,
        rx: RxId,
        src_cookie: Cookie,
        dst_cookie: Cookie,
        desc: Desc,
    ) -> Result<(), Cause> {
        let is_put = |work: &Work| matches!(work, Work::Put { .. });
        let (id, work) = self.waiting(MsgType::PutAck, src_cookie, is_put)?;
        let len = match work {
            Work::Put { len, .. } => len,
            Work::Immediate { .. }
            | Work::Get { .. }
            | Work::PutSink { .. }
            | Work::GetSource
            | Work::Nak { .. }
            | Work::NoData { .. } => 0,
        };
        self.ops.renew(id, now);
        let transfer = Transfer {
            cookie: dst_cookie,
            rx,
            desc,
            left: 0,
            status: i32::try_from(desc.total()).unwrap_or(i32::MAX),
        };
        self.ops.update(id, |op| op.transfer = Some(transfer));
        self.ops.enter(id, OpPhase::Planning);
        if desc.total() > len {
            // The sink wants more than there is: the peer is told so, and so is LNet.
            self.put_planned(now, id, Err(ChainError::SourceTooShort));
        } else {
            self.ops.enter(id, OpPhase::Plan);
        }
        Ok(())
    }

    fn on_put_nak(&mut self, rx: RxId, completion: Completion) -> Result<(), Cause> {
        let is_put = |work: &Work| matches!(work, Work::Put { .. });
        let (id, _) = self.waiting(MsgType::PutNak, completion.cookie, is_put)?;
        self.conclude(id, completion.status, Done::OK);
        // Its memory has never been used, and its message is in a slot.
        self.finish(id, OpPhase::Finish);
        self.release_rx(rx, Grant::Reserve);
        Ok(())
    }

    fn on_put_done(&mut self, now: Instant, rx: RxId, completion: Completion) -> Result<(), Cause> {
        let is_sink = |work: &Work| matches!(work, Work::PutSink { .. });
        let (id, _) = self.waiting(MsgType::PutDone, completion.cookie, is_sink)?;
        self.conclude(id, completion.status, Done::OK);
        // The credit is due when the sink is free again, so that a peer which keeps to its
        // credits cannot have more sinks here than the queue is deep.
        self.ops.update(id, |op| op.rx = Some(rx));
        self.invalidate(now, id);
        Ok(())
    }

    fn on_get_done(&mut self, now: Instant, rx: RxId, completion: Completion) -> Result<(), Cause> {
        let is_get = |work: &Work| matches!(work, Work::Get { .. });
        let (id, work) = self.waiting(MsgType::GetDone, completion.cookie, is_get)?;
        let room = match work {
            Work::Get { sink, .. } => sink.nob,
            Work::Immediate { .. }
            | Work::Put { .. }
            | Work::PutSink { .. }
            | Work::GetSource
            | Work::Nak { .. }
            | Work::NoData { .. } => 0,
        };
        // LNet would assert.
        let len = u32::try_from(completion.status).unwrap_or(0);
        if len > room {
            return Err(Cause::Protocol(Violation::ReplyTooLong {
                status: completion.status,
                sink: room,
            }));
        }
        self.conclude(id, completion.status, Done::reply(len));
        self.invalidate(now, id);
        self.release_rx(rx, Grant::Reserve);
        Ok(())
    }

    /// Notes the peer's verdict on an operation.
    fn conclude(&mut self, id: OpId, status: i32, success: Done) {
        let done = if status < 0 {
            Cause::Remote(status).outcome().into()
        } else {
            success
        };
        self.ops.update(id, |op| op.conclude(done));
    }

    /// The peer has no more use for a sink: its key is to be made invalid.
    fn invalidate(&mut self, now: Instant, id: OpId) {
        self.ops.renew(id, now);
        self.ops.enter(id, OpPhase::Inv);
    }
}

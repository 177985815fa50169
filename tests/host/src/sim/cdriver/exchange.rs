// SPDX-License-Identifier: GPL-2.0

//! The exchanges of messages (section 10 of the protocol).

use super::plan;
use super::{failure, wrong_type, CConn, CTx, Repost, Request, Says, State, TxId, Write};
use crate::proto::cause::Violation;
use crate::proto::conn::{Action, Delivery, Sink, Submit};
use crate::proto::errno::{EIO, ENOTCONN};
use crate::proto::{Cause, Done, Health, Instant, Refused, RxId};
use crate::sim::lnet::{Mem, Tx};
use crate::sim::options::Broken;
use crate::wire::{Body, Completion, Cookie, DescView, LnetHdr, Message, MsgType, Version};

impl CConn {
    // --- LNet -----------------------------------------------------------------------------------

    /// Why nothing new is accepted. (The C driver would take it and fail it later; the peer, which
    /// is ours, gives it to another connection.)
    fn shut_cause(&self) -> Option<Cause> {
        match self.state {
            State::Established => None,
            State::Connecting(_) => Some(Cause::ConnectFailed(-ENOTCONN)),
            State::Closing | State::Disconnected(_) => self.cause,
        }
    }

    pub(crate) fn submit(&mut self, now: Instant, tx: Tx, what: Submit) -> Option<Refused<Tx>> {
        if let Some(cause) = self.shut_cause() {
            return Some(Refused { tx, cause });
        }
        let says = match what {
            Submit::Immediate { hdr, .. } => Says::Immediate(hdr),
            Submit::Put { hdr, .. } => Says::PutReq(hdr),
            Submit::Get { hdr, sink } => Says::GetReq(hdr, sink),
        };
        self.queue(now, Some(tx), says);
        None
    }

    fn queue(&mut self, now: Instant, tx: Option<Tx>, says: Says) -> TxId {
        let id = self.next_tx;
        self.next_tx += 1;
        let it = CTx {
            tx,
            says,
            writes: Vec::new(),
            rkey: 0,
            queued: true,
            waiting: false,
            sending: 0,
            failed: false,
            since: now,
            done: None,
        };
        self.txs.insert(id, it);
        match says {
            Says::Immediate(_) => self.flow.queue_immediate(id),
            Says::PutReq(_) | Says::GetReq(..) => self.flow.queue_request(id),
            Says::PutAck(..) | Says::PutNak(_) | Says::PutDone(_) | Says::GetDone(_) => {
                self.flow.queue_reply(id);
            }
        }
        id
    }

    /// LNet gives a buffer back.
    fn take_back(&mut self, rx: RxId) -> Request {
        self.held.remove(&rx.0).expect("a buffer that LNet has")
    }

    fn repost(&mut self, rx: RxId, how: Repost) {
        if self.is_established() {
            self.to_post.push_back((rx, how));
        }
        self.progress();
    }

    pub(crate) fn rx_done(&mut self, rx: RxId) {
        self.take_back(rx);
        self.repost(rx, Repost::Credit);
    }

    pub(crate) fn rx_refused(&mut self, now: Instant, rx: RxId, status: i32) {
        self.rx_done(rx);
        self.close(now, Cause::LnetRefused(status));
    }

    pub(crate) fn put_nak(&mut self, now: Instant, rx: RxId, status: i32) {
        if let (Request::Put(cookie), true) = (self.take_back(rx), self.is_established()) {
            self.queue(now, None, Says::PutNak(Completion { cookie, status }));
        }
        self.repost(rx, Repost::Credit);
    }

    /// The buffer goes back for the PUT_DONE, without a credit.
    pub(crate) fn put_sink(
        &mut self,
        now: Instant,
        rx: RxId,
        tx: Tx,
        sink: Sink,
    ) -> Option<Refused<Tx>> {
        let request = self.take_back(rx);
        if let Some(cause) = self.shut_cause() {
            self.progress();
            return Some(Refused { tx, cause });
        }
        let Request::Put(cookie) = request else {
            panic!("a sink for {request:?}");
        };
        self.queue(now, Some(tx), Says::PutAck(cookie, sink));
        let lie = self.setup.broken == Some(Broken::CreditForPutReq);
        self.repost(rx, if lie { Repost::Credit } else { Repost::Nothing });
        None
    }

    pub(crate) fn get_done(&mut self, now: Instant, rx: RxId, status: i32) {
        if let (Request::Get(cookie), true) = (self.take_back(rx), self.is_established()) {
            self.queue(now, None, Says::GetDone(Completion { cookie, status }));
        }
        self.repost(rx, Repost::Credit);
    }

    /// Answers a GET_REQ with `len` bytes. If that cannot be done, `silent` tells whether the other
    /// side has to find out by itself.
    pub(crate) fn get_source(
        &mut self,
        now: Instant,
        rx: RxId,
        tx: Tx,
        len: u32,
        (desc, silent): (&DescView<'_>, bool),
    ) -> Option<Refused<Tx>> {
        let request = self.take_back(rx);
        if let Some(cause) = self.shut_cause() {
            self.progress();
            return Some(Refused { tx, cause });
        }
        let Request::Get(cookie) = request else {
            panic!("a source for {request:?}");
        };
        match self.plan(&tx, desc, len) {
            Ok(writes) => {
                let status = len as i32;
                let id = self.queue(now, Some(tx), Says::GetDone(Completion { cookie, status }));
                let it = self.txs.get_mut(&id).expect("queued");
                (it.writes, it.rkey) = (writes, desc.desc().key());
            }
            Err(status) => {
                self.unplanned.push(tx.msg);
                let done = failure(EIO, Health::Ok);
                self.actions.push_back(Action::Finish { tx, done });
                if !silent {
                    self.queue(now, None, Says::GetDone(Completion { cookie, status }));
                }
            }
        }
        self.repost(rx, Repost::Credit);
        None
    }

    fn plan(&self, tx: &Tx, desc: &DescView<'_>, len: u32) -> Result<Vec<Write>, i32> {
        let Mem::Source { frags, .. } = &tx.mem else {
            panic!("WRITEs of {:?}", tx.mem);
        };
        let src: Vec<(u64, u32)> = frags.iter().map(|frag| (frag.addr, frag.len)).collect();
        let most = (self.setup.tunables.wrq_sge, self.limits.max_frags);
        plan::writes(&src, desc.frags(), len, most)
    }

    // --- messages -------------------------------------------------------------------------------

    /// A message has arrived. Whether it was in the other byte order.
    pub(crate) fn received(&mut self, now: Instant, rx: RxId, bytes: &[u8]) -> bool {
        self.rx_posted -= 1;
        self.rx_msgs += 1;
        let msg = match Message::parse(bytes) {
            Ok(msg) => msg,
            Err(error) => {
                self.close(now, Cause::BadMessage(error));
                return false;
            }
        };
        match self.state {
            State::Connecting(_) => {
                self.early.push_back((rx, bytes.to_vec()));
                self.handle_comm_est(now);
            }
            State::Established => self.process(now, rx, &msg),
            State::Closing | State::Disconnected(_) => self.progress(),
        }
        msg.swapped
    }

    pub(super) fn process(&mut self, now: Instant, rx: RxId, msg: &Message<'_>) {
        if let Err(cause) = self.handle(now, rx, msg) {
            self.close(now, cause);
        }
    }

    fn handle(&mut self, now: Instant, rx: RxId, msg: &Message<'_>) -> Result<(), Cause> {
        msg.hdr.check_identity(&self.ident).map_err(Cause::Stale)?;
        self.alive = now;
        let held = self.flow.credits;
        let given = msg.hdr.credits;
        if !self.flow.give(given) {
            let violation = Violation::TooManyCredits { held, given };
            return Err(Cause::Protocol(violation));
        }
        match msg.body {
            Body::ConnReq(_) | Body::ConnAck(_) => Err(wrong_type(msg.kind())),
            Body::Noop => {
                self.noop(rx, given);
                Ok(())
            }
            Body::Immediate { hdr, .. } => {
                self.deliver(rx, hdr, (Request::Immediate, Delivery::Immediate));
                Ok(())
            }
            Body::PutReq { hdr, cookie } => {
                self.deliver(rx, hdr, (Request::Put(cookie), Delivery::PutReq));
                Ok(())
            }
            Body::GetReq { hdr, cookie, desc } => {
                let desc = desc.desc();
                self.deliver(rx, hdr, (Request::Get(cookie), Delivery::GetReq { desc }));
                Ok(())
            }
            Body::PutAck {
                src_cookie,
                dst_cookie,
                desc,
            } => self.put_ack(now, rx, (src_cookie, dst_cookie), &desc),
            Body::PutNak(completion) => {
                let id = self.waiting(MsgType::PutNak, completion.cookie, MsgType::PutReq)?;
                self.answered(id, completion.status, Done::OK);
                self.repost(rx, Repost::Reserve);
                Ok(())
            }
            Body::PutDone(completion) => {
                let id = self.waiting(MsgType::PutDone, completion.cookie, MsgType::PutAck)?;
                self.answered(id, completion.status, Done::OK);
                let lie = self.setup.broken == Some(Broken::NoCreditForPutDone);
                self.repost(rx, if lie { Repost::Nothing } else { Repost::Credit });
                Ok(())
            }
            Body::GetDone(completion) => self.get_done_msg(rx, completion),
        }
    }

    /// In version 1 a NOOP has used a credit, which comes back: at once with one that brought
    /// some, so that two nodes which have none left get going again.
    fn noop(&mut self, rx: RxId, given: u8) {
        let lie = self.setup.broken == Some(Broken::CreditForNoop);
        match (self.limits.version, given) {
            (Version::V2, _) if lie => self.repost(rx, Repost::Credit),
            (Version::V2, _) => self.repost(rx, Repost::Nothing),
            (Version::V1, 0) => self.repost(rx, Repost::Credit),
            (Version::V1, _) => {
                self.flow.outstanding += 1;
                self.repost(rx, Repost::Nothing);
            }
        }
    }

    fn deliver(&mut self, rx: RxId, hdr: LnetHdr, (request, kind): (Request, Delivery)) {
        self.held.insert(rx.0, request);
        self.actions.push_back(Action::Deliver { rx, hdr, kind });
    }

    /// The transmission `of` that waits for `answer`.
    fn waiting(&self, answer: MsgType, cookie: Cookie, of: MsgType) -> Result<TxId, Cause> {
        let it = self.txs.get(&cookie.0);
        match it.is_some_and(|it| it.waiting && it.says.kind() == of) {
            true => Ok(cookie.0),
            false => {
                let violation = Violation::NoSuchCookie(answer);
                Err(Cause::Protocol(violation))
            }
        }
    }

    /// Nothing more is to come for it from the other side.
    fn answered(&mut self, id: TxId, status: i32, good: Done) {
        let it = self.txs.get_mut(&id).expect("waiting");
        it.waiting = false;
        it.conclude(match status < 0 {
            true => failure(-status, Health::RemoteError),
            false => good,
        });
        self.end_if_over(id);
    }

    /// The PUT_REQ becomes a PUT_DONE, which the WRITEs precede.
    fn put_ack(
        &mut self,
        now: Instant,
        rx: RxId,
        (src, dst): (Cookie, Cookie),
        desc: &DescView<'_>,
    ) -> Result<(), Cause> {
        let id = self.waiting(MsgType::PutAck, src, MsgType::PutReq)?;
        let total: u32 = desc.frags().map(|frag| frag.nob).sum();
        let tx = self.txs[&id].tx.as_ref().expect("a PUT of LNet");
        let (msg, planned) = (tx.msg, self.plan(tx, desc, total));
        let it = self.txs.get_mut(&id).expect("waiting");
        it.waiting = false;
        it.queued = true;
        it.since = now;
        it.rkey = desc.desc().key();
        let status = match planned {
            Ok(writes) => {
                it.writes = writes;
                total as i32
            }
            Err(status) => {
                // The C driver tells its LNet nothing of it.
                it.conclude(failure(-status, Health::Ok));
                self.unplanned.push(msg);
                status
            }
        };
        let cookie = dst;
        it.says = Says::PutDone(Completion { cookie, status });
        self.flow.queue_reply(id);
        self.repost(rx, Repost::Reserve);
        Ok(())
    }

    fn get_done_msg(&mut self, rx: RxId, completion: Completion) -> Result<(), Cause> {
        let Completion { cookie, status } = completion;
        let id = self.waiting(MsgType::GetDone, cookie, MsgType::GetReq)?;
        let Says::GetReq(_, Sink { nob: sink, .. }) = self.txs[&id].says else {
            panic!("{cookie:?} is no GET_REQ");
        };
        let len = status.max(0) as u32;
        if len > sink {
            let violation = Violation::ReplyTooLong { status, sink };
            return Err(Cause::Protocol(violation));
        }
        self.answered(id, status, Done::reply(len));
        self.repost(rx, Repost::Reserve);
        Ok(())
    }
}

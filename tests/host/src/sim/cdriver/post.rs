// SPDX-License-Identifier: GPL-2.0

//! What goes to the device.

use super::flow::Entry;
use super::{plan, CConn, CTx, Posted, Repost, Says, State, Write};
use crate::proto::errno::ENOMEM;
use crate::proto::{Cause, Health, Instant, RxId};
use crate::sim::hca::{base, Memory};
use crate::sim::lnet::Mem;
use crate::wire::{emit, BodyOut, Cookie, DescOut, Frag, Header, IMMEDIATE_HDR, MSG_SIZE};

/// One call of the verbs.
#[derive(Debug)]
pub(crate) enum Post {
    Recv(RxId),
    Send(Chain),
}

/// A message and what goes before it, in one call.
#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) seq: u64,
    /// The key that a REG is for.
    pub(crate) reg: Option<u32>,
    pub(crate) writes: Vec<Write>,
    pub(crate) rkey: u32,
    /// The message, and the buffer that it is copied to.
    pub(crate) bytes: Vec<u8>,
    pub(crate) slot: u16,
    /// Payload that is behind it, elsewhere.
    pub(crate) payload: Option<(u64, u32)>,
    credits: u8,
}

impl CConn {
    /// The next thing to post; `frags` are the pieces that a sink may be described by. Receives go
    /// first, so a message can announce them.
    pub(crate) fn poll_post(&mut self, now: Instant, memory: &Memory, frags: u16) -> Option<Post> {
        if let Some((rx, how)) = self.to_post.pop_front() {
            self.posting = Some(how);
            return Some(Post::Recv(rx));
        }
        if self.state != State::Established {
            return None;
        }
        let (entry, credits) = self.flow.next(self.keepalive_due(now))?;
        let (bytes, payload) =
            self.message(entry, credits, memory, frags.min(self.limits.max_frags));
        let (seq, slot) = (self.next_seq, self.slots.pop());
        let slot = slot.expect("as many buffers as SENDs");
        self.next_seq += 1;
        let since = now;
        self.posted.insert(seq, Posted { entry, slot, since });
        let (reg, writes, rkey) = match entry {
            Entry::Noop => (None, Vec::new(), 0),
            Entry::Tx(id) => self.txs.get_mut(&id).expect("queued").start(),
        };
        Some(Post::Send(Chain {
            seq,
            reg,
            writes,
            rkey,
            bytes,
            slot,
            payload,
            credits,
        }))
    }

    /// The bytes of a message, and where its payload is.
    fn message(
        &self,
        entry: Entry,
        credits: u8,
        memory: &Memory,
        frags: u16,
    ) -> (Vec<u8>, Option<(u64, u32)>) {
        let hdr = Header {
            version: self.limits.version,
            credits,
            src: self.ident.local,
            src_stamp: self.ident.local_stamp,
            dst: self.ident.peer,
            dst_stamp: self.ident.peer_stamp,
        };
        let mut payload = None;
        let mut bytes = Vec::new();
        let mut pieces = Vec::new();
        let body = match entry {
            Entry::Noop => BodyOut::Noop,
            Entry::Tx(id) => {
                let it = &self.txs[&id];
                if let Some(Mem::Payload(region)) = it.tx.as_ref().map(|tx| &tx.mem) {
                    bytes = memory.slice(*region).to_vec();
                    payload = Some((base(*region), bytes.len() as u32));
                }
                if let Says::PutAck(_, sink) | Says::GetReq(_, sink) = it.says {
                    pieces = plan::cut(sink.addr, sink.nob, frags);
                }
                it.body(Cookie(id), &bytes, &pieces)
            }
        };
        let (cksum, endian) = (self.setup.tunables.cksum, self.setup.endian);
        let mut buf = vec![0; MSG_SIZE];
        let len = emit(&hdr, &body, cksum, endian, &mut buf).expect("a message");
        buf.truncate(if payload.is_some() {
            IMMEDIATE_HDR
        } else {
            len
        });
        (buf, payload)
    }

    /// What became of the receive.
    pub(crate) fn recv_posted(&mut self, now: Instant, ok: bool) {
        let how = self.posting.take().expect("a receive was to be posted");
        if !ok {
            return self.close(now, Cause::PostFailed(-ENOMEM));
        }
        self.rx_posted += 1;
        match how {
            Repost::Nothing => {}
            Repost::Credit => self.flow.outstanding += 1,
            Repost::Reserve => self.flow.reserved += 1,
        }
    }

    /// What became of the chain. If the call failed, the credits have not been given and no
    /// completion counts; the device may have had a part of it, so its memory is kept.
    pub(crate) fn send_posted(&mut self, now: Instant, chain: &Chain, ok: bool) {
        let entry = self.posted[&chain.seq].entry;
        if ok {
            self.last_send = now;
            self.tx_noops += u32::from(entry == Entry::Noop);
            return;
        }
        self.posted.remove(&chain.seq);
        self.lost.insert(chain.seq);
        self.flow.completed(entry);
        self.flow.outstanding += u16::from(chain.credits);
        if let Entry::Tx(id) = entry {
            let it = self.txs.get_mut(&id).expect("posted");
            it.sending -= 1;
            it.waiting = false;
            it.failed = true;
            it.conclude(super::failure(ENOMEM, Health::Ok));
        }
        self.close(now, Cause::PostFailed(-ENOMEM));
    }
}

impl CTx {
    /// It is about to be posted: what goes before its message.
    fn start(&mut self) -> (Option<u32>, Vec<Write>, u32) {
        self.queued = false;
        self.waiting = self.says.is_question();
        self.sending += 1;
        let reg = match self.says {
            Says::PutAck(_, sink) | Says::GetReq(_, sink) => Some(sink.key),
            _ => None,
        };
        let writes = std::mem::take(&mut self.writes);
        let mem = self.tx.as_mut().map(|tx| &mut tx.mem);
        if let (Some(Mem::Source { written, .. }), false) = (mem, writes.is_empty()) {
            *written = true;
        }
        (reg, writes, self.rkey)
    }

    fn body<'a>(&self, cookie: Cookie, payload: &'a [u8], frags: &'a [Frag]) -> BodyOut<'a> {
        match self.says {
            Says::Immediate(hdr) => BodyOut::Immediate { hdr, payload },
            Says::PutReq(hdr) => BodyOut::PutReq { hdr, cookie },
            Says::PutAck(src_cookie, sink) => {
                let (key, dst_cookie) = (sink.key, cookie);
                let desc = DescOut { key, frags };
                BodyOut::PutAck {
                    src_cookie,
                    dst_cookie,
                    desc,
                }
            }
            Says::PutNak(completion) => BodyOut::PutNak(completion),
            Says::PutDone(completion) => BodyOut::PutDone(completion),
            Says::GetReq(hdr, sink) => {
                let key = sink.key;
                let desc = DescOut { key, frags };
                BodyOut::GetReq { hdr, cookie, desc }
            }
            Says::GetDone(completion) => BodyOut::GetDone(completion),
        }
    }
}

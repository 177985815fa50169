// SPDX-License-Identifier: GPL-2.0

//! What LNet does with the messages that it is given. Our driver answers by the loop of
//! [`driver`](crate::driver), the C driver in its own way.

use super::end::End;
use super::hca::base;
use super::lnet::{check, fill, id_of, Given, Kind, Mem, MsgId, Tx};
use super::world::{EpId, Ev, World};
use crate::driver::recv::{payload, prepare, After, Answer, Incoming};
use crate::proto::chain::{ChainError, Cursor, SrcFrag};
use crate::proto::conn::{Delivery, Sink};
use crate::proto::{Done, Limits, Refused, RxId};
use crate::wire::{Desc, LnetHdr};

const ENOMEM: i32 = -12;
const ENODATA: i32 = -61;
const EPROTO: i32 = -71;

/// A received message that LNet has said its word about.
struct Held<'a> {
    world: &'a mut World,
    id: EpId,
    rx: RxId,
}

impl Held<'_> {
    fn buf(&self) -> &[u8] {
        &self.world.eps[self.id].rx_bufs[usize::from(self.rx.0)]
    }

    /// The driver has no memory for this message.
    fn fails(&mut self, given: &Given) -> Result<(), i32> {
        match given.fails {
            true => Err(ENOMEM),
            false => Ok(()),
        }
    }
}

impl Incoming for Held<'_> {
    type Msg = Given;
    type Tx = Tx;

    fn wanted(&self, given: &Given) -> u32 {
        given.len
    }

    fn offered(&self, given: &Given) -> u32 {
        given.len
    }

    fn copy(&mut self, given: &Given) -> Result<(), i32> {
        check(given.msg, payload(self.buf(), given.len)?, "IMMEDIATE");
        Ok(())
    }

    fn map_sink(&mut self, given: &Given) -> Result<(Tx, Sink), i32> {
        self.fails(given)?;
        let node = self.world.eps[self.id].node;
        let (mem, sink) = self.world.sink(node, given.len);
        let tx = Tx::new(given.msg, false, mem, self.world.instant(), None);
        Ok((tx, sink))
    }

    fn map_source(&mut self, given: &Given) -> Result<Tx, i32> {
        self.fails(given)?;
        let node = self.world.eps[self.id].node;
        let mem = self.world.source(node, given.msg, given.have);
        Ok(Tx::new(given.msg, false, mem, self.world.instant(), None))
    }

    fn plan(&mut self, tx: &mut Tx, sink: Desc, len: u32) -> Result<u16, ChainError> {
        let End::Ours(conn) = &self.world.eps[self.id].conn else {
            panic!("the C driver counts by itself");
        };
        let limits = *conn.limits();
        let counted = plan(&mut tx.mem, sink, len, self.buf(), &limits);
        self.world.note_count(tx.msg, counted.is_ok());
        counted
    }

    fn attach(&mut self, _tx: &mut Tx, given: Given) {
        given.end();
    }

    fn end(&mut self, given: Given, status: i32) {
        let want = match given.fails {
            true => ENOMEM,
            false => 0,
        };
        assert_eq!(status, want, "how message {} ends at its sink", given.msg);
        given.end();
    }

    fn finish(&mut self, tx: Tx, _done: Done) {
        let node = self.world.eps[self.id].node;
        self.world.discard(node, tx);
    }
}

/// Sets out to write the first `len` bytes of a source; the number of WRITEs.
pub(super) fn plan(
    mem: &mut Mem,
    sink: Desc,
    len: u32,
    buf: &[u8],
    limits: &Limits,
) -> Result<u16, ChainError> {
    let Mem::Source { frags, cursor, .. } = mem else {
        panic!("WRITEs of {mem:?}");
    };
    let start = Cursor::new(sink, len);
    *cursor = Some(start);
    start.count(frags, buf, limits.max_send_sge, limits.max_frags)
}

impl World {
    /// LNet is given a message.
    pub(super) fn parse(
        &mut self,
        id: EpId,
        rx: RxId,
        hdr: LnetHdr,
        kind: Delivery,
    ) -> Result<(), i32> {
        let msg = id_of(&hdr);
        self.msgs[msg].delivered += 1;
        assert_eq!(self.msgs[msg].delivered, 1, "message {msg} came twice");
        if self.faults && self.prng.chance(1, 2000) {
            return Err(EPROTO);
        }
        self.eps[id].lnet_pending += 1;
        let delay = match self.prng.index(3) {
            0 => 0,
            _ => self.jitter(self.cfg.lnet_delay),
        };
        self.at(delay, Ev::Lnet(id, rx, hdr, kind));
        Ok(())
    }

    /// A number of WRITEs was found for a transfer, or there is none.
    pub(super) fn note_count(&mut self, msg: MsgId, found: bool) {
        self.msgs[msg].declined |= !found;
        self.msgs[msg].must &= found;
    }

    /// LNet says what becomes of a message.
    pub(super) fn lnet(&mut self, id: EpId, rx: RxId, hdr: LnetHdr, kind: Delivery) {
        if self.eps[id].conn.is_c() {
            self.eps[id].lnet_pending -= 1;
            return self.c_lnet(id, rx, hdr, kind);
        }
        let msg = id_of(&hdr);
        let lost = matches!(kind, Delivery::Immediate) && self.loses_buffer(id, msg);
        if lost {
            self.eps[id].lnet_pending -= 1;
            return;
        }
        let given = match kind {
            Delivery::Immediate => self.match_immediate(msg, hdr.payload_len),
            Delivery::PutReq => self.match_put(msg),
            Delivery::GetReq { .. } => self.match_get(msg),
        };
        let held = self.eps[id].conn.ours_mut().held(rx);
        assert_eq!(held, Some(kind), "what LNet was given with {rx:?}");
        let world = self;
        let answer = prepare(&mut Held { world, id, rx }, kind, given);
        let delay = world.preempted();
        world.at(delay, Ev::Answer(id, rx, Box::new(answer)));
    }

    /// The engine gets the answer, under the lock.
    pub(super) fn answer(&mut self, id: EpId, rx: RxId, answer: Answer<Given, Tx>) {
        let now = self.instant();
        let after = answer.give(self.eps[id].conn.ours_mut(), now, rx);
        let delay = self.preempted();
        self.at(delay, Ev::After(id, rx, Box::new(after)));
        self.drive_lazily(id);
    }

    /// What remains of the answer.
    pub(super) fn after(&mut self, id: EpId, rx: RxId, after: After<Given, Tx>) {
        self.eps[id].lnet_pending -= 1;
        let world = self;
        after.run(&mut Held { world, id, rx });
        world.drive(id);
    }

    /// LNet wants less than everything, or nothing.
    fn match_immediate(&mut self, msg: MsgId, len: u32) -> Option<Given> {
        let may = !self.msgs[msg].must;
        let len = match self.prng.index(8) {
            0 if may => return None,
            1 => self.prng.range(0, u64::from(len)) as u32,
            _ => len,
        };
        Some(Given::new(msg, len, len, false))
    }

    /// The sender of a PUT is to be told this.
    fn expect(&mut self, msg: MsgId, status: i32) {
        self.msgs[msg].declined = true;
        self.msgs[msg].answer = Some(status);
    }

    fn match_put(&mut self, msg: MsgId) -> Option<Given> {
        let may = !self.msgs[msg].must;
        let all = self.msgs[msg].len;
        match self.prng.index(32) {
            0..4 if may => {
                self.expect(msg, 0);
                return None;
            }
            4 if may => {
                self.expect(msg, 0);
                return Some(Given::new(msg, 0, 0, false));
            }
            5 if may => {
                self.expect(msg, ENOMEM);
                return Some(Given::new(msg, all, all, true));
            }
            _ => {}
        }
        let want = match self.prng.index(4) {
            0 => self.prng.range(1, u64::from(all)) as u32,
            1 if may && self.prng.chance(1, 4) => all + 1,
            _ => all,
        };
        self.msgs[msg].declined |= want > all;
        Some(Given::new(msg, want, want, false))
    }

    fn match_get(&mut self, msg: MsgId) -> Option<Given> {
        let may = !self.msgs[msg].must;
        let all = self.msgs[msg].len;
        match self.prng.index(32) {
            0..4 if may => {
                self.expect(msg, ENODATA);
                return None;
            }
            4 if may => {
                self.expect(msg, 0);
                return Some(Given::new(msg, 0, 0, false));
            }
            5 if may => {
                self.expect(msg, ENOMEM);
                return Some(Given::new(msg, all, all, true));
            }
            _ => {}
        }
        let reply = match self.prng.index(4) {
            0 => self.prng.range(1, u64::from(all)) as u32,
            _ => all,
        };
        let have = match may && self.prng.chance(1, 20) {
            true => reply / 2 + 1,
            false => reply,
        };
        Some(Given::new(msg, reply, have, false))
    }

    // --- the C driver -------------------------------------------------------------------------

    fn c_lnet(&mut self, id: EpId, rx: RxId, hdr: LnetHdr, kind: Delivery) {
        let now = self.instant();
        let msg = id_of(&hdr);
        let may = !self.msgs[msg].must;
        match kind {
            Delivery::Immediate => {
                let buf = &self.eps[id].rx_bufs[usize::from(rx.0)];
                let len = hdr.payload_len as usize;
                check(msg, &buf[120..120 + len], "IMMEDIATE");
                if !self.loses_buffer(id, msg) {
                    self.eps[id].conn.rx_done(now, rx);
                }
            }
            Delivery::PutReq if may && self.prng.chance(1, 8) => {
                let status = if self.prng.chance(1, 2) { 0 } else { ENOMEM };
                self.expect(msg, status);
                self.eps[id].conn.put_nak(now, rx, status);
            }
            Delivery::PutReq => self.c_take_put(id, rx, msg, may),
            Delivery::GetReq { .. } if may && self.prng.chance(1, 8) => {
                let status = if self.prng.chance(1, 2) { 0 } else { ENODATA };
                self.expect(msg, status);
                self.eps[id].conn.get_done(now, rx, status);
            }
            Delivery::GetReq { desc } => self.c_serve_get(id, rx, msg, desc, may),
        }
        self.drive_lazily(id);
    }

    fn c_take_put(&mut self, id: EpId, rx: RxId, msg: MsgId, may: bool) {
        let now = self.instant();
        let node = self.eps[id].node;
        let len = self.msgs[msg].len;
        let want = match self.prng.index(4) {
            0 => self.prng.range(1, u64::from(len)) as u32,
            1 if may && self.prng.chance(1, 4) => len + 1,
            _ => len,
        };
        self.msgs[msg].declined |= want > len;
        let (mem, sink) = self.sink(node, want);
        let tx = Tx::new(msg, false, mem, now, None);
        if let Some(refused) = self.eps[id].conn.put_sink(now, rx, tx, sink) {
            self.discard(node, refused.tx);
        }
    }

    fn c_serve_get(&mut self, id: EpId, rx: RxId, msg: MsgId, desc: Desc, may: bool) {
        let now = self.instant();
        let node = self.eps[id].node;
        let len = self.msgs[msg].len;
        let reply = match self.prng.index(4) {
            0 => self.prng.range(1, u64::from(len)) as u32,
            _ => len,
        };
        let have = match may && self.prng.chance(1, 20) {
            true => reply / 2 + 1,
            false => reply,
        };
        let mem = self.source(node, msg, have);
        let silent = self.faults && self.prng.chance(1, 2);
        let ep = &mut self.eps[id];
        let view = desc.view(&ep.rx_bufs[usize::from(rx.0)]);
        let view = view.expect("descriptor");
        let End::C(conn) = &mut ep.conn else {
            panic!("not the C driver");
        };
        let tx = Tx::new(msg, false, mem, now, None);
        let refused = conn.get_source(now, rx, tx, reply, (&view, silent));
        if let Some(Refused { tx, .. }) = refused {
            self.discard(node, tx);
        }
    }

    // --- memory ---------------------------------------------------------------------------------

    /// A mapped source of `len` bytes in pieces.
    pub(super) fn source(&mut self, node: usize, msg: MsgId, len: u32) -> Mem {
        let pieces = self.prng.range(1, 8) as u32;
        let mut regions = Vec::new();
        let mut frags = Vec::new();
        let mut at = 0;
        while at < len {
            let n = match self.prng.range(1, u64::from(len / pieces + 1)) as u32 {
                n if frags.len() > 20 => n.max(len - at),
                n => n,
            }
            .min(len - at);
            let bytes = fill(msg, at as usize..(at + n) as usize);
            let region = self.nodes[node].memory.alloc(bytes);
            regions.push(region);
            frags.push(SrcFrag {
                addr: base(region),
                len: n,
            });
            at += n;
        }
        Mem::Source {
            regions,
            frags,
            cursor: None,
            written: false,
        }
    }

    pub(super) fn sink(&mut self, node: usize, len: u32) -> (Mem, Sink) {
        let memory = &mut self.nodes[node].memory;
        let region = memory.alloc(vec![0xaa; len as usize]);
        let key = memory.map(region, len);
        let sink = Sink {
            key,
            addr: base(region),
            nob: len,
        };
        (Mem::Sink { key, region }, sink)
    }

    /// A transmission that the engine did not take.
    pub(super) fn discard(&mut self, node: usize, tx: Tx) {
        let (_, _, mem, _) = tx.end();
        self.release(node, mem, false);
    }

    /// What a message that ends at its sender must say, when LNet there has decided.
    pub(super) fn check_answer(&self, msg: MsgId, done: Done) {
        let Some(answer) = self.msgs[msg].answer else {
            return;
        };
        assert!(
            done.status != 0 || answer == 0,
            "message {msg} succeeds, and its answer is {answer}"
        );
        let remote = done.health == crate::proto::Health::RemoteError;
        assert!(
            !remote || done.status == answer,
            "message {msg} ends with {done:?}, and its answer is {answer}"
        );
        assert!(self.msgs[msg].kind != Kind::Immediate);
    }
}

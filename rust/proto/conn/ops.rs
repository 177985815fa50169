// SPDX-License-Identifier: GPL-2.0

//! Operations: what LNet or the peer asked for, from its acceptance to its end.

use super::Sink;
use crate::proto::{
    slab::{
        Links,
        List,
        ListId,
        Storage, //
    },
    Done,
    Instant,
    Limits,
    OpId,
    RxId, //
};
use crate::wire::{
    Cookie,
    Desc,
    LnetHdr, //
};
use core::hash::Hash;
#[cfg(feature = "tests")]
use core::hash::Hasher;

/// What an operation is about.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) enum Work {
    /// IMMEDIATE.
    Immediate { hdr: LnetHdr, payload: u16 },
    /// We are the source of a PUT.
    Put { hdr: LnetHdr, len: u32 },
    /// We are the sink of a GET.
    Get { hdr: LnetHdr, sink: Sink },
    /// We are the sink of a PUT; `src` is the source's cookie.
    PutSink { src: Cookie, sink: Sink },
    /// We are the source of a GET.
    GetSource,
    /// PUT_NAK. There is no LNet message.
    Nak { cookie: Cookie, status: i32 },
    /// GET_DONE without data. There is no LNet message.
    NoData { cookie: Cookie, status: i32 },
}

impl Work {
    /// Whether LNet started it here.
    pub(super) const fn is_local(&self) -> bool {
        match self {
            Self::Immediate { .. } | Self::Put { .. } | Self::Get { .. } => true,
            Self::PutSink { .. } | Self::GetSource | Self::Nak { .. } | Self::NoData { .. } => {
                false
            }
        }
    }

    /// Whether the message of an operation of its own needs a REG in front.
    pub(super) const fn has_sink(&self) -> bool {
        match self {
            Self::Get { .. } | Self::PutSink { .. } => true,
            Self::Immediate { .. }
            | Self::Put { .. }
            | Self::GetSource
            | Self::Nak { .. }
            | Self::NoData { .. } => false,
        }
    }
}

/// What a source has to send: WRITEs, then a DONE.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    /// The peer's cookie, for the DONE.
    pub(super) cookie: Cookie,
    /// Receive buffer with the fragments of the sink; ours until the last WRITE has been posted.
    pub(super) rx: RxId,
    /// The sink.
    pub(super) desc: Desc,
    /// WRITEs that have not been posted.
    pub(super) left: u16,
    /// Status of the DONE.
    pub(super) status: i32,
}

/// Where an operation is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum OpPhase {
    /// The slot is free.
    Free,
    /// Waits for a receive to be set aside for the answer.
    Reserve,
    /// Waits for a credit.
    Credit,
    /// Waits to be posted; needs no credit.
    Reply,
    /// The SEND that ends it is posted.
    Sent,
    /// Its message is posted; waits for the peer's answer.
    Wait,
    /// The driver is to plan the WRITEs.
    Plan,
    /// The driver plans the WRITEs.
    Planning,
    /// Its LOCAL_INV waits to be posted.
    Inv,
    /// Its LOCAL_INV is posted.
    InvSent,
    /// Has failed; some of its WRITEs are posted.
    Abort,
    /// Ended; to be handed out.
    Finish,
    /// Ended; to be handed out when the connection is drained.
    Drain,
}

/// What can happen to an operation because of its connection or of its postings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpEvent {
    /// The connection was closed.
    Closed,
    /// A posting for it failed: parts of it may be with the device.
    PostFailed,
    /// The last posting that uses its memory has been retired.
    Quiet,
    /// Its final SEND ended well.
    SentOk,
    /// Its final SEND failed or was flushed.
    SentErr,
    /// Its LOCAL_INV ended well.
    InvOk,
    /// Its LOCAL_INV failed or was flushed.
    InvErr,
    /// No more completions can come.
    Drained,
}

impl OpPhase {
    /// The phase after `event`, `None` when it stays as it is. `exposed`: its MR is or may be known
    /// to the device. `busy`: postings that use its memory have not been retired.
    pub(super) const fn after(self, event: OpEvent, exposed: bool, busy: bool) -> Option<Self> {
        match event {
            OpEvent::Closed => self.after_closed(exposed, busy),
            OpEvent::PostFailed | OpEvent::Drained => {
                if self.is_over() {
                    None
                } else {
                    Some(Self::Drain)
                }
            }
            OpEvent::Quiet => match self {
                Self::Abort => Some(Self::Finish),
                Self::Free
                | Self::Reserve
                | Self::Credit
                | Self::Reply
                | Self::Sent
                | Self::Wait
                | Self::Plan
                | Self::Planning
                | Self::Inv
                | Self::InvSent
                | Self::Finish
                | Self::Drain => None,
            },
            OpEvent::SentOk | OpEvent::SentErr => self.only_from(Self::Sent, Self::Finish),
            OpEvent::InvOk => self.only_from(Self::InvSent, Self::Finish),
            OpEvent::InvErr => self.only_from(Self::InvSent, Self::Drain),
        }
    }

    const fn after_closed(self, exposed: bool, busy: bool) -> Option<Self> {
        match self {
            // Their completions decide, or they have ended.
            Self::Free | Self::Sent | Self::InvSent | Self::Abort | Self::Finish | Self::Drain => {
                None
            }
            Self::Reserve | Self::Credit | Self::Wait | Self::Plan | Self::Planning => {
                Some(if exposed { Self::Drain } else { Self::Finish })
            }
            Self::Reply => Some(match (exposed, busy) {
                (true, true | false) => Self::Drain,
                (false, true) => Self::Abort,
                (false, false) => Self::Finish,
            }),
            Self::Inv => Some(Self::Drain),
        }
    }

    /// `to`, if this is `from`; a completion finds an operation that has ended otherwise.
    const fn only_from(self, from: Self, to: Self) -> Option<Self> {
        if self as u8 == from as u8 {
            Some(to)
        } else {
            None
        }
    }

    const fn queue(self) -> Option<OpQueue> {
        match self {
            Self::Free => Some(OpQueue::Free),
            Self::Reserve => Some(OpQueue::Reserve),
            Self::Credit => Some(OpQueue::Credit),
            Self::Reply => Some(OpQueue::Reply),
            Self::Plan => Some(OpQueue::Plan),
            Self::Inv => Some(OpQueue::Inv),
            Self::Finish => Some(OpQueue::Finish),
            Self::Drain => Some(OpQueue::Drain),
            Self::Sent | Self::Wait | Self::Planning | Self::InvSent | Self::Abort => None,
        }
    }

    /// Whether the outcome is settled: it has no deadline any more.
    const fn is_over(self) -> bool {
        match self {
            Self::Free | Self::Finish | Self::Drain => true,
            Self::Reserve
            | Self::Credit
            | Self::Reply
            | Self::Sent
            | Self::Wait
            | Self::Plan
            | Self::Planning
            | Self::Inv
            | Self::InvSent
            | Self::Abort => false,
        }
    }
}

/// Lists of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpQueue {
    Free,
    Reserve,
    Credit,
    Reply,
    Plan,
    Inv,
    Finish,
    Drain,
}

impl OpQueue {
    /// Those on which operations are.
    #[cfg(feature = "tests")]
    const IN_USE: [Self; 7] = [
        Self::Reserve,
        Self::Credit,
        Self::Reply,
        Self::Plan,
        Self::Inv,
        Self::Finish,
        Self::Drain,
    ];

    const fn list(self) -> List {
        List::new(ListId::new((self as u8).saturating_add(1)))
    }
}

/// One list for each [`OpQueue`].
#[derive(Clone, Copy)]
struct Lists {
    free: List,
    reserve: List,
    credit: List,
    reply: List,
    plan: List,
    inv: List,
    finish: List,
    drain: List,
}

impl Lists {
    const fn new() -> Self {
        Self {
            free: OpQueue::Free.list(),
            reserve: OpQueue::Reserve.list(),
            credit: OpQueue::Credit.list(),
            reply: OpQueue::Reply.list(),
            plan: OpQueue::Plan.list(),
            inv: OpQueue::Inv.list(),
            finish: OpQueue::Finish.list(),
            drain: OpQueue::Drain.list(),
        }
    }

    const fn of(&self, queue: OpQueue) -> &List {
        match queue {
            OpQueue::Free => &self.free,
            OpQueue::Reserve => &self.reserve,
            OpQueue::Credit => &self.credit,
            OpQueue::Reply => &self.reply,
            OpQueue::Plan => &self.plan,
            OpQueue::Inv => &self.inv,
            OpQueue::Finish => &self.finish,
            OpQueue::Drain => &self.drain,
        }
    }

    fn of_mut(&mut self, queue: OpQueue) -> &mut List {
        match queue {
            OpQueue::Free => &mut self.free,
            OpQueue::Reserve => &mut self.reserve,
            OpQueue::Credit => &mut self.credit,
            OpQueue::Reply => &mut self.reply,
            OpQueue::Plan => &mut self.plan,
            OpQueue::Inv => &mut self.inv,
            OpQueue::Finish => &mut self.finish,
            OpQueue::Drain => &mut self.drain,
        }
    }
}

/// An operation, in a slot that later ones use again.
#[derive(Clone)]
pub(super) struct Op<T> {
    gen: u16,
    pub(super) tx: Option<T>,
    pub(super) work: Work,
    phase: OpPhase,
    /// When the LND timeout began.
    since: Instant,
    /// Our cookie, which the peer's answer carries.
    pub(super) cookie: Cookie,
    /// For a source: the WRITEs that are left, once the sink is known.
    pub(super) transfer: Option<Transfer>,
    /// A receive whose credit is due when this has ended.
    pub(super) rx: Option<RxId>,
    /// Its MR is or may be known to the device.
    pub(super) exposed: bool,
    /// Postings that use its memory and have not been retired.
    pub(super) postings: u16,
    /// How it ended. The first cause is kept.
    pub(super) done: Option<Done>,
}

impl<T> Op<T> {
    pub(super) fn phase(&self) -> OpPhase {
        self.phase
    }

    /// All that decides what comes of it; cookies of the peer are told by what `theirs` makes of
    /// them, and of a receive buffer only that there is one.
    #[cfg(feature = "tests")]
    fn hash_future<H: Hasher, N: Hash>(&self, theirs: impl Fn(Cookie) -> Option<N>, state: &mut H)
    where
        T: Hash,
    {
        (&self.tx, self.phase, self.since, self.rx.is_some()).hash(state);
        (self.exposed, self.postings, self.done).hash(state);
        match self.work {
            Work::PutSink { src, sink } => (theirs(src), sink).hash(state),
            Work::Nak { cookie, status } | Work::NoData { cookie, status } => {
                (theirs(cookie), status).hash(state);
            }
            Work::Immediate { .. } | Work::Put { .. } | Work::Get { .. } | Work::GetSource => {
                self.work.hash(state);
            }
        }
        if let Some(transfer) = self.transfer {
            (theirs(transfer.cookie), transfer.desc).hash(state);
            (transfer.left, transfer.status).hash(state);
        }
    }

    /// Notes how this ended, if that is not known yet.
    pub(super) fn conclude(&mut self, done: Done) {
        self.done.get_or_insert(done);
    }
}

/// All operations of a connection.
pub(super) struct Ops<S: Storage, T> {
    slots: S::Buf<Op<T>>,
    links: Links<S>,
    lists: Lists,
    timers: Links<S>,
    by_age: List,
    next_cookie: u64,
    local: u16,
    local_max: u16,
}

impl<S: Storage, T> Clone for Ops<S, T>
where
    S::Buf<Op<T>>: Clone,
    Links<S>: Clone,
{
    fn clone(&self) -> Self {
        Self {
            slots: self.slots.clone(),
            links: self.links.clone(),
            lists: self.lists,
            timers: self.timers.clone(),
            by_age: self.by_age,
            next_cookie: self.next_cookie,
            local: self.local,
            local_max: self.local_max,
        }
    }
}

#[cfg(feature = "tests")]
impl<S: Storage, T: Copy + Ord + Hash> Ops<S, T> {
    /// For [`Conn::hash_future`](super::Conn::hash_future): operations are told by their LNet
    /// message, in its order, and lists by what is on them.
    pub(super) fn hash_future<H: Hasher, N: Hash>(
        &self,
        theirs: impl Fn(Cookie) -> Option<N>,
        state: &mut H,
    ) {
        let live = || {
            self.slots
                .as_ref()
                .iter()
                .filter(|op| op.phase != OpPhase::Free)
        };
        let mut last = None;
        while let Some(op) = live()
            .filter(|op| last.is_none_or(|last| op.tx > last))
            .min_by_key(|op| op.tx)
        {
            op.hash_future(&theirs, state);
            last = Some(op.tx);
        }
        for queue in OpQueue::IN_USE {
            let mut next = self.lists.of(queue).front();
            (queue as u8).hash(state);
            while let Some(idx) = next {
                let op = self.slots.as_ref().get(usize::from(idx));
                op.and_then(|op| op.tx).hash(state);
                next = self.links.next(idx);
            }
        }
    }
}

impl<S: Storage, T> Ops<S, T> {
    pub(super) fn new(storage: &mut S, limits: &Limits) -> Result<Self, S::Error> {
        let n = limits.ops;
        let slots = storage.alloc(usize::from(n), |_| Op {
            gen: 0,
            tx: None,
            work: Work::GetSource,
            phase: OpPhase::Free,
            since: Instant::ZERO,
            cookie: Cookie(0),
            transfer: None,
            rx: None,
            exposed: false,
            postings: 0,
            done: None,
        })?;
        let mut ops = Self {
            slots,
            links: Links::new(storage, n)?,
            lists: Lists::new(),
            timers: Links::new(storage, n)?,
            by_age: List::new(ListId::new(1)),
            next_cookie: 1,
            local: 0,
            local_max: limits.local_ops,
        };
        for idx in 0..n {
            ops.link(OpQueue::Free, idx);
        }
        Ok(ops)
    }

    fn link(&mut self, queue: OpQueue, idx: u16) {
        self.links.push_back(self.lists.of_mut(queue), idx);
    }

    fn unlink(&mut self, queue: OpQueue, idx: u16) {
        self.links.remove(self.lists.of_mut(queue), idx);
    }

    /// Number of operations on `queue`.
    pub(super) fn len(&self, queue: OpQueue) -> u16 {
        self.lists.of(queue).len()
    }

    /// The first operation on `queue`.
    pub(super) fn front(&self, queue: OpQueue) -> Option<OpId> {
        let idx = self.lists.of(queue).front()?;
        self.id(idx)
    }

    fn id(&self, idx: u16) -> Option<OpId> {
        let op = self.slots.as_ref().get(usize::from(idx))?;
        Some(OpId { idx, gen: op.gen })
    }

    /// The operation in slot `idx`, if there is one.
    pub(super) fn live(&self, idx: u16) -> Option<OpId> {
        let id = self.id(idx)?;
        self.get(id).map(|_| id)
    }

    /// Number of slots, used and free.
    pub(super) fn slots(&self) -> u16 {
        u16::try_from(self.slots.as_ref().len()).unwrap_or(u16::MAX)
    }

    /// Operations that LNet started here.
    pub(super) fn local(&self) -> u16 {
        self.local
    }

    /// Operations that have not been handed out.
    pub(super) fn in_use(&self) -> u16 {
        self.slots().saturating_sub(self.len(OpQueue::Free))
    }

    pub(super) fn get(&self, id: OpId) -> Option<&Op<T>> {
        self.slots
            .as_ref()
            .get(usize::from(id.idx))
            .filter(|op| op.gen == id.gen && op.phase != OpPhase::Free)
    }

    pub(super) fn get_mut(&mut self, id: OpId) -> Option<&mut Op<T>> {
        self.slots
            .as_mut()
            .get_mut(usize::from(id.idx))
            .filter(|op| op.gen == id.gen && op.phase != OpPhase::Free)
    }

    /// Changes an operation, if it has not been handed out.
    pub(super) fn update(&mut self, id: OpId, change: impl FnOnce(&mut Op<T>)) {
        if let Some(op) = self.get_mut(id) {
            change(op);
        }
    }

    /// The operation that waits for `cookie`.
    pub(super) fn waiting(&self, cookie: Cookie) -> Option<(OpId, &Op<T>)> {
        let id = self.id(u16::try_from(cookie.0 & 0xffff).ok()?)?;
        let op = self.get(id)?;
        (op.cookie == cookie && op.phase == OpPhase::Wait).then_some((id, op))
    }

    /// Starts an operation in `phase`. Without a free slot `tx` comes back.
    pub(super) fn start(
        &mut self,
        tx: Option<T>,
        work: Work,
        phase: OpPhase,
        now: Instant,
    ) -> Result<OpId, Option<T>> {
        let full = work.is_local() && self.local >= self.local_max;
        let Some(idx) = self.lists.free.front().filter(|_| !full) else {
            return Err(tx);
        };
        let cookie = Cookie(self.next_cookie << 16 | u64::from(idx));
        self.next_cookie = self.next_cookie.wrapping_add(1);
        let Some(op) = self.slots.as_mut().get_mut(usize::from(idx)) else {
            return Err(tx);
        };
        *op = Op {
            gen: op.gen,
            tx,
            work,
            phase,
            since: now,
            cookie,
            transfer: None,
            rx: None,
            exposed: false,
            postings: 0,
            done: None,
        };
        let id = OpId { idx, gen: op.gen };
        if work.is_local() {
            self.local = self.local.saturating_add(1);
        }
        self.moved(idx, OpPhase::Free, phase);
        self.timers.push_back(&mut self.by_age, idx);
        Ok(id)
    }

    /// Moves an operation to `phase` and to the queue that goes with it.
    pub(super) fn enter(&mut self, id: OpId, phase: OpPhase) {
        if let Some(op) = self.get_mut(id) {
            let old = core::mem::replace(&mut op.phase, phase);
            self.moved(id.idx, old, phase);
        }
    }

    /// What goes with a change of phase.
    fn moved(&mut self, idx: u16, from: OpPhase, to: OpPhase) {
        if let Some(queue) = from.queue() {
            self.unlink(queue, idx);
        }
        if let Some(queue) = to.queue() {
            self.link(queue, idx);
        }
        if to.is_over() {
            self.timers.remove(&mut self.by_age, idx);
        }
    }

    /// Gives an operation the whole LND timeout again.
    pub(super) fn renew(&mut self, id: OpId, now: Instant) {
        if let Some(op) = self.get_mut(id) {
            op.since = now;
            // Only what waits for the peer gets more, and that is on the list.
            self.timers.remove(&mut self.by_age, id.idx);
            self.timers.push_back(&mut self.by_age, id.idx);
        }
    }

    /// Since when the oldest operation waits.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        let idx = self.by_age.front()?;
        self.slots.as_ref().get(usize::from(idx)).map(|op| op.since)
    }

    /// Ends an operation: its slot is free, its LNet message and status come back.
    pub(super) fn end(&mut self, id: OpId) -> Option<(Option<T>, Option<Done>)> {
        let op = self.get_mut(id)?;
        let out = (op.tx.take(), op.done);
        let local = op.work.is_local();
        op.gen = op.gen.wrapping_add(1);
        let old = core::mem::replace(&mut op.phase, OpPhase::Free);
        if local {
            self.local = self.local.saturating_sub(1);
        }
        self.moved(id.idx, old, OpPhase::Free);
        Some(out)
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The C driver's end of a connection, by the protocol's description of it.
//!
//! It shares nothing with our engine but the wire format and the values in which the world speaks
//! to either: no counter, queue, table or state. What the description calls a defect is left out
//! where it would break a rule of the simulator (a success that was none, memory that is given
//! back too early, queues that are too short); what a peer has to live with is there: a sink in
//! many fragments, no word about a GET that cannot be served, keys that stay valid, deadlines that
//! only a sweep notices.
//!
//! - [`flow`]: credits and send queues (section 12);
//! - [`plan`]: descriptors (section 11);
//! - [`exchange`]: what is said and answered (section 10);
//! - [`post`]: what goes to the device;
//! - [`life`]: establishment, deadlines, closing and its aftermath (sections 14 to 18).

mod exchange;
mod flow;
mod life;
mod plan;
mod post;

pub(super) use self::{
    plan::Write,
    post::{
        Chain,
        Post, //
    },
};

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use self::flow::{concurrent_sends, Entry, Flow};
use super::end::Look;
use super::lnet::{MsgId, Tx};
use super::options::Broken;
use crate::proto::cause::Violation;
use crate::proto::conn::{Action, Role, Sink};
use crate::proto::{Cause, Done, Health, Instant, Limits, NiTunables, Outcome, RxId};
use crate::wire::{Completion, Cookie, Endian, Identity, LnetHdr, MsgType};

/// Number of a transmission, which is its cookie, too.
type TxId = u64;

/// SGEs of a SEND: the message, and a payload elsewhere.
const SEND_SGE: u16 = 2;

/// What a transmission says now: a PUT_REQ becomes a PUT_DONE.
#[derive(Clone, Copy, Debug)]
enum Says {
    Immediate(LnetHdr),
    PutReq(LnetHdr),
    PutAck(Cookie, Sink),
    PutNak(Completion),
    PutDone(Completion),
    GetReq(LnetHdr, Sink),
    GetDone(Completion),
}

impl Says {
    /// The answer that it waits for once it has been posted.
    const fn is_question(&self) -> bool {
        matches!(self, Self::PutReq(_) | Self::PutAck(..) | Self::GetReq(..))
    }

    const fn kind(&self) -> MsgType {
        match self {
            Self::Immediate(_) => MsgType::Immediate,
            Self::PutReq(_) => MsgType::PutReq,
            Self::PutAck(..) => MsgType::PutAck,
            Self::PutNak(_) => MsgType::PutNak,
            Self::PutDone(_) => MsgType::PutDone,
            Self::GetReq(..) => MsgType::GetReq,
            Self::GetDone(_) => MsgType::GetDone,
        }
    }
}

/// A transmission. It is over when it is neither queued nor waiting nor being sent.
#[derive(Debug)]
struct CTx {
    /// What LNet gets back, if it has to do with this.
    tx: Option<Tx>,
    says: Says,
    /// What a DONE comes behind, and the key to it.
    writes: Vec<Write>,
    rkey: u32,
    queued: bool,
    waiting: bool,
    /// Send completions that are to come.
    sending: u16,
    /// A post call failed: who knows what the device has of it.
    failed: bool,
    /// What the LND timeout counts from.
    since: Instant,
    done: Option<Done>,
}

impl CTx {
    /// Notes how it ended, if nothing worse is known.
    fn conclude(&mut self, done: Done) {
        self.done.get_or_insert(done);
    }

    fn is_over(&self) -> bool {
        !self.queued && !self.waiting && self.sending == 0 && !self.failed
    }
}

/// A request that LNet has.
#[derive(Clone, Copy, Debug)]
enum Request {
    Immediate,
    Put(Cookie),
    Get(Cookie),
}

/// What posting a buffer again does (section 12.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repost {
    Nothing,
    Credit,
    Reserve,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Until this deadline, which stands for the CM's.
    Connecting(Instant),
    Established,
    Closing,
    /// The queue pair is in the error state; the flush is over by this deadline. The C driver
    /// would wait for ever.
    Disconnected(Instant),
}

/// A SEND that has not completed.
#[derive(Clone, Copy, Debug)]
struct Posted {
    entry: Entry,
    slot: u16,
    since: Instant,
}

/// How a node is set up, as far as its ends of connections differ by it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) tunables: NiTunables,
    pub(super) endian: Endian,
    /// What it gets wrong on purpose.
    pub(super) broken: Option<Broken>,
}

/// An end of a connection.
pub(super) struct CConn {
    role: Role,
    ident: Identity,
    limits: Limits,
    setup: Setup,
    state: State,
    cause: Option<Cause>,
    flow: Flow,
    txs: BTreeMap<TxId, CTx>,
    next_tx: TxId,
    /// Buffers to be posted.
    to_post: VecDeque<(RxId, Repost)>,
    posting: Option<Repost>,
    /// Buffers that the device has.
    rx_posted: u16,
    /// Buffers that LNet has.
    held: BTreeMap<u16, Request>,
    /// Messages that came before the connection was established.
    early: VecDeque<(RxId, Vec<u8>)>,
    posted: BTreeMap<u64, Posted>,
    /// SENDs whose post call failed.
    lost: BTreeSet<u64>,
    next_seq: u64,
    /// Free message buffers.
    slots: Vec<u16>,
    actions: VecDeque<Action<Tx>>,
    /// Messages whose transfer cannot be done.
    unplanned: Vec<MsgId>,
    notified: bool,
    /// Receives were flushed before it was established.
    flushed: bool,
    drained: bool,
    forced: bool,
    destroying: bool,
    alive: Instant,
    last_send: Instant,
    /// When the sweep came by.
    swept: Instant,
    rx_msgs: u32,
    tx_noops: u32,
}

/// A message failed with `errno`.
fn failure(errno: i32, health: Health) -> Done {
    let status = -errno;
    Outcome { status, health }.into()
}

impl CConn {
    pub(super) fn new(
        role: Role,
        ident: Identity,
        limits: Limits,
        setup: Setup,
        now: Instant,
    ) -> Self {
        let sends = concurrent_sends(
            limits.version,
            limits.queue_depth,
            setup.tunables.concurrent_sends,
        );
        let buffers = 0..limits.rx_slots;
        Self {
            role,
            ident,
            limits,
            setup,
            state: State::Connecting(now.after(setup.tunables.connect_timeout)),
            cause: None,
            flow: Self::flow(&limits, &setup, sends),
            txs: BTreeMap::new(),
            next_tx: 0,
            to_post: buffers.map(|rx| (RxId(rx), Repost::Nothing)).collect(),
            posting: None,
            rx_posted: 0,
            held: BTreeMap::new(),
            early: VecDeque::new(),
            posted: BTreeMap::new(),
            lost: BTreeSet::new(),
            next_seq: 0,
            slots: (0..sends).collect(),
            actions: VecDeque::new(),
            unplanned: Vec::new(),
            notified: false,
            flushed: false,
            drained: false,
            forced: false,
            destroying: false,
            alive: now,
            last_send: now,
            swept: now,
            rx_msgs: 0,
            tx_noops: 0,
        }
    }

    fn flow(limits: &Limits, setup: &Setup, sends: u16) -> Flow {
        let of_net = (setup.tunables.credits_hiw, setup.tunables.peer_credits);
        Flow::new(limits.version, limits.queue_depth, of_net, sends)
    }

    // --- what it looks like ---------------------------------------------------------------------

    pub(super) fn role(&self) -> Role {
        self.role
    }

    pub(super) fn identity(&self) -> &Identity {
        &self.ident
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(super) fn is_established(&self) -> bool {
        self.state == State::Established
    }

    pub(super) fn cause(&self) -> Option<Cause> {
        self.cause
    }

    pub(super) fn is_released(&self) -> bool {
        self.drained && self.actions.is_empty()
    }

    fn is_open(&self) -> bool {
        matches!(self.state, State::Connecting(_) | State::Established)
    }

    /// Message buffers for sending.
    pub(super) fn send_slots(&self) -> u16 {
        self.flow.concurrent
    }

    /// Requests on the send queue: a REG, WRITEs and a SEND for each that may be posted. (The C
    /// driver counts the depth alone, which can be too few.)
    pub(super) fn sq_wrs(&self) -> u32 {
        let chains = self.flow.depth.max(self.flow.concurrent);
        u32::from(chains) * (u32::from(self.limits.max_frags) + 3)
    }

    pub(super) fn max_sge(&self) -> u16 {
        self.setup.tunables.wrq_sge.max(SEND_SGE)
    }

    pub(super) fn look(&self) -> Look {
        let state = match (self.state, self.role) {
            (State::Connecting(_), Role::Active) => 1,
            (State::Connecting(_), Role::Passive) => 2,
            (State::Established, _) => 3,
            (State::Closing, _) => 4,
            (State::Disconnected(_), _) => 5,
        };
        Look {
            state,
            queue_depth: self.flow.depth,
            credits: self.flow.credits,
            outstanding: self.flow.outstanding,
            reserved: self.flow.reserved,
            granted: None,
            sends: self.flow.posted,
            noops: self.flow.noops,
            concurrent_sends: self.flow.concurrent,
            hiw: self.flow.hiw,
            // Chains, of which there is room for as many as may be posted.
            sq_used: self.posted.len() as u32,
            sq_wrs: self.sq_wrs(),
            rx_posted: self.rx_posted,
            rx_to_post: self.to_post.len() as u16,
            rx_held: self.held.len() as u16,
            rx_early: self.early.len() as u16,
            ops: self.txs.len() as u16,
            rx_msgs: self.rx_msgs,
            tx_noops: self.tx_noops,
            wrong: 0,
        }
    }

    pub(super) fn poll_action(&mut self) -> Option<Action<Tx>> {
        self.actions.pop_front()
    }

    /// The next message whose transfer it could not do, because the descriptors do not fit.
    pub(super) fn poll_unplanned(&mut self) -> Option<MsgId> {
        self.unplanned.pop()
    }
}

fn wrong_type(kind: MsgType) -> Cause {
    Cause::Protocol(Violation::WrongType(kind))
}

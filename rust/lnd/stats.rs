// SPDX-License-Identifier: GPL-2.0

//! Counters of what happened, and counts of what is alive.
//!
//! Every bad outcome that the driver defines has a counter here. Counters only grow, from module
//! load to unload; [`Live`] counts must be zero when the module goes, and `debugfs` shows both.

use crate::wire::MsgType;
use core::fmt;
use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

/// Defines an enum of names and the static array that counts them.
macro_rules! counters {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident in $store:ident {
            $( $(#[$doc:meta])* $variant:ident = $text:literal, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name {
            $( $(#[$doc])* $variant, )*
        }

        impl $name {
            /// All of them, in the order in which they are shown.
            $vis const ALL: &'static [Self] = &[$( Self::$variant, )*];

            /// Name in debugfs.
            $vis const fn name(self) -> &'static str {
                match self {
                    $( Self::$variant => $text, )*
                }
            }

            /// The value now.
            $vis fn get(self) -> u64 {
                $store[self as usize].load(Relaxed) as u64
            }
        }

        static $store: [Atomic<i64>; $name::ALL.len()] =
            [const { Atomic::new(0) }; $name::ALL.len()];
    };
}

counters! {
    /// Events, counted since module load.
    pub(crate) enum Event in EVENTS {
        /// IMMEDIATE handed to a connection.
        TxImmediate = "tx_immediate",
        /// PUT_REQ handed to a connection.
        TxPut = "tx_put",
        /// GET_REQ handed to a connection.
        TxGet = "tx_get",
        /// Messages that ended with status 0.
        TxDone = "tx_done",
        /// Messages that ended with an error.
        TxFailed = "tx_failed",
        /// Messages received and passed to the engine.
        RxMessages = "rx_messages",
        /// Messages given to LNet.
        RxDelivered = "rx_delivered",
        /// Messages that LNet refused.
        RxRefused = "rx_refused",
        /// Messages that LNet asked us to discard.
        RxDiscarded = "rx_discarded",
        /// Received messages that could not be parsed.
        RxBadMessage = "rx_bad_message",
        /// Receive completions with an error other than a flush.
        RxError = "rx_error",
        /// Completions whose work request id is not one of ours.
        WcUnknown = "wc_unknown",
        /// Polling or arming a completion queue failed.
        CqError = "cq_error",
        /// Asynchronous errors of completion queues and queue pairs.
        AsyncError = "async_error",
        /// Posting to a queue pair failed.
        PostError = "post_error",
        /// `lnd_send` had no transmit descriptor.
        NoTx = "no_tx",
        /// `lnd_recv` had no transmit descriptor because too many requests of peers were served.
        TooManyServed = "too_many_served",
        /// `lnd_send` or `lnd_recv` could not map or register memory.
        MapFailed = "map_failed",
        /// The memory of a message was a GPU's, which is not supported.
        GpuRefused = "gpu_refused",
        /// A peer had a key of ours invalidated, which nobody asked it for.
        RxInvalidates = "rx_invalidates",
        /// A memory region could not be deregistered; its message waits until it can.
        DeregFailed = "dereg_failed",
        /// A message met a connection on another device than the one that it was mapped for.
        TxForeign = "tx_foreign",
        /// `lnd_send` could not make the reply message of a GET.
        NoReplyMsg = "no_reply_msg",
        /// `lnd_send` could not allocate a peer.
        NoPeer = "no_peer",
        /// Fault injection of LNet ended a message.
        FaultInjected = "fault_injected",
        /// Connection attempts started.
        Attempts = "attempts",
        /// Connection attempts that failed.
        AttemptsFailed = "attempts_failed",
        /// Connections established, by either side.
        Established = "established",
        /// Connections closed without an error.
        ClosedClean = "closed_clean",
        /// Connections closed with an error.
        ClosedError = "closed_error",
        /// Queue pairs whose drain had to be forced.
        ForcedDrain = "forced_drain",
        /// Connection requests received.
        ConnReq = "connreq",
        /// Connection requests rejected, by any cause.
        ConnReqRejected = "connreq_rejected",
        /// Connection requests that were no legal CONNREQ.
        ConnReqBad = "connreq_bad",
        /// Connection requests from a port that is not privileged.
        ConnReqPort = "connreq_unprivileged_port",
        /// Connection requests with the NID of another node.
        ConnReqForged = "connreq_forged",
        /// Connection requests before the NI was ready.
        ConnReqEarly = "connreq_early",
        /// Connection requests that mean another incarnation, of us or of the requester.
        ConnReqStale = "connreq_stale",
        /// Connection requests that crossed one of ours, which goes on.
        ConnReqRace = "connreq_race",
        /// Connection requests that came while too many accepted ones waited to be established.
        ConnReqPending = "connreq_pending",
        /// Connection requests for which there was no memory or no queue pair.
        ConnReqNoResources = "connreq_no_resources",
        /// Resources of a connection lowered because the device had too few.
        LimitsLowered = "limits_lowered",
        /// CM events that fit no object or no state.
        CmUnexpected = "cm_unexpected",
        /// Devices that went away under an NI.
        DeviceGone = "device_gone",
        /// Addresses that moved, as those of a bond do whose active leg fails.
        AddressMoved = "address_moved",
        /// Peers reported to LNet as down.
        NotifyDown = "notify_down",
        /// `lnd_recv` named a receive buffer that is not LNet's.
        BadRxToken = "bad_rx_token",
    }
}

impl Event {
    /// Counts one.
    pub(crate) fn count(self) {
        EVENTS[self as usize].add(1, Relaxed);
    }
}

counters! {
    /// Objects that exist now.
    pub(crate) enum Live in LIVE {
        /// NIs between startup and shutdown.
        Nis = "nis",
        /// Interface addresses that we listen on.
        Devs = "devs",
        /// Peers, from creation until the last reference goes.
        Peers = "peers",
        /// Connections, from creation until the last reference goes.
        Conns = "conns",
        /// Connections that were accepted and are not established.
        Pending = "pending",
        /// Transmit descriptors, idle ones in pools included.
        Txs = "txs",
        /// Transmit descriptors in use.
        TxsBusy = "txs_busy",
    }
}

/// One counted live object: counts up when made and down when dropped.
pub(crate) struct Counted(Live);

impl Live {
    /// Counts one more; the result counts it down again.
    pub(crate) fn hold(self) -> Counted {
        LIVE[self as usize].add(1, Relaxed);
        Counted(self)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        LIVE[self.0 as usize].add(-1, Relaxed);
    }
}

/// How many messages of one type there were, and their length in bytes together.
struct Traffic {
    kind: MsgType,
    messages: Atomic<i64>,
    bytes: Atomic<i64>,
}

type ByType = [Traffic; MsgType::ALL.len()];

const fn no_traffic() -> ByType {
    let mut kinds = 0;
    let mut all = [const {
        Traffic {
            kind: MsgType::Noop,
            messages: Atomic::new(0),
            bytes: Atomic::new(0),
        }
    }; MsgType::ALL.len()];
    while kinds < all.len() {
        all[kinds].kind = MsgType::ALL[kinds];
        kinds += 1;
    }
    all
}

static SENT: ByType = no_traffic();
static RECEIVED: ByType = no_traffic();

fn count(counts: &ByType, kind: MsgType, bytes: u32) {
    if let Some(traffic) = counts.iter().find(|traffic| traffic.kind == kind) {
        traffic.messages.add(1, Relaxed);
        traffic.bytes.add(i64::from(bytes), Relaxed);
    }
}

/// Counts a message of `bytes` bytes that was sent.
pub(crate) fn sent(kind: MsgType, bytes: u32) {
    count(&SENT, kind, bytes);
}

/// Counts a message of `bytes` bytes that was received.
pub(crate) fn received(kind: MsgType, bytes: u32) {
    count(&RECEIVED, kind, bytes);
}

fn show_traffic(f: &mut fmt::Formatter<'_>, way: &str, counts: &ByType) -> fmt::Result {
    for traffic in counts {
        let (messages, bytes) = (traffic.messages.load(Relaxed), traffic.bytes.load(Relaxed));
        writeln!(f, "{way} {} {messages} {bytes}", traffic.kind.name())?;
    }
    Ok(())
}

/// Writes everything, a line for each: what it is, its name, its value or values.
pub(crate) fn show(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    show_traffic(f, "sent", &SENT)?;
    show_traffic(f, "received", &RECEIVED)?;
    for event in Event::ALL {
        writeln!(f, "counter {} {}", event.name(), event.get())?;
    }
    for live in Live::ALL {
        writeln!(f, "live {} {}", live.name(), live.get())?;
    }
    Ok(())
}

/// Logs at module unload what should not be there any more.
pub(crate) struct LeakCheck;

impl Drop for LeakCheck {
    fn drop(&mut self) {
        for live in Live::ALL {
            match live.get() {
                0 => {}
                left => pr_err!("{} {} are left\n", left, live.name()),
            }
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Messages: what LNet gives and takes back exactly once.

use super::ni::Ni;
use crate::ffi::{
    lnet as ffi, //
    types::Kiov,
};
use core::{
    mem::ManuallyDrop, //
    ptr::NonNull,
};
use kernel::{
    ffi::c_void, //
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        Arc,
    },
};

/// Messages that the driver holds.
static LIVE: Atomic<i64> = Atomic::new(0);
/// Messages that were dropped instead of finalized.
static LOST: Atomic<i64> = Atomic::new(0);

/// How many messages the driver holds now; any context.
pub(crate) fn live_messages() -> u64 {
    u64::try_from(LIVE.load(Relaxed)).unwrap_or(0)
}

/// How many messages were dropped without being finalized, each a bug of the driver; any context.
pub(crate) fn lost_messages() -> u64 {
    u64::try_from(LOST.load(Relaxed)).unwrap_or(0)
}

/// Receive slots that LNet holds.
static HELD: Atomic<i64> = Atomic::new(0);

/// How many receive slots LNet holds now; any context.
pub(crate) fn held_receives() -> u64 {
    u64::try_from(HELD.load(Relaxed)).unwrap_or(0)
}

/// LNet's health status of a message, by LNet's number (`enum lnet_msg_hstatus`): whom to blame
/// for its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Health(u32);

impl Health {
    /// Nobody is to blame.
    pub(crate) const OK: Self = Self(0);
    /// This node is, and the message is not to be resent.
    pub(crate) const LOCAL_ERROR: Self = Self(5);

    /// The status with LNet's number `raw`.
    pub(crate) const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }
}

/// A message of LNet's that the driver owns and must [`finalize`](Self::finalize).
///
/// Dropping it instead is a bug: it is counted ([`lost_messages`]) and ends with `EIO`, blamed on
/// this node, so that nothing above waits for ever.
///
/// # Invariants
///
/// `msg` is valid and ours to finalize. Until then the vectors of `source` and `sink` and their
/// pages stay.
pub(crate) struct Message {
    msg: NonNull<ffi::RawMsg>,
    source: ffi::RawKiov,
    sink: ffi::RawKiov,
    gpu: bool,
}

// SAFETY: LNet lets any thread finalize a message.
unsafe impl Send for Message {}
// SAFETY: What takes `&self` only reads what LNet does not change while the message is ours, and
// `lnet_send_error_simulation` and `lnet_create_reply_msg` do their own locking.
unsafe impl Sync for Message {}

impl Message {
    /// Takes a message over; `None` for NULL.
    ///
    /// # Safety
    ///
    /// LNet must have given `msg` to the driver, which owns it from here on; `source` and `sink`
    /// must be what LNet said about it, and `gpu`.
    pub(super) unsafe fn from_raw(
        msg: *mut ffi::RawMsg,
        source: ffi::RawKiov,
        sink: ffi::RawKiov,
        gpu: bool,
    ) -> Option<Self> {
        let msg = NonNull::new(msg)?;
        LIVE.add(1, Relaxed);
        // INVARIANT: By the contract of this function.
        Some(Message {
            msg,
            source,
            sink,
            gpu,
        })
    }

    /// Gives the message back to LNet as it was, without finalizing it.
    pub(super) fn give_back(self) {
        LIVE.add(-1, Relaxed);
        let _ = ManuallyDrop::new(self);
    }

    /// What is to be sent: the payload of a PUT or REPLY, or the reply to a GET that was passed to
    /// [`NiHandle::parse`](super::NiHandle::parse) with `rdma`. Empty for ACK and GET.
    pub(crate) fn source(&self) -> Kiov<'_> {
        // SAFETY: By the type invariant, and the borrow keeps the message from being finalized.
        unsafe { kiov(&self.source) }
    }

    /// Where received bytes go. For a GET to be sent: the whole memory descriptor, room for the
    /// reply. For a message received: the bytes that are wanted, at most what it carries.
    pub(crate) fn sink(&self) -> Kiov<'_> {
        // SAFETY: As in `source`.
        unsafe { kiov(&self.sink) }
    }

    /// Whether its memory is a GPU's. Then the pages in the vectors stand for it, and neither the
    /// CPU nor a device finds the data by them.
    pub(crate) fn is_gpu(&self) -> bool {
        self.gpu
    }

    /// Ends the message with `status` (0 or a negative errno) and returns it to LNet.
    ///
    /// The memory belongs to somebody else afterwards, so all DMA to and from it must be over or
    /// impossible. May call [`Lnd::send`](super::Lnd::send) for other messages on this stack.
    /// `health` counts for requests; [`Reply`]s end by [`Reply::finalize`].
    pub(crate) fn finalize(self, status: i32, health: Health) {
        let this = ManuallyDrop::new(self);
        this.end(status, health);
    }

    /// The common end.
    fn end(&self, status: i32, health: Health) {
        LIVE.add(-1, Relaxed);
        // SAFETY: By the type invariant; the callers do not use the message again.
        unsafe { ffi::finalize(self.msg.as_ptr(), status, health.0) };
    }

    /// Whether a fault rule of the administrator wants the sending of this message to fail, and
    /// with which health status. To be asked once, right before posting. Takes LNet's net lock, so
    /// no lock that is taken inside it may be held.
    pub(crate) fn simulated_failure(&self) -> Option<Health> {
        let mut health = Health::LOCAL_ERROR.0;
        // SAFETY: By the type invariant; `health` is writable.
        let fail = unsafe { ffi::simulate_error(self.msg.as_ptr(), &mut health) };
        fail.then(|| Health::from_raw(health))
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        LOST.add(1, Relaxed);
        crate::warn_ratelimited!("a message was dropped without being finalized\n");
        self.end(EIO.to_errno(), Health::LOCAL_ERROR);
    }
}

/// A [`Kiov`] of a vector in LNet's form.
///
/// # Safety
///
/// The vector and its pages must stay for `'a`.
unsafe fn kiov<'a>(k: &ffi::RawKiov) -> Kiov<'a> {
    // SAFETY: By the contract of this function.
    unsafe { Kiov::from_raw(ffi::kiov_entries(k), k.nr, k.offset, k.length) }
}

/// A message that LNet wants sent.
pub(crate) struct SendMsg {
    /// The message, with [`source`](Message::source) and [`sink`](Message::sink).
    pub(crate) msg: Message,
    /// LNet message type: 0 ACK, 1 PUT, 2 GET, 3 REPLY.
    pub(crate) kind: u32,
    /// NID of the next hop; never the wildcard.
    pub(crate) target: u64,
    /// Whether the next hop is a router.
    pub(crate) target_is_router: bool,
    /// Whether this node forwards the message.
    pub(crate) routing: bool,
    /// The LNet header in wire form.
    pub(crate) hdr: [u8; ffi::HDR_SIZE],
}

impl SendMsg {
    /// LNet's number of a GET.
    const GET: u32 = 2;

    /// The message as a GET of this node's own to the node that answers it; `None` for any other.
    pub(crate) fn as_get(&self) -> Option<Get<'_>> {
        let own = self.kind == Self::GET && !self.routing && !self.target_is_router;
        own.then_some(Get(&self.msg))
    }
}

/// A GET for which the driver may make the REPLY, because it transfers the data itself.
///
/// LNet stops the machine for one that this node forwards, or that goes to a router; so only
/// [`SendMsg::as_get`] makes this.
pub(crate) struct Get<'a>(&'a Message);

impl Get<'_> {
    /// Makes the REPLY that belongs to it; before it can leave. `None` when the memory descriptor
    /// is going away or there is no memory.
    pub(crate) fn create_reply(&self, ni: &Ni) -> Option<Reply> {
        // SAFETY: By the type invariants; the request is still ours, and of the kind that it has to
        // be.
        let reply = unsafe { ffi::create_reply(ni.as_raw(), self.0.msg.as_ptr()) };
        let nothing = ffi::RawKiov::default();
        // SAFETY: LNet has just made the reply for us; it fills the memory of the request.
        unsafe { Message::from_raw(reply, nothing, self.0.sink, self.0.gpu) }.map(Reply)
    }
}

/// A REPLY made by [`Get::create_reply`]. To be [finalized](Self::finalize), as any [`Message`].
pub(crate) struct Reply(Message);

impl Reply {
    /// Tells LNet how much arrived. Does not sleep and takes no lock.
    ///
    /// # Errors
    ///
    /// `EINVAL` when `len` exceeds the memory descriptor; LNet would stop the machine.
    pub(crate) fn set_len(&mut self, ni: &Ni, len: u32) -> Result {
        if len > self.0.sink.length {
            return Err(EINVAL);
        }
        // SAFETY: By the type invariants; LNet made the message as a reply.
        unsafe { ffi::set_reply_len(ni.as_raw(), self.0.msg.as_ptr(), len) };
        Ok(())
    }

    /// As [`Message::finalize`]; nobody is to blame for a reply.
    pub(crate) fn finalize(self, status: i32) {
        self.0.finalize(status, Health::OK);
    }
}

/// A message that the driver does not take. LNet finalizes it with the error.
pub(crate) struct Refused {
    /// Why.
    pub(crate) error: Error,
    /// The message, untouched.
    pub(crate) msg: Message,
}

/// LNet's answer to [`NiHandle::parse`](super::NiHandle::parse): what becomes of the message.
pub(crate) enum Received {
    /// LNet wants none of it, or answers a GET by itself. Release the buffer; answer a PUT_REQ or
    /// GET_REQ all the same.
    Discard,
    /// The message matched. For what was parsed without `rdma` and for a PUT_REQ: put the bytes
    /// that [`Message::sink`] wants there. For a GET_REQ: send [`Message::source`].
    Matched(Message),
}

/// The place that a receive slot of a connection has for its [`RxHandle`] while LNet holds it.
///
/// A connection has one per receive slot; LNet is given its address.
pub(crate) struct RxTag {
    /// Address of the `Arc` of the connection while LNet holds the slot, else 0.
    owner: Atomic<usize>,
    rx: u16,
}

impl RxTag {
    /// For receive slot `rx`.
    pub(crate) const fn new(rx: u16) -> Self {
        RxTag {
            owner: Atomic::new(0),
            rx,
        }
    }
}

/// A connection with receive slots that can be lent to LNet.
pub(crate) trait RxOwner: Send + Sync + Sized + 'static {
    /// The tag of receive slot `rx`, made by [`RxTag::new`] with that number.
    fn rx_tag(&self, rx: u16) -> Option<&RxTag>;
}

/// A receive slot of a connection together with a reference on the connection: what LNet holds
/// between [`NiHandle::parse`](super::NiHandle::parse) and [`Lnd::recv`](super::Lnd::recv).
pub(crate) struct RxHandle<C> {
    /// The connection.
    pub(crate) conn: Arc<C>,
    /// The slot.
    pub(crate) rx: u16,
}

impl<C: RxOwner> RxHandle<C> {
    /// Turns the handle into what LNet can hold; gives it back when the slot is lent already.
    ///
    /// No memory is needed: the address of the tag stands for the handle, and the tag holds the
    /// reference on the connection.
    pub(super) fn into_raw(self) -> Result<NonNull<c_void>, Self> {
        let addr = Arc::as_ptr(&self.conn).expose_provenance();
        let lent = match self.conn.rx_tag(self.rx) {
            Some(tag) if tag.owner.cmpxchg(0, addr, Full).is_ok() => NonNull::from(tag).cast(),
            _ => return Err(self),
        };
        let _ = Arc::into_raw(self.conn);
        HELD.add(1, Relaxed);
        Ok(lent)
    }

    /// The reverse of [`into_raw`](Self::into_raw).
    ///
    /// # Safety
    ///
    /// `raw` must come from `into_raw` of the same `C`, and must not be used again.
    pub(super) unsafe fn from_raw(raw: NonNull<c_void>) -> Self {
        // SAFETY: The tag is borrowed from the connection, of which `into_raw` left a reference
        // behind, so it is still there.
        let tag = unsafe { raw.cast::<RxTag>().as_ref() };
        let rx = tag.rx;
        let owner = core::ptr::with_exposed_provenance::<C>(tag.owner.xchg(0, Full));
        // SAFETY: `into_raw` stored the address of an `Arc` that it then forgot, and as the tag
        // was taken nobody has overwritten it.
        let conn = unsafe { Arc::from_raw(owner) };
        HELD.add(-1, Relaxed);
        RxHandle { conn, rx }
    }
}

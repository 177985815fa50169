// SPDX-License-Identifier: GPL-2.0

//! Completion queues.

use super::{
    Device,
    DeviceId, //
};
use crate::{
    ffi::verbs,
    kx::{
        Entry,
        RunQueue, //
    },
};
use core::{
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    error::from_err_ptr,
    ffi::c_void,
    prelude::*,
    sync::{
        atomic::{
            AtomicFlag,
            Full, //
        },
        Arc,
        ArcBorrow, //
    },
};

/// What a completion handler kicks, and a scheduler gets from its queue; see [`CqData`].
pub(crate) type CqNotify<T> = Entry<CqData<T>>;

/// The queue of a scheduler: the [`CqNotify`]s whose CQs may have completions.
pub(crate) type CqQueue<T> = RunQueue<CqData<T>>;

/// The data of a [`CqNotify`]: the owner's `T`, to which it dereferences, and what the
/// asynchronous handlers of CQ and QP noted.
///
/// It lives until `ib_destroy_cq()` has returned and no queue holds it. The owner's data must
/// not hold the [`Cq`] or the [`Qp`](super::Qp) for ever: that would be a cycle, which
/// teardown of the connection has to break.
pub(crate) struct CqData<T> {
    cq_error: AtomicFlag,
    qp_error: AtomicFlag,
    peer_error: AtomicFlag,
    comm_est: AtomicFlag,
    owner: T,
}

impl<T> Deref for CqData<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.owner
    }
}

/// What [`CqData::take_events`] returns: what was noted since the last call.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct CqEvents {
    /// The CQ failed (overrun): nothing more can be expected from it.
    pub(crate) cq_error: bool,
    /// The QP failed without a completion that says so.
    pub(crate) qp_error: bool,
    /// It failed because the peer sent a request that is malformed or has no right to the memory.
    pub(crate) peer_error: bool,
    /// A message arrived before the CM said that the connection is established.
    pub(crate) comm_est: bool,
}

impl<T> CqData<T> {
    /// Takes what the asynchronous handlers noted. Any context.
    pub(crate) fn take_events(&self) -> CqEvents {
        CqEvents {
            cq_error: self.cq_error.xchg(false, Full),
            qp_error: self.qp_error.xchg(false, Full),
            peer_error: self.peer_error.xchg(false, Full),
            comm_est: self.comm_est.xchg(false, Full),
        }
    }
}

/// A completion queue (`ib_create_cq()`).
///
/// # Invariants
///
/// `raw` is a CQ on `dev` whose context is `notify`; QPs that use it hold a reference to `self`.
pub(crate) struct Cq<T: Send + Sync + 'static> {
    raw: NonNull<verbs::IbCq>,
    notify: Arc<CqNotify<T>>,
    /// Lives longer than the CQ.
    dev: Arc<Device>,
}

// SAFETY: A CQ may be used from any thread.
unsafe impl<T: Send + Sync> Send for Cq<T> {}

// SAFETY: As above; the provider does its own locking.
unsafe impl<T: Send + Sync> Sync for Cq<T> {}

impl<T: Send + Sync + 'static> Cq<T> {
    /// Creates a CQ of `cqe` entries whose completions interrupt `vector` (taken modulo the
    /// device's number of vectors). It is not armed. Sleeps.
    ///
    /// Its [`CqNotify`] is kicked on to `queue` when a completion comes after [`Cq::arm`], and for
    /// asynchronous events.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EINVAL` when `cqe` is more than the device allows, and what the provider
    /// returns.
    pub(crate) fn new(
        dev: &Arc<Device>,
        queue: &Arc<CqQueue<T>>,
        owner: T,
        cqe: u32,
        vector: u32,
    ) -> Result<Arc<Self>> {
        let data = CqData {
            cq_error: AtomicFlag::new(false),
            qp_error: AtomicFlag::new(false),
            peer_error: AtomicFlag::new(false),
            comm_est: AtomicFlag::new(false),
            owner,
        };
        let notify = Entry::new(queue, data)?;
        let vector = vector % dev.caps().comp_vectors.max(1);
        // SAFETY: The device is registered. The context, a `CqNotify<T>`, outlives the CQ: `drop`
        // destroys that before it lets the reference go.
        let raw = from_err_ptr(unsafe {
            verbs::cq_create(
                dev.as_raw(),
                Some(completed::<T>),
                Some(cq_event::<T>),
                Arc::as_ptr(&notify).cast_mut().cast::<c_void>(),
                cqe,
                vector,
            )
        })?;
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;
        // INVARIANT: `raw` was created above; if this fails, `drop` destroys it.
        Ok(Arc::new(
            Self {
                raw,
                notify,
                dev: dev.clone(),
            },
            GFP_KERNEL,
        )?)
    }

    /// The CQ as C knows it.
    pub(super) fn as_raw(&self) -> *mut verbs::IbCq {
        self.raw.as_ptr()
    }

    /// The device that it is on.
    pub(super) fn device_id(&self) -> DeviceId {
        self.dev.id()
    }

    /// What is kicked on to the queue for this CQ.
    pub(crate) fn notify(&self) -> &Arc<CqNotify<T>> {
        &self.notify
    }

    /// Takes completions, oldest first, up to the size of `batch`. Does not sleep.
    ///
    /// One thread at a time, or the order is lost.
    ///
    /// # Errors
    ///
    /// What the provider returns; the connection is then to be given up.
    pub(crate) fn poll<'a>(&self, batch: &'a mut WcBatch) -> Result<&'a [Wc]> {
        // SAFETY: By the type invariant.
        let n = unsafe { verbs::cq_poll(self.as_raw(), &mut batch.0) };
        let n = usize::try_from(n).map_err(|_| Error::from_errno(n))?;
        // SAFETY: `Wc` is transparent over the elements of the array.
        let wcs: &[Wc] = unsafe { &*(core::ptr::from_ref::<[verbs::Wc]>(&batch.0) as *const [Wc]) };
        Ok(wcs.get(..n).unwrap_or(wcs))
    }

    /// Asks for a kick at the next completion. Does not sleep.
    ///
    /// Returns true when completions may have come before that: poll again, and arm again when
    /// that finds none.
    ///
    /// # Errors
    ///
    /// What the provider returns; the connection is then to be given up.
    pub(crate) fn arm(&self) -> Result<bool> {
        // SAFETY: By the type invariant.
        let rc = unsafe { verbs::cq_arm(self.as_raw()) };
        if rc < 0 {
            return Err(Error::from_errno(rc));
        }
        Ok(rc > 0)
    }
}

impl<T: Send + Sync + 'static> Drop for Cq<T> {
    /// Sleeps until no handler runs.
    fn drop(&mut self) {
        // SAFETY: By the type invariant no QP uses the CQ any more.
        unsafe { verbs::cq_destroy(self.as_raw()) }
    }
}

/// Room for the completions of one [`Cq::poll`]. 1 KiB: not for the stack of a deep call chain.
pub(crate) struct WcBatch([verbs::Wc; Self::SIZE]);

impl WcBatch {
    /// Completions that fit, as in the core's own poll loops.
    pub(crate) const SIZE: usize = 16;

    /// An empty batch.
    pub(crate) fn new() -> Self {
        Self([verbs::Wc::empty(); Self::SIZE])
    }
}

// SAFETY: A completion is plain data; the pointers in it are not followed.
unsafe impl Send for WcBatch {}

/// A completion.
#[repr(transparent)]
pub(crate) struct Wc(verbs::Wc);

impl Wc {
    /// The number that was given to the work request; always valid.
    pub(crate) fn wr_id(&self) -> u64 {
        self.0.wr_id()
    }

    /// How it ended, an `enum ib_wc_status`; always valid. 0: it was carried out. 5: it was not,
    /// because the QP had failed or was moved to the error state.
    pub(crate) fn status(&self) -> u32 {
        self.0.status()
    }

    /// The status in words.
    pub(crate) fn status_text(&self) -> &'static CStr {
        verbs::wc_status_text(self.0.status())
    }

    /// The vendor's own code for an error.
    pub(crate) fn vendor_err(&self) -> u32 {
        self.0.vendor_err()
    }

    /// Whether the sender had a key of ours invalidated (SEND_WITH_INV). Valid for a receive that
    /// succeeded.
    pub(crate) fn is_invalidating(&self) -> bool {
        self.0.is_invalidating()
    }

    /// Bytes received. Valid for a receive that succeeded.
    pub(crate) fn byte_len(&self) -> u32 {
        self.0.byte_len()
    }
}

/// Called by the provider, possibly in hard interrupt context and under its locks.
///
/// # Safety
///
/// `ctx` points to a `CqNotify<T>` owned by an `Arc`.
unsafe extern "C" fn completed<T: Send + Sync>(_cq: *mut verbs::IbCq, ctx: *mut c_void) {
    // SAFETY: By the contract of this function; the CQ's reference outlives the call.
    Entry::kick(unsafe { ArcBorrow::from_raw(ctx.cast::<CqNotify<T>>().cast_const()) });
}

/// As [`completed`], for the failure of the CQ.
///
/// # Safety
///
/// As for [`completed`].
unsafe extern "C" fn cq_event<T: Send + Sync>(_event: *mut verbs::IbEvent, ctx: *mut c_void) {
    // SAFETY: By the contract of this function; the CQ's reference outlives the call.
    let notify = unsafe { ArcBorrow::from_raw(ctx.cast::<CqNotify<T>>().cast_const()) };
    notify.cq_error.xchg(true, Full);
    Entry::kick(notify);
}

/// Called by the core for events of a QP on this CQ; possibly in hard interrupt context.
///
/// # Safety
///
/// As for [`completed`]; `event` is valid.
pub(super) unsafe extern "C" fn qp_event<T: Send + Sync>(
    event: *mut verbs::IbEvent,
    ctx: *mut c_void,
) {
    // SAFETY: By the contract of this function; the QP's reference to the CQ outlives the call.
    let notify = unsafe { ArcBorrow::from_raw(ctx.cast::<CqNotify<T>>().cast_const()) };
    // SAFETY: By the contract of this function.
    match unsafe { verbs::event_kind(event) } {
        verbs::ib_event::COMM_EST => notify.comm_est.xchg(true, Full),
        verbs::ib_event::QP_FATAL => notify.qp_error.xchg(true, Full),
        verbs::ib_event::QP_REQ_ERR | verbs::ib_event::QP_ACCESS_ERR => {
            notify.peer_error.xchg(true, Full)
        }
        _ => return,
    };
    Entry::kick(notify);
}

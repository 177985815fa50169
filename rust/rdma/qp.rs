// SPDX-License-Identifier: GPL-2.0

//! Queue pairs.
//!
//! ```text
//!   CmId::create_qp() --> Qp<T, Live> -- into_error() --> Qp<T, Failed> --> dropped
//! ```
//!
//! A connection keeps its QP under its lock. To shut it down, the owner takes the `Qp<T, Live>` out
//! (from then on nothing can be posted, by construction), moves it to the error state outside the
//! lock, puts the `Qp<T, Failed>` in its place and posts the two sentinels, behind which
//! nothing can complete. When both have come back, the QP is drained and can be dropped.

use super::{
    cm::IdRef,
    cq,
    Cq,
    Pd,
    PdId,
    RecvChain,
    SendChain, //
};
use crate::ffi::verbs;
use core::{
    marker::PhantomData,
    ptr::{
        self,
        NonNull, //
    }, //
};
use kernel::{
    error::to_result,
    ffi::c_void,
    prelude::*,
    sync::Arc, //
};

pub(crate) use crate::ffi::verbs::QpCaps;

/// The CM moves the QP through its states; receives and, once the connection is established,
/// sends can be posted.
pub(crate) struct Live(());

/// The QP is in the error state: everything posted completes as flushed.
pub(crate) struct Failed(());

/// A reliable-connection QP that belongs to a CM id, with one CQ for both directions.
///
/// # Invariants
///
/// `raw` is the QP of the CM id; it uses the CQ and is in the PD that `parts` holds. In state
/// [`Failed`] it was moved to the error state.
pub(crate) struct Qp<T: Send + Sync + 'static, S = Live> {
    parts: Parts<T>,
    _state: PhantomData<S>,
}

/// Fields drop in this order, after the QP is destroyed.
struct Parts<T: Send + Sync + 'static> {
    raw: NonNull<verbs::IbQp>,
    granted: QpCaps,
    cq: Arc<Cq<T>>,
    /// The id of `_pd`, to be compared without following it.
    pd: PdId,
    _pd: Arc<Pd>,
    id: IdRef,
}

// SAFETY: A QP may be used from any thread.
unsafe impl<T: Send + Sync> Send for Parts<T> {}

// SAFETY: As above; the provider does its own locking.
unsafe impl<T: Send + Sync> Sync for Parts<T> {}

impl<T: Send + Sync + 'static> Drop for Parts<T> {
    /// Sleeps. Work requests that have not completed never will.
    fn drop(&mut self) {
        // SAFETY: By the invariant of `Qp`, the id is alive and has the QP.
        // As it is the only QP that the id was given, it is this one.
        unsafe { verbs::qp_destroy(self.id.as_raw()) };
        self.id.release_qp();
    }
}

/// What a refused post came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PostError {
    /// The provider's error.
    pub(crate) error: Error,
    /// How many requests, from the head of the chain, the device took nevertheless. They
    /// complete.
    pub(crate) accepted: u32,
}

impl PostError {
    /// The device has seen nothing.
    const fn unseen(error: Error) -> Self {
        Self { error, accepted: 0 }
    }
}

impl<T: Send + Sync + 'static> Qp<T, Live> {
    /// See [`CmId::create_qp`](super::CmId::create_qp).
    pub(super) fn create(
        id: IdRef,
        pd: &Arc<Pd>,
        cq: &Arc<Cq<T>>,
        mut caps: QpCaps,
    ) -> Result<Self> {
        if cq.device_id() != pd.device().id() {
            return Err(EINVAL);
        }
        if !id.claim_qp() {
            return Err(EBUSY);
        }
        let ctx = Arc::as_ptr(cq.notify()).cast_mut().cast::<c_void>();
        // SAFETY: Id, PD and CQ are alive and are kept so by the QP; so is the context, the CQ's.
        // The device of PD and CQ is one, and the CM compares it with the id's. The id has no QP,
        // and gets none meanwhile.
        let created = to_result(unsafe {
            verbs::qp_create(
                id.as_raw(),
                pd.as_raw(),
                cq.as_raw(),
                Some(cq::qp_event::<T>),
                ctx,
                &mut caps,
            )
        });
        // SAFETY: The id is alive.
        let raw = NonNull::new(unsafe { verbs::qp_of(id.as_raw()) });
        let raw = match (created, raw) {
            (Ok(()), Some(raw)) => raw,
            (failed, _) => {
                id.release_qp();
                return Err(failed.err().unwrap_or(EINVAL));
            }
        };
        // INVARIANT: Created above.
        Ok(Self {
            parts: Parts {
                raw,
                granted: caps,
                cq: cq.clone(),
                pd: pd.id(),
                _pd: pd.clone(),
                id,
            },
            _state: PhantomData,
        })
    }

    /// Posts the chain with one call and empties it. Does not sleep: may be called under a
    /// spinlock.
    ///
    /// # Errors
    ///
    /// [`PostError`]; the chain is empty then, too. The connection is to be given up. `EXDEV`: the
    /// chain is for another PD.
    ///
    /// # Safety
    ///
    /// Every piece of the chain's requests lies within memory that is mapped on the device of the
    /// QP's PD, and stays so until the request has completed or `self` was dropped. One thread at a
    /// time, where the order matters.
    pub(crate) unsafe fn post_send(
        &self,
        chain: &mut SendChain,
    ) -> core::result::Result<(), PostError> {
        // SAFETY: By the contract of this function.
        unsafe { self.parts.post_send(chain) }
    }

    /// As [`post_send`](Self::post_send), for receives.
    ///
    /// # Errors
    ///
    /// As for [`post_send`](Self::post_send).
    ///
    /// # Safety
    ///
    /// As for [`post_send`](Self::post_send).
    pub(crate) unsafe fn post_recv(
        &self,
        chain: &mut RecvChain,
    ) -> core::result::Result<(), PostError> {
        // SAFETY: By the contract of this function.
        unsafe { self.parts.post_recv(chain) }
    }

    /// Moves the QP to the error state. Sleeps: take it out of its lock first.
    ///
    /// # Errors
    ///
    /// With the QP: what the provider returns. Dropping the QP is then the way to end what is
    /// posted.
    pub(crate) fn into_error(self) -> core::result::Result<Qp<T, Failed>, (Error, Self)> {
        // SAFETY: By the type invariant.
        let rc = unsafe { verbs::qp_to_error(self.parts.raw.as_ptr()) };
        if rc < 0 {
            return Err((Error::from_errno(rc), self));
        }
        // INVARIANT: Done above.
        Ok(Qp {
            parts: self.parts,
            _state: PhantomData,
        })
    }
}

impl<T: Send + Sync + 'static> Qp<T, Failed> {
    /// Posts a send that the QP flushes, behind all others. Does not sleep.
    ///
    /// `chain` is for the request; it is emptied.
    ///
    /// # Errors
    ///
    /// [`PostError`]: then only dropping the QP ends what is posted.
    pub(crate) fn post_sentinel_sq(
        &self,
        chain: &mut SendChain,
        wr_id: u64,
    ) -> core::result::Result<(), PostError> {
        chain.clear();
        // What ib_drain_sq() posts, too: a WRITE of nothing.
        chain
            .write_nothing(wr_id)
            .map_err(|e| PostError::unseen(e.into()))?;
        // SAFETY: The request has no pieces.
        unsafe { self.parts.post_send(chain) }
    }

    /// Posts a receive that the QP flushes, behind all others. Does not sleep.
    ///
    /// # Errors
    ///
    /// As for [`post_sentinel_sq`](Self::post_sentinel_sq).
    pub(crate) fn post_sentinel_rq(&self, wr_id: u64) -> core::result::Result<(), PostError> {
        let mut wr = verbs::RecvWr::new(wr_id, ptr::null_mut(), 0);
        // SAFETY: The QP is alive; the request has no pieces.
        let (rc, accepted) = unsafe { verbs::post_recv(self.parts.raw.as_ptr(), &mut wr) };
        outcome(rc, accepted)
    }
}

impl<T: Send + Sync + 'static, S> Qp<T, S> {
    /// What the device granted, which can be more than was asked for.
    pub(crate) fn caps(&self) -> &QpCaps {
        &self.parts.granted
    }

    /// Its number.
    pub(crate) fn number(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { verbs::qp_num(self.parts.raw.as_ptr()) }
    }

    /// Its CQ.
    pub(crate) fn cq(&self) -> &Arc<Cq<T>> {
        &self.parts.cq
    }
}

impl<T: Send + Sync + 'static> Parts<T> {
    /// # Safety
    ///
    /// As for [`Qp::post_send`].
    unsafe fn post_send(&self, chain: &mut SendChain) -> core::result::Result<(), PostError> {
        if chain.pd() != self.pd {
            chain.clear();
            return Err(PostError::unseen(EXDEV));
        }
        let Some(wr) = chain.head() else {
            return Ok(());
        };
        // SAFETY: The QP is alive; the chain's requests are linked, name its key, its regions and
        // memory of its device; the rest is by contract.
        let (rc, accepted) = unsafe { verbs::post_send(self.raw.as_ptr(), wr) };
        chain.clear();
        outcome(rc, accepted)
    }

    /// # Safety
    ///
    /// As for [`Qp::post_send`].
    unsafe fn post_recv(&self, chain: &mut RecvChain) -> core::result::Result<(), PostError> {
        if chain.pd() != self.pd {
            chain.clear();
            return Err(PostError::unseen(EXDEV));
        }
        let Some(wr) = chain.head() else {
            return Ok(());
        };
        // SAFETY: The QP is alive; the chain's requests are linked; the rest is by contract.
        let (rc, accepted) = unsafe { verbs::post_recv(self.raw.as_ptr(), wr) };
        chain.clear();
        outcome(rc, accepted)
    }
}

fn outcome(rc: i32, accepted: u32) -> core::result::Result<(), PostError> {
    if rc == 0 {
        return Ok(());
    }
    // Some providers return positive numbers.
    let error = Error::from_errno(if rc < 0 { rc } else { EINVAL.to_errno() });
    Err(PostError { error, accepted })
}

// SPDX-License-Identifier: GPL-2.0

//! Network interfaces of LNet (NIs): one NID each.

pub(super) mod params;

use super::{
    clock::now,
    device::Dev,
    stats::{
        Counted,
        Event,
        Live, //
    },
    tx::{
        Tx,
        TxPool, //
    }, //
};
use crate::{
    driver::{
        shell::Ended,
        tunables::{
            Pools,
            Resolved, //
        }, //
    },
    kx::{
        self,
        Cpt, //
    },
    lnet::{
        self,
        NiHandle, //
    },
    proto::{
        passive::NiInfo,
        Cause,
        Done,
        NiTunables, //
    },
    wire::Nid,
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        Arc,
        Mutex, //
    }, //
};

/// How long to wait between two log lines while an NI is being shut down, in nanoseconds.
const SHUTDOWN_LOG_NS: u64 = 5_000_000_000;

/// A descriptor whose memory a peer may still write, because its MR could not be deregistered, and
/// how its messages end once it could.
struct Stuck {
    tx: KBox<Tx>,
    status: i32,
    health: lnet::Health,
}

/// Counts what an NI waits for when it is shut down.
struct Holds {
    count: Atomic<i32>,
    /// Signalled by each that goes.
    gone: Arc<kx::Event>,
}

/// Keeps the shutdown of an NI waiting. Peers and connections have one.
pub(crate) struct Hold(Arc<Holds>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Full);
        self.0.gone.signal();
    }
}

/// An NI: what its peers and connections have in common. `C` is a connection.
pub(crate) struct Ni<C> {
    /// The interface address that it has.
    pub(crate) dev: Arc<Dev>,
    /// Its NID and incarnation, and the queue depth that it offers.
    info: NiInfo,
    /// Tunables as they were resolved at startup.
    resolved: Resolved,
    /// One per CPT of the machine; those of CPTs that the NI does not use stay empty.
    pools: KVec<Arc<TxPool>>,
    /// Until their MRs are deregistered. LNet waits for their messages, and so does the device.
    stuck: Pin<KBox<Mutex<KVVec<Stuck>>>>,
    /// Peers and connections that are left; [`Ni::wait_for_holds`] waits for 0.
    holds: Arc<Holds>,
    /// Set once, when the shutdown begins: connection requests are refused.
    shutting_down: Atomic<bool>,
    _live: Counted,
    /// Last, because LNet may free the NI when it is dropped.
    handle: NiHandle<C>,
}

impl<C> Ni<C> {
    /// An NI on `dev` that has `handle` and the tunables `resolved`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        dev: Arc<Dev>,
        resolved: Resolved,
        sizes: Pools,
        handle: NiHandle<C>,
    ) -> Result<Arc<Self>> {
        let info = NiInfo {
            nid: Nid(handle.nid()),
            stamp: crate::wire::Stamp(kx::realtime_us()),
            peer_credits: resolved.peer_credits(),
        };
        let mut pools = KVec::with_capacity(lnet::cpt_count() as usize, GFP_KERNEL)?;
        for cpt in 0..lnet::cpt_count() {
            pools.push(TxPool::new(Cpt(cpt), sizes.ntx)?, GFP_KERNEL)?;
        }
        for cpt in handle.cpts() {
            if let Some(pool) = pools.get(cpt.0 as usize) {
                pool.fill(&dev)?;
            }
        }
        let holds = Holds {
            count: Atomic::new(0),
            gone: kx::Event::new_arc()?,
        };
        let ni = Self {
            dev,
            info,
            resolved,
            pools,
            stuck: KBox::pin_init(new_mutex!(KVVec::new(), "ko2iblnd::Ni::stuck"), GFP_KERNEL)?,
            holds: Arc::new(holds, GFP_KERNEL)?,
            shutting_down: Atomic::new(false),
            _live: Live::Nis.hold(),
            handle,
        };
        Ok(Arc::new(ni, GFP_KERNEL)?)
    }

    /// The identity of the NI, and the queue depth that it offers.
    pub(crate) fn info(&self) -> NiInfo {
        self.info
    }

    /// LNet's side.
    pub(crate) fn handle(&self) -> &NiHandle<C> {
        &self.handle
    }

    /// Keeps the shutdown waiting until the result is dropped.
    pub(crate) fn hold(&self) -> Hold {
        self.holds.count.fetch_add(1, Full);
        Hold(self.holds.clone())
    }

    /// Whether the NI accepts connections.
    pub(crate) fn is_in_service(&self) -> bool {
        !self.shutting_down.load(Relaxed) && self.handle.is_active()
    }

    /// Tells LNet whether to avoid the NI. Sleeps (takes RTNL).
    pub(crate) fn update_usability(&self) {
        let usability = self.dev.usability();
        let fatal = usability.is_fatal();
        if self.handle.set_fatal(fatal) {
            if fatal {
                pr_warn!("{}: cannot be used: {}\n", self.info.nid, usability);
            } else {
                pr_info!("{}: can be used again\n", self.info.nid);
            }
            if self.handle.is_active() {
                lnet::mark_ping_buffer();
            }
        }
    }

    /// Drops what was made on a device that is going away.
    pub(crate) fn drain_pools(&self) {
        for pool in &self.pools {
            pool.drain();
        }
        self.retry_stuck();
    }

    /// The tunables in force now; connd hands what is live of them to peers and connections.
    pub(crate) fn tunables_now(&self) -> NiTunables {
        self.resolved
            .now(&params::live(self.handle.conns_per_peer()))
    }

    /// The CPT whose descriptors, MRs and scheduler threads serve the peer `nid`.
    pub(crate) fn cpt_of(&self, nid: Nid) -> Cpt {
        self.handle.cpt_of(nid.0)
    }

    /// A transmit descriptor for a message to `nid`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENETDOWN` when the device is gone.
    pub(crate) fn tx(&self, nid: Nid) -> Result<KBox<Tx>> {
        self.pool(nid)?.get(&self.dev)
    }

    /// A transmit descriptor to serve a request of `nid`.
    ///
    /// # Errors
    ///
    /// As of [`Ni::tx`]; `ENOMEM` also when too many requests are served at a time.
    pub(crate) fn tx_to_serve(&self, nid: Nid) -> Result<KBox<Tx>> {
        let tx = self.pool(nid)?.get_to_serve(&self.dev);
        tx.inspect_err(|e| {
            crate::warn_ratelimited!("{}: request cannot be served: {:?}\n", nid, e);
        })
    }

    fn pool(&self, nid: Nid) -> Result<&Arc<TxPool>> {
        let cpt = self.cpt_of(nid).0 as usize;
        let pool = self.pools.get(cpt).or_else(|| self.pools.first());
        pool.ok_or(ENOMEM)
    }

    /// Unmaps what a descriptor has mapped, and returns it to its pool.
    ///
    /// The memory may not be known to a device any more.
    pub(crate) fn release(&self, tx: KBox<Tx>) {
        if let Err((_, tx)) = TxPool::put(tx, Ended::Clean) {
            // No MR of its is exposed, so it does not come to this.
            core::mem::forget(tx);
        }
    }

    /// Finalizes the messages of `tx` with the status, health and reply length in `done`. `ended`
    /// decides whether its MR may be used again.
    /// Calls LNet, so no lock may be held.
    pub(crate) fn finish(&self, tx: KBox<Tx>, done: Done, ended: Ended) {
        let mut tx = tx;
        let mut done = done;
        if let (Some(reply), Some(len)) = (tx.reply.as_mut(), done.reply_len) {
            if reply.set_len(&self.handle, len).is_err() {
                done.status = Cause::BadInput.errno();
            }
        }
        self.finish_with(
            tx,
            done.status,
            lnet::Health::from_raw(done.health as u32),
            ended,
        );
    }

    /// Ends the messages of `tx` with `status` and `health`.
    pub(crate) fn finish_with(
        &self,
        tx: KBox<Tx>,
        status: i32,
        health: lnet::Health,
        ended: Ended,
    ) {
        match status {
            0 => Event::TxDone.count(),
            _ => Event::TxFailed.count(),
        }
        self.end(Stuck { tx, status, health }, ended);
    }

    /// Gives the messages of a descriptor back to LNet, when nobody can write their memory any
    /// more.
    fn end(&self, ending: Stuck, ended: Ended) {
        let Stuck {
            mut tx,
            status,
            health,
        } = ending;
        let (msg, reply) = (tx.msg.take(), tx.reply.take());
        // First, so that a message that LNet sends next finds a descriptor.
        if let Err((e, mut tx)) = TxPool::put(tx, ended) {
            (tx.msg, tx.reply) = (msg, reply);
            return self.keep_stuck(Stuck { tx, status, health }, e);
        }
        if let Some(msg) = msg {
            msg.finalize(status, health);
        }
        if let Some(reply) = reply {
            reply.finalize(status);
        }
    }

    /// Keeps a descriptor whose MR the device does not deregister. May sleep.
    fn keep_stuck(&self, stuck: Stuck, error: Error) {
        Event::DeregFailed.count();
        crate::warn_ratelimited!(
            "{}: {} cannot deregister memory: {:?}; its message is kept, and it is tried again\n",
            self.info.nid,
            self.dev.name(),
            error
        );
        let mut kept = self.stuck.lock();
        if kept.reserve(1, GFP_KERNEL).is_err() {
            // Its memory must stay as it is, so it is lost.
            return core::mem::forget(stuck);
        }
        if let Err(stuck) = kept.push_within_capacity(stuck) {
            core::mem::forget(stuck);
        }
    }

    /// Tries again to deregister what could not be. Sleeps, and calls LNet.
    pub(crate) fn retry_stuck(&self) {
        let stuck = core::mem::take(&mut *self.stuck.lock());
        for one in stuck {
            self.end(one, Ended::Drained);
        }
    }

    /// Accepts no more connections.
    pub(crate) fn leave_service(&self) {
        self.shutting_down.store(true, Relaxed);
    }

    /// Waits until everything that has a [`Hold`] has gone. Sleeps.
    pub(crate) fn wait_for_holds(&self) {
        let mut log_at = kx::monotonic_ns().saturating_add(SHUTDOWN_LOG_NS);
        loop {
            let left = self.holds.count.load(Relaxed);
            if left <= 0 {
                return;
            }
            self.holds.gone.wait_timeout(1_000_000_000);
            if kx::monotonic_ns() >= log_at {
                log_at = kx::monotonic_ns().saturating_add(SHUTDOWN_LOG_NS);
                pr_info!(
                    "{}: waiting for {} peers and connections\n",
                    self.info.nid,
                    left
                );
            }
        }
    }

    /// Tells LNet that a peer is down.
    pub(crate) fn notify_down(&self, nid: Nid, alive: crate::proto::Instant) {
        Event::NotifyDown.count();
        let ago = now().since(alive).as_secs();
        let ago = i64::try_from(ago).unwrap_or(i64::MAX);
        let when = kx::monotonic_secs().saturating_sub(ago).max(0);
        self.handle.notify_down(nid.0, when);
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Peers, and the network of an NI that they are in.
//!
//! Lock order: a shard of the network, then a peer. Neither is held while a connection is locked,
//! and nothing sleeps or drops a reference under them.

mod network;

pub(crate) use network::Network;

use super::{
    clock::now,
    ni::{
        Hold,
        Ni, //
    },
    stats::{
        Counted,
        Live, //
    },
    storage::KernelStorage,
    tx::Tx, //
};
use crate::{
    proto::{
        peer::{
            Peer as Engine,
            PeerConfig, //
        },
        Cause,
        ConnId, //
    },
    wire::Nid, //
};
use kernel::{
    list::{
        impl_list_arc_safe,
        impl_list_item,
        AtomicTracker,
        ListLinks,
        TryNewListArc, //
    },
    new_spinlock,
    prelude::*,
    sync::{
        atomic::Atomic,
        Arc,
        SpinLock, //
    }, //
};

/// One (NI, NID) pair. `C` is a connection.
#[pin_data]
pub(crate) struct Peer<C> {
    /// Its NID.
    pub(crate) nid: Nid,
    /// The NI that reaches it.
    pub(crate) ni: Arc<Ni<C>>,
    /// Where it is found until it is retired or deleted.
    network: Arc<Network<C>>,
    #[pin]
    pub(crate) inner: SpinLock<PeerInner<C>>,
    /// How many of its connections were accepted and are not established. Written by connd alone.
    pub(super) pending: Atomic<u32>,
    #[pin]
    links: ListLinks<0>,
    #[pin]
    tracker: AtomicTracker<0>,
    _live: Counted,
    /// Dropped last: the NI waits for it.
    _hold: Hold,
}

/// What the lock of a [`Peer`] protects.
pub(crate) struct PeerInner<C> {
    pub(crate) engine: Engine<KernelStorage, KBox<Tx>>,
    /// Those of its connections that the engine has a name for, by that name, so that a message
    /// finds its connection under this lock alone. The capacity is that of the engine.
    conns: KVec<(ConnId, Arc<C>)>,
}

impl_list_arc_safe! {
    impl{C} ListArcSafe<0> for Peer<C> {
        tracked_by tracker: AtomicTracker<0>;
    }
}

impl_list_item! {
    impl{C} ListItem<0> for Peer<C> { using ListLinks { self.links }; }
}

impl<C> PeerInner<C> {
    /// The connection with this name.
    pub(crate) fn conn(&self, id: ConnId) -> Option<Arc<C>> {
        let mut conns = self.conns.iter();
        conns
            .find(|(name, _)| *name == id)
            .map(|(_, conn)| conn.clone())
    }

    /// All connections.
    pub(crate) fn conns(&self) -> impl ExactSizeIterator<Item = &Arc<C>> {
        self.conns.iter().map(|(_, conn)| conn)
    }

    /// Adds a connection. `false` when there are more than the engine can have.
    #[must_use]
    pub(crate) fn add_conn(&mut self, id: ConnId, conn: Arc<C>) -> bool {
        // The rejected reference is not the last one: the caller has another.
        self.conns.push_within_capacity((id, conn)).is_ok()
    }

    /// Forgets a connection; it comes back to be dropped without the lock.
    #[must_use]
    pub(crate) fn remove_conn(&mut self, id: ConnId) -> Option<Arc<C>> {
        let at = self.conns.iter().position(|(name, _)| *name == id)?;
        self.conns.remove(at).ok().map(|(_, conn)| conn)
    }
}

impl<C> Peer<C> {
    fn new(network: &Arc<Network<C>>, nid: Nid) -> Result<Arc<Self>> {
        let ni = network.ni.clone();
        let config = PeerConfig::new(nid, ni.info(), &ni.tunables_now());
        let conns = KVec::with_capacity(usize::from(config.max_conns), GFP_KERNEL)?;
        let engine = Engine::new(&mut KernelStorage, config, now())?;
        let hold = ni.hold();
        Arc::pin_init(
            pin_init!(Self {
                nid,
                ni,
                network: network.clone(),
                inner <- new_spinlock!(PeerInner { engine, conns }, "ko2iblnd::Peer"),
                pending: Atomic::new(0),
                links <- ListLinks::new(),
                tracker <- AtomicTracker::new(),
                _live: Live::Peers.hold(),
                _hold: hold,
            }),
            GFP_KERNEL,
        )
    }

    /// The network.
    pub(crate) fn network(&self) -> &Arc<Network<C>> {
        &self.network
    }

    /// Has connd run the engine's actions. Callable from any context that holds no spinlock.
    pub(crate) fn kick(self: &Arc<Self>) {
        self.network.work.push(self.clone());
    }

    /// Takes the peer out of its network, if it is in it.
    pub(crate) fn forget(&self) {
        let mut guard = self.network.shard(self.nid).lock();
        let removed = guard.remove(self);
        drop(guard);
        drop(removed);
    }

    /// Takes the peer out of its network if it has nothing left to do. `false` when it has.
    pub(crate) fn retire(&self) -> bool {
        let mut guard = self.network.shard(self.nid).lock();
        if !self.inner.lock().engine.retire() {
            return false;
        }
        let removed = guard.remove(self);
        drop(guard);
        drop(removed);
        true
    }

    /// Takes the peer out of service and out of its network: its messages end with `cause`.
    pub(crate) fn delete(self: &Arc<Self>, cause: Cause) {
        self.inner.lock().engine.delete(cause);
        self.forget();
        self.kick();
    }
}

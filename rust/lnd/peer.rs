// SPDX-License-Identifier: GPL-2.0

//! Peers and their table.
//!
//! Lock order: a shard of the table, then a peer. Neither is held while a connection is locked,
//! and nothing sleeps or drops a reference under them.

use super::{
    conn::Conn,
    ni::Ni,
    now,
    stats::{
        Counted,
        Event,
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
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    sync::{
        atomic::Atomic,
        Arc,
        SpinLock, //
    }, //
};

/// Shards of a table; a power of two.
const SHARDS: usize = 32;

/// One (NI, NID) pair.
#[pin_data]
pub(crate) struct Peer {
    pub(crate) nid: Nid,
    pub(crate) ni: Arc<Ni>,
    #[pin]
    pub(crate) inner: SpinLock<PeerInner>,
    /// Connections of it that were accepted and are not established. Only connd counts.
    pub(super) pending: Atomic<u32>,
    #[pin]
    links: ListLinks<0>,
    #[pin]
    tracker: AtomicTracker<0>,
    _live: Counted,
    /// Dropped last: the NI waits for it.
    _hold: super::ni::Hold,
}

/// What the lock of a [`Peer`] protects.
pub(crate) struct PeerInner {
    pub(crate) engine: Engine<KernelStorage, KBox<Tx>>,
    /// Its connections, until they are gone. The capacity is that of the engine.
    conns: KVec<Arc<Conn>>,
}

impl_list_arc_safe! {
    impl ListArcSafe<0> for Peer {
        tracked_by tracker: AtomicTracker<0>;
    }
}

impl_list_item! {
    impl ListItem<0> for Peer { using ListLinks { self.links }; }
}

impl PeerInner {
    /// The connection with this name.
    pub(crate) fn conn(&self, id: ConnId) -> Option<Arc<Conn>> {
        self.conns.iter().find(|conn| conn.id == id).cloned()
    }

    /// All connections.
    pub(crate) fn conns(&self) -> &[Arc<Conn>] {
        &self.conns
    }

    /// Adds a connection. `false` when there are more than the engine can have.
    #[must_use]
    pub(crate) fn add_conn(&mut self, conn: Arc<Conn>) -> bool {
        // The rejected reference is not the last one: the caller has another.
        self.conns.push_within_capacity(conn).is_ok()
    }

    /// Forgets a connection; it comes back to be dropped without the lock.
    #[must_use]
    pub(crate) fn remove_conn(&mut self, id: ConnId) -> Option<Arc<Conn>> {
        let at = self.conns.iter().position(|conn| conn.id == id)?;
        self.conns.remove(at).ok()
    }
}

impl Peer {
    fn new(ni: &Arc<Ni>, nid: Nid) -> Result<Arc<Self>> {
        let config = PeerConfig::new(nid, ni.info(), &ni.tunables_now());
        let conns = KVec::with_capacity(usize::from(config.max_conns), GFP_KERNEL)?;
        let engine = Engine::new(&mut KernelStorage, config, now())?;
        let hold = ni.hold();
        Arc::pin_init(
            pin_init!(Self {
                nid,
                ni: ni.clone(),
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

    /// Has connd look at what the engine wants done.
    pub(crate) fn kick(self: &Arc<Self>) {
        self.ni.driver.connd.push_peer(self.clone());
    }
}

/// Which shard a NID is in.
fn shard_of(nid: Nid) -> usize {
    let hash = nid.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    hash as usize % SHARDS
}

/// The peers of one NI by NID.
pub(crate) struct PeerTable {
    shards: Pin<KBox<[SpinLock<Shard>; SHARDS]>>,
}

#[derive(Default)]
struct Shard {
    peers: RBTree<u64, Arc<Peer>>,
    /// The NI is being shut down: no new peers.
    closed: bool,
}

impl PeerTable {
    /// An empty table.
    pub(crate) fn new() -> Result<Self> {
        let shards = pin_init::pin_init_array_from_fn(|_| {
            new_spinlock!(Shard::default(), "ko2iblnd::PeerTable")
        });
        Ok(Self {
            shards: KBox::pin_init(shards, GFP_KERNEL)?,
        })
    }

    fn shard(&self, nid: Nid) -> &SpinLock<Shard> {
        &self.shards[shard_of(nid)]
    }

    /// The peer with this NID.
    pub(crate) fn get(&self, nid: Nid) -> Option<Arc<Peer>> {
        self.shard(nid).lock().peers.get(&nid.0).cloned()
    }

    /// The peer with this NID, which is made if there is none.
    ///
    /// # Errors
    ///
    /// [`Cause::NoMemory`], and [`Cause::Deleted`] when the NI is being shut down.
    pub(crate) fn get_or_create(
        &self,
        ni: &Arc<Ni>,
        nid: Nid,
    ) -> core::result::Result<Arc<Peer>, Cause> {
        if let Some(peer) = self.get(nid) {
            return Ok(peer);
        }
        let made = Peer::new(ni, nid)
            .and_then(|peer| Ok((RBTreeNode::new(nid.0, peer.clone(), GFP_KERNEL)?, peer)));
        let Ok((node, peer)) = made else {
            Event::NoPeer.count();
            return Err(Cause::NoMemory);
        };
        let mut guard = self.shard(nid).lock();
        let found = guard.peers.get(&nid.0).cloned();
        let closed = guard.closed;
        if found.is_none() && !closed {
            let none = guard.peers.insert(node);
            drop(guard);
            drop(none);
            return Ok(peer);
        }
        drop(guard);
        drop(node);
        found.ok_or(Cause::Deleted)
    }

    /// Takes a peer out of the table, if it is in it.
    pub(crate) fn remove(&self, peer: &Arc<Peer>) {
        let mut guard = self.shard(peer.nid).lock();
        let removed = guard.remove(peer);
        drop(guard);
        drop(removed);
    }

    /// Takes a peer that has nothing left to do out of the table. `false` when it has.
    pub(crate) fn retire(&self, peer: &Arc<Peer>) -> bool {
        let mut guard = self.shard(peer.nid).lock();
        if !peer.inner.lock().engine.retire() {
            return false;
        }
        let removed = guard.remove(peer);
        drop(guard);
        drop(removed);
        true
    }

    /// The peer with the lowest NID above `after` in its shard order, to walk the table without
    /// holding a lock. Start with `None`.
    pub(crate) fn next(&self, after: Option<Nid>) -> Option<Arc<Peer>> {
        let (first, mut from) = match after {
            Some(nid) => (shard_of(nid), nid.0.checked_add(1)),
            None => (0, Some(0)),
        };
        for shard in self.shards.iter().skip(first) {
            if let Some(key) = from {
                let guard = shard.lock();
                if let Some(cursor) = guard.peers.cursor_lower_bound(&key) {
                    return Some(cursor.current().1.clone());
                }
            }
            from = Some(0);
        }
        None
    }

    /// All peers, see [`PeerTable::next`].
    pub(crate) fn iter(&self) -> impl Iterator<Item = Arc<Peer>> + '_ {
        let mut after = None;
        core::iter::from_fn(move || {
            let peer = self.next(after)?;
            after = Some(peer.nid);
            Some(peer)
        })
    }

    /// No new peers from here on.
    pub(crate) fn close(&self) {
        for shard in self.shards.iter() {
            shard.lock().closed = true;
        }
    }
}

impl Shard {
    fn remove(&mut self, peer: &Arc<Peer>) -> Option<RBTreeNode<u64, Arc<Peer>>> {
        let found = self.peers.get(&peer.nid.0)?;
        if Arc::ptr_eq(found, peer) {
            self.peers.remove_node(&peer.nid.0)
        } else {
            None
        }
    }
}

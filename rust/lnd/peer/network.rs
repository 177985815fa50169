// SPDX-License-Identifier: GPL-2.0

//! The peers of an NI.

use super::{
    super::{
        ni::Ni,
        stats::Event, //
    },
    Peer, //
};
use crate::{
    kx::WorkQueue,
    proto::Cause,
    wire::Nid, //
};
use kernel::{
    new_spinlock,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    sync::{
        Arc,
        SpinLock, //
    }, //
};

/// Shards of a network; a power of two.
const SHARDS: usize = 32;

/// Which shard a NID is in.
fn shard_of(nid: Nid) -> usize {
    let hash = nid.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    hash as usize % SHARDS
}

/// An NI and its peers by NID: this node's end of an LNet network.
pub(crate) struct Network<C> {
    pub(crate) ni: Arc<Ni<C>>,
    /// Peers whose engines want something done. Served by connd.
    pub(super) work: Arc<WorkQueue<Peer<C>>>,
    shards: Pin<KBox<[SpinLock<Shard<C>>; SHARDS]>>,
}

pub(super) struct Shard<C> {
    peers: RBTree<u64, Arc<Peer<C>>>,
    /// The NI is being shut down: no new peers.
    closed: bool,
}

impl<C> Network<C> {
    /// The network of `ni`, without peers. What its peers want done is put on `work`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(ni: Arc<Ni<C>>, work: Arc<WorkQueue<Peer<C>>>) -> Result<Arc<Self>> {
        let shards = pin_init::pin_init_array_from_fn(|_| {
            let shard = Shard {
                peers: RBTree::new(),
                closed: false,
            };
            new_spinlock!(shard, "ko2iblnd::Network")
        });
        let network = Self {
            ni,
            work,
            shards: KBox::pin_init(shards, GFP_KERNEL)?,
        };
        Ok(Arc::new(network, GFP_KERNEL)?)
    }

    pub(super) fn shard(&self, nid: Nid) -> &SpinLock<Shard<C>> {
        &self.shards[shard_of(nid)]
    }

    /// The peer with this NID.
    pub(crate) fn get(&self, nid: Nid) -> Option<Arc<Peer<C>>> {
        self.shard(nid).lock().peers.get(&nid.0).cloned()
    }

    /// The peer with this NID, which is made if there is none.
    ///
    /// # Errors
    ///
    /// [`Cause::NoMemory`], and [`Cause::Deleted`] when the NI is being shut down.
    pub(crate) fn get_or_create(
        self: &Arc<Self>,
        nid: Nid,
    ) -> core::result::Result<Arc<Peer<C>>, Cause> {
        if let Some(peer) = self.get(nid) {
            return Ok(peer);
        }
        let made = Peer::new(self, nid)
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

    /// The peer with the lowest NID above `after` in its shard order, to walk the table without
    /// holding a lock. Start with `None`.
    fn next(&self, after: Option<Nid>) -> Option<Arc<Peer<C>>> {
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

    /// All peers. No lock is held between them: of those that come or go meanwhile some are seen.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Arc<Peer<C>>> + '_ {
        let mut after = None;
        core::iter::from_fn(move || {
            let peer = self.next(after)?;
            after = Some(peer.nid);
            Some(peer)
        })
    }

    /// Drops what was made on a device that is going away, and takes all peers out of service.
    pub(crate) fn device_gone(&self) {
        self.ni.drain_pools();
        self.delete_peers(Cause::DeviceGone);
    }

    fn delete_peers(&self, cause: Cause) {
        for peer in self.iter() {
            peer.delete(cause);
        }
    }

    /// Ends all peers and connections, accepts no more, and waits until they have ended. Sleeps.
    pub(crate) fn shutdown(&self) {
        self.ni.leave_service();
        for shard in self.shards.iter() {
            shard.lock().closed = true;
        }
        self.delete_peers(Cause::Deleted);
        self.ni.wait_for_holds();
    }
}

impl<C> Shard<C> {
    pub(super) fn remove(&mut self, peer: &Peer<C>) -> Option<RBTreeNode<u64, Arc<Peer<C>>>> {
        let found = self.peers.get(&peer.nid.0)?;
        if core::ptr::eq(&**found, peer) {
            self.peers.remove_node(&peer.nid.0)
        } else {
            None
        }
    }
}

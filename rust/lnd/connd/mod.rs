// SPDX-License-Identifier: GPL-2.0

//! The connection daemon, `kiblnd_connd`: one thread that does everything about connections that
//! sleeps.
//!
//! It owns all CM ids but the listeners' (an [`Entry`] each), so nothing about them needs a lock.
//! What their events, the actions of peers and the requests of connections lead to, and in which
//! order, is decided in [`driver::connect`](crate::driver::connect); how it is done is in [`ids`]
//! and [`work`]. The thread also checks all deadlines once a second.

mod ids;
mod link;
mod work;

use self::link::Entry;
use super::{
    clock::now,
    conn::{
        Conn,
        Conns,
        Peer, //
    },
    device::Devices,
    networks::Networks,
    removal::Removal,
    traffic::{
        sched::Schedulers,
        shell::Kernel, //
    }, //
};
use crate::{
    driver::{
        connect::Work,
        sweep::{
            sweep_conn,
            sweep_peer, //
        }, //
    },
    kx::{
        self,
        Kthread,
        Node,
        NofsScope,
        ShouldStop,
        WorkQueue, //
    },
    rdma::CmEvents,
};
use kernel::{
    prelude::*,
    rbtree::RBTree,
    sync::Arc, //
};

/// CM events, connections and peers that are seen to before the others have their turn.
const BUDGET: usize = 64;

/// The interval between checks of deadlines, in nanoseconds.
const SWEEP_NS: u64 = 1_000_000_000;

/// What others give the daemon to do.
pub(crate) struct Connd {
    /// What the thread sleeps on.
    event: Arc<kx::Event>,
    /// Peers whose actions are to be run.
    peers: Arc<WorkQueue<Peer>>,
    /// Connections whose requests are to be served.
    conns: Arc<WorkQueue<Conn>>,
}

/// What the thread works on, together with others.
pub(crate) struct Shared {
    /// What is queued for the thread.
    pub(crate) connd: Connd,
    /// The threads to one of which a new connection is given.
    pub(crate) schedulers: Arc<Schedulers>,
    /// Devices that are there, and addresses that are listened on.
    pub(crate) devices: Arc<Devices>,
    /// The NIs that are up.
    pub(crate) networks: Arc<Networks>,
    /// All connections, from when one is made until its id is destroyed.
    pub(crate) conns: Arc<Conns>,
    /// Follows devices and addresses.
    pub(crate) removal: Arc<Removal>,
}

impl Connd {
    /// Nothing to do. The thread will sleep on `event`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(event: Arc<kx::Event>) -> Result<Self> {
        Ok(Self {
            peers: WorkQueue::new(event.clone())?,
            conns: WorkQueue::new(event.clone())?,
            event,
        })
    }

    /// Where peers are put whose actions are to be run.
    pub(crate) fn peers(&self) -> &Arc<WorkQueue<Peer>> {
        &self.peers
    }

    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or `EINTR` when the caller is being killed.
    pub(crate) fn start(shared: &Arc<Shared>) -> Result<Kthread> {
        let shared = shared.clone();
        Kthread::spawn(c"kiblnd_connd", Node(None), move |stop| {
            let _nofs = NofsScope::enter();
            Worker::new(&shared).run(stop);
        })
    }
}

/// The thread's own state.
struct Worker<'a> {
    shared: &'a Shared,
    kernel: Kernel,
    /// The ids by tag, and what belongs to them.
    links: RBTree<u64, Entry<'a>>,
    /// Dropped after the ids.
    events: CmEvents,
}

impl<'a> Worker<'a> {
    fn new(shared: &'a Shared) -> Self {
        Self {
            shared,
            kernel: Kernel,
            events: CmEvents::new(shared.devices.cm().clone()),
            links: RBTree::new(),
        }
    }

    fn run(&mut self, stop: &ShouldStop) {
        let mut sweep_at = kx::monotonic_ns().wrapping_add(SWEEP_NS);
        loop {
            let last = stop.requested();
            let mut idle = true;
            // Some of each, so that no flood of one keeps the others and the deadlines waiting.
            for _ in 0..BUDGET {
                let Some(event) = self.events.pop() else {
                    break;
                };
                idle = false;
                ids::work_of(event).run(self);
            }
            for _ in 0..BUDGET {
                let Some(conn) = self.shared.connd.conns.pop() else {
                    break;
                };
                idle = false;
                Work::Conn(conn).run(self);
            }
            for _ in 0..BUDGET {
                let Some(peer) = self.shared.connd.peers.pop() else {
                    break;
                };
                idle = false;
                Work::peer(peer).run(self);
            }
            kx::cond_resched();
            if last && idle {
                return;
            }
            if self.shared.removal.interfaces_changed() {
                self.shared.networks.update_usability();
            }
            let now = kx::monotonic_ns();
            if now >= sweep_at {
                sweep_at = now.wrapping_add(SWEEP_NS);
                self.sweep();
            } else if idle {
                let event = &self.shared.connd.event;
                event.wait_timeout(sweep_at.wrapping_sub(now));
            }
        }
    }

    /// Passes on tunables that were written, and checks all deadlines.
    fn sweep(&mut self) {
        for conn in self.shared.conns.iter() {
            let live = conn.peer.ni.tunables_now().live();
            conn.drive(|engine, now| sweep_conn(engine, live, now));
        }
        for network in self.shared.networks.iter() {
            let live = network.ni.tunables_now().live();
            for peer in network.iter() {
                let due = sweep_peer(&mut peer.inner.lock().engine, live, now());
                if due {
                    Work::peer(peer).run(self);
                }
            }
        }
        self.shared.removal.follow_addresses();
        self.shared.removal.attach_all();
    }
}

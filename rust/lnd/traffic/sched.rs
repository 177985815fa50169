// SPDX-License-Identifier: GPL-2.0

//! Scheduler threads: they poll completion queues and run what connections ask for.
//!
//! Each CPT that an NI uses has a few threads, `kiblnd_sd_<cpt>_<nn>`, bound to its CPUs. A
//! connection belongs to one thread for life. So it has one executor: its completions enter the
//! engine in order, and what LNet is called with for it never nests or overtakes.

use super::exec;
use crate::{
    driver::{
        placement,
        tunables, //
    },
    kx::{
        self,
        Cpt,
        Event,
        Kthread,
        NofsScope,
        ShouldStop, //
    },
    lnd::conn::{
        Conns,
        Queue, //
    },
    lnet,
    rdma::WcBatch, //
};
use kernel::{
    new_mutex,
    prelude::*,
    str::CString,
    sync::{
        Arc,
        Mutex, //
    }, //
};

struct Thread {
    cpt: Cpt,
    queue: Arc<Queue>,
    /// Stopped when dropped.
    _thread: Kthread,
}

struct Threads {
    threads: KVec<Thread>,
    /// Turns through the threads of a CPT.
    turn: usize,
}

/// The scheduler threads of all CPTs.
#[pin_data]
pub(crate) struct Schedulers {
    /// The connections that they serve.
    conns: Arc<Conns>,
    #[pin]
    threads: Mutex<Threads>,
}

impl Schedulers {
    /// No threads yet, to serve `conns`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(conns: Arc<Conns>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                conns,
                threads <- new_mutex!(
                    Threads {
                        threads: KVec::new(),
                        turn: 0,
                    },
                    "ko2iblnd::Schedulers"
                ),
            }),
            GFP_KERNEL,
        )
    }

    /// Sees to it that `cpt` has its threads; one more, up to the limit, when `more` and it has
    /// them. A CPT without CPUs gets none and borrows others'.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or `EINTR` when the caller is being killed. Threads made until then stay.
    pub(crate) fn start(&self, cpt: Cpt, more: bool) -> Result {
        let nscheds = lnet::Params::read().nscheds;
        let (limits, clamped) = tunables::schedulers(nscheds, lnet::cpt_weight(cpt));
        let mut guard = self.threads.lock();
        let have = guard.threads.iter().filter(|t| t.cpt == cpt).count() as u32;
        let want = limits.wanted(have, more);
        if let Some(clamped) = clamped.filter(|_| have == 0) {
            pr_info!("CPT {}: {}\n", cpt.0, clamped);
        }
        for nn in have..want {
            let thread = Thread::spawn(self.conns.clone(), cpt, nn)?;
            guard.threads.push(thread, GFP_KERNEL)?;
        }
        Ok(())
    }

    /// The queue for a new connection on `cpt`: its threads in turn, or any thread when it has
    /// none.
    pub(crate) fn queue(&self, cpt: Cpt) -> Option<Arc<Queue>> {
        let mut guard = self.threads.lock();
        guard.turn = guard.turn.wrapping_add(1);
        let mut own = guard.threads.iter().filter(|t| t.cpt == cpt);
        let thread = placement::thread(guard.turn, own.clone().count(), guard.threads.len());
        let thread = match thread? {
            placement::Thread::Own(at) => own.nth(at),
            placement::Thread::Any(at) => guard.threads.get(at),
        };
        thread.map(|thread| thread.queue.clone())
    }

    /// Stops all threads. They serve what is left on their queues before they end.
    pub(crate) fn stop(&self) {
        let threads = core::mem::take(&mut self.threads.lock().threads);
        drop(threads);
    }
}

impl Thread {
    fn spawn(conns: Arc<Conns>, cpt: Cpt, nn: u32) -> Result<Self> {
        let name = CString::try_from_fmt(fmt!("kiblnd_sd_{:02}_{:02}", cpt.0, nn))?;
        let queue = Queue::new(Event::new_arc()?)?;
        let served = queue.clone();
        let thread = Kthread::spawn(&name, lnet::cpt_node(cpt), move |stop| {
            serve(&conns, cpt, &served, stop);
        })?;
        Ok(Self {
            cpt,
            queue,
            _thread: thread,
        })
    }
}

/// What a scheduler thread does.
fn serve(conns: &Conns, cpt: Cpt, queue: &Queue, stop: &ShouldStop) {
    if let Err(e) = lnet::bind_to_cpt(cpt) {
        pr_warn!(
            "scheduler thread cannot be bound to CPT {}: {:?}\n",
            cpt.0,
            e
        );
    }
    let _nofs = NofsScope::enter();
    let mut batch = WcBatch::new();
    loop {
        let last = stop.requested();
        let mut idle = true;
        for entry in queue.take() {
            idle = false;
            if let Some(conn) = conns.get(***entry) {
                exec::run(&conn, &mut batch);
            }
            kx::cond_resched();
        }
        if last && idle {
            return;
        }
        if idle {
            queue.event().wait();
        }
    }
}

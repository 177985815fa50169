// SPDX-License-Identifier: GPL-2.0

//! Tests of [`kx`](crate::kx).

use super::{
    expect,
    Outcome,
    Test, //
};
use crate::kx::{
    self,
    Entry,
    Event,
    Kthread,
    Net,
    Node,
    RateLimit,
    RunQueue, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    }, //
};

pub(super) const TESTS: &[Test] = &[
    ("event_keeps_a_signal", event_keeps_a_signal),
    ("event_wakes_a_thread", event_wakes_a_thread),
    ("kthread_frees_what_never_ran", kthread_frees_what_never_ran),
    ("runqueue_holds_an_entry_once", runqueue_holds_an_entry_once),
    ("runqueue_keeps_the_order", runqueue_keeps_the_order),
    ("runqueue_lets_go_of_a_batch", runqueue_lets_go_of_a_batch),
    ("ratelimit_lets_ten_through", ratelimit_lets_ten_through),
    ("namespace_is_counted", namespace_is_counted),
    ("clocks_advance", clocks_advance),
    ("buffers_are_made_in_order", buffers_are_made_in_order),
];

const MS: u64 = 1_000_000;

fn event_keeps_a_signal() -> Outcome {
    let event = Event::new_arc()?;
    expect(!event.wait_timeout(MS), "signalled by nobody")?;
    event.signal();
    event.signal();
    expect(event.wait_timeout(MS), "a signal before the wait is lost")?;
    expect(!event.wait_timeout(MS), "two signals end two waits")
}

fn event_wakes_a_thread() -> Outcome {
    let (ping, pong) = (Event::new_arc()?, Event::new_arc()?);
    let (theirs, ours) = (ping.clone(), pong.clone());
    let thread = Kthread::spawn(c"kor_selftest", Node(None), move |stop| {
        while !stop.requested() {
            theirs.wait();
            ours.signal();
        }
    })?;
    ping.signal();
    expect(pong.wait_timeout(5000 * MS), "the thread did not answer")?;
    // Returns, although the thread sleeps.
    drop(thread);
    Ok(())
}

/// Counts what is dropped.
struct Counted(Arc<Atomic<i32>>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn kthread_frees_what_never_ran() -> Outcome {
    let dropped = Arc::new(Atomic::new(0), GFP_KERNEL)?;
    for _ in 0..50 {
        let held = Counted(dropped.clone());
        // Stopped at once: some have not run by then.
        drop(Kthread::spawn(c"kor_selftest", Node(None), move |_| {
            drop(held)
        })?);
    }
    expect(
        dropped.load(Relaxed) == 50,
        "closures that were not freed once",
    )
}

fn runqueue_holds_an_entry_once() -> Outcome {
    let event = Event::new_arc()?;
    let queue = RunQueue::new(event.clone())?;
    let entry = Entry::new(&queue, 7)?;
    Entry::kick(entry.as_arc_borrow());
    Entry::kick(entry.as_arc_borrow());
    expect(event.wait_timeout(MS), "a kick does not signal")?;
    expect(queue.take().count() == 1, "an entry is on its queue twice")?;
    Entry::kick(entry.as_arc_borrow());
    expect(
        queue.take().count() == 1,
        "an entry that was taken cannot be kicked",
    )
}

fn runqueue_keeps_the_order() -> Outcome {
    let queue = RunQueue::new(Event::new_arc()?)?;
    for n in 0..5 {
        Entry::kick(Entry::new(&queue, n)?.as_arc_borrow());
    }
    let in_order = queue.take().map(|entry| **entry).eq(0..5);
    expect(
        in_order,
        "entries come in another order than they were kicked in",
    )
}

fn runqueue_lets_go_of_a_batch() -> Outcome {
    let dropped = Arc::new(Atomic::new(0), GFP_KERNEL)?;
    let queue = RunQueue::new(Event::new_arc()?)?;
    for _ in 0..3 {
        let data = Counted(dropped.clone());
        Entry::kick(Entry::new(&queue, data)?.as_arc_borrow());
    }
    expect(
        dropped.load(Relaxed) == 0,
        "a queue does not hold its entries",
    )?;
    let mut batch = queue.take();
    drop(batch.next());
    expect(
        dropped.load(Relaxed) == 1,
        "an entry that was taken is still held",
    )?;
    drop(batch);
    expect(dropped.load(Relaxed) == 3, "a batch keeps entries")
}

fn ratelimit_lets_ten_through() -> Outcome {
    let limit = RateLimit::new();
    let passed = (0..50).filter(|_| limit.allow().is_some()).count();
    expect(passed == 10, "not ten lines in an interval")
}

fn namespace_is_counted() -> Outcome {
    let net = Net::of_current().ok_or(ENODEV)?;
    let other = net.clone();
    expect(net == other, "a copy is another namespace")?;
    drop(net);
    expect(!other.as_ptr().is_null(), "no namespace")
}

fn clocks_advance() -> Outcome {
    let (ns, secs) = (kx::monotonic_ns(), kx::monotonic_secs());
    Event::new_arc()?.wait_timeout(20 * MS);
    expect(kx::monotonic_ns() > ns, "the clock stands")?;
    let ahead = kx::monotonic_secs().wrapping_sub(secs);
    expect((0..60).contains(&ahead), "the seconds jump")?;
    expect(
        kx::realtime_us() > 1_600_000_000_000_000,
        "it is before 2020",
    )
}

fn buffers_are_made_in_order() -> Outcome {
    let buf = kx::new_buf(3, |n| n)?;
    expect(buf.iter().copied().eq(0..3), "other elements")
}

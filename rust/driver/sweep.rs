// SPDX-License-Identifier: GPL-2.0

//! Deadlines: the periodic check of every connection and every peer.

use crate::proto::{
    conn::Conn,
    peer::Peer,
    Instant,
    LiveTunables,
    Storage, //
};

/// Hands a connection the tunables in force, and does what is due. Under its lock.
pub fn sweep_conn<S: Storage, T>(engine: &mut Conn<S, T>, live: LiveTunables, now: Instant) {
    engine.retune(live);
    if engine.poll_timeout().is_some_and(|due| due.passed(now)) {
        engine.handle_timeout(now);
    }
}

/// Hands a peer the tunables in force, and does what is due. Under its lock. Whether its actions
/// are to be run.
#[must_use]
pub fn sweep_peer<S: Storage, T>(
    engine: &mut Peer<S, T>,
    live: LiveTunables,
    now: Instant,
) -> bool {
    engine.retune(live);
    let due = engine.poll_timeout().is_some_and(|due| due.passed(now));
    if due {
        engine.handle_timeout(now);
    }
    due
}

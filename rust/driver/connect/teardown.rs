// SPDX-License-Identifier: GPL-2.0

//! The end of a connection: what its engine asked for that sleeps.

use super::{
    super::{
        cm::ConnInput,
        shell::{
            Request,
            Shell, //
        },
    },
    active,
    effects::{
        ConnOf,
        Connect,
        Count,
        FailedQp,
        Purpose, //
    },
    Work,
};

/// Serves the first request of a connection, if there is one.
pub(super) fn serve<C: Connect>(c: &mut C, conn: ConnOf<C>) -> Option<Work<C>> {
    let request = Request::ALL
        .into_iter()
        .find(|&request| c.take_request(&conn, request))?;
    Some(match request {
        Request::NotifyEstablished => {
            c.notify_established(&conn);
            Work::Conn(conn)
        }
        Request::Disconnect => {
            c.disconnect(&conn);
            let qp = c.fail_qp(&conn);
            if qp == FailedQp::Destroyed {
                c.count(Count::ForcedDrain);
            }
            Work::QpFailed { conn, qp }
        }
        Request::DestroyQp => {
            c.destroy_qp(&conn);
            let qp = FailedQp::Destroyed;
            Work::QpFailed { conn, qp }
        }
        // An attempt that ends with its connection is accounted for before its place is free.
        Request::TakeDown => Work::Peer {
            peer: c.shell().peer_of(&conn),
            drained: Some(conn),
        },
    })
}

/// Tells a connection what became of its queue pair.
pub(super) fn qp_failed<C: Connect>(c: &mut C, conn: &ConnOf<C>, qp: FailedQp) {
    match qp {
        FailedQp::Failed => {
            c.feed(conn, ConnInput::QpError);
            // Completions that came while the QP was being moved are still to be polled.
            c.kick(conn);
        }
        FailedQp::Gone | FailedQp::Destroyed => c.feed(conn, ConnInput::QpDestroyed),
    }
}

/// Destroys what is left of a drained connection, and tells its peer.
pub(super) fn take_down<C: Connect>(c: &mut C, conn: &ConnOf<C>) -> Work<C> {
    // QP and CQ first, then the id, then the peer's turn.
    c.destroy_qp(conn);
    let tag = c.tag_of(conn);
    let purpose = c.link(tag).map(|link| link.purpose);
    c.destroy(tag);
    c.release(conn);
    let peer = c.shell().peer_of(conn);
    if let Some(name) = c.shell().name_of(conn) {
        c.forget_conn(&peer, name, |engine, now| engine.handle_gone(now, name));
    } else if let Some(Purpose::Active(plan)) = purpose {
        active::released(c, &peer, plan);
    }
    Work::peer(peer)
}

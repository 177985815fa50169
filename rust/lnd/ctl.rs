// SPDX-License-Identifier: GPL-2.0

//! The ioctls that reach an NI (lnd-contract.md section 13).

use super::conn::{
    Conn,
    Network,
    Peer, //
};
use crate::{
    lnet::{
        Ctl,
        CtlReply, //
    },
    proto::Cause,
    wire::Nid, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    }, //
};

/// Does what an ioctl asks.
///
/// # Errors
///
/// `ENOENT` when there is no such peer or connection, `EINVAL` for a command that is not known.
pub(crate) fn ctl(network: &Network, cmd: Ctl) -> Result<CtlReply> {
    match cmd {
        Ctl::GetPeer { index, dump } => get_peer(network, index, Nid(dump)),
        Ctl::DelPeer(who) => del_peer(network, who.map(Nid)),
        Ctl::GetConn { index } => get_conn(network, index),
        Ctl::CloseConnection(who) => close(network, who.map(Nid)),
        Ctl::Other(_) => Err(EINVAL),
    }
}

/// The peers that `who` means: one, or all.
fn peers(network: &Network, who: Option<Nid>) -> impl Iterator<Item = Arc<Peer>> + '_ {
    network
        .iter()
        .filter(move |peer| who.is_none_or(|nid| nid == peer.nid))
}

fn get_peer(network: &Network, index: u32, dump: Nid) -> Result<CtlReply> {
    // Whatever the index: the C driver finds only a peer that it passes on the way.
    if let Some(peer) = network.get(dump) {
        dump_peer(&peer);
    }
    let peer = network.iter().nth(index as usize).ok_or(ENOENT)?;
    let inner = peer.inner.lock();
    let refs = u32::try_from(inner.conns().len()).unwrap_or(u32::MAX);
    Ok(CtlReply::Peer {
        nid: peer.nid.0,
        // The table holds one.
        refs: refs.saturating_add(1),
    })
}

fn del_peer(network: &Network, who: Option<Nid>) -> Result<CtlReply> {
    let mut found = false;
    for peer in peers(network, who) {
        found = true;
        peer.delete(Cause::Deleted);
    }
    if found {
        Ok(CtlReply::Done)
    } else {
        Err(ENOENT)
    }
}

fn get_conn(network: &Network, index: u32) -> Result<CtlReply> {
    let mut left = index as usize;
    for peer in network.iter() {
        let inner = peer.inner.lock();
        let mtu = inner.conns().nth(left).map(|conn| conn.mtu.load(Relaxed));
        if let Some(mtu) = mtu {
            return Ok(CtlReply::Conn {
                nid: peer.nid.0,
                mtu,
            });
        }
        left -= inner.conns().len();
    }
    Err(ENOENT)
}

fn close(network: &Network, who: Option<Nid>) -> Result<CtlReply> {
    let mut closed = 0u32;
    for peer in peers(network, who) {
        let n = peer.inner.lock().engine.close_conns(Cause::Deleted);
        closed = closed.saturating_add(n.into());
        peer.kick();
    }
    match (closed, who) {
        (0, Some(_)) => Err(ENOENT),
        (_, Some(_) | None) => Ok(CtlReply::Done),
    }
}

/// Describes a peer in the log.
fn dump_peer(peer: &Peer) {
    let inner = peer.inner.lock();
    let snapshot = inner.engine.snapshot();
    let mut conns: [Option<Arc<Conn>>; 8] = [const { None }; 8];
    for (place, conn) in conns.iter_mut().zip(inner.conns()) {
        *place = Some(conn.clone());
    }
    drop(inner);
    pr_info!("{}: {}\n", peer.nid, snapshot);
    for conn in conns.iter().flatten() {
        let snapshot = conn.feed(|engine, _| engine.snapshot());
        pr_info!(
            "{}: connection {:#x}: {}\n",
            peer.nid,
            conn.key.raw(),
            snapshot
        );
    }
}

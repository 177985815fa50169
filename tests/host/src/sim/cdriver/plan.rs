// SPDX-License-Identifier: GPL-2.0

//! Descriptors: how a sink is described, and what is written into that of the other side
//! (section 11 of the protocol).

use std::collections::VecDeque;

use crate::proto::errno::{EMSGSIZE, EPROTO};
use crate::wire::Frag;

/// Fragments that the C driver before 2.15 describes at most.
const MAX_FRAGS: u16 = 256;

/// One RDMA WRITE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) remote: u64,
    pub(crate) sges: Vec<(u64, u32)>,
}

/// A sink at `addr` in as many pieces as it may have, as from a node with one memory region for
/// everything (LU-15186).
pub(super) fn cut(addr: u64, nob: u32, most: u16) -> Vec<Frag> {
    let each = nob.div_ceil(u32::from(most.clamp(1, MAX_FRAGS))).max(1);
    let starts = (0..nob).step_by(each as usize);
    let piece = |at: u32| Frag {
        addr: addr + u64::from(at),
        nob: each.min(nob - at),
    };
    starts.map(piece).collect()
}

/// The WRITEs that move `bytes` from `src` to `sink`: each to one fragment of the sink, from up to
/// `max_sge` pieces. A WRITE that is still open at the end counts, which the C driver forgets.
///
/// # Errors
///
/// The negative errno that the other side is told.
pub(super) fn writes(
    src: &[(u64, u32)],
    sink: impl Iterator<Item = Frag>,
    bytes: u32,
    (max_sge, max_frags): (u16, u16),
) -> Result<Vec<Write>, i32> {
    let mut src: VecDeque<(u64, u32)> = src.iter().copied().collect();
    let mut sink: VecDeque<Frag> = sink.collect();
    let mut done = Vec::new();
    let mut open: Option<Write> = None;
    let mut rest = bytes;
    while rest > 0 {
        let (Some(from), Some(to)) = (src.front_mut(), sink.front_mut()) else {
            return Err(-EPROTO);
        };
        if done.len() >= usize::from(max_frags) {
            return Err(-EMSGSIZE);
        }
        let n = from.1.min(to.nob).min(rest);
        let remote = to.addr;
        let sges = Vec::new();
        let write = open.get_or_insert(Write { remote, sges });
        write.sges.push((from.0, n));
        let full = write.sges.len() == usize::from(max_sge);
        *from = (from.0 + u64::from(n), from.1 - n);
        to.addr += u64::from(n);
        to.nob -= n;
        rest -= n;
        let ended = to.nob == 0;
        if from.1 == 0 {
            src.pop_front();
        }
        if ended {
            sink.pop_front();
        }
        if full || ended || rest == 0 {
            done.extend(open.take());
        }
    }
    Ok(done)
}

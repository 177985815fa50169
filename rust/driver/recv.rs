// SPDX-License-Identifier: GPL-2.0

//! What a received message is answered with, when LNet calls `lnd_recv` for it.
//!
//! LNet calls it exactly once for every message that it was given, before `lnet_parse` returns or
//! much later, from any thread. A message without a match is not an error: the payload is
//! discarded, and a request is answered nevertheless.
//!
//! Three steps: [`prepare`] with nothing locked, [`Answer::give`] under the lock of the connection,
//! [`After::run`] with nothing locked again.

use crate::{
    proto::{
        chain::ChainError,
        conn::{
            Conn,
            Delivery,
            Sink, //
        },
        errno,
        Done,
        Instant,
        Refused,
        RxId,
        Storage, //
    },
    wire::{
        Desc,
        IMMEDIATE_HDR, //
    },
};

/// A received message that LNet has given back, and the LNet messages that belong to it. Errors are
/// negative errnos.
pub trait Incoming {
    /// An LNet message, to be finalized.
    type Msg;
    /// Transmit descriptor.
    type Tx;

    /// Bytes of the payload that LNet wants.
    fn wanted(&self, msg: &Self::Msg) -> u32;

    /// Bytes that LNet sends in reply to a GET.
    fn offered(&self, msg: &Self::Msg) -> u32;

    /// Copies the bytes that LNet wants from the payload of an IMMEDIATE: see [`payload`].
    ///
    /// # Errors
    ///
    /// It could not be copied.
    fn copy(&mut self, msg: &Self::Msg) -> Result<(), i32>;

    /// A descriptor with the sink of a PUT, mapped and registered.
    ///
    /// # Errors
    ///
    /// There is no descriptor, or the memory cannot be mapped.
    fn map_sink(&mut self, msg: &Self::Msg) -> Result<(Self::Tx, Sink), i32>;

    /// A descriptor with the source for a GET, mapped.
    ///
    /// # Errors
    ///
    /// As of [`Incoming::map_sink`].
    fn map_source(&mut self, msg: &Self::Msg) -> Result<Self::Tx, i32>;

    /// Sets out to write the first `len` bytes of a source to the peer's sink; the number of
    /// WRITEs, of [`Cursor::count`](crate::proto::chain::Cursor::count).
    ///
    /// # Errors
    ///
    /// Why the transfer cannot be planned.
    fn plan(&mut self, tx: &mut Self::Tx, sink: Desc, len: u32) -> Result<u16, ChainError>;

    /// The message ends with the descriptor.
    fn attach(&mut self, tx: &mut Self::Tx, msg: Self::Msg);

    /// Finalizes a message that needed no descriptor, with 0 or a negative errno and no blame.
    fn end(&mut self, msg: Self::Msg, status: i32);

    /// Ends a descriptor that the connection refused, and its message.
    fn finish(&mut self, tx: Self::Tx, done: Done);
}

/// The answer to a received request or IMMEDIATE.
#[derive(Debug)]
#[must_use]
pub enum Answer<M, T> {
    /// None: the receive buffer is free.
    Done {
        /// The message to finalize afterwards, and its status.
        end: Option<(M, i32)>,
    },
    /// PUT_NAK.
    Nak {
        /// 0 when LNet wants no data, else a negative errno.
        status: i32,
        /// The message to finalize afterwards, and its status.
        end: Option<(M, i32)>,
    },
    /// PUT_ACK.
    Sink {
        /// Descriptor with the mapped memory and the message.
        tx: T,
        /// Where the peer is to write.
        sink: Sink,
    },
    /// GET_DONE without data.
    NoData {
        /// 0 for an empty reply, else a negative errno.
        status: i32,
        /// The message to finalize afterwards, and its status.
        end: Option<(M, i32)>,
    },
    /// WRITEs and GET_DONE.
    Source {
        /// Descriptor with the mapped memory and the message.
        tx: T,
        /// Bytes to write.
        len: u32,
        /// Number of WRITEs, or why the transfer cannot be planned.
        writes: Result<u16, ChainError>,
    },
}

/// Decides the answer to a message, and prepares the memory for it. `msg` is `None` when LNet
/// discards the message.
pub fn prepare<I: Incoming>(
    incoming: &mut I,
    kind: Delivery,
    msg: Option<I::Msg>,
) -> Answer<I::Msg, I::Tx> {
    match kind {
        Delivery::Immediate => Answer::Done {
            end: msg.map(|msg| {
                let copied = incoming.copy(&msg);
                (msg, status(copied))
            }),
        },
        Delivery::PutReq => put(incoming, msg),
        Delivery::GetReq { desc } => get(incoming, msg, desc),
    }
}

fn put<I: Incoming>(incoming: &mut I, msg: Option<I::Msg>) -> Answer<I::Msg, I::Tx> {
    let Some(msg) = msg else {
        return Answer::Nak {
            status: 0,
            end: None,
        };
    };
    if incoming.wanted(&msg) == 0 {
        return Answer::Nak {
            status: 0,
            end: Some((msg, 0)),
        };
    }
    match incoming.map_sink(&msg) {
        Ok((mut tx, sink)) => {
            incoming.attach(&mut tx, msg);
            Answer::Sink { tx, sink }
        }
        Err(status) => Answer::Nak {
            status,
            end: Some((msg, status)),
        },
    }
}

fn get<I: Incoming>(incoming: &mut I, msg: Option<I::Msg>, desc: Desc) -> Answer<I::Msg, I::Tx> {
    let Some(msg) = msg else {
        return Answer::NoData {
            status: errno::ENODATA.wrapping_neg(),
            end: None,
        };
    };
    let len = incoming.offered(&msg);
    if len == 0 {
        return Answer::NoData {
            status: 0,
            end: Some((msg, 0)),
        };
    }
    match incoming.map_source(&msg) {
        Ok(mut tx) => {
            let writes = incoming.plan(&mut tx, desc, len);
            incoming.attach(&mut tx, msg);
            Answer::Source { tx, len, writes }
        }
        Err(status) => Answer::NoData {
            status,
            end: Some((msg, status)),
        },
    }
}

fn status(result: Result<(), i32>) -> i32 {
    result.err().unwrap_or(0)
}

impl<M, T> Answer<M, T> {
    /// Gives the answer to the engine of the connection, under its lock. `rx` is the receive buffer
    /// of the message, which is given back with it.
    pub fn give<S: Storage>(self, engine: &mut Conn<S, T>, now: Instant, rx: RxId) -> After<M, T> {
        let end = match self {
            Self::Done { end } => {
                engine.rx_done(now, rx);
                end
            }
            Self::Nak { status, end } => {
                engine.put_nak(now, rx, status);
                end
            }
            Self::NoData { status, end } => {
                engine.get_done(now, rx, status);
                end
            }
            Self::Sink { tx, sink } => {
                return After::of(engine.put_sink(now, rx, tx, sink).err());
            }
            Self::Source { tx, len, writes } => {
                return After::of(engine.get_source(now, rx, tx, len, writes).err());
            }
        };
        match end {
            Some((msg, status)) => After::End { msg, status },
            None => After::Nothing,
        }
    }
}

/// What remains to be done after unlocking.
#[derive(Debug)]
#[must_use]
pub enum After<M, T> {
    /// Nothing.
    Nothing,
    /// The message is finalized.
    End {
        /// The message.
        msg: M,
        /// 0, or a negative errno.
        status: i32,
    },
    /// The connection refused the descriptor.
    Finish {
        /// The descriptor.
        tx: T,
        /// How it ends.
        done: Done,
    },
}

impl<M, T> After<M, T> {
    fn of(refused: Option<Refused<T>>) -> Self {
        match refused {
            Some(Refused { tx, cause }) => Self::Finish {
                tx,
                done: cause.outcome().into(),
            },
            None => Self::Nothing,
        }
    }

    /// Does it. No lock may be held.
    pub fn run<I: Incoming<Msg = M, Tx = T>>(self, incoming: &mut I) {
        match self {
            Self::Nothing => {}
            Self::End { msg, status } => incoming.end(msg, status),
            Self::Finish { tx, done } => incoming.finish(tx, done),
        }
    }
}

/// The first `len` bytes of the payload of the IMMEDIATE in `buf`.
///
/// # Errors
///
/// `-EPROTO` when there are fewer. LNet never wants more than the header says, which the engine has
/// checked.
pub fn payload(buf: &[u8], len: u32) -> Result<&[u8], i32> {
    let end = IMMEDIATE_HDR.saturating_add(len as usize);
    buf.get(IMMEDIATE_HDR..end)
        .ok_or(errno::EPROTO.wrapping_neg())
}

// SPDX-License-Identifier: GPL-2.0

//! Tests of [`rdma`](crate::rdma), on two RDMA devices, of which one has an address that is
//! 10.98.0.1 or 10.98.0.2, and while no NI is up.

use super::{
    expect,
    expect_error,
    Failure,
    Outcome,
    Test, //
};
use crate::{
    ffi::types::RawBioVec,
    kx::{
        Event,
        Kiov,
        Net,
        Node, //
    },
    rdma::{
        Client,
        ClientRegistration,
        CmEvent,
        CmEventKind,
        CmEvents,
        CmId,
        CmQueue,
        ConnParam,
        Cq,
        CqQueue,
        Device,
        DeviceId,
        DmaAddr,
        DmaBuf,
        DmaSg,
        FromDevice,
        Mapped,
        Mr,
        MrPool,
        Pd,
        Qp,
        QpCaps,
        RecvChain,
        SendChain,
        SendFlags,
        SgTable,
        SockAddr,
        ToDevice, //
    },
};
use kernel::{
    new_mutex,
    page::{
        Page,
        PAGE_SIZE, //
    },
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};

pub(super) const TESTS: &[Test] = &[
    ("devices_have_names", devices_have_names),
    ("s5a_one_queue_pair_for_an_id", s5a_one_queue_pair_for_an_id),
    ("s5b_queue_pair_on_one_device", s5b_queue_pair_on_one_device),
    ("s5b_region_on_one_device", s5b_region_on_one_device),
    ("s2_chain_for_one_device", s2_chain_for_one_device),
    ("s2_chain_for_one_domain", s2_chain_for_one_domain),
    ("chain_is_full", chain_is_full),
    ("region_goes_round", region_goes_round),
    ("pool_keeps_its_limit", pool_keeps_its_limit),
    ("mapping_has_bounds", mapping_has_bounds),
    ("cm_rejects_with_data", cm_rejects_with_data),
    (
        "s5e_listener_goes_before_its_request",
        s5e_listener_goes_before_its_request,
    ),
    (
        "s8_requests_that_nobody_takes",
        s8_requests_that_nobody_takes,
    ),
];

const MS: u64 = 1_000_000;
const PORT: u16 = 7471;

/// Takes the devices that there are.
#[pin_data]
struct Collect {
    #[pin]
    devices: Mutex<KVec<Arc<Device>>>,
}

impl Client for Collect {
    fn add(&self, dev: Arc<Device>) {
        let _ = self.devices.lock().push(dev, GFP_KERNEL);
    }

    fn remove(&self, id: DeviceId) {
        self.devices.lock().retain(|dev| dev.id() != id);
    }
}

/// All devices.
fn devices() -> Result<KVec<Arc<Device>>> {
    let collect = Arc::pin_init(
        pin_init!(Collect {
            devices <- new_mutex!(KVec::new(), "selftest::devices"),
        }),
        GFP_KERNEL,
    )?;
    let registration = ClientRegistration::new(collect.clone())?;
    let devices = core::mem::take(&mut *collect.devices.lock());
    drop(registration);
    Ok(devices)
}

/// Ids, and the events of them.
struct Cm {
    net: Net,
    event: Arc<Event>,
    queue: Arc<CmQueue>,
    events: CmEvents,
}

impl Cm {
    fn new() -> Result<Self> {
        let event = Event::new_arc()?;
        let queue = CmQueue::new(event.clone())?;
        Ok(Self {
            net: Net::of_current().ok_or(ENODEV)?,
            event,
            events: CmEvents::new(queue.clone()),
            queue,
        })
    }

    /// An id that is bound to the address of a device, and the address.
    fn bound(&self, tag: u64, port: u16) -> Result<(CmId, SockAddr)> {
        for node in 1..=2 {
            let addr = SockAddr::v4([10, 98, 0, node], port);
            let mut id = CmId::new(&self.queue, &self.net, tag)?;
            id.set_reuseaddr(true)?;
            if id.bind(&addr).is_ok() {
                return Ok((id, addr));
            }
        }
        Err(ENODEV)
    }

    /// The next event; an error when none comes.
    fn next(&mut self) -> Result<CmEvent> {
        for _ in 0..200 {
            if let Some(event) = self.events.pop() {
                return Ok(event);
            }
            self.event.wait_timeout(100 * MS);
        }
        Err(ETIMEDOUT)
    }

    /// An id that has asked the listener at `addr` for a connection, with `data`.
    fn connecting(&mut self, tag: u64, addr: &SockAddr, data: &[u8]) -> Result<(CmId, Qp<u64>)> {
        let mut id = CmId::new(&self.queue, &self.net, tag)?;
        id.resolve_addr(None, addr, 2000)?;
        if !matches!(self.next()?.kind, CmEventKind::AddrResolved) {
            return Err(EPROTO);
        }
        id.resolve_route(2000)?;
        if !matches!(self.next()?.kind, CmEventKind::RouteResolved) {
            return Err(EPROTO);
        }
        let device = id.device()?.ok_or(ENODEV)?;
        let qp = Parts::new(&device)?.queue_pair(&id)?;
        // Signals of events that were taken.
        while self.event.wait_timeout(MS) {}
        id.connect(&ConnParam {
            private_data: data,
            responder_resources: 0,
            initiator_depth: 0,
            flow_control: true,
            retry_count: 1,
            rnr_retry_count: 1,
        })?;
        Ok((id, qp))
    }
}

/// What a queue pair is made of.
struct Parts {
    device: Arc<Device>,
    pd: Arc<Pd>,
    cq: Arc<Cq<u64>>,
}

const CAPS: QpCaps = QpCaps {
    max_send_wr: 4,
    max_recv_wr: 4,
    max_send_sge: 1,
    max_recv_sge: 1,
    max_inline_data: 0,
};

impl Parts {
    fn new(device: &Arc<Device>) -> Result<Self> {
        let queue = CqQueue::new(Event::new_arc()?)?;
        Ok(Self {
            device: device.clone(),
            pd: Pd::new(device)?,
            cq: Cq::new(device, &queue, 1, 16, 0)?,
        })
    }

    fn queue_pair(&self, id: &CmId) -> Result<Qp<u64>> {
        id.create_qp(&self.pd, &self.cq, CAPS)
    }
}

/// An id, what a QP of it is made of, and the same of another device.
fn two() -> core::result::Result<(Cm, CmId, Parts, Parts), Failure> {
    let cm = Cm::new()?;
    let (id, _) = cm.bound(1, 0)?;
    let device = id.device()?.ok_or(ENODEV)?;
    let other = devices()?;
    let other = other.iter().find(|other| other.id() != device.id());
    let other = other.ok_or(ENODEV)?;
    Ok((cm, id, Parts::new(&device)?, Parts::new(other)?))
}

/// A page that is mapped for a device.
struct Memory<D: crate::rdma::Direction> {
    sg: DmaSg<D>,
    /// Longer than the mapping.
    page: Page,
}

impl<D: crate::rdma::Direction> Memory<D> {
    fn new(device: &Arc<Device>, entries: u32) -> Result<Self> {
        let page = Page::alloc_page(GFP_KERNEL)?;
        let entry = RawBioVec {
            page: page.as_ptr().cast(),
            len: PAGE_SIZE as u32,
            offset: 0,
        };
        // SAFETY: The entry and its page stay while the vector is walked.
        let kiov = unsafe { Kiov::from_raw(&entry, 1, 0, PAGE_SIZE as u32) };
        let slices = kiov.slices().cycle().take(entries as usize);
        let table = SgTable::new(entries, Node(None))?;
        // SAFETY: The page is freed after the mapping.
        let sg = unsafe { table.map(device, slices) }.map_err(|(e, _)| e)?;
        Ok(Self { sg, page })
    }
}

fn devices_have_names() -> Outcome {
    let devices = devices()?;
    expect(devices.len() >= 2, "not two devices")?;
    let named = devices.iter().all(|device| !device.name().is_empty());
    expect(named, "a device without a name")?;
    let twice = super::rdma::devices()?;
    let same = devices
        .iter()
        .map(|dev| dev.id())
        .eq(twice.iter().map(|dev| dev.id()));
    expect(same, "a device is another one when it is asked for again")
}

fn s5a_one_queue_pair_for_an_id() -> Outcome {
    let (_cm, id, parts, _) = two()?;
    let qp = parts.queue_pair(&id)?;
    expect_error(parts.queue_pair(&id), EBUSY, "a second queue pair")?;
    expect(qp.number() != 0, "the first has no number")?;
    drop(qp);
    drop(parts.queue_pair(&id)?);
    Ok(())
}

fn s5b_queue_pair_on_one_device() -> Outcome {
    let (_cm, id, parts, other) = two()?;
    let mixed = id.create_qp(&parts.pd, &other.cq, CAPS);
    expect_error(mixed, EINVAL, "a CQ of another device")?;
    let mixed = id.create_qp(&other.pd, &parts.cq, CAPS);
    expect_error(mixed, EINVAL, "a PD of another device")?;
    expect_error(other.queue_pair(&id), EINVAL, "an id of another device")?;
    drop(parts.queue_pair(&id)?);
    Ok(())
}

fn s5b_region_on_one_device() -> Outcome {
    let (_cm, _id, parts, other) = two()?;
    let foreign = Memory::new(&other.device, 1)?;
    let mr = Mr::new(&parts.pd, 1, false)?;
    let Err((e, mr, sg)) = mr.map(foreign.sg) else {
        return expect(false, "memory that is mapped on another device");
    };
    drop((sg, foreign.page));
    expect(e == EXDEV, "another error")?;
    let own = Memory::new(&parts.device, 1)?;
    let (mr, sg) = mr.map(own.sg).map_err(|(e, _, _)| e)?.cancel();
    drop((mr, sg, own.page));
    Ok(())
}

/// A region of a page in `pd`, ready to be registered.
fn region(parts: &Parts) -> Result<(Mr<Mapped>, Page)> {
    let Memory { sg, page } = Memory::new(&parts.device, 1)?;
    let mr = Mr::new(&parts.pd, 1, false)?;
    Ok((mr.map(sg).map_err(|(e, _, _)| e)?, page))
}

fn s2_chain_for_one_device() -> Outcome {
    let (_cm, _id, parts, other) = two()?;
    let flags = SendFlags::default();
    let mut chain = SendChain::new(&parts.pd, 8, 8)?;
    let buf = DmaBuf::<ToDevice>::new(&other.device, 64, Node(None))?;
    let sent = chain.send(1, flags, &[buf.piece(8)]).map_err(Error::from);
    expect_error(sent, EXDEV, "a buffer of another device is sent")?;
    let source = Memory::<ToDevice>::new(&other.device, 1)?;
    let piece = source.sg.segs().iter().map(|seg| (seg.addr(), seg.len()));
    let written = chain.write(1, flags, &source.sg, piece, 0, 1);
    expect_error(
        written.map_err(Error::from),
        EXDEV,
        "memory of another device is written",
    )?;
    let (mr, page) = region(&other)?;
    let Err((e, mr)) = chain.reg(1, flags, mr) else {
        return expect(false, "a region of another device is registered");
    };
    expect(Error::from(e) == EXDEV, "another error")?;
    drop((mr, page));
    let buf = DmaBuf::<FromDevice>::new(&other.device, 64, Node(None))?;
    let mut recvs = RecvChain::new(&parts.pd, 4)?;
    let received = recvs.recv(1, &buf).map_err(Error::from);
    expect_error(received, EXDEV, "a buffer of another device receives")?;
    expect(chain.len() == 0, "something was added nevertheless")
}

fn s2_chain_for_one_domain() -> Outcome {
    let (_cm, id, parts, _) = two()?;
    let qp = parts.queue_pair(&id)?;
    let pd = Pd::new(&parts.device)?;
    let buf = DmaBuf::<ToDevice>::new(&parts.device, 64, Node(None))?;
    let mut chain = SendChain::new(&pd, 8, 8)?;
    chain
        .send(1, SendFlags::default(), &[buf.piece(8)])
        .map_err(Error::from)?;
    // SAFETY: The buffer stays until the QP is gone.
    let posted = unsafe { qp.post_send(&mut chain) };
    expect_error(
        posted.map_err(|e| e.error),
        EXDEV,
        "a chain for another PD is posted",
    )?;
    expect(chain.len() == 0, "the chain is not empty")?;
    let (mr, page) = region(&Parts {
        device: parts.device.clone(),
        pd,
        cq: parts.cq.clone(),
    })?;
    let mut chain = SendChain::new(&parts.pd, 8, 8)?;
    let Err((e, mr)) = chain.reg(1, SendFlags::default(), mr) else {
        return expect(false, "a region of another PD is registered");
    };
    drop((mr, page, qp));
    expect(Error::from(e) == EXDEV, "another error")
}

fn chain_is_full() -> Outcome {
    let (_cm, _id, parts, _) = two()?;
    let flags = SendFlags::default();
    let buf = DmaBuf::<ToDevice>::new(&parts.device, 64, Node(None))?;
    let mut chain = SendChain::new(&parts.pd, 2, 2)?;
    let three = [buf.piece(1); 3];
    let sent = chain.send(1, flags, &three).map_err(Error::from);
    expect_error(sent, ENOSPC, "more pieces than there is room")?;
    expect(
        chain.has_room(2, 2),
        "pieces of a refused request take room",
    )?;
    for _ in 0..2 {
        chain.send(1, flags, &[buf.piece(1)]).map_err(Error::from)?;
    }
    let sent = chain.send(1, flags, &[]).map_err(Error::from);
    expect_error(sent, ENOSPC, "more requests than there is room")?;
    chain.clear();
    let source = Memory::<ToDevice>::new(&parts.device, 1)?;
    let start = source.sg.segs().first().map(|seg| seg.addr().to_raw());
    let piece = (DmaAddr::from_raw(start.unwrap_or(0)), 1);
    let written = chain.write(1, flags, &source.sg, [piece; 3].into_iter(), 0, 1);
    expect_error(
        written.map_err(Error::from),
        ENOSPC,
        "a WRITE of too many pieces",
    )?;
    expect(chain.has_room(2, 2), "pieces of a refused WRITE take room")
}

fn region_goes_round() -> Outcome {
    let (_cm, _id, parts, _) = two()?;
    let (mr, page) = region(&parts)?;
    expect(mr.len() == PAGE_SIZE as u64, "another length")?;
    let first = mr.rkey();
    let (mr, sg) = mr.cancel();
    let mr = mr.map(sg).map_err(|(e, _, _)| e)?;
    expect(mr.rkey() != first, "a key that was used before")?;
    let mut chain = SendChain::new(&parts.pd, 4, 4)?;
    let mr = chain
        .reg(1, SendFlags::default(), mr)
        .map_err(|(e, _)| Error::from(e))?;
    expect(chain.len() == 1, "no registration in the chain")?;
    chain.clear();
    // SAFETY: The only request that named it was never posted.
    let sg = unsafe { mr.dereg() }.map_err(|(e, _)| e)?;
    drop((sg, page));
    Ok(())
}

fn pool_keeps_its_limit() -> Outcome {
    let (_cm, _id, parts, _) = two()?;
    let pool = MrPool::new(&parts.pd, 4, false, 1, 2)?;
    let mut out = KVec::new();
    for _ in 0..4 {
        out.push(pool.get()?, GFP_KERNEL)?;
    }
    expect(pool.get_cached().is_none(), "the pool has what it gave")?;
    for mr in out {
        pool.put(mr);
    }
    let kept = core::iter::from_fn(|| pool.get_cached()).count();
    expect(kept == 2, "not as many as its limit")
}

fn mapping_has_bounds() -> Outcome {
    let (_cm, _id, parts, _) = two()?;
    let table = SgTable::new(2, Node(None))?;
    // SAFETY: Nothing is mapped.
    let none = unsafe { table.map::<ToDevice>(&parts.device, core::iter::empty()) };
    let Err((e, _table)) = none else {
        return expect(false, "nothing is mapped");
    };
    expect(e == EINVAL, "another error")?;
    let twice = Memory::<FromDevice>::new(&parts.device, 2)?;
    expect(twice.sg.len() == 2 * PAGE_SIZE as u64, "another length")?;
    let Memory { sg, page } = twice;
    let table = sg.unmap();
    let entry = RawBioVec {
        page: page.as_ptr().cast(),
        len: PAGE_SIZE as u32,
        offset: 0,
    };
    // SAFETY: The entry and its page stay while the vector is walked.
    let kiov = unsafe { Kiov::from_raw(&entry, 1, 0, PAGE_SIZE as u32) };
    // SAFETY: Nothing is mapped.
    let three = unsafe { table.map::<ToDevice>(&parts.device, kiov.slices().cycle().take(3)) };
    let Err((e, _table)) = three else {
        return expect(false, "more slices than the table has room for");
    };
    expect(e == EMSGSIZE, "another error")?;
    let empty = DmaBuf::<ToDevice>::new(&parts.device, 0, Node(None));
    expect_error(empty.map(drop), EINVAL, "a buffer of no bytes")
}

fn cm_rejects_with_data() -> Outcome {
    let mut cm = Cm::new()?;
    let (id, addr) = cm.bound(1, PORT)?;
    let _listener = id.listen()?;
    let (_active, _qp) = cm.connecting(2, &addr, b"request")?;
    let request = cm.next()?;
    expect(request.tag == 1, "a request for another listener")?;
    expect(request.data.starts_with(b"request"), "other private data")?;
    let CmEventKind::ConnectRequest(passive) = request.kind else {
        return expect(false, "another event than a request");
    };
    passive.reject(b"no")?;
    drop(passive);
    let answer = cm.next()?;
    expect(answer.tag == 2, "an event of another id")?;
    expect(matches!(answer.kind, CmEventKind::Rejected(_)), "no reject")?;
    expect(
        answer.data.starts_with(b"no"),
        "other private data in the reject",
    )
}

fn s5e_listener_goes_before_its_request() -> Outcome {
    let mut cm = Cm::new()?;
    let (id, addr) = cm.bound(1, PORT)?;
    let listener = id.listen()?;
    let (active, qp) = cm.connecting(2, &addr, b"request")?;
    expect(cm.event.wait_timeout(10_000 * MS), "no request comes")?;
    drop(listener);
    let request = cm.next()?;
    let CmEventKind::ConnectRequest(passive) = request.kind else {
        return expect(false, "another event than a request");
    };
    expect(request.tag == 1, "a request for another listener")?;
    // Nobody answers; the CM rejects.
    drop(passive);
    let answer = cm.next()?;
    expect(matches!(answer.kind, CmEventKind::Rejected(_)), "no reject")?;
    drop((active, qp));
    Ok(())
}

fn s8_requests_that_nobody_takes() -> Outcome {
    let mut cm = Cm::new()?;
    let (id, addr) = cm.bound(1, PORT)?;
    let listener = id.listen()?;
    let (active, qp) = cm.connecting(2, &addr, b"request")?;
    expect(cm.event.wait_timeout(10_000 * MS), "no request comes")?;
    drop((active, qp, listener));
    // The events, with the request in them.
    drop(cm);
    Ok(())
}

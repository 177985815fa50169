// SPDX-License-Identifier: GPL-2.0
/* What a device does with the requests in its queues, and how it completes them. */
#include <linux/random.h>

#include "hca.h"

static struct ib_sge *hca_sges(struct hca_ring *ring, u32 n)
{
	return ring->sge + (size_t)(n & ring->q.mask) * ring->q.max_sge;
}

static struct hca_wqe *hca_wqe_at(struct hca_ring *ring, u32 n)
{
	return &ring->wqe[n & ring->q.mask];
}

/* -------------------------------------------------------------- completing */

/* Of a failed request only wr_id, status and qp count: the rest is what no consumer may use. */
static void hca_spoil(struct ib_wc *wc)
{
	wc->opcode = 0x55;
	wc->byte_len = 0xdeadbeef;
	wc->wc_flags = 0;
	wc->ex.invalidate_rkey = 0xdeadbeef;
	wc->vendor_err = 0xca;
}

/* True: the CQ's consumer is to be told. Under the QP's lock. */
static bool hca_ring_complete(struct hca_ring *ring)
{
	struct hca_queue *q = &ring->q;
	struct hca_wqe *wqe;
	struct hca_cqe cqe;
	bool notify = false;

	for (; q->done != q->exec; q->done++) {
		wqe = hca_wqe_at(ring, q->done);
		if (!wqe->signaled && !wqe->wc.status)
			continue;
		if (wqe->wc.status)
			hca_spoil(&wqe->wc);
		cqe = (struct hca_cqe) { wqe->wc, &q->tail, q->done + 1 };
		notify |= hca_cq_push(ring->cq, &cqe, ring->recv && wqe->solicited);
	}
	return notify;
}

static void hca_complete_now(struct hca_qp *qp)
{
	bool notify_sq, notify_rq;

	spin_lock_irq(&qp->lock);
	notify_sq = hca_ring_complete(&qp->sq);
	notify_rq = hca_ring_complete(&qp->rq);
	spin_unlock_irq(&qp->lock);
	if (notify_sq)
		hca_cq_notify(qp->sq.cq);
	if (notify_rq && (!notify_sq || qp->sq.cq != qp->rq.cq))
		hca_cq_notify(qp->rq.cq);
}

void hca_qp_late(struct work_struct *work)
{
	hca_complete_now(container_of(work, struct hca_qp, late.work));
}

/*
 * Everything that was executed: now, or after a time of its own for each QP, so that completions of
 * one queue keep their order, and those of different QPs do not.
 */
void hca_complete(struct hca_qp *qp)
{
	unsigned int late = READ_ONCE(qp->dev->faults.late_us);

	if (late)
		queue_delayed_work(hca_wq, &qp->late,
				   usecs_to_jiffies(get_random_u32_below(late) + 1));
	else
		hca_complete_now(qp);
}

static void hca_ring_flush(struct hca_ring *ring)
{
	struct hca_queue *q = &ring->q;

	for (; q->exec != q->head; q->exec++)
		hca_wqe_at(ring, q->exec)->wc.status = IB_WC_WR_FLUSH_ERR;
}

void hca_qp_flush(struct hca_qp *qp)
{
	lockdep_assert_held(&hca_fabric);
	spin_lock_irq(&qp->lock);
	hca_ring_flush(&qp->sq);
	hca_ring_flush(&qp->rq);
	spin_unlock_irq(&qp->lock);
	hca_complete(qp);
}

/* --------------------------------------------------------------- executing */

struct hca_job {
	struct hca_qp		*qp;
	struct hca_wqe		*wqe;
	struct ib_sge		*sge;
	struct hca_qp		*peer;
	bool			 blamed;
	enum ib_event_type	 event;		/* of the peer, when blamed */
};

static bool hca_is_inline(const struct hca_wqe *wqe)
{
	return wqe->access == IB_SEND_INLINE && wqe->kind <= HCA_KIND_WRITE;
}

static int hca_check_source(const struct hca_job *j)
{
	if (hca_is_inline(j->wqe))
		return 0;
	return hca_check_sges(j->qp->dev, j->qp->ib.pd, j->sge, j->wqe->nsge, 0);
}

static struct hca_span hca_span_of(const struct hca_job *j)
{
	return (struct hca_span) { j->qp->dev, j->sge, j->wqe->nsge, 0, hca_is_inline(j->wqe) };
}

/*
 * The other side has found a fault of ours: its end of the connection breaks down, too, but not
 * before the request has its status.
 */
static enum ib_wc_status hca_blame(struct hca_job *j, enum ib_event_type event,
				   enum ib_wc_status status)
{
	j->blamed = true;
	j->event = event;
	return status;
}

/* The receive that is next at the peer, with what was found out about it; over either way. */
static void hca_recv_done(struct hca_qp *peer, struct hca_wqe *recv, enum ib_wc_status status)
{
	recv->wc.status = status;
	spin_lock_irq(&peer->lock);
	peer->rq.q.exec++;
	spin_unlock_irq(&peer->lock);
	hca_complete(peer);
}

static enum ib_wc_status hca_recv_check(const struct hca_job *j, struct hca_wqe *recv,
					const struct ib_sge *sge)
{
	struct hca_qp *peer = j->peer;

	if (hca_wc_fault(peer->dev, HCA_KIND_RECV, &recv->wc.status))
		return recv->wc.status;
	if (recv->length < j->wqe->length) {
		hca_count(peer->dev, recv_short);
		return IB_WC_LOC_LEN_ERR;
	}
	if (hca_check_sges(peer->dev, peer->ib.pd, sge, recv->nsge, IB_ACCESS_LOCAL_WRITE))
		return IB_WC_LOC_PROT_ERR;
	if (j->wqe->op == IB_WR_SEND_WITH_INV &&
	    hca_mr_invalidate(peer->dev, peer->ib.pd, j->wqe->rkey))
		return IB_WC_MW_BIND_ERR;
	return IB_WC_SUCCESS;
}

static enum ib_wc_status hca_deliver(struct hca_job *j, struct hca_wqe *recv)
{
	struct ib_sge *sge = hca_sges(&j->peer->rq, j->peer->rq.q.exec);
	struct hca_span from = hca_span_of(j);
	struct hca_span to = { j->peer->dev, sge, recv->nsge };
	enum ib_wc_status status = hca_recv_check(j, recv, sge);

	if (status) {
		hca_recv_done(j->peer, recv, status);
		return hca_blame(j, IB_EVENT_QP_REQ_ERR,
				 status == IB_WC_LOC_LEN_ERR ? IB_WC_REM_INV_REQ_ERR :
				 status == IB_WC_MW_BIND_ERR ? IB_WC_REM_ACCESS_ERR :
							       IB_WC_REM_OP_ERR);
	}
	hca_copy(&to, &from, j->wqe->length);
	recv->wc.byte_len = j->wqe->length;
	recv->solicited = j->wqe->solicited;
	if (j->wqe->op == IB_WR_SEND_WITH_INV) {
		recv->wc.wc_flags = IB_WC_WITH_INVALIDATE;
		recv->wc.ex.invalidate_rkey = j->wqe->rkey;
	}
	hca_recv_done(j->peer, recv, IB_WC_SUCCESS);
	hca_count_n(j->qp->dev, bytes_send, j->wqe->length);
	return IB_WC_SUCCESS;
}

static enum ib_wc_status hca_exec_send(struct hca_job *j)
{
	struct hca_queue *rq = &j->peer->rq.q;

	if (hca_check_source(j))
		return IB_WC_LOC_PROT_ERR;
	/* iWARP does not wait for a receive. */
	if (rq->exec == READ_ONCE(rq->head)) {
		hca_count(j->peer->dev, no_recv);
		return hca_blame(j, IB_EVENT_QP_FATAL, IB_WC_RNR_RETRY_EXC_ERR);
	}
	return hca_deliver(j, hca_wqe_at(&j->peer->rq, rq->exec));
}

/* Whether the peer lets us at its memory. */
static bool hca_remote_ok(const struct hca_job *j, int access)
{
	struct hca_qp *peer = j->peer;

	if (!j->wqe->length)
		return true;
	if (!(peer->access & access)) {
		hca_count(peer->dev, bad_access);
		return false;
	}
	return !hca_check_range(peer->dev, peer->ib.pd, j->wqe->rkey, j->wqe->raddr,
				j->wqe->length, access);
}

static struct ib_sge hca_remote(const struct hca_job *j)
{
	return (struct ib_sge) { j->wqe->raddr, j->wqe->length, j->wqe->rkey };
}

static enum ib_wc_status hca_exec_write(struct hca_job *j)
{
	struct ib_sge remote = hca_remote(j);
	struct hca_span from = hca_span_of(j);
	struct hca_span to = { j->peer->dev, &remote, 1 };

	if (hca_check_source(j))
		return IB_WC_LOC_PROT_ERR;
	if (!hca_remote_ok(j, IB_ACCESS_REMOTE_WRITE))
		return hca_blame(j, IB_EVENT_QP_ACCESS_ERR, IB_WC_REM_ACCESS_ERR);
	hca_copy(&to, &from, j->wqe->length);
	hca_count_n(j->qp->dev, bytes_write, j->wqe->length);
	return IB_WC_SUCCESS;
}

/* iWARP: the answer is a WRITE of the peer, so the sink must allow one. */
static enum ib_wc_status hca_exec_read(struct hca_job *j)
{
	struct ib_sge remote = hca_remote(j);
	struct hca_span from = { j->peer->dev, &remote, 1 };
	struct hca_span to = hca_span_of(j);

	if (!j->qp->ep->ord ||
	    hca_check_sges(j->qp->dev, j->qp->ib.pd, j->sge, j->wqe->nsge,
			   IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE))
		return IB_WC_LOC_PROT_ERR;
	if (!hca_remote_ok(j, IB_ACCESS_REMOTE_READ))
		return hca_blame(j, IB_EVENT_QP_ACCESS_ERR, IB_WC_REM_ACCESS_ERR);
	hca_copy(&to, &from, j->wqe->length);
	j->wqe->wc.byte_len = j->wqe->length;
	hca_count_n(j->qp->dev, bytes_read, j->wqe->length);
	if (j->wqe->op == IB_WR_RDMA_READ_WITH_INV &&
	    hca_mr_invalidate(j->qp->dev, j->qp->ib.pd, j->sge->lkey))
		return IB_WC_MW_BIND_ERR;
	return IB_WC_SUCCESS;
}

static enum ib_wc_status hca_exec_wqe(struct hca_job *j)
{
	enum ib_wc_status status;

	if (hca_wc_fault(j->qp->dev, j->wqe->kind, &status))
		return status;
	switch (j->wqe->kind) {
	case HCA_KIND_SEND:
	case HCA_KIND_SEND_INV:
		return hca_exec_send(j);
	case HCA_KIND_WRITE:
		return hca_exec_write(j);
	case HCA_KIND_READ:
		return hca_exec_read(j);
	case HCA_KIND_REG:
		return hca_mr_register(j->qp, j->wqe) ? IB_WC_MW_BIND_ERR : IB_WC_SUCCESS;
	case HCA_KIND_INV:
		return hca_mr_invalidate(j->qp->dev, j->qp->ib.pd, j->wqe->rkey) ?
		       IB_WC_MW_BIND_ERR : IB_WC_SUCCESS;
	default:
		return IB_WC_GENERAL_ERR;
	}
}

static bool hca_next(struct hca_qp *qp, struct hca_job *j)
{
	struct hca_queue *q = &qp->sq.q;
	bool there;

	spin_lock_irq(&qp->lock);
	there = qp->state == IB_QPS_RTS && q->exec != q->head;
	spin_unlock_irq(&qp->lock);
	if (there)
		*j = (struct hca_job) { qp, hca_wqe_at(&qp->sq, q->exec),
					hca_sges(&qp->sq, q->exec), qp->ep->peer->qp };
	return there;
}

static bool hca_exec_one(struct hca_qp *qp)
{
	enum ib_wc_status status;
	struct hca_job j;

	if (!hca_next(qp, &j)) {
		if (qp->state == IB_QPS_ERR)
			hca_qp_flush(qp);
		return false;
	}
	status = hca_exec_wqe(&j);
	spin_lock_irq(&qp->lock);
	j.wqe->wc.status = status;
	qp->sq.q.exec++;
	spin_unlock_irq(&qp->lock);
	if (j.blamed)
		hca_qp_event(j.peer, j.event);
	hca_complete(qp);
	if (status)
		hca_qp_error(qp);
	return true;
}

void hca_qp_work(struct work_struct *work)
{
	struct hca_qp *qp = container_of(work, struct hca_qp, work);
	bool more;

	do {
		mutex_lock(&hca_fabric);
		more = hca_exec_one(qp);
		mutex_unlock(&hca_fabric);
		cond_resched();
	} while (more);
}

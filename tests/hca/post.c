// SPDX-License-Identifier: GPL-2.0
/* Posting: what a device refuses at once. Any context; nothing is executed here. */
#include "hca.h"

struct hca_opcode {
	bool			known;
	enum hca_kind		kind;
	enum ib_wc_opcode	wc;
	enum hca_count		count;
};

static const struct hca_opcode hca_opcodes[] = {
	[IB_WR_SEND] = { true, HCA_KIND_SEND, IB_WC_SEND, HCA_COUNT_wr_send },
	[IB_WR_SEND_WITH_INV] = { true, HCA_KIND_SEND_INV, IB_WC_SEND, HCA_COUNT_wr_send_inv },
	[IB_WR_RDMA_WRITE] = { true, HCA_KIND_WRITE, IB_WC_RDMA_WRITE, HCA_COUNT_wr_write },
	[IB_WR_RDMA_READ] = { true, HCA_KIND_READ, IB_WC_RDMA_READ, HCA_COUNT_wr_read },
	[IB_WR_RDMA_READ_WITH_INV] = { true, HCA_KIND_READ, IB_WC_RDMA_READ,
				       HCA_COUNT_wr_read_inv },
	[IB_WR_REG_MR] = { true, HCA_KIND_REG, IB_WC_REG_MR, HCA_COUNT_wr_reg },
	[IB_WR_LOCAL_INV] = { true, HCA_KIND_INV, IB_WC_LOCAL_INV, HCA_COUNT_wr_inv },
};

static const struct hca_opcode *hca_opcode(enum ib_wr_opcode op)
{
	if (op < 0 || op >= ARRAY_SIZE(hca_opcodes) || !hca_opcodes[op].known)
		return NULL;
	return &hca_opcodes[op];
}

static u32 hca_queue_room(struct hca_queue *q)
{
	return q->size - (q->head - READ_ONCE(q->tail));
}

static u32 hca_sge_bytes(const struct ib_sge *sge, int n)
{
	u32 bytes = 0;

	while (n-- > 0)
		bytes += sge[n].length;
	return bytes;
}

/* -------------------------------------------------------------------- send */

static int hca_send_refused(struct hca_qp *qp, const struct ib_send_wr *wr)
{
	struct hca_dev *dev = qp->dev;

	if (qp->state != IB_QPS_RTS && qp->state != IB_QPS_ERR) {
		hca_count(dev, bad_qp_state);
		return -EINVAL;
	}
	if (!hca_opcode(wr->opcode)) {
		hca_count(dev, bad_opcode);
		return -EINVAL;
	}
	if (wr->num_sge < 0 || wr->num_sge > qp->sq.q.max_sge ||
	    (hca_opcode(wr->opcode)->kind == HCA_KIND_READ && wr->num_sge > dev->limits.sge_rd)) {
		hca_count(dev, bad_sge);
		return -EINVAL;
	}
	if ((wr->send_flags & IB_SEND_INLINE) &&
	    (hca_opcode(wr->opcode)->kind > HCA_KIND_WRITE ||
	     hca_sge_bytes(wr->sg_list, wr->num_sge) > qp->max_inline)) {
		hca_count(dev, bad_inline);
		return -EINVAL;
	}
	if (!hca_queue_room(&qp->sq.q)) {
		hca_count(dev, sq_full);
		return -ENOMEM;
	}
	return 0;
}

/* Inline data is read now, and by its kernel address. */
static void hca_take_inline(struct hca_qp *qp, u32 slot, struct hca_wqe *wqe,
			    const struct ib_send_wr *wr)
{
	u8 *to = qp->inlined + (size_t)slot * qp->max_inline;
	struct ib_sge *sge = qp->sq.sge + (size_t)slot * qp->sq.q.max_sge;
	u32 at = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		memcpy(to + at, (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		at += wr->sg_list[i].length;
	}
	wqe->nsge = wr->num_sge ? 1 : 0;
	if (wqe->nsge)
		*sge = (struct ib_sge) { .addr = (uintptr_t)to, .length = at };
	wqe->access = IB_SEND_INLINE;
	hca_count(qp->dev, inline_send);
}

static void hca_take_op(struct hca_wqe *wqe, const struct ib_send_wr *wr)
{
	switch (wr->opcode) {
	case IB_WR_RDMA_READ_WITH_INV:
	case IB_WR_RDMA_READ:
	case IB_WR_RDMA_WRITE:
		wqe->raddr = rdma_wr(wr)->remote_addr;
		wqe->rkey = rdma_wr(wr)->rkey;
		break;
	case IB_WR_SEND_WITH_INV:
	case IB_WR_LOCAL_INV:
		wqe->rkey = wr->ex.invalidate_rkey;
		break;
	case IB_WR_REG_MR:
		wqe->rkey = reg_wr(wr)->key;
		wqe->mr = to_hca_mr(reg_wr(wr)->mr);
		wqe->access = reg_wr(wr)->access;
		break;
	default:
		break;
	}
}

static void hca_take_send(struct hca_qp *qp, const struct ib_send_wr *wr)
{
	const struct hca_opcode *op = hca_opcode(wr->opcode);
	u32 slot = qp->sq.q.head & qp->sq.q.mask;
	struct hca_wqe *wqe = &qp->sq.wqe[slot];

	*wqe = (struct hca_wqe) {
		.wc = { .wr_id = wr->wr_id, .qp = &qp->ib, .opcode = op->wc, .port_num = 1 },
		.op = wr->opcode,
		.kind = op->kind,
		.signaled = qp->signal_all || (wr->send_flags & IB_SEND_SIGNALED),
		.solicited = wr->send_flags & IB_SEND_SOLICITED,
		.nsge = wr->num_sge,
		.length = hca_sge_bytes(wr->sg_list, wr->num_sge),
	};
	if (wr->send_flags & IB_SEND_INLINE)
		hca_take_inline(qp, slot, wqe, wr);
	else
		memcpy(qp->sq.sge + (size_t)slot * qp->sq.q.max_sge, wr->sg_list,
		       array_size(wr->num_sge, sizeof(*wr->sg_list)));
	hca_take_op(wqe, wr);
	qp->sq.q.head++;
	hca_count(qp->dev, posted_send);
	atomic64_inc(&qp->dev->count[op->count]);
	hca_count_n(qp->dev, sge_send, wr->num_sge);
	if (wqe->signaled)
		hca_count(qp->dev, signaled);
}

static int hca_post_send(struct ib_qp *ib, const struct ib_send_wr *wr,
			 const struct ib_send_wr **bad)
{
	struct hca_qp *qp = to_hca_qp(ib);
	unsigned long flags;
	bool posted = false;
	int rc = 0;

	spin_lock_irqsave(&qp->lock, flags);
	for (; wr; wr = wr->next) {
		rc = hca_fault(qp->dev, HCA_OP_post_send) ?: hca_send_refused(qp, wr);
		if (rc)
			break;
		hca_take_send(qp, wr);
		posted = true;
	}
	spin_unlock_irqrestore(&qp->lock, flags);
	*bad = wr;
	if (posted) {
		hca_count(qp->dev, doorbell_send);
		queue_work(hca_wq, &qp->work);
	}
	return rc;
}

/* ----------------------------------------------------------------- receive */

static int hca_recv_refused(struct hca_qp *qp, const struct ib_recv_wr *wr)
{
	if (qp->state == IB_QPS_RESET) {
		hca_count(qp->dev, bad_qp_state);
		return -EINVAL;
	}
	if (wr->num_sge < 0 || wr->num_sge > qp->rq.q.max_sge) {
		hca_count(qp->dev, bad_sge);
		return -EINVAL;
	}
	if (!hca_queue_room(&qp->rq.q)) {
		hca_count(qp->dev, rq_full);
		return -ENOMEM;
	}
	return 0;
}

static void hca_take_recv(struct hca_qp *qp, const struct ib_recv_wr *wr)
{
	u32 slot = qp->rq.q.head & qp->rq.q.mask;

	qp->rq.wqe[slot] = (struct hca_wqe) {
		.wc = { .wr_id = wr->wr_id, .qp = &qp->ib, .opcode = IB_WC_RECV, .port_num = 1 },
		.kind = HCA_KIND_RECV,
		.signaled = true,
		.nsge = wr->num_sge,
		.length = hca_sge_bytes(wr->sg_list, wr->num_sge),
	};
	memcpy(qp->rq.sge + (size_t)slot * qp->rq.q.max_sge, wr->sg_list,
	       array_size(wr->num_sge, sizeof(*wr->sg_list)));
	qp->rq.q.head++;
	hca_count(qp->dev, posted_recv);
	hca_count_n(qp->dev, sge_recv, wr->num_sge);
}

static int hca_post_recv(struct ib_qp *ib, const struct ib_recv_wr *wr,
			 const struct ib_recv_wr **bad)
{
	struct hca_qp *qp = to_hca_qp(ib);
	unsigned long flags;
	bool error, posted = false;
	int rc = 0;

	spin_lock_irqsave(&qp->lock, flags);
	for (; wr; wr = wr->next) {
		rc = hca_fault(qp->dev, HCA_OP_post_recv) ?: hca_recv_refused(qp, wr);
		if (rc)
			break;
		hca_take_recv(qp, wr);
		posted = true;
	}
	error = qp->state == IB_QPS_ERR;
	spin_unlock_irqrestore(&qp->lock, flags);
	*bad = wr;
	if (posted)
		hca_count(qp->dev, doorbell_recv);
	if (error)
		queue_work(hca_wq, &qp->work);
	return rc;
}

const struct ib_device_ops hca_post_ops = {
	.post_send = hca_post_send,
	.post_recv = hca_post_recv,
};

// SPDX-License-Identifier: GPL-2.0
/* Queue pairs: their queues, their states, their end. */
#include <linux/log2.h>
#include <linux/slab.h>

#include "hca.h"

void hca_qp_get(struct hca_qp *qp)
{
	refcount_inc(&qp->refs);
}

void hca_qp_put(struct hca_qp *qp)
{
	if (refcount_dec_and_test(&qp->refs))
		complete(&qp->unused);
}

static void hca_iw_add_ref(struct ib_qp *ib)
{
	hca_qp_get(to_hca_qp(ib));
}

static void hca_iw_rem_ref(struct ib_qp *ib)
{
	hca_qp_put(to_hca_qp(ib));
}

static struct ib_qp *hca_iw_get_qp(struct ib_device *ib, int num)
{
	struct hca_qp *qp = xa_load(&to_hca(ib)->qps, num);

	return qp ? &qp->ib : NULL;
}

/* --------------------------------------------------------------- making it */

static int hca_ring_init(struct hca_ring *ring, u32 size, u32 max_sge, struct ib_cq *cq, bool recv)
{
	u32 slots = size ? roundup_pow_of_two(size) : 0;

	ring->q.size = size;
	ring->q.mask = slots - 1;
	ring->q.max_sge = max_sge;
	ring->cq = to_hca_cq(cq);
	ring->recv = recv;
	if (!slots)
		return 0;
	ring->wqe = kvzalloc_objs(*ring->wqe, slots);
	ring->sge = kvzalloc_objs(*ring->sge, array_size(slots, max(max_sge, 1U)));
	return ring->wqe && ring->sge ? 0 : -ENOMEM;
}

static void hca_ring_free(struct hca_ring *ring)
{
	kvfree(ring->wqe);
	kvfree(ring->sge);
}

static void hca_qp_free_queues(struct hca_qp *qp)
{
	hca_ring_free(&qp->sq);
	hca_ring_free(&qp->rq);
	kvfree(qp->inlined);
}

static int hca_qp_init(struct hca_qp *qp, const struct ib_qp_init_attr *attr)
{
	const struct ib_qp_cap *cap = &attr->cap;
	int rc;

	spin_lock_init(&qp->lock);
	INIT_WORK(&qp->work, hca_qp_work);
	INIT_DELAYED_WORK(&qp->late, hca_qp_late);
	refcount_set(&qp->refs, 1);
	init_completion(&qp->unused);
	qp->state = IB_QPS_RESET;
	qp->signal_all = attr->sq_sig_type == IB_SIGNAL_ALL_WR;
	qp->max_inline = cap->max_inline_data;
	rc = hca_ring_init(&qp->sq, cap->max_send_wr, cap->max_send_sge, attr->send_cq, false);
	if (!rc)
		rc = hca_ring_init(&qp->rq, cap->max_recv_wr, cap->max_recv_sge, attr->recv_cq,
				   true);
	if (!rc && qp->max_inline) {
		qp->inlined = kvzalloc(array_size(qp->sq.q.mask + 1, qp->max_inline), GFP_KERNEL);
		rc = qp->inlined ? 0 : -ENOMEM;
	}
	return rc;
}

static bool hca_qp_attr_ok(const struct hca_dev *dev, const struct ib_qp_init_attr *attr)
{
	const struct hca_limits *l = &dev->limits;
	const struct ib_qp_cap *cap = &attr->cap;

	return cap->max_send_wr && cap->max_send_wr <= l->wr && cap->max_recv_wr <= l->wr &&
	       cap->max_send_sge <= l->sge && cap->max_recv_sge <= l->sge &&
	       cap->max_inline_data <= l->inline_data && attr->send_cq && attr->recv_cq &&
	       attr->send_cq->device == &dev->ib && attr->recv_cq->device == &dev->ib;
}

static int hca_qp_add(struct hca_dev *dev, struct hca_qp *qp, const struct ib_qp_init_attr *attr)
{
	int rc;

	if (hca_born(dev, qp) > dev->limits.qp)
		rc = -ENOMEM;
	else
		rc = hca_qp_init(qp, attr);
	if (!rc)
		rc = xa_alloc_cyclic(&dev->qps, &qp->ib.qp_num, qp, XA_LIMIT(2, (1 << 24) - 1),
				     &dev->next_qp, GFP_KERNEL);
	if (rc >= 0)
		return 0;
	hca_qp_free_queues(qp);
	hca_gone(dev, qp);
	return rc;
}

static int hca_create_qp(struct ib_qp *ib, struct ib_qp_init_attr *attr, struct ib_udata *udata)
{
	struct hca_dev *dev = to_hca(ib->device);
	struct hca_qp *qp = to_hca_qp(ib);
	int rc = hca_fault(dev, HCA_OP_create_qp);

	if (rc)
		return rc;
	if (attr->qp_type != IB_QPT_RC || attr->create_flags || attr->srq)
		return -EOPNOTSUPP;
	if (!hca_qp_attr_ok(dev, attr))
		return -EINVAL;
	qp->dev = dev;
	return hca_qp_add(dev, qp, attr);
}

/* ------------------------------------------------------------------- state */

void hca_qp_set_state(struct hca_qp *qp, enum ib_qp_state state)
{
	lockdep_assert_held(&hca_fabric);
	spin_lock_irq(&qp->lock);
	qp->state = state;
	spin_unlock_irq(&qp->lock);
}

void hca_qp_event(struct hca_qp *qp, enum ib_event_type type)
{
	struct ib_event event = {
		.device = qp->ib.device, .event = type, .element.qp = &qp->ib,
	};

	if (qp->ib.event_handler)
		qp->ib.event_handler(&event, qp->ib.qp_context);
}

/* Everything that was posted is flushed, and the connection ends, on the other side, too. */
void hca_qp_error(struct hca_qp *qp)
{
	struct hca_ep *ep = qp->ep;

	lockdep_assert_held(&hca_fabric);
	if (qp->state != IB_QPS_ERR) {
		hca_qp_set_state(qp, IB_QPS_ERR);
		hca_qp_flush(qp);
	}
	if (ep)
		hca_ep_close(ep);
}

static int hca_qp_change(struct hca_qp *qp, enum ib_qp_state to)
{
	switch (to) {
	case IB_QPS_INIT:
	case IB_QPS_RTR:
		if (qp->state != IB_QPS_RESET && qp->state != IB_QPS_INIT && qp->state != to)
			return -EINVAL;
		hca_qp_set_state(qp, to);
		return 0;
	case IB_QPS_SQD:	/* how iw_cm asks for an orderly close */
		if (qp->state != IB_QPS_RTS)
			return -EINVAL;
		fallthrough;
	case IB_QPS_ERR:
		hca_qp_error(qp);
		return 0;
	default:		/* RTS comes with the connection */
		return -EINVAL;
	}
}

static int hca_modify_qp(struct ib_qp *ib, struct ib_qp_attr *attr, int mask,
			 struct ib_udata *udata)
{
	struct hca_qp *qp = to_hca_qp(ib);
	int rc = hca_fault(qp->dev, HCA_OP_modify_qp);

	if (rc)
		return rc;
	if (mask & ~(IB_QP_STATE | IB_QP_ACCESS_FLAGS | IB_QP_PORT))
		return -EINVAL;
	mutex_lock(&hca_fabric);
	if (mask & IB_QP_STATE)
		rc = hca_qp_change(qp, attr->qp_state);
	if (!rc && (mask & IB_QP_ACCESS_FLAGS))
		qp->access = attr->qp_access_flags;
	mutex_unlock(&hca_fabric);
	return rc;
}

static int hca_query_qp(struct ib_qp *ib, struct ib_qp_attr *attr, int mask,
			struct ib_qp_init_attr *init)
{
	struct hca_qp *qp = to_hca_qp(ib);

	*attr = (struct ib_qp_attr) {
		.qp_state = qp->state,
		.cur_qp_state = qp->state,
		.qp_access_flags = qp->access,
		.cap = {
			.max_send_wr = qp->sq.q.size,
			.max_recv_wr = qp->rq.q.size,
			.max_send_sge = qp->sq.q.max_sge,
			.max_recv_sge = qp->rq.q.max_sge,
			.max_inline_data = qp->max_inline,
		},
	};
	*init = (struct ib_qp_init_attr) {
		.qp_type = IB_QPT_RC,
		.send_cq = ib->send_cq,
		.recv_cq = ib->recv_cq,
		.cap = attr->cap,
	};
	return 0;
}

/*
 * What was completed and not polled is taken out of the CQs, as devices do it. iw_cm lets go of
 * the QP when it has seen the end of the connection.
 */
static int hca_destroy_qp(struct ib_qp *ib, struct ib_udata *udata)
{
	struct hca_qp *qp = to_hca_qp(ib);
	int rc = hca_fault(qp->dev, HCA_OP_destroy_qp);

	if (rc)
		return rc;
	mutex_lock(&hca_fabric);
	hca_qp_error(qp);
	xa_erase(&qp->dev->qps, ib->qp_num);
	mutex_unlock(&hca_fabric);
	hca_qp_put(qp);
	wait_for_completion(&qp->unused);
	cancel_work_sync(&qp->work);
	cancel_delayed_work_sync(&qp->late);
	hca_cq_forget(qp->sq.cq, ib);
	hca_cq_forget(qp->rq.cq, ib);
	hca_qp_free_queues(qp);
	hca_gone(qp->dev, qp);
	return 0;
}

const struct ib_device_ops hca_qp_ops = {
	.create_qp = hca_create_qp,
	.modify_qp = hca_modify_qp,
	.query_qp = hca_query_qp,
	.destroy_qp = hca_destroy_qp,
	.iw_add_ref = hca_iw_add_ref,
	.iw_rem_ref = hca_iw_rem_ref,
	.iw_get_qp = hca_iw_get_qp,
	INIT_RDMA_OBJ_SIZE(ib_qp, hca_qp, ib),
};

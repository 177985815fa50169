// SPDX-License-Identifier: GPL-2.0
/* Completion queues. */
#include <linux/log2.h>
#include <linux/slab.h>

#include "hca.h"

static int hca_create_cq(struct ib_cq *ib, const struct ib_cq_init_attr *attr,
			 struct uverbs_attr_bundle *attrs)
{
	struct hca_dev *dev = to_hca(ib->device);
	struct hca_cq *cq = to_hca_cq(ib);
	int rc = hca_fault(dev, HCA_OP_create_cq);

	if (rc)
		return rc;
	if (attr->flags)
		return -EOPNOTSUPP;
	if (!attr->cqe || attr->cqe > dev->limits.cqe || attr->comp_vector >= ib->device->num_comp_vectors)
		return -EINVAL;
	if (hca_born(dev, cq) > dev->limits.cq)
		goto full;
	spin_lock_init(&cq->lock);
	cq->size = attr->cqe;
	cq->mask = roundup_pow_of_two(cq->size) - 1;
	cq->ring = kvzalloc_objs(*cq->ring, cq->mask + 1);
	if (!cq->ring)
		goto full;
	ib->cqe = cq->size;
	return 0;
full:
	hca_gone(dev, cq);
	return -ENOMEM;
}

static int hca_destroy_cq(struct ib_cq *ib, struct ib_udata *udata)
{
	struct hca_dev *dev = to_hca(ib->device);
	struct hca_cq *cq = to_hca_cq(ib);
	int rc = hca_fault(dev, HCA_OP_destroy_cq);

	if (rc)
		return rc;
	kvfree(cq->ring);
	hca_gone(dev, cq);
	return 0;
}

static void hca_cq_event(struct hca_cq *cq)
{
	struct ib_event event = {
		.device = cq->ib.device, .event = IB_EVENT_CQ_ERR, .element.cq = &cq->ib,
	};

	if (cq->ib.event_handler)
		cq->ib.event_handler(&event, cq->ib.cq_context);
}

/* True: the consumer is to be told, by hca_cq_notify() once the QP's lock is free. */
bool hca_cq_push(struct hca_cq *cq, const struct hca_cqe *cqe, bool solicited)
{
	struct hca_dev *dev = to_hca(cq->ib.device);
	bool notify = false;

	spin_lock(&cq->lock);
	if (cq->head - cq->tail >= cq->size) {
		hca_count(dev, cq_overflow);
		cq->overflown = true;
		notify = true;
	} else {
		cq->ring[cq->head++ & cq->mask] = *cqe;
		hca_count(dev, completed);
		if (cqe->wc.status == IB_WC_WR_FLUSH_ERR)
			hca_count(dev, flushed);
		else if (cqe->wc.status)
			hca_count(dev, completed_error);
		solicited = solicited || cqe->wc.status;
		notify = cq->armed == IB_CQ_NEXT_COMP || (cq->armed && solicited);
		if (notify)
			cq->armed = 0;
	}
	spin_unlock(&cq->lock);
	return notify;
}

/* As an interrupt does: the handler must not sleep, and must not count on more. */
void hca_cq_notify(struct hca_cq *cq)
{
	unsigned long flags;

	local_irq_save(flags);
	if (READ_ONCE(cq->overflown)) {
		cq->overflown = false;
		hca_cq_event(cq);
	} else {
		hca_count(to_hca(cq->ib.device), notified);
		cq->ib.comp_handler(&cq->ib, cq->ib.cq_context);
	}
	local_irq_restore(flags);
}

/* Takes the completions of a QP out that goes. */
void hca_cq_forget(struct hca_cq *cq, struct ib_qp *qp)
{
	u32 from, to;

	spin_lock_irq(&cq->lock);
	for (from = cq->tail, to = from; from != cq->head; from++)
		if (cq->ring[from & cq->mask].wc.qp != qp)
			cq->ring[to++ & cq->mask] = cq->ring[from & cq->mask];
	cq->head = to;
	spin_unlock_irq(&cq->lock);
}

static int hca_poll_cq(struct ib_cq *ib, int n, struct ib_wc *wc)
{
	struct hca_dev *dev = to_hca(ib->device);
	struct hca_cq *cq = to_hca_cq(ib);
	int i, rc = hca_fault(dev, HCA_OP_poll_cq);
	unsigned long flags;
	struct hca_cqe *cqe;

	if (rc)
		return rc;
	spin_lock_irqsave(&cq->lock, flags);
	for (i = 0; i < n && cq->tail != cq->head; i++) {
		cqe = &cq->ring[cq->tail++ & cq->mask];
		wc[i] = cqe->wc;
		WRITE_ONCE(*cqe->tail, cqe->retire);
	}
	spin_unlock_irqrestore(&cq->lock, flags);
	hca_count(dev, polls);
	hca_count_n(dev, polled, i);
	return i;
}

static int hca_arm_cq(struct ib_cq *ib, enum ib_cq_notify_flags how)
{
	struct hca_dev *dev = to_hca(ib->device);
	struct hca_cq *cq = to_hca_cq(ib);
	int rc = hca_fault(dev, HCA_OP_arm_cq);
	unsigned long flags;

	if (rc)
		return rc;
	hca_count(dev, armed);
	spin_lock_irqsave(&cq->lock, flags);
	/* Being told of all is not taken back by asking for some. */
	if (cq->armed != IB_CQ_NEXT_COMP)
		cq->armed = how & IB_CQ_SOLICITED_MASK;
	if ((how & IB_CQ_REPORT_MISSED_EVENTS) && cq->tail != cq->head)
		rc = 1;
	spin_unlock_irqrestore(&cq->lock, flags);
	if (rc)
		hca_count(dev, arm_missed);
	return rc;
}

const struct ib_device_ops hca_cq_ops = {
	.create_cq = hca_create_cq,
	.destroy_cq = hca_destroy_cq,
	.poll_cq = hca_poll_cq,
	.req_notify_cq = hca_arm_cq,
	INIT_RDMA_OBJ_SIZE(ib_cq, hca_cq, ib),
};

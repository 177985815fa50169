// SPDX-License-Identifier: GPL-2.0
/*
 * Shims over verbs, for rust/rdma. They decide nothing.
 */
#include <linux/mutex.h>
#include <linux/string.h>

#include <ko2iblnd/verbs.h>

#include "check/dma_check.h"

void kor_device_caps(struct ib_device *dev, struct kor_device_caps *caps)
{
	const struct ib_device_attr *attr = &dev->attrs;

	*caps = (struct kor_device_caps) {
		.max_mr_size = attr->max_mr_size,
		.page_size_cap = attr->page_size_cap,
		.max_qp_wr = attr->max_qp_wr,
		.max_cqe = attr->max_cqe,
		.max_send_sge = attr->max_send_sge,
		.max_recv_sge = attr->max_recv_sge,
		.max_fast_reg_pages = attr->max_fast_reg_page_list_len,
		.ports = dev->phys_port_cnt,
		.comp_vectors = dev->num_comp_vectors,
		.node = ibdev_to_node(dev),
		.fast_reg = attr->device_cap_flags &
			    IB_DEVICE_MEM_MGT_EXTENSIONS,
		.sg_gaps = attr->kernel_cap_flags & IBK_SG_GAPS_REG,
	};
}

void kor_device_name(struct ib_device *dev, u8 *name)
{
	/*
	 * Not dev_name(), whose memory a renaming frees; the lock that guards
	 * it is private to the core. This array stays, and a copy of it made
	 * while it is written is at worst a mixture of two names.
	 */
	strscpy(name, dev->name, KOR_DEVICE_NAME_MAX);
}

bool kor_device_get(struct ib_device *dev)
{
	return ib_device_try_get(dev);
}

void kor_device_put(struct ib_device *dev)
{
	ib_device_put(dev);
}

int kor_device_port_active(struct ib_device *dev, u32 port)
{
	struct ib_port_attr attr;
	int rc;

	rc = ib_query_port(dev, port, &attr);
	if (rc)
		return rc;
	return attr.state == IB_PORT_ACTIVE;
}

static void kor_device_event(struct ib_event_handler *handler,
			     struct ib_event *event)
{
	struct kor_event_handler *eh =
		container_of(handler, struct kor_event_handler, handler);
	u32 port = 0;

	switch (event->event) {
	case IB_EVENT_PORT_ACTIVE:
	case IB_EVENT_PORT_ERR:
	case IB_EVENT_GID_CHANGE:
		port = event->element.port_num;
		fallthrough;
	case IB_EVENT_DEVICE_FATAL:
		eh->fn(eh->ctx, event->event, port);
		break;
	default:
		break;
	}
}

void kor_event_handler_register(struct kor_event_handler *eh,
				struct ib_device *dev,
				void (*fn)(void *ctx, u32 event, u32 port),
				void *ctx)
{
	eh->fn = fn;
	eh->ctx = ctx;
	INIT_IB_EVENT_HANDLER(&eh->handler, dev, kor_device_event);
	ib_register_event_handler(&eh->handler);
}

void kor_event_handler_unregister(struct kor_event_handler *eh)
{
	ib_unregister_event_handler(&eh->handler);
}

/* The one client; written only while it is not registered. */
static struct {
	void (*add)(void *ctx, struct ib_device *dev);
	void (*remove)(void *ctx, struct ib_device *dev);
	void *ctx;
	bool used;
} kor_client_user;

static DEFINE_MUTEX(kor_client_mutex);

static int kor_client_add(struct ib_device *dev)
{
	kor_client_user.add(kor_client_user.ctx, dev);
	return 0;
}

static void kor_client_remove(struct ib_device *dev, void *client_data)
{
	kor_client_user.remove(kor_client_user.ctx, dev);
}

static struct ib_client kor_client = {
	.name = KBUILD_MODNAME,
	.add = kor_client_add,
	.remove = kor_client_remove,
};

int kor_client_register(void (*add)(void *ctx, struct ib_device *dev),
			void (*remove)(void *ctx, struct ib_device *dev),
			void *ctx)
{
	int rc = -EBUSY;

	mutex_lock(&kor_client_mutex);
	if (!kor_client_user.used) {
		kor_client_user.add = add;
		kor_client_user.remove = remove;
		kor_client_user.ctx = ctx;
		rc = ib_register_client(&kor_client);
		kor_client_user.used = !rc;
	}
	mutex_unlock(&kor_client_mutex);
	return rc;
}

void kor_client_unregister(void)
{
	mutex_lock(&kor_client_mutex);
	ib_unregister_client(&kor_client);
	kor_client_user.used = false;
	mutex_unlock(&kor_client_mutex);
}

struct ib_pd *kor_pd_alloc(struct ib_device *dev)
{
	if (kor_dma_check_call())
		return ERR_PTR(-ENOMEM);
	return ib_alloc_pd(dev, 0);
}

void kor_pd_free(struct ib_pd *pd)
{
	ib_dealloc_pd(pd);
}

u32 kor_pd_lkey(struct ib_pd *pd)
{
	return pd->local_dma_lkey;
}

struct ib_cq *kor_cq_create(struct ib_device *dev, ib_comp_handler comp,
			    void (*event)(struct ib_event *event, void *ctx),
			    void *ctx, u32 cqe, u32 vector)
{
	struct ib_cq_init_attr attr = {
		.cqe = cqe,
		.comp_vector = vector,
	};

	if (kor_dma_check_call())
		return ERR_PTR(-ENOMEM);
	return ib_create_cq(dev, comp, event, ctx, &attr);
}

void kor_cq_destroy(struct ib_cq *cq)
{
	ib_destroy_cq(cq);
}

int kor_cq_poll(struct ib_cq *cq, int n, struct ib_wc *wc)
{
	return ib_poll_cq(cq, n, wc);
}

int kor_cq_arm(struct ib_cq *cq)
{
	return ib_req_notify_cq(cq, IB_CQ_NEXT_COMP |
				    IB_CQ_REPORT_MISSED_EVENTS);
}

int kor_qp_create(struct rdma_cm_id *id, struct ib_pd *pd, struct ib_cq *cq,
		  void (*event)(struct ib_event *event, void *ctx), void *ctx,
		  struct kor_qp_caps *caps)
{
	struct ib_qp_init_attr attr = {
		.event_handler = event,
		.qp_context = ctx,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {
			.max_send_wr = caps->max_send_wr,
			.max_recv_wr = caps->max_recv_wr,
			.max_send_sge = caps->max_send_sge,
			.max_recv_sge = caps->max_recv_sge,
			.max_inline_data = caps->max_inline_data,
		},
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
	};
	int rc;

	if (kor_dma_check_call())
		return -ENOMEM;
	rc = kor_dma_check_qp();
	if (!rc)
		rc = rdma_create_qp(id, pd, &attr);
	if (rc)
		return rc;
	*caps = (struct kor_qp_caps) {
		.max_send_wr = attr.cap.max_send_wr,
		.max_recv_wr = attr.cap.max_recv_wr,
		.max_send_sge = attr.cap.max_send_sge,
		.max_recv_sge = attr.cap.max_recv_sge,
		.max_inline_data = attr.cap.max_inline_data,
	};
	return 0;
}

struct ib_qp *kor_qp_of(struct rdma_cm_id *id)
{
	return id->qp;
}

u32 kor_qp_num(const struct ib_qp *qp)
{
	return qp->qp_num;
}

int kor_qp_to_error(struct ib_qp *qp)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	return ib_modify_qp(qp, &attr, IB_QP_STATE);
}

int kor_qp_post_send(struct ib_qp *qp, struct ib_send_wr *wr, u32 *accepted)
{
	const struct ib_send_wr *bad = NULL;
	const struct ib_send_wr *pos;
	u32 n = 0;
	int rc;

	kor_dma_check_send(qp->device, wr);
	rc = kor_dma_check_post_send(qp, wr, &bad);
	for (pos = wr; pos && (!rc || pos != bad); pos = pos->next)
		n++;
	/* A provider that refuses the chain without saying where took none. */
	*accepted = rc && !bad ? 0 : n;
	return rc;
}

int kor_qp_post_recv(struct ib_qp *qp, struct ib_recv_wr *wr, u32 *accepted)
{
	const struct ib_recv_wr *bad = NULL;
	const struct ib_recv_wr *pos;
	u32 n = 0;
	int rc;

	kor_dma_check_recv(qp->device, wr);
	rc = kor_dma_check_post_recv(qp, wr, &bad);
	for (pos = wr; pos && (!rc || pos != bad); pos = pos->next)
		n++;
	*accepted = rc && !bad ? 0 : n;
	return rc;
}

struct ib_mr *kor_mr_alloc(struct ib_pd *pd, u32 max_pages, bool gaps)
{
	if (kor_dma_check_call())
		return ERR_PTR(-ENOMEM);
	return ib_alloc_mr(pd, gaps ? IB_MR_TYPE_SG_GAPS : IB_MR_TYPE_MEM_REG,
			   max_pages);
}

int kor_mr_free(struct ib_mr *mr)
{
	if (kor_dma_check_dereg())
		return -EIO;
	return ib_dereg_mr(mr);
}

int kor_mr_map(struct ib_mr *mr, struct scatterlist *sgl, u32 nents)
{
	if (kor_dma_check_call())
		return -ENOMEM;
	ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
	return ib_map_mr_sg(mr, sgl, nents, NULL, PAGE_SIZE);
}

u32 kor_mr_rkey(const struct ib_mr *mr)
{
	return mr->rkey;
}

u64 kor_mr_iova(const struct ib_mr *mr)
{
	return mr->iova;
}

u64 kor_mr_length(const struct ib_mr *mr)
{
	return mr->length;
}

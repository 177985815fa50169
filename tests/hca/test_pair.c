// SPDX-License-Identifier: GPL-2.0
/* Two connected queue pairs on 10.97.0.1 and 10.97.0.2, and short ways to post and poll. */
#include <linux/delay.h>
#include <linux/in.h>
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include "test.h"

static unsigned int wait_ms = 5000;
module_param(wait_ms, uint, 0);
MODULE_PARM_DESC(wait_ms, "how long an event or a completion may take");

#define T_WAIT		msecs_to_jiffies(wait_ms)

static struct sockaddr_in t_addr(u8 host, u16 port)
{
	return (struct sockaddr_in) {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(0x0a610000 + host),	/* 10.97.0.x */
	};
}

/* --------------------------------------------------------------- callbacks */

static void t_qp_event(struct ib_event *event, void *ctx)
{
	WRITE_ONCE(((struct t_end *)ctx)->qp_event, event->event);
}

static void t_cq_event(struct ib_event *event, void *ctx)
{
	WRITE_ONCE(((struct t_end *)ctx)->cq_event, event->event);
}

static void t_notified(struct ib_cq *cq, void *ctx)
{
	struct t_end *e = ctx;

	WRITE_ONCE(e->notified, e->notified + 1);
}

static int t_make_qp(struct t_end *e)
{
	struct ib_cq_init_attr cq_attr = { .cqe = 2 * T_DEPTH };
	struct ib_qp_init_attr attr = {
		.cap = { T_DEPTH, T_DEPTH, T_SGE, T_SGE, T_INLINE },
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
		.event_handler = t_qp_event,
		.qp_context = e,
	};
	struct ib_device *dev = e->id->device;

	e->pd = ib_alloc_pd(dev, 0);
	e->scq = ib_create_cq(dev, t_notified, t_cq_event, e, &cq_attr);
	e->rcq = ib_create_cq(dev, t_notified, t_cq_event, e, &cq_attr);
	e->buf = (u8 *)__get_free_pages(GFP_KERNEL | __GFP_ZERO, get_order(T_SIZE));
	if (IS_ERR(e->pd) || IS_ERR(e->scq) || IS_ERR(e->rcq) || !e->buf)
		return -ENOMEM;
	e->dma = ib_dma_map_single(dev, e->buf, T_SIZE, DMA_BIDIRECTIONAL);
	attr.send_cq = e->scq;
	attr.recv_cq = e->rcq;
	if (rdma_create_qp(e->id, e->pd, &attr))
		return -EIO;
	e->qp = e->id->qp;
	return 0;
}

/* All but the id. */
static void t_end_clear(struct t_end *e)
{
	if (e->qp)
		rdma_destroy_qp(e->id);
	if (e->dma)
		ib_dma_unmap_single(e->id->device, e->dma, T_SIZE, DMA_BIDIRECTIONAL);
	free_pages((unsigned long)e->buf, get_order(T_SIZE));
	if (!IS_ERR_OR_NULL(e->scq))
		ib_destroy_cq(e->scq);
	if (!IS_ERR_OR_NULL(e->rcq))
		ib_destroy_cq(e->rcq);
	if (!IS_ERR_OR_NULL(e->pd))
		ib_dealloc_pd(e->pd);
}

static int t_cm(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct t_end *e = id->context;

	e->cm_event = event->event;
	e->cm_status = event->status;
	if (event->param.conn.private_data_len)
		e->cm_data = *(const u8 *)event->param.conn.private_data;
	complete(&e->cm_done);
	return 0;
}

static int t_cm_listener(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1 };
	struct t_pair *p = id->context;
	u8 no = 0x5a;
	int rc;

	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		return 0;
	if (p->reject) {
		rdma_reject(id, &no, 1, IB_CM_REJ_CONSUMER_DEFINED);
		return -ECONNREFUSED;
	}
	p->b.id = id;
	id->context = &p->b;
	id->event_handler = t_cm;
	rc = t_make_qp(&p->b) ?: rdma_accept(id, &param);
	if (rc) {
		/* The CM destroys the id. */
		t_end_clear(&p->b);
		p->b.id = NULL;
	}
	return rc;
}

/* -------------------------------------------------------------- connecting */

/* The event that came, or -1. */
int t_wait_cm(struct t_end *e)
{
	return wait_for_completion_timeout(&e->cm_done, T_WAIT) ? e->cm_event : -1;
}

static void t_end_init(struct t_end *e)
{
	init_completion(&e->cm_done);
	e->qp_event = -1;
	e->cq_event = -1;
}

static int t_listen(struct t_pair *p)
{
	struct sockaddr_in addr = t_addr(2, T_PORT);
	int rc;

	p->listener = rdma_create_id(&init_net, t_cm_listener, p, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(p->listener)) {
		rc = PTR_ERR(p->listener);
		p->listener = NULL;
		return rc;
	}
	return rdma_bind_addr(p->listener, (struct sockaddr *)&addr) ?: rdma_listen(p->listener, 4);
}

/* The CM's event that ends the attempt, or an error. */
int t_dial(struct t_pair *p, u16 port)
{
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1 };
	struct sockaddr_in from = t_addr(1, 0), to = t_addr(2, port);
	struct t_end *e = &p->a;

	e->id = rdma_create_id(&init_net, t_cm, e, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(e->id))
		return PTR_ERR(e->id);
	if (rdma_resolve_addr(e->id, (struct sockaddr *)&from, (struct sockaddr *)&to, 1000) ||
	    t_wait_cm(e) != RDMA_CM_EVENT_ADDR_RESOLVED || rdma_resolve_route(e->id, 1000) ||
	    t_wait_cm(e) != RDMA_CM_EVENT_ROUTE_RESOLVED || t_make_qp(e) ||
	    rdma_connect(e->id, &param))
		return -EIO;
	return t_wait_cm(e);
}

struct t_pair *t_pair_new(bool reject)
{
	struct t_pair *p = kzalloc_obj(*p);

	if (!p)
		return NULL;
	t_end_init(&p->a);
	t_end_init(&p->b);
	p->reject = reject;
	if (!t_listen(p) && (reject || (t_dial(p, T_PORT) == RDMA_CM_EVENT_ESTABLISHED &&
					t_wait_cm(&p->b) == RDMA_CM_EVENT_ESTABLISHED)))
		return p;
	t_pair_free(p);
	return NULL;
}

static void t_end_free(struct t_end *e)
{
	if (IS_ERR_OR_NULL(e->id))
		return;
	t_end_clear(e);
	rdma_destroy_id(e->id);
}

void t_pair_free(struct t_pair *p)
{
	if (p->listener)
		rdma_destroy_id(p->listener);
	t_end_free(&p->a);
	t_end_free(&p->b);
	kfree(p);
}

/* ------------------------------------------------------------------ posting */

struct ib_sge t_sge(struct t_end *e, u32 len)
{
	return (struct ib_sge) { e->dma, len, e->pd->local_dma_lkey };
}

int t_recv(struct t_end *e, u64 wr_id, u32 len, u32 lkey)
{
	struct ib_sge sge = { e->dma, len, lkey };
	struct ib_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };

	return ib_post_recv(e->qp, &wr, NULL);
}

int t_recv_ok(struct t_end *e, u64 wr_id, u32 len)
{
	return t_recv(e, wr_id, len, e->pd->local_dma_lkey);
}

struct ib_rdma_wr t_wr(struct t_end *e, u64 wr_id, enum ib_wr_opcode op, struct ib_sge *sge)
{
	return (struct ib_rdma_wr) {
		.wr = { .wr_id = wr_id, .sg_list = sge, .num_sge = sge ? 1 : 0, .opcode = op,
			.send_flags = IB_SEND_SIGNALED },
	};
}

int t_post(struct t_end *e, struct ib_rdma_wr *wr)
{
	return ib_post_send(e->qp, &wr->wr, NULL);
}

int t_rdma(struct t_end *e, u64 wr_id, enum ib_wr_opcode op, u32 len, u64 raddr, u32 rkey)
{
	struct ib_sge sge = t_sge(e, len);
	struct ib_rdma_wr wr = t_wr(e, wr_id, op, &sge);

	wr.remote_addr = raddr;
	wr.rkey = rkey;
	if (op == IB_WR_SEND_WITH_INV)
		wr.wr.ex.invalidate_rkey = rkey;
	return t_post(e, &wr);
}

int t_map(struct t_end *e, struct ib_mr *mr, u32 bytes)
{
	struct scatterlist sg;

	sg_init_one(&sg, e->buf, bytes);
	sg_dma_address(&sg) = e->dma;
	sg_dma_len(&sg) = bytes;
	return ib_map_mr_sg(mr, &sg, 1, NULL, PAGE_SIZE);
}

static struct ib_mr *t_try_mr(struct t_end *e, u32 pages, u32 bytes)
{
	struct ib_mr *mr = ib_alloc_mr(e->pd, IB_MR_TYPE_MEM_REG, pages);

	if (IS_ERR(mr) || t_map(e, mr, bytes) == 1)
		return mr;
	ib_dereg_mr(mr);
	return ERR_PTR(-EINVAL);
}

/*
 * An MR over the first bytes of the buffer, mapped and not registered. Where a failure was ordered,
 * that is a failed check, and the next try works.
 */
struct ib_mr *t_mr(struct t_end *e, u32 pages, u32 bytes)
{
	struct ib_mr *mr = t_try_mr(e, pages, bytes);

	T(!IS_ERR(mr));
	return IS_ERR(mr) ? t_try_mr(e, pages, bytes) : mr;
}

int t_reg(struct t_end *e, u64 wr_id, struct ib_mr *mr, u32 key, int access)
{
	struct ib_reg_wr wr = {
		.wr = { .wr_id = wr_id, .opcode = IB_WR_REG_MR, .send_flags = IB_SEND_SIGNALED },
		.mr = mr, .key = key, .access = access,
	};

	return ib_post_send(e->qp, &wr.wr, NULL);
}

int t_inv(struct t_end *e, u64 wr_id, u32 key)
{
	struct ib_rdma_wr wr = t_wr(e, wr_id, IB_WR_LOCAL_INV, NULL);

	wr.wr.ex.invalidate_rkey = key;
	return t_post(e, &wr);
}

bool t_registered(struct t_end *e, struct ib_mr *mr, int access)
{
	return !IS_ERR(mr) && !t_reg(e, 99, mr, mr->rkey, access) &&
	       t_ends(e->scq, 99, IB_WC_SUCCESS);
}

/* ------------------------------------------------------------------ polling */

bool t_wc(struct ib_cq *cq, struct ib_wc *wc)
{
	unsigned long end = jiffies + T_WAIT;
	int n;

	do {
		n = ib_poll_cq(cq, 1, wc);
		if (n)
			return n == 1;
		usleep_range(50, 100);
	} while (time_before(jiffies, end));
	return false;
}

/* The next completion is that of this request, with this status. */
bool t_ends(struct ib_cq *cq, u64 wr_id, enum ib_wc_status status)
{
	struct ib_wc wc;

	if (!t_wc(cq, &wc)) {
		pr_err("no completion of %llu\n", wr_id);
		return false;
	}
	if (wc.wr_id != wr_id || wc.status != status)
		pr_err("completion of %llu: %s, not %llu: %s\n", wc.wr_id,
		       ib_wc_status_msg(wc.status), wr_id, ib_wc_status_msg(status));
	return wc.wr_id == wr_id && wc.status == status;
}

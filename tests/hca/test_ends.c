// SPDX-License-Identifier: GPL-2.0
/* How connections, queue pairs and the device end. */
#include <linux/delay.h>
#include <linux/err.h>

#include "test.h"

static bool t_in_error(struct t_end *e)
{
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;

	return !ib_query_qp(e->qp, &attr, IB_QP_STATE, &init) && attr.qp_state == IB_QPS_ERR;
}

static void t_disconnect(struct t_pair *p)
{
	T(!t_recv_ok(&p->a, 1, 100));
	T(!t_recv_ok(&p->b, 2, 100));
	T(!rdma_disconnect(p->a.id));
	T(t_wait_cm(&p->a) == RDMA_CM_EVENT_DISCONNECTED);
	T(t_wait_cm(&p->b) == RDMA_CM_EVENT_DISCONNECTED);
	T(t_ends(p->a.rcq, 1, IB_WC_WR_FLUSH_ERR));
	T(t_ends(p->b.rcq, 2, IB_WC_WR_FLUSH_ERR));
	T(t_in_error(&p->a) && t_in_error(&p->b));
	/* An orderly end is no event of the queue pair. */
	T(p->a.qp_event == -1 && p->b.qp_event == -1);
}

/* Its completions go with it; the other side sees the end. */
static void t_destroy(struct t_pair *p)
{
	struct ib_wc wc;

	T(!t_recv_ok(&p->a, 1, 100));
	T(!t_recv_ok(&p->b, 2, 100));
	rdma_destroy_qp(p->a.id);
	p->a.qp = NULL;
	T(!ib_poll_cq(p->a.rcq, 1, &wc));
	T(t_ends(p->b.rcq, 2, IB_WC_WR_FLUSH_ERR));
	T(t_wait_cm(&p->b) == RDMA_CM_EVENT_DISCONNECTED);
}

/* More completions than its consumer made room for. */
static void t_cq_overflow(struct t_pair *p)
{
	struct ib_cq_init_attr attr = { .cqe = 2 };
	struct ib_qp_init_attr init = {
		.cap = { T_DEPTH, T_DEPTH, 1, 1, 0 }, .qp_type = IB_QPT_RC,
	};
	struct ib_qp_attr to_error = { .qp_state = IB_QPS_ERR };
	struct ib_cq *cq = ib_create_cq(p->a.id->device, p->a.scq->comp_handler,
					p->a.scq->event_handler, &p->a, &attr);
	struct ib_qp *own = p->a.qp;
	int i;

	T(!IS_ERR(cq));
	init.send_cq = cq;
	init.recv_cq = cq;
	p->a.qp = ib_create_qp(p->a.pd, &init);
	T(t_recv_ok(&p->a, 0, 100) == -EINVAL);
	to_error.qp_state = IB_QPS_INIT;
	T(!ib_modify_qp(p->a.qp, &to_error, IB_QP_STATE));
	for (i = 0; i < 3; i++)
		T(!t_recv_ok(&p->a, i, 100));
	T(t_rdma(&p->a, 1, IB_WR_SEND, 1, 0, 0) == -EINVAL);
	to_error.qp_state = IB_QPS_ERR;
	T(!ib_modify_qp(p->a.qp, &to_error, IB_QP_STATE));
	for (i = 0; i < 500 && READ_ONCE(p->a.cq_event) == -1; i++)
		usleep_range(1000, 2000);
	T(p->a.cq_event == IB_EVENT_CQ_ERR);
	T(!ib_destroy_qp(p->a.qp));
	ib_destroy_cq(cq);
	p->a.qp = own;
}

/* A queue pair gets to RTS by a connection alone, and never back. */
static void t_states(struct t_pair *p)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_INIT };

	T(ib_modify_qp(p->a.qp, &attr, IB_QP_STATE) == -EINVAL);
	attr.qp_state = IB_QPS_ERR;
	T(!ib_modify_qp(p->a.qp, &attr, IB_QP_STATE));
	attr.qp_state = IB_QPS_RTS;
	T(ib_modify_qp(p->a.qp, &attr, IB_QP_STATE) == -EINVAL);
	T(t_in_error(&p->a) && t_in_error(&p->b));
}

static void t_limits(struct t_pair *p)
{
	const struct ib_device_attr *attr = &p->a.id->device->attrs;
	struct ib_cq_init_attr cq = { .cqe = attr->max_cqe + 1 };
	struct ib_qp_init_attr init = {
		.cap = { T_DEPTH, T_DEPTH, attr->max_send_sge + 1, 1, 0 },
		.qp_type = IB_QPT_RC, .send_cq = p->a.scq, .recv_cq = p->a.rcq,
	};

	T(PTR_ERR(ib_create_cq(p->a.id->device, NULL, NULL, NULL, &cq)) == -EINVAL);
	T(PTR_ERR(ib_create_qp(p->a.pd, &init)) == -EINVAL);
	init.cap.max_send_sge = 1;
	init.cap.max_send_wr = attr->max_qp_wr + 1;
	T(PTR_ERR(ib_create_qp(p->a.pd, &init)) == -EINVAL);
	init.cap.max_send_wr = 1;
	init.qp_type = IB_QPT_UC;
	T(PTR_ERR(ib_create_qp(p->a.pd, &init)) == -EOPNOTSUPP);
}

void (*const t_ends_tests[])(struct t_pair *p) = {
	t_disconnect, t_destroy, t_cq_overflow, t_states, t_limits, NULL
};

void t_refused(void)
{
	struct t_pair *p = t_pair_new(true);

	T(p);
	if (!p)
		return;
	T(t_dial(p, T_NO_PORT) == RDMA_CM_EVENT_REJECTED);
	T(p->a.cm_status == -ECONNREFUSED);
	t_pair_free(p);
}

void t_rejected(void)
{
	struct t_pair *p = t_pair_new(true);

	T(p);
	if (!p)
		return;
	T(t_dial(p, T_PORT) == RDMA_CM_EVENT_REJECTED);
	T(p->a.cm_data == 0x5a);
	t_pair_free(p);
}

/* The device goes while both ends are open: both are told, and can clean up. */
void t_removal(void)
{
	struct t_pair *p = t_pair_new(false);
	int event;

	T(p);
	if (!p)
		return;
	T(!t_recv_ok(&p->a, 1, 100));
	event = t_wait_cm(&p->a);
	T(event == RDMA_CM_EVENT_DEVICE_REMOVAL);
	T(t_wait_cm(&p->b) == RDMA_CM_EVENT_DEVICE_REMOVAL);
	t_pair_free(p);
}

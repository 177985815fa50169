// SPDX-License-Identifier: GPL-2.0
/* Queues: what fits, in which order it ends, and who is told. */
#include <linux/delay.h>

#include "test.h"

static void t_send(struct t_pair *p)
{
	struct ib_wc wc;

	memset(p->a.buf, 0x33, 100);
	T(!t_recv_ok(&p->b, 2, 200));
	T(!t_rdma(&p->a, 1, IB_WR_SEND, 100, 0, 0));
	T(t_wc(p->a.scq, &wc) && wc.wr_id == 1 && !wc.status && wc.opcode == IB_WC_SEND);
	T(t_wc(p->b.rcq, &wc) && wc.wr_id == 2 && !wc.status && wc.opcode == IB_WC_RECV);
	T(wc.byte_len == 100 && wc.qp == p->b.qp && p->b.buf[99] == 0x33 && !p->b.buf[100]);
	T(!ib_poll_cq(p->a.scq, 1, &wc));
}

/* A chain that is one too long: the last is refused and named. */
static void t_sq_full(struct t_pair *p)
{
	struct ib_rdma_wr wr[T_DEPTH + 1];
	const struct ib_send_wr *bad;
	int i;

	for (i = 0; i <= T_DEPTH; i++) {
		wr[i] = t_wr(&p->a, i, IB_WR_RDMA_WRITE, NULL);
		wr[i].wr.next = i < T_DEPTH ? &wr[i + 1].wr : NULL;
	}
	T(ib_post_send(p->a.qp, &wr[0].wr, &bad) == -ENOMEM);
	T(bad == &wr[T_DEPTH].wr);
	msleep(20);
	/* All are completed; none is polled. */
	T(t_post(&p->a, &wr[T_DEPTH]) == -ENOMEM);
	T(t_ends(p->a.scq, 0, IB_WC_SUCCESS));
	T(!t_post(&p->a, &wr[T_DEPTH]));
	for (i = 1; i <= T_DEPTH; i++)
		T(t_ends(p->a.scq, i, IB_WC_SUCCESS));
}

/* Without a completion, a request goes with the next one that has one. */
static void t_unsignaled(struct t_pair *p)
{
	struct ib_rdma_wr wr = t_wr(&p->a, 0, IB_WR_RDMA_WRITE, NULL);
	struct ib_wc wc;
	int i;

	wr.wr.send_flags = 0;
	for (i = 0; i < T_DEPTH - 1; i++)
		T(!t_post(&p->a, &wr));
	wr.wr.send_flags = IB_SEND_SIGNALED;
	wr.wr.wr_id = 7;
	T(!t_post(&p->a, &wr));
	T(t_post(&p->a, &wr) == -ENOMEM);
	T(t_ends(p->a.scq, 7, IB_WC_SUCCESS));
	T(!ib_poll_cq(p->a.scq, 1, &wc));
	for (i = 0; i < T_DEPTH; i++)
		T(!t_post(&p->a, &wr));
}

static void t_rq_full(struct t_pair *p)
{
	int i;

	for (i = 0; i < T_DEPTH; i++)
		T(!t_recv_ok(&p->b, i, 100));
	T(t_recv_ok(&p->b, 9, 100) == -ENOMEM);
	T(!t_rdma(&p->a, 1, IB_WR_SEND, 100, 0, 0));
	T(t_ends(p->b.rcq, 0, IB_WC_SUCCESS));
	T(!t_recv_ok(&p->b, 9, 100));
}

static void t_too_many_sges(struct t_pair *p)
{
	struct ib_sge sge[T_SGE + 1] = { t_sge(&p->a, 1), t_sge(&p->a, 1), t_sge(&p->a, 1) };
	struct ib_rdma_wr wr = t_wr(&p->a, 1, IB_WR_SEND, sge);
	struct ib_recv_wr recv = { .sg_list = sge, .num_sge = T_SGE + 1 };

	wr.wr.num_sge = T_SGE + 1;
	T(t_post(&p->a, &wr) == -EINVAL);
	T(ib_post_recv(p->a.qp, &recv, NULL) == -EINVAL);
	wr.wr.opcode = IB_WR_RDMA_READ;
	wr.wr.num_sge = 2;
	T(t_post(&p->a, &wr) == -EINVAL);
}

static void t_opcodes(struct t_pair *p)
{
	struct ib_sge sge = t_sge(&p->a, 8);
	struct ib_rdma_wr wr = t_wr(&p->a, 1, IB_WR_ATOMIC_CMP_AND_SWP, &sge);

	T(t_post(&p->a, &wr) == -EINVAL);
	wr.wr.opcode = IB_WR_RDMA_WRITE_WITH_IMM;
	T(t_post(&p->a, &wr) == -EINVAL);
}

/* Inline data is taken when posted, from the stack, too. */
static void t_inline(struct t_pair *p)
{
	u8 data[T_INLINE + 1] = { 0x44 };
	struct ib_sge sge = { (uintptr_t)data, T_INLINE, 0 };
	struct ib_rdma_wr wr = t_wr(&p->a, 1, IB_WR_SEND, &sge);

	wr.wr.send_flags |= IB_SEND_INLINE;
	T(!t_recv_ok(&p->b, 2, 100));
	T(!t_post(&p->a, &wr));
	data[0] = 0;
	T(t_ends(p->a.scq, 1, IB_WC_SUCCESS));
	T(t_ends(p->b.rcq, 2, IB_WC_SUCCESS));
	T(p->b.buf[0] == 0x44);
	sge.length++;
	T(t_post(&p->a, &wr) == -EINVAL);
}

static void t_no_recv(struct t_pair *p)
{
	T(!t_rdma(&p->a, 1, IB_WR_SEND, 100, 0, 0));
	T(t_ends(p->a.scq, 1, IB_WC_RNR_RETRY_EXC_ERR));
	T(p->b.qp_event == IB_EVENT_QP_FATAL);
}

static void t_short_recv(struct t_pair *p)
{
	T(!t_recv_ok(&p->b, 2, 99));
	T(!t_rdma(&p->a, 1, IB_WR_SEND, 100, 0, 0));
	T(t_ends(p->a.scq, 1, IB_WC_REM_INV_REQ_ERR));
	T(t_ends(p->b.rcq, 2, IB_WC_LOC_LEN_ERR));
	T(p->b.qp_event == IB_EVENT_QP_REQ_ERR);
}

static bool t_to_error(struct t_end *e)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	return !ib_modify_qp(e->qp, &attr, IB_QP_STATE);
}

/* In the order of posting; what is posted later, too; signalled or not. */
static void t_flush(struct t_pair *p)
{
	struct ib_rdma_wr wr = t_wr(&p->a, 12, IB_WR_RDMA_WRITE, NULL);
	int i;

	for (i = 0; i < T_DEPTH - 1; i++)
		T(!t_recv_ok(&p->a, i, 100));
	T(t_to_error(&p->a));
	T(!t_recv_ok(&p->a, i, 100));
	for (i = 0; i < T_DEPTH; i++)
		T(t_ends(p->a.rcq, i, IB_WC_WR_FLUSH_ERR));
	T(!t_rdma(&p->a, 11, IB_WR_SEND, 100, 0, 0));
	wr.wr.send_flags = 0;
	T(!t_post(&p->a, &wr));
	T(t_ends(p->a.scq, 11, IB_WC_WR_FLUSH_ERR));
	T(t_ends(p->a.scq, 12, IB_WC_WR_FLUSH_ERR));
}

/* What failed comes first, then what was behind it. */
static void t_flush_after_error(struct t_pair *p)
{
	struct ib_sge sge = t_sge(&p->a, 100);
	struct ib_rdma_wr bad = t_wr(&p->a, 1, IB_WR_SEND, &sge), next = bad;

	sge.lkey++;
	bad.wr.next = &next.wr;
	next.wr.wr_id = 2;
	T(!t_post(&p->a, &bad));
	T(t_ends(p->a.scq, 1, IB_WC_LOC_PROT_ERR));
	T(t_ends(p->a.scq, 2, IB_WC_WR_FLUSH_ERR));
}

/* ------------------------------------------------------------- notification */

static bool t_told(struct t_end *e, int times)
{
	int i;

	for (i = 0; i < 200 && READ_ONCE(e->notified) < times; i++)
		usleep_range(500, 1000);
	msleep(40);
	return READ_ONCE(e->notified) == times;
}

static void t_arm(struct t_pair *p)
{
	struct ib_cq *cq = p->b.rcq;
	int i;

	for (i = 0; i < T_DEPTH; i++)
		T(!t_recv_ok(&p->b, i, 100));
	T(!t_rdma(&p->a, 1, IB_WR_SEND, 100, 0, 0));
	T(t_told(&p->b, 0));
	T(ib_req_notify_cq(cq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS) > 0);
	T(t_ends(cq, 0, IB_WC_SUCCESS));
	T(!ib_req_notify_cq(cq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS));
	T(!t_rdma(&p->a, 2, IB_WR_SEND, 100, 0, 0));
	T(t_told(&p->b, 1));
	/* Once for each time that it was asked for. */
	T(!t_rdma(&p->a, 3, IB_WR_SEND, 100, 0, 0));
	T(t_told(&p->b, 1));
}

static void t_arm_solicited(struct t_pair *p)
{
	struct ib_sge sge = t_sge(&p->a, 100);
	struct ib_rdma_wr wr = t_wr(&p->a, 2, IB_WR_SEND, &sge);

	T(!t_recv_ok(&p->b, 1, 100));
	T(!t_recv_ok(&p->b, 2, 100));
	T(!ib_req_notify_cq(p->b.rcq, IB_CQ_SOLICITED));
	T(!t_rdma(&p->a, 1, IB_WR_SEND, 100, 0, 0));
	T(t_told(&p->b, 0));
	wr.wr.send_flags |= IB_SEND_SOLICITED;
	T(!t_post(&p->a, &wr));
	T(t_told(&p->b, 1));
}

void (*const t_queues[])(struct t_pair *p) = {
	t_send, t_sq_full, t_unsignaled, t_rq_full, t_too_many_sges, t_opcodes, t_inline,
	t_no_recv, t_short_recv, t_flush, t_flush_after_error, t_arm, t_arm_solicited, NULL
};

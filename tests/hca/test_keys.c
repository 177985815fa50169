// SPDX-License-Identifier: GPL-2.0
/* What a key allows, and when it is one. */
#include "test.h"

#define T_WRITABLE	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE)

/* A SEND whose only SGE is this one must end so; the connection then ends, too. */
static void t_bad_source(struct t_pair *p, struct ib_sge sge)
{
	struct ib_rdma_wr wr = t_wr(&p->a, 1, IB_WR_SEND, &sge);

	T(!t_recv_ok(&p->b, 2, 100));
	T(!t_post(&p->a, &wr));
	T(t_ends(p->a.scq, 1, IB_WC_LOC_PROT_ERR));
	T(t_ends(p->b.rcq, 2, IB_WC_WR_FLUSH_ERR));
}

static void t_wrong_lkey(struct t_pair *p)
{
	struct ib_sge sge = t_sge(&p->a, 100);

	sge.lkey++;
	t_bad_source(p, sge);
}

static void t_unknown_lkey(struct t_pair *p)
{
	struct ib_sge sge = t_sge(&p->a, 100);

	sge.lkey += 0x10000000;
	t_bad_source(p, sge);
}

static void t_lkey_of_other_pd(struct t_pair *p)
{
	struct ib_sge sge = t_sge(&p->a, 100);

	sge.lkey = p->b.pd->local_dma_lkey;
	t_bad_source(p, sge);
}

static void t_no_memory(struct t_pair *p)
{
	struct ib_sge sge = t_sge(&p->a, 100);

	sge.addr = 0x1000;
	t_bad_source(p, sge);
}

static void t_recv_wrong_lkey(struct t_pair *p)
{
	T(!t_recv(&p->b, 2, 100, p->b.pd->local_dma_lkey + 1));
	T(!t_rdma(&p->a, 1, IB_WR_SEND, 100, 0, 0));
	T(t_ends(p->a.scq, 1, IB_WC_REM_OP_ERR));
	T(t_ends(p->b.rcq, 2, IB_WC_LOC_PROT_ERR));
}

static void t_recv_not_writable(struct t_pair *p)
{
	struct ib_mr *mr = t_mr(&p->b, 1, 100);

	T(t_registered(&p->b, mr, IB_ACCESS_REMOTE_READ));
	T(!t_recv(&p->b, 2, 100, mr->lkey));
	T(!t_rdma(&p->a, 1, IB_WR_SEND, 100, 0, 0));
	T(t_ends(p->a.scq, 1, IB_WC_REM_OP_ERR));
	T(t_ends(p->b.rcq, 2, IB_WC_LOC_PROT_ERR));
	T(!ib_dereg_mr(mr));
}

/* --------------------------------------------------------------- remote keys */

/* An access of 100 bytes at @offset of an MR of 100 bytes with @access must end so. */
static void t_remote(struct t_pair *p, enum ib_wr_opcode op, int access, int offset, int bump,
		     enum ib_wc_status status)
{
	struct ib_mr *mr = t_mr(&p->b, 1, 100);
	bool ok = status == IB_WC_SUCCESS;

	memset(p->a.buf, 0x11, 100);
	T(t_registered(&p->b, mr, access));
	T(!t_rdma(&p->a, 1, op, 100, mr->iova + offset, mr->rkey + bump));
	T(t_ends(p->a.scq, 1, status));
	T((p->b.buf[99] == 0x11) == ok);
	T(p->b.qp_event == (ok ? -1 : IB_EVENT_QP_ACCESS_ERR));
	T(!ib_dereg_mr(mr));
}

static void t_write(struct t_pair *p)
{
	t_remote(p, IB_WR_RDMA_WRITE, T_WRITABLE, 0, 0, IB_WC_SUCCESS);
}

static void t_write_beyond(struct t_pair *p)
{
	t_remote(p, IB_WR_RDMA_WRITE, T_WRITABLE, 1, 0, IB_WC_REM_ACCESS_ERR);
}

static void t_write_before(struct t_pair *p)
{
	t_remote(p, IB_WR_RDMA_WRITE, T_WRITABLE, -1, 0, IB_WC_REM_ACCESS_ERR);
}

static void t_write_key_byte(struct t_pair *p)
{
	t_remote(p, IB_WR_RDMA_WRITE, T_WRITABLE, 0, 1, IB_WC_REM_ACCESS_ERR);
}

static void t_write_not_allowed(struct t_pair *p)
{
	t_remote(p, IB_WR_RDMA_WRITE, IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ, 0, 0,
		 IB_WC_REM_ACCESS_ERR);
}

static void t_write_not_allowed_by_qp(struct t_pair *p)
{
	struct ib_qp_attr attr = { .qp_access_flags = IB_ACCESS_REMOTE_READ };

	T(!ib_modify_qp(p->b.qp, &attr, IB_QP_ACCESS_FLAGS));
	t_remote(p, IB_WR_RDMA_WRITE, T_WRITABLE, 0, 0, IB_WC_REM_ACCESS_ERR);
}

/* The key is good, for another connection. */
static void t_write_other_pd(struct t_pair *p)
{
	struct ib_mr *mr = t_mr(&p->a, 1, 100);

	T(t_registered(&p->a, mr, T_WRITABLE));
	T(!t_rdma(&p->a, 1, IB_WR_RDMA_WRITE, 100, mr->iova, mr->rkey));
	T(t_ends(p->a.scq, 1, IB_WC_REM_ACCESS_ERR));
	T(!ib_dereg_mr(mr));
}

static void t_write_after_dereg(struct t_pair *p)
{
	struct ib_mr *mr = t_mr(&p->b, 1, 100);
	u64 iova = mr->iova;
	u32 rkey = mr->rkey;

	T(t_registered(&p->b, mr, T_WRITABLE));
	T(!ib_dereg_mr(mr));
	T(!t_rdma(&p->a, 1, IB_WR_RDMA_WRITE, 100, iova, rkey));
	T(t_ends(p->a.scq, 1, IB_WC_REM_ACCESS_ERR));
}

/* ------------------------------------------------------------------- READ */

/* Into an MR of ours that has @sink, from one of theirs that has @source. */
static void t_read_with(struct t_pair *p, int sink, int source, enum ib_wc_status status)
{
	struct ib_mr *to = t_mr(&p->a, 1, 100), *from = t_mr(&p->b, 1, 100);
	struct ib_sge sge = { to->iova, 100, to->lkey };
	struct ib_rdma_wr wr = t_wr(&p->a, 1, IB_WR_RDMA_READ, &sge);

	memset(p->b.buf, 0x22, 100);
	T(t_registered(&p->a, to, sink));
	T(t_registered(&p->b, from, source));
	wr.remote_addr = from->iova;
	wr.rkey = from->rkey;
	T(!t_post(&p->a, &wr));
	T(t_ends(p->a.scq, 1, status));
	T((p->a.buf[99] == 0x22) == !status);
	T(!ib_dereg_mr(to));
	T(!ib_dereg_mr(from));
}

static void t_read(struct t_pair *p)
{
	t_read_with(p, T_WRITABLE, IB_ACCESS_REMOTE_READ, IB_WC_SUCCESS);
}

static void t_read_not_allowed(struct t_pair *p)
{
	t_read_with(p, T_WRITABLE, T_WRITABLE, IB_WC_REM_ACCESS_ERR);
}

static void t_read_local_sink(struct t_pair *p)
{
	t_read_with(p, IB_ACCESS_LOCAL_WRITE, IB_ACCESS_REMOTE_READ, IB_WC_LOC_PROT_ERR);
}

/* ------------------------------------------------------- registering, FRWR */

static void t_reg_twice(struct t_pair *p)
{
	struct ib_mr *mr = t_mr(&p->a, 1, 100);

	T(t_registered(&p->a, mr, T_WRITABLE));
	T(!t_reg(&p->a, 1, mr, mr->rkey, T_WRITABLE));
	T(t_ends(p->a.scq, 1, IB_WC_MW_BIND_ERR));
	T(!ib_dereg_mr(mr));
}

static void t_inv_twice(struct t_pair *p)
{
	struct ib_mr *mr = t_mr(&p->a, 1, 100);

	T(t_registered(&p->a, mr, T_WRITABLE));
	T(!t_inv(&p->a, 1, mr->rkey));
	T(t_ends(p->a.scq, 1, IB_WC_SUCCESS));
	T(!t_inv(&p->a, 2, mr->rkey));
	T(t_ends(p->a.scq, 2, IB_WC_MW_BIND_ERR));
	T(!ib_dereg_mr(mr));
}

static void t_reg_other_pd(struct t_pair *p)
{
	struct ib_mr *mr = t_mr(&p->b, 1, 100);

	T(!t_reg(&p->a, 1, mr, mr->rkey, T_WRITABLE));
	T(t_ends(p->a.scq, 1, IB_WC_MW_BIND_ERR));
	T(!ib_dereg_mr(mr));
}

/* A new last byte makes the old key void. */
static void t_new_key(struct t_pair *p)
{
	struct ib_mr *mr = t_mr(&p->b, 1, 100);
	u32 old = mr->rkey;

	T(t_registered(&p->b, mr, T_WRITABLE));
	T(!t_inv(&p->b, 1, old));
	T(t_ends(p->b.scq, 1, IB_WC_SUCCESS));
	ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
	T(t_registered(&p->b, mr, T_WRITABLE));
	T(!t_rdma(&p->a, 2, IB_WR_RDMA_WRITE, 100, mr->iova, mr->rkey));
	T(t_ends(p->a.scq, 2, IB_WC_SUCCESS));
	T(!t_rdma(&p->a, 3, IB_WR_RDMA_WRITE, 100, mr->iova, old));
	T(t_ends(p->a.scq, 3, IB_WC_REM_ACCESS_ERR));
	T(!ib_dereg_mr(mr));
}

static void t_map_while_valid(struct t_pair *p)
{
	struct ib_mr *mr = t_mr(&p->a, 1, 100);

	T(t_registered(&p->a, mr, T_WRITABLE));
	T(t_map(&p->a, mr, 50) == -EBUSY);
	T(!ib_dereg_mr(mr));
}

static void t_pages(struct t_pair *p)
{
	u32 max = p->a.id->device->attrs.max_fast_reg_page_list_len;
	struct ib_mr *mr = t_mr(&p->a, T_PAGES - 1, 100);

	T(max >= 257);
	T(PTR_ERR(ib_alloc_mr(p->a.pd, IB_MR_TYPE_MEM_REG, max + 1)) == -EINVAL);
	/* What does not fit is not mapped. */
	T(t_map(&p->a, mr, T_SIZE) < 1 || mr->length < T_SIZE);
	T(!ib_dereg_mr(mr));
}

static void t_send_inv(struct t_pair *p)
{
	struct ib_mr *mr = t_mr(&p->b, 1, 100);
	struct ib_wc wc;

	T(t_registered(&p->b, mr, T_WRITABLE));
	T(!t_recv_ok(&p->b, 2, 100));
	T(!t_rdma(&p->a, 1, IB_WR_SEND_WITH_INV, 60, 0, mr->rkey));
	T(t_ends(p->a.scq, 1, IB_WC_SUCCESS));
	T(t_wc(p->b.rcq, &wc) && !wc.status && wc.byte_len == 60);
	T((wc.wc_flags & IB_WC_WITH_INVALIDATE) && wc.ex.invalidate_rkey == mr->rkey);
	T(!t_rdma(&p->a, 3, IB_WR_RDMA_WRITE, 100, mr->iova, mr->rkey));
	T(t_ends(p->a.scq, 3, IB_WC_REM_ACCESS_ERR));
	T(!ib_dereg_mr(mr));
}

static void t_send_inv_foreign(struct t_pair *p)
{
	struct ib_mr *mr = t_mr(&p->a, 1, 100);

	T(t_registered(&p->a, mr, T_WRITABLE));
	T(!t_recv_ok(&p->b, 2, 100));
	T(!t_rdma(&p->a, 1, IB_WR_SEND_WITH_INV, 60, 0, mr->rkey));
	T(t_ends(p->a.scq, 1, IB_WC_REM_ACCESS_ERR));
	T(t_ends(p->b.rcq, 2, IB_WC_MW_BIND_ERR));
	T(!ib_dereg_mr(mr));
}

void (*const t_keys[])(struct t_pair *p) = {
	t_wrong_lkey, t_unknown_lkey, t_lkey_of_other_pd, t_no_memory, t_recv_wrong_lkey,
	t_recv_not_writable, t_write, t_write_beyond, t_write_before, t_write_key_byte,
	t_write_not_allowed, t_write_not_allowed_by_qp, t_write_other_pd, t_write_after_dereg,
	t_read, t_read_not_allowed, t_read_local_sink, t_reg_twice, t_inv_twice, t_reg_other_pd,
	t_new_key, t_map_while_valid, t_pages, t_send_inv, t_send_inv_foreign, NULL
};

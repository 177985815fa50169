/* SPDX-License-Identifier: GPL-2.0 */
/* The test of the device's own checks: each is provoked by verbs alone. */
#ifndef KOR_HCA_TEST_H
#define KOR_HCA_TEST_H

#include <linux/completion.h>
#include <rdma/ib_cm.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#define T_PAGES		4
#define T_SIZE		(T_PAGES * PAGE_SIZE)
#define T_DEPTH		4	/* of each queue */
#define T_SGE		2
#define T_INLINE	64

/* One end of a connection. */
struct t_end {
	struct rdma_cm_id	*id;
	struct ib_pd		*pd;
	struct ib_cq		*scq;
	struct ib_cq		*rcq;
	struct ib_qp		*qp;
	u8			*buf;		/* T_SIZE, in a row */
	u64			 dma;
	struct completion	 cm_done;
	int			 cm_event;	/* of rdma_cm, the last */
	int			 cm_status;
	u8			 cm_data;	/* first byte of private data */
	int			 qp_event;	/* -1: none */
	int			 cq_event;
	int			 notified;	/* calls of the handler of rcq */
};

struct t_pair {
	struct rdma_cm_id	*listener;
	struct t_end		 a;		/* asked for the connection */
	struct t_end		 b;
	bool			 reject;
};

void t_check(bool ok, const char *what, const char *func, int line);
#define T(cond) t_check(cond, #cond, __func__, __LINE__)

/* test_pair.c */
struct t_pair *t_pair_new(bool reject);
void t_pair_free(struct t_pair *p);
int t_dial(struct t_pair *p, u16 port);
int t_wait_cm(struct t_end *e);
bool t_wc(struct ib_cq *cq, struct ib_wc *wc);
bool t_ends(struct ib_cq *cq, u64 wr_id, enum ib_wc_status status);
int t_recv(struct t_end *e, u64 wr_id, u32 len, u32 lkey);
int t_recv_ok(struct t_end *e, u64 wr_id, u32 len);
struct ib_rdma_wr t_wr(struct t_end *e, u64 wr_id, enum ib_wr_opcode op, struct ib_sge *sge);
struct ib_sge t_sge(struct t_end *e, u32 len);
int t_post(struct t_end *e, struct ib_rdma_wr *wr);
int t_rdma(struct t_end *e, u64 wr_id, enum ib_wr_opcode op, u32 len, u64 raddr, u32 rkey);
struct ib_mr *t_mr(struct t_end *e, u32 pages, u32 bytes);
int t_map(struct t_end *e, struct ib_mr *mr, u32 bytes);
int t_reg(struct t_end *e, u64 wr_id, struct ib_mr *mr, u32 key, int access);
int t_inv(struct t_end *e, u64 wr_id, u32 key);
bool t_registered(struct t_end *e, struct ib_mr *mr, int access);

#define T_PORT		7777
#define T_NO_PORT	7778

/* test_keys.c, test_queues.c, test_ends.c */
extern void (*const t_keys[])(struct t_pair *p);
extern void (*const t_queues[])(struct t_pair *p);
extern void (*const t_ends_tests[])(struct t_pair *p);
void t_refused(void);
void t_rejected(void);
void t_removal(void);

#endif

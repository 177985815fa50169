/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A software RDMA device for the tests: iWARP, in memory, strict. Documentation/testing.md has its
 * knobs and counters.
 *
 * Locks, outermost first:
 *   hca_fabric   one for all devices: connections, states of QPs and of MRs, and each work request
 *                from its first check to its last byte. So a key that was made invalid, or an MR
 *                that was deregistered, is not used any more when the call returns.
 *   qp->lock     what posting changes, and the order of its completions
 *   cq->lock
 */
#ifndef KOR_HCA_H
#define KOR_HCA_H

#include <linux/completion.h>
#include <linux/etherdevice.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>
#include <rdma/iw_cm.h>

/* A call of the consumer, or of the core for it. */
enum hca_op {
#define HCA_NAME(n) HCA_OP_##n
#include "sleeping_op_names.h"
	HCA_FIRST_ATOMIC_OP,
	HCA_LAST_SLEEPING_OP = HCA_FIRST_ATOMIC_OP - 1,
#include "atomic_op_names.h"
#undef HCA_NAME
	HCA_NOPS
};

enum hca_count {
#define HCA_NAME(n) HCA_COUNT_##n
#include "count_names.h"
#undef HCA_NAME
	HCA_NCOUNTS
};

enum hca_live {
#define HCA_NAME(n) HCA_LIVE_##n
#include "live_names.h"
#undef HCA_NAME
	HCA_NLIVES
};

/* What a work request is, for faults that name completions. */
enum hca_kind {
	HCA_KIND_SEND,
	HCA_KIND_SEND_INV,
	HCA_KIND_WRITE,
	HCA_KIND_READ,
	HCA_KIND_REG,
	HCA_KIND_INV,
	HCA_KIND_RECV,
	HCA_NKINDS
};

struct hca_limits {
	unsigned int	pages;		/* of an MR */
	unsigned int	sge;
	unsigned int	sge_rd;
	unsigned int	inline_data;
	unsigned int	wr;
	unsigned int	cqe;
	unsigned int	cq;
	unsigned int	qp;
	unsigned int	mr;
	unsigned int	rd_atom;
};

/* Calls nth .. nth + count - 1 from now on, or each nth one. */
struct hca_rule {
	u64		nth;		/* 0: none */
	u64		count;		/* 0: for ever */
	bool		every;
	u64		seen;
};

struct hca_op_fault {
	u64		calls;
	u64		failed;
	struct hca_rule	fail;
	int		error;
	struct hca_rule	vanish;
	unsigned int	slow_ms;
};

struct hca_wc_fault {
	struct hca_rule		rule;
	enum ib_wc_status	status;
};

struct hca_faults {
	spinlock_t		lock;
	struct hca_op_fault	op[HCA_NOPS];
	struct hca_op_fault	any;
	struct hca_wc_fault	wc[HCA_NKINDS];
	unsigned int		late_us;	/* completions come up to so much later */
};

struct hca_dev {
	struct ib_device	 ib;
	struct list_head	 link;		/* hca_devs */
	struct net_device	*netdev;	/* for comparing only */
	u8			 mac[ETH_ALEN];
	struct hca_limits	 limits;
	struct xarray		 qps;		/* by number */
	struct xarray		 mrs;		/* by key without its last byte */
	u32			 next_qp;
	u32			 next_mr;
	struct list_head	 eps;		/* fabric */
	atomic_t		 live[HCA_NLIVES];
	atomic64_t		 count[HCA_NCOUNTS];
	struct hca_faults	 faults;
	struct dentry		*dir;
};

struct hca_pd {
	struct ib_pd	ib;
};

struct hca_mr {
	struct ib_mr	 ib;
	struct hca_dev	*dev;
	struct ib_pd	*pd;
	bool		 dma;		/* all memory */
	bool		 valid;
	u32		 key;		/* while valid */
	int		 access;
	u64		 iova;
	u64		 length;
	u32		 page_size;
	u32		 npages;
	u32		 max_pages;
	u64		 pages[];
};

struct hca_qp;

struct hca_cqe {
	struct ib_wc	 wc;
	u32		*tail;		/* of the queue that the request was in */
	u32		 retire;	/* its value when this is polled */
};

struct hca_cq {
	struct ib_cq		 ib;
	spinlock_t		 lock;
	struct hca_cqe		*ring;
	u32			 size;		/* what was asked for */
	u32			 mask;
	u32			 head;
	u32			 tail;
	enum ib_cq_notify_flags	 armed;		/* 0: not */
	bool			 overflown;
};

/*
 * Counters that only grow: tail <= done <= exec <= head <= tail + size. A slot is taken from the
 * post until the completion of it, or of a later one, was polled.
 */
struct hca_queue {
	u32	size;
	u32	mask;
	u32	max_sge;
	u32	head;		/* posted */
	u32	exec;		/* executed; fabric */
	u32	done;		/* completed */
	u32	tail;		/* polled; written under the CQ's lock */
};

struct hca_wqe {
	struct ib_wc		 wc;	/* as it will be */
	enum ib_wr_opcode	 op;
	enum hca_kind		 kind;
	bool			 signaled;
	bool			 solicited;
	u32			 nsge;
	u32			 length;
	u32			 rkey;	/* remote, to be invalidated, or to be registered */
	u64			 raddr;
	struct hca_mr		*mr;
	int			 access;
};

struct hca_ring {
	struct hca_queue	 q;
	struct hca_wqe		*wqe;
	struct ib_sge		*sge;	/* max_sge for each */
	struct hca_cq		*cq;
	bool			 recv;
};

struct hca_ep;

struct hca_qp {
	struct ib_qp		 ib;
	struct hca_dev		*dev;
	spinlock_t		 lock;
	enum ib_qp_state	 state;		/* changes under fabric and lock */
	bool			 signal_all;
	u32			 max_inline;
	int			 access;	/* fabric */
	struct hca_ring		 sq;
	struct hca_ring		 rq;
	u8			*inlined;	/* max_inline for each slot of the SQ */
	struct hca_ep		*ep;		/* fabric */
	struct work_struct	 work;
	struct delayed_work	 late;
	refcount_t		 refs;
	struct completion	 unused;
};

enum hca_ep_state {
	HCA_EP_LISTENING,
	HCA_EP_CONNECTING,	/* asks; its peer is REQUESTED */
	HCA_EP_REQUESTED,	/* iw_cm decides */
	HCA_EP_OPEN,
	HCA_EP_CLOSED,
};

/* One end of a connection, or a listener. All under fabric. */
struct hca_ep {
	struct list_head	 link;		/* dev->eps */
	struct hca_dev		*dev;
	enum hca_ep_state	 state;
	struct iw_cm_id		*cm_id;
	struct hca_qp		*qp;
	struct hca_ep		*peer;
	u32			 ird;
	u32			 ord;
	struct sockaddr_storage	 local;
	struct sockaddr_storage	 remote;
	struct delayed_work	 timeout;	/* of a request; has a reference */
	refcount_t		 refs;
};

#define hca_count(dev, name)		atomic64_inc(&(dev)->count[HCA_COUNT_##name])
#define hca_count_n(dev, name, n)	atomic64_add(n, &(dev)->count[HCA_COUNT_##name])
#define hca_born(dev, name)		atomic_inc_return(&(dev)->live[HCA_LIVE_##name])
#define hca_gone(dev, name)		atomic_dec(&(dev)->live[HCA_LIVE_##name])

#define to_hca(x)	container_of(x, struct hca_dev, ib)
#define to_hca_cq(x)	container_of(x, struct hca_cq, ib)
#define to_hca_qp(x)	container_of(x, struct hca_qp, ib)
#define to_hca_mr(x)	container_of(x, struct hca_mr, ib)

extern struct mutex hca_fabric;
extern struct mutex hca_devs_mutex;
extern struct list_head hca_devs;
extern struct workqueue_struct *hca_wq;

/* main.c */
int hca_new(const char *name, struct net_device *netdev);

/* dev.c */
extern const struct ib_device_ops hca_dev_ops;

/* mem.c */
extern const struct ib_device_ops hca_mem_ops;
int hca_check_sges(struct hca_dev *dev, struct ib_pd *pd, const struct ib_sge *sge, u32 nsge,
		   int access);
int hca_check_range(struct hca_dev *dev, struct ib_pd *pd, u32 key, u64 addr, u64 len, int access);
int hca_mr_register(struct hca_qp *qp, const struct hca_wqe *wqe);
int hca_mr_invalidate(struct hca_dev *dev, struct ib_pd *pd, u32 key);
struct hca_span {
	struct hca_dev		*dev;
	const struct ib_sge	*sge;
	u32			 nsge;
	u32			 at;	/* in the first one */
	bool			 inlined;
};
void hca_copy(struct hca_span *to, struct hca_span *from, u64 len);

/* cq.c */
extern const struct ib_device_ops hca_cq_ops;
bool hca_cq_push(struct hca_cq *cq, const struct hca_cqe *cqe, bool solicited);
void hca_cq_notify(struct hca_cq *cq);
void hca_cq_forget(struct hca_cq *cq, struct ib_qp *qp);

/* qp.c */
extern const struct ib_device_ops hca_qp_ops;
void hca_qp_get(struct hca_qp *qp);
void hca_qp_put(struct hca_qp *qp);
void hca_qp_error(struct hca_qp *qp);
void hca_qp_event(struct hca_qp *qp, enum ib_event_type type);
void hca_qp_set_state(struct hca_qp *qp, enum ib_qp_state state);

/* post.c */
extern const struct ib_device_ops hca_post_ops;

/* exec.c */
void hca_qp_work(struct work_struct *work);
void hca_qp_late(struct work_struct *work);
void hca_qp_flush(struct hca_qp *qp);
void hca_complete(struct hca_qp *qp);

/* cm.c */
extern const struct ib_device_ops hca_cm_ops;
void hca_ep_close(struct hca_ep *ep);
void hca_ep_forget_all(struct hca_dev *dev);

/* fault.c */
int hca_fault(struct hca_dev *dev, enum hca_op op);
bool hca_wc_fault(struct hca_dev *dev, enum hca_kind kind, enum ib_wc_status *status);
int hca_fault_cmd(struct hca_dev *dev, int argc, char **argv);
void hca_fault_init(struct hca_dev *dev);
extern const char *const hca_op_names[HCA_NOPS];

/* debugfs.c */
void hca_debugfs_add(struct hca_dev *dev);
void hca_debugfs_init(void);
void hca_debugfs_exit(void);

#endif

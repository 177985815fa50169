/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shims over the RDMA core: inline functions, macros that record the module's
 * name, and structures of the core turned into plain ones. Used by rust/rdma
 * only.
 */
#ifndef _KO2IBLND_VERBS_H
#define _KO2IBLND_VERBS_H

#include <linux/dma-direction.h>
#include <linux/scatterlist.h>
#include <linux/types.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#include "types.h"

/* ---------------------------------------------------------------- device */

struct kor_device_caps {
	u64	max_mr_size;
	u64	page_size_cap;
	u32	max_qp_wr;
	u32	max_cqe;
	u32	max_send_sge;
	u32	max_recv_sge;
	u32	max_fast_reg_pages;
	u32	ports;
	u32	comp_vectors;
	s32	node;
	bool	fast_reg;	/* memory management extensions */
	bool	sg_gaps;
};

void kor_device_caps(struct ib_device *dev, struct kor_device_caps *caps);
/* Terminated. Any context. */
#define KOR_DEVICE_NAME_MAX	64
static_assert(KOR_DEVICE_NAME_MAX == IB_DEVICE_NAME_MAX);
void kor_device_name(struct ib_device *dev, u8 *name);
/* A registration reference: the device is not unregistered while it is held. */
bool kor_device_get(struct ib_device *dev);
void kor_device_put(struct ib_device *dev);
/* 1: the port is active, 0: it is not, or an error. Sleeps. */
int kor_device_port_active(struct ib_device *dev, u32 port);

/*
 * Port and fatal events of one device. @fn runs in process context; its @event
 * is an enum ib_event_type, its @port 0 for the whole device.
 */
struct kor_event_handler {
	struct ib_event_handler	handler;
	void			(*fn)(void *ctx, u32 event, u32 port);
	void			*ctx;
};

void kor_event_handler_register(struct kor_event_handler *eh,
				struct ib_device *dev,
				void (*fn)(void *ctx, u32 event, u32 port),
				void *ctx);
/* On return no call of @fn is running or will be made. */
void kor_event_handler_unregister(struct kor_event_handler *eh);

/* One ib_client per module. The callbacks may sleep; -EBUSY if there is one. */
int kor_client_register(void (*add)(void *ctx, struct ib_device *dev),
			void (*remove)(void *ctx, struct ib_device *dev),
			void *ctx);
void kor_client_unregister(void);

/* --------------------------------------------------------------- objects */

struct ib_pd *kor_pd_alloc(struct ib_device *dev);
void kor_pd_free(struct ib_pd *pd);
u32 kor_pd_lkey(struct ib_pd *pd);

struct ib_cq *kor_cq_create(struct ib_device *dev, ib_comp_handler comp,
			    void (*event)(struct ib_event *event, void *ctx),
			    void *ctx, u32 cqe, u32 vector);
void kor_cq_destroy(struct ib_cq *cq);
int kor_cq_poll(struct ib_cq *cq, int n, struct ib_wc *wc);
/* Arms for the next completion; 1: some may have been missed, poll again. */
int kor_cq_arm(struct ib_cq *cq);

/* Asked for, and on return granted. */
struct kor_qp_caps {
	u32	max_send_wr;
	u32	max_recv_wr;
	u32	max_send_sge;
	u32	max_recv_sge;
	u32	max_inline_data;
};

int kor_qp_create(struct rdma_cm_id *id, struct ib_pd *pd, struct ib_cq *cq,
		  void (*event)(struct ib_event *event, void *ctx), void *ctx,
		  struct kor_qp_caps *caps);
struct ib_qp *kor_qp_of(struct rdma_cm_id *id);
u32 kor_qp_num(const struct ib_qp *qp);
int kor_qp_to_error(struct ib_qp *qp);
/* @accepted: how many requests of the chain the device took. */
int kor_qp_post_send(struct ib_qp *qp, struct ib_send_wr *wr, u32 *accepted);
int kor_qp_post_recv(struct ib_qp *qp, struct ib_recv_wr *wr, u32 *accepted);

struct ib_mr *kor_mr_alloc(struct ib_pd *pd, u32 max_pages, bool gaps);
int kor_mr_free(struct ib_mr *mr);
/* A key that was never valid, then the entries; entries used or an error. */
int kor_mr_map(struct ib_mr *mr, struct scatterlist *sgl, u32 nents);
u32 kor_mr_rkey(const struct ib_mr *mr);
u64 kor_mr_iova(const struct ib_mr *mr);
u64 kor_mr_length(const struct ib_mr *mr);

/* ------------------------------------------------------------------- DMA */

void *kor_buf_alloc(size_t len, int node);
void kor_buf_free(void *buf);

int kor_dma_map(struct ib_device *dev, void *buf, size_t len,
		enum dma_data_direction dir, u64 *addr);
void kor_dma_unmap(struct ib_device *dev, u64 addr, size_t len,
		   enum dma_data_direction dir);
void kor_dma_sync_for_cpu(struct ib_device *dev, u64 addr, size_t len,
			  enum dma_data_direction dir);
void kor_dma_sync_for_device(struct ib_device *dev, u64 addr, size_t len,
			     enum dma_data_direction dir);

struct kor_dma_seg {
	u64	addr;
	u32	len;
	u32	pad;
};

struct scatterlist *kor_sgl_alloc(u32 max, int node);
void kor_sgl_free(struct scatterlist *sgl);
/* Makes entry @i the last one. Entries are set in order, from 0. */
void kor_sgl_set(struct scatterlist *sgl, u32 i,
		 const struct kor_page_slice *slice);
/* Mapped entries, at most @n, or an error. */
int kor_sgl_map(struct ib_device *dev, struct scatterlist *sgl, u32 n,
		enum dma_data_direction dir);
void kor_sgl_unmap(struct ib_device *dev, struct scatterlist *sgl, u32 n,
		   enum dma_data_direction dir);
/* Copies the first @nmapped entries out. */
void kor_sgl_read(struct scatterlist *sgl, u32 nmapped,
		  struct kor_dma_seg *segs);

/* The checking mode of test builds; does nothing in others. */
int kor_dma_check_init(void);
void kor_dma_check_exit(void);
/* The CPU is about to touch bytes of a single mapping. */
void kor_dma_check_cpu(struct ib_device *dev, u64 addr, size_t len);

/* -------------------------------------------------------------------- CM */

struct kor_cm_event {
	u32		kind;		/* enum rdma_cm_event_type */
	s32		status;
	const u8	*private_data;
	u32		private_data_len;
};

struct kor_cm_param {
	const u8	*private_data;
	u8		private_data_len;
	u8		responder_resources;
	u8		initiator_depth;
	u8		flow_control;
	u8		retry_count;
	u8		rnr_retry_count;
};

/*
 * Rust. @context is what the id carries; for a CONNECT_REQUEST @id is new and
 * carries its listener's. Called under the handler mutex of @id, for a
 * CONNECT_REQUEST also under its listener's: neither context goes meanwhile, if
 * its owner keeps it until rdma_destroy_id() has returned. Non-zero: the CM
 * destroys @id.
 */
int kor_rust_cm_event(void *context, struct rdma_cm_id *id,
		      const struct kor_cm_event *ev);

struct rdma_cm_id *kor_cm_create(struct net *net, void *context);
/* Only under the handler mutex of @id, or before anybody else knows it. */
void kor_cm_set_context(struct rdma_cm_id *id, void *context);
struct ib_device *kor_cm_device(const struct rdma_cm_id *id);
u32 kor_cm_port(const struct rdma_cm_id *id);
void kor_cm_addrs(const struct rdma_cm_id *id, struct kor_sockaddr *local,
		  struct kor_sockaddr *peer);
int kor_cm_bind(struct rdma_cm_id *id, const struct kor_sockaddr *addr);
int kor_cm_listen(struct rdma_cm_id *id, int backlog);
int kor_cm_resolve_addr(struct rdma_cm_id *id, const struct kor_sockaddr *src,
			const struct kor_sockaddr *dst, u32 timeout_ms);
int kor_cm_resolve_route(struct rdma_cm_id *id, unsigned long timeout_ms);
int kor_cm_connect(struct rdma_cm_id *id, const struct kor_cm_param *param);
/* Takes and releases the id's handler lock. */
int kor_cm_accept(struct rdma_cm_id *id, const struct kor_cm_param *param);
int kor_cm_reject(struct rdma_cm_id *id, const u8 *data, u8 len);
/* Bytes, 0 if the id has no path. */
u32 kor_cm_path_mtu(const struct rdma_cm_id *id);
/* False if the id has no path or @mtu is not one of 256, 512, ... 4096. */
bool kor_cm_set_path_mtu(struct rdma_cm_id *id, u32 mtu);

#endif /* _KO2IBLND_VERBS_H */

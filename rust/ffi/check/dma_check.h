/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The checking mode of the DMA shims (make KOR_DMA_CHECK=1).
 *
 * rxe and siw have no DMA device, so the kernel's own DMA debugging sees
 * nothing there. This records every mapping instead.
 */
#ifndef _KOR_DMA_CHECK_H
#define _KOR_DMA_CHECK_H

#include <ko2iblnd/verbs.h>

#ifdef KOR_DMA_CHECK

/* True: this map is to fail. */
bool kor_dma_check_fail(void);
/* True: this call that sets something up is to fail. */
bool kor_dma_check_call(void);
/* The error that this creation of a QP is to fail with, or 0. */
int kor_dma_check_qp(void);
/* True: this MR is not to be deregistered. */
bool kor_dma_check_dereg(void);
/* As ib_post_send() and ib_post_recv(), but may refuse all but the first. */
int kor_dma_check_post_send(struct ib_qp *qp, struct ib_send_wr *wr,
			    const struct ib_send_wr **bad);
int kor_dma_check_post_recv(struct ib_qp *qp, struct ib_recv_wr *wr,
			    const struct ib_recv_wr **bad);
void kor_dma_check_map(struct ib_device *dev, u64 addr, size_t len,
		       enum dma_data_direction dir);
void kor_dma_check_unmap(struct ib_device *dev, u64 addr, size_t len,
			 enum dma_data_direction dir);
void kor_dma_check_sync(struct ib_device *dev, u64 addr, size_t len,
			enum dma_data_direction dir, bool to_device);
/* Returns the number of mapped entries, which it may have made smaller. */
int kor_dma_check_map_sg(struct ib_device *dev, struct scatterlist *sgl, u32 n,
			 int mapped, enum dma_data_direction dir);
void kor_dma_check_unmap_sg(struct ib_device *dev, struct scatterlist *sgl,
			    u32 n, enum dma_data_direction dir);
void kor_dma_check_send(struct ib_device *dev, const struct ib_send_wr *wr);
void kor_dma_check_recv(struct ib_device *dev, const struct ib_recv_wr *wr);

#else

static inline bool kor_dma_check_fail(void)
{
	return false;
}

static inline bool kor_dma_check_call(void)
{
	return false;
}

static inline int kor_dma_check_qp(void)
{
	return 0;
}

static inline bool kor_dma_check_dereg(void)
{
	return false;
}

static inline int kor_dma_check_post_send(struct ib_qp *qp,
					  struct ib_send_wr *wr,
					  const struct ib_send_wr **bad)
{
	return ib_post_send(qp, wr, bad);
}

static inline int kor_dma_check_post_recv(struct ib_qp *qp,
					  struct ib_recv_wr *wr,
					  const struct ib_recv_wr **bad)
{
	return ib_post_recv(qp, wr, bad);
}

static inline void kor_dma_check_map(struct ib_device *dev, u64 addr,
				     size_t len, enum dma_data_direction dir)
{
}

static inline void kor_dma_check_unmap(struct ib_device *dev, u64 addr,
				       size_t len, enum dma_data_direction dir)
{
}

static inline void kor_dma_check_sync(struct ib_device *dev, u64 addr,
				      size_t len, enum dma_data_direction dir,
				      bool to_device)
{
}

static inline int kor_dma_check_map_sg(struct ib_device *dev,
				       struct scatterlist *sgl, u32 n,
				       int mapped, enum dma_data_direction dir)
{
	return mapped;
}

static inline void kor_dma_check_unmap_sg(struct ib_device *dev,
					  struct scatterlist *sgl, u32 n,
					  enum dma_data_direction dir)
{
}

static inline void kor_dma_check_send(struct ib_device *dev,
				      const struct ib_send_wr *wr)
{
}

static inline void kor_dma_check_recv(struct ib_device *dev,
				      const struct ib_recv_wr *wr)
{
}

#endif /* KOR_DMA_CHECK */

#endif /* _KOR_DMA_CHECK_H */

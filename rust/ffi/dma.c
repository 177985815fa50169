// SPDX-License-Identifier: GPL-2.0
/*
 * Shims over DMA mapping for RDMA devices, for rust/rdma. With KOR_DMA_CHECK
 * every call is recorded; see check/dma_check.c.
 */
#include <linux/mm.h>
#include <linux/slab.h>

#include <ko2iblnd/verbs.h>

#include "check/dma_check.h"

void *kor_buf_alloc(size_t len, int node)
{
	return kzalloc_node(len, GFP_NOFS, node);
}

void kor_buf_free(void *buf)
{
	kfree(buf);
}

int kor_dma_map(struct ib_device *dev, void *buf, size_t len,
		enum dma_data_direction dir, u64 *addr)
{
	if (kor_dma_check_fail())
		return -EIO;
	*addr = ib_dma_map_single(dev, buf, len, dir);
	if (ib_dma_mapping_error(dev, *addr))
		return -EIO;
	kor_dma_check_map(dev, *addr, len, dir);
	return 0;
}

void kor_dma_unmap(struct ib_device *dev, u64 addr, size_t len,
		   enum dma_data_direction dir)
{
	kor_dma_check_unmap(dev, addr, len, dir);
	ib_dma_unmap_single(dev, addr, len, dir);
}

void kor_dma_sync_for_cpu(struct ib_device *dev, u64 addr, size_t len,
			  enum dma_data_direction dir)
{
	kor_dma_check_sync(dev, addr, len, dir, false);
	ib_dma_sync_single_for_cpu(dev, addr, len, dir);
}

void kor_dma_sync_for_device(struct ib_device *dev, u64 addr, size_t len,
			     enum dma_data_direction dir)
{
	kor_dma_check_sync(dev, addr, len, dir, true);
	ib_dma_sync_single_for_device(dev, addr, len, dir);
}

struct scatterlist *kor_sgl_alloc(u32 max, int node)
{
	return kvcalloc_node(max, sizeof(struct scatterlist), GFP_NOFS,
			     node);
}

void kor_sgl_free(struct scatterlist *sgl)
{
	kvfree(sgl);
}

void kor_sgl_set(struct scatterlist *sgl, u32 i,
		 const struct kor_page_slice *slice)
{
	sg_init_table(&sgl[i], 1);
	sg_set_page(&sgl[i], slice->page, slice->length, slice->offset);
	if (i)
		sg_unmark_end(&sgl[i - 1]);
}

int kor_sgl_map(struct ib_device *dev, struct scatterlist *sgl, u32 n,
		enum dma_data_direction dir)
{
	int mapped;

	if (kor_dma_check_fail())
		return -EIO;
	mapped = ib_dma_map_sg(dev, sgl, n, dir);
	if (mapped <= 0)
		return -EIO;
	return kor_dma_check_map_sg(dev, sgl, n, mapped, dir);
}

void kor_sgl_unmap(struct ib_device *dev, struct scatterlist *sgl, u32 n,
		   enum dma_data_direction dir)
{
	kor_dma_check_unmap_sg(dev, sgl, n, dir);
	ib_dma_unmap_sg(dev, sgl, n, dir);
}

void kor_sgl_read(struct scatterlist *sgl, u32 nmapped,
		  struct kor_dma_seg *segs)
{
	u32 i;

	for (i = 0; i < nmapped; i++)
		segs[i] = (struct kor_dma_seg) {
			.addr = sg_dma_address(&sgl[i]),
			.len = sg_dma_len(&sgl[i]),
		};
}

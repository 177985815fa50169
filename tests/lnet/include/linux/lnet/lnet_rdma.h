/* SPDX-License-Identifier: GPL-2.0 */
/*
 * GPU helpers of LNet's LND-facing interface. The stand-in knows no GPU: no
 * page is one of its pages, and no device is near one.
 */
#ifndef _KOR_STANDIN_LNET_RDMA_H
#define _KOR_STANDIN_LNET_RDMA_H

#include <linux/dma-direction.h>
#include <linux/types.h>

struct device;
struct page;
struct scatterlist;

#define lnet_get_dev_prio		kor_standin_lnet_get_dev_prio
#define lnet_rdma_map_sg_attrs		kor_standin_lnet_rdma_map_sg_attrs
#define lnet_rdma_unmap_sg		kor_standin_lnet_rdma_unmap_sg
#define lnet_is_rdma_only_page		kor_standin_lnet_is_rdma_only_page

unsigned int lnet_get_dev_prio(struct device *dev, unsigned int dev_idx);
int lnet_rdma_map_sg_attrs(struct device *dev, struct scatterlist *sg,
			   int nents, enum dma_data_direction direction);
int lnet_rdma_unmap_sg(struct device *dev, struct scatterlist *sg, int nents,
		       enum dma_data_direction direction);
bool lnet_is_rdma_only_page(struct page *page);

#endif /* _KOR_STANDIN_LNET_RDMA_H */

// SPDX-License-Identifier: GPL-2.0
/*
 * Memory regions: keys, and what they allow. A key is valid or not as a whole, with its last byte.
 * All checks and copies run under hca_fabric.
 */
#include <linux/mm.h>
#include <linux/slab.h>

#include "hca.h"

#define HCA_KEY_BITS	8
#define HCA_MR_LIMIT	XA_LIMIT(1, (1 << 24) - 1)

static int hca_mr_add(struct hca_dev *dev, struct ib_pd *pd, struct hca_mr *mr)
{
	u32 index;
	int rc;

	if (hca_born(dev, mr) > dev->limits.mr) {
		hca_gone(dev, mr);
		return -ENOMEM;
	}
	/* Cyclic, so that the key of an MR that is gone is not soon that of another. */
	rc = xa_alloc_cyclic(&dev->mrs, &index, mr, HCA_MR_LIMIT, &dev->next_mr, GFP_KERNEL);
	if (rc < 0) {
		hca_gone(dev, mr);
		return rc;
	}
	mr->dev = dev;
	mr->pd = pd;
	mr->ib.lkey = index << HCA_KEY_BITS;
	mr->ib.rkey = mr->ib.lkey;
	return 0;
}

static struct ib_mr *hca_mr_new(struct ib_pd *pd, enum hca_op op, u32 pages)
{
	struct hca_dev *dev = to_hca(pd->device);
	struct hca_mr *mr;
	int rc;

	rc = hca_fault(dev, op);
	if (rc)
		return ERR_PTR(rc);
	mr = kvzalloc_flex(*mr, pages, pages);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->max_pages = pages;
	rc = hca_mr_add(dev, pd, mr);
	if (rc) {
		kvfree(mr);
		return ERR_PTR(rc);
	}
	return &mr->ib;
}

static struct ib_mr *hca_get_dma_mr(struct ib_pd *pd, int access)
{
	struct ib_mr *ib = hca_mr_new(pd, HCA_OP_get_dma_mr, 0);
	struct hca_mr *mr;

	if (IS_ERR(ib))
		return ib;
	mr = to_hca_mr(ib);
	mr->dma = true;
	mr->access = access;
	mr->key = ib->lkey;
	mr->valid = true;
	return ib;
}

/* There are no user contexts, so nobody can ask; the core wants the operation. */
static struct ib_mr *hca_reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 virt_addr,
				     int access, struct ib_dmah *dmah, struct ib_udata *udata)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static struct ib_mr *hca_alloc_mr(struct ib_pd *pd, enum ib_mr_type type, u32 max_num_sg)
{
	if (type != IB_MR_TYPE_MEM_REG)
		return ERR_PTR(-EOPNOTSUPP);
	if (!max_num_sg || max_num_sg > to_hca(pd->device)->limits.pages)
		return ERR_PTR(-EINVAL);
	return hca_mr_new(pd, HCA_OP_alloc_mr, max_num_sg);
}

static int hca_dereg_mr(struct ib_mr *ib, struct ib_udata *udata)
{
	struct hca_mr *mr = to_hca_mr(ib);
	int rc = hca_fault(mr->dev, HCA_OP_dereg_mr);

	if (rc)
		return rc;
	mutex_lock(&hca_fabric);
	xa_erase(&mr->dev->mrs, ib->lkey >> HCA_KEY_BITS);
	mutex_unlock(&hca_fabric);
	hca_gone(mr->dev, mr);
	kvfree(mr);
	return 0;
}

static int hca_set_page(struct ib_mr *ib, u64 addr)
{
	struct hca_mr *mr = to_hca_mr(ib);

	if (mr->npages == mr->max_pages)
		return -ENOMEM;
	mr->pages[mr->npages++] = addr;
	return 0;
}

static int hca_map_mr_sg(struct ib_mr *ib, struct scatterlist *sg, int nents, unsigned int *offset)
{
	struct hca_mr *mr = to_hca_mr(ib);
	int rc = hca_fault(mr->dev, HCA_OP_map_mr_sg);

	if (rc)
		return rc;
	if (READ_ONCE(mr->valid)) {
		hca_count(mr->dev, map_while_valid);
		return -EBUSY;
	}
	mr->npages = 0;
	return ib_sg_to_pages(ib, sg, nents, offset, hca_set_page);
}

/* -------------------------------------------------------------------- keys */

static struct hca_mr *hca_mr_of(struct hca_dev *dev, struct ib_pd *pd, u32 key)
{
	struct hca_mr *mr = xa_load(&dev->mrs, key >> HCA_KEY_BITS);

	lockdep_assert_held(&hca_fabric);
	if (!mr) {
		hca_count(dev, bad_key);
		return NULL;
	}
	if (mr->pd != pd) {
		hca_count(dev, bad_pd);
		return NULL;
	}
	if (!mr->valid) {
		hca_count(dev, bad_state);
		return NULL;
	}
	if (mr->key != key) {
		hca_count(dev, bad_key);
		return NULL;
	}
	return mr;
}

/* Addresses are those of the kernel: nothing else may come here. */
static bool hca_is_memory(u64 addr, u64 len)
{
	u64 page;

	if (addr + len < addr)
		return false;
	for (page = addr & PAGE_MASK; page < addr + len; page += PAGE_SIZE)
		if (!virt_addr_valid((void *)(uintptr_t)page))
			return false;
	return true;
}

int hca_check_range(struct hca_dev *dev, struct ib_pd *pd, u32 key, u64 addr, u64 len, int access)
{
	struct hca_mr *mr = hca_mr_of(dev, pd, key);

	if (!mr)
		return -EACCES;
	if ((mr->access & access) != access) {
		hca_count(dev, bad_access);
		return -EACCES;
	}
	if (mr->dma) {
		if (hca_is_memory(addr, len))
			return 0;
		hca_count(dev, bad_address);
		return -EACCES;
	}
	if (addr < mr->iova || len > mr->length || addr - mr->iova > mr->length - len) {
		hca_count(dev, bad_bounds);
		return -EACCES;
	}
	return 0;
}

int hca_check_sges(struct hca_dev *dev, struct ib_pd *pd, const struct ib_sge *sge, u32 nsge,
		   int access)
{
	u32 i;
	int rc = 0;

	for (i = 0; !rc && i < nsge; i++)
		rc = hca_check_range(dev, pd, sge[i].lkey, sge[i].addr, sge[i].length, access);
	return rc;
}

static bool hca_pages_ok(const struct hca_mr *mr)
{
	u32 i;

	for (i = 0; i < mr->npages; i++)
		if (!hca_is_memory(mr->pages[i], mr->ib.page_size))
			return false;
	return mr->npages > 0;
}

int hca_mr_register(struct hca_qp *qp, const struct hca_wqe *wqe)
{
	struct hca_mr *mr = xa_load(&qp->dev->mrs, wqe->rkey >> HCA_KEY_BITS);

	/* The MR that the request names must still be the one behind the key. */
	if (!mr || mr != wqe->mr || mr->pd != qp->ib.pd || mr->dma || mr->valid ||
	    !hca_pages_ok(mr)) {
		hca_count(qp->dev, bad_reg);
		return -EINVAL;
	}
	mr->iova = mr->ib.iova;
	mr->length = mr->ib.length;
	mr->page_size = mr->ib.page_size;
	mr->access = wqe->access;
	mr->key = wqe->rkey;
	WRITE_ONCE(mr->valid, true);
	hca_count_n(qp->dev, pages_reg, mr->npages);
	return 0;
}

int hca_mr_invalidate(struct hca_dev *dev, struct ib_pd *pd, u32 key)
{
	struct hca_mr *mr = hca_mr_of(dev, pd, key);

	if (!mr || mr->dma) {
		hca_count(dev, bad_inv);
		return -EINVAL;
	}
	WRITE_ONCE(mr->valid, false);
	return 0;
}

/* -------------------------------------------------------------------- copy */

/* Where the next bytes of a checked span are, and how many of them lie in a row. */
static u8 *hca_span_bytes(struct hca_span *s, u64 *len)
{
	const struct ib_sge *sge = s->sge;
	u64 addr = sge->addr + s->at;
	struct hca_mr *mr;
	u64 offset;

	*len = min_t(u64, *len, sge->length - s->at);
	if (s->inlined)
		return (u8 *)(uintptr_t)addr;
	mr = xa_load(&s->dev->mrs, sge->lkey >> HCA_KEY_BITS);
	if (mr->dma)
		return (u8 *)(uintptr_t)addr;
	offset = addr - (mr->iova & ~((u64)mr->page_size - 1));
	*len = min_t(u64, *len, mr->page_size - offset % mr->page_size);
	return (u8 *)(uintptr_t)(mr->pages[offset / mr->page_size] + offset % mr->page_size);
}

static void hca_span_skip(struct hca_span *s, u64 len)
{
	s->at += len;
	while (s->nsge && s->at == s->sge->length) {
		s->at = 0;
		s->sge++;
		s->nsge--;
	}
}

/* Both hold @len bytes, and were checked under the same hold of hca_fabric. */
void hca_copy(struct hca_span *to, struct hca_span *from, u64 len)
{
	u8 *src, *dst;
	u64 n;

	hca_span_skip(to, 0);
	hca_span_skip(from, 0);
	for (; len; len -= n) {
		n = len;
		dst = hca_span_bytes(to, &n);
		src = hca_span_bytes(from, &n);
		memmove(dst, src, n);
		hca_span_skip(to, n);
		hca_span_skip(from, n);
	}
}

const struct ib_device_ops hca_mem_ops = {
	.get_dma_mr = hca_get_dma_mr,
	.reg_user_mr = hca_reg_user_mr,
	.alloc_mr = hca_alloc_mr,
	.dereg_mr = hca_dereg_mr,
	.map_mr_sg = hca_map_mr_sg,
};

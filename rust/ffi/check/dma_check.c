// SPDX-License-Identifier: GPL-2.0
/*
 * The checking mode of the DMA shims: see dma_check.h.
 *
 * Every mapping is recorded, under each page of DMA address space it touches,
 * with the side that owns its bytes: the device from the map on, the CPU from
 * sync_for_cpu to sync_for_device. Wrong uses are counted, shown in debugfs
 * (ko2iblnd_dma_check/) and reported in one line when the module exits. The
 * same directory has the knobs that make maps fail or merge, and that make
 * calls fail which set something up.
 */
#include <linux/debugfs.h>
#include <linux/hash.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "dma_check.h"

#ifdef KOR_DMA_CHECK

#define CHECK_BITS	12
#define CHECK_REPORTS	20

/* One mapping, once for each page that it touches. */
struct check_page {
	struct hlist_node node;
	struct check_map *map;
	u64 page;
};

struct check_map {
	struct ib_device *dev;
	u64 addr;
	size_t len;
	enum dma_data_direction dir;
	struct scatterlist *sgl;	/* NULL: a single buffer */
	u32 nents;			/* entries of sgl that were mapped */
	bool cpu_owns;
	u32 npages;
	struct check_page pages[] __counted_by(npages);
};

enum check_error {
	CHECK_LEAKED,		/* still mapped at exit */
	CHECK_UNKNOWN_UNMAP,	/* of something not mapped: double, too */
	CHECK_WRONG_UNMAP,	/* other length, direction or entries */
	CHECK_BAD_SYNC,		/* of something not mapped that way */
	CHECK_CPU_ACCESS,	/* by the CPU, to bytes the device owns */
	CHECK_POST_UNMAPPED,	/* a work request outside every mapping */
	CHECK_POST_UNSYNCED,	/* a work request on bytes the CPU owns */
	CHECK_POST_DIRECTION,	/* a receive into memory mapped for sending */
	CHECK_ERRORS,
};

static const char * const check_names[CHECK_ERRORS] = {
	"leaked", "unknown_unmap", "wrong_unmap", "bad_sync", "cpu_access",
	"post_unmapped", "post_unsynced", "post_direction",
};

static struct hlist_head check_table[1 << CHECK_BITS];
static DEFINE_SPINLOCK(check_lock);
static u32 check_errors[CHECK_ERRORS];
static u32 check_maps;		/* maps so far */
static u32 check_live;		/* mapped now */
static u32 check_merged;	/* entries merged away so far */
static u32 check_failed;	/* maps made to fail so far */
/* Records that could not be allocated: then what is missing is no error. */
static u32 check_lost;
static u32 check_reports;

static u32 check_fail_nth;	/* knob: every n-th map fails, 0: none */
static bool check_merge;	/* knob: adjacent entries merge */
/* knobs: so many creations of a QP fail, and how */
static atomic_t check_fail_qp = ATOMIC_INIT(0);
static u32 check_qp_errno = ENOMEM;
/* knob: so many calls that deregister an MR fail */
static atomic_t check_fail_dereg = ATOMIC_INIT(0);
/* knob: so many posts take the first request only, or not even that */
static atomic_t check_fail_post = ATOMIC_INIT(0);
static u32 check_fail_call;	/* knob: this set-up call fails, 0: none */
/* Set-up calls since that was written. */
static atomic_t check_calls = ATOMIC_INIT(0);

static struct dentry *check_dir;

static struct hlist_head *check_bucket(u64 page)
{
	return &check_table[hash_64(page, CHECK_BITS)];
}

static void check_count(enum check_error error, u64 addr, size_t len)
{
	check_errors[error]++;
	if (check_reports++ < CHECK_REPORTS)
		pr_err("ko2iblnd: dma-check: %s at %#llx, %zu bytes\n",
		       check_names[error], addr, len);
}

/* The mapping that holds @addr .. @addr + @len. Under check_lock. */
static struct check_map *check_find(struct ib_device *dev, u64 addr, size_t len)
{
	struct check_page *p;

	hlist_for_each_entry(p, check_bucket(addr >> PAGE_SHIFT), node) {
		struct check_map *map = p->map;

		if (p->page == addr >> PAGE_SHIFT && map->dev == dev &&
		    addr >= map->addr && addr + len <= map->addr + map->len)
			return map;
	}
	return NULL;
}

static void check_add(struct ib_device *dev, u64 addr, size_t len,
		      enum dma_data_direction dir, struct scatterlist *sgl,
		      u32 nents)
{
	u64 first = addr >> PAGE_SHIFT;
	u32 npages = ((addr + len - 1) >> PAGE_SHIFT) - first + 1;
	struct check_map *map;
	unsigned long flags;
	u32 i;

	map = kzalloc(struct_size(map, pages, npages),
		      GFP_ATOMIC | __GFP_NOWARN);
	spin_lock_irqsave(&check_lock, flags);
	check_maps++;
	if (!map) {
		check_lost++;
		goto out;
	}
	map->dev = dev;
	map->addr = addr;
	map->len = len;
	map->dir = dir;
	map->sgl = sgl;
	map->nents = nents;
	map->npages = npages;
	for (i = 0; i < npages; i++) {
		map->pages[i].map = map;
		map->pages[i].page = first + i;
		hlist_add_head(&map->pages[i].node, check_bucket(first + i));
	}
	check_live++;
out:
	spin_unlock_irqrestore(&check_lock, flags);
}

/* Under check_lock. */
static void check_del(struct check_map *map)
{
	u32 i;

	for (i = 0; i < map->npages; i++)
		hlist_del(&map->pages[i].node);
	check_live--;
	kfree(map);
}

bool kor_dma_check_fail(void)
{
	static atomic_t calls = ATOMIC_INIT(0);
	u32 nth = READ_ONCE(check_fail_nth);

	if (kor_dma_check_call())
		return true;
	if (!nth || (u32)atomic_inc_return(&calls) % nth)
		return false;
	check_failed++;
	return true;
}

bool kor_dma_check_call(void)
{
	return (u32)atomic_inc_return(&check_calls) ==
		READ_ONCE(check_fail_call);
}

int kor_dma_check_qp(void)
{
	if (atomic_dec_if_positive(&check_fail_qp) < 0)
		return 0;
	return -(int)READ_ONCE(check_qp_errno);
}

bool kor_dma_check_dereg(void)
{
	return atomic_dec_if_positive(&check_fail_dereg) >= 0;
}

int kor_dma_check_post_send(struct ib_qp *qp, struct ib_send_wr *wr,
			    const struct ib_send_wr **bad)
{
	struct ib_send_wr *rest = wr->next;
	int rc = 0;

	if (atomic_dec_if_positive(&check_fail_post) < 0)
		return ib_post_send(qp, wr, bad);
	*bad = wr;
	if (rest) {
		wr->next = NULL;
		rc = ib_post_send(qp, wr, bad);
		wr->next = rest;
		if (!rc)
			*bad = rest;
	}
	return rc ?: -ENOMEM;
}

int kor_dma_check_post_recv(struct ib_qp *qp, struct ib_recv_wr *wr,
			    const struct ib_recv_wr **bad)
{
	struct ib_recv_wr *rest = wr->next;
	int rc = 0;

	if (atomic_dec_if_positive(&check_fail_post) < 0)
		return ib_post_recv(qp, wr, bad);
	*bad = wr;
	if (rest) {
		wr->next = NULL;
		rc = ib_post_recv(qp, wr, bad);
		wr->next = rest;
		if (!rc)
			*bad = rest;
	}
	return rc ?: -ENOMEM;
}

/* Reads how many calls there were since the last write. */
static int check_calls_get(void *data, u64 *val)
{
	*val = (u32)atomic_read(&check_calls);
	return 0;
}

static int check_calls_set(void *data, u64 val)
{
	WRITE_ONCE(check_fail_call, 0);
	atomic_set(&check_calls, 0);
	WRITE_ONCE(check_fail_call, val);
	return 0;
}

DEFINE_DEBUGFS_ATTRIBUTE(check_calls_fops, check_calls_get, check_calls_set,
			 "%llu\n");

void kor_dma_check_map(struct ib_device *dev, u64 addr, size_t len,
		       enum dma_data_direction dir)
{
	check_add(dev, addr, len, dir, NULL, 0);
}

/* The mapping of a single buffer that starts at @addr. Under check_lock. */
static struct check_map *check_find_single(struct ib_device *dev, u64 addr)
{
	struct check_page *p;

	hlist_for_each_entry(p, check_bucket(addr >> PAGE_SHIFT), node)
		if (p->map->dev == dev && p->map->addr == addr &&
		    !p->map->sgl)
			return p->map;
	return NULL;
}

void kor_dma_check_unmap(struct ib_device *dev, u64 addr, size_t len,
			 enum dma_data_direction dir)
{
	struct check_map *map;
	unsigned long flags;

	spin_lock_irqsave(&check_lock, flags);
	map = check_find_single(dev, addr);
	if (map) {
		if (map->len != len || map->dir != dir)
			check_count(CHECK_WRONG_UNMAP, addr, len);
		check_del(map);
	} else if (!check_lost) {
		check_count(CHECK_UNKNOWN_UNMAP, addr, len);
	}
	spin_unlock_irqrestore(&check_lock, flags);
}

void kor_dma_check_sync(struct ib_device *dev, u64 addr, size_t len,
			enum dma_data_direction dir, bool to_device)
{
	struct check_map *map;
	unsigned long flags;

	spin_lock_irqsave(&check_lock, flags);
	map = check_find(dev, addr, len);
	if (map && map->dir == dir)
		map->cpu_owns = !to_device;
	else if (!check_lost)
		check_count(CHECK_BAD_SYNC, addr, len);
	spin_unlock_irqrestore(&check_lock, flags);
}

void kor_dma_check_cpu(struct ib_device *dev, u64 addr, size_t len)
{
	struct check_map *map;
	unsigned long flags;

	spin_lock_irqsave(&check_lock, flags);
	map = check_find(dev, addr, len);
	if (!map || !map->cpu_owns) {
		if (!check_lost)
			check_count(CHECK_CPU_ACCESS, addr, len);
	}
	spin_unlock_irqrestore(&check_lock, flags);
}

/* As an IOMMU would: entries that follow each other become one. */
static int check_merge_sg(struct scatterlist *sgl, int mapped)
{
	int to = 0;
	int i;

	for (i = 1; i < mapped; i++) {
		u64 end = sg_dma_address(&sgl[to]) + sg_dma_len(&sgl[to]);

		if (sg_dma_address(&sgl[i]) == end) {
			sg_dma_len(&sgl[to]) += sg_dma_len(&sgl[i]);
			check_merged++;
			continue;
		}
		to++;
		sg_dma_address(&sgl[to]) = sg_dma_address(&sgl[i]);
		sg_dma_len(&sgl[to]) = sg_dma_len(&sgl[i]);
	}
	return to + 1;
}

int kor_dma_check_map_sg(struct ib_device *dev, struct scatterlist *sgl, u32 n,
			 int mapped, enum dma_data_direction dir)
{
	int i;

	/* Only where no DMA device will look at the list again. */
	if (READ_ONCE(check_merge) && ib_uses_virt_dma(dev))
		mapped = check_merge_sg(sgl, mapped);
	for (i = 0; i < mapped; i++)
		check_add(dev, sg_dma_address(&sgl[i]), sg_dma_len(&sgl[i]),
			  dir, sgl, n);
	return mapped;
}

/* The mappings that belong to @sgl; the list itself may be changed by now. */
void kor_dma_check_unmap_sg(struct ib_device *dev, struct scatterlist *sgl,
			    u32 n, enum dma_data_direction dir)
{
	struct hlist_node *next;
	struct check_page *p;
	unsigned long flags;
	u32 found = 0;
	u32 i;

	spin_lock_irqsave(&check_lock, flags);
	for (i = 0; i < n; i++) {
		u64 page = sg_dma_address(&sgl[i]) >> PAGE_SHIFT;

		hlist_for_each_entry_safe(p, next, check_bucket(page), node) {
			struct check_map *map = p->map;

			if (map->sgl != sgl || map->dev != dev ||
			    map->addr != sg_dma_address(&sgl[i]))
				continue;
			if (map->nents != n || map->dir != dir)
				check_count(CHECK_WRONG_UNMAP, map->addr,
					    map->len);
			check_del(map);
			found++;
			break;
		}
	}
	if (!found && !check_lost)
		check_count(CHECK_UNKNOWN_UNMAP, sg_dma_address(sgl), n);
	spin_unlock_irqrestore(&check_lock, flags);
}

static void check_sges(struct ib_device *dev, const struct ib_sge *sge, int n,
		       bool recv)
{
	struct check_map *map;
	unsigned long flags;
	int i;

	spin_lock_irqsave(&check_lock, flags);
	for (i = 0; i < n; i++) {
		map = check_find(dev, sge[i].addr, sge[i].length);
		if (!map) {
			if (!check_lost)
				check_count(CHECK_POST_UNMAPPED, sge[i].addr,
					    sge[i].length);
			continue;
		}
		if (map->cpu_owns)
			check_count(CHECK_POST_UNSYNCED, sge[i].addr,
				    sge[i].length);
		if (recv && map->dir == DMA_TO_DEVICE)
			check_count(CHECK_POST_DIRECTION, sge[i].addr,
				    sge[i].length);
	}
	spin_unlock_irqrestore(&check_lock, flags);
}

void kor_dma_check_send(struct ib_device *dev, const struct ib_send_wr *wr)
{
	for (; wr; wr = wr->next)
		if (wr->opcode == IB_WR_SEND || wr->opcode == IB_WR_RDMA_WRITE)
			check_sges(dev, wr->sg_list, wr->num_sge, false);
}

void kor_dma_check_recv(struct ib_device *dev, const struct ib_recv_wr *wr)
{
	for (; wr; wr = wr->next)
		check_sges(dev, wr->sg_list, wr->num_sge, true);
}

int kor_dma_check_init(void)
{
	int i;

	check_dir = debugfs_create_dir("ko2iblnd_dma_check", NULL);
	for (i = 0; i < CHECK_ERRORS; i++)
		debugfs_create_u32(check_names[i], 0444, check_dir,
				   &check_errors[i]);
	debugfs_create_u32("maps", 0444, check_dir, &check_maps);
	debugfs_create_u32("live", 0444, check_dir, &check_live);
	debugfs_create_u32("merged", 0444, check_dir, &check_merged);
	debugfs_create_u32("failed", 0444, check_dir, &check_failed);
	debugfs_create_u32("lost", 0444, check_dir, &check_lost);
	debugfs_create_u32("fail_nth", 0644, check_dir, &check_fail_nth);
	debugfs_create_bool("merge", 0644, check_dir, &check_merge);
	debugfs_create_atomic_t("fail_qp", 0644, check_dir, &check_fail_qp);
	debugfs_create_u32("qp_errno", 0644, check_dir, &check_qp_errno);
	debugfs_create_atomic_t("fail_dereg", 0644, check_dir,
				&check_fail_dereg);
	debugfs_create_atomic_t("fail_post", 0644, check_dir, &check_fail_post);
	debugfs_create_file_unsafe("fail_call", 0644, check_dir, NULL,
				   &check_calls_fops);
	return 0;
}

void kor_dma_check_exit(void)
{
	u32 errors = 0;
	int i;

	debugfs_remove(check_dir);
	for (i = 0; i < ARRAY_SIZE(check_table); i++)
		while (!hlist_empty(&check_table[i])) {
			struct check_map *map =
				hlist_entry(check_table[i].first,
					    struct check_page, node)->map;

			check_count(CHECK_LEAKED, map->addr, map->len);
			check_del(map);
		}
	for (i = 0; i < CHECK_ERRORS; i++)
		errors += check_errors[i];
	if (errors)
		pr_err("ko2iblnd: dma-check: FAILED: %u errors: leaked %u unknown_unmap %u wrong_unmap %u bad_sync %u cpu_access %u post_unmapped %u post_unsynced %u post_direction %u\n",
		       errors, check_errors[0], check_errors[1],
		       check_errors[2], check_errors[3], check_errors[4],
		       check_errors[5], check_errors[6], check_errors[7]);
	else
		pr_info("ko2iblnd: dma-check: clean: maps %u merged %u failed %u lost %u\n",
			check_maps, check_merged, check_failed, check_lost);
}

#else

int kor_dma_check_init(void)
{
	return 0;
}

void kor_dma_check_exit(void)
{
}

void kor_dma_check_cpu(struct ib_device *dev, u64 addr, size_t len)
{
}

#endif /* KOR_DMA_CHECK */

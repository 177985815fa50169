// SPDX-License-Identifier: GPL-2.0
/*
 * Payload buffers: pages in several arrangements, a data pattern that shows
 * misplaced, stale and missing bytes, and poison around and under the payload
 * that shows what was written where nothing should be.
 */

#define pr_fmt(fmt) "lnet_standin: " fmt

#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/unaligned.h>
#include <linux/wordpart.h>

#include "standin.h"

/* Buffers that wait for their next use: allocating 257 pages a message costs. */
#define SI_POOL_PAGES	8192

static DEFINE_SPINLOCK(si_pool_lock);
static LIST_HEAD(si_pool);
static unsigned int si_pool_pages;

static unsigned int si_buf_npages(unsigned int len, unsigned int off,
				  enum si_style style)
{
	if (style == SI_GAP)
		return max(1u, DIV_ROUND_UP(len, SI_GAP_FRAG));
	return max_t(unsigned int, 1, DIV_ROUND_UP(off + len, PAGE_SIZE));
}

/* Pages that are neighbours in memory become the first and second half. */
static void si_buf_scatter(struct si_buf *buf)
{
	unsigned int half = buf->npages / 2, i;

	for (i = 0; i + half < buf->npages; i += 2)
		swap(buf->pages[i], buf->pages[i + half]);
}

static bool si_buf_alloc_contig(struct si_buf *buf, gfp_t gfp)
{
	unsigned int order = get_order((size_t)buf->npages << PAGE_SHIFT);
	struct page *page = alloc_pages(gfp | __GFP_NOWARN | __GFP_NORETRY, order);
	unsigned int i;

	if (!page)
		return false;
	split_page(page, order);
	for (i = 0; i < buf->npages; i++)
		buf->pages[i] = page + i;
	for (; i < 1u << order; i++)
		__free_page(page + i);
	return true;
}

static void si_buf_free(struct si_buf *buf)
{
	unsigned int i;

	for (i = 0; i < buf->npages; i++)
		if (buf->pages[i])
			__free_page(buf->pages[i]);
	kvfree(buf->kiov);
	kvfree(buf->pages);
	kfree(buf);
}

static struct si_buf *si_buf_alloc(unsigned int npages, enum si_style style,
				   gfp_t gfp)
{
	struct si_buf *buf = kzalloc_obj(*buf, gfp);
	unsigned int i;

	if (!buf)
		return NULL;
	buf->style = style;
	buf->pages = kvcalloc(npages, sizeof(*buf->pages), gfp);
	buf->kiov = kvcalloc(npages, sizeof(*buf->kiov), gfp);
	if (!buf->pages || !buf->kiov)
		goto err;
	buf->npages = npages;
	if (style == SI_CONTIG && si_buf_alloc_contig(buf, gfp))
		return buf;
	for (i = 0; i < npages; i++) {
		buf->pages[i] = alloc_page(gfp);
		if (!buf->pages[i])
			goto err;
	}
	if (style == SI_SCATTER)
		si_buf_scatter(buf);
	return buf;
err:
	si_buf_free(buf);
	return NULL;
}

static struct si_buf *si_pool_get(unsigned int npages, enum si_style style)
{
	struct si_buf *buf, *found = NULL;

	spin_lock(&si_pool_lock);
	list_for_each_entry(buf, &si_pool, link) {
		if (buf->npages != npages || buf->style != style)
			continue;
		list_del(&buf->link);
		si_pool_pages -= npages;
		found = buf;
		break;
	}
	spin_unlock(&si_pool_lock);
	return found;
}

/*
 * A buffer for @len bytes that start @off bytes into its first page (style "gap":
 * into every page). NULL without memory, or when that takes too many fragments.
 * The contents are whatever was there.
 */
struct si_buf *si_buf_get(unsigned int len, unsigned int off,
			  enum si_style style, gfp_t gfp)
{
	unsigned int room = style == SI_GAP ? SI_GAP_FRAG : PAGE_SIZE - off;
	unsigned int npages = si_buf_npages(len, off, style);
	struct si_buf *buf;
	unsigned int i = 0;

	if (off >= PAGE_SIZE || npages > SI_MAX_FRAGS)
		return NULL;
	if (style == SI_GAP && off > PAGE_SIZE - SI_GAP_FRAG)
		return NULL;
	buf = si_pool_get(npages, style);
	if (!buf)
		buf = si_buf_alloc(npages, style, gfp);
	if (!buf)
		return NULL;

	buf->len = len;
	while (len) {
		unsigned int n = min(len, room);

		bvec_set_page(&buf->kiov[i], buf->pages[i], n, off);
		len -= n;
		i++;
		if (style != SI_GAP) {
			off = 0;
			room = PAGE_SIZE;
		}
	}
	buf->nkiov = i;
	return buf;
}

void si_buf_put(struct si_buf *buf)
{
	struct si_buf *old = NULL;

	if (!buf)
		return;
	spin_lock(&si_pool_lock);
	list_add(&buf->link, &si_pool);
	si_pool_pages += buf->npages;
	if (si_pool_pages > SI_POOL_PAGES) {
		old = list_last_entry(&si_pool, struct si_buf, link);
		list_del(&old->link);
		si_pool_pages -= old->npages;
	}
	spin_unlock(&si_pool_lock);
	if (old)
		si_buf_free(old);
}

void si_buf_drain(void)
{
	struct si_buf *buf, *next;

	list_for_each_entry_safe(buf, next, &si_pool, link)
		si_buf_free(buf);
	INIT_LIST_HEAD(&si_pool);
	si_pool_pages = 0;
}

void si_buf_poison(struct si_buf *buf)
{
	unsigned int i;

	for (i = 0; i < buf->npages; i++) {
		void *p = kmap_local_page(buf->pages[i]);

		memset(p, SI_POISON, PAGE_SIZE);
		kunmap_local(p);
	}
}

/* ---------------------------------------------------------------- pattern */

/* @x with the lowest bit of each byte that looks like poison turned over. */
static u64 si_not_poison(u64 x)
{
	const u64 low = REPEAT_BYTE(0x7f);
	u64 t = x ^ REPEAT_BYTE(SI_POISON);

	t = ~(((t & low) + low) | t | low);	/* 0x80 for each byte that is 0 */
	return x ^ t >> 7;
}

/*
 * Word @n of the pattern; any two seeds and any two places differ. No byte of it
 * is poison, so that a single byte that never arrived shows. The old peer in
 * tests/kernel/oldpeer.py makes it once more.
 */
static u64 si_word(u64 seed, u64 n)
{
	u64 x = (seed ^ 0x6b6f722d6c6e6474ULL) + n * 0x9e3779b97f4a7c15ULL;

	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9ULL;
	return si_not_poison(x ^ (x >> 32));
}

static u8 si_byte(u64 seed, u64 pos)
{
	return si_word(seed, pos >> 3) >> (8 * (pos & 7));
}

static void si_fill(u8 *p, unsigned int len, u64 seed, u64 pos)
{
	for (; len && pos & 7; len--, pos++)
		*p++ = si_byte(seed, pos);
	for (; len >= 8; len -= 8, pos += 8, p += 8)
		put_unaligned_le64(si_word(seed, pos >> 3), p);
	for (; len; len--, pos++)
		*p++ = si_byte(seed, pos);
}

/* Returns @len, or how many bytes are right before the first wrong one. */
static unsigned int si_compare(const u8 *p, unsigned int len, u64 seed, u64 pos)
{
	unsigned int i = 0;

	for (; i < len && (pos + i) & 7; i++)
		if (p[i] != si_byte(seed, pos + i))
			return i;
	for (; len - i >= 8; i += 8)
		if (get_unaligned_le64(p + i) != si_word(seed, (pos + i) >> 3))
			break;
	for (; i < len; i++)
		if (p[i] != si_byte(seed, pos + i))
			return i;
	return len;
}

void si_buf_fill(struct si_buf *buf, u64 seed, u64 pos)
{
	unsigned int i;

	for (i = 0; i < buf->nkiov; i++) {
		const struct bio_vec *bv = &buf->kiov[i];
		u8 *p = kmap_local_page(bv->bv_page);

		si_fill(p + bv->bv_offset, bv->bv_len, seed, pos);
		kunmap_local(p);
		pos += bv->bv_len;
	}
}

void si_buf_copy_in(struct si_buf *buf, const void *from, unsigned int len)
{
	struct iov_iter iter;

	iov_iter_bvec(&iter, ITER_DEST, buf->kiov, buf->nkiov, buf->len);
	WARN_ON_ONCE(copy_to_iter(from, len, &iter) != len);
}

void si_buf_copy_out(struct si_buf *buf, void *to, unsigned int len)
{
	struct iov_iter iter;

	iov_iter_bvec(&iter, ITER_SOURCE, buf->kiov, buf->nkiov, buf->len);
	WARN_ON_ONCE(copy_from_iter(to, len, &iter) != len);
}

struct si_expect {
	unsigned int	from;	/* payload offsets that carry the pattern */
	unsigned int	to;
	u64		seed;
	u64		pos;	/* of the pattern at from */
	const char	*who;
};

static int si_check_poison(const u8 *p, unsigned int len, unsigned int at,
			   const struct si_expect *ex, const char *where)
{
	const u8 *bad = memchr_inv(p, SI_POISON, len);

	if (!bad)
		return 0;
	si_violation(bounds, "%s: byte %u %s is %02x, payload [%u, %u)", ex->who,
		     at + (unsigned int)(bad - p), where, *bad, ex->from, ex->to);
	return -EBADMSG;
}

/* One fragment; @at is the payload offset of its first byte. */
static int si_check_frag(const u8 *p, unsigned int len, unsigned int at,
			 const struct si_expect *ex)
{
	unsigned int a = clamp(ex->from, at, at + len) - at;
	unsigned int b = clamp(ex->to, at, at + len) - at;
	unsigned int good;
	int rc;

	rc = si_check_poison(p, a, at, ex, "before it");
	if (rc)
		return rc;
	rc = si_check_poison(p + b, len - b, at + b, ex, "behind it");
	if (rc || a == b)
		return rc;
	good = si_compare(p + a, b - a, ex->seed, ex->pos + at + a - ex->from);
	if (good == b - a)
		return 0;
	si_violation(data, "%s: byte %u of [%u, %u) is %02x, not %02x, seed %llx",
		     ex->who, at + a + good, ex->from, ex->to, p[a + good],
		     si_byte(ex->seed, ex->pos + at + a + good - ex->from), ex->seed);
	return -EBADMSG;
}

int si_buf_check(struct si_buf *buf, unsigned int from, unsigned int len,
		 u64 seed, u64 pos, const char *who)
{
	struct si_expect ex = {
		.from = from, .to = from + len, .seed = seed, .pos = pos, .who = who,
	};
	unsigned int at = 0, i;
	int rc = 0;

	for (i = 0; i < buf->npages && !rc; i++) {
		u8 *p = kmap_local_page(buf->pages[i]);
		unsigned int off = 0, n = 0;

		if (i < buf->nkiov) {
			off = buf->kiov[i].bv_offset;
			n = buf->kiov[i].bv_len;
		}
		rc = si_check_frag(p + off, n, at, &ex);
		if (!rc)
			rc = si_check_poison(p, off, at, &ex, "in front");
		if (!rc)
			rc = si_check_poison(p + off + n, PAGE_SIZE - off - n,
					     at + n, &ex, "at the page end");
		kunmap_local(p);
		at += n;
	}
	return rc;
}

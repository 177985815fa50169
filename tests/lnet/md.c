// SPDX-License-Identifier: GPL-2.0
/* Memory descriptors and the handles that name them on the wire. */

#include <linux/jhash.h>
#include <linux/random.h>
#include <linux/xarray.h>

#include "standin.h"

static DEFINE_XARRAY_ALLOC1(si_mds);
static u32 si_md_next;
static u64 si_interface_cookie;

/* New memory descriptors say that their memory is a GPU's. It is not. */
bool si_gpu;

u32 si_kiov_sum(const struct lnet_libmd *md)
{
	return jhash(md->md_kiov, md->md_niov * sizeof(*md->md_kiov), md->md_length);
}

void si_md_init(struct si_md *md, struct si_buf *buf)
{
	refcount_set(&md->refs, 1);
	md->buf = buf;
	md->md.md_kiov = buf->kiov;
	md->md.md_niov = buf->nkiov;
	md->md.md_length = buf->len;
	md->md.md_flags = READ_ONCE(si_gpu) ? LNET_MD_FLAG_GPU : 0;
	md->kiov_sum = si_kiov_sum(&md->md);
}

/* Lets ACKs and replies find @md. The table has no reference of its own. */
int si_md_link(struct si_md *md)
{
	int rc = xa_alloc_cyclic(&si_mds, &md->handle, md, xa_limit_31b,
				 &si_md_next, GFP_NOFS);

	return rc < 0 ? rc : 0;
}

/* Late ACKs and replies find nothing after this. */
void si_md_unlink(struct si_md *md)
{
	if (md->handle)
		xa_erase(&si_mds, md->handle);
	md->handle = 0;
}

struct si_md *si_md_lookup(const struct lnet_handle_wire *wh)
{
	struct si_md *md;

	if (wh->wh_interface_cookie != si_interface_cookie ||
	    wh->wh_object_cookie > U32_MAX)
		return NULL;
	xa_lock(&si_mds);
	md = xa_load(&si_mds, wh->wh_object_cookie);
	if (md && !refcount_inc_not_zero(&md->refs))
		md = NULL;
	xa_unlock(&si_mds);
	return md;
}

void si_md_get(struct si_md *md)
{
	refcount_inc(&md->refs);
}

void si_md_put(struct si_md *md)
{
	if (md && refcount_dec_and_test(&md->refs))
		md->release(md);
}

void si_md_fill_handle(const struct si_md *md, struct lnet_handle_wire *wh)
{
	wh->wh_interface_cookie = si_interface_cookie;
	wh->wh_object_cookie = md->handle;
}

bool si_md_any(void)
{
	return !xa_empty(&si_mds);
}

void si_md_setup(void)
{
	/* all ones means "no handle" on the wire */
	si_interface_cookie = get_random_u64() >> 1;
}

void si_md_cleanup(void)
{
	xa_destroy(&si_mds);
}

// SPDX-License-Identifier: GPL-2.0
/*
 * The buffers that other nodes' messages meet here. Portals are armed for good:
 * 10 takes PUTs and verifies them, 11 answers GETs, 12 matches nothing, and 13
 * takes PUTs as 10 does, but only after a while.
 */

#include <linux/bitfield.h>

#include "standin.h"

struct si_target {
	struct si_md	md;
	u64		seed;
	unsigned int	offset;		/* first byte of a PUT */
	bool		verify;
};

#define SI_WISH_OFF	GENMASK_ULL(11, 0)
#define SI_WISH_STYLE	GENMASK_ULL(13, 12)
#define SI_WISH_VERIFY	BIT_ULL(14)
#define SI_WISH_TRUNC	BIT_ULL(15)
#define SI_WISH_DELAY	GENMASK_ULL(31, 16)
#define SI_WISH_TAG	GENMASK_ULL(63, 32)

u64 si_wish_pack(const struct si_wish *wish)
{
	return FIELD_PREP(SI_WISH_OFF, wish->off) |
	       FIELD_PREP(SI_WISH_STYLE, wish->style) |
	       (wish->verify ? SI_WISH_VERIFY : 0) |
	       (wish->trunc ? SI_WISH_TRUNC : 0) |
	       FIELD_PREP(SI_WISH_DELAY, wish->delay_ms) |
	       FIELD_PREP(SI_WISH_TAG, wish->tag);
}

void si_wish_unpack(u64 bits, struct si_wish *wish)
{
	wish->off = FIELD_GET(SI_WISH_OFF, bits);
	wish->style = FIELD_GET(SI_WISH_STYLE, bits);
	wish->verify = bits & SI_WISH_VERIFY;
	wish->trunc = bits & SI_WISH_TRUNC;
	wish->delay_ms = FIELD_GET(SI_WISH_DELAY, bits);
	wish->tag = FIELD_GET(SI_WISH_TAG, bits);
}

static void si_target_put_event(struct si_target *t, const struct si_event *ev)
{
	if (ev->status) {
		si_stat_inc(sink_err);
		return;
	}
	si_stat_add(sink_bytes, ev->mlength);
	if (t->verify && si_buf_check(t->md.buf, t->offset, ev->mlength, t->seed, 0,
				      "sink of a PUT"))
		si_stat_inc(sink_bad);
	else
		si_stat_inc(sink_ok);
}

static void si_target_event(struct si_md *md, const struct si_event *ev)
{
	struct si_target *t = container_of(md, struct si_target, md);

	switch (ev->type) {
	case SI_EV_PUT:
		si_target_put_event(t, ev);
		break;
	case SI_EV_GET:
		if (ev->status) {
			si_stat_inc(source_err);
			break;
		}
		si_stat_inc(source_ok);
		si_stat_add(source_bytes, ev->mlength);
		break;
	case SI_EV_SEND:
	case SI_EV_ACK:
	case SI_EV_REPLY:
		break;
	}
}

static void si_target_release(struct si_md *md)
{
	struct si_target *t = container_of(md, struct si_target, md);

	si_buf_put(md->buf);
	kfree(t);
}

static struct si_target *si_target_new(struct si_buf *buf)
{
	struct si_target *t = kzalloc_obj(*t, GFP_NOFS);

	if (!t) {
		si_buf_put(buf);
		return NULL;
	}
	si_md_init(&t->md, buf);
	t->md.event = si_target_event;
	t->md.release = si_target_release;
	return t;
}

/* A target over @buf, which it owns also when this fails. */
struct si_md *si_target_md(struct si_buf *buf)
{
	struct si_target *t = si_target_new(buf);

	return t ? &t->md : NULL;
}

int si_match_put(const struct lnet_hdr *hdr, struct si_match *match)
{
	const struct lnet_put *put = &hdr->msg.put;
	u32 portal = le32_to_cpu(put->ptl_index);
	u32 offset = le32_to_cpu(put->offset);
	struct si_wish wish;
	struct si_target *t;
	struct si_buf *buf;
	u32 len;

	if (portal != SI_PORTAL_SINK && portal != SI_PORTAL_DELAY)
		return -ENOENT;
	si_wish_unpack(le64_to_cpu(put->match_bits), &wish);
	len = wish.trunc ? hdr->payload_length / 2 : hdr->payload_length;
	if (offset > SI_MAX_LEN || offset + len > SI_MAX_LEN)
		return -ENOENT;
	buf = si_buf_get(offset + len, wish.off, wish.style, GFP_NOFS);
	t = buf ? si_target_new(buf) : NULL;
	if (!t)
		return -ENOMEM;
	if (wish.verify)
		si_buf_poison(buf);
	t->seed = put->hdr_data;
	t->offset = offset;
	t->verify = wish.verify;
	match->md = &t->md;
	match->offset = offset;
	match->mlength = len;
	match->delay_ms = portal == SI_PORTAL_DELAY ? max(wish.delay_ms, 1u) : 0;
	return 0;
}

int si_match_get(struct si_ni *ni, const struct lnet_hdr *hdr,
		 struct si_match *match)
{
	const struct lnet_get *get = &hdr->msg.get;
	u32 portal = le32_to_cpu(get->ptl_index);
	u32 offset = le32_to_cpu(get->src_offset);
	u32 len = le32_to_cpu(get->sink_length);
	struct si_wish wish;
	struct si_buf *buf;

	if (portal == LNET_RESERVED_PORTAL)
		return si_match_ping(ni, hdr, match);
	if (portal != SI_PORTAL_SOURCE)
		return -ENOENT;
	si_wish_unpack(le64_to_cpu(get->match_bits), &wish);
	if (wish.trunc)
		len /= 2;
	if (len > SI_MAX_LEN || offset > SI_MAX_LEN || offset + len > SI_MAX_LEN)
		return -ENOENT;
	buf = si_buf_get(offset + len, wish.off, wish.style, GFP_NOFS);
	match->md = buf ? si_target_md(buf) : NULL;
	if (!match->md)
		return -ENOMEM;
	if (wish.verify)
		si_buf_fill(buf, wish.tag, 0);
	match->offset = offset;
	match->mlength = len;
	return 0;
}

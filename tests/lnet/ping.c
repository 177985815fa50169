// SPDX-License-Identifier: GPL-2.0
/*
 * LNet's ping: a GET on portal 0 that returns the node's NIs. Both roles, in
 * LNet's format, so that a real node's lnetctl ping is answered, and real nodes
 * can be pinged.
 */

#include "standin.h"

#define SI_PING_FEAT_PING	BIT(0)
#define SI_PING_FEAT_STATUS	BIT(1)
#define SI_PING_UP		0x15aac0de
#define SI_PING_DOWN		0xdeadface
#define SI_PING_NIS		16

struct si_ping_ni {
	u64	nid;
	u32	status;
	u32	zero;
} __packed;

struct si_ping_info {
	u32			magic;
	u32			features;
	u32			pid;
	u32			nnis;
	struct si_ping_ni	ni[SI_PING_NIS];
} __packed;

static unsigned int si_ping_collect(struct si_ping_info *info)
{
	struct si_ni *sni;
	unsigned int n = 0;

	info->magic = LNET_PROTO_PING_MAGIC;
	info->features = SI_PING_FEAT_PING | SI_PING_FEAT_STATUS;
	info->pid = LNET_PID_LUSTRE;
	info->ni[n].nid = (u64)si_net(LOLND, 0) << 32;
	info->ni[n++].status = SI_PING_UP;
	spin_lock(&si_net_lock);
	list_for_each_entry(sni, &si_nis, link) {
		if (!sni->visible || n == SI_PING_NIS)
			continue;
		info->ni[n].nid = si_nid_to_u64(&sni->ni.ni_nid);
		info->ni[n++].status = atomic_read(&sni->ni.ni_fatal_error_on) ?
				       SI_PING_DOWN : SI_PING_UP;
	}
	spin_unlock(&si_net_lock);
	info->nnis = n;
	return offsetof(struct si_ping_info, ni) + n * sizeof(info->ni[0]);
}

int si_match_ping(struct si_ni *ni, const struct lnet_hdr *hdr,
		  struct si_match *match)
{
	const struct lnet_get *get = &hdr->msg.get;
	struct si_ping_info info = {};
	unsigned int len;
	struct si_buf *buf;

	if (le64_to_cpu(get->match_bits) != LNET_PROTO_PING_MATCHBITS)
		return -ENOENT;
	len = si_ping_collect(&info);
	buf = si_buf_get(len, 0, SI_PAGES, GFP_NOFS);
	match->md = buf ? si_target_md(buf) : NULL;
	if (!match->md)
		return -ENOMEM;
	si_buf_copy_in(buf, &info, len);
	match->mlength = min(len, le32_to_cpu(get->sink_length));
	si_stat_inc(ping_answered);
	return 0;
}

static u32 si_u32(const u32 *p, bool swap)
{
	return swap ? swab32(*p) : *p;
}

/* Prints what @len bytes of an answer say; -EPROTO if that is no answer. */
int si_ping_print(struct si_buf *buf, unsigned int len, struct si_out *out)
{
	struct si_ping_info info = {};
	unsigned int n, i;
	bool swap;

	if (len < offsetof(struct si_ping_info, ni))
		return -EPROTO;
	si_buf_copy_out(buf, &info, min_t(unsigned int, len, sizeof(info)));
	swap = info.magic == swab32(LNET_PROTO_PING_MAGIC);
	if (!swap && info.magic != LNET_PROTO_PING_MAGIC)
		return -EPROTO;
	n = si_u32(&info.nnis, swap);
	si_out(out, "features=%#x pid=%u nnis=%u\n", si_u32(&info.features, swap),
	       si_u32(&info.pid, swap), n);
	len -= offsetof(struct si_ping_info, ni);
	for (i = 0; i < n && i < SI_PING_NIS && len >= sizeof(info.ni[0]); i++) {
		u64 nid4 = swap ? swab64(info.ni[i].nid) : info.ni[i].nid;
		u32 status = si_u32(&info.ni[i].status, swap);
		struct lnet_nid nid;

		nid = si_nid_from_u64(nid4);
		si_out(out, "ni=%s status=%s\n", si_nidstr(&nid),
		       status == SI_PING_UP ? "up" : "down");
		len -= sizeof(info.ni[0]);
	}
	return 0;
}

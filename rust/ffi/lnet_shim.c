// SPDX-License-Identifier: GPL-2.0
/*
 * Between LNet's C interface and the Rust driver.
 *
 * Mechanical in both directions: this file copies fields between LNet's
 * structures and those of ko2iblnd/lnet.h and decides nothing. It is compiled
 * against the headers of a Lustre tree or against the LNet stand-in's, which
 * have the same names. NIDs and headers are converted here by member name,
 * because LNet's own helpers are static inlines that came and went.
 */
#include <linux/cpumask.h>
#include <linux/highmem.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uio.h>
#include <net/netlink.h>

#include <linux/libcfs/libcfs.h>
#include <linux/libcfs/libcfs_fail.h>
#include <linux/lnet/lib-lnet.h>

#include <ko2iblnd/lnet.h>

#define KOR_LND_TYPE		5	/* o2ib */
#define KOR_MD_GPU		BIT(5)	/* md_flags */
#define KOR_CMD_NETS		2	/* netlink command */
#define KOR_ATTR_LND_TUNABLES	11	/* of a local NI */
#define KOR_FAIL_MAP_SG		0xF201	/* fail_loc */

static_assert(sizeof(struct kor_cmn_tunables) ==
	      sizeof(struct lnet_ioctl_config_lnd_cmn_tunables));
static_assert(sizeof(struct kor_o2ib_tunables) ==
	      sizeof(struct lnet_ioctl_config_o2iblnd_tunables));
static_assert(sizeof_field(struct lnet_hdr, msg) == 40);

static const struct kor_lnd_ops *kor_ops;
static void *kor_ctx;

/* ------------------------------------------------------------ conversions */

static u64 kor_nid_to_64(const struct lnet_nid *nid)
{
	if (nid->nid_type == 0xff || nid->nid_size)
		return KOR_NID_ANY;
	return (u64)nid->nid_type << 48 | (u64)be16_to_cpu(nid->nid_num) << 32 |
	       be32_to_cpu(nid->nid_addr[0]);
}

static void kor_nid_from_64(struct lnet_nid *nid, u64 nid64)
{
	if (nid64 == KOR_NID_ANY) {
		memset(nid, 0xff, sizeof(*nid));
		nid->nid_size = 0;
		return;
	}
	memset(nid, 0, sizeof(*nid));
	nid->nid_type = nid64 >> 48 & 0xff;
	nid->nid_num = cpu_to_be16(nid64 >> 32 & 0xffff);
	nid->nid_addr[0] = cpu_to_be32(nid64 & 0xffffffff);
}

/* The 72 bytes on the wire; the union is little-endian or opaque already. */
struct kor_wire_hdr {
	__le64	dest_nid;
	__le64	src_nid;
	__le32	dest_pid;
	__le32	src_pid;
	__le32	type;
	__le32	payload_length;
	u8	msg[40];
} __packed;

static_assert(sizeof(struct kor_wire_hdr) == KOR_HDR_SIZE);

static void kor_hdr_to_wire(u8 *out, const struct lnet_hdr *hdr)
{
	struct kor_wire_hdr w = {
		.dest_nid	= cpu_to_le64(kor_nid_to_64(&hdr->dest_nid)),
		.src_nid	= cpu_to_le64(kor_nid_to_64(&hdr->src_nid)),
		.dest_pid	= cpu_to_le32(hdr->dest_pid),
		.src_pid	= cpu_to_le32(hdr->src_pid),
		.type		= cpu_to_le32(hdr->type),
		.payload_length	= cpu_to_le32(hdr->payload_length),
	};

	memcpy(w.msg, &hdr->msg, sizeof(w.msg));
	memcpy(out, &w, sizeof(w));
}

static void kor_hdr_from_wire(struct lnet_hdr *hdr, const u8 *in)
{
	struct kor_wire_hdr w;

	memcpy(&w, in, sizeof(w));
	memset(hdr, 0, sizeof(*hdr));
	kor_nid_from_64(&hdr->dest_nid, le64_to_cpu(w.dest_nid));
	kor_nid_from_64(&hdr->src_nid, le64_to_cpu(w.src_nid));
	hdr->dest_pid = le32_to_cpu(w.dest_pid);
	hdr->src_pid = le32_to_cpu(w.src_pid);
	hdr->type = le32_to_cpu(w.type);
	hdr->payload_length = le32_to_cpu(w.payload_length);
	memcpy(&hdr->msg, w.msg, sizeof(w.msg));
}

static void
kor_cmn_in(struct kor_cmn_tunables *k,
	   const struct lnet_ioctl_config_lnd_cmn_tunables *l)
{
	k->version = l->lct_version;
	k->peer_timeout = l->lct_peer_timeout;
	k->peer_tx_credits = l->lct_peer_tx_credits;
	k->peer_rtr_credits = l->lct_peer_rtr_credits;
	k->max_tx_credits = l->lct_max_tx_credits;
}

static void
kor_cmn_out(struct lnet_ioctl_config_lnd_cmn_tunables *l,
	    const struct kor_cmn_tunables *k)
{
	l->lct_version = k->version;
	l->lct_peer_timeout = k->peer_timeout;
	l->lct_peer_tx_credits = k->peer_tx_credits;
	l->lct_peer_rtr_credits = k->peer_rtr_credits;
	l->lct_max_tx_credits = k->max_tx_credits;
}

static void kor_o2ib_in(struct kor_o2ib_tunables *k,
			const struct lnet_lnd_tunables *tun)
{
	const struct lnet_ioctl_config_o2iblnd_tunables *l;

	l = &tun->lnd_tun_u.lnd_o2ib;
	memset(k, 0, sizeof(*k));
	k->version = l->lnd_version;
	k->peercredits_hiw = l->lnd_peercredits_hiw;
	k->map_on_demand = l->lnd_map_on_demand;
	k->concurrent_sends = l->lnd_concurrent_sends;
	k->fmr_pool_size = l->lnd_fmr_pool_size;
	k->fmr_flush_trigger = l->lnd_fmr_flush_trigger;
	k->fmr_cache = l->lnd_fmr_cache;
	k->conns_per_peer = READ_ONCE(l->lnd_conns_per_peer);
	k->ntx = l->lnd_ntx;
	k->timeout = l->lnd_timeout;
	k->tos = READ_ONCE(l->lnd_tos);
}

static void kor_o2ib_out(struct lnet_lnd_tunables *tun,
			 const struct kor_o2ib_tunables *k)
{
	struct lnet_ioctl_config_o2iblnd_tunables *l;

	l = &tun->lnd_tun_u.lnd_o2ib;
	l->lnd_version = k->version;
	l->lnd_peercredits_hiw = k->peercredits_hiw;
	l->lnd_map_on_demand = k->map_on_demand;
	l->lnd_concurrent_sends = k->concurrent_sends;
	l->lnd_fmr_pool_size = k->fmr_pool_size;
	l->lnd_fmr_flush_trigger = k->fmr_flush_trigger;
	l->lnd_fmr_cache = k->fmr_cache;
	WRITE_ONCE(l->lnd_conns_per_peer, k->conns_per_peer);
	l->lnd_ntx = k->ntx;
	l->lnd_timeout = k->timeout;
	WRITE_ONCE(l->lnd_tos, k->tos);
}

static bool kor_md_is_gpu(const struct lnet_libmd *md)
{
	return md && (md->md_flags & KOR_MD_GPU);
}

static struct kor_kiov kor_msg_source(const struct lnet_msg *msg)
{
	return (struct kor_kiov) {
		.bv	= msg->msg_kiov,
		.nr	= msg->msg_niov,
		.offset	= msg->msg_offset,
		.length	= msg->msg_len,
	};
}

/* ---------------------------------------------------- down: struct lnet_lnd */

static int kor_lnd_startup(struct lnet_ni *ni)
{
	void *data = NULL;
	int rc;

	rc = kor_ops->startup(kor_ctx, ni, &data);
	/* Nothing reads it before LNet has spliced the NI in under its locks. */
	if (!rc)
		ni->ni_data = data;
	return rc;
}

static void kor_lnd_shutdown(struct lnet_ni *ni)
{
	void *data = ni->ni_data;

	if (!data)
		return;
	kor_ops->shutdown(kor_ctx, ni, data);
	ni->ni_data = NULL;
}

static int kor_lnd_ctl(struct lnet_ni *ni, unsigned int cmd, void *arg)
{
	struct libcfs_ioctl_data *d = arg;
	struct kor_ctl ctl = {
		.nr	= _IOC_NR(cmd),
		.count	= d->ioc_count,
		.nid	= d->ioc_nid,
		.value	= d->ioc_u32[0],
	};
	int rc;

	rc = kor_ops->ctl(kor_ctx, ni->ni_data, &ctl);
	if (rc < 0)
		return rc;
	d->ioc_count = ctl.count;
	d->ioc_nid = ctl.nid;
	d->ioc_u32[0] = ctl.value;
	return rc;
}

static int kor_lnd_send(struct lnet_ni *ni, void *private, struct lnet_msg *msg)
{
	struct kor_send s = {
		.msg			= msg,
		.source			= kor_msg_source(msg),
		.target			= kor_nid_to_64(&msg->msg_target.nid),
		.type			= msg->msg_type,
		.target_is_router	= msg->msg_target_is_router,
		.routing		= msg->msg_routing,
		.gpu			= kor_md_is_gpu(msg->msg_md),
	};

	if (msg->msg_md) {
		s.sink.bv = msg->msg_md->md_kiov;
		s.sink.nr = msg->msg_md->md_niov;
		s.sink.length = msg->msg_md->md_length;
	}
	kor_hdr_to_wire(s.hdr, &msg->msg_hdr);
	return kor_ops->send(kor_ctx, ni->ni_data, &s);
}

static int kor_lnd_recv(struct lnet_ni *ni, void *private, struct lnet_msg *msg,
			int delayed, struct iov_iter *to, unsigned int rlen)
{
	struct kor_recv r = {
		.msg	= msg,
		.rlen	= rlen,
	};

	if (msg) {
		r.type = msg->msg_type;
		r.source = kor_msg_source(msg);
		r.gpu = kor_md_is_gpu(msg->msg_md);
	}
	if (to && iov_iter_count(to)) {
		r.sink.bv = to->bvec;
		r.sink.nr = to->nr_segs;
		r.sink.offset = to->iov_offset;
		r.sink.length = iov_iter_count(to);
	}
	/* The driver finalizes the message in every case, so there is no error. */
	kor_ops->recv(kor_ctx, private, &r);
	return 0;
}

static unsigned int kor_lnd_get_dev_prio(struct lnet_ni *ni,
					 unsigned int dev_idx)
{
	return kor_ops->dev_prio(kor_ctx, ni->ni_data, dev_idx);
}

static int kor_lnd_get_timeout(void)
{
	return kor_ops->timeout(kor_ctx);
}

static int kor_lnd_tun_defaults(struct lnet_lnd_tunables *lnd_tun,
				struct lnet_ioctl_config_lnd_cmn_tunables *cmn)
{
	struct kor_tunables t = { .o2ib_set = false };
	int rc;

	kor_cmn_in(&t.cmn, cmn);
	rc = kor_ops->tun_defaults(kor_ctx, &t);
	if (rc)
		return rc;
	kor_cmn_out(cmn, &t.cmn);
	kor_o2ib_out(lnd_tun, &t.o2ib);
	return 0;
}

enum {
	KOR_TUN_HIW = 1,
	KOR_TUN_CONCURRENT_SENDS,
	KOR_TUN_MAP_ON_DEMAND,
	KOR_TUN_FMR_POOL_SIZE,
	KOR_TUN_FMR_FLUSH_TRIGGER,
	KOR_TUN_FMR_CACHE,
	KOR_TUN_NTX,
	KOR_TUN_CONNS_PER_PEER,
	KOR_TUN_TIMEOUT,
	KOR_TUN_TOS,
	KOR_TUN_MAX = KOR_TUN_TOS,
};

static const struct ln_key_list kor_lnd_keys = {
	.lkl_maxattr = KOR_TUN_MAX,
	.lkl_list = {
		[KOR_TUN_HIW] = {
			.lkp_value = "peercredits_hiw",
			.lkp_data_type = NLA_U32,
		},
		[KOR_TUN_CONCURRENT_SENDS] = {
			.lkp_value = "concurrent_sends",
			.lkp_data_type = NLA_U32,
		},
		[KOR_TUN_MAP_ON_DEMAND] = {
			.lkp_value = "map_on_demand",
			.lkp_data_type = NLA_FLAG,
		},
		[KOR_TUN_FMR_POOL_SIZE] = {
			.lkp_value = "fmr_pool_size",
			.lkp_data_type = NLA_U32,
		},
		[KOR_TUN_FMR_FLUSH_TRIGGER] = {
			.lkp_value = "fmr_flush_trigger",
			.lkp_data_type = NLA_U32,
		},
		[KOR_TUN_FMR_CACHE] = {
			.lkp_value = "fmr_cache",
			.lkp_data_type = NLA_U32,
		},
		[KOR_TUN_NTX] = {
			.lkp_value = "ntx",
			.lkp_data_type = NLA_U16,
		},
		[KOR_TUN_CONNS_PER_PEER] = {
			.lkp_value = "conns_per_peer",
			.lkp_data_type = NLA_U16,
		},
		[KOR_TUN_TIMEOUT] = {
			.lkp_value = "timeout",
			.lkp_data_type = NLA_U32,
		},
		[KOR_TUN_TOS] = {
			.lkp_value = "tos",
			.lkp_data_type = NLA_S16,
		},
	},
};

static int kor_lnd_nl_get(int cmd, struct sk_buff *msg, int type, void *data,
			  bool export_backup)
{
	struct lnet_ni *ni = data;
	struct kor_o2ib_tunables t;

	if (cmd != KOR_CMD_NETS || type != KOR_ATTR_LND_TUNABLES)
		return -EOPNOTSUPP;
	if (!ni || !msg)
		return -EINVAL;

	kor_o2ib_in(&t, &ni->ni_lnd_tunables);
	kor_ops->nl_get(kor_ctx, &t);

	if (nla_put_u32(msg, KOR_TUN_HIW, t.peercredits_hiw) ||
	    nla_put_u32(msg, KOR_TUN_CONCURRENT_SENDS, t.concurrent_sends) ||
	    nla_put_flag(msg, KOR_TUN_MAP_ON_DEMAND) ||
	    nla_put_u32(msg, KOR_TUN_FMR_POOL_SIZE, t.fmr_pool_size) ||
	    nla_put_u32(msg, KOR_TUN_FMR_FLUSH_TRIGGER, t.fmr_flush_trigger) ||
	    nla_put_u32(msg, KOR_TUN_FMR_CACHE, t.fmr_cache) ||
	    nla_put_u16(msg, KOR_TUN_NTX, t.ntx) ||
	    nla_put_u16(msg, KOR_TUN_CONNS_PER_PEER, t.conns_per_peer) ||
	    (!export_backup && nla_put_u32(msg, KOR_TUN_TIMEOUT, t.timeout)) ||
	    nla_put_s16(msg, KOR_TUN_TOS, t.tos))
		return -EMSGSIZE;
	return 0;
}

static int kor_lnd_nl_set(int cmd, struct nlattr *attr, int type, void *data)
{
	struct lnet_lnd_tunables *tun = data;
	struct kor_o2ib_tunables t;
	int rc;

	if (cmd != KOR_CMD_NETS)
		return -EOPNOTSUPP;
	if (!attr || !tun || nla_type(attr) != LN_SCALAR_ATTR_INT_VALUE ||
	    nla_len(attr) < sizeof(s64) || type < 0)
		return -EINVAL;

	kor_o2ib_in(&t, tun);
	rc = kor_ops->nl_set(kor_ctx, type, nla_get_s64(attr), &t);
	if (rc)
		return rc;
	kor_o2ib_out(tun, &t);
	return 0;
}

/* In the order of the structure; what is absent o2iblnd does not have either. */
static const struct lnet_lnd kor_lnd = {
	.lnd_type		= KOR_LND_TYPE,
	.lnd_startup		= kor_lnd_startup,
	.lnd_shutdown		= kor_lnd_shutdown,
	.lnd_ctl		= kor_lnd_ctl,
	.lnd_send		= kor_lnd_send,
	.lnd_recv		= kor_lnd_recv,
	.lnd_get_dev_prio	= kor_lnd_get_dev_prio,
	.lnd_get_timeout	= kor_lnd_get_timeout,
	.lnd_tun_defaults	= kor_lnd_tun_defaults,
	.lnd_nl_get		= kor_lnd_nl_get,
	.lnd_nl_set		= kor_lnd_nl_set,
	.lnd_keys		= &kor_lnd_keys,
};

/* ---------------------------------------------------------- up: lifecycle */

int kor_lnet_register(const struct kor_lnd_ops *ops, void *ctx)
{
	int rc;

	rc = libcfs_setup();
	if (rc)
		return rc;
	kor_ops = ops;
	kor_ctx = ctx;
	lnet_register_lnd(&kor_lnd);
	return 0;
}

void kor_lnet_unregister(void)
{
	lnet_unregister_lnd(&kor_lnd);
}

u32 kor_lnet_lnd_timeout(void)
{
	return lnet_get_lnd_timeout();
}

bool kor_module_get(void)
{
	return try_module_get(THIS_MODULE);
}

void kor_module_put(void)
{
	module_put(THIS_MODULE);
}

/* ----------------------------------------------------------- up: messages */

int kor_lnet_parse(struct lnet_ni *ni, const u8 *hdr, u64 from, void *rx,
		   bool rdma)
{
	struct lnet_nid from_nid;
	struct lnet_hdr h;

	kor_hdr_from_wire(&h, hdr);
	kor_nid_from_64(&from_nid, from);
	return lnet_parse(ni, &h, &from_nid, rx, rdma);
}

void kor_lnet_finalize(struct lnet_msg *msg, int status, u32 health)
{
	msg->msg_health_status = health;
	lnet_finalize(msg, status);
}

struct lnet_msg *kor_lnet_create_reply(struct lnet_ni *ni, struct lnet_msg *get)
{
	return lnet_create_reply_msg(ni, get);
}

void kor_lnet_set_reply_len(struct lnet_ni *ni, struct lnet_msg *reply, u32 len)
{
	lnet_set_reply_msg_len(ni, reply, len);
}

bool kor_lnet_simulate_error(struct lnet_msg *msg, u32 *health)
{
	enum lnet_msg_hstatus hstatus = *health;
	bool fail;

	fail = lnet_send_error_simulation(msg, &hstatus);
	*health = hstatus;
	return fail;
}

bool kor_lnet_fail_map_sg(void)
{
	return CFS_FAIL_CHECK(KOR_FAIL_MAP_SG);
}

/* ------------------------------------------------------ up: peers and NIs */

void kor_lnet_notify_down(struct lnet_ni *ni, u64 nid, s64 when)
{
	struct lnet_nid n;

	kor_nid_from_64(&n, nid);
	lnet_notify(ni, &n, false, false, when);
}

u32 kor_lnet_nid2cpt(u64 nid, struct lnet_ni *ni)
{
	struct lnet_nid n;

	kor_nid_from_64(&n, nid);
	return lnet_nid2cpt(&n, ni);
}

u64 kor_lnet_ni_nid(const struct lnet_ni *ni)
{
	return kor_nid_to_64(&ni->ni_nid);
}

u16 kor_lnet_ni_netnum(const struct lnet_ni *ni)
{
	return be16_to_cpu(ni->ni_nid.nid_num);
}

u32 kor_lnet_ni_addr_len(const struct lnet_ni *ni)
{
	if (ni->ni_nid.nid_size)
		return 16;
	return ni->ni_nid.nid_addr[0] ? 4 : 0;
}

void kor_lnet_ni_set_addr(struct lnet_ni *ni, u32 addr)
{
	ni->ni_nid.nid_size = 0;
	ni->ni_nid.nid_addr[0] = cpu_to_be32(addr);
}

const char *kor_lnet_ni_interface(const struct lnet_ni *ni)
{
	return ni->ni_interface;
}

int kor_lnet_ni_set_interface(struct lnet_ni *ni, const char *name)
{
	char copy[KOR_IFNAMSIZ];

	/* LNet takes its own copy, but does not say const. */
	if (strscpy(copy, name, sizeof(copy)) < 0)
		return -E2BIG;
	return lnet_ni_add_interface(ni, copy);
}

struct net *kor_lnet_ni_net_ns(const struct lnet_ni *ni)
{
	return ni->ni_net_ns;
}

bool kor_lnet_ni_active(const struct lnet_ni *ni)
{
	return READ_ONCE(ni->ni_state) == LNET_NI_STATE_ACTIVE;
}

bool kor_lnet_ni_set_fatal(struct lnet_ni *ni, bool fatal)
{
	return !!lnet_set_link_fatal_state(ni, fatal) != fatal;
}

void kor_lnet_mark_ping_buffer(void)
{
	lnet_mark_ping_buffer_for_update();
}

int kor_lnet_ni_set_dev_cpt(struct lnet_ni *ni, int cpt)
{
	ni->ni_dev_cpt = cpt;
	return lnet_ni_set_default_cpts(ni);
}

int kor_lnet_ni_cpt(const struct lnet_ni *ni, u32 i)
{
	if (!ni->ni_cpts)
		return i < cfs_cpt_number(lnet_cpt_table()) ? (int)i : -1;
	return i < ni->ni_ncpts ? (int)ni->ni_cpts[i] : -1;
}

void kor_lnet_ni_tunables(const struct lnet_ni *ni, struct kor_tunables *t)
{
	kor_cmn_in(&t->cmn, &ni->ni_net->net_tunables);
	kor_o2ib_in(&t->o2ib, &ni->ni_lnd_tunables);
	t->o2ib_set = ni->ni_lnd_tunables_set;
}

void kor_lnet_ni_set_tunables(struct lnet_ni *ni, const struct kor_tunables *t)
{
	kor_cmn_out(&ni->ni_net->net_tunables, &t->cmn);
	kor_o2ib_out(&ni->ni_lnd_tunables, &t->o2ib);
}

u16 kor_lnet_ni_conns_per_peer(const struct lnet_ni *ni)
{
	return READ_ONCE(ni->ni_lnd_tunables.lnd_tun_u.lnd_o2ib
			 .lnd_conns_per_peer);
}

s16 kor_lnet_ni_tos(const struct lnet_ni *ni)
{
	return READ_ONCE(ni->ni_lnd_tunables.lnd_tun_u.lnd_o2ib.lnd_tos);
}

/* --------------------------------------------------------- up: interfaces */

int kor_lnet_inet_enumerate(struct lnet_inetdev **list, struct net *ns)
{
	*list = NULL;
	return lnet_inet_enumerate(list, ns, false);
}

int kor_lnet_inet_select(struct lnet_ni *ni, struct lnet_inetdev *list, u32 n)
{
	return lnet_inet_select(ni, list, n);
}

void kor_lnet_inet_entry(const struct lnet_inetdev *list, u32 i,
			 struct kor_inetdev *out)
{
	const struct lnet_inetdev *li = &list[i];

	memset(out, 0, sizeof(*out));
	out->addr_len = li->li_size;
	if (li->li_size == 4)
		out->addr = be32_to_cpu(li->li_ipaddr);
	out->ifindex = li->li_index;
	out->cpt = li->li_cpt;
	out->bond_master = li->li_iff_master;
	strscpy(out->name, li->li_name, sizeof(out->name));
}

void kor_lnet_inet_free(struct lnet_inetdev *list)
{
	kfree(list);
}

int kor_lnet_link_status(struct net *ns, u32 ifindex)
{
	struct net_device *dev;
	int up = 0;

	dev = dev_get_by_index(ns, ifindex);
	if (!dev)
		return -ENODEV;
	if (dev->reg_state == NETREG_REGISTERED && netif_oper_up(dev))
		up = lnet_get_link_status(dev) != 0;
	dev_put(dev);
	return up;
}

/* --------------------------------------------------------------- up: CPTs */

u32 kor_lnet_cpt_number(void)
{
	return cfs_cpt_number(lnet_cpt_table());
}

u32 kor_lnet_cpt_weight(u32 cpt)
{
	if (cpt >= kor_lnet_cpt_number())
		return 0;
	return cfs_cpt_weight(lnet_cpt_table(), cpt);
}

int kor_lnet_cpt_node(u32 cpt)
{
	if (cpt >= kor_lnet_cpt_number())
		return NUMA_NO_NODE;
	return cfs_cpt_spread_node(lnet_cpt_table(), cpt);
}

int kor_lnet_cpt_of_node(int node)
{
	return cfs_cpt_of_node(lnet_cpt_table(), node);
}

int kor_lnet_cpt_bind(u32 cpt)
{
	if (cpt >= kor_lnet_cpt_number())
		return -EINVAL;
	return cfs_cpt_bind(lnet_cpt_table(), cpt);
}

/* -------------------------------------------------------- up: pages */

void kor_page_read(struct page *page, u32 off, void *dst, u32 len)
{
	memcpy_from_page(dst, page, off, len);
}

void kor_page_write(struct page *page, u32 off, const void *src, u32 len)
{
	memcpy_to_page(page, off, src, len);
}

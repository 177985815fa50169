// SPDX-License-Identifier: GPL-2.0
/*
 * lnd_loop: a network driver that stays in memory, to test the LNet stand-in
 * before, and apart from, any real driver. It takes the same two ways as an
 * o2ib driver: small payloads travel with the message, large ones are moved
 * between the two buffers once both are known.
 *
 * "bad" makes it break one rule at a time, to see that the stand-in notices.
 */

#define pr_fmt(fmt) "lnd_loop: " fmt

#include <linux/lnet/lib-lnet.h>

#include <linux/highmem.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#define LOOP_IMMEDIATE	3976

enum loop_bad {
	LOOP_GOOD,
	LOOP_TWICE,		/* finalize a PUT twice */
	LOOP_NEVER,		/* never finalize a PUT */
	LOOP_CORRUPT,		/* change a byte on the way */
	LOOP_OVERRUN,		/* write behind the payload */
	LOOP_SHORT,		/* leave the last byte out */
	LOOP_REPLY_LEN,		/* a reply longer than its buffer */
	LOOP_HOLD_NI,		/* keep an NI reference over the shutdown */
	LOOP_ATOMIC,		/* finalize with preemption off */
	LOOP_STARTUP,		/* leave the tunables unset */
	LOOP_KEEP,		/* return an error for a message it finalized */
	LOOP_POSITIVE,		/* return a positive number */
	LOOP_KIOV,		/* change a page vector */
	LOOP_REPLY_LEFT,	/* leave a reply message behind */
	LOOP_FUTURE,		/* a life sign from the future */
	LOOP_SECOND,		/* register a second driver */
	LOOP_PUT_NI,		/* drop an NI reference twice */
	LOOP_STATUS,		/* finalize with a positive status */
	LOOP_FLAG,		/* parse an ACK as an RDMA request */
	LOOP_REPLY_TO_PUT,	/* create a reply message for a PUT */
	LOOP_STALE_NI,		/* name an NI that never was */
	LOOP_QUEUED,		/* finalize what LNet is finalizing */
};

static int bad;
module_param(bad, int, 0644);
MODULE_PARM_DESC(bad, "the rule to break (0: none)");

static struct workqueue_struct *loop_wq;

struct loop_item {
	struct work_struct	work;
	struct lnet_ni		*ni;
	struct lnet_msg		*msg;	/* NULL once its payload was copied */
	struct lnet_msg		*reply;
	struct lnet_nid		target;
	struct lnet_hdr		hdr;
	bool			rdma;
	unsigned int		len;
	u8			data[];
};

static void loop_finalize(struct lnet_msg *msg, int rc, enum lnet_msg_hstatus hs)
{
	if (!msg)
		return;
	msg->msg_health_status = hs;
	if (READ_ONCE(bad) == LOOP_NEVER && msg->msg_type == LNET_MSG_PUT)
		return;
	if (READ_ONCE(bad) == LOOP_KIOV && msg->msg_len)
		msg->msg_kiov[0].bv_len--;
	if (READ_ONCE(bad) == LOOP_ATOMIC)
		local_irq_disable();
	lnet_finalize(msg, READ_ONCE(bad) == LOOP_STATUS ? 1 : rc);
	if (READ_ONCE(bad) == LOOP_ATOMIC)
		local_irq_enable();
	if (READ_ONCE(bad) == LOOP_TWICE)
		lnet_finalize(msg, rc);
}

static void loop_fail(struct loop_item *item, int rc, enum lnet_msg_hstatus hs)
{
	loop_finalize(item->msg, rc, hs);
	loop_finalize(item->reply, rc, LNET_MSG_STATUS_OK);
	kfree(item);
}

/* What a bad driver does to @len bytes that just arrived. */
static void loop_spoil(struct bio_vec *bv, unsigned int offset, unsigned int len)
{
	u8 *p;

	if (!len || !bv)
		return;
	for (; offset >= bv->bv_len; bv++)
		offset -= bv->bv_len;
	p = kmap_local_page(bv->bv_page);
	if (READ_ONCE(bad) == LOOP_CORRUPT)
		p[bv->bv_offset + offset] ^= 1;
	if (READ_ONCE(bad) == LOOP_OVERRUN &&
	    bv->bv_offset + offset + len < PAGE_SIZE)
		p[bv->bv_offset + offset + len] = 0;
	kunmap_local(p);
}

static unsigned int loop_len(unsigned int len)
{
	return READ_ONCE(bad) == LOOP_SHORT && len ? len - 1 : len;
}

/* Moves bytes between two page vectors. */
static void loop_move(struct lnet_msg *from, struct iov_iter *to, unsigned int len)
{
	struct iov_iter src;
	u8 *bounce;

	if (!len)
		return;
	bounce = kvmalloc(len, GFP_NOFS);
	if (WARN_ON_ONCE(!bounce))
		return;
	iov_iter_bvec(&src, ITER_SOURCE, from->msg_kiov, from->msg_niov,
		      from->msg_offset + len);
	iov_iter_advance(&src, from->msg_offset);
	WARN_ON_ONCE(copy_from_iter(bounce, len, &src) != len);
	len = loop_len(len);
	WARN_ON_ONCE(copy_to_iter(bounce, len, to) != len);
	kvfree(bounce);
}

/* A PUT or REPLY has its buffer now, or will not get one. */
static void loop_recv_put(struct loop_item *item, struct lnet_msg *msg,
			  struct iov_iter *to)
{
	unsigned int count = iov_iter_count(to);

	if (msg && item->rdma) {
		loop_move(item->msg, to, count);
	} else if (msg) {
		count = loop_len(count);
		WARN_ON_ONCE(copy_to_iter(item->data, count, to) != count);
	}
	if (msg)
		loop_spoil(msg->msg_kiov, msg->msg_offset, msg->msg_len);
	loop_finalize(msg, 0, LNET_MSG_STATUS_OK);
	loop_finalize(item->msg, 0, LNET_MSG_STATUS_OK);
	kfree(item);
}

/* The data for an optimized GET: @msg is the REPLY that has them. */
static void loop_recv_get(struct loop_item *item, struct lnet_msg *msg)
{
	struct lnet_libmd *sink = item->msg->msg_md;
	struct iov_iter to;
	unsigned int len;

	if (!msg) {
		loop_fail(item, -ENODATA, LNET_MSG_STATUS_REMOTE_ERROR);
		return;
	}
	len = msg->msg_len;
	iov_iter_bvec(&to, ITER_DEST, sink->md_kiov, sink->md_niov, len);
	loop_move(msg, &to, len);
	loop_spoil(sink->md_kiov, 0, len);
	lnet_set_reply_msg_len(item->ni, item->reply, len);
	if (READ_ONCE(bad) == LOOP_REPLY_LEN)
		lnet_set_reply_msg_len(item->ni, item->reply, sink->md_length + 1);
	loop_finalize(msg, 0, LNET_MSG_STATUS_OK);
	loop_finalize(item->msg, 0, LNET_MSG_STATUS_OK);
	loop_finalize(item->reply, 0, LNET_MSG_STATUS_OK);
	kfree(item);
}

static int loop_recv(struct lnet_ni *ni, void *private, struct lnet_msg *msg,
		     int delayed, struct iov_iter *to, unsigned int rlen)
{
	struct loop_item *item = private;

	WARN_ON_ONCE(iov_iter_count(to) > rlen);
	if (item->rdma && item->msg && item->msg->msg_type == LNET_MSG_GET)
		loop_recv_get(item, msg);
	else
		loop_recv_put(item, msg, to);
	return READ_ONCE(bad) == LOOP_POSITIVE ? 1 : 0;
}

static int loop_flag(const struct loop_item *item, const struct lnet_hdr *hdr)
{
	if (READ_ONCE(bad) == LOOP_FLAG && hdr->type == LNET_MSG_ACK)
		return 1;
	return item->rdma;
}

static void loop_work(struct work_struct *work)
{
	struct loop_item *item = container_of(work, struct loop_item, work);
	struct lnet_ni *dst = lnet_nid_to_ni_addref(&item->target);
	struct lnet_nid from = item->ni->ni_nid;
	enum lnet_msg_hstatus hs = LNET_MSG_STATUS_OK;
	struct lnet_msg *msg = item->msg;
	struct lnet_hdr hdr;

	if (!dst) {
		lnet_notify(item->ni, &item->target, false, false, ktime_get_seconds());
		loop_fail(item, -EHOSTUNREACH, LNET_MSG_STATUS_NETWORK_TIMEOUT);
		return;
	}
	if (lnet_send_error_simulation(item->msg, &hs)) {
		loop_fail(item, -EINVAL, hs);
		lnet_ni_decref(dst);
		return;
	}
	if (READ_ONCE(bad) == LOOP_FUTURE)
		lnet_notify(item->ni, &item->target, false, false,
			    ktime_get_seconds() + 100);
	hdr = item->hdr;
	if (!item->rdma) {
		item->msg = NULL;
		loop_finalize(msg, 0, LNET_MSG_STATUS_OK);
	}
	if (lnet_parse(dst, &hdr, &from, item, loop_flag(item, &hdr)) < 0)
		loop_fail(item, -EPROTO, LNET_MSG_STATUS_REMOTE_ERROR);
	lnet_ni_decref(dst);
	if (READ_ONCE(bad) == LOOP_PUT_NI)
		lnet_ni_decref(dst);
}

static int loop_prepare(struct loop_item *item, struct lnet_msg *msg)
{
	struct iov_iter src;

	if (msg->msg_type == LNET_MSG_GET && item->rdma) {
		item->reply = lnet_create_reply_msg(item->ni, msg);
		if (!item->reply)
			return -EIO;
		return READ_ONCE(bad) == LOOP_REPLY_LEFT ? -EIO : 0;
	}
	if (!item->rdma && msg->msg_len) {
		iov_iter_bvec(&src, ITER_SOURCE, msg->msg_kiov, msg->msg_niov,
			      msg->msg_offset + msg->msg_len);
		iov_iter_advance(&src, msg->msg_offset);
		if (copy_from_iter(item->data, msg->msg_len, &src) != msg->msg_len)
			return -EFAULT;
	}
	return 0;
}

/* Breaks a rule at the time of sending; true if @msg is gone after that. */
static bool loop_send_badly(struct lnet_ni *ni, struct lnet_msg *msg)
{
	static struct lnet_ni never;

	if (READ_ONCE(bad) == LOOP_REPLY_TO_PUT && msg->msg_type == LNET_MSG_PUT)
		lnet_create_reply_msg(ni, msg);
	if (READ_ONCE(bad) == LOOP_STALE_NI)
		lnet_ni_addref(&never);
	if (READ_ONCE(bad) != LOOP_QUEUED || msg->msg_type != LNET_MSG_ACK)
		return false;
	/* an ACK is sent while the PUT is being finalized: it has to queue */
	lnet_finalize(msg, 0);
	lnet_finalize(msg, 0);
	return true;
}

static int loop_send(struct lnet_ni *ni, void *private, struct lnet_msg *msg)
{
	bool get = msg->msg_type == LNET_MSG_GET;
	unsigned int len = get ? msg->msg_md->md_length : msg->msg_len;
	bool rdma = len > LOOP_IMMEDIATE;
	struct loop_item *item;
	int rc;

	if (loop_send_badly(ni, msg))
		return 0;
	item = kzalloc_flex(*item, data, rdma ? 0 : msg->msg_len, GFP_NOFS);
	if (!item)
		return -ENOMEM;
	INIT_WORK(&item->work, loop_work);
	item->ni = ni;
	item->msg = msg;
	item->target = msg->msg_target.nid;
	item->rdma = rdma;
	item->len = msg->msg_len;
	item->hdr = msg->msg_hdr;
	rc = loop_prepare(item, msg);
	if (rc) {
		kfree(item);
		return rc;
	}
	queue_work(loop_wq, &item->work);
	if (READ_ONCE(bad) == LOOP_KEEP && msg->msg_type == LNET_MSG_PUT) {
		flush_workqueue(loop_wq);
		return -EIO;
	}
	return 0;
}

/* --------------------------------------------------------------- NIs, tunables */

static int loop_name(struct lnet_ni *ni)
{
	struct lnet_inetdev *devs;
	int n, i, rc;

	if (ni->ni_nid.nid_addr[0])
		return ni->ni_interface ? 0 : lnet_ni_add_interface(ni, "loop0");
	n = lnet_inet_enumerate(&devs, ni->ni_net_ns, the_lnet.ln_nis_use_large_nids);
	if (n < 0)
		return n;
	i = lnet_inet_select(ni, devs, n);
	rc = min(i, 0);
	if (!rc) {
		ni->ni_nid.nid_addr[0] = devs[i].li_ipaddr;
		if (!ni->ni_interface)
			rc = lnet_ni_add_interface(ni, devs[i].li_name);
	}
	kfree(devs);
	return rc;
}

static void loop_default(s32 *val, s32 def)
{
	if (*val == -1)
		*val = def;
}

static int loop_startup(struct lnet_ni *ni)
{
	struct lnet_ioctl_config_lnd_cmn_tunables *t = &ni->ni_net->net_tunables;
	int rc = loop_name(ni);

	if (rc)
		return -ENETDOWN;
	if (!try_module_get(THIS_MODULE))
		return -ENETDOWN;
	ni->ni_data = ni;
	lnet_ni_set_default_cpts(ni);
	if (READ_ONCE(bad) == LOOP_HOLD_NI)
		lnet_ni_addref(ni);
	if (READ_ONCE(bad) == LOOP_STARTUP)
		return 0;
	loop_default(&t->lct_peer_timeout, 180);
	loop_default(&t->lct_peer_tx_credits, 8);
	loop_default(&t->lct_peer_rtr_credits, 0);
	loop_default(&t->lct_max_tx_credits, 256);
	return 0;
}

static void loop_shutdown(struct lnet_ni *ni)
{
	flush_workqueue(loop_wq);
	ni->ni_data = NULL;
	module_put(THIS_MODULE);
}

static int loop_ctl(struct lnet_ni *ni, unsigned int cmd, void *arg)
{
	switch (cmd) {
	case IOC_LIBCFS_GET_PEER:
	case IOC_LIBCFS_GET_CONN:
	case IOC_LIBCFS_DEL_PEER:
		return -ENOENT;
	case IOC_LIBCFS_CLOSE_CONNECTION:
		return 0;
	}
	return -EINVAL;
}

static int loop_get_timeout(void)
{
	return 5;
}

static int loop_tun_defaults(struct lnet_lnd_tunables *tun,
			     struct lnet_ioctl_config_lnd_cmn_tunables *cmn)
{
	tun->lnd_tun_u.lnd_o2ib.lnd_ntx = 512;
	tun->lnd_tun_u.lnd_o2ib.lnd_tos = -1;
	return 0;
}

static int loop_nl_get(int cmd, struct sk_buff *skb, int type, void *data,
		       bool export_backup)
{
	struct lnet_ni *ni = data;
	struct lnet_ioctl_config_o2iblnd_tunables *t;

	if (cmd != LNET_CMD_NETS || type != LNET_NET_LOCAL_NI_ATTR_LND_TUNABLES)
		return -EOPNOTSUPP;
	t = &ni->ni_lnd_tunables.lnd_tun_u.lnd_o2ib;
	if (nla_put_u16(skb, 1, t->lnd_ntx) || nla_put_s16(skb, 2, t->lnd_tos))
		return -EMSGSIZE;
	return export_backup ? 0 : nla_put_flag(skb, 3);
}

static int loop_nl_set(int cmd, struct nlattr *attr, int type, void *data)
{
	struct lnet_lnd_tunables *tun = data;
	s64 val;

	if (cmd != LNET_CMD_NETS)
		return -EOPNOTSUPP;
	if (nla_type(attr) != LN_SCALAR_ATTR_INT_VALUE)
		return -EINVAL;
	val = nla_get_s64(attr);
	if (type == 1)
		tun->lnd_tun_u.lnd_o2ib.lnd_ntx = val;
	else if (type == 2)
		tun->lnd_tun_u.lnd_o2ib.lnd_tos = val;
	return 0;
}

static const struct ln_key_list loop_keys = {
	.lkl_maxattr = 3,
	.lkl_list = {
		[1] = { .lkp_value = "ntx", .lkp_data_type = NLA_U16 },
		[2] = { .lkp_value = "tos", .lkp_data_type = NLA_S16 },
		[3] = { .lkp_value = "map_on_demand", .lkp_data_type = NLA_FLAG },
	},
};

static const struct lnet_lnd loop_lnd = {
	.lnd_type = O2IBLND,
	.lnd_startup = loop_startup,
	.lnd_shutdown = loop_shutdown,
	.lnd_ctl = loop_ctl,
	.lnd_send = loop_send,
	.lnd_recv = loop_recv,
	.lnd_get_timeout = loop_get_timeout,
	.lnd_tun_defaults = loop_tun_defaults,
	.lnd_nl_get = loop_nl_get,
	.lnd_nl_set = loop_nl_set,
	.lnd_keys = &loop_keys,
};

static int __init loop_init(void)
{
	int rc = libcfs_setup();

	if (rc)
		return rc;
	loop_wq = alloc_workqueue("lnd_loop", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!loop_wq)
		return -ENOMEM;
	lnet_register_lnd(&loop_lnd);
	if (bad == LOOP_SECOND)
		lnet_register_lnd(&loop_lnd);
	return 0;
}

static void __exit loop_exit(void)
{
	lnet_unregister_lnd(&loop_lnd);
	destroy_workqueue(loop_wq);
}

module_init(loop_init);
module_exit(loop_exit);

MODULE_DESCRIPTION("In-memory network driver, to test the LNet stand-in");
MODULE_LICENSE("GPL");

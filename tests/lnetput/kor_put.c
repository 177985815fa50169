// SPDX-License-Identifier: GPL-2.0
/*
 * PUTs through real LNet from memory that lnet_selftest cannot offer: vmalloc memory that starts
 * in the middle of a page, so that one small message lies in two pages that are not neighbours.
 *
 * Loaded, it takes PUTs on a portal of its own and counts in /sys/module/kor_put/parameters/ those
 * that came whole (good) and those that did not (bad). With target=NID, it first sends some of each
 * size there, and loading fails unless all are acknowledged in full.
 */
#include <linux/completion.h>
#include <linux/module.h>
#include <linux/vmalloc.h>

#include <linux/libcfs/libcfs.h>
#include <linux/lnet/lib-lnet.h>
#include <linux/lnet/api.h>

#define PUT_PORTAL	60
#define PUT_BITS	0x6b6f72707574ULL
#define PUT_ROOM	(4 * PAGE_SIZE)
#define PUT_WAIT	(20 * HZ)

static char *target;
module_param(target, charp, 0444);
MODULE_PARM_DESC(target, "NID to send to");

static int good;
module_param(good, int, 0444);
MODULE_PARM_DESC(good, "messages that came whole");

static int bad;
module_param(bad, int, 0444);
MODULE_PARM_DESC(bad, "messages that did not");

static u8 *put_sink;
static struct lnet_handle_md put_sink_md;
static DECLARE_COMPLETION(put_sink_gone);

struct put_send {
	struct completion gone;
	unsigned int acked;
	int status;
};

static u8 put_byte(u64 seed, unsigned int i)
{
	return seed * 31 + i * 7 + (i >> 8);
}

static void put_arrived(struct lnet_event *ev)
{
	unsigned int i;

	if (ev->type == LNET_EVENT_PUT) {
		for (i = 0; i < ev->mlength; i++) {
			if (put_sink[ev->offset + i] != put_byte(ev->hdr_data, i))
				break;
		}
		if (!ev->status && ev->mlength && i == ev->mlength)
			WRITE_ONCE(good, good + 1);
		else
			WRITE_ONCE(bad, bad + 1);
		if (i < ev->mlength)
			pr_err("kor_put: byte %u of %u is wrong\n", i, ev->mlength);
	}
	if (ev->unlinked)
		complete(&put_sink_gone);
}

static int put_listen(void)
{
	struct lnet_processid any = { .nid = LNET_ANY_NID, .pid = LNET_PID_ANY };
	struct lnet_md md = {
		.umd_start = put_sink,
		.umd_length = PUT_ROOM,
		.umd_threshold = LNET_MD_THRESH_INF,
		.umd_options = LNET_MD_OP_PUT | LNET_MD_MANAGE_REMOTE,
		.umd_handler = put_arrived,
	};
	struct lnet_me *me;

	me = LNetMEAttach(PUT_PORTAL, &any, PUT_BITS, 0, LNET_UNLINK, LNET_INS_AFTER);
	if (IS_ERR(me))
		return PTR_ERR(me);
	return LNetMDAttach(me, &md, LNET_UNLINK, &put_sink_md);
}

static void put_sent(struct lnet_event *ev)
{
	struct put_send *s = ev->md_user_ptr;

	if (ev->status)
		s->status = ev->status;
	if (ev->type == LNET_EVENT_ACK)
		s->acked = ev->mlength;
	if (ev->unlinked)
		complete(&s->gone);
}

/* One message of @len bytes at @offset of @buf, acknowledged. */
static int put_one(struct lnet_processid *to, u8 *buf, unsigned int offset, unsigned int len)
{
	struct put_send s = { .status = 0 };
	struct lnet_md md = {
		.umd_start = buf + offset,
		.umd_length = len,
		.umd_threshold = 2,	/* sent, acknowledged */
		.umd_user_ptr = &s,
		.umd_handler = put_sent,
	};
	struct lnet_handle_md mdh;
	u64 seed = offset + len;
	unsigned int i;
	int rc;

	init_completion(&s.gone);
	for (i = 0; i < len; i++)
		buf[offset + i] = put_byte(seed, i);
	rc = LNetMDBind(&md, LNET_UNLINK, &mdh);
	if (rc)
		return rc;
	rc = LNetPut(NULL, mdh, LNET_ACK_REQ, to, PUT_PORTAL, PUT_BITS, 0, seed);
	if (rc || !wait_for_completion_timeout(&s.gone, PUT_WAIT)) {
		LNetMDUnlink(mdh);
		wait_for_completion(&s.gone);
		rc = rc ?: -ETIMEDOUT;
	}
	if (!rc)
		rc = s.status ?: (s.acked == len ? 0 : -EIO);
	if (rc)
		pr_err("kor_put: %u bytes at %u: %d\n", len, offset, rc);
	return rc;
}

static int put_all(void)
{
	static const unsigned int offsets[] = { 0, 1, 2000, 4095 };
	static const unsigned int lens[] = { 100, 3000, 3976, 4100, 9000 };
	struct lnet_processid to = { .pid = LNET_PID_LUSTRE };
	unsigned int i, j;
	int rc = 0;
	u8 *buf;

	if (libcfs_strnid(&to.nid, target))
		return -EINVAL;
	buf = vzalloc(PUT_ROOM);
	if (!buf)
		return -ENOMEM;
	for (i = 0; i < ARRAY_SIZE(offsets); i++) {
		for (j = 0; j < ARRAY_SIZE(lens) && !rc; j++)
			rc = put_one(&to, buf, offsets[i], lens[j]);
	}
	vfree(buf);
	return rc;
}

static void put_stop(void)
{
	LNetMDUnlink(put_sink_md);
	wait_for_completion(&put_sink_gone);
	LNetNIFini();
	vfree(put_sink);
}

static int __init put_init(void)
{
	int rc;

	put_sink = vzalloc(PUT_ROOM);
	if (!put_sink)
		return -ENOMEM;
	rc = LNetNIInit(LNET_PID_LUSTRE);
	if (rc < 0)
		goto free;
	rc = put_listen();
	if (rc)
		goto fini;
	rc = target ? put_all() : 0;
	if (rc)
		put_stop();
	return rc;
fini:
	LNetNIFini();
free:
	vfree(put_sink);
	return rc;
}

static void __exit put_exit(void)
{
	put_stop();
}

module_init(put_init);
module_exit(put_exit);
MODULE_DESCRIPTION("Real LNet's PUTs from scattered memory, a test");
MODULE_LICENSE("GPL");

// SPDX-License-Identifier: GPL-2.0
/* Incoming messages: validation, matching, and the call of lnd_recv(). */

#define pr_fmt(fmt) "lnet_standin: " fmt

#include "standin.h"

static struct workqueue_struct *si_delay_wq;

/* Hands the receive @private back to the LND, with a buffer for it or without. */
void si_recv(struct si_ni *ni, void *private, struct si_msg *m, bool delayed,
	     unsigned int offset, unsigned int mlen, unsigned int rlen)
{
	struct iov_iter iter;
	int rc;

	if (mlen) {
		iov_iter_bvec(&iter, ITER_DEST, m->md->md.md_kiov,
			      m->md->md.md_niov, offset + mlen);
		iov_iter_advance(&iter, offset);
	} else {
		iov_iter_bvec(&iter, ITER_DEST, NULL, 0, 0);
	}
	if (m)
		si_msg_lend(m);
	rc = si_lnd->lnd_recv(&ni->ni, private, m ? &m->msg : NULL, delayed,
			      &iter, rlen);
	if (!rc)
		return;
	if (rc > 0) {
		si_violation(returned, "lnd_recv: %d", rc);
		return;
	}
	si_stat_inc(recv_err);
	if (!m)
		return;
	if (si_msg_take_back(&m->msg) != m) {
		si_violation(returned_owned, "lnd_recv: %d", rc);
		return;
	}
	si_complete(m, rc);
}

/* ------------------------------------------------------- delayed messages */

/* Messages that are due; all of them once their NI is to go. */
static s64 si_collect_due(struct si_ni *ni, struct list_head *due)
{
	bool all = ni->ni.ni_state == LNET_NI_STATE_DELETING;
	ktime_t now = ktime_get();
	s64 next = S64_MAX;
	struct si_msg *m, *tmp;

	spin_lock(&ni->lock);
	list_for_each_entry_safe(m, tmp, &ni->delayed, link) {
		s64 left = ktime_ms_delta(m->due, now);

		if (all || left <= 0)
			list_move_tail(&m->link, due);
		else
			next = min(next, left);
	}
	spin_unlock(&ni->lock);
	return next;
}

static void si_delay_work(struct work_struct *work)
{
	struct si_ni *ni = container_of(to_delayed_work(work), struct si_ni, delay);
	struct si_msg *m, *tmp;
	LIST_HEAD(due);
	s64 next;

	next = si_collect_due(ni, &due);
	list_for_each_entry_safe(m, tmp, &due, link) {
		unsigned int rlen = m->msg.msg_hdr.payload_length;

		list_del_init(&m->link);
		if (ni->ni.ni_state != LNET_NI_STATE_DELETING) {
			si_recv(ni, m->rx_private, m, true, m->msg.msg_offset,
				m->mlength, rlen);
			continue;
		}
		si_stat_inc(rx_drop_purged);
		si_recv(ni, m->rx_private, NULL, true, 0, 0, rlen);
		si_msg_free(m);
	}
	if (next != S64_MAX)
		queue_delayed_work(si_delay_wq, &ni->delay, msecs_to_jiffies(next));
}

static void si_delay(struct si_msg *m, void *private, unsigned int ms)
{
	struct si_ni *ni = m->ni;

	m->rx_private = private;
	m->due = ktime_add_ms(ktime_get(), ms);
	si_stat_inc(rx_delayed);
	spin_lock(&ni->lock);
	list_add_tail(&m->link, &ni->delayed);
	spin_unlock(&ni->lock);
	/* the work finds out itself when it has to run next */
	mod_delayed_work(si_delay_wq, &ni->delay, 0);
}

/* Every delayed message of @ni, which is going, returns without a buffer. */
void si_purge_delayed(struct si_ni *ni)
{
	mod_delayed_work(si_delay_wq, &ni->delay, 0);
}

void si_delay_init(struct si_ni *ni)
{
	INIT_LIST_HEAD(&ni->delayed);
	INIT_DELAYED_WORK(&ni->delay, si_delay_work);
}

int si_parse_setup(void)
{
	si_delay_wq = alloc_workqueue("lnet_standin", WQ_UNBOUND, 0);
	return si_delay_wq ? 0 : -ENOMEM;
}

void si_parse_cleanup(void)
{
	destroy_workqueue(si_delay_wq);
}

/* --------------------------------------------------------------- dispatch */

struct si_rx {
	struct si_ni		*ni;
	const struct lnet_hdr	*hdr;
	void			*private;
	bool			rdma;
};

static void si_drop(const struct si_rx *rx, int why)
{
	if (why == -ENOMEM)
		si_stat_inc(rx_drop_nomem);
	else
		si_stat_inc(rx_drop_nomatch);
	si_recv(rx->ni, rx->private, NULL, false, 0, 0, rx->hdr->payload_length);
}

static struct si_msg *si_rx_msg(const struct si_rx *rx, enum si_msg_kind kind,
				const struct si_match *match)
{
	struct si_msg *m = si_msg_new(rx->ni, kind, match->md);

	if (!m)
		return NULL;
	m->msg.msg_type = rx->hdr->type;
	m->msg.msg_hdr = *rx->hdr;
	m->mlength = match->mlength;
	if (match->mlength) {
		m->msg.msg_kiov = match->md->md.md_kiov;
		m->msg.msg_niov = match->md->md.md_niov;
		m->msg.msg_offset = match->offset;
		m->msg.msg_len = match->mlength;
	}
	return m;
}

/* Receives into what matched, at once. Consumes the reference in @match. */
static void si_take(const struct si_rx *rx, enum si_msg_kind kind,
		    const struct si_match *match)
{
	struct si_msg *m = si_rx_msg(rx, kind, match);

	if (!m)
		si_drop(rx, -ENOMEM);
	else if (match->delay_ms)
		si_delay(m, rx->private, match->delay_ms);
	else
		si_recv(rx->ni, rx->private, m, false, match->offset,
			match->mlength, rx->hdr->payload_length);
	si_md_put(match->md);
}

static void si_rx_put(const struct si_rx *rx)
{
	struct si_match match = {};
	int rc = si_match_put(rx->hdr, &match);

	si_stat_inc(rx_put);
	if (rc)
		si_drop(rx, rc);
	else
		si_take(rx, SI_RX_PUT, &match);
}

static void si_rx_get(const struct si_rx *rx)
{
	enum si_msg_kind kind = rx->rdma ? SI_RX_GET : SI_TX_REPLY;
	struct si_match match = {};
	struct si_msg *m;
	int rc = si_match_get(rx->ni, rx->hdr, &match);

	si_stat_inc(rx_get);
	if (rc) {
		si_drop(rx, rc);
		return;
	}
	m = si_make_reply(rx->ni, rx->hdr, match.md, match.offset, match.mlength, kind);
	si_md_put(match.md);
	if (!m) {
		si_drop(rx, -ENOMEM);
		return;
	}
	si_stat_inc(tx_reply);
	if (rx->rdma) {
		si_recv(rx->ni, rx->private, m, false, match.offset, match.mlength,
			match.mlength);
		return;
	}
	/* the request is done with; the data travels in a message of its own */
	si_recv(rx->ni, rx->private, NULL, false, 0, 0, 0);
	si_post(m);
}

static void si_rx_reply(const struct si_rx *rx)
{
	struct si_match match = {
		.md = si_md_lookup(&rx->hdr->msg.reply.dst_wmd),
		.mlength = rx->hdr->payload_length,
	};

	si_stat_inc(rx_reply);
	if (!match.md) {
		si_drop(rx, -ENOENT);
	} else if (match.mlength > match.md->md.md_length) {
		si_md_put(match.md);
		si_drop(rx, -ENOENT);
	} else {
		si_take(rx, SI_RX_REPLY, &match);
	}
}

static void si_rx_ack(const struct si_rx *rx)
{
	struct si_match match = {
		.md = si_md_lookup(&rx->hdr->msg.ack.dst_wmd),
	};
	struct si_msg *m;

	si_stat_inc(rx_ack);
	if (!match.md) {
		si_drop(rx, -ENOENT);
		return;
	}
	m = si_rx_msg(rx, SI_RX_ACK, &match);
	si_md_put(match.md);
	if (!m) {
		si_drop(rx, -ENOMEM);
		return;
	}
	m->mlength = le32_to_cpu(rx->hdr->msg.ack.mlength);
	si_recv(rx->ni, rx->private, m, false, 0, 0, 0);
}

/* LNet's own look at a header, before it takes the message on. */
static int si_check_hdr(const struct si_rx *rx)
{
	const struct lnet_hdr *hdr = rx->hdr;

	switch (hdr->type) {
	case LNET_MSG_ACK:
	case LNET_MSG_GET:
		if (hdr->payload_length)
			return -EPROTO;
		break;
	case LNET_MSG_PUT:
	case LNET_MSG_REPLY:
		if (hdr->payload_length > LNET_MTU)
			return -EPROTO;
		break;
	default:
		return -EPROTO;
	}
	return si_nid_same(&hdr->dest_nid, &rx->ni->ni.ni_nid) ? 0 : -EPROTO;
}

static void si_dispatch(const struct si_rx *rx)
{
	switch (rx->hdr->type) {
	case LNET_MSG_PUT:
		si_rx_put(rx);
		break;
	case LNET_MSG_GET:
		si_rx_get(rx);
		break;
	case LNET_MSG_REPLY:
		si_rx_reply(rx);
		break;
	case LNET_MSG_ACK:
		si_rx_ack(rx);
		break;
	}
}

int lnet_parse(struct lnet_ni *ni, struct lnet_hdr *hdr,
	       struct lnet_nid *from_nid, void *private, int rdma_req)
{
	struct lnet_hdr copy = *hdr;
	struct si_rx rx = {
		.hdr = &copy, .private = private, .rdma = rdma_req,
	};
	int rc;

	si_check_context("lnet_parse");
	if (!si_ni_known(ni, "lnet_parse"))
		return -ESHUTDOWN;
	rx.ni = si_ni_of(ni);
	if (!private)
		si_violation(parse_args, "no private data");
	if (rdma_req && hdr->type == LNET_MSG_ACK)
		si_violation(parse_args, "RDMA flag with an ACK");
	if (si_nid_is_any(from_nid))
		si_violation(parse_args, "no sender");

	/* keeps the NI until recv has been called */
	if (si_ni_hold(rx.ni)) {
		si_stat_inc(rx_refused);
		return -ESHUTDOWN;
	}
	rc = si_check_hdr(&rx);
	if (rc) {
		si_stat_inc(rx_refused);
	} else {
		if (rdma_req)
			si_stat_inc(rx_rdma);
		si_dispatch(&rx);
	}
	si_ni_release(rx.ni);
	return rc;
}
EXPORT_SYMBOL(lnet_parse);

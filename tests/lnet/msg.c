// SPDX-License-Identifier: GPL-2.0
/* Messages: who has them, credits, sending, and the end of each. */

#define pr_fmt(fmt) "lnet_standin: " fmt

#include <linux/random.h>

#include "standin.h"

/*
 * Every message that exists, by address: lnet_finalize() looks a pointer up
 * before it believes it. Finished messages are kept for a while, so that the
 * address of a message finalized twice is not already another message.
 */
#define SI_GRAVES	4096

static DEFINE_HASHTABLE(si_live, 10);
static DEFINE_SPINLOCK(si_live_lock);
static int si_nlive;
static struct si_msg *si_graves[SI_GRAVES];
static unsigned int si_grave_next;

static struct si_fault si_fault;	/* under si_net_lock */

/* ---------------------------------------------------------- life and death */

struct si_msg *si_msg_new(struct si_ni *ni, enum si_msg_kind kind,
			  struct si_md *md)
{
	struct si_msg *m = kzalloc_obj(*m, GFP_NOFS);

	if (!m)
		return NULL;
	if (si_ni_hold(ni)) {
		kfree(m);
		return NULL;
	}
	m->kind = kind;
	m->owner = SI_LNET;
	m->ni = ni;
	m->md = md;
	INIT_LIST_HEAD(&m->link);
	if (md) {
		si_md_get(md);
		m->msg.msg_md = &md->md;
	}
	spin_lock(&si_live_lock);
	hash_add(si_live, &m->live, (unsigned long)&m->msg);
	si_nlive++;
	spin_unlock(&si_live_lock);
	return m;
}

void si_msg_free(struct si_msg *m)
{
	struct si_msg *dead;
	struct si_ni *ni = m->ni;

	spin_lock(&si_live_lock);
	hash_del(&m->live);
	si_nlive--;
	dead = si_graves[si_grave_next % SI_GRAVES];
	si_graves[si_grave_next++ % SI_GRAVES] = m;
	spin_unlock(&si_live_lock);

	si_md_put(m->md);
	m->md = NULL;
	memset(&m->msg, 0xdd, sizeof(m->msg));
	kfree(dead);
	si_ni_release(ni);
}

/* From here until lnet_finalize() or an error the LND has @m. */
void si_msg_lend(struct si_msg *m)
{
	m->since = ktime_get();
	spin_lock(&si_live_lock);
	m->owner = SI_LND;
	spin_unlock(&si_live_lock);
}

static struct si_msg *si_msg_find(struct lnet_msg *msg)
{
	struct si_msg *m;

	hash_for_each_possible(si_live, m, live, (unsigned long)msg)
		if (&m->msg == msg)
			return m;
	return NULL;
}

/* The message, taken from the LND; NULL, counted, if the LND does not have it. */
struct si_msg *si_msg_take_back(struct lnet_msg *msg)
{
	struct si_msg *m;
	bool owned = false;

	spin_lock(&si_live_lock);
	m = si_msg_find(msg);
	if (m && m->owner == SI_LND) {
		m->owner = SI_LNET;
		owned = true;
	}
	spin_unlock(&si_live_lock);
	if (owned)
		return m;
	if (m)
		si_violation(finalize_owner, "message %p", msg);
	else
		si_violation(finalize_unknown, "message %p", msg);
	return NULL;
}

int si_msg_live(void)
{
	return READ_ONCE(si_nlive);
}

/* Names every message of @ni that is still there. */
void si_msg_report_live(struct si_ni *ni)
{
	struct si_msg *m;
	int i;

	spin_lock(&si_live_lock);
	hash_for_each(si_live, i, m, live) {
		if (m->ni != ni)
			continue;
		si_violation(finalize_missing, "%s kind %d len %u for %lld ms, %s has it",
			     lnet_msgtyp2str(m->msg.msg_type), m->kind, m->msg.msg_len,
			     ktime_ms_delta(ktime_get(), m->since),
			     m->owner == SI_LND ? "the LND" : "LNet");
	}
	spin_unlock(&si_live_lock);
}

void si_msg_cleanup(void)
{
	unsigned int i;

	if (si_nlive)
		si_violation(leak, "%d messages", si_nlive);
	for (i = 0; i < SI_GRAVES; i++)
		kfree(si_graves[i]);
}

/* ------------------------------------------------------------------ credits */

static struct si_msg *si_pop(struct list_head *waiting)
{
	struct si_msg *m = list_first_entry_or_null(waiting, struct si_msg, link);

	if (m)
		list_del_init(&m->link);
	return m;
}

/* True if @m holds a credit of its CPT now; else it waits for one. */
static bool si_take_ni_credit(struct si_ni *ni, struct si_msg *m)
{
	int cpt = lnet_nid2cpt(&m->msg.msg_target.nid, &ni->ni);
	struct si_txq *q = &ni->txqs[cpt];

	lockdep_assert_held(&ni->lock);
	m->txq = q;
	q->credits--;
	q->min_credits = min(q->min_credits, q->credits);
	if (q->credits >= 0)
		return true;
	list_add_tail(&m->link, &q->waiting);
	return false;
}

/* -ESHUTDOWN, -ENOMEM; 1 if @m waits for a credit; 0 if it may go now. */
static int si_take_credits(struct si_ni *ni, struct si_msg *m)
{
	struct si_peer *p;
	int rc = 1;

	spin_lock(&ni->lock);
	p = si_peer_find(ni, &m->msg.msg_target.nid);
	if (!p) {
		rc = -ENOMEM;
	} else if (ni->ni.ni_state == LNET_NI_STATE_DELETING) {
		rc = -ESHUTDOWN;
	} else {
		m->peer = p;
		p->credits--;
		p->min_credits = min(p->min_credits, p->credits);
		if (p->credits < 0)
			list_add_tail(&m->link, &p->waiting);
		else if (si_take_ni_credit(ni, m))
			rc = 0;
	}
	spin_unlock(&ni->lock);
	return rc;
}

/* Gives back what @m holds; up to two messages that may go now join @ready. */
static void si_return_credits(struct si_msg *m, struct list_head *ready)
{
	struct si_ni *ni = m->ni;
	struct si_msg *next;

	spin_lock(&ni->lock);
	if (m->txq && ++m->txq->credits <= 0) {
		next = si_pop(&m->txq->waiting);
		if (next)
			list_add_tail(&next->link, ready);
	}
	if (m->peer && ++m->peer->credits <= 0) {
		next = si_pop(&m->peer->waiting);
		if (next && si_take_ni_credit(ni, next))
			list_add_tail(&next->link, ready);
	}
	m->txq = NULL;
	m->peer = NULL;
	spin_unlock(&ni->lock);
}

/* ------------------------------------------------------------------ sending */

/* A receive handle that a REPLY or ACK came from: stale, must not be followed. */
#define SI_STALE_PRIVATE	((void *)(POISON_POINTER_DELTA + 0x5a1e))

static void si_lnd_send(struct si_msg *m)
{
	bool answer = m->kind == SI_TX_ACK || m->kind == SI_TX_REPLY;
	struct si_ni *ni = m->ni;
	struct lnet_msg *msg = &m->msg;
	struct si_msg *reply;
	int rc;

	/* deadline and health depend on it; LNet asks at this point, locked */
	si_lnd_timeout();
	if (si_ni_going(ni)) {
		si_complete(m, -ESHUTDOWN);
		return;
	}
	si_msg_lend(m);
	rc = si_lnd->lnd_send(&ni->ni, answer ? SI_STALE_PRIVATE : NULL, msg);
	if (!rc)
		return;
	if (rc > 0) {
		si_violation(returned, "lnd_send: %d", rc);
		return;
	}
	si_stat_inc(send_err);
	if (si_msg_take_back(msg) != m) {
		si_violation(returned_owned, "lnd_send: %d", rc);
		return;
	}
	reply = m->reply;
	if (reply && si_msg_take_back(&reply->msg)) {
		si_violation(reply_left, "lnd_send: %d", rc);
		si_complete(reply, rc);
	}
	si_complete(m, rc);
}

/* Sends @m, now or when there are credits. Whatever happens, it is finalized. */
void si_post(struct si_msg *m)
{
	int rc = si_take_credits(m->ni, m);

	if (rc == 0) {
		si_lnd_send(m);
	} else if (rc > 0) {
		si_stat_inc(tx_queued);
	} else {
		si_stat_inc(tx_refused);
		si_complete(m, rc);
	}
}

static void si_set_payload(struct si_msg *m, unsigned int offset, unsigned int len)
{
	struct lnet_msg *msg = &m->msg;

	if (m->md && len) {
		msg->msg_kiov = m->md->md.md_kiov;
		msg->msg_niov = m->md->md.md_niov;
		msg->msg_offset = offset;
		msg->msg_len = len;
	}
	m->mlength = len;
	msg->msg_hdr.payload_length = len;
}

static struct si_msg *si_make(struct si_ni *ni, enum si_msg_kind kind, u32 type,
			      const struct lnet_nid *target, struct si_md *md)
{
	struct si_msg *m = si_msg_new(ni, kind, md);

	if (!m)
		return NULL;
	m->msg.msg_type = type;
	m->msg.msg_target.nid = *target;
	m->msg.msg_target.pid = LNET_PID_LUSTRE;
	m->msg.msg_txni = &ni->ni;
	m->msg.msg_hdr.type = type;
	m->msg.msg_hdr.dest_nid = *target;
	m->msg.msg_hdr.src_nid = ni->ni.ni_nid;
	m->msg.msg_hdr.dest_pid = LNET_PID_LUSTRE;
	m->msg.msg_hdr.src_pid = LNET_PID_LUSTRE;
	return m;
}

int si_send_put(struct si_ni *ni, const struct lnet_nid *target,
		struct si_md *md, const struct si_put_args *args)
{
	struct si_msg *m = si_make(ni, SI_TX_PUT, LNET_MSG_PUT, target, md);
	struct lnet_put *put;

	if (!m)
		return si_ni_going(ni) ? -ESHUTDOWN : -ENOMEM;
	put = &m->msg.msg_hdr.msg.put;
	si_set_payload(m, 0, md->md.md_length);
	memset(&put->ack_wmd, 0xff, sizeof(put->ack_wmd));
	if (args->ack)
		si_md_fill_handle(md, &put->ack_wmd);
	put->match_bits = cpu_to_le64(args->match_bits);
	put->hdr_data = args->hdr_data;
	put->ptl_index = cpu_to_le32(args->portal);
	put->offset = cpu_to_le32(args->offset);
	si_stat_inc(tx_put);
	si_post(m);
	return 0;
}

int si_send_get(struct si_ni *ni, const struct lnet_nid *target,
		struct si_md *md, const struct si_get_args *args)
{
	struct si_msg *m = si_make(ni, SI_TX_GET, LNET_MSG_GET, target, md);
	struct lnet_get *get;

	if (!m)
		return si_ni_going(ni) ? -ESHUTDOWN : -ENOMEM;
	get = &m->msg.msg_hdr.msg.get;
	si_md_fill_handle(md, &get->return_wmd);
	get->match_bits = cpu_to_le64(args->match_bits);
	get->ptl_index = cpu_to_le32(args->portal);
	get->src_offset = cpu_to_le32(args->offset);
	get->sink_length = cpu_to_le32(md->md.md_length);
	si_stat_inc(tx_get);
	si_post(m);
	return 0;
}

/* Acknowledges the PUT that @rx was, if its sender asked for it. */
void si_send_ack(struct si_msg *rx)
{
	const struct lnet_put *put = &rx->msg.msg_hdr.msg.put;
	struct lnet_ack *ack;
	struct si_msg *m;

	if (put->ack_wmd.wh_interface_cookie == U64_MAX)
		return;
	m = si_make(rx->ni, SI_TX_ACK, LNET_MSG_ACK, &rx->msg.msg_hdr.src_nid, NULL);
	if (!m) {
		si_stat_inc(tx_refused);
		return;
	}
	ack = &m->msg.msg_hdr.msg.ack;
	ack->dst_wmd = put->ack_wmd;
	ack->match_bits = put->match_bits;
	ack->mlength = cpu_to_le32(rx->mlength);
	si_stat_inc(tx_ack);
	si_post(m);
}

/* The answer to @get: @len bytes of @md from @offset. */
struct si_msg *si_make_reply(struct si_ni *ni, const struct lnet_hdr *get,
			     struct si_md *md, unsigned int offset,
			     unsigned int len, enum si_msg_kind kind)
{
	struct si_msg *m = si_make(ni, kind, LNET_MSG_REPLY, &get->src_nid, md);

	if (!m)
		return NULL;
	si_set_payload(m, offset, len);
	m->msg.msg_hdr.msg.reply.dst_wmd = get->msg.get.return_wmd;
	return m;
}

/* --------------------------------------------------------------- completion */

/*
 * A thread that is finalizing collects what it is asked to finalize on the way,
 * so that a send that completes at once cannot nest without end.
 */
struct si_finalizer {
	struct list_head	link;
	struct task_struct	*task;
	struct list_head	todo;
};

static LIST_HEAD(si_finalizers);
static DEFINE_SPINLOCK(si_finalizers_lock);

static void si_event(struct si_msg *m, enum si_event_type type)
{
	struct si_event ev = {
		.type = type,
		.status = m->status,
		.hstatus = m->msg.msg_health_status,
		.mlength = m->mlength,
	};

	if (m->md && m->md->event)
		m->md->event(m->md, &ev);
}

static void si_check_end(struct si_msg *m)
{
	s64 ms = ktime_ms_delta(ktime_get(), m->since);
	bool ok = m->msg.msg_health_status == LNET_MSG_STATUS_OK;

	if (m->md && si_kiov_sum(&m->md->md) != m->md->kiov_sum)
		si_violation(kiov_changed, "%s len %u",
			     lnet_msgtyp2str(m->msg.msg_type), m->msg.msg_len);
	if (m->status > 0)
		si_violation(finalize_status, "%d", m->status);
	/* LNet looks at health only when the two agree: told, not forbidden */
	if (m->status && ok)
		si_stat_inc(status_without_health);
	if (!m->status && !ok)
		si_stat_inc(health_without_status);
	if (m->status)
		si_stat_inc(finalize_err);
	else
		si_stat_inc(finalize_ok);
	if (m->since && ms > 1250LL * si_lnd_timeout())
		si_stat_inc(finalize_late);
}

static void si_deliver(struct si_msg *m)
{
	switch (m->kind) {
	case SI_TX_PUT:
	case SI_TX_GET:
		si_event(m, SI_EV_SEND);
		break;
	case SI_TX_REPLY:
	case SI_RX_GET:
		si_event(m, SI_EV_GET);
		break;
	case SI_RX_PUT:
		si_event(m, SI_EV_PUT);
		if (!m->status)
			si_send_ack(m);
		break;
	case SI_RX_ACK:
		si_event(m, SI_EV_ACK);
		break;
	case SI_RX_REPLY:
	case SI_OPT_REPLY:
		si_event(m, SI_EV_REPLY);
		break;
	case SI_TX_ACK:
		break;
	}
}

/* An optimized GET and its reply name each other until one of them ends. */
static void si_part_from_reply(struct si_msg *m)
{
	spin_lock(&si_live_lock);
	if (m->reply) {
		m->reply->reply = NULL;
		m->reply = NULL;
	}
	spin_unlock(&si_live_lock);
}

static void si_complete_one(struct si_msg *m)
{
	struct si_msg *next, *tmp;
	LIST_HEAD(ready);

	si_check_end(m);
	si_part_from_reply(m);
	si_deliver(m);
	si_return_credits(m, &ready);
	list_for_each_entry_safe(next, tmp, &ready, link) {
		list_del_init(&next->link);
		si_lnd_send(next);
	}
	si_msg_free(m);
}

static bool si_join_finalizer(struct si_msg *m, struct si_finalizer *mine)
{
	struct si_finalizer *f;
	bool joined = false;

	spin_lock(&si_finalizers_lock);
	list_for_each_entry(f, &si_finalizers, link) {
		if (f->task != current)
			continue;
		list_add_tail(&m->link, &f->todo);
		joined = true;
		break;
	}
	if (!joined) {
		mine->task = current;
		INIT_LIST_HEAD(&mine->todo);
		list_add_tail(&m->link, &mine->todo);
		list_add(&mine->link, &si_finalizers);
	}
	spin_unlock(&si_finalizers_lock);
	return joined;
}

/* Ends @m, which LNet has. */
void si_complete(struct si_msg *m, int status)
{
	struct si_finalizer mine;
	struct si_msg *next;

	m->status = status;
	if (si_join_finalizer(m, &mine))
		return;
	/* only this thread adds to its list */
	for (;;) {
		spin_lock(&si_finalizers_lock);
		next = si_pop(&mine.todo);
		if (!next)
			list_del(&mine.link);
		spin_unlock(&si_finalizers_lock);
		if (!next)
			break;
		si_complete_one(next);
	}
}

/* ------------------------------------------------------ what the LND calls */

void lnet_finalize(struct lnet_msg *msg, int rc)
{
	struct si_msg *m;

	if (!msg)
		return;
	si_check_context("lnet_finalize");
	m = si_msg_take_back(msg);
	if (m)
		si_complete(m, rc);
}
EXPORT_SYMBOL(lnet_finalize);

static bool si_may_reply(struct lnet_ni *ni, struct si_msg *get)
{
	return get && get->owner == SI_LND && get->kind == SI_TX_GET &&
	       &get->ni->ni == ni && !get->reply &&
	       !get->msg.msg_target_is_router && !get->msg.msg_routing;
}

struct lnet_msg *lnet_create_reply_msg(struct lnet_ni *ni,
				       struct lnet_msg *get_msg)
{
	struct si_msg *get, *reply;
	bool may;

	si_check_context("lnet_create_reply_msg");
	if (!si_ni_known(ni, "lnet_create_reply_msg"))
		return NULL;
	spin_lock(&si_live_lock);
	get = si_msg_find(get_msg);
	may = si_may_reply(ni, get);
	spin_unlock(&si_live_lock);
	if (!may) {
		si_violation(reply_request, "message %p", get_msg);
		return NULL;
	}
	/* the owner unlinked the buffer: its reply is not wanted any more */
	reply = READ_ONCE(get->md->handle) ?
		si_msg_new(get->ni, SI_OPT_REPLY, get->md) : NULL;
	if (!reply) {
		si_stat_inc(reply_refused);
		return NULL;
	}
	reply->msg.msg_type = LNET_MSG_REPLY;
	reply->msg.msg_hdr.type = LNET_MSG_REPLY;
	reply->msg.msg_hdr.src_nid = get->msg.msg_target.nid;
	reply->msg.msg_hdr.dest_nid = ni->ni_nid;
	reply->mlength = get->md->md.md_length;
	spin_lock(&si_live_lock);
	get->reply = reply;
	reply->reply = get;
	spin_unlock(&si_live_lock);
	si_msg_lend(reply);
	si_stat_inc(reply_created);
	return &reply->msg;
}
EXPORT_SYMBOL(lnet_create_reply_msg);

/* The LND may hold a spinlock of its own here; si_live_lock is a leaf. */
void lnet_set_reply_msg_len(struct lnet_ni *ni, struct lnet_msg *msg,
			    unsigned int len)
{
	struct si_msg *m;
	bool ok = false;

	spin_lock(&si_live_lock);
	m = si_msg_find(msg);
	if (m && m->owner == SI_LND && m->kind == SI_OPT_REPLY) {
		ok = len <= m->md->md.md_length;
		if (ok)
			m->mlength = len;
	}
	spin_unlock(&si_live_lock);
	if (!ok)
		si_violation(reply_len, "message %p, %u bytes", msg, len);
}
EXPORT_SYMBOL(lnet_set_reply_msg_len);

char *lnet_msgtyp2str(int type)
{
	switch (type) {
	case LNET_MSG_ACK:
		return "ACK";
	case LNET_MSG_PUT:
		return "PUT";
	case LNET_MSG_GET:
		return "GET";
	case LNET_MSG_REPLY:
		return "REPLY";
	case LNET_MSG_HELLO:
		return "HELLO";
	default:
		return "<UNKNOWN>";
	}
}
EXPORT_SYMBOL(lnet_msgtyp2str);

void si_fault_set(const struct si_fault *fault)
{
	spin_lock(&si_net_lock);
	si_fault = *fault;
	spin_unlock(&si_net_lock);
}

/*
 * Takes the net lock, as LNet does: an LND that calls this under a lock which
 * it also takes in get_timeout, get_dev_prio or nl_get shows up in lockdep.
 */
bool lnet_send_error_simulation(struct lnet_msg *msg,
				enum lnet_msg_hstatus *hstatus)
{
	bool hit = false;

	if (!msg)
		return false;
	spin_lock(&si_net_lock);
	if (si_fault.on && si_fault.left &&
	    ++si_fault.seen % si_fault.every == 0) {
		si_fault.left--;
		*hstatus = si_fault.hstatus;
		hit = true;
	}
	spin_unlock(&si_net_lock);
	if (hit)
		si_stat_inc(fault_hits);
	return hit;
}
EXPORT_SYMBOL(lnet_send_error_simulation);

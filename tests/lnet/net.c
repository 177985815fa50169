// SPDX-License-Identifier: GPL-2.0
/* Registration of the LND, networks and NIs: from "net add" to "net del". */

#define pr_fmt(fmt) "lnet_standin: " fmt

#include <linux/seq_file.h>

#include "standin.h"

#define SI_MAX_PEERS	4096

/* the lists of nets and NIs change under it */
DEFINE_MUTEX(si_api_mutex);
/* registration, startup and shutdown of the LND */
static DEFINE_MUTEX(si_lnd_mutex);
static DEFINE_MUTEX(si_del_mutex);	/* one deletion at a time; outermost */
DEFINE_SPINLOCK(si_net_lock);
LIST_HEAD(si_nis);
static LIST_HEAD(si_nets);
const struct lnet_lnd *si_lnd;

static unsigned int transaction_timeout = 150;
module_param(transaction_timeout, uint, 0644);
MODULE_PARM_DESC(transaction_timeout, "LNet's transaction timeout, s");

static unsigned int retry_count = 2;
module_param(retry_count, uint, 0644);
MODULE_PARM_DESC(retry_count, "LNet's retry count");

static unsigned int del_timeout = 200;
module_param(del_timeout, uint, 0644);
MODULE_PARM_DESC(del_timeout, "how long net del waits for the LND's messages, s");

/* ------------------------------------------------------------ registration */

int libcfs_setup(void)
{
	return 0;
}
EXPORT_SYMBOL(libcfs_setup);

/* LNet crashes the node on what is a counted violation here. */
void lnet_register_lnd(const struct lnet_lnd *lnd)
{
	mutex_lock(&si_lnd_mutex);
	if (si_lnd)
		si_violation(registration, "type %u while %u is there",
			     lnd->lnd_type, si_lnd->lnd_type);
	else if (lnd->lnd_type != O2IBLND)
		si_violation(registration, "type %u", lnd->lnd_type);
	else if (!lnd->lnd_startup || !lnd->lnd_shutdown || !lnd->lnd_send ||
		 !lnd->lnd_recv)
		si_violation(registration, "a needed operation is missing");
	else
		si_lnd = lnd;
	mutex_unlock(&si_lnd_mutex);
}
EXPORT_SYMBOL(lnet_register_lnd);

void lnet_unregister_lnd(const struct lnet_lnd *lnd)
{
	mutex_lock(&si_lnd_mutex);
	if (si_lnd != lnd)
		si_violation(registration, "unregisters what is not registered");
	else if (si_ni_any())
		si_violation(registration, "unregisters while it has an NI");
	else
		si_lnd = NULL;
	mutex_unlock(&si_lnd_mutex);
}
EXPORT_SYMBOL(lnet_unregister_lnd);

unsigned int lnet_get_lnd_timeout(void)
{
	return max(1u, (READ_ONCE(transaction_timeout) - 1) /
		       (READ_ONCE(retry_count) + 1));
}
EXPORT_SYMBOL(lnet_get_lnd_timeout);

/* Seconds. Asks the LND under the net lock, where LNet asks it. */
unsigned int si_lnd_timeout(void)
{
	int timeout = 0;

	spin_lock(&si_net_lock);
	if (si_lnd && si_lnd->lnd_get_timeout)
		timeout = si_lnd->lnd_get_timeout();
	spin_unlock(&si_net_lock);
	return timeout > 0 ? timeout : lnet_get_lnd_timeout();
}

/* -------------------------------------------------------------- references */

bool si_ni_any(void)
{
	bool any;

	spin_lock(&si_net_lock);
	any = !list_empty(&si_nis);
	spin_unlock(&si_net_lock);
	return any;
}

/* False, and counted, when the LND names an NI that is gone. */
bool si_ni_known(struct lnet_ni *ni, const char *what)
{
	struct si_ni *sni;
	bool known = false;

	spin_lock(&si_net_lock);
	list_for_each_entry(sni, &si_nis, link)
		if (&sni->ni == ni)
			known = true;
	spin_unlock(&si_net_lock);
	if (!known)
		si_violation(ni_stale, "%s(%p)", what, ni);
	return known;
}

/* Counts a message of the NI; none is taken on once the NI is to go. */
int si_ni_hold(struct si_ni *sni)
{
	int rc = -ESHUTDOWN;

	spin_lock(&si_net_lock);
	if (sni->ni.ni_state != LNET_NI_STATE_DELETING) {
		sni->msgs++;
		rc = 0;
	}
	spin_unlock(&si_net_lock);
	return rc;
}

/* The NI may be freed as soon as the lock is dropped: wake inside. */
void si_ni_release(struct si_ni *sni)
{
	spin_lock(&si_net_lock);
	if (!--sni->msgs)
		wake_up(&sni->idle);
	spin_unlock(&si_net_lock);
}

void lnet_ni_addref(struct lnet_ni *ni)
{
	if (!si_ni_known(ni, "lnet_ni_addref"))
		return;
	spin_lock(&si_net_lock);
	si_ni_of(ni)->refs++;
	spin_unlock(&si_net_lock);
}
EXPORT_SYMBOL(lnet_ni_addref);

void lnet_ni_decref(struct lnet_ni *ni)
{
	struct si_ni *sni = si_ni_of(ni);
	bool bad;

	if (!si_ni_known(ni, "lnet_ni_decref"))
		return;
	spin_lock(&si_net_lock);
	bad = sni->refs <= 0;
	if (!bad && !--sni->refs)
		wake_up(&sni->idle);
	spin_unlock(&si_net_lock);
	if (bad)
		si_violation(ni_refs, "%s", si_nidstr(&ni->ni_nid));
}
EXPORT_SYMBOL(lnet_ni_decref);

struct lnet_ni *lnet_nid_to_ni_addref(struct lnet_nid *nid)
{
	struct lnet_ni *found = NULL;
	struct si_ni *sni;

	spin_lock(&si_net_lock);
	list_for_each_entry(sni, &si_nis, link) {
		if (!sni->visible || !si_nid_same(&sni->ni.ni_nid, nid))
			continue;
		sni->refs++;
		found = &sni->ni;
		break;
	}
	spin_unlock(&si_net_lock);
	return found;
}
EXPORT_SYMBOL(lnet_nid_to_ni_addref);

struct si_ni *si_ni_use(u32 net, const struct lnet_nid *nid)
{
	struct si_ni *sni, *found = NULL;

	spin_lock(&si_net_lock);
	list_for_each_entry(sni, &si_nis, link) {
		if (!sni->visible || sni->net->net.net_id != net)
			continue;
		if (nid && !si_nid_same(nid, &sni->ni.ni_nid))
			continue;
		sni->users++;
		found = sni;
		break;
	}
	spin_unlock(&si_net_lock);
	return found;
}

void si_ni_unuse(struct si_ni *sni)
{
	spin_lock(&si_net_lock);
	if (!--sni->users)
		wake_up(&sni->idle);
	spin_unlock(&si_net_lock);
}

bool si_ni_going(const struct si_ni *sni)
{
	return READ_ONCE(sni->ni.ni_state) == LNET_NI_STATE_DELETING;
}

/* ------------------------------------------------------------------- peers */

struct si_peer *si_peer_find(struct si_ni *sni, const struct lnet_nid *nid)
{
	struct si_peer *p;

	lockdep_assert_held(&sni->lock);
	list_for_each_entry(p, &sni->peers, link)
		if (si_nid_same(&p->nid, nid))
			return p;
	if (sni->npeers >= SI_MAX_PEERS)
		return NULL;
	p = kzalloc_obj(*p, GFP_ATOMIC);
	if (!p)
		return NULL;
	p->nid = *nid;
	p->credits = sni->net->net.net_tunables.lct_peer_tx_credits;
	p->min_credits = p->credits;
	INIT_LIST_HEAD(&p->waiting);
	list_add(&p->link, &sni->peers);
	sni->npeers++;
	return p;
}

int lnet_notify(struct lnet_ni *ni, struct lnet_nid *nid, bool alive,
		bool reset, time64_t when)
{
	si_check_context("lnet_notify");
	if (!si_ni_known(ni, "lnet_notify"))
		return -EINVAL;
	if (when > ktime_get_seconds())
		si_violation(notify_time, "%s at %lld, now %lld", si_nidstr(nid),
			     when, ktime_get_seconds());
	if (!alive && !reset)
		si_stat_inc(notify_down);
	else
		si_stat_inc(notify_other);
	return 0;
}
EXPORT_SYMBOL(lnet_notify);

int lnet_nid2cpt(struct lnet_nid *nid, struct lnet_ni *ni)
{
	u32 hash = si_nid_hash(nid);

	if (ni && ni->ni_cpts)
		return ni->ni_cpts[hash % ni->ni_ncpts];
	return hash % cfs_cpt_number(lnet_cpt_table());
}
EXPORT_SYMBOL(lnet_nid2cpt);

/* ----------------------------------------------------- what startup calls */

int lnet_ni_add_interface(struct lnet_ni *ni, char *iface)
{
	if (ni->ni_interface)
		return -EINVAL;
	ni->ni_interface = kstrdup(iface, GFP_KERNEL);
	return ni->ni_interface ? 0 : -ENOMEM;
}
EXPORT_SYMBOL(lnet_ni_add_interface);

/* One NUMA node covers everything here: all CPTs unless the user chose. */
int lnet_ni_set_default_cpts(struct lnet_ni *ni)
{
	if (!ni->ni_cpts)
		ni->ni_ncpts = cfs_cpt_number(lnet_cpt_table());
	return 0;
}
EXPORT_SYMBOL(lnet_ni_set_default_cpts);

__u32 lnet_set_link_fatal_state(struct lnet_ni *ni, unsigned int link_state)
{
	u32 old;

	if (!si_ni_known(ni, "lnet_set_link_fatal_state"))
		return 0;
	spin_lock(&si_net_lock);
	old = atomic_xchg(&ni->ni_fatal_error_on, link_state);
	spin_unlock(&si_net_lock);
	if (link_state && !old)
		si_stat_inc(fatal_set);
	if (!link_state && old)
		si_stat_inc(fatal_cleared);
	return old;
}
EXPORT_SYMBOL(lnet_set_link_fatal_state);

void lnet_mark_ping_buffer_for_update(void)
{
	si_stat_inc(ping_buffer_marked);
}
EXPORT_SYMBOL(lnet_mark_ping_buffer_for_update);

/* -------------------------------------------------------------------- nets */

static struct si_net *si_net_find(u32 id)
{
	struct si_net *net;

	list_for_each_entry(net, &si_nets, link)
		if (net->net.net_id == id)
			return net;
	return NULL;
}

static struct si_net *si_net_new(u32 id)
{
	struct lnet_ioctl_config_lnd_cmn_tunables *cmn;
	struct si_net *net = kzalloc_obj(*net);

	if (!net)
		return NULL;
	net->net.net_id = id;
	net->net.net_lnd = si_lnd;
	cmn = &net->net.net_tunables;
	cmn->lct_peer_timeout = -1;
	cmn->lct_peer_tx_credits = -1;
	cmn->lct_peer_rtr_credits = -1;
	cmn->lct_max_tx_credits = -1;
	list_add_tail(&net->link, &si_nets);
	return net;
}

static void si_net_put(struct si_net *net)
{
	if (net->nnis)
		return;
	list_del(&net->link);
	kfree(net);
}

struct si_net_opts {
	u32		id;
	const char	*iface;
	struct lnet_nid	nid;
	const char	*cpts;
	struct lnet_ioctl_config_lnd_cmn_tunables cmn;
	struct lnet_lnd_tunables tun;
	bool		tun_set;
	s64		reject;		/* LNet refuses the NI after its startup */
};

static int si_opt_s32(struct si_args *args, const char *key, s32 min, s32 *val)
{
	s64 v = *val;
	int rc = si_arg_s64(args, key, min, S32_MAX, &v);

	*val = v;
	return rc;
}

static int si_net_lnd_opts(struct si_args *args, struct si_net_opts *o,
			   struct si_out *out)
{
	struct lnet_ioctl_config_lnd_cmn_tunables scratch = {
		.lct_peer_timeout = -1, .lct_peer_tx_credits = -1,
		.lct_peer_rtr_credits = -1, .lct_max_tx_credits = -1,
	};
	int n = 0, rc = 0;

	if (si_lnd->lnd_tun_defaults)
		rc = si_lnd->lnd_tun_defaults(&o->tun, &scratch);
	rc = rc ?: si_apply_keys(args, &o->tun, out, &n);
	o->tun_set = n > 0;
	return rc;
}

static int si_net_parse(struct si_args *args, struct si_net_opts *o,
			struct si_out *out)
{
	const char *net = si_arg_word(args, 2);
	const char *nid;
	int rc;

	*o = (struct si_net_opts) {
		.cmn.lct_peer_timeout = -1, .cmn.lct_peer_tx_credits = -1,
		.cmn.lct_peer_rtr_credits = -1, .cmn.lct_max_tx_credits = -1,
	};
	if (!net || si_parse_net(net, &o->id))
		return -EINVAL;
	o->iface = si_arg_str(args, "if");
	o->cpts = si_arg_str(args, "cpts");
	nid = si_arg_str(args, "nid");
	o->nid = si_nid_from_u64((u64)o->id << 32);
	if (nid && (si_parse_nid(nid, &o->nid) || si_nid_net(&o->nid) != o->id))
		return -EINVAL;
	rc = si_opt_s32(args, "peer_timeout", 0, &o->cmn.lct_peer_timeout);
	rc = rc ?: si_opt_s32(args, "peer_credits", 1, &o->cmn.lct_peer_tx_credits);
	rc = rc ?: si_opt_s32(args, "peer_buffer_credits", 1,
			      &o->cmn.lct_peer_rtr_credits);
	rc = rc ?: si_opt_s32(args, "credits", 1, &o->cmn.lct_max_tx_credits);
	rc = rc ?: si_arg_s64(args, "reject", 0, 1, &o->reject);
	return rc ?: si_net_lnd_opts(args, o, out);
}

/* --------------------------------------------------------------------- NIs */

static void si_ni_free(struct si_ni *sni)
{
	struct si_peer *p, *tmp;

	list_for_each_entry_safe(p, tmp, &sni->peers, link)
		kfree(p);
	if (sni->ni.ni_net_ns)
		put_net(sni->ni.ni_net_ns);
	kfree(sni->ni.ni_interface);
	kfree(sni->ni.ni_cpts);
	kfree(sni->txqs);
	/* a driver that still reads the NI sees nonsense, and KASAN sees it */
	memset(&sni->ni, 0xdd, sizeof(sni->ni));
	kfree(sni);
	module_put(THIS_MODULE);
}

static int si_ni_set_cpts(struct lnet_ni *ni, const char *list)
{
	int total = cfs_cpt_number(lnet_cpt_table());
	char *copy, *pos, *word;
	int rc = 0;

	if (!list)
		return 0;
	copy = kstrdup(list, GFP_KERNEL);
	ni->ni_cpts = kcalloc(total, sizeof(*ni->ni_cpts), GFP_KERNEL);
	if (!copy || !ni->ni_cpts)
		rc = -ENOMEM;
	pos = copy;
	while (!rc && (word = strsep(&pos, ","))) {
		u32 cpt;

		if (kstrtou32(word, 0, &cpt) || cpt >= total || ni->ni_ncpts == total)
			rc = -EINVAL;
		else
			ni->ni_cpts[ni->ni_ncpts++] = cpt;
	}
	kfree(copy);
	return rc;
}

static struct si_ni *si_ni_new(struct si_net *net, const struct si_net_opts *o)
{
	struct si_ni *sni;

	if (!try_module_get(THIS_MODULE))
		return NULL;
	sni = kzalloc_obj(*sni);
	if (!sni) {
		module_put(THIS_MODULE);
		return NULL;
	}
	sni->net = net;
	init_waitqueue_head(&sni->idle);
	spin_lock_init(&sni->lock);
	spin_lock_init(&sni->ni.ni_lock);
	INIT_LIST_HEAD(&sni->peers);
	si_delay_init(sni);
	sni->ni.ni_net = &net->net;
	sni->ni.ni_nid = o->nid;
	sni->ni.ni_state = LNET_NI_STATE_INIT;
	sni->ni.ni_dev_cpt = CFS_CPT_ANY;
	sni->ni.ni_net_ns = get_net(current->nsproxy->net_ns);
	sni->ni.ni_lnd_tunables = o->tun;
	sni->ni.ni_lnd_tunables_set = o->tun_set;
	sni->txqs = kcalloc(cfs_cpt_number(lnet_cpt_table()), sizeof(*sni->txqs),
			    GFP_KERNEL);
	if (!sni->txqs || si_ni_set_cpts(&sni->ni, o->cpts))
		goto err;
	if (o->iface && lnet_ni_add_interface(&sni->ni, (char *)o->iface))
		goto err;
	return sni;
err:
	si_ni_free(sni);
	return NULL;
}

static void si_ni_unlink(struct si_ni *sni)
{
	spin_lock(&si_net_lock);
	list_del(&sni->link);
	spin_unlock(&si_net_lock);
}

/* What startup owes LNet; LNet itself looks at the credits only. */
static void si_ni_check(struct si_ni *sni)
{
	struct lnet_ioctl_config_lnd_cmn_tunables *t = &sni->net->net.net_tunables;
	struct lnet_ni *ni = &sni->ni;

	if (t->lct_peer_timeout == -1 || t->lct_peer_tx_credits == -1 ||
	    t->lct_peer_rtr_credits == -1 || t->lct_max_tx_credits == -1)
		si_violation(startup, "tunables unset: %d %d %d %d",
			     t->lct_peer_timeout, t->lct_peer_tx_credits,
			     t->lct_peer_rtr_credits, t->lct_max_tx_credits);
	if (!ni->ni_data)
		si_violation(startup, "no private data");
	if (!ni->ni_interface)
		si_violation(startup, "no interface name");
	if (si_nid_net(&ni->ni_nid) != sni->net->net.net_id)
		si_violation(startup, "NID of another net");
	if (!memchr_inv(ni->ni_nid.nid_addr, 0, sizeof(ni->ni_nid.nid_addr)))
		si_violation(startup, "NID without address");
	if (!ni->ni_ncpts)
		si_violation(startup, "no CPTs");
}

static void si_ni_set_credits(struct si_ni *sni)
{
	struct lnet_ioctl_config_lnd_cmn_tunables *t = &sni->net->net.net_tunables;
	int n = sni->ni.ni_ncpts;
	int credits = t->lct_max_tx_credits;
	int i;

	if (n > 1)
		credits = min(credits, max(credits / n, 8 * t->lct_peer_tx_credits));
	for (i = 0; i < cfs_cpt_number(lnet_cpt_table()); i++) {
		sni->txqs[i].credits = credits;
		sni->txqs[i].min_credits = credits;
		INIT_LIST_HEAD(&sni->txqs[i].waiting);
	}
}

static bool si_nid_taken(struct si_ni *sni)
{
	struct lnet_ni *other = lnet_nid_to_ni_addref(&sni->ni.ni_nid);

	if (!other)
		return false;
	lnet_ni_decref(other);
	return true;
}

/* After a good startup: 0, or why LNet does not want the NI all the same. */
static int si_ni_accept(struct si_ni *sni, const struct si_net_opts *o)
{
	struct lnet_ioctl_config_lnd_cmn_tunables *t = &sni->net->net.net_tunables;

	si_ni_check(sni);
	if (!sni->net->nnis) {
		if (o->cmn.lct_peer_timeout != -1)
			t->lct_peer_timeout = o->cmn.lct_peer_timeout;
		if (o->cmn.lct_peer_rtr_credits != -1)
			t->lct_peer_rtr_credits = o->cmn.lct_peer_rtr_credits;
		if (o->cmn.lct_max_tx_credits != -1)
			t->lct_max_tx_credits = o->cmn.lct_max_tx_credits;
	}
	if (t->lct_peer_tx_credits <= 0 || t->lct_max_tx_credits <= 0) {
		si_violation(startup, "no credits: %d %d", t->lct_peer_tx_credits,
			     t->lct_max_tx_credits);
		return -EINVAL;
	}
	if (si_nid_taken(sni))
		return -EEXIST;
	return o->reject ? -EINVAL : 0;
}

static void si_ni_stop(struct si_ni *sni)
{
	mutex_lock(&si_lnd_mutex);
	si_lnd->lnd_shutdown(&sni->ni);
	mutex_unlock(&si_lnd_mutex);
	spin_lock(&si_net_lock);
	if (sni->msgs)
		si_violation(ni_held, "%d messages", sni->msgs);
	if (sni->refs)
		si_violation(ni_held, "%d references", sni->refs);
	spin_unlock(&si_net_lock);
	if (sni->ni.ni_data)
		si_violation(ni_held, "private data still set");
}

static bool si_ni_idle(struct si_ni *sni)
{
	bool idle;

	spin_lock(&si_net_lock);
	idle = !sni->msgs && !sni->refs && !sni->users;
	spin_unlock(&si_net_lock);
	return idle;
}

/* Marks the NI as going and waits for the LND to let go of it. */
static int si_ni_retire(struct si_ni *sni)
{
	unsigned long wait = READ_ONCE(del_timeout) * HZ;

	spin_lock(&si_net_lock);
	spin_lock(&sni->lock);
	sni->visible = false;
	sni->ni.ni_state = LNET_NI_STATE_DELETING;
	spin_unlock(&sni->lock);
	spin_unlock(&si_net_lock);
	si_purge_delayed(sni);
	if (wait_event_idle_timeout(sni->idle, si_ni_idle(sni), wait)) {
		cancel_delayed_work_sync(&sni->delay);
		return 0;
	}
	si_msg_report_live(sni);
	if (READ_ONCE(sni->refs))
		si_violation(ni_held, "%d references before shutdown", sni->refs);
	return -EBUSY;
}

static int si_ni_start(struct si_ni *sni, const struct si_net_opts *o)
{
	int rc;

	spin_lock(&si_net_lock);
	list_add_tail(&sni->link, &si_nis);
	spin_unlock(&si_net_lock);

	mutex_lock(&si_lnd_mutex);
	rc = si_lnd->lnd_startup(&sni->ni);
	mutex_unlock(&si_lnd_mutex);
	if (rc > 0)
		si_violation(returned, "lnd_startup: %d", rc);
	if (rc) {
		si_ni_unlink(sni);
		return rc < 0 ? rc : -EINVAL;
	}
	rc = si_ni_accept(sni, o);
	if (rc) {
		if (si_ni_retire(sni)) {
			sni->stuck = true;	/* the LND still uses it */
			return rc;
		}
		si_ni_stop(sni);
		si_ni_unlink(sni);
		return rc;
	}
	si_ni_set_credits(sni);
	spin_lock(&si_net_lock);
	sni->ni.ni_state = LNET_NI_STATE_ACTIVE;
	sni->visible = true;
	spin_unlock(&si_net_lock);
	return 0;
}

static int si_net_add(struct si_net_opts *o, struct si_out *out)
{
	struct si_net *net = si_net_find(o->id);
	struct si_ni *sni;
	int rc;

	if (!net) {
		net = si_net_new(o->id);
		if (!net)
			return -ENOMEM;
		net->net.net_tunables = o->cmn;
	}
	sni = si_ni_new(net, o);
	if (!sni) {
		si_net_put(net);
		return -EINVAL;
	}
	rc = si_ni_start(sni, o);
	if (sni->stuck) {
		net->nnis++;
		return rc;
	}
	if (rc) {
		si_ni_free(sni);
		si_net_put(net);
		return rc;
	}
	net->nnis++;
	si_out(out, "nid=%s\n", si_nidstr(&sni->ni.ni_nid));
	return 0;
}

/* The next NI of @id, or the one of @nid; NULL when none is left. */
static struct si_ni *si_net_pick(u32 id, const struct lnet_nid *nid)
{
	struct si_ni *sni, *found = NULL;

	/* no NI is half started once we have it */
	mutex_lock(&si_api_mutex);
	spin_lock(&si_net_lock);
	list_for_each_entry(sni, &si_nis, link) {
		if (sni->net->net.net_id != id)
			continue;
		if (nid && !si_nid_same(nid, &sni->ni.ni_nid))
			continue;
		found = sni;
		break;
	}
	spin_unlock(&si_net_lock);
	mutex_unlock(&si_api_mutex);
	return found;
}

/* The api mutex is not held around the wait and the shutdown, as in LNet. */
static int si_net_del(u32 id, const struct lnet_nid *nid)
{
	struct si_ni *sni;
	int rc = -ENOENT;

	while ((sni = si_net_pick(id, nid))) {
		rc = si_ni_retire(sni);
		if (rc)
			return rc;
		si_ni_stop(sni);
		mutex_lock(&si_api_mutex);
		si_ni_unlink(sni);
		sni->net->nnis--;
		si_net_put(sni->net);
		mutex_unlock(&si_api_mutex);
		si_ni_free(sni);
	}
	return rc;
}

static int si_cmd_net_del(struct si_args *args, struct si_out *out)
{
	const char *net = si_arg_word(args, 2);
	const char *text = si_arg_str(args, "nid");
	ktime_t start = ktime_get();
	struct lnet_nid nid;
	u32 id;
	int rc;

	if (!net || si_parse_net(net, &id) || (text && si_parse_nid(text, &nid)))
		return -EINVAL;
	rc = si_arg_done(args, out);
	if (rc)
		return rc;
	mutex_lock(&si_del_mutex);
	rc = si_net_del(id, text ? &nid : NULL);
	mutex_unlock(&si_del_mutex);
	si_out(out, "elapsed_ms=%lld\n", ktime_ms_delta(ktime_get(), start));
	return rc;
}

/*
 * net add o2ib0 if=IF | nid=NID [cpts=0,1] [peer_timeout= peer_credits=
 *	peer_buffer_credits= credits=] [LND keys] [reject=1]
 * net del o2ib0 [nid=NID]
 */
int si_cmd_net(struct si_args *args, struct si_out *out)
{
	const char *verb = si_arg_word(args, 1);
	struct si_net_opts o;
	int rc;

	if (verb && !strcmp(verb, "del"))
		return si_cmd_net_del(args, out);
	if (!verb || strcmp(verb, "add"))
		return -EINVAL;
	mutex_lock(&si_api_mutex);
	rc = si_lnd ? si_net_parse(args, &o, out) : -ENODEV;
	rc = rc ?: si_arg_done(args, out);
	rc = rc ?: si_net_add(&o, out);
	mutex_unlock(&si_api_mutex);
	return rc;
}

/* ----------------------------------------------------------------- listing */

static void si_ni_print(struct seq_file *s, struct si_ni *sni)
{
	struct lnet_ioctl_config_lnd_cmn_tunables *t = &sni->net->net.net_tunables;
	static const char *const states[] = { "init", "active", "deleting" };
	struct si_peer *p;
	int i;

	seq_printf(s, "nid=%s if=%s state=%s fatal=%d refs=%d users=%d msgs=%d dev_cpt=%d ncpts=%d peer_timeout=%d peer_credits=%d peer_buffer_credits=%d credits=%d\n",
		   si_nidstr(&sni->ni.ni_nid), sni->ni.ni_interface ?: "-",
		   states[sni->ni.ni_state], atomic_read(&sni->ni.ni_fatal_error_on),
		   sni->refs, sni->users, sni->msgs, sni->ni.ni_dev_cpt, sni->ni.ni_ncpts,
		   t->lct_peer_timeout, t->lct_peer_tx_credits,
		   t->lct_peer_rtr_credits, t->lct_max_tx_credits);
	spin_lock(&sni->lock);
	for (i = 0; sni->visible && i < cfs_cpt_number(lnet_cpt_table()); i++)
		seq_printf(s, "  cpt=%d credits=%d min_credits=%d\n", i,
			   sni->txqs[i].credits, sni->txqs[i].min_credits);
	list_for_each_entry(p, &sni->peers, link)
		seq_printf(s, "  peer=%s credits=%d min_credits=%d\n",
			   si_nidstr(&p->nid), p->credits, p->min_credits);
	spin_unlock(&sni->lock);
}

int si_nis_show(struct seq_file *s, void *unused)
{
	struct si_ni *sni;

	spin_lock(&si_net_lock);
	list_for_each_entry(sni, &si_nis, link)
		si_ni_print(s, sni);
	spin_unlock(&si_net_lock);
	return 0;
}

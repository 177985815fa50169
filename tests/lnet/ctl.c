// SPDX-License-Identifier: GPL-2.0
/* What lctl and lnetctl ask an LND for: ioctls and tunables. */

#define pr_fmt(fmt) "lnet_standin: " fmt

#include "standin.h"

#define SI_MAX_LISTED	1024

static int si_ctl_list(struct si_ni *sni, unsigned int cmd, struct si_out *out)
{
	struct libcfs_ioctl_data data;
	struct lnet_nid nid;
	int i, rc;

	for (i = 0; i < SI_MAX_LISTED; i++) {
		memset(&data, 0, sizeof(data));
		data.ioc_net = sni->net->net.net_id;
		data.ioc_count = i;
		data.ioc_nid = LNET_NID_ANY;
		rc = si_lnd->lnd_ctl(&sni->ni, cmd, &data);
		if (rc == -ENOENT)
			break;
		if (rc < 0)
			return rc;
		nid = si_nid_from_u64(data.ioc_nid);
		if (cmd == IOC_LIBCFS_GET_PEER)
			si_out(out, "peer=%s refs=%u\n", si_nidstr(&nid),
			       data.ioc_count);
		else
			si_out(out, "conn=%s mtu=%u\n", si_nidstr(&nid),
			       data.ioc_u32[0]);
	}
	si_out(out, "n=%d\n", i);
	return 0;
}

static int si_ctl_nid(struct si_ni *sni, unsigned int cmd, const char *text)
{
	struct libcfs_ioctl_data data = { .ioc_nid = LNET_NID_ANY };
	struct lnet_nid nid;
	int rc;

	if (text) {
		if (si_parse_nid(text, &nid))
			return -EINVAL;
		data.ioc_nid = si_nid_to_u64(&nid);
	}
	data.ioc_net = sni->net->net.net_id;
	rc = si_lnd->lnd_ctl(&sni->ni, cmd, &data);
	return min(rc, 0);
}

static int si_ctl(struct si_ni *sni, const char *what, const char *arg,
		  struct si_out *out)
{
	unsigned int raw;

	if (!si_lnd->lnd_ctl)
		return -EOPNOTSUPP;
	if (!strcmp(what, "peer_list"))
		return si_ctl_list(sni, IOC_LIBCFS_GET_PEER, out);
	if (!strcmp(what, "conn_list"))
		return si_ctl_list(sni, IOC_LIBCFS_GET_CONN, out);
	if (!strcmp(what, "del_peer"))
		return si_ctl_nid(sni, IOC_LIBCFS_DEL_PEER, arg);
	if (!strcmp(what, "disconnect"))
		return si_ctl_nid(sni, IOC_LIBCFS_CLOSE_CONNECTION, arg);
	if (!strcmp(what, "debug_peer"))
		return arg ? si_ctl_nid(sni, IOC_LIBCFS_GET_PEER, arg) : -EINVAL;
	if (!strcmp(what, "raw") && arg && !kstrtouint(arg, 0, &raw))
		return si_ctl_nid(sni, raw, NULL);
	return -EINVAL;
}

/* The NI a command's network names: the first one. */
static struct si_ni *si_arg_ni(struct si_args *args, int n)
{
	const char *net = si_arg_word(args, n);
	u32 id;

	if (!net || si_parse_net(net, &id))
		return NULL;
	return si_ni_use(id, NULL);
}

/* lctl peer_list|conn_list|del_peer|disconnect|debug_peer|raw NET [NID|NUMBER] */
int si_cmd_lctl(struct si_args *args, struct si_out *out)
{
	const char *what = si_arg_word(args, 1);
	const char *arg = si_arg_word(args, 3);
	struct si_ni *sni = si_arg_ni(args, 2);
	int rc;

	if (!sni)
		return -ENODEV;
	rc = si_arg_done(args, out);
	if (!rc)
		rc = what ? si_ctl(sni, what, arg, out) : -EINVAL;
	si_ni_unuse(sni);
	return rc;
}

/* dev_prio NET INDEX */
int si_cmd_dev_prio(struct si_args *args, struct si_out *out)
{
	const char *text = si_arg_word(args, 2);
	struct si_ni *sni = si_arg_ni(args, 1);
	unsigned int idx, prio = UINT_MAX;
	int rc = 0;

	if (!sni)
		return -ENODEV;
	if (!text || kstrtouint(text, 0, &idx))
		rc = -EINVAL;
	rc = rc ?: si_arg_done(args, out);
	if (!rc && si_lnd->lnd_get_dev_prio) {
		spin_lock(&si_net_lock);
		prio = si_lnd->lnd_get_dev_prio(&sni->ni, idx);
		spin_unlock(&si_net_lock);
		si_out(out, "prio=%u\n", prio);
	}
	si_ni_unuse(sni);
	return rc;
}

/* ---------------------------------------------------------------- tunables */

static void si_print_attr(const struct ln_key_props *key, const struct nlattr *attr,
			  struct si_out *out)
{
	switch (key->lkp_data_type) {
	case NLA_FLAG:
		si_out(out, "%s=true\n", key->lkp_value);
		break;
	case NLA_U16:
		si_out(out, "%s=%u\n", key->lkp_value, nla_get_u16(attr));
		break;
	case NLA_S16:
		si_out(out, "%s=%d\n", key->lkp_value, nla_get_s16(attr));
		break;
	case NLA_U32:
		si_out(out, "%s=%u\n", key->lkp_value, nla_get_u32(attr));
		break;
	default:
		si_out(out, "%s=?\n", key->lkp_value);
	}
}

/* Flags that are absent print as false, anything else absent not at all. */
static void si_print_keys(const struct sk_buff *skb, struct si_out *out)
{
	const struct ln_key_list *keys = si_lnd->lnd_keys;
	int i;

	for (i = 1; i <= keys->lkl_maxattr; i++) {
		const struct nlattr *attr = nla_find((struct nlattr *)skb->data,
						     skb->len, i);
		const struct ln_key_props *key = &keys->lkl_list[i];

		if (!key->lkp_value)
			continue;
		if (attr)
			si_print_attr(key, attr, out);
		else if (key->lkp_data_type == NLA_FLAG)
			si_out(out, "%s=false\n", key->lkp_value);
	}
}

/* nl_get NET [backup=1] [cmd=] [type=] */
int si_cmd_nl_get(struct si_args *args, struct si_out *out)
{
	s64 type = LNET_NET_LOCAL_NI_ATTR_LND_TUNABLES, cmd = LNET_CMD_NETS;
	struct si_ni *sni = si_arg_ni(args, 1);
	struct sk_buff *skb = NULL;
	s64 backup = 0;
	int rc;

	if (!sni)
		return -ENODEV;
	rc = si_arg_s64(args, "backup", 0, 1, &backup);
	rc = rc ?: si_arg_s64(args, "cmd", 0, 255, &cmd);
	rc = rc ?: si_arg_s64(args, "type", 0, 255, &type);
	rc = rc ?: si_arg_done(args, out);
	if (!rc && (!si_lnd->lnd_nl_get || !si_lnd->lnd_keys))
		rc = -EOPNOTSUPP;
	if (!rc) {
		skb = alloc_skb(NLMSG_GOODSIZE, GFP_KERNEL);
		rc = skb ? 0 : -ENOMEM;
	}
	if (!rc) {
		spin_lock(&si_net_lock);
		rc = si_lnd->lnd_nl_get(cmd, skb, type, &sni->ni, backup);
		spin_unlock(&si_net_lock);
	}
	if (!rc)
		si_print_keys(skb, out);
	kfree_skb(skb);
	si_ni_unuse(sni);
	return rc;
}

/* User tools turn words into numbers before the kernel sees them. */
static int si_key_value(const char *text, s64 *val)
{
	if (!strcmp(text, "true") || !strcmp(text, "yes") || !strcmp(text, "on"))
		*val = 1;
	else if (!strcmp(text, "false") || !strcmp(text, "no") || !strcmp(text, "off"))
		*val = 0;
	else
		return kstrtos64(text, 0, val);
	return 0;
}

static int si_nl_set_one(int num, int type, s64 val, struct lnet_lnd_tunables *tun)
{
	struct {
		struct nlattr	attr;
		s64		val;
	} __packed scalar = {
		.attr = { .nla_len = nla_attr_size(sizeof(val)), .nla_type = type },
		.val = val,
	};

	return si_lnd->lnd_nl_set(LNET_CMD_NETS, &scalar.attr, num, tun);
}

/* Stores every LND key that @args has in @tun, and counts them. */
int si_apply_keys(struct si_args *args, struct lnet_lnd_tunables *tun,
		  struct si_out *out, int *napplied)
{
	const struct ln_key_list *keys = si_lnd->lnd_keys;
	int i, rc;

	for (i = 1; keys && si_lnd->lnd_nl_set && i <= keys->lkl_maxattr; i++) {
		const char *text;
		s64 val;

		if (!keys->lkl_list[i].lkp_value)
			continue;
		text = si_arg_str(args, keys->lkl_list[i].lkp_value);
		if (!text)
			continue;
		rc = si_key_value(text, &val);
		rc = rc ?: si_nl_set_one(i, LN_SCALAR_ATTR_INT_VALUE, val, tun);
		if (rc) {
			si_out(out, "key=%s\n", keys->lkl_list[i].lkp_value);
			return rc;
		}
		(*napplied)++;
	}
	return 0;
}

/*
 * nl_set NET KEY=VALUE...: as "lnetctl net set --all", on the live NI. The keys
 * are parsed into a copy first, unlocked, and again for real under the net lock.
 */
int si_cmd_nl_set(struct si_args *args, struct si_out *out)
{
	struct si_ni *sni = si_arg_ni(args, 1);
	struct lnet_lnd_tunables scratch;
	int n = 0, rc;

	if (!sni)
		return -ENODEV;
	scratch = sni->ni.ni_lnd_tunables;
	rc = si_apply_keys(args, &scratch, out, &n);
	rc = rc ?: si_arg_done(args, out);
	if (!rc && n) {
		spin_lock(&si_net_lock);
		rc = si_apply_keys(args, &sni->ni.ni_lnd_tunables, out, &n);
		spin_unlock(&si_net_lock);
	}
	si_ni_unuse(sni);
	return rc;
}

// SPDX-License-Identifier: GPL-2.0
/* Interfaces and their addresses, as LNet lists them for an LND. */

#define pr_fmt(fmt) "lnet_standin: " fmt

#include <linux/ethtool.h>
#include <linux/inetdevice.h>
#include <linux/rtnetlink.h>
#include <net/addrconf.h>
#include <net/if_inet6.h>

#include "standin.h"

struct si_inet_list {
	struct lnet_inetdev	*devs;
	int			count;
	int			room;
};

static struct lnet_inetdev *si_inet_add(struct si_inet_list *list,
					struct net_device *dev)
{
	struct lnet_inetdev *entry;

	if (list->count == list->room) {
		int room = list->room + 16;

		entry = krealloc_array(list->devs, room, sizeof(*entry), GFP_KERNEL);
		if (!entry)
			return NULL;
		list->devs = entry;
		list->room = room;
	}
	entry = &list->devs[list->count++];
	memset(entry, 0, sizeof(*entry));
	entry->li_cpt = cfs_cpt_of_node(lnet_cpt_table(), dev_to_node(&dev->dev));
	entry->li_index = dev->ifindex;
	entry->li_iff_master = !!(dev->flags & IFF_MASTER);
	strscpy(entry->li_name, dev->name, sizeof(entry->li_name));
	return entry;
}

static int si_inet_add_v4(struct si_inet_list *list, struct net_device *dev)
{
	struct in_device *in_dev = __in_dev_get_rtnl(dev);
	const struct in_ifaddr *ifa;
	struct lnet_inetdev *entry;

	if (!in_dev)
		return 0;
	in_dev_for_each_ifa_rtnl(ifa, in_dev) {
		entry = si_inet_add(list, dev);
		if (!entry)
			return -ENOMEM;
		entry->li_ipaddr = ifa->ifa_local;
		entry->li_netmask = ntohl(ifa->ifa_mask);
		entry->li_size = sizeof(entry->li_ipaddr);
		/* the label says ib0:1 for an alias */
		strscpy(entry->li_name, ifa->ifa_label, sizeof(entry->li_name));
	}
	return 0;
}

/* At most one address per interface: the first global one. */
static int si_inet_add_v6(struct si_inet_list *list, struct net_device *dev)
{
#if IS_ENABLED(CONFIG_IPV6)
	struct inet6_dev *in6_dev = __in6_dev_get(dev);
	const struct inet6_ifaddr *ifa;
	struct lnet_inetdev *entry;
	bool found = false;

	if (!in6_dev)
		return 0;
	rcu_read_lock();
	list_for_each_entry_rcu(ifa, &in6_dev->addr_list, if_list) {
		found = ifa->scope == RT_SCOPE_UNIVERSE;
		if (found)
			break;
	}
	rcu_read_unlock();
	if (!found)
		return 0;
	/* RTNL keeps the address list as it is */
	entry = si_inet_add(list, dev);
	if (!entry)
		return -ENOMEM;
	memcpy(entry->li_ipv6addr, &ifa->addr, sizeof(entry->li_ipv6addr));
	entry->li_size = sizeof(entry->li_ipv6addr);
	return 0;
#else
	return 0;
#endif
}

int lnet_inet_enumerate(struct lnet_inetdev **dev_list, struct net *ns,
			bool v6_first)
{
	struct si_inet_list list = {};
	struct net_device *dev;
	int rc = 0;

	si_check_context("lnet_inet_enumerate");
	rtnl_lock();
	for_each_netdev(ns, dev) {
		if (!(dev->flags & IFF_UP) || dev->flags & IFF_LOOPBACK)
			continue;
		if (v6_first)
			rc = si_inet_add_v6(&list, dev);
		rc = rc ?: si_inet_add_v4(&list, dev);
		if (!v6_first)
			rc = rc ?: si_inet_add_v6(&list, dev);
		if (rc)
			break;
	}
	rtnl_unlock();
	if (!rc && !list.count)
		rc = -ENOENT;
	if (rc) {
		kfree(list.devs);
		return rc;
	}
	*dev_list = list.devs;
	return list.count;
}
EXPORT_SYMBOL(lnet_inet_enumerate);

static bool si_inet_matches(const struct lnet_ni *ni, const struct lnet_inetdev *entry)
{
	const struct lnet_nid *nid = &ni->ni_nid;

	if (ni->ni_interface && strcmp(ni->ni_interface, entry->li_name))
		return false;
	if (!memchr_inv(nid->nid_addr, 0, sizeof(nid->nid_addr)))
		return true;
	if (!nid->nid_size)
		return entry->li_size == 4 && entry->li_ipaddr == nid->nid_addr[0];
	return entry->li_size == 16 && !memcmp(entry->li_ipv6addr, nid->nid_addr, 16);
}

int lnet_inet_select(struct lnet_ni *ni, struct lnet_inetdev *ifaces,
		     int num_ifaces)
{
	int i;

	for (i = 0; i < num_ifaces; i++)
		if (si_inet_matches(ni, &ifaces[i]))
			return i;
	pr_err("no interface matches %s %s\n", ni->ni_interface ?: "(any)",
	       si_nidstr(&ni->ni_nid));
	return -EINVAL;
}
EXPORT_SYMBOL(lnet_inet_select);

int lnet_get_link_status_locked(struct net_device *dev)
{
	if (!netif_running(dev))
		return 0;
	if (!dev->ethtool_ops || !dev->ethtool_ops->get_link)
		return -1;
	return dev->ethtool_ops->get_link(dev) ? 1 : 0;
}
EXPORT_SYMBOL(lnet_get_link_status_locked);

int lnet_get_link_status(struct net_device *dev)
{
	int rc;

	si_check_context("lnet_get_link_status");
	rtnl_lock();
	rc = lnet_get_link_status_locked(dev);
	rtnl_unlock();
	return rc;
}
EXPORT_SYMBOL(lnet_get_link_status);

// SPDX-License-Identifier: GPL-2.0
/* Devices come with "rdma link add NAME type kor_hca netdev IF", and go with their interface. */
#define pr_fmt(fmt) "kor_hca: " fmt

#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <net/addrconf.h>
#include <rdma/rdma_netlink.h>

#include "hca.h"

MODULE_DESCRIPTION("RDMA device in memory, for tests");
MODULE_LICENSE("GPL");

DEFINE_MUTEX(hca_fabric);
LIST_HEAD(hca_devs);
struct workqueue_struct *hca_wq;
DEFINE_MUTEX(hca_devs_mutex);	/* inside hca_fabric */

/* Of devices made from now on. */
static struct hca_limits hca_limits = {
	.pages = 512, .sge = 32, .sge_rd = 1, .inline_data = 512, .wr = 32768, .cqe = 65536,
	.cq = 65536, .qp = 65536, .mr = 1 << 20, .rd_atom = 128,
};

#define HCA_LIMIT(name, what) \
	module_param_named(max_##name, hca_limits.name, uint, 0644); \
	MODULE_PARM_DESC(max_##name, what)

HCA_LIMIT(pages, "pages of an MR");
HCA_LIMIT(sge, "SGEs of a request");
HCA_LIMIT(sge_rd, "SGEs of a READ");
HCA_LIMIT(inline_data, "inline bytes");
HCA_LIMIT(wr, "requests of a queue");
HCA_LIMIT(cqe, "entries of a CQ");
HCA_LIMIT(cq, "CQs");
HCA_LIMIT(qp, "QPs");
HCA_LIMIT(mr, "MRs");
HCA_LIMIT(rd_atom, "READs under way");

static int hca_enable(struct ib_device *ib)
{
	hca_debugfs_add(to_hca(ib));
	return 0;
}

/* After the last object is gone, or when the device could not be registered. */
static void hca_dealloc(struct ib_device *ib)
{
	struct hca_dev *dev = to_hca(ib);

	mutex_lock(&hca_devs_mutex);
	list_del(&dev->link);
	mutex_unlock(&hca_devs_mutex);
	debugfs_remove(dev->dir);
	hca_ep_forget_all(dev);
	xa_destroy(&dev->qps);
	xa_destroy(&dev->mrs);
}

static const struct ib_device_ops hca_life_ops = {
	.owner = THIS_MODULE,
	.enable_driver = hca_enable,
	.dealloc_driver = hca_dealloc,
};

static void hca_set_ops(struct ib_device *ib)
{
	ib_set_device_ops(ib, &hca_life_ops);
	ib_set_device_ops(ib, &hca_dev_ops);
	ib_set_device_ops(ib, &hca_mem_ops);
	ib_set_device_ops(ib, &hca_cq_ops);
	ib_set_device_ops(ib, &hca_qp_ops);
	ib_set_device_ops(ib, &hca_post_ops);
	ib_set_device_ops(ib, &hca_cm_ops);
}

static void hca_init_dev(struct hca_dev *dev, struct net_device *netdev)
{
	struct ib_device *ib = &dev->ib;

	dev->netdev = netdev;
	dev->limits = hca_limits;
	ether_addr_copy(dev->mac, netdev->dev_addr);
	xa_init_flags(&dev->qps, XA_FLAGS_ALLOC1);
	xa_init_flags(&dev->mrs, XA_FLAGS_ALLOC1);
	INIT_LIST_HEAD(&dev->eps);
	hca_fault_init(dev);
	mutex_lock(&hca_devs_mutex);
	list_add_tail(&dev->link, &hca_devs);
	mutex_unlock(&hca_devs_mutex);

	addrconf_addr_eui48((u8 *)&ib->node_guid, dev->mac);
	ib->node_type = RDMA_NODE_RNIC;
	strscpy(ib->node_desc, "in memory, for tests");
	ib->phys_port_cnt = 1;
	ib->num_comp_vectors = num_possible_cpus();
	strscpy(ib->iw_ifname, netdev->name);
	ib->iw_driver_flags = IW_F_NO_PORT_MAP;
	hca_set_ops(ib);
}

int hca_new(const char *name, struct net_device *netdev)
{
	struct hca_dev *dev;
	int rc;

	if (netdev->addr_len != ETH_ALEN)
		return -EINVAL;
	dev = ib_alloc_device(hca_dev, ib);
	if (!dev)
		return -ENOMEM;
	hca_init_dev(dev, netdev);
	ib_mark_name_assigned_by_user(&dev->ib);
	/* cma.c reads the interface of GID 0 without asking whether there is one. */
	rc = ib_device_set_netdev(&dev->ib, netdev, 1);
	if (!rc)
		rc = ib_register_device(&dev->ib, name, NULL);
	if (rc)
		ib_dealloc_device(&dev->ib);
	return rc;
}

static struct rdma_link_ops hca_link_ops = {
	.type = "kor_hca",
	.newlink = hca_new,
};

static int hca_netdev_event(struct notifier_block *nb, unsigned long event, void *arg)
{
	struct net_device *netdev = netdev_notifier_info_to_dev(arg);
	struct hca_dev *dev;

	if (event != NETDEV_UNREGISTER)
		return NOTIFY_DONE;
	mutex_lock(&hca_devs_mutex);
	list_for_each_entry(dev, &hca_devs, link) {
		if (dev->netdev != netdev || !ib_device_try_get(&dev->ib))
			continue;
		ib_unregister_device_queued(&dev->ib);
		ib_device_put(&dev->ib);
	}
	mutex_unlock(&hca_devs_mutex);
	return NOTIFY_DONE;
}

static struct notifier_block hca_netdev_nb = {
	.notifier_call = hca_netdev_event,
};

static int __init hca_init(void)
{
	int rc;

	hca_wq = alloc_workqueue("kor_hca", WQ_UNBOUND | WQ_HIGHPRI | WQ_MEM_RECLAIM, 0);
	if (!hca_wq)
		return -ENOMEM;
	hca_debugfs_init();
	rc = register_netdevice_notifier(&hca_netdev_nb);
	if (rc) {
		hca_debugfs_exit();
		destroy_workqueue(hca_wq);
		return rc;
	}
	rdma_link_register(&hca_link_ops);
	return 0;
}

static void __exit hca_exit(void)
{
	rdma_link_unregister(&hca_link_ops);
	unregister_netdevice_notifier(&hca_netdev_nb);
	/* No driver of the kernel has this id. */
	ib_unregister_driver(RDMA_DRIVER_UNKNOWN);
	hca_debugfs_exit();
	destroy_workqueue(hca_wq);
}

module_init(hca_init);
module_exit(hca_exit);
MODULE_ALIAS_RDMA_LINK("kor_hca");

// SPDX-License-Identifier: GPL-2.0
/* /sys/kernel/debug/kor_hca/DEVICE: commands to it, and what it counted. */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string_helpers.h>

#include "hca.h"

#define HCA_MAX_LINE	200

static struct dentry *hca_dir;

static const char *const hca_count_names[HCA_NCOUNTS] = {
#define HCA_NAME(n)[HCA_COUNT_##n] = #n
#include "count_names.h"
#undef HCA_NAME
};

static const char *const hca_live_names[HCA_NLIVES] = {
#define HCA_NAME(n)[HCA_LIVE_##n] = #n
#include "live_names.h"
#undef HCA_NAME
};

static int hca_counters_show(struct seq_file *s, void *unused)
{
	struct hca_dev *dev = s->private;
	int i;

	for (i = 0; i < HCA_NCOUNTS; i++)
		seq_printf(s, "%s %lld\n", hca_count_names[i], atomic64_read(&dev->count[i]));
	for (i = 0; i < HCA_NLIVES; i++)
		seq_printf(s, "live_%s %d\n", hca_live_names[i], atomic_read(&dev->live[i]));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(hca_counters);

/* The calls of each operation, and how many of them failed on demand, since "fail" named it. */
static int hca_calls_show(struct seq_file *s, void *unused)
{
	struct hca_faults *f = &((struct hca_dev *)s->private)->faults;
	int i;

	for (i = 0; i < HCA_NOPS; i++)
		seq_printf(s, "%s %llu %llu\n", hca_op_names[i], f->op[i].calls, f->op[i].failed);
	seq_printf(s, "any %llu %llu\n", f->any.calls, f->any.failed);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(hca_calls);

static int hca_qps_show(struct seq_file *s, void *unused)
{
	struct hca_dev *dev = s->private;
	unsigned long index;
	struct hca_qp *qp;

	mutex_lock(&hca_fabric);
	xa_for_each(&dev->qps, index, qp)
		seq_printf(s, "qp %u state %d sq %u %u rq %u %u\n", qp->ib.qp_num, qp->state,
			   qp->sq.q.head - qp->sq.q.tail, qp->sq.q.size,
			   qp->rq.q.head - qp->rq.q.tail, qp->rq.q.size);
	mutex_unlock(&hca_fabric);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(hca_qps);

static ssize_t hca_cmd_write(struct file *file, const char __user *ubuf, size_t len, loff_t *pos)
{
	struct hca_dev *dev = file->private_data;
	char *line, **argv;
	int argc, rc;

	if (len > HCA_MAX_LINE)
		return -E2BIG;
	line = memdup_user_nul(ubuf, len);
	if (IS_ERR(line))
		return PTR_ERR(line);
	argv = argv_split(GFP_KERNEL, line, &argc);
	kfree(line);
	if (!argv)
		return -ENOMEM;
	rc = hca_fault_cmd(dev, argc, argv);
	argv_free(argv);
	return rc ? rc : len;
}

static const struct file_operations hca_cmd_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = hca_cmd_write,
};

void hca_debugfs_add(struct hca_dev *dev)
{
	dev->dir = debugfs_create_dir(dev_name(&dev->ib.dev), hca_dir);
	debugfs_create_file("counters", 0400, dev->dir, dev, &hca_counters_fops);
	debugfs_create_file("calls", 0400, dev->dir, dev, &hca_calls_fops);
	debugfs_create_file("qps", 0400, dev->dir, dev, &hca_qps_fops);
	debugfs_create_file("cmd", 0200, dev->dir, dev, &hca_cmd_fops);
}

void hca_debugfs_init(void)
{
	hca_dir = debugfs_create_dir("kor_hca", NULL);
}

void hca_debugfs_exit(void)
{
	debugfs_remove(hca_dir);
}

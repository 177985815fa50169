// SPDX-License-Identifier: GPL-2.0
/* Faults on demand: calls that fail or take their time, requests that do, a device that goes. */
#include <linux/delay.h>
#include <linux/kstrtox.h>
#include <linux/string.h>

#include "hca.h"

const char *const hca_op_names[HCA_NOPS] = {
#define HCA_NAME(n)[HCA_OP_##n] = #n
#include "sleeping_op_names.h"
#include "atomic_op_names.h"
#undef HCA_NAME
};

static const char *const hca_kind_names[HCA_NKINDS] = {
	[HCA_KIND_SEND] = "send",
	[HCA_KIND_SEND_INV] = "send_inv",
	[HCA_KIND_WRITE] = "write",
	[HCA_KIND_READ] = "read",
	[HCA_KIND_REG] = "reg",
	[HCA_KIND_INV] = "inv",
	[HCA_KIND_RECV] = "recv",
};

void hca_fault_init(struct hca_dev *dev)
{
	spin_lock_init(&dev->faults.lock);
}

/* ------------------------------------------------------------------- hits */

static bool hca_rule_hits(struct hca_rule *r)
{
	if (!r->nth)
		return false;
	r->seen++;
	if (r->every)
		return r->seen % r->nth == 0;
	return r->seen >= r->nth && (!r->count || r->seen < r->nth + r->count);
}

struct hca_verdict {
	int		error;
	bool		vanish;
	unsigned int	slow_ms;
};

static void hca_judge(struct hca_op_fault *f, struct hca_verdict *v)
{
	f->calls++;
	if (hca_rule_hits(&f->fail)) {
		f->failed++;
		v->error = f->error;
	}
	if (hca_rule_hits(&f->vanish))
		v->vanish = true;
	v->slow_ms = max(v->slow_ms, f->slow_ms);
}

static void hca_vanish(struct hca_dev *dev)
{
	if (!ib_device_try_get(&dev->ib))
		return;
	ib_unregister_device_queued(&dev->ib);
	ib_device_put(&dev->ib);
}

/* What the core expects to work always is not among "any": a failure has to name it. */
static bool hca_may_fail(enum hca_op op)
{
	switch (op) {
	case HCA_OP_dealloc_pd:
	case HCA_OP_destroy_cq:
	case HCA_OP_destroy_qp:
	case HCA_OP_dereg_mr:
	case HCA_OP_destroy_listen:
		return false;
	default:
		return true;
	}
}

/* First thing in each operation. May sleep in those that may. */
int hca_fault(struct hca_dev *dev, enum hca_op op)
{
	struct hca_faults *faults = &dev->faults;
	struct hca_verdict v = {};
	unsigned long flags;

	spin_lock_irqsave(&faults->lock, flags);
	hca_judge(&faults->op[op], &v);
	if (hca_may_fail(op))
		hca_judge(&faults->any, &v);
	spin_unlock_irqrestore(&faults->lock, flags);
	if (v.vanish)
		hca_vanish(dev);
	if (op < HCA_FIRST_ATOMIC_OP) {
		might_sleep();
		if (v.slow_ms)
			msleep(v.slow_ms);
	}
	if (v.error)
		hca_count(dev, faults);
	return v.error;
}

/* Whether the request that is next is to end with a status of its own, unexecuted. */
bool hca_wc_fault(struct hca_dev *dev, enum hca_kind kind, enum ib_wc_status *status)
{
	struct hca_wc_fault *f = &dev->faults.wc[kind];
	unsigned long flags;
	bool hit;

	spin_lock_irqsave(&dev->faults.lock, flags);
	hit = hca_rule_hits(&f->rule);
	if (hit)
		*status = f->status;
	spin_unlock_irqrestore(&dev->faults.lock, flags);
	if (hit)
		hca_count(dev, faults);
	return hit;
}

/* --------------------------------------------------------------- commands */

/* NTH [COUNT | every]: by default once; COUNT 0: for ever. */
static int hca_parse_rule(int argc, char **argv, struct hca_rule *rule)
{
	*rule = (struct hca_rule) { .count = 1 };
	if (argc < 1 || argc > 2 || kstrtou64(argv[0], 0, &rule->nth))
		return -EINVAL;
	if (argc == 1)
		return 0;
	rule->every = !strcmp(argv[1], "every");
	return rule->every ? 0 : kstrtou64(argv[1], 0, &rule->count);
}

static struct hca_op_fault *hca_parse_op(struct hca_dev *dev, const char *name)
{
	int i = match_string(hca_op_names, HCA_NOPS, name);

	if (!strcmp(name, "any"))
		return &dev->faults.any;
	return i < 0 ? NULL : &dev->faults.op[i];
}

/* fail OP ERRNO NTH [COUNT | every] */
static int hca_cmd_fail(struct hca_dev *dev, int argc, char **argv)
{
	struct hca_op_fault *f = hca_parse_op(dev, argv[1]);
	struct hca_rule rule;
	int error;

	if (!f || argc < 4 || kstrtoint(argv[2], 0, &error) || error <= 0 ||
	    hca_parse_rule(argc - 3, argv + 3, &rule))
		return -EINVAL;
	spin_lock_irq(&dev->faults.lock);
	f->error = -error;
	f->fail = rule;
	f->calls = 0;
	f->failed = 0;
	spin_unlock_irq(&dev->faults.lock);
	return 0;
}

/* vanish now | vanish OP NTH */
static int hca_cmd_vanish(struct hca_dev *dev, int argc, char **argv)
{
	struct hca_op_fault *f;
	struct hca_rule rule;

	if (argc == 2 && !strcmp(argv[1], "now")) {
		hca_vanish(dev);
		return 0;
	}
	f = hca_parse_op(dev, argv[1]);
	if (!f || argc != 3 || hca_parse_rule(1, argv + 2, &rule))
		return -EINVAL;
	spin_lock_irq(&dev->faults.lock);
	f->vanish = rule;
	spin_unlock_irq(&dev->faults.lock);
	return 0;
}

/* slow OP MS: operations that may not sleep are refused */
static int hca_cmd_slow(struct hca_dev *dev, int argc, char **argv)
{
	struct hca_op_fault *f = hca_parse_op(dev, argv[1]);
	unsigned int ms;

	if (!f || f >= &dev->faults.op[HCA_FIRST_ATOMIC_OP] || argc != 3 ||
	    kstrtouint(argv[2], 0, &ms))
		return -EINVAL;
	WRITE_ONCE(f->slow_ms, ms);
	return 0;
}

/* late US: completions come a random time later, up to this */
static int hca_cmd_late(struct hca_dev *dev, int argc, char **argv)
{
	unsigned int us;

	if (argc != 2 || kstrtouint(argv[1], 0, &us))
		return -EINVAL;
	WRITE_ONCE(dev->faults.late_us, us);
	return 0;
}

/* complete KIND STATUS NTH [COUNT | every]: STATUS of enum ib_wc_status */
static int hca_cmd_complete(struct hca_dev *dev, int argc, char **argv)
{
	int kind = match_string(hca_kind_names, HCA_NKINDS, argv[1]);
	struct hca_wc_fault f;
	unsigned int status;

	if (kind < 0 || argc < 4 || kstrtouint(argv[2], 0, &status) || !status ||
	    hca_parse_rule(argc - 3, argv + 3, &f.rule))
		return -EINVAL;
	f.status = status;
	spin_lock_irq(&dev->faults.lock);
	dev->faults.wc[kind] = f;
	spin_unlock_irq(&dev->faults.lock);
	return 0;
}

static int hca_qp_event_cmd(struct hca_dev *dev, enum ib_event_type type, const char *number)
{
	struct hca_qp *qp;
	u32 num;

	if (kstrtou32(number, 0, &num))
		return -EINVAL;
	mutex_lock(&hca_fabric);
	qp = xa_load(&dev->qps, num);
	if (qp)
		hca_qp_event(qp, type);
	mutex_unlock(&hca_fabric);
	return qp ? 0 : -ENOENT;
}

/* event TYPE [QPN]: TYPE of enum ib_event_type */
static int hca_cmd_event(struct hca_dev *dev, int argc, char **argv)
{
	struct ib_event event = { .device = &dev->ib, .element.port_num = 1 };
	unsigned int type;

	if (argc > 3 || kstrtouint(argv[1], 0, &type))
		return -EINVAL;
	if (argc == 3)
		return hca_qp_event_cmd(dev, type, argv[2]);
	event.event = type;
	ib_dispatch_event(&event);
	return 0;
}

static void hca_clear_op(struct hca_op_fault *f)
{
	*f = (struct hca_op_fault) { .calls = f->calls, .failed = f->failed };
}

/* clear faults: all as it was at first */
static int hca_cmd_clear(struct hca_dev *dev, int argc, char **argv)
{
	int i;

	spin_lock_irq(&dev->faults.lock);
	for (i = 0; i < HCA_NOPS; i++)
		hca_clear_op(&dev->faults.op[i]);
	hca_clear_op(&dev->faults.any);
	memset(dev->faults.wc, 0, sizeof(dev->faults.wc));
	dev->faults.late_us = 0;
	spin_unlock_irq(&dev->faults.lock);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(struct hca_dev *dev, int argc, char **argv);
} hca_cmds[] = {
	{ "fail", hca_cmd_fail },
	{ "vanish", hca_cmd_vanish },
	{ "slow", hca_cmd_slow },
	{ "late", hca_cmd_late },
	{ "complete", hca_cmd_complete },
	{ "event", hca_cmd_event },
	{ "clear", hca_cmd_clear },
};

int hca_fault_cmd(struct hca_dev *dev, int argc, char **argv)
{
	int i;

	for (i = 0; argc > 1 && i < ARRAY_SIZE(hca_cmds); i++)
		if (!strcmp(argv[0], hca_cmds[i].name))
			return hca_cmds[i].run(dev, argc, argv);
	return -EINVAL;
}

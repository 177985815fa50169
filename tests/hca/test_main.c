// SPDX-License-Identifier: GPL-2.0
/* Runs when it is loaded, which fails when a check did; the kernel's log says which. */
#define pr_fmt(fmt) "kor_hca_test: " fmt

#include <linux/module.h>

#include "test.h"

MODULE_DESCRIPTION("Test of kor_hca");
MODULE_LICENSE("GPL");

static bool removal;
module_param(removal, bool, 0);
MODULE_PARM_DESC(removal, "wait with an open connection until the device goes");

static unsigned int checks, failed;

void t_check(bool ok, const char *what, const char *func, int line)
{
	checks++;
	if (ok)
		return;
	failed++;
	pr_err("failed: %s:%d: %s\n", func, line, what);
}

/* Each with a connection of its own. */
static void t_run(void (*const *tests)(struct t_pair *p))
{
	struct t_pair *p;

	for (; *tests; tests++) {
		p = t_pair_new(false);
		T(p);
		if (!p)
			return;
		(*tests)(p);
		t_pair_free(p);
	}
}

static int __init t_init(void)
{
	if (removal) {
		t_removal();
	} else {
		t_run(t_keys);
		t_run(t_queues);
		t_run(t_ends_tests);
		t_refused();
		t_rejected();
	}
	pr_info("%u checks, %u failed\n", checks, failed);
	return failed ? -EIO : 0;
}

static void __exit t_exit(void)
{
}

module_init(t_init);
module_exit(t_exit);

// SPDX-License-Identifier: GPL-2.0
/* The LND's manners and the counters. */

#define pr_fmt(fmt) "lnet_standin: " fmt

#include <linux/irqflags.h>
#include <linux/preempt.h>
#include <linux/seq_file.h>

#include "standin.h"

static atomic64_t si_checks[SI_CHECK_NR];
atomic64_t si_stats[SI_STAT_NR];

#define SI_NAME(n) #n
static const char *const si_check_names[SI_CHECK_NR] = {
#include "check_names.h"
};

static const char *const si_stat_names[SI_STAT_NR] = {
#include "stat_names.h"
};
#undef SI_NAME

/*
 * Counts and names a violation. Every one is printed up to a bound: the first
 * ones tell the story, and a flood would hide them.
 */
void si_violated(enum si_check check, const char *fmt, ...)
{
	u64 n = atomic64_inc_return(&si_checks[check]);
	struct va_format vaf;
	va_list args;

	if (n > 20)
		return;
	va_start(args, fmt);
	vaf.fmt = fmt;
	vaf.va = &args;
	pr_err("VIOLATION %s: %pV; caller %s/%d\n", si_check_names[check], &vaf,
	       current->comm, current->pid);
	va_end(args);
	if (n == 20)
		pr_err("VIOLATION %s: further ones are only counted\n",
		       si_check_names[check]);
}

/*
 * preempt_count() knows spinlocks only where CONFIG_PREEMPT_COUNT is set; the
 * debug kernel has it, and there might_sleep() names the holder as well.
 */
void si_check_context(const char *what)
{
	if (preempt_count() || irqs_disabled())
		si_violation(context, "%s with preempt count %x%s", what,
			     preempt_count(),
			     irqs_disabled() ? ", interrupts off" : "");
	might_sleep();
}

u64 si_check_total(void)
{
	u64 total = 0;
	int i;

	for (i = 0; i < SI_CHECK_NR; i++)
		total += atomic64_read(&si_checks[i]);
	return total;
}

void si_stats_reset(void)
{
	int i;

	for (i = 0; i < SI_STAT_NR; i++)
		atomic64_set(&si_stats[i], 0);
}

int si_checks_show(struct seq_file *s, void *unused)
{
	int i;

	for (i = 0; i < SI_CHECK_NR; i++)
		seq_printf(s, "%s=%lld\n", si_check_names[i],
			   atomic64_read(&si_checks[i]));
	seq_printf(s, "total=%llu\n", si_check_total());
	return 0;
}

int si_stats_show(struct seq_file *s, void *unused)
{
	int i;

	for (i = 0; i < SI_STAT_NR; i++)
		seq_printf(s, "%s=%lld\n", si_stat_names[i],
			   atomic64_read(&si_stats[i]));
	seq_printf(s, "msgs_live=%d\n", si_msg_live());
	return 0;
}

// SPDX-License-Identifier: GPL-2.0
/*
 * CPU partitions. By default one per online CPU; with more partitions than CPUs
 * several share one, so that code for many CPTs runs on a machine with one CPU.
 */

#include <linux/cpu.h>
#include <linux/sched.h>
#include <linux/topology.h>

#include "standin.h"

#define SI_MAX_CPTS	64

struct cfs_cpt_table {
	int		ncpts;
	cpumask_var_t	*masks;
};

struct lnet the_lnet;
EXPORT_SYMBOL(the_lnet);

static unsigned int ncpts;
module_param(ncpts, uint, 0444);
MODULE_PARM_DESC(ncpts, "number of CPU partitions (0: one per online CPU)");

void si_cpt_cleanup(void)
{
	struct cfs_cpt_table *tab = the_lnet.ln_cpt_table;
	int i;

	if (!tab)
		return;
	for (i = 0; tab->masks && i < tab->ncpts; i++)
		free_cpumask_var(tab->masks[i]);
	kfree(tab->masks);
	kfree(tab);
	the_lnet.ln_cpt_table = NULL;
}

int si_cpt_setup(void)
{
	struct cfs_cpt_table *tab;
	int cpu, i = 0;

	tab = kzalloc_obj(*tab);
	if (!tab)
		return -ENOMEM;
	the_lnet.ln_cpt_table = tab;
	tab->ncpts = clamp_t(int, ncpts ?: num_online_cpus(), 1, SI_MAX_CPTS);
	tab->masks = kcalloc(tab->ncpts, sizeof(*tab->masks), GFP_KERNEL);
	if (!tab->masks)
		goto err;
	for (i = 0; i < tab->ncpts; i++)
		if (!zalloc_cpumask_var(&tab->masks[i], GFP_KERNEL))
			goto err;
	i = 0;
	for_each_online_cpu(cpu)
		cpumask_set_cpu(cpu, tab->masks[i++ % tab->ncpts]);
	/* partitions that got none take turns over the CPUs there are */
	cpu = cpumask_first(cpu_online_mask);
	for (; i < tab->ncpts; i++) {
		cpumask_set_cpu(cpu, tab->masks[i]);
		cpu = cpumask_next_wrap(cpu, cpu_online_mask);
	}
	return 0;
err:
	si_cpt_cleanup();
	return -ENOMEM;
}

int cfs_cpt_number(struct cfs_cpt_table *cptab)
{
	return cptab->ncpts;
}
EXPORT_SYMBOL(cfs_cpt_number);

static struct cpumask *si_cpt_mask(struct cfs_cpt_table *cptab, int cpt)
{
	if (cpt < 0 || cpt >= cptab->ncpts)
		return NULL;
	return cptab->masks[cpt];
}

int cfs_cpt_weight(struct cfs_cpt_table *cptab, int cpt)
{
	struct cpumask *mask = si_cpt_mask(cptab, cpt);

	return mask ? cpumask_weight(mask) : num_online_cpus();
}
EXPORT_SYMBOL(cfs_cpt_weight);

cpumask_var_t *cfs_cpt_cpumask(struct cfs_cpt_table *cptab, int cpt)
{
	return si_cpt_mask(cptab, cpt) ? &cptab->masks[cpt] : NULL;
}
EXPORT_SYMBOL(cfs_cpt_cpumask);

int cfs_cpt_bind(struct cfs_cpt_table *cptab, int cpt)
{
	struct cpumask *mask = si_cpt_mask(cptab, cpt);

	return mask ? set_cpus_allowed_ptr(current, mask) : 0;
}
EXPORT_SYMBOL(cfs_cpt_bind);

int cfs_cpt_spread_node(struct cfs_cpt_table *cptab, int cpt)
{
	struct cpumask *mask = si_cpt_mask(cptab, cpt);

	return mask ? cpu_to_node(cpumask_first(mask)) : NUMA_NO_NODE;
}
EXPORT_SYMBOL(cfs_cpt_spread_node);

int cfs_cpt_of_node(struct cfs_cpt_table *cptab, int node)
{
	int i;

	for (i = 0; i < cptab->ncpts; i++)
		if (cfs_cpt_spread_node(cptab, i) == node)
			return i;
	return CFS_CPT_ANY;
}
EXPORT_SYMBOL(cfs_cpt_of_node);

int cfs_cpt_current(struct cfs_cpt_table *cptab, int remap)
{
	int cpu = raw_smp_processor_id();
	int i;

	for (i = 0; i < cptab->ncpts; i++)
		if (cpumask_test_cpu(cpu, cptab->masks[i]))
			return i;
	return remap ? 0 : CFS_CPT_ANY;
}
EXPORT_SYMBOL(cfs_cpt_current);

/* An array with one object per CPT; callers see the array only. */
struct si_percpt {
	unsigned int	count;
	void		*vars[];
};

void cfs_percpt_free(void *vars)
{
	struct si_percpt *arr = container_of(vars, struct si_percpt, vars);
	unsigned int i;

	for (i = 0; i < arr->count; i++)
		kfree(arr->vars[i]);
	kfree(arr);
}
EXPORT_SYMBOL(cfs_percpt_free);

void *cfs_percpt_alloc(struct cfs_cpt_table *cptab, unsigned int size)
{
	struct si_percpt *arr;
	unsigned int i;

	arr = kzalloc_flex(*arr, vars, cptab->ncpts, GFP_NOFS);
	if (!arr)
		return NULL;
	arr->count = cptab->ncpts;
	for (i = 0; i < arr->count; i++) {
		arr->vars[i] = kzalloc_node(size, GFP_NOFS,
					    cfs_cpt_spread_node(cptab, i));
		if (!arr->vars[i]) {
			cfs_percpt_free(arr->vars);
			return NULL;
		}
	}
	return arr->vars;
}
EXPORT_SYMBOL(cfs_percpt_alloc);

int cfs_percpt_number(void *vars)
{
	return container_of(vars, struct si_percpt, vars)->count;
}
EXPORT_SYMBOL(cfs_percpt_number);

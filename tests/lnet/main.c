// SPDX-License-Identifier: GPL-2.0
/*
 * lnet_standin: gives an LNet network driver the interface that LNet gives it,
 * and above that enough of LNet's message layer to make traffic between two
 * nodes and to verify it. A test module; it never grows into a product.
 */

#define pr_fmt(fmt) "lnet_standin: " fmt

#include "standin.h"

unsigned long cfs_fail_loc;
EXPORT_SYMBOL(cfs_fail_loc);
unsigned int cfs_fail_val;
EXPORT_SYMBOL(cfs_fail_val);

int __cfs_fail_check_set(__u32 id, __u32 value, int set)
{
	unsigned long loc = READ_ONCE(cfs_fail_loc);

	if ((loc & CFS_FAIL_MASK_LOC) != (id & CFS_FAIL_MASK_LOC))
		return 0;
	if (loc & CFS_FAIL_ONCE &&
	    cmpxchg(&cfs_fail_loc, loc, 0) != loc)
		return 0;
	return 1;
}
EXPORT_SYMBOL(__cfs_fail_check_set);

/* ------------------------------------------------------------- GPU: none */

unsigned int lnet_get_dev_prio(struct device *dev, unsigned int dev_idx)
{
	return UINT_MAX;
}
EXPORT_SYMBOL(lnet_get_dev_prio);

int lnet_rdma_map_sg_attrs(struct device *dev, struct scatterlist *sg,
			   int nents, enum dma_data_direction direction)
{
	return 0;
}
EXPORT_SYMBOL(lnet_rdma_map_sg_attrs);

int lnet_rdma_unmap_sg(struct device *dev, struct scatterlist *sg, int nents,
		       enum dma_data_direction direction)
{
	return 0;
}
EXPORT_SYMBOL(lnet_rdma_unmap_sg);

bool lnet_is_rdma_only_page(struct page *page)
{
	return false;
}
EXPORT_SYMBOL(lnet_is_rdma_only_page);

static int __init si_init(void)
{
	int rc;

	si_md_setup();
	rc = si_cpt_setup();
	if (rc)
		return rc;
	rc = si_parse_setup();
	if (rc)
		goto err_cpt;
	rc = si_cmd_setup();
	if (rc)
		goto err_parse;
	pr_info("the LNet stand-in, %d CPTs\n", cfs_cpt_number(lnet_cpt_table()));
	return 0;

err_parse:
	si_parse_cleanup();
err_cpt:
	si_cpt_cleanup();
	return rc;
}

/* No NI is left: each holds a reference on the module. */
static void __exit si_exit(void)
{
	si_cmd_cleanup();
	si_parse_cleanup();
	if (si_md_any())
		si_violation(leak, "memory descriptors");
	si_msg_cleanup();
	si_md_cleanup();
	si_buf_drain();
	si_cpt_cleanup();
	if (si_check_total())
		pr_err("unloaded after %llu violations\n", si_check_total());
	else
		pr_info("unloaded, no violations\n");
}

module_init(si_init);
module_exit(si_exit);

MODULE_DESCRIPTION("LNet stand-in for tests of an LNet network driver");
MODULE_LICENSE("GPL");

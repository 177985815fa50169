// SPDX-License-Identifier: GPL-2.0
/*
 * The builds of LNet's modules that this module was built for, as Kbuild found
 * them: for modinfo, and for the check at load.
 */
#include <linux/array_size.h>
#include <linux/module.h>

#include <ko2iblnd/lnet.h>

/* MODULE_INFO() of each, and the table of them, by scripts/build-id. */
#include <built_for_generated.h>

const struct kor_built_for *kor_lnet_built_for(u32 i)
{
	return i < ARRAY_SIZE(kor_built_for) ? &kor_built_for[i] : NULL;
}

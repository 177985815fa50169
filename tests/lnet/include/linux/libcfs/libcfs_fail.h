/* SPDX-License-Identifier: GPL-2.0 */
/* The stand-in has all that a driver uses of libcfs in this one header. */
#ifndef _KOR_STANDIN_LIBCFS_FAIL_H
#define _KOR_STANDIN_LIBCFS_FAIL_H

#include <linux/lnet/lib-lnet.h>

#endif

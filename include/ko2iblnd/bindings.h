/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What bindgen reads: every declaration that crosses between Rust and C.
 */
#include <linux/errno.h>
#include <linux/kthread.h>
#include <linux/socket.h>

#include "kernel.h"
#include "lnet.h"
#include "types.h"
#include "verbs.h"

// SPDX-License-Identifier: GPL-2.0
/*
 * The module parameters: names, types, modes and defaults of the C driver.
 *
 * In C because the kernel crate's module! cannot show parameters in sysfs.
 * Refused here are only values with no defined meaning; what is merely out of
 * range is clamped where it is used, with a line in the log (rust/lnd).
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/limits.h>
#include <linux/module.h>
#include <linux/moduleparam.h>

#include <ko2iblnd/lnet.h>

MODULE_VERSION(KOR_VERSION);

struct kor_params kor_params = {
	.service		= 987,
	.timeout		= 50,
	.conns_per_peer		= 1,
	.ntx			= 512,
	.credits		= 256,
	.peer_credits		= 8,
	.peer_timeout		= 180,
	.ipif_name		= "ib0",
	.retry_count		= 5,
	.rnr_retry_count	= 6,
	.keepalive		= 100,
	.map_on_demand		= 1,
	.fmr_pool_size		= 512,
	.fmr_flush_trigger	= 384,
	.fmr_cache		= 1,
	.use_privileged_port	= 1,
	.wrq_sge		= 2,
	.tos			= -1,
};

/* An int that has a meaning only from @min to @max. */
struct kor_ranged {
	int *value;
	int min;
	int max;
};

static int kor_ranged_set(const char *val, const struct kernel_param *kp)
{
	const struct kor_ranged *r = kp->arg;
	int v, rc;

	rc = kstrtoint(val, 0, &v);
	if (rc)
		return rc;
	if (v < r->min || v > r->max) {
		if (r->max == INT_MAX)
			pr_err("parameter %s: %d is less than %d\n", kp->name,
			       v, r->min);
		else
			pr_err("parameter %s: %d is outside %d..%d\n", kp->name,
			       v, r->min, r->max);
		return -ERANGE;
	}
	WRITE_ONCE(*r->value, v);
	return 0;
}

static int kor_ranged_get(char *buffer, const struct kernel_param *kp)
{
	const struct kor_ranged *r = kp->arg;

	return sysfs_emit(buffer, "%d\n", READ_ONCE(*r->value));
}

static const struct kernel_param_ops kor_ranged_ops = {
	.set = kor_ranged_set,
	.get = kor_ranged_get,
};

#define KOR_RANGED(name, lo, hi, mode, desc)				\
	static struct kor_ranged kor_ranged_##name = {			\
		.value = &kor_params.name, .min = (lo), .max = (hi),	\
	};								\
	module_param_cb(name, &kor_ranged_ops, &kor_ranged_##name, mode); \
	__MODULE_PARM_TYPE(name, "int");				\
	MODULE_PARM_DESC(name, desc)

#define KOR_COUNT(name, mode, desc) KOR_RANGED(name, 0, INT_MAX, mode, desc)

#define KOR_PARAM(name, type, mode, desc)				\
	module_param_named(name, kor_params.name, type, mode);		\
	MODULE_PARM_DESC(name, desc)

KOR_RANGED(service, 1, 65535, 0444, "service number (within RDMA_PS_TCP)");
KOR_PARAM(cksum, int, 0644, "set non-zero to enable message checksums");
KOR_COUNT(timeout, 0644, "timeout in seconds, 0 to use LNet's lnet_lnd_timeout");
KOR_COUNT(nscheds, 0444, "scheduler threads per CPT, 0 for automatic");
KOR_PARAM(conns_per_peer, uint, 0444, "connections started to a new peer");
KOR_COUNT(ntx, 0444, "message descriptors over all CPTs");
KOR_COUNT(credits, 0444, "concurrent sends of one NI");
KOR_COUNT(peer_credits, 0444, "concurrent sends to one peer");
KOR_COUNT(peer_credits_hiw, 0444, "return credits eagerly at this level");
KOR_COUNT(peer_buffer_credits, 0444, "router buffer credits of one peer");
KOR_PARAM(peer_timeout, int, 0444, "seconds without aliveness news before a peer counts as dead, <= 0 to disable");
KOR_PARAM(ipif_name, charp, 0444, "interface used when none is given");
KOR_COUNT(retry_count, 0644, "transport retries");
KOR_COUNT(rnr_retry_count, 0644, "receiver-not-ready retries, 7 for no limit");
KOR_PARAM(keepalive, int, 0644, "idle seconds before a keepalive message, <= 0 to disable");
KOR_PARAM(ib_mtu, int, 0444, "path MTU to use: 256, 512, 1024, 2048 or 4096, 0 for the path's own");
KOR_COUNT(concurrent_sends, 0444, "sends in flight on one connection, 0 for peer_credits");
KOR_PARAM(use_fastreg_gaps, int, 0444, "set to 1 to register memory with gaps where the device can");
KOR_PARAM(map_on_demand, int, 0444, "obsolete, always on");
KOR_COUNT(fmr_pool_size, 0444, "memory registrations over all CPTs, at least ntx / 4");
KOR_COUNT(fmr_flush_trigger, 0444, "obsolete, no effect");
KOR_PARAM(fmr_cache, int, 0444, "obsolete, no effect");
KOR_PARAM(dev_failover, int, 0444, "failover of bonded devices: 0 off, 1 on, above 1 forced");
KOR_PARAM(require_privileged_port, int, 0644, "accept connections from privileged ports only");
KOR_PARAM(use_privileged_port, int, 0644, "connect from a privileged port");
KOR_PARAM(wrq_sge, uint, 0444, "scatter/gather entries of one work request");
KOR_RANGED(tos, -1, 255, 0444, "IP type of service, -1 for the system's default");

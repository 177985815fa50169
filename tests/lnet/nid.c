// SPDX-License-Identifier: GPL-2.0
/* NIDs and network names: their forms, as text, and their hash. */

#include <linux/inet.h>
#include <linux/jhash.h>
#include <linux/unaligned.h>

#include "standin.h"

/*
 * The memory form begins with size, type, number and address, all big-endian:
 * read as one number, these eight bytes are the 64-bit form of an IPv4 NID,
 * whose size is 0.
 */
u64 si_nid_to_u64(const struct lnet_nid *nid)
{
	return si_nid_is_any(nid) ? LNET_NID_ANY : get_unaligned_be64(nid);
}

struct lnet_nid si_nid_from_u64(u64 raw)
{
	struct lnet_nid nid = {};

	put_unaligned_be64(raw, &nid);
	if (raw == LNET_NID_ANY) {
		memset(&nid, 0xff, sizeof(nid));
		nid.nid_size = 0;
	}
	return nid;
}

u32 si_nid_net(const struct lnet_nid *nid)
{
	return si_net(nid->nid_type, be16_to_cpu(nid->nid_num));
}

/* What is behind the address does not count. */
bool si_nid_same(const struct lnet_nid *a, const struct lnet_nid *b)
{
	size_t len = offsetof(struct lnet_nid, nid_addr) + sizeof(__be32) + a->nid_size;

	return !memcmp(a, b, min(len, sizeof(*a)));
}

char *si_nidstr(const struct lnet_nid *nid)
{
	char *text = libcfs_next_nidstring();

	return libcfs_nidstr_r(nid, text, LNET_NIDSTR_SIZE);
}

#define SI_NSTRINGS	64

static char si_strings[SI_NSTRINGS][LNET_NIDSTR_SIZE];
static atomic_t si_next_string = ATOMIC_INIT(0);

char *libcfs_next_nidstring(void)
{
	return si_strings[(unsigned int)atomic_inc_return(&si_next_string) % SI_NSTRINGS];
}
EXPORT_SYMBOL(libcfs_next_nidstring);

static const struct {
	u8		type;
	const char	*name;
} si_net_types[] = {
	{ SOCKLND, "tcp" },
	{ O2IBLND, "o2ib" },
	{ LOLND, "lo" },
	{ GNILND, "gni" },
	{ KFILND, "kfi" },
};

static const char *si_net_name(u8 type)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(si_net_types); i++)
		if (si_net_types[i].type == type)
			return si_net_types[i].name;
	return "unknown";
}

char *libcfs_nidstr_r(const struct lnet_nid *nid, char *buf, size_t buf_size)
{
	unsigned int num = be16_to_cpu(nid->nid_num);
	int n;

	if (si_nid_is_any(nid)) {
		scnprintf(buf, buf_size, "<?>");
		return buf;
	}
	if (nid->nid_type == LOLND)
		n = scnprintf(buf, buf_size, "%u", be32_to_cpu(nid->nid_addr[0]));
	else if (!nid->nid_size)
		n = scnprintf(buf, buf_size, "%pI4", nid->nid_addr);
	else
		n = scnprintf(buf, buf_size, "%pI6c", nid->nid_addr);
	n += scnprintf(buf + n, buf_size - n, "@%s", si_net_name(nid->nid_type));
	if (num)
		scnprintf(buf + n, buf_size - n, "%u", num);
	return buf;
}
EXPORT_SYMBOL(libcfs_nidstr_r);

/* "o2ib" or "o2ib3"; only networks of the type under test. */
int si_parse_net(const char *text, u32 *net)
{
	u16 num = 0;

	if (strncmp(text, "o2ib", 4))
		return -EINVAL;
	if (text[4] && kstrtou16(text + 4, 10, &num))
		return -EINVAL;
	*net = si_net(O2IBLND, num);
	return 0;
}

int si_parse_nid(const char *text, struct lnet_nid *nid)
{
	const char *at = strchr(text, '@');
	__be32 addr;
	u32 net;

	if (!at || si_parse_net(at + 1, &net))
		return -EINVAL;
	if (!in4_pton(text, at - text, (u8 *)&addr, -1, NULL))
		return -EINVAL;
	*nid = si_nid_from_u64((u64)net << 32 | be32_to_cpu(addr));
	return 0;
}

u32 si_nid_hash(const struct lnet_nid *nid)
{
	return jhash(nid, sizeof(*nid), 0);
}

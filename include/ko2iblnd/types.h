/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Neutral types that more than one side of the FFI needs.
 */
#ifndef _KO2IBLND_TYPES_H
#define _KO2IBLND_TYPES_H

#include <linux/types.h>

struct page;

/*
 * @length bytes from byte @offset of @page; may run on into the pages behind it
 * when @page is part of a larger allocation.
 */
struct kor_page_slice {
	struct page	*page;
	u32		offset;
	u32		length;
};

/* A socket address; @family is AF_INET or AF_INET6, @port in host order. */
struct kor_sockaddr {
	u16	family;
	u16	port;
	u32	scope_id;	/* IPv6 only */
	u8	addr[16];	/* network order; the first four bytes for IPv4 */
};

#endif /* _KO2IBLND_TYPES_H */

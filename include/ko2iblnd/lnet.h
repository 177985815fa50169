/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The contract between the Rust driver and LNet's C interface, both directions.
 *
 * Down: LNet calls its struct lnet_lnd, the shim (rust/ffi/lnet_shim.c) copies
 * what the driver needs out of LNet's structures into the plain ones below and
 * calls struct kor_lnd_ops, which Rust fills. Up: Rust calls kor_lnet_*().
 *
 * LNet's own structures stay incomplete here on purpose: Rust sees opaque types
 * and pointers to them. NIDs are LNet's 64-bit form; header bytes are the
 * 72-byte wire form. Errors are negative errno values.
 */
#ifndef _KO2IBLND_LNET_H
#define _KO2IBLND_LNET_H

#include <linux/bvec.h>
#include <linux/types.h>

struct device;
struct lnet_inetdev;
struct lnet_msg;
struct lnet_ni;
struct net;
struct page;

#define KOR_HDR_SIZE	72
#define KOR_IFNAMSIZ	16

/* A NID with no 64-bit form (IPv6) and the wildcard both read as this. */
#define KOR_NID_ANY	(~0ULL)

/* Part of a page vector: @length bytes from byte @offset of its first entry. */
struct kor_kiov {
	const struct bio_vec	*bv;	/* may be NULL when length is 0 */
	u32			nr;	/* entries in bv, maybe more than needed */
	u32			offset;
	u32			length;
};

/* Layout of struct lnet_ioctl_config_lnd_cmn_tunables; -1 means unset. */
struct kor_cmn_tunables {
	u32	version;
	s32	peer_timeout;		/* seconds */
	s32	peer_tx_credits;
	s32	peer_rtr_credits;
	s32	max_tx_credits;
};

/* Layout of struct lnet_ioctl_config_o2iblnd_tunables. */
struct kor_o2ib_tunables {
	u32	version;
	u32	peercredits_hiw;
	u32	map_on_demand;
	u32	concurrent_sends;
	u32	fmr_pool_size;
	u32	fmr_flush_trigger;
	u32	fmr_cache;
	u16	conns_per_peer;
	u16	ntx;
	u32	timeout;		/* seconds */
	s16	tos;
	u16	pad;
};

struct kor_tunables {
	struct kor_cmn_tunables		cmn;
	struct kor_o2ib_tunables	o2ib;
	bool	o2ib_set;	/* false: LNet was given no o2ib tunables */
};

/* What LNet asks to be sent. */
struct kor_send {
	struct lnet_msg	*msg;
	struct kor_kiov	source;		/* the payload; empty for ACK, GET */
	struct kor_kiov	sink;		/* the whole MD: where a GET's reply goes */
	u64	target;			/* next hop: peer or router */
	u32	type;			/* LNet message type */
	bool	target_is_router;
	bool	routing;		/* we forward this for somebody else */
	bool	gpu;			/* the MD is GPU memory */
	u8	hdr[KOR_HDR_SIZE];	/* wire form, little-endian */
};

/* What LNet wants done with a message it was given by kor_lnet_parse(). */
struct kor_recv {
	struct lnet_msg	*msg;		/* NULL: discard */
	struct kor_kiov	sink;		/* bytes wanted, and where to */
	struct kor_kiov	source;		/* the reply to a GET parsed with rdma */
	u32	type;			/* LNet message type; 0 without msg */
	u32	rlen;			/* payload bytes the message carries */
	bool	gpu;			/* the MD is GPU memory */
};

/* An ioctl on one NI, in and out. */
struct kor_ctl {
	u32	nr;		/* in: number of the ioctl, e.g. 76 */
	u32	count;		/* in: index; out: reference count */
	u64	nid;		/* in: KOR_NID_ANY for all; out */
	u32	value;		/* out: ioc_u32[0] */
};

/*
 * The table that Rust fills. @ctx is what was given to kor_lnet_register(),
 * @data what startup() stored. Contexts are those of LNet's own operations:
 * dev_prio, timeout and nl_get run under LNet's net spinlocks and must not
 * sleep, nl_set may; everything else is process context without LNet's
 * spinlocks.
 */
struct kor_lnd_ops {
	/* 0 and *@data, or an error and nothing left behind. */
	int (*startup)(void *ctx, struct lnet_ni *ni, void **data);
	/* Returns when nothing refers to @ni any more; consumes @data. */
	void (*shutdown)(void *ctx, struct lnet_ni *ni, void *data);
	int (*ctl)(void *ctx, void *data, struct kor_ctl *ctl);
	/* An error means that @s->msg is LNet's again, untouched. */
	int (*send)(void *ctx, void *data, const struct kor_send *s);
	/* Consumes @rx, the handle that was given to kor_lnet_parse(). */
	void (*recv)(void *ctx, void *rx, const struct kor_recv *r);
	u32 (*dev_prio)(void *ctx, void *data, u32 dev_idx);
	int (*timeout)(void *ctx);
	int (*tun_defaults)(void *ctx, struct kor_tunables *t);
	/* Changes @t to the values to be shown. */
	void (*nl_get)(void *ctx, struct kor_o2ib_tunables *t);
	int (*nl_set)(void *ctx, u32 attr, s64 value,
		      struct kor_o2ib_tunables *t);
};

/* ------------------------------------------------------------- lifecycle */

/* Once per module; @ops and @ctx must outlive kor_lnet_unregister(). */
int kor_lnet_register(const struct kor_lnd_ops *ops, void *ctx);
void kor_lnet_unregister(void);
/* Seconds, at least 1: LNet's own idea of an LND timeout. */
u32 kor_lnet_lnd_timeout(void);
/* Keep the module from being unloaded; false when it is being unloaded. */
bool kor_module_get(void);
void kor_module_put(void);

/* -------------------------------------------------------------- messages */

int kor_lnet_parse(struct lnet_ni *ni, const u8 *hdr, u64 from, void *rx,
		   bool rdma);
/* @health is an enum lnet_msg_hstatus. */
void kor_lnet_finalize(struct lnet_msg *msg, int status, u32 health);
struct lnet_msg *kor_lnet_create_reply(struct lnet_ni *ni,
				       struct lnet_msg *get);
void kor_lnet_set_reply_len(struct lnet_ni *ni, struct lnet_msg *reply,
			    u32 len);
/* True: pretend that sending @msg failed, with *@health. */
bool kor_lnet_simulate_error(struct lnet_msg *msg, u32 *health);
/* True: make a memory registration one entry short (fail_loc 0xF201). */
bool kor_lnet_fail_map_sg(void);

/* --------------------------------------------------------- peers and NIs */

/* @when: monotonic second of the last sign of life. Process context. */
void kor_lnet_notify_down(struct lnet_ni *ni, u64 nid, s64 when);
u32 kor_lnet_nid2cpt(u64 nid, struct lnet_ni *ni);

u64 kor_lnet_ni_nid(const struct lnet_ni *ni);
u16 kor_lnet_ni_netnum(const struct lnet_ni *ni);
/* 0: no address asked for, 4 or 16: bytes of the address asked for. */
u32 kor_lnet_ni_addr_len(const struct lnet_ni *ni);
/* @addr: IPv4 address in host order. */
void kor_lnet_ni_set_addr(struct lnet_ni *ni, u32 addr);
const char *kor_lnet_ni_interface(const struct lnet_ni *ni);
int kor_lnet_ni_set_interface(struct lnet_ni *ni, const char *name);
struct net *kor_lnet_ni_net_ns(const struct lnet_ni *ni);
bool kor_lnet_ni_active(const struct lnet_ni *ni);
/* May take LNet's net lock. Returns whether the flag changed. */
bool kor_lnet_ni_set_fatal(struct lnet_ni *ni, bool fatal);
void kor_lnet_mark_ping_buffer(void);
/* Stores the device's CPT (-1: unknown) and lets LNet choose the NI's CPTs. */
int kor_lnet_ni_set_dev_cpt(struct lnet_ni *ni, int cpt);
/* The @i-th CPT of the NI, or -1 past the end. */
int kor_lnet_ni_cpt(const struct lnet_ni *ni, u32 i);
void kor_lnet_ni_tunables(const struct lnet_ni *ni, struct kor_tunables *t);
void kor_lnet_ni_set_tunables(struct lnet_ni *ni,
			      const struct kor_tunables *t);
/* Values that LNet may change while the NI is up. */
u16 kor_lnet_ni_conns_per_peer(const struct lnet_ni *ni);
s16 kor_lnet_ni_tos(const struct lnet_ni *ni);

/* ------------------------------------------------------------ interfaces */

struct kor_inetdev {
	u32	addr_len;	/* 4 or 16 */
	u32	addr;		/* IPv4, host order; 0 for IPv6 */
	u32	ifindex;
	int	cpt;		/* of the device's node, -1 unknown */
	bool	bond_master;
	char	name[KOR_IFNAMSIZ];	/* label, e.g. ib0:1; terminated */
};

/* Number of entries or an error; sleeps. The array is freed by _free(). */
int kor_lnet_inet_enumerate(struct lnet_inetdev **list, struct net *ns);
int kor_lnet_inet_select(struct lnet_ni *ni, struct lnet_inetdev *list, u32 n);
void kor_lnet_inet_entry(const struct lnet_inetdev *list, u32 i,
			 struct kor_inetdev *out);
void kor_lnet_inet_free(struct lnet_inetdev *list);
/*
 * 1: usable, 0: not (being unregistered, operational state not up, no link),
 * -ENODEV: no such interface. Takes RTNL.
 */
int kor_lnet_link_status(struct net *ns, u32 ifindex);

/* ------------------------------------------------------------------ CPTs */

u32 kor_lnet_cpt_number(void);
/* CPUs in it; 0 also for a CPT that does not exist. */
u32 kor_lnet_cpt_weight(u32 cpt);
/* NUMA node to allocate on, -1 for any. */
int kor_lnet_cpt_node(u32 cpt);
int kor_lnet_cpt_of_node(int node);
/* Binds the calling thread. */
int kor_lnet_cpt_bind(u32 cpt);

/* ----------------------------------------------------------------- pages */

/* @off + @len must not exceed PAGE_SIZE. */
void kor_page_read(struct page *page, u32 off, void *dst, u32 len);
void kor_page_write(struct page *page, u32 off, const void *src, u32 len);

/* ------------------------------------------------------ what we fit to */

/* A module of LNet, and the build of it that we were built for. */
struct kor_built_for {
	const char	*module;
	const char	*build_id;	/* GNU build-id, lower-case hex digits */
};

/* The @i-th of them, from 0, for as long as we are loaded; NULL at the end. */
const struct kor_built_for *kor_lnet_built_for(u32 i);

/* ----------------------------------------------------- module parameters */

/*
 * The 27 parameters under their own names. Those with mode 0644 change at any
 * time, so a reader must load each once.
 */
struct kor_params {
	int		service;
	int		cksum;
	int		timeout;
	int		nscheds;
	unsigned int	conns_per_peer;
	int		ntx;
	int		credits;
	int		peer_credits;
	int		peer_credits_hiw;
	int		peer_buffer_credits;
	int		peer_timeout;
	char		*ipif_name;
	int		retry_count;
	int		rnr_retry_count;
	int		keepalive;
	int		ib_mtu;
	int		concurrent_sends;
	int		use_fastreg_gaps;
	int		map_on_demand;
	int		fmr_pool_size;
	int		fmr_flush_trigger;
	int		fmr_cache;
	int		dev_failover;
	int		require_privileged_port;
	int		use_privileged_port;
	unsigned int	wrq_sge;
	int		tos;
};

extern struct kor_params kor_params;

#endif /* _KO2IBLND_LNET_H */

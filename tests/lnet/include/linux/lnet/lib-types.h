/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The types of LNet's LND-facing interface, as the LNet stand-in gives them.
 *
 * Names, member names and the layouts of the binary structures are facts of the
 * interface; the text is written for this project. Every structure that is not
 * a binary one holds only the members a network driver may touch, so a driver
 * must reach them by name and never by offset.
 */
#ifndef _KOR_STANDIN_LNET_LIB_TYPES_H
#define _KOR_STANDIN_LNET_LIB_TYPES_H

#include <linux/atomic.h>
#include <linux/bvec.h>
#include <linux/cpumask.h>
#include <linux/if.h>
#include <linux/ioctl.h>
#include <linux/list.h>
#include <linux/netdevice.h>
#include <linux/netlink.h>
#include <linux/skbuff.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/uio.h>
#include <net/net_namespace.h>
#include <net/netlink.h>

/* A source built against these headers can tell them from LNet's own. */
#define KOR_LNET_STANDIN 1

#define LNET_MAX_IOV		256
#define LNET_MTU_BITS		20
#define LNET_MTU		BIT(LNET_MTU_BITS)
#define LNET_MAX_PAYLOAD	LNET_MTU
#define LNET_PID_LUSTRE		12345
#define LNET_RESERVED_PORTAL	0
#define LNET_PROTO_PING_MATCHBITS	0x8000000000000000ULL
#define LNET_PROTO_PING_MAGIC	0x70696e67
#define LNET_NIDSTR_SIZE	64

/* Network types (struct lnet_lnd::lnd_type, lnet_nid::nid_type). */
enum {
	SOCKLND		= 2,
	O2IBLND		= 5,
	LOLND		= 9,
	GNILND		= 13,
	KFILND		= 16,
	EFALND		= 17,
};

/* ------------------------------------------------------------------ NIDs */

/* The 64-bit form: type, number and IPv4 address in 16, 16 and 32 bits. */
typedef __u64 lnet_nid_t;
typedef __u32 lnet_pid_t;

/* The in-memory form, 20 bytes; nid_size counts the bytes beyond 8. */
struct lnet_nid {
	__u8	nid_size;
	__u8	nid_type;
	__be16	nid_num;
	__be32	nid_addr[4];
} __packed;

#define LNET_NID_ANY		((lnet_nid_t)(-1))

struct lnet_processid {
	struct lnet_nid	nid;
	lnet_pid_t	pid;
};

struct lnet_process_id {
	lnet_nid_t	nid;
	lnet_pid_t	pid;
};

/* --------------------------------------------------------------- headers */

enum lnet_msg_type {
	LNET_MSG_ACK	= 0,
	LNET_MSG_PUT	= 1,
	LNET_MSG_GET	= 2,
	LNET_MSG_REPLY	= 3,
	LNET_MSG_HELLO	= 4,
};

/* Names a memory descriptor of the node that made it; opaque elsewhere. */
struct lnet_handle_wire {
	__u64	wh_interface_cookie;
	__u64	wh_object_cookie;
} __packed;

struct lnet_ack {
	struct lnet_handle_wire	dst_wmd;
	__le64			match_bits;
	__le32			mlength;
} __packed;

struct lnet_put {
	struct lnet_handle_wire	ack_wmd;
	__le64			match_bits;
	__u64			hdr_data;
	__le32			ptl_index;
	__le32			offset;
} __packed;

struct lnet_get {
	struct lnet_handle_wire	return_wmd;
	__le64			match_bits;
	__le32			ptl_index;
	__le32			src_offset;
	__le32			sink_length;
} __packed;

struct lnet_reply {
	struct lnet_handle_wire	dst_wmd;
} __packed;

struct lnet_hello {
	__u64	incarnation;
	__le32	type;
} __packed;

union lnet_cmd_hdr {
	struct lnet_ack		ack;
	struct lnet_put		put;
	struct lnet_get		get;
	struct lnet_reply	reply;
	struct lnet_hello	hello;
} __packed;

/* In memory, 96 bytes: scalars in host order, the union as on the wire. */
struct lnet_hdr {
	struct lnet_nid		dest_nid;
	struct lnet_nid		src_nid;
	__u32			dest_pid;
	__u32			src_pid;
	__u32			type;
	__u32			payload_length;
	union lnet_cmd_hdr	msg;
} __packed;

/* ------------------------------------------------------------- tunables */

/* 20 bytes; -1 in a member means that it is not set. */
struct lnet_ioctl_config_lnd_cmn_tunables {
	__u32	lct_version;
	__s32	lct_peer_timeout;
	__s32	lct_peer_tx_credits;
	__s32	lct_peer_rtr_credits;
	__s32	lct_max_tx_credits;
};

/* 40 bytes. */
struct lnet_ioctl_config_o2iblnd_tunables {
	__u32	lnd_version;
	__u32	lnd_peercredits_hiw;
	__u32	lnd_map_on_demand;
	__u32	lnd_concurrent_sends;
	__u32	lnd_fmr_pool_size;
	__u32	lnd_fmr_flush_trigger;
	__u32	lnd_fmr_cache;
	__u16	lnd_conns_per_peer;
	__u16	lnd_ntx;
	__u32	lnd_timeout;
	__s16	lnd_tos;
	__u16	pad;
};

struct lnet_lnd_tunables {
	union {
		struct lnet_ioctl_config_o2iblnd_tunables lnd_o2ib;
		/* LNet's union is larger than its o2ib member; so is ours. */
		__u32 lnd_pad[16];
	} lnd_tun_u;
};

/* --------------------------------------------------------- netlink keys */

#define LNET_CMD_NETS	2

/* Attributes of a local NI in an answer to LNET_CMD_NETS. */
enum {
	LNET_NET_LOCAL_NI_ATTR_LND_TUNABLES	= 11,
};

/* Attributes of one scalar of a request. */
enum {
	LN_SCALAR_ATTR_UNSPEC = 0,
	LN_SCALAR_ATTR_LIST,
	LN_SCALAR_ATTR_LIST_SIZE,
	LN_SCALAR_ATTR_INDEX,
	LN_SCALAR_ATTR_NLA_TYPE,
	LN_SCALAR_ATTR_VALUE,
	LN_SCALAR_ATTR_INT_VALUE,
	LN_SCALAR_ATTR_KEY_FORMAT,
};

enum lnet_nl_key_format {
	LNKF_FLOW	= 1,
	LNKF_MAPPING	= 2,
	LNKF_SEQUENCE	= 4,
};

struct ln_key_props {
	char	*lkp_value;
	__u16	lkp_key_format;
	__u16	lkp_data_type;
};

struct ln_key_list {
	__u16			lkl_maxattr;
	struct ln_key_props	lkl_list[];
};

/* ------------------------------------------------------------------ ctl */

struct libcfs_ioctl_hdr {
	__u32	ioc_len;
	__u32	ioc_version;
};

struct libcfs_ioctl_data {
	struct libcfs_ioctl_hdr	ioc_hdr;

	__u64	ioc_nid;
	__u64	ioc_u64[1];

	__u32	ioc_flags;
	__u32	ioc_count;
	__u32	ioc_net;
	__u32	ioc_u32[7];
};

#define IOC_LIBCFS_TYPE			'e'
#define IOCTL_LIBCFS_TYPE		long
#define IOC_LIBCFS_CLOSE_CONNECTION	_IOWR(IOC_LIBCFS_TYPE, 71, IOCTL_LIBCFS_TYPE)
#define IOC_LIBCFS_GET_CONN		_IOWR(IOC_LIBCFS_TYPE, 73, IOCTL_LIBCFS_TYPE)
#define IOC_LIBCFS_DEL_PEER		_IOWR(IOC_LIBCFS_TYPE, 74, IOCTL_LIBCFS_TYPE)
#define IOC_LIBCFS_ADD_PEER		_IOWR(IOC_LIBCFS_TYPE, 75, IOCTL_LIBCFS_TYPE)
#define IOC_LIBCFS_GET_PEER		_IOWR(IOC_LIBCFS_TYPE, 76, IOCTL_LIBCFS_TYPE)

/* ------------------------------------------------------- memory, messages */

#define LNET_MD_FLAG_GPU	BIT(5)

/* A memory descriptor: whole pages or parts of pages, never modified. */
struct lnet_libmd {
	unsigned int	md_length;
	unsigned int	md_flags;
	unsigned int	md_niov;
	struct bio_vec	*md_kiov;
};

enum lnet_msg_hstatus {
	LNET_MSG_STATUS_OK		= 0,
	LNET_MSG_STATUS_LOCAL_INTERRUPT	= 1,
	LNET_MSG_STATUS_LOCAL_DROPPED	= 2,
	LNET_MSG_STATUS_LOCAL_ABORTED	= 3,
	LNET_MSG_STATUS_LOCAL_NO_ROUTE	= 4,
	LNET_MSG_STATUS_LOCAL_ERROR	= 5,
	LNET_MSG_STATUS_LOCAL_TIMEOUT	= 6,
	LNET_MSG_STATUS_REMOTE_ERROR	= 7,
	LNET_MSG_STATUS_REMOTE_DROPPED	= 8,
	LNET_MSG_STATUS_REMOTE_TIMEOUT	= 9,
	LNET_MSG_STATUS_NETWORK_TIMEOUT	= 10,
	LNET_MSG_STATUS_END,
};

struct lnet_ni;
struct lnet_peer_ni;

struct lnet_msg {
	/* next hop: a peer or a router; msg_hdr has the final destination */
	struct lnet_processid	msg_target;
	__u32			msg_type;

	unsigned int		msg_routing:1;
	unsigned int		msg_target_is_router:1;

	/* the LND stores its verdict here before lnet_finalize() */
	enum lnet_msg_hstatus	msg_health_status;

	struct lnet_libmd	*msg_md;
	struct lnet_ni		*msg_txni;

	unsigned int		msg_len;
	unsigned int		msg_offset;
	unsigned int		msg_niov;
	struct bio_vec		*msg_kiov;

	struct lnet_hdr		msg_hdr;
};

/* ------------------------------------------------------------- NI and net */

enum lnet_ni_state {
	LNET_NI_STATE_INIT = 0,
	LNET_NI_STATE_ACTIVE,
	LNET_NI_STATE_DELETING,
};

struct lnet_lnd;

struct lnet_net {
	__u32			net_id;
	const struct lnet_lnd	*net_lnd;
	struct lnet_ioctl_config_lnd_cmn_tunables net_tunables;
};

struct lnet_ni {
	spinlock_t		ni_lock;	/* LNet's */
	__u32			*ni_cpts;	/* NULL: all CPTs */
	int			ni_ncpts;
	struct lnet_nid		ni_nid;
	void			*ni_data;
	struct lnet_net		*ni_net;
	enum lnet_ni_state	ni_state;
	atomic_t		ni_fatal_error_on;
	int			ni_dev_cpt;
	struct lnet_lnd_tunables ni_lnd_tunables;
	bool			ni_lnd_tunables_set;
	char			*ni_interface;
	struct net		*ni_net_ns;
};

struct cfs_cpt_table;

/* The two members of LNet's global state that an LND reads. */
struct lnet {
	struct cfs_cpt_table	*ln_cpt_table;
	bool			ln_nis_use_large_nids;
};

/* One address of one interface, from lnet_inet_enumerate(). */
struct lnet_inetdev {
	int		li_cpt;
	union {
		__be32	li_ipaddr;
		__be32	li_ipv6addr[4];
	};
	__u32		li_netmask;
	__u32		li_index;
	__u32		li_iff_master;
	__u32		li_size;	/* bytes of address: 4 or 16 */
	char		li_name[IFNAMSIZ];
};

struct lnet_nid_md_entry;

/* What an LND registers: constant, and valid until it is unregistered. */
struct lnet_lnd {
	__u32 lnd_type;

	int (*lnd_startup)(struct lnet_ni *ni);
	void (*lnd_shutdown)(struct lnet_ni *ni);
	int (*lnd_ctl)(struct lnet_ni *ni, unsigned int cmd, void *arg);
	int (*lnd_send)(struct lnet_ni *ni, void *private, struct lnet_msg *msg);
	int (*lnd_recv)(struct lnet_ni *ni, void *private, struct lnet_msg *msg,
			int delayed, struct iov_iter *to, unsigned int rlen);
	int (*lnd_eager_recv)(struct lnet_ni *ni, void *private,
			      struct lnet_msg *msg, void **new_privatep);
	void (*lnd_notify_peer_down)(struct lnet_nid *peer);
	int (*lnd_accept)(struct lnet_ni *ni, struct socket *sock);
	unsigned int (*lnd_get_dev_prio)(struct lnet_ni *ni,
					 unsigned int dev_idx);
	int (*lnd_get_timeout)(void);
	int (*lnd_tun_defaults)(struct lnet_lnd_tunables *lnd_tun,
				struct lnet_ioctl_config_lnd_cmn_tunables *cmn);
	int (*lnd_nl_get)(int cmd, struct sk_buff *msg, int type, void *data,
			  bool export_backup);
	int (*lnd_nl_set)(int cmd, struct nlattr *attr, int type, void *data);
	int (*lnd_get_nid_metadata)(struct lnet_ni *ni,
				    struct lnet_nid_md_entry *md_entry);

	const struct ln_key_list *lnd_keys;
};

#endif /* _KOR_STANDIN_LNET_LIB_TYPES_H */

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the files of the LNet stand-in share. Nothing here is part of LNet's
 * interface; that is under include/.
 */
#ifndef _KOR_STANDIN_H
#define _KOR_STANDIN_H

#include <linux/lnet/lib-lnet.h>

#include <linux/completion.h>
#include <linux/hashtable.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/slab.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

/* --------------------------------------------------------------- checks.c */

/* What the LND must not do; every count must be zero. */
enum si_check {
#define SI_NAME(n) SI_CHECK_##n
#include "check_names.h"
#undef SI_NAME
	SI_CHECK_NR
};

enum si_stat {
#define SI_NAME(n) SI_STAT_##n
#include "stat_names.h"
#undef SI_NAME
	SI_STAT_NR
};

extern atomic64_t si_stats[SI_STAT_NR];

#define si_stat_add(name, n)	atomic64_add((n), &si_stats[SI_STAT_##name])
#define si_stat_inc(name)	si_stat_add(name, 1)

__printf(2, 3) void si_violated(enum si_check check, const char *fmt, ...);
#define si_violation(check, fmt, ...) \
	si_violated(SI_CHECK_##check, fmt, ##__VA_ARGS__)

/* Counts a violation when the caller could not sleep; names @what. */
void si_check_context(const char *what);
u64 si_check_total(void);
void si_stats_reset(void);

struct seq_file;
int si_checks_show(struct seq_file *s, void *unused);
int si_stats_show(struct seq_file *s, void *unused);

/* ------------------------------------------------------------ buf.c: payload */

#define SI_MAX_LEN	LNET_MTU
#define SI_MAX_FRAGS	(LNET_MAX_IOV + 1)	/* 1 MiB from an unaligned start */
#define SI_GAP_FRAG	2000			/* bytes per page of style "gap" */
#define SI_POISON	0xa5

enum si_style {
	SI_PAGES,	/* a page each, as the allocator gives them */
	SI_SCATTER,	/* the same, in an order that no two neighbours share */
	SI_CONTIG,	/* one physical run where memory allows */
	SI_GAP,		/* page vector with holes between the fragments */
	SI_STYLE_NR
};

struct si_buf {
	struct list_head	link;
	struct page		**pages;
	struct bio_vec		*kiov;
	unsigned int		npages;
	unsigned int		nkiov;
	unsigned int		len;
	enum si_style		style;
};

struct si_buf *si_buf_get(unsigned int len, unsigned int off,
			  enum si_style style, gfp_t gfp);
void si_buf_put(struct si_buf *buf);
void si_buf_drain(void);
void si_buf_poison(struct si_buf *buf);
/* Byte i of the pattern of @seed at i == @pos goes to the first byte. */
void si_buf_fill(struct si_buf *buf, u64 seed, u64 pos);
void si_buf_copy_in(struct si_buf *buf, const void *from, unsigned int len);
void si_buf_copy_out(struct si_buf *buf, void *to, unsigned int len);
/* Pattern in [from, from + len), poison elsewhere: 0, or -EBADMSG and counted. */
int si_buf_check(struct si_buf *buf, unsigned int from, unsigned int len,
		 u64 seed, u64 pos, const char *who);

/* ----------------------------------------------------------- md.c, msg.c */

struct si_md;
struct si_msg;
struct si_ni;
struct si_out;

enum si_event_type {
	SI_EV_SEND,	/* our PUT or GET is finalized */
	SI_EV_ACK,	/* the ACK for our PUT came */
	SI_EV_REPLY,	/* the data for our GET came, or failed to */
	SI_EV_PUT,	/* a PUT into our buffer is finalized */
	SI_EV_GET,	/* the answer to a GET from our buffer is finalized */
};

struct si_event {
	enum si_event_type	type;
	int			status;
	enum lnet_msg_hstatus	hstatus;
	unsigned int		mlength;
};

struct si_md {
	struct lnet_libmd	md;
	refcount_t		refs;
	u32			handle;		/* 0: not in the table */
	u32			kiov_sum;
	struct si_buf		*buf;
	/* any process context; the md lives until release */
	void			(*event)(struct si_md *md,
					 const struct si_event *ev);
	void			(*release)(struct si_md *md);
};

extern bool si_gpu;
void si_md_init(struct si_md *md, struct si_buf *buf);
int si_md_link(struct si_md *md);
void si_md_unlink(struct si_md *md);
struct si_md *si_md_lookup(const struct lnet_handle_wire *wh);
void si_md_get(struct si_md *md);
void si_md_put(struct si_md *md);
u32 si_kiov_sum(const struct lnet_libmd *md);
void si_md_fill_handle(const struct si_md *md, struct lnet_handle_wire *wh);
bool si_md_any(void);
void si_md_setup(void);
void si_md_cleanup(void);

enum si_msg_kind {
	SI_TX_PUT, SI_TX_GET, SI_TX_ACK, SI_TX_REPLY,
	SI_RX_PUT, SI_RX_GET, SI_RX_ACK, SI_RX_REPLY,
	SI_OPT_REPLY,
};

enum si_owner { SI_LNET, SI_LND };

struct si_peer;

struct si_msg {
	struct lnet_msg		msg;
	enum si_msg_kind	kind;
	enum si_owner		owner;		/* under si_live_lock */
	struct hlist_node	live;		/* under si_live_lock */
	struct list_head	link;		/* credit queue, finalizer, delay */
	struct si_ni		*ni;		/* counted in its msgs */
	struct si_md		*md;
	struct si_peer		*peer;		/* holds a credit of it */
	struct si_txq		*txq;		/* holds a credit of it */
	struct si_msg		*reply;		/* of an optimized GET */
	ktime_t			since;		/* in the LND's hands */
	unsigned int		mlength;
	int			status;
	/* a received message that waits for its buffer */
	void			*rx_private;
	ktime_t			due;
};

#define si_msg_of(m)	container_of(m, struct si_msg, msg)

struct si_put_args {
	unsigned int	portal;
	u64		match_bits;
	u64		hdr_data;
	unsigned int	offset;
	bool		ack;
};

struct si_get_args {
	unsigned int	portal;
	u64		match_bits;
	unsigned int	offset;
};

int si_send_put(struct si_ni *ni, const struct lnet_nid *target,
		struct si_md *md, const struct si_put_args *args);
int si_send_get(struct si_ni *ni, const struct lnet_nid *target,
		struct si_md *md, const struct si_get_args *args);
void si_send_ack(struct si_msg *rx);
struct si_msg *si_make_reply(struct si_ni *ni, const struct lnet_hdr *get,
			     struct si_md *md, unsigned int offset,
			     unsigned int len, enum si_msg_kind kind);
void si_post(struct si_msg *m);

struct si_msg *si_msg_new(struct si_ni *ni, enum si_msg_kind kind,
			  struct si_md *md);
void si_msg_free(struct si_msg *m);
void si_msg_lend(struct si_msg *m);
struct si_msg *si_msg_take_back(struct lnet_msg *msg);
void si_complete(struct si_msg *m, int status);
void si_msg_report_live(struct si_ni *ni);
int si_msg_live(void);
void si_msg_cleanup(void);

struct si_fault {
	bool			on;
	enum lnet_msg_hstatus	hstatus;
	unsigned int		every;
	unsigned int		left;
	unsigned int		seen;
};

void si_fault_set(const struct si_fault *fault);

/* --------------------------------------------------------------- parse.c */

/* lnd_recv() for @m, or for nothing when @m is NULL. */
void si_recv(struct si_ni *ni, void *private, struct si_msg *m, bool delayed,
	     unsigned int offset, unsigned int mlen, unsigned int rlen);
void si_delay_init(struct si_ni *ni);
void si_purge_delayed(struct si_ni *ni);
int si_parse_setup(void);
void si_parse_cleanup(void);

/* ----------------------------------------------- portal.c, ping.c: targets */

#define SI_PORTAL_SINK		10
#define SI_PORTAL_SOURCE	11
#define SI_PORTAL_NOTHING	12
#define SI_PORTAL_DELAY		13

/* How the traffic generator tells the target what to do, in the match bits. */
struct si_wish {
	unsigned int	off;		/* start within the first page */
	enum si_style	style;
	bool		verify;
	bool		trunc;		/* take, or have, half of the bytes */
	unsigned int	delay_ms;
	u32		tag;		/* seed of a GET */
};

u64 si_wish_pack(const struct si_wish *wish);
void si_wish_unpack(u64 match_bits, struct si_wish *wish);

struct si_match {
	struct si_md	*md;		/* a reference the caller owns */
	unsigned int	offset;
	unsigned int	mlength;
	unsigned int	delay_ms;
};

/* -ENOENT: nothing matches; -ENOMEM. */
int si_match_put(const struct lnet_hdr *hdr, struct si_match *match);
int si_match_get(struct si_ni *ni, const struct lnet_hdr *hdr,
		 struct si_match *match);
int si_match_ping(struct si_ni *ni, const struct lnet_hdr *hdr,
		  struct si_match *match);
struct si_md *si_target_md(struct si_buf *buf);
int si_ping_print(struct si_buf *buf, unsigned int len, struct si_out *out);

/* ----------------------------------------------------------------- net.c */

struct si_net {
	struct lnet_net		net;
	struct list_head	link;		/* si_nets, under si_api_mutex */
	unsigned int		nnis;
};

/* Sends that may be in the LND's hands at a time, per CPT. */
struct si_txq {
	int			credits;
	int			min_credits;
	struct list_head	waiting;
};

struct si_peer {
	struct list_head	link;
	struct lnet_nid		nid;
	int			credits;
	int			min_credits;
	struct list_head	waiting;
	bool			down;
};

struct si_ni {
	struct lnet_ni		ni;
	struct si_net		*net;
	struct list_head	link;		/* si_nis, under si_net_lock */
	bool			visible;	/* findable by NID */
	bool			stuck;		/* refused, but the LND kept it */
	int			refs;		/* the LND's, under si_net_lock */
	int			users;		/* commands, under si_net_lock */
	int			msgs;		/* under si_net_lock */
	wait_queue_head_t	idle;
	spinlock_t		lock;		/* everything below */
	struct list_head	peers;
	unsigned int		npeers;
	struct si_txq		*txqs;
	struct list_head	delayed;
	struct delayed_work	delay;
};

#define si_ni_of(n)	container_of(n, struct si_ni, ni)

extern struct mutex si_api_mutex;
/* Plays LNet's net lock: get_dev_prio, get_timeout and nl_get run under it. */
extern spinlock_t si_net_lock;
extern struct list_head si_nis;
extern const struct lnet_lnd *si_lnd;

bool si_ni_known(struct lnet_ni *ni, const char *what);
int si_ni_hold(struct si_ni *sni);
void si_ni_release(struct si_ni *sni);
struct si_peer *si_peer_find(struct si_ni *sni, const struct lnet_nid *nid);
/* The first NI of @net, or that of @nid; it stays until si_ni_unuse(). */
struct si_ni *si_ni_use(u32 net, const struct lnet_nid *nid);
void si_ni_unuse(struct si_ni *sni);
/* Commands end themselves then: net del waits for them. */
bool si_ni_going(const struct si_ni *sni);
unsigned int si_lnd_timeout(void);
int si_nis_show(struct seq_file *s, void *unused);
bool si_ni_any(void);

/* ------------------------------------------------------------------ cpt.c */

int si_cpt_setup(void);
void si_cpt_cleanup(void);

/* ------------------------------------------------------------------ nid.c */

/* A network: type and number. */
static inline u32 si_net(u8 type, u16 num)
{
	return type << 16 | num;
}

/* NULL stands for any NID, too. */
static inline bool si_nid_is_any(const struct lnet_nid *nid)
{
	return !nid || nid->nid_type == 0xff;
}

u64 si_nid_to_u64(const struct lnet_nid *nid);
struct lnet_nid si_nid_from_u64(u64 raw);
u32 si_nid_net(const struct lnet_nid *nid);
bool si_nid_same(const struct lnet_nid *a, const struct lnet_nid *b);
/* In a buffer that is used again after 64 calls. */
char *si_nidstr(const struct lnet_nid *nid);

int si_parse_net(const char *text, u32 *net);
int si_parse_nid(const char *text, struct lnet_nid *nid);
u32 si_nid_hash(const struct lnet_nid *nid);

/* ------------------------------------------------------ commands, traffic */

#define SI_OUT_SIZE	(64 * 1024)
#define SI_MAX_ARGS	32

struct si_out {
	char	*buf;
	size_t	len;
};

__printf(2, 3) void si_out(struct si_out *out, const char *fmt, ...);

struct si_args {
	int	argc;
	char	**argv;
	u32	used;		/* bit n: argv[n] was asked for */
};

/* Word n of the command that is not KEY=VALUE, or NULL. */
const char *si_arg_word(struct si_args *args, int n);
const char *si_arg_str(struct si_args *args, const char *key);
/* *val keeps its default when the key is not given; -EINVAL outside the range. */
int si_arg_s64(struct si_args *args, const char *key, s64 min, s64 max, s64 *val);
/* -EINVAL, naming the word, when something was given that nobody asked for. */
int si_arg_done(struct si_args *args, struct si_out *out);

int si_cmd_net(struct si_args *args, struct si_out *out);
int si_cmd_traffic(struct si_args *args, struct si_out *out);
int si_cmd_lctl(struct si_args *args, struct si_out *out);
int si_cmd_nl_get(struct si_args *args, struct si_out *out);
int si_cmd_nl_set(struct si_args *args, struct si_out *out);
int si_cmd_dev_prio(struct si_args *args, struct si_out *out);
int si_apply_keys(struct si_args *args, struct lnet_lnd_tunables *tun,
		  struct si_out *out, int *napplied);
int si_cmd_setup(void);
void si_cmd_cleanup(void);

#endif /* _KOR_STANDIN_H */

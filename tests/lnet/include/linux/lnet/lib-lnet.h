/* SPDX-License-Identifier: GPL-2.0 */
/*
 * LNet's LND-facing interface, as the LNet stand-in (lnet_standin.ko) gives it.
 *
 * A driver's C shim includes this file by the name that Lustre's tree gives it,
 * so one shim source serves both. Whatever LNet exports is renamed here: a
 * module built against these headers asks for kor_standin_* symbols and does not
 * load beside real LNet, nor the reverse.
 */
#ifndef _KOR_STANDIN_LNET_LIB_LNET_H
#define _KOR_STANDIN_LNET_LIB_LNET_H

#include <linux/lnet/lib-types.h>
#include <linux/lnet/lnet_rdma.h>

#define the_lnet			kor_standin_the_lnet
#define libcfs_setup			kor_standin_libcfs_setup
#define lnet_register_lnd		kor_standin_lnet_register_lnd
#define lnet_unregister_lnd		kor_standin_lnet_unregister_lnd
#define lnet_get_lnd_timeout		kor_standin_lnet_get_lnd_timeout
#define lnet_parse			kor_standin_lnet_parse
#define lnet_finalize			kor_standin_lnet_finalize
#define lnet_create_reply_msg		kor_standin_lnet_create_reply_msg
#define lnet_set_reply_msg_len		kor_standin_lnet_set_reply_msg_len
#define lnet_msgtyp2str			kor_standin_lnet_msgtyp2str
#define lnet_send_error_simulation	kor_standin_lnet_send_error_simulation
#define lnet_notify			kor_standin_lnet_notify
#define lnet_nid2cpt			kor_standin_lnet_nid2cpt
#define lnet_nid_to_ni_addref		kor_standin_lnet_nid_to_ni_addref
#define lnet_ni_addref			kor_standin_lnet_ni_addref
#define lnet_ni_decref			kor_standin_lnet_ni_decref
#define lnet_inet_enumerate		kor_standin_lnet_inet_enumerate
#define lnet_inet_select		kor_standin_lnet_inet_select
#define lnet_ni_add_interface		kor_standin_lnet_ni_add_interface
#define lnet_ni_set_default_cpts	kor_standin_lnet_ni_set_default_cpts
#define lnet_get_link_status		kor_standin_lnet_get_link_status
#define lnet_get_link_status_locked	kor_standin_lnet_get_link_status_locked
#define lnet_set_link_fatal_state	kor_standin_lnet_set_link_fatal_state
#define lnet_mark_ping_buffer_for_update kor_standin_lnet_mark_ping_buffer_for_update
#define libcfs_nidstr_r			kor_standin_libcfs_nidstr_r
#define libcfs_next_nidstring		kor_standin_libcfs_next_nidstring
#define cfs_cpt_number			kor_standin_cfs_cpt_number
#define cfs_cpt_weight			kor_standin_cfs_cpt_weight
#define cfs_cpt_cpumask			kor_standin_cfs_cpt_cpumask
#define cfs_cpt_bind			kor_standin_cfs_cpt_bind
#define cfs_cpt_spread_node		kor_standin_cfs_cpt_spread_node
#define cfs_cpt_of_node			kor_standin_cfs_cpt_of_node
#define cfs_cpt_current			kor_standin_cfs_cpt_current
#define cfs_percpt_alloc		kor_standin_cfs_percpt_alloc
#define cfs_percpt_free			kor_standin_cfs_percpt_free
#define cfs_percpt_number		kor_standin_cfs_percpt_number
#define cfs_fail_loc			kor_standin_cfs_fail_loc
#define cfs_fail_val			kor_standin_cfs_fail_val
#define __cfs_fail_check_set		kor_standin___cfs_fail_check_set

extern struct lnet the_lnet;

/* ------------------------------------------------------------- lifecycle */

int libcfs_setup(void);
void lnet_register_lnd(const struct lnet_lnd *lnd);
void lnet_unregister_lnd(const struct lnet_lnd *lnd);
unsigned int lnet_get_lnd_timeout(void);

/* -------------------------------------------------------------- messages */

int lnet_parse(struct lnet_ni *ni, struct lnet_hdr *hdr,
	       struct lnet_nid *from_nid, void *private, int rdma_req);
void lnet_finalize(struct lnet_msg *msg, int rc);
struct lnet_msg *lnet_create_reply_msg(struct lnet_ni *ni,
				       struct lnet_msg *get_msg);
void lnet_set_reply_msg_len(struct lnet_ni *ni, struct lnet_msg *msg,
			    unsigned int len);
char *lnet_msgtyp2str(int type);
bool lnet_send_error_simulation(struct lnet_msg *msg,
				enum lnet_msg_hstatus *hstatus);

/* --------------------------------------------------------- peers and NIs */

int lnet_notify(struct lnet_ni *ni, struct lnet_nid *nid, bool alive,
		bool reset, time64_t when);
int lnet_nid2cpt(struct lnet_nid *nid, struct lnet_ni *ni);
struct lnet_ni *lnet_nid_to_ni_addref(struct lnet_nid *nid);
void lnet_ni_addref(struct lnet_ni *ni);
void lnet_ni_decref(struct lnet_ni *ni);

/* ------------------------------------------------------------ interfaces */

int lnet_inet_enumerate(struct lnet_inetdev **dev_list, struct net *ns,
			bool v6_first);
int lnet_inet_select(struct lnet_ni *ni, struct lnet_inetdev *ifaces,
		     int num_ifaces);
int lnet_ni_add_interface(struct lnet_ni *ni, char *iface);
int lnet_ni_set_default_cpts(struct lnet_ni *ni);
int lnet_get_link_status(struct net_device *dev);
int lnet_get_link_status_locked(struct net_device *dev);
__u32 lnet_set_link_fatal_state(struct lnet_ni *ni, unsigned int link_state);
void lnet_mark_ping_buffer_for_update(void);

/* ------------------------------------------------------------------ CPTs */

#define CFS_CPT_ANY	(-1)

int cfs_cpt_number(struct cfs_cpt_table *cptab);
int cfs_cpt_weight(struct cfs_cpt_table *cptab, int cpt);
cpumask_var_t *cfs_cpt_cpumask(struct cfs_cpt_table *cptab, int cpt);
int cfs_cpt_bind(struct cfs_cpt_table *cptab, int cpt);
int cfs_cpt_spread_node(struct cfs_cpt_table *cptab, int cpt);
int cfs_cpt_of_node(struct cfs_cpt_table *cptab, int node);
int cfs_cpt_current(struct cfs_cpt_table *cptab, int remap);
void *cfs_percpt_alloc(struct cfs_cpt_table *cptab, unsigned int size);
void cfs_percpt_free(void *vars);
int cfs_percpt_number(void *vars);

static inline struct cfs_cpt_table *lnet_cpt_table(void)
{
	return the_lnet.ln_cpt_table;
}

/* ------------------------------------------------------------------ NIDs */

char *libcfs_nidstr_r(const struct lnet_nid *nid, char *buf, size_t buf_size);
char *libcfs_next_nidstring(void);

/* ------------------------------------------------------- fault injection */

extern unsigned long cfs_fail_loc;
extern unsigned int cfs_fail_val;

#define CFS_FAIL_MASK_LOC	0x0000ffff
#define CFS_FAIL_ONCE		0x10000000
#define CFS_FAILED		0x40000000

int __cfs_fail_check_set(__u32 id, __u32 value, int set);

/* True when the site @id is armed; it then also fires. Zero arms none. */
#define CFS_FAIL_CHECK(id) \
	(unlikely(READ_ONCE(cfs_fail_loc)) && __cfs_fail_check_set(id, 0, 0))

static_assert(sizeof(struct lnet_nid) == 20);
static_assert(sizeof(union lnet_cmd_hdr) == 40);
static_assert(sizeof(struct lnet_hdr) == 96);
static_assert(sizeof(struct lnet_ioctl_config_lnd_cmn_tunables) == 20);
static_assert(sizeof(struct lnet_ioctl_config_o2iblnd_tunables) == 40);

#endif /* _KOR_STANDIN_LNET_LIB_LNET_H */

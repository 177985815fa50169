// SPDX-License-Identifier: GPL-2.0
/*
 * Shims over the RDMA connection manager, for rust/rdma.
 */
#include <linux/in.h>
#include <linux/in6.h>
#include <rdma/ib_cm.h>

#include <ko2iblnd/verbs.h>

#include "check/dma_check.h"

static int kor_cm_handler(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct kor_cm_event ev = {
		.kind = event->event,
		.status = event->status,
	};

	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_ESTABLISHED:
	case RDMA_CM_EVENT_REJECTED:
		ev.private_data = event->param.conn.private_data;
		if (ev.private_data)
			ev.private_data_len =
				event->param.conn.private_data_len;
		break;
	default:
		break;
	}
	return kor_rust_cm_event(id->context, id, &ev);
}

struct rdma_cm_id *kor_cm_create(struct net *net, void *context)
{
	if (kor_dma_check_call())
		return ERR_PTR(-ENOMEM);
	return rdma_create_id(net, kor_cm_handler, context, RDMA_PS_TCP,
			      IB_QPT_RC);
}

void kor_cm_set_context(struct rdma_cm_id *id, void *context)
{
	id->context = context;
}

struct ib_device *kor_cm_device(const struct rdma_cm_id *id)
{
	return id->device;
}

u32 kor_cm_port(const struct rdma_cm_id *id)
{
	return id->port_num;
}

static void kor_addr_in(const struct kor_sockaddr *addr,
			struct sockaddr_storage *ss)
{
	struct sockaddr_in *sin = (struct sockaddr_in *)ss;
	struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)ss;

	memset(ss, 0, sizeof(*ss));
	ss->ss_family = addr->family;
	if (addr->family == AF_INET) {
		sin->sin_port = htons(addr->port);
		memcpy(&sin->sin_addr, addr->addr, sizeof(sin->sin_addr));
	} else if (addr->family == AF_INET6) {
		sin6->sin6_port = htons(addr->port);
		sin6->sin6_scope_id = addr->scope_id;
		memcpy(&sin6->sin6_addr, addr->addr, sizeof(sin6->sin6_addr));
	}
}

static void kor_addr_out(const struct sockaddr_storage *ss,
			 struct kor_sockaddr *addr)
{
	const struct sockaddr_in *sin = (const struct sockaddr_in *)ss;
	const struct sockaddr_in6 *sin6 = (const struct sockaddr_in6 *)ss;

	memset(addr, 0, sizeof(*addr));
	addr->family = ss->ss_family;
	if (ss->ss_family == AF_INET) {
		addr->port = ntohs(sin->sin_port);
		memcpy(addr->addr, &sin->sin_addr, sizeof(sin->sin_addr));
	} else if (ss->ss_family == AF_INET6) {
		addr->port = ntohs(sin6->sin6_port);
		addr->scope_id = sin6->sin6_scope_id;
		memcpy(addr->addr, &sin6->sin6_addr, sizeof(sin6->sin6_addr));
	}
}

void kor_cm_addrs(const struct rdma_cm_id *id, struct kor_sockaddr *local,
		  struct kor_sockaddr *peer)
{
	kor_addr_out(&id->route.addr.src_addr, local);
	kor_addr_out(&id->route.addr.dst_addr, peer);
}

int kor_cm_bind(struct rdma_cm_id *id, const struct kor_sockaddr *addr)
{
	struct sockaddr_storage ss;

	if (kor_dma_check_call())
		return -ENOMEM;
	kor_addr_in(addr, &ss);
	return rdma_bind_addr(id, (struct sockaddr *)&ss);
}

int kor_cm_listen(struct rdma_cm_id *id, int backlog)
{
	if (kor_dma_check_call())
		return -ENOMEM;
	return rdma_listen(id, backlog);
}

int kor_cm_resolve_addr(struct rdma_cm_id *id, const struct kor_sockaddr *src,
			const struct kor_sockaddr *dst, u32 timeout_ms)
{
	struct sockaddr_storage from;
	struct sockaddr_storage to;

	if (kor_dma_check_call())
		return -ENOMEM;
	if (src)
		kor_addr_in(src, &from);
	kor_addr_in(dst, &to);
	return rdma_resolve_addr(id, src ? (struct sockaddr *)&from : NULL,
				 (struct sockaddr *)&to, timeout_ms);
}

int kor_cm_resolve_route(struct rdma_cm_id *id, unsigned long timeout_ms)
{
	if (kor_dma_check_call())
		return -ENOMEM;
	return rdma_resolve_route(id, timeout_ms);
}

static struct rdma_conn_param kor_conn_param(const struct kor_cm_param *param)
{
	return (struct rdma_conn_param) {
		.private_data = param->private_data,
		.private_data_len = param->private_data_len,
		.responder_resources = param->responder_resources,
		.initiator_depth = param->initiator_depth,
		.flow_control = param->flow_control,
		.retry_count = param->retry_count,
		.rnr_retry_count = param->rnr_retry_count,
	};
}

int kor_cm_connect(struct rdma_cm_id *id, const struct kor_cm_param *param)
{
	struct rdma_conn_param conn = kor_conn_param(param);

	if (kor_dma_check_call())
		return -ENOMEM;
	return rdma_connect(id, &conn);
}

int kor_cm_accept(struct rdma_cm_id *id, const struct kor_cm_param *param)
{
	struct rdma_conn_param conn = kor_conn_param(param);
	int rc;

	if (kor_dma_check_call())
		return -ENOMEM;
	rdma_lock_handler(id);
	rc = rdma_accept(id, &conn);
	rdma_unlock_handler(id);
	return rc;
}

int kor_cm_reject(struct rdma_cm_id *id, const u8 *data, u8 len)
{
	return rdma_reject(id, data, len, IB_CM_REJ_CONSUMER_DEFINED);
}

u32 kor_cm_path_mtu(const struct rdma_cm_id *id)
{
	const struct sa_path_rec *path = id->route.path_rec;
	int mtu;

	if (!path)
		return 0;
	mtu = ib_mtu_enum_to_int(path->mtu);
	return mtu > 0 ? mtu : 0;
}

bool kor_cm_set_path_mtu(struct rdma_cm_id *id, u32 mtu)
{
	enum ib_mtu value = ib_mtu_int_to_enum(mtu);

	if (!id->route.path_rec || ib_mtu_enum_to_int(value) != mtu)
		return false;
	id->route.path_rec->mtu = value;
	return true;
}

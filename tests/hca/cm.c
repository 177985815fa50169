// SPDX-License-Identifier: GPL-2.0
/*
 * Connections. They are made in memory: who connects is handed to the listener of whatever device
 * has the address, and both ends are told when that one accepts. What iw_cm is told, it queues.
 */
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/slab.h>
#include <net/ipv6.h>

#include "hca.h"

#define HCA_ANSWER_TIMEOUT	(10 * HZ)

static int hca_upcall(struct iw_cm_id *id, struct hca_ep *ep, enum iw_cm_event_type type,
		      int status, const struct iw_cm_conn_param *param)
{
	struct iw_cm_event event = {
		.event = type,
		.status = status,
		.local_addr = ep->local,
		.remote_addr = ep->remote,
		.ird = min(ep->ird, 255U),
		.ord = min(ep->ord, 255U),
		.provider_data = ep,
	};

	if (param) {
		event.private_data = (void *)param->private_data;
		event.private_data_len = param->private_data_len;
	}
	return id->event_handler(id, &event);
}

/* ---------------------------------------------------------------- end points */

static void hca_ep_timeout(struct work_struct *work);

static struct hca_ep *hca_ep_new(struct hca_dev *dev, enum hca_ep_state state)
{
	struct hca_ep *ep = kzalloc_obj(*ep);

	if (!ep)
		return NULL;
	ep->dev = dev;
	ep->state = state;
	refcount_set(&ep->refs, 1);
	INIT_DELAYED_WORK(&ep->timeout, hca_ep_timeout);
	list_add_tail(&ep->link, &dev->eps);
	hca_born(dev, ep);
	return ep;
}

static void hca_ep_put(struct hca_ep *ep)
{
	if (refcount_dec_and_test(&ep->refs))
		kfree(ep);
}

/* A timeout that has begun has a reference of its own, and finds nothing to do. */
static void hca_ep_stop(struct hca_ep *ep)
{
	if (cancel_delayed_work(&ep->timeout))
		hca_ep_put(ep);
}

static void hca_ep_free(struct hca_ep *ep)
{
	ep->state = HCA_EP_CLOSED;
	hca_ep_stop(ep);
	list_del(&ep->link);
	hca_gone(ep->dev, ep);
	hca_ep_put(ep);
}

static void hca_ep_take(struct hca_ep *ep, struct iw_cm_id *id, struct hca_qp *qp)
{
	id->add_ref(id);
	ep->cm_id = id;
	hca_qp_get(qp);
	ep->qp = qp;
	qp->ep = ep;
}

/* Ends what ties this end to iw_cm and to its QP. */
static void hca_ep_drop(struct hca_ep *ep)
{
	struct iw_cm_id *id = ep->cm_id;
	struct hca_qp *qp = ep->qp;

	ep->cm_id = NULL;
	ep->qp = NULL;
	if (qp) {
		qp->ep = NULL;
		hca_qp_put(qp);
	}
	if (id)
		id->rem_ref(id);
}

/* The answer to who connects, and the end of this end when it is no. */
static void hca_ep_refuse(struct hca_ep *ep, int status, const struct iw_cm_conn_param *param)
{
	hca_upcall(ep->cm_id, ep, IW_CM_EVENT_CONNECT_REPLY, status, param);
	hca_ep_drop(ep);
	hca_ep_free(ep);
}

/* Nobody asks any more; iw_cm still has the request and will answer. */
static void hca_ep_orphan(struct hca_ep *request)
{
	request->peer = NULL;
	request->state = HCA_EP_CLOSED;
	hca_ep_stop(request);
}

static void hca_ep_timeout(struct work_struct *work)
{
	struct hca_ep *ep = container_of(work, struct hca_ep, timeout.work);

	mutex_lock(&hca_fabric);
	if (ep->state == HCA_EP_REQUESTED) {
		hca_ep_refuse(ep->peer, -ETIMEDOUT, NULL);
		hca_ep_orphan(ep);
	}
	mutex_unlock(&hca_fabric);
	hca_ep_put(ep);
}

/* ----------------------------------------------------------------- its end */

static void hca_ep_end(struct hca_ep *ep)
{
	struct hca_qp *qp = ep->qp;

	ep->state = HCA_EP_CLOSED;
	ep->peer = NULL;
	hca_count(ep->dev, closes);
	/* The QP goes first; hca_qp_error() finds no connection any more. */
	qp->ep = NULL;
	hca_qp_error(qp);
	hca_upcall(ep->cm_id, ep, IW_CM_EVENT_CLOSE, 0, NULL);
	hca_ep_drop(ep);
	hca_ep_free(ep);
}

/* The QP of this end is in error, or wants to be. */
void hca_ep_close(struct hca_ep *ep)
{
	struct hca_ep *peer = ep->peer;

	lockdep_assert_held(&hca_fabric);
	switch (ep->state) {
	case HCA_EP_OPEN:
		hca_upcall(peer->cm_id, peer, IW_CM_EVENT_DISCONNECT, 0, NULL);
		hca_ep_end(ep);
		hca_ep_end(peer);
		break;
	case HCA_EP_CONNECTING:
		hca_ep_orphan(peer);
		hca_ep_refuse(ep, -ECONNABORTED, NULL);
		break;
	default:
		break;
	}
}

/* A request is over. Whoever still waits for an answer is told that there is none. */
static void hca_ep_forget(struct hca_ep *request)
{
	if (request->peer)
		hca_ep_refuse(request->peer, -ECONNRESET, NULL);
	hca_ep_free(request);
}

/* Requests that iw_cm forgot, for want of memory. */
void hca_ep_forget_all(struct hca_dev *dev)
{
	struct hca_ep *ep, *next;

	mutex_lock(&hca_fabric);
	list_for_each_entry_safe(ep, next, &dev->eps, link)
		hca_ep_forget(ep);
	mutex_unlock(&hca_fabric);
}

/* ---------------------------------------------------------------- listening */

static int hca_listen(struct iw_cm_id *id, int backlog)
{
	struct hca_dev *dev = to_hca(id->device);
	struct hca_ep *ep;
	int rc = hca_fault(dev, HCA_OP_listen);

	if (rc)
		return rc;
	mutex_lock(&hca_fabric);
	ep = hca_ep_new(dev, HCA_EP_LISTENING);
	if (ep) {
		id->add_ref(id);
		ep->cm_id = id;
		ep->local = id->local_addr;
		id->provider_data = ep;
	}
	mutex_unlock(&hca_fabric);
	return ep ? 0 : -ENOMEM;
}

static int hca_destroy_listen(struct iw_cm_id *id)
{
	struct hca_ep *ep = id->provider_data;

	/* It must not fail, and iw_cm does not look. */
	hca_fault(to_hca(id->device), HCA_OP_destroy_listen);
	if (!ep)
		return 0;
	mutex_lock(&hca_fabric);
	hca_ep_free(ep);
	mutex_unlock(&hca_fabric);
	id->provider_data = NULL;
	id->rem_ref(id);
	return 0;
}

static bool hca_any_addr(const struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET ?
	       !((const struct sockaddr_in *)a)->sin_addr.s_addr :
	       ipv6_addr_any(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

static bool hca_same_port(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	return a->ss_family == b->ss_family &&
	       ((const struct sockaddr_in *)a)->sin_port == ((const struct sockaddr_in *)b)->sin_port;
}

static bool hca_same_addr(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	if (a->ss_family == AF_INET)
		return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
		       ((const struct sockaddr_in *)b)->sin_addr.s_addr;
	return ipv6_addr_equal(&((const struct sockaddr_in6 *)a)->sin6_addr,
			       &((const struct sockaddr_in6 *)b)->sin6_addr);
}

/* One for the address, else one of this device for all addresses. */
static struct hca_ep *hca_find_listener(struct hca_dev *self, const struct sockaddr_storage *addr)
{
	struct hca_ep *ep, *found = NULL;
	struct hca_dev *dev;

	mutex_lock(&hca_devs_mutex);
	list_for_each_entry(dev, &hca_devs, link)
		list_for_each_entry(ep, &dev->eps, link) {
			if (ep->state != HCA_EP_LISTENING || !hca_same_port(&ep->local, addr))
				continue;
			if (hca_same_addr(&ep->local, addr) ||
			    (!found && dev == self && hca_any_addr(&ep->local)))
				found = ep;
		}
	mutex_unlock(&hca_devs_mutex);
	return found;
}

/* --------------------------------------------------------------- connecting */

/* The request of @ep, at the listener's device. */
static struct hca_ep *hca_ask(struct hca_ep *listener, struct hca_ep *ep,
			      const struct iw_cm_conn_param *param)
{
	struct hca_ep *request = hca_ep_new(listener->dev, HCA_EP_REQUESTED);

	if (!request)
		return NULL;
	request->local = ep->remote;
	request->remote = ep->local;
	request->ird = ep->ord;
	request->ord = ep->ird;
	request->peer = ep;
	ep->peer = request;
	/* A full backlog. */
	if (hca_upcall(listener->cm_id, request, IW_CM_EVENT_CONNECT_REQUEST, 0, param)) {
		hca_ep_free(request);
		ep->peer = NULL;
		return NULL;
	}
	refcount_inc(&request->refs);
	queue_delayed_work(hca_wq, &request->timeout, HCA_ANSWER_TIMEOUT);
	return request;
}

static int hca_dial(struct hca_dev *dev, struct hca_qp *qp, struct iw_cm_id *id,
		    const struct iw_cm_conn_param *param)
{
	struct hca_ep *listener, *ep;

	if (qp->ep || qp->state == IB_QPS_ERR || qp->state == IB_QPS_RESET)
		return -EINVAL;
	ep = hca_ep_new(dev, HCA_EP_CONNECTING);
	if (!ep)
		return -ENOMEM;
	ep->local = id->local_addr;
	ep->remote = id->remote_addr;
	ep->ird = param->ird;
	ep->ord = param->ord;
	hca_ep_take(ep, id, qp);
	listener = hca_find_listener(dev, &ep->remote);
	if (!listener || !hca_ask(listener, ep, param)) {
		hca_count(dev, refused);
		hca_ep_refuse(ep, -ECONNREFUSED, NULL);
	}
	return 0;
}

static int hca_param_ok(struct hca_dev *dev, const struct iw_cm_conn_param *param)
{
	return param->private_data_len <= U8_MAX && param->ird <= dev->limits.rd_atom &&
	       param->ord <= dev->limits.rd_atom ? 0 : -EINVAL;
}

static int hca_connect(struct iw_cm_id *id, struct iw_cm_conn_param *param)
{
	struct hca_dev *dev = to_hca(id->device);
	struct hca_qp *qp = xa_load(&dev->qps, param->qpn);
	int rc = hca_fault(dev, HCA_OP_connect) ?: hca_param_ok(dev, param);

	if (!rc && !qp)
		rc = -EINVAL;
	if (rc)
		return rc;
	mutex_lock(&hca_fabric);
	rc = hca_dial(dev, qp, id, param);
	mutex_unlock(&hca_fabric);
	hca_count(dev, connects);
	return rc;
}

static int hca_open(struct hca_ep *ep, struct hca_qp *qp, struct iw_cm_id *id,
		    struct iw_cm_conn_param *param)
{
	struct hca_ep *peer = ep->peer;

	if (ep->state != HCA_EP_REQUESTED)
		return -ECONNRESET;
	if (qp->ep || qp->state == IB_QPS_ERR || qp->state == IB_QPS_RESET)
		return -EINVAL;
	hca_ep_take(ep, id, qp);
	ep->ird = param->ird;
	ep->ord = min(param->ord, peer->ird);
	peer->ord = min(peer->ord, ep->ird);
	ep->state = HCA_EP_OPEN;
	peer->state = HCA_EP_OPEN;
	hca_ep_stop(ep);
	hca_qp_set_state(ep->qp, IB_QPS_RTS);
	hca_qp_set_state(peer->qp, IB_QPS_RTS);
	hca_upcall(id, ep, IW_CM_EVENT_ESTABLISHED, 0, NULL);
	hca_upcall(peer->cm_id, peer, IW_CM_EVENT_CONNECT_REPLY, 0, param);
	return 0;
}

/* The request is over, whatever comes of it: nobody will name it again. */
static int hca_accept(struct iw_cm_id *id, struct iw_cm_conn_param *param)
{
	struct hca_dev *dev = to_hca(id->device);
	struct hca_qp *qp = xa_load(&dev->qps, param->qpn);
	struct hca_ep *ep = id->provider_data;
	int rc = hca_fault(dev, HCA_OP_accept) ?: hca_param_ok(dev, param);

	if (!rc && !qp)
		rc = -EINVAL;
	mutex_lock(&hca_fabric);
	if (!rc)
		rc = hca_open(ep, qp, id, param);
	if (rc)
		hca_ep_forget(ep);
	mutex_unlock(&hca_fabric);
	hca_count(dev, accepts);
	return rc;
}

static int hca_reject(struct iw_cm_id *id, const void *data, u8 len)
{
	struct iw_cm_conn_param param = { .private_data = data, .private_data_len = len };
	struct hca_dev *dev = to_hca(id->device);
	struct hca_ep *ep = id->provider_data;

	int rc = hca_fault(dev, HCA_OP_reject);

	/* When it fails, the other side gets no word of it, as when the link is lost. */
	mutex_lock(&hca_fabric);
	if (!rc && ep->peer) {
		hca_ep_refuse(ep->peer, -ECONNREFUSED, &param);
		ep->peer = NULL;
	}
	hca_ep_forget(ep);
	mutex_unlock(&hca_fabric);
	hca_count(dev, rejects);
	return rc;
}

const struct ib_device_ops hca_cm_ops = {
	.iw_connect = hca_connect,
	.iw_accept = hca_accept,
	.iw_reject = hca_reject,
	.iw_create_listen = hca_listen,
	.iw_destroy_listen = hca_destroy_listen,
};

// SPDX-License-Identifier: GPL-2.0
/*
 * A peer that says what it is told to say: the hostile node of the bad-input scenarios.
 *
 * It speaks rdma_cm and verbs and nothing above them. A script writes one command to
 * /sys/kernel/debug/kor_evil/cmd, which blocks until the command is over, and reads its outcome
 * from /sys/kernel/debug/kor_evil/out. One connection at a time.
 *
 *   connect SRC DST PORT HEX     connect with HEX as private data
 *                                -> accepted HEX | rejected REASON HEX | failed EVENT STATUS
 *   listen SRC PORT accept HEX   answer the next request with HEX  -> listening
 *   listen SRC PORT reject HEX   refuse every request with HEX     -> listening
 *   listen SRC PORT reject HEX accept HEX
 *                                refuse the first request, answer the next one -> listening
 *   requested MS                 the next request     -> requested HEX | timeout
 *   send HEX                     one SEND             -> sent | send_error STATUS
 *   write RKEY ADDR LEN          one RDMA WRITE       -> written | write_error STATUS
 *   closed MS                    wait for the end     -> closed | timeout
 *   recv MS                      next received SEND   -> received HEX | timeout | closed
 *   sink LEN                     memory that the peer may write to -> sink RKEY ADDR
 *   peek OFFSET LEN              what is in it        -> peeked HEX
 *   flood N SRC DST PORT HEX     ask for N connections and never answer
 *                                -> flooded ACCEPTED REJECTED WHY
 *   event NETDEV N               the RDMA device on NETDEV has event N (enum ib_event_type) -> ok
 *   close                        give everything up   -> ok
 */
#include <linux/completion.h>
#include <linux/debugfs.h>
#include <linux/hex.h>
#include <linux/in.h>
#include <linux/inet.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/uaccess.h>
#include <linux/wait.h>
#include <rdma/ib_cm.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#define EVIL_MSG	4096
#define EVIL_RX		64
#define EVIL_PRIV	256
#define EVIL_WAIT	(15 * HZ)
#define EVIL_HALF	64
#define EVIL_SINK	(1 << 20)
#define EVIL_REQS	8

struct evil_answer {
	bool			 accept;
	u8			 data[EVIL_PRIV];
	unsigned int		 len;
};

struct evil_rx {
	struct ib_cqe	 cqe;
	struct ib_sge	 sge;
	void		*buf;
};

struct evil {
	struct rdma_cm_id	*listener;
	struct rdma_cm_id	*id;
	struct ib_pd		*pd;
	struct ib_cq		*cq;
	struct evil_rx		 rx[EVIL_RX];
	void			*tx;
	u64			 tx_dma;
	struct ib_cqe		 tx_cqe;
	void			*sink;
	u64			 sink_dma;
	wait_queue_head_t	 wait;
	spinlock_t		 lock;		/* all below */
	int			 event;		/* last CM event, -1 none */
	int			 status;
	bool			 established;
	u8			 req[EVIL_REQS][EVIL_PRIV];	/* requests; more are not kept */
	unsigned int		 req_len[EVIL_REQS];
	unsigned int		 reqs, reqs_read;
	bool			 closed;
	bool			 tx_done;
	int			 tx_status;
	u8			 priv[EVIL_PRIV];
	unsigned int		 priv_len;
	struct evil_answer	 answer[2];	/* to the first request, to all others */
	unsigned int		 answers;	/* given */
	u16			 fifo[EVIL_RX];	/* received, not yet read: indices into rx */
	u32			 fifo_len[EVIL_RX];
	unsigned int		 head, tail;
};

static struct evil *evil;
static struct evil *evil_half[EVIL_HALF];	/* never established */
static unsigned int evil_halves;
static DEFINE_MUTEX(evil_mutex);
static struct dentry *evil_dir;
static char *evil_out;
static const size_t evil_out_size = 2 * EVIL_MSG + 64;

static void evil_end(struct evil *e)
{
	unsigned long flags;

	spin_lock_irqsave(&e->lock, flags);
	e->closed = true;
	spin_unlock_irqrestore(&e->lock, flags);
	wake_up_all(&e->wait);
}

static void evil_rx_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct evil *e = cq->cq_context;
	struct evil_rx *rx = container_of(wc->wr_cqe, struct evil_rx, cqe);
	unsigned long flags;

	if (wc->status != IB_WC_SUCCESS) {
		evil_end(e);
		return;
	}
	spin_lock_irqsave(&e->lock, flags);
	e->fifo_len[e->tail % EVIL_RX] = wc->byte_len;
	e->fifo[e->tail++ % EVIL_RX] = rx - e->rx;
	spin_unlock_irqrestore(&e->lock, flags);
	wake_up_all(&e->wait);
}

static void evil_tx_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct evil *e = cq->cq_context;
	unsigned long flags;

	spin_lock_irqsave(&e->lock, flags);
	e->tx_done = true;
	e->tx_status = wc->status;
	spin_unlock_irqrestore(&e->lock, flags);
	wake_up_all(&e->wait);
}

static int evil_post_rx(struct evil *e, int i)
{
	struct evil_rx *rx = &e->rx[i];
	struct ib_recv_wr wr = { .wr_cqe = &rx->cqe, .sg_list = &rx->sge, .num_sge = 1 };

	rx->cqe.done = evil_rx_done;
	return ib_post_recv(e->id->qp, &wr, NULL);
}

static int evil_make_qp(struct evil *e)
{
	struct ib_qp_init_attr attr = {
		.cap = { .max_send_wr = 16, .max_recv_wr = EVIL_RX + 2,
			 .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_type = IB_SIGNAL_ALL_WR,
		.qp_type = IB_QPT_RC,
	};
	struct ib_device *dev = e->id->device;
	int i, rc;

	/* For "sink", which the peer writes to in as many pieces as it is told. */
	e->pd = ib_alloc_pd(dev, IB_PD_UNSAFE_GLOBAL_RKEY);
	if (IS_ERR(e->pd))
		return PTR_ERR(e->pd);
	e->cq = ib_alloc_cq_any(dev, e, EVIL_RX + 32, IB_POLL_WORKQUEUE);
	if (IS_ERR(e->cq))
		return PTR_ERR(e->cq);
	attr.send_cq = e->cq;
	attr.recv_cq = e->cq;
	rc = rdma_create_qp(e->id, e->pd, &attr);
	if (rc)
		return rc;
	e->tx = kzalloc(EVIL_MSG, GFP_KERNEL);
	if (!e->tx)
		return -ENOMEM;
	e->tx_dma = ib_dma_map_single(dev, e->tx, EVIL_MSG, DMA_TO_DEVICE);
	e->tx_cqe.done = evil_tx_done;
	for (i = 0; i < EVIL_RX; i++) {
		e->rx[i].buf = kzalloc(EVIL_MSG, GFP_KERNEL);
		if (!e->rx[i].buf)
			return -ENOMEM;
		e->rx[i].sge.addr = ib_dma_map_single(dev, e->rx[i].buf, EVIL_MSG,
						      DMA_FROM_DEVICE);
		e->rx[i].sge.length = EVIL_MSG;
		e->rx[i].sge.lkey = e->pd->local_dma_lkey;
		rc = evil_post_rx(e, i);
		if (rc)
			return rc;
	}
	return 0;
}

static void evil_note(struct evil *e, struct rdma_cm_event *ev)
{
	unsigned long flags;
	unsigned int len = min_t(unsigned int, ev->param.conn.private_data_len, EVIL_PRIV);

	spin_lock_irqsave(&e->lock, flags);
	e->event = ev->event;
	e->status = ev->status;
	if (ev->event == RDMA_CM_EVENT_ESTABLISHED)
		e->established = true;
	if (ev->event == RDMA_CM_EVENT_DISCONNECTED)
		e->closed = true;
	if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST && e->reqs < EVIL_REQS) {
		memcpy(e->req[e->reqs], ev->param.conn.private_data, len);
		e->req_len[e->reqs] = len;
		WRITE_ONCE(e->reqs, e->reqs + 1);
	}
	if (ev->param.conn.private_data && len) {
		memcpy(e->priv, ev->param.conn.private_data, len);
		e->priv_len = len;
	}
	spin_unlock_irqrestore(&e->lock, flags);
	wake_up_all(&e->wait);
}

static int evil_answer(struct evil *e, struct rdma_cm_id *id)
{
	struct evil_answer *answer = &e->answer[e->answers++ ? 1 : 0];
	struct rdma_conn_param param = {
		.private_data = answer->data, .private_data_len = answer->len,
		.retry_count = 5, .rnr_retry_count = 6, .flow_control = 1,
	};
	int rc;

	if (!answer->accept || e->id) {
		rdma_reject(id, answer->data, answer->len, IB_CM_REJ_CONSUMER_DEFINED);
		return -ECONNREFUSED;	/* the CM destroys the id */
	}
	e->id = id;
	rc = evil_make_qp(e);
	if (!rc)
		rc = rdma_accept(id, &param);
	if (rc)
		pr_err("kor_evil: cannot answer: %d\n", rc);
	return 0;
}

static int evil_cm(struct rdma_cm_id *id, struct rdma_cm_event *ev)
{
	struct evil *e = id->context;

	evil_note(e, ev);
	if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		return evil_answer(e, id);
	return 0;
}

static bool evil_wait_event(struct evil *e, int want)
{
	wait_event_timeout(e->wait, READ_ONCE(e->event) != -1, EVIL_WAIT);
	return e->event == want;
}

static struct evil *evil_new(void)
{
	struct evil *e = kzalloc(sizeof(*e), GFP_KERNEL);

	if (!e)
		return NULL;
	init_waitqueue_head(&e->wait);
	spin_lock_init(&e->lock);
	e->event = -1;
	return e;
}

static void evil_free(struct evil *e)
{
	struct ib_device *dev = NULL;
	int i;

	if (!e)
		return;
	if (e->listener)
		rdma_destroy_id(e->listener);
	if (e->id) {
		dev = e->id->device;
		if (e->id->qp) {
			rdma_disconnect(e->id);
			ib_drain_qp(e->id->qp);
			rdma_destroy_qp(e->id);
		}
		for (i = 0; i < EVIL_RX; i++) {
			if (e->rx[i].sge.addr)
				ib_dma_unmap_single(dev, e->rx[i].sge.addr, EVIL_MSG,
						    DMA_FROM_DEVICE);
		}
		if (e->tx_dma)
			ib_dma_unmap_single(dev, e->tx_dma, EVIL_MSG, DMA_TO_DEVICE);
		if (e->sink_dma)
			ib_dma_unmap_single(dev, e->sink_dma, EVIL_SINK, DMA_FROM_DEVICE);
	}
	if (!IS_ERR_OR_NULL(e->cq))
		ib_free_cq(e->cq);
	if (!IS_ERR_OR_NULL(e->pd))
		ib_dealloc_pd(e->pd);
	if (e->id)
		rdma_destroy_id(e->id);
	for (i = 0; i < EVIL_RX; i++)
		kfree(e->rx[i].buf);
	kfree(e->tx);
	kfree(e->sink);
	kfree(e);
}

static int evil_addr(const char *text, u16 port, struct sockaddr_in *sin)
{
	memset(sin, 0, sizeof(*sin));
	sin->sin_family = AF_INET;
	sin->sin_port = htons(port);
	return in4_pton(text, -1, (u8 *)&sin->sin_addr, -1, NULL) ? 0 : -EINVAL;
}

static int evil_unhex(const char *hex, u8 *out, size_t room)
{
	size_t len = strlen(hex) / 2;

	if (len > room || hex2bin(out, hex, len))
		return -EINVAL;
	return len;
}

static void evil_say_hex(const char *what, const u8 *data, unsigned int len)
{
	int n = scnprintf(evil_out, evil_out_size, "%s ", what);

	bin2hex(evil_out + n, data, len);
	evil_out[n + 2 * len] = '\n';
	evil_out[n + 2 * len + 1] = 0;
}

#define evil_say(fmt, ...) scnprintf(evil_out, evil_out_size, fmt "\n", ##__VA_ARGS__)

static int evil_step(struct evil *e, int rc, int want)
{
	if (rc)
		return rc;
	if (evil_wait_event(e, want))
		e->event = -1;
	else
		rc = e->status ? e->status : -ETIMEDOUT;
	return rc;
}

static void evil_report(struct evil *e)
{
	char reason[32];

	wait_event_timeout(e->wait, READ_ONCE(e->event) != -1, EVIL_WAIT);
	if (e->event == RDMA_CM_EVENT_ESTABLISHED ||
	    (e->event == RDMA_CM_EVENT_DISCONNECTED && e->established)) {
		evil_say_hex("accepted", e->priv, e->priv_len);
	} else if (e->event == RDMA_CM_EVENT_REJECTED) {
		scnprintf(reason, sizeof(reason), "rejected %d", e->status);
		evil_say_hex(reason, e->priv, e->priv_len);
	} else {
		evil_say("failed %d %d", e->event, e->status);
	}
}

/* Asks for a connection; without a QP of ours, the CM leaves the answer to an answer to us. */
static int evil_dial(struct evil *e, char **arg, bool with_qp)
{
	struct rdma_conn_param param = { .retry_count = 5, .rnr_retry_count = 6,
					 .flow_control = 1 };
	struct sockaddr_in src, dst;
	u8 priv[EVIL_PRIV];
	int rc, len;
	u16 port;

	if (kstrtou16(arg[2], 10, &port))
		return -EINVAL;
	len = evil_unhex(arg[3], priv, sizeof(priv));
	rc = evil_addr(arg[0], 0, &src) ?: evil_addr(arg[1], port, &dst);
	if (rc || len < 0)
		return -EINVAL;
	e->id = rdma_create_id(&init_net, evil_cm, e, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(e->id)) {
		rc = PTR_ERR(e->id);
		e->id = NULL;
		return rc;
	}
	rc = rdma_resolve_addr(e->id, (struct sockaddr *)&src, (struct sockaddr *)&dst, 5000);
	rc = evil_step(e, rc, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (!rc)
		rc = evil_step(e, rdma_resolve_route(e->id, 5000), RDMA_CM_EVENT_ROUTE_RESOLVED);
	if (!rc && with_qp)
		rc = evil_make_qp(e);
	param.private_data = priv;
	param.private_data_len = len;
	param.qp_num = 0x700000 + evil_halves;
	return rc ?: rdma_connect(e->id, &param);
}

static int evil_connect(char **arg)
{
	int rc;

	if (evil)
		return -EINVAL;
	evil = evil_new();
	if (!evil)
		return -ENOMEM;
	rc = evil_dial(evil, arg, true);
	if (rc)
		evil_say("failed -1 %d", rc);
	else
		evil_report(evil);
	return 0;
}

static int evil_flood(char **arg)
{
	unsigned int n, accepted = 0, rejected = 0;
	struct evil *e;
	int why = -1;

	if (evil_halves || kstrtouint(arg[0], 10, &n) || n > EVIL_HALF)
		return -EINVAL;
	while (evil_halves < n) {
		e = evil_new();
		if (!e)
			return -ENOMEM;
		evil_half[evil_halves++] = e;
		if (evil_dial(e, arg + 1, false))
			continue;
		wait_event_timeout(e->wait, READ_ONCE(e->event) != -1, EVIL_WAIT);
		if (e->event == RDMA_CM_EVENT_CONNECT_RESPONSE)
			accepted++;
		if (e->event != RDMA_CM_EVENT_REJECTED)
			continue;
		rejected++;
		why = e->priv_len > 6 ? e->priv[6] : -1;
	}
	evil_say("flooded %u %u %d", accepted, rejected, why);
	return 0;
}

static void evil_give_up(void)
{
	evil_free(evil);
	evil = NULL;
	while (evil_halves)
		evil_free(evil_half[--evil_halves]);
}

static int evil_set_answer(struct evil_answer *answer, char **arg)
{
	int len = evil_unhex(arg[1], answer->data, sizeof(answer->data));

	if (len < 0)
		return len;
	answer->len = len;
	answer->accept = !strcmp(arg[0], "accept");
	return 0;
}

static int evil_listen(int argc, char **arg)
{
	struct sockaddr_in src;
	struct evil *e;
	u16 port;
	int rc;

	if (evil || kstrtou16(arg[1], 10, &port) || evil_addr(arg[0], port, &src))
		return -EINVAL;
	e = evil_new();
	if (!e)
		return -ENOMEM;
	rc = evil_set_answer(&e->answer[0], arg + 2) ?:
	     evil_set_answer(&e->answer[1], arg + argc - 2);
	if (rc) {
		evil_free(e);
		return rc;
	}
	evil = e;
	e->listener = rdma_create_id(&init_net, evil_cm, e, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(e->listener)) {
		rc = PTR_ERR(e->listener);
		e->listener = NULL;
		return rc;
	}
	rc = rdma_bind_addr(e->listener, (struct sockaddr *)&src) ?: rdma_listen(e->listener, 8);
	if (!rc)
		evil_say("listening");
	return rc;
}

static int evil_post(struct evil *e, struct ib_rdma_wr *wr, const char *done, const char *error)
{
	int rc;

	e->tx_done = false;
	rc = ib_post_send(e->id->qp, &wr->wr, NULL);
	if (rc) {
		evil_say("%s post %d", error, rc);
		return 0;
	}
	if (!wait_event_timeout(e->wait, READ_ONCE(e->tx_done), EVIL_WAIT))
		evil_say("%s timeout", error);
	else if (e->tx_status)
		evil_say("%s %s", error, ib_wc_status_msg(e->tx_status));
	else
		evil_say("%s", done);
	return 0;
}

static int evil_send(struct evil *e, char **arg)
{
	struct ib_sge sge = { .addr = e->tx_dma, .lkey = e->pd->local_dma_lkey };
	struct ib_rdma_wr wr = { .wr = { .wr_cqe = &e->tx_cqe, .sg_list = &sge, .num_sge = 1,
					 .opcode = IB_WR_SEND } };
	int len = evil_unhex(arg[0], e->tx, EVIL_MSG);

	if (len <= 0)
		return -EINVAL;
	sge.length = len;
	ib_dma_sync_single_for_device(e->id->device, e->tx_dma, EVIL_MSG, DMA_TO_DEVICE);
	return evil_post(e, &wr, "sent", "send_error");
}

static int evil_write(struct evil *e, char **arg)
{
	struct ib_sge sge = { .addr = e->tx_dma, .lkey = e->pd->local_dma_lkey };
	struct ib_rdma_wr wr = { .wr = { .wr_cqe = &e->tx_cqe, .sg_list = &sge, .num_sge = 1,
					 .opcode = IB_WR_RDMA_WRITE } };

	if (kstrtou32(arg[0], 0, &wr.rkey) || kstrtou64(arg[1], 0, &wr.remote_addr) ||
	    kstrtou32(arg[2], 0, &sge.length) || sge.length > EVIL_MSG)
		return -EINVAL;
	memset(e->tx, 0xee, EVIL_MSG);
	return evil_post(e, &wr, "written", "write_error");
}

static int evil_sink(struct evil *e, char **arg)
{
	struct ib_device *dev = e->id->device;
	unsigned int len;
	u64 dma;

	if (e->sink || kstrtouint(arg[0], 10, &len) || len > EVIL_SINK)
		return -EINVAL;
	e->sink = kmalloc(EVIL_SINK, GFP_KERNEL);
	if (!e->sink)
		return -ENOMEM;
	memset(e->sink, 0xee, EVIL_SINK);
	dma = ib_dma_map_single(dev, e->sink, EVIL_SINK, DMA_FROM_DEVICE);
	if (ib_dma_mapping_error(dev, dma))
		return -EIO;
	e->sink_dma = dma;
	evil_say("sink %u %llu", e->pd->unsafe_global_rkey, dma);
	return 0;
}

static int evil_peek(struct evil *e, char **arg)
{
	unsigned int offset, len;

	if (!e->sink_dma || kstrtouint(arg[0], 10, &offset) || kstrtouint(arg[1], 10, &len) ||
	    len > EVIL_MSG || offset > EVIL_SINK - len)
		return -EINVAL;
	ib_dma_sync_single_for_cpu(e->id->device, e->sink_dma, EVIL_SINK, DMA_FROM_DEVICE);
	evil_say_hex("peeked", e->sink + offset, len);
	ib_dma_sync_single_for_device(e->id->device, e->sink_dma, EVIL_SINK, DMA_FROM_DEVICE);
	return 0;
}

static int evil_recv(struct evil *e, unsigned int ms)
{
	unsigned int i;
	u32 len;

	wait_event_timeout(e->wait, READ_ONCE(e->head) != READ_ONCE(e->tail) || e->closed,
			   msecs_to_jiffies(ms));
	if (e->head == e->tail) {
		evil_say("%s", e->closed ? "closed" : "timeout");
		return 0;
	}
	i = e->fifo[e->head % EVIL_RX];
	len = e->fifo_len[e->head++ % EVIL_RX];
	ib_dma_sync_single_for_cpu(e->id->device, e->rx[i].sge.addr, EVIL_MSG, DMA_FROM_DEVICE);
	evil_say_hex("received", e->rx[i].buf, len);
	ib_dma_sync_single_for_device(e->id->device, e->rx[i].sge.addr, EVIL_MSG,
				      DMA_FROM_DEVICE);
	evil_post_rx(e, i);
	return 0;
}

static int evil_wait_closed(struct evil *e, unsigned int ms)
{
	if (wait_event_timeout(e->wait, READ_ONCE(e->closed), msecs_to_jiffies(ms)))
		evil_say("closed");
	else
		evil_say("timeout");
	return 0;
}

static int evil_requested(struct evil *e, unsigned int ms)
{
	unsigned int i = e->reqs_read;

	if (wait_event_timeout(e->wait, READ_ONCE(e->reqs) != i, msecs_to_jiffies(ms))) {
		e->reqs_read++;
		evil_say_hex("requested", e->req[i], e->req_len[i]);
	} else {
		evil_say("timeout");
	}
	return 0;
}

/* What a device says when it breaks, which rxe does not do. */
static int evil_event(char **arg)
{
	struct ib_event event = { .element.port_num = 1 };
	struct net_device *ndev;
	unsigned int code;

	if (kstrtouint(arg[1], 10, &code))
		return -EINVAL;
	ndev = dev_get_by_name(&init_net, arg[0]);
	if (!ndev)
		return -ENODEV;
	event.device = ib_device_get_by_netdev(ndev, RDMA_DRIVER_UNKNOWN);
	dev_put(ndev);
	if (!event.device)
		return -ENODEV;
	event.event = code;
	ib_dispatch_event(&event);
	ib_device_put(event.device);
	evil_say("ok");
	return 0;
}

static int evil_run(int argc, char **arg)
{
	unsigned int ms;

	evil_say("error");
	if (!strcmp(arg[0], "connect") && argc == 5)
		return evil_connect(arg + 1);
	if (!strcmp(arg[0], "flood") && argc == 6)
		return evil_flood(arg + 1);
	if (!strcmp(arg[0], "listen") && (argc == 5 || argc == 7))
		return evil_listen(argc - 1, arg + 1);
	if (!strcmp(arg[0], "close") && argc == 1) {
		evil_give_up();
		evil_say("ok");
		return 0;
	}
	if (!strcmp(arg[0], "event") && argc == 3)
		return evil_event(arg + 1);
	if (!evil || argc < 2)
		return -EINVAL;
	if (!strcmp(arg[0], "requested") && !kstrtouint(arg[1], 10, &ms))
		return evil_requested(evil, ms);
	if (!evil->id || !evil->id->qp)
		return -ENOTCONN;
	if (!strcmp(arg[0], "send") && argc == 2)
		return evil_send(evil, arg + 1);
	if (!strcmp(arg[0], "write") && argc == 4)
		return evil_write(evil, arg + 1);
	if (!strcmp(arg[0], "sink") && argc == 2)
		return evil_sink(evil, arg + 1);
	if (!strcmp(arg[0], "peek") && argc == 3)
		return evil_peek(evil, arg + 1);
	if (kstrtouint(arg[1], 10, &ms))
		return -EINVAL;
	if (!strcmp(arg[0], "recv"))
		return evil_recv(evil, ms);
	if (!strcmp(arg[0], "closed"))
		return evil_wait_closed(evil, ms);
	return -EINVAL;
}

static ssize_t evil_cmd_write(struct file *file, const char __user *ubuf, size_t len, loff_t *pos)
{
	char *text, *rest, *word, *arg[8];
	int argc = 0, rc;

	if (len > 2 * EVIL_MSG + 256)
		return -E2BIG;
	text = memdup_user_nul(ubuf, len);
	if (IS_ERR(text))
		return PTR_ERR(text);
	rest = strim(text);
	while ((word = strsep(&rest, " ")) && argc < ARRAY_SIZE(arg)) {
		if (*word || argc)
			arg[argc++] = word;
	}
	rc = -EINVAL;
	if (argc) {
		mutex_lock(&evil_mutex);
		rc = evil_run(argc, arg);
		mutex_unlock(&evil_mutex);
	}
	kfree(text);
	return rc ? rc : len;
}

static ssize_t evil_out_read(struct file *file, char __user *ubuf, size_t len, loff_t *pos)
{
	ssize_t n;

	mutex_lock(&evil_mutex);
	n = simple_read_from_buffer(ubuf, len, pos, evil_out, strlen(evil_out));
	mutex_unlock(&evil_mutex);
	return n;
}

static const struct file_operations evil_cmd_fops = {
	.owner = THIS_MODULE, .open = simple_open, .write = evil_cmd_write,
};

static const struct file_operations evil_out_fops = {
	.owner = THIS_MODULE, .open = simple_open, .read = evil_out_read,
};

static int __init evil_init(void)
{
	evil_out = kzalloc(evil_out_size, GFP_KERNEL);
	if (!evil_out)
		return -ENOMEM;
	evil_dir = debugfs_create_dir("kor_evil", NULL);
	debugfs_create_file("cmd", 0200, evil_dir, NULL, &evil_cmd_fops);
	debugfs_create_file("out", 0400, evil_dir, NULL, &evil_out_fops);
	return 0;
}

static void __exit evil_exit(void)
{
	debugfs_remove_recursive(evil_dir);
	evil_give_up();
	kfree(evil_out);
}

module_init(evil_init);
module_exit(evil_exit);
MODULE_DESCRIPTION("Hostile o2iblnd peer for the bad-input scenarios");
MODULE_LICENSE("GPL");

// SPDX-License-Identifier: GPL-2.0
/*
 * The traffic generator: sends messages whose contents both ends can verify,
 * times them, and says how each one ended.
 */

#define pr_fmt(fmt) "lnet_standin: " fmt

#include <linux/kthread.h>
#include <linux/math64.h>
#include <linux/random.h>
#include <linux/sort.h>

#include "standin.h"

#define SI_MAX_SAMPLES	65536
#define SI_MAX_ERRNOS	16
#define SI_PING_SINK	272	/* what LNet asks for: room for 16 NIs */

/* ---------------------------------------------------------- one operation */

struct si_op {
	struct si_md		md;
	wait_queue_head_t	wq;
	spinlock_t		lock;	/* everything below */
	bool			sent;
	bool			acked;
	bool			replied;
	int			send_status;
	int			reply_status;
	enum lnet_msg_hstatus	hstatus;
	unsigned int		ack_len;
	unsigned int		reply_len;
};

static void si_op_event(struct si_md *md, const struct si_event *ev)
{
	struct si_op *op = container_of(md, struct si_op, md);
	bool again = false;

	spin_lock(&op->lock);
	switch (ev->type) {
	case SI_EV_SEND:
		op->sent = true;
		op->send_status = ev->status;
		op->hstatus = ev->hstatus;
		break;
	case SI_EV_ACK:
		again = op->acked;
		op->acked = true;
		op->ack_len = ev->mlength;
		break;
	case SI_EV_REPLY:
		again = op->replied;
		op->replied = true;
		op->reply_status = ev->status;
		op->reply_len = ev->mlength;
		break;
	case SI_EV_PUT:
	case SI_EV_GET:
		break;
	}
	spin_unlock(&op->lock);
	if (again)
		si_violation(data, "a second answer to one message");
	wake_up(&op->wq);
}

static void si_op_release(struct si_md *md)
{
	struct si_op *op = container_of(md, struct si_op, md);

	si_buf_put(md->buf);
	kfree(op);
}

static struct si_op *si_op_new(struct si_buf *buf)
{
	struct si_op *op = kzalloc_obj(*op);

	if (!op) {
		si_buf_put(buf);
		return NULL;
	}
	init_waitqueue_head(&op->wq);
	spin_lock_init(&op->lock);
	si_md_init(&op->md, buf);
	op->md.event = si_op_event;
	op->md.release = si_op_release;
	if (si_md_link(&op->md)) {
		si_md_put(&op->md);
		return NULL;
	}
	return op;
}

/* -------------------------------------------------------------------- a run */

enum si_kind { SI_KIND_PUT, SI_KIND_GET, SI_KIND_PING };

static const char *const si_kind_names[] = { "put", "get", "ping" };

struct si_run {
	enum si_kind	kind;
	struct lnet_nid	target;
	struct si_ni	*ni;
	unsigned int	portal;
	/* parameters, as given */
	s64 size, size_max, count, off, off_max, soff, style, sstyle, roff;
	s64 ack, conc, verify, trunc, drop, nomatch, delay_ms, timeout_ms, max_ms;
	u64		seed;
	ktime_t		start;
	ktime_t		deadline;
	atomic64_t	next;		/* number of the next message */
	struct si_out	*out;		/* of a ping, first message only */
	/* results */
	spinlock_t	lock;
	u64		ok, errors, bad_data, timeouts, bytes, nsamples;
	u64		health[LNET_MSG_STATUS_END];
	struct { int err; u64 n; } errnos[SI_MAX_ERRNOS];
	u32		*samples;	/* ns / 64, to fit minutes */
	u64		every;
	/* workers */
	atomic_t	running;
	wait_queue_head_t done;
};

/* What the parameters say about message @n. */
struct si_shot {
	u64		n;
	u64		seed;
	unsigned int	size;
	unsigned int	want;	/* bytes that should arrive */
	struct si_wish	wish;
};

static unsigned int si_between(s64 low, s64 high)
{
	return high > low ? low + get_random_u32_below(high - low + 1) : low;
}

static void si_aim(struct si_run *run, struct si_shot *shot)
{
	shot->seed = run->seed + shot->n;
	shot->size = si_between(run->size, run->size_max);
	shot->want = run->trunc ? shot->size / 2 : shot->size;
	shot->wish = (struct si_wish) {
		.off = run->soff, .style = run->sstyle, .verify = run->verify,
		.trunc = run->trunc, .delay_ms = run->delay_ms,
		.tag = (u32)shot->seed,
	};
}

static struct si_op *si_load(struct si_run *run, const struct si_shot *shot)
{
	unsigned int off = si_between(run->off, run->off_max);
	struct si_buf *buf = si_buf_get(shot->size, off, run->style, GFP_KERNEL);

	if (!buf)
		return NULL;
	if (run->kind == SI_KIND_PUT && run->verify)
		si_buf_fill(buf, shot->seed, 0);
	else if (run->verify)
		si_buf_poison(buf);
	return si_op_new(buf);
}

static int si_fire(struct si_run *run, struct si_op *op, const struct si_shot *shot)
{
	u64 bits = run->kind == SI_KIND_PING ? LNET_PROTO_PING_MATCHBITS :
					       si_wish_pack(&shot->wish);
	struct si_put_args put = {
		.portal = run->portal, .match_bits = bits, .hdr_data = shot->seed,
		.offset = run->roff, .ack = run->ack,
	};
	struct si_get_args get = {
		.portal = run->portal, .match_bits = bits, .offset = run->roff,
	};

	if (run->kind == SI_KIND_PUT)
		return si_send_put(run->ni, &run->target, &op->md, &put);
	return si_send_get(run->ni, &run->target, &op->md, &get);
}

static bool si_op_done(struct si_run *run, struct si_op *op)
{
	bool done;

	spin_lock(&op->lock);
	done = op->sent;
	if (run->nomatch)
		done = done && op->replied;
	else if (run->kind != SI_KIND_PUT)
		done = done && (op->replied || op->send_status);
	else if (run->ack)
		done = done && (op->acked || op->send_status);
	spin_unlock(&op->lock);
	return done;
}

/* A GET that nothing matches: fails, or is never answered, and moves no byte. */
static int si_judge_nomatch(struct si_run *run, struct si_op *op, bool done)
{
	/* an LND that still has a message for it has not made up its mind */
	if (!op->sent || (!done && refcount_read(&op->md.refs) > 1))
		return -ETIMEDOUT;
	if (op->replied && !op->reply_status)
		return -EBADMSG;
	if (run->verify)
		return si_buf_check(op->md.buf, 0, 0, 0, 0, "GET without a match");
	return 0;
}

static int si_judge_get(struct si_run *run, struct si_op *op,
			const struct si_shot *shot)
{
	if (op->send_status)
		return op->send_status;
	if (op->reply_status)
		return op->reply_status;
	if (run->kind == SI_KIND_PING) {
		struct si_out *out = shot->n ? NULL : run->out;

		return si_ping_print(op->md.buf, op->reply_len, out);
	}
	if (op->reply_len != shot->want) {
		si_violation(data, "reply of %u bytes, %u wanted", op->reply_len,
			     shot->want);
		return -EBADMSG;
	}
	if (!run->verify)
		return 0;
	return si_buf_check(op->md.buf, 0, shot->want, (u32)shot->seed, run->roff,
			    "sink of a GET");
}

/* 0 when the operation ended as the parameters say it should. */
static int si_judge(struct si_run *run, struct si_op *op,
		    const struct si_shot *shot, bool done)
{
	if (run->nomatch)
		return si_judge_nomatch(run, op, done);
	if (!done)
		return si_ni_going(run->ni) ? -ESHUTDOWN : -ETIMEDOUT;
	if (run->kind != SI_KIND_PUT)
		return si_judge_get(run, op, shot);
	if (op->send_status)
		return op->send_status;
	if (run->drop && op->acked)
		return -EBADMSG;
	if (run->ack && op->ack_len != shot->want) {
		si_violation(data, "ACK of %u bytes, %u wanted", op->ack_len,
			     shot->want);
		return -EBADMSG;
	}
	return 0;
}

static void si_count_errno(struct si_run *run, int err)
{
	int i;

	for (i = 0; i < SI_MAX_ERRNOS; i++) {
		if (run->errnos[i].n && run->errnos[i].err != err)
			continue;
		run->errnos[i].err = err;
		run->errnos[i].n++;
		return;
	}
}

static unsigned int si_moved(struct si_run *run, const struct si_shot *shot,
			     const struct si_op *op)
{
	if (run->drop || run->nomatch)
		return 0;
	return run->kind == SI_KIND_PING ? op->reply_len : shot->want;
}

static void si_record(struct si_run *run, const struct si_shot *shot,
		      struct si_op *op, int rc, s64 ns)
{
	u64 slot = div64_u64(shot->n, run->every);

	spin_lock(&run->lock);
	if (rc) {
		run->errors++;
		si_count_errno(run, rc);
		if (rc == -EBADMSG)
			run->bad_data++;
		if (rc == -ETIMEDOUT && op && !op->send_status)
			run->timeouts++;
	} else {
		run->ok++;
		run->bytes += si_moved(run, shot, op);
	}
	if (op && op->sent)
		run->health[op->hstatus < LNET_MSG_STATUS_END ? op->hstatus : 0]++;
	if (!rc && slot * run->every == shot->n && run->nsamples < SI_MAX_SAMPLES)
		run->samples[run->nsamples++] = min_t(s64, ns >> 6, U32_MAX);
	spin_unlock(&run->lock);
}

/* True when all of @op happened; false when time is up or the NI goes away. */
static bool si_wait(struct si_run *run, struct si_op *op)
{
	ktime_t end = ktime_add_ms(ktime_get(), run->timeout_ms);
	s64 left = run->timeout_ms;

	while (left > 0 && !si_ni_going(run->ni)) {
		if (wait_event_idle_timeout(op->wq, si_op_done(run, op),
					    msecs_to_jiffies(min(left, 100))))
			return true;
		left = ktime_ms_delta(end, ktime_get());
	}
	return si_op_done(run, op);
}

static void si_one(struct si_run *run, u64 n)
{
	struct si_shot shot = { .n = n };
	struct si_op *op;
	ktime_t start;
	bool done;
	s64 ns;
	int rc;

	si_aim(run, &shot);
	op = si_load(run, &shot);
	if (!op) {
		si_record(run, &shot, NULL, -ENOMEM, 0);
		return;
	}
	start = ktime_get();
	rc = si_fire(run, op, &shot);
	if (rc) {
		si_record(run, &shot, NULL, rc, 0);
	} else {
		done = si_wait(run, op);
		ns = ktime_to_ns(ktime_sub(ktime_get(), start));
		/* what is late must not find this operation any more */
		si_md_unlink(&op->md);
		rc = si_judge(run, op, &shot, done);
		si_record(run, &shot, op, rc, ns);
	}
	si_md_unlink(&op->md);
	si_md_put(&op->md);
}

static int si_worker(void *data)
{
	struct si_run *run = data;
	u64 n;

	while ((n = atomic64_inc_return(&run->next) - 1) < run->count) {
		if (ktime_after(ktime_get(), run->deadline) || si_ni_going(run->ni))
			break;
		si_one(run, n);
	}
	if (atomic_dec_and_test(&run->running))
		wake_up(&run->done);
	return 0;
}

/* -------------------------------------------------------------- the command */

static int si_compare_u32(const void *a, const void *b)
{
	u32 x = *(const u32 *)a, y = *(const u32 *)b;

	return x < y ? -1 : x > y;
}

static u64 si_sample_us(struct si_run *run, unsigned int permille)
{
	u64 i;

	if (!run->nsamples)
		return 0;
	i = min(div_u64(run->nsamples * permille, 1000), run->nsamples - 1);
	return div_u64((u64)run->samples[i] << 6, 1000);
}

static void si_report(struct si_run *run, u64 us, struct si_out *out)
{
	int i;

	sort(run->samples, run->nsamples, sizeof(*run->samples), si_compare_u32, NULL);
	si_out(out, "kind=%s size=%lld count=%llu ok=%llu errors=%llu bytes=%llu elapsed_us=%llu\n",
	       si_kind_names[run->kind], run->size, run->ok + run->errors, run->ok,
	       run->errors, run->bytes, us);
	si_out(out, "min_us=%llu p50_us=%llu p99_us=%llu max_us=%llu\n",
	       si_sample_us(run, 0), si_sample_us(run, 500), si_sample_us(run, 990),
	       si_sample_us(run, 1000));
	si_out(out, "kib_per_s=%llu bad_data=%llu timeouts=%llu\n",
	       us ? div64_u64(run->bytes * 1000000 / 1024, us) : 0, run->bad_data,
	       run->timeouts);
	for (i = 0; i < SI_MAX_ERRNOS && run->errnos[i].n; i++)
		si_out(out, "errno_%d=%llu\n", -run->errnos[i].err, run->errnos[i].n);
	for (i = 0; i < LNET_MSG_STATUS_END; i++)
		if (run->health[i])
			si_out(out, "health_%d=%llu\n", i, run->health[i]);
}

static int si_run_all(struct si_run *run, struct si_out *out)
{
	struct task_struct *task = NULL;
	int i, rc = 0;
	u64 us;

	run->start = ktime_get();
	run->deadline = ktime_add_ms(run->start, run->max_ms);
	atomic_set(&run->running, 1);
	for (i = 0; i < run->conc; i++) {
		atomic_inc(&run->running);
		task = kthread_run(si_worker, run, "si_gen_%d", i);
		if (!IS_ERR(task))
			continue;
		atomic_dec(&run->running);
		rc = PTR_ERR(task);
		break;
	}
	if (!atomic_dec_and_test(&run->running))
		wait_event_idle(run->done, !atomic_read(&run->running));
	us = ktime_us_delta(ktime_get(), run->start);
	si_report(run, us, out);
	/* -EIO: it ran, and not every message ended as it should */
	return rc ?: run->errors ? -EIO : 0;
}

static int si_parse_style(struct si_args *args, const char *key, s64 *style)
{
	static const char *const names[SI_STYLE_NR] = {
		[SI_PAGES] = "pages", [SI_SCATTER] = "scatter",
		[SI_CONTIG] = "contig", [SI_GAP] = "gap",
	};
	const char *name = si_arg_str(args, key);
	int i = name ? match_string(names, SI_STYLE_NR, name) : SI_PAGES;

	*style = i;
	return i < 0 ? -EINVAL : 0;
}

static int si_run_parse_buffers(struct si_run *run, struct si_args *args)
{
	int rc;

	run->size = run->kind == SI_KIND_PING ? SI_PING_SINK : 0;
	rc = si_arg_s64(args, "size", 0, SI_MAX_LEN, &run->size);
	run->size_max = run->size;
	rc = rc ?: si_arg_s64(args, "size_max", run->size, SI_MAX_LEN, &run->size_max);
	rc = rc ?: si_arg_s64(args, "off", 0, PAGE_SIZE - 1, &run->off);
	run->off_max = run->off;
	rc = rc ?: si_arg_s64(args, "off_max", run->off, PAGE_SIZE - 1, &run->off_max);
	rc = rc ?: si_arg_s64(args, "soff", 0, PAGE_SIZE - 1, &run->soff);
	rc = rc ?: si_arg_s64(args, "roff", 0, SI_MAX_LEN - run->size_max, &run->roff);
	rc = rc ?: si_parse_style(args, "style", &run->style);
	return rc ?: si_parse_style(args, "sstyle", &run->sstyle);
}

static int si_run_parse(struct si_run *run, struct si_args *args)
{
	int rc;

	run->count = 1;
	run->conc = 1;
	run->verify = run->kind != SI_KIND_PING;
	run->max_ms = 120000;
	rc = si_run_parse_buffers(run, args);
	rc = rc ?: si_arg_s64(args, "count", 1, 1000000, &run->count);
	rc = rc ?: si_arg_s64(args, "conc", 1, 256, &run->conc);
	rc = rc ?: si_arg_s64(args, "verify", 0, 1, &run->verify);
	rc = rc ?: si_arg_s64(args, "ack", 0, run->kind == SI_KIND_PUT, &run->ack);
	rc = rc ?: si_arg_s64(args, "trunc", 0, 1, &run->trunc);
	rc = rc ?: si_arg_s64(args, "drop", 0, run->kind == SI_KIND_PUT, &run->drop);
	rc = rc ?: si_arg_s64(args, "nomatch", 0, run->kind == SI_KIND_GET,
			      &run->nomatch);
	rc = rc ?: si_arg_s64(args, "delay_ms", 0, run->kind == SI_KIND_PUT ?
			      60000 : 0, &run->delay_ms);
	/* a small GET that nothing matches is never answered: do not wait long */
	run->timeout_ms = run->nomatch && run->size_max <= 3976 ? 200 : 60000;
	rc = rc ?: si_arg_s64(args, "timeout_ms", 1, 300000, &run->timeout_ms);
	rc = rc ?: si_arg_s64(args, "max_ms", 1, 600000, &run->max_ms);
	if (!rc && run->drop && run->ack)
		rc = -EINVAL;
	return rc;
}

static int si_run_find_ni(struct si_run *run, struct si_args *args)
{
	const char *text = si_arg_str(args, "ni");
	struct lnet_nid nid;

	if (text && si_parse_nid(text, &nid))
		return -EINVAL;
	if (text)
		run->ni = si_ni_use(si_nid_net(&nid), &nid);
	else
		run->ni = si_ni_use(si_nid_net(&run->target), NULL);
	return run->ni ? 0 : -ENETUNREACH;
}

static unsigned int si_run_portal(struct si_run *run)
{
	if (run->kind == SI_KIND_PING)
		return LNET_RESERVED_PORTAL;
	if (run->drop || run->nomatch)
		return SI_PORTAL_NOTHING;
	if (run->kind == SI_KIND_GET)
		return SI_PORTAL_SOURCE;
	return run->delay_ms ? SI_PORTAL_DELAY : SI_PORTAL_SINK;
}

static int si_run_setup(struct si_run *run, struct si_args *args,
			struct si_out *out)
{
	const char *nid = si_arg_word(args, 1);
	int rc;

	run->kind = match_string(si_kind_names, ARRAY_SIZE(si_kind_names),
				 args->argv[0]);
	if (!nid || si_parse_nid(nid, &run->target))
		return -EINVAL;
	rc = si_run_parse(run, args);
	if (rc)
		return rc;
	run->portal = si_run_portal(run);
	run->seed = get_random_u64();
	run->every = max(1ULL, div_u64(run->count + SI_MAX_SAMPLES - 1, SI_MAX_SAMPLES));
	run->out = out;
	spin_lock_init(&run->lock);
	init_waitqueue_head(&run->done);
	run->samples = kvmalloc_array(min(run->count, SI_MAX_SAMPLES),
				      sizeof(*run->samples), GFP_KERNEL);
	return run->samples ? 0 : -ENOMEM;
}

/*
 * put|get|ping NID [size= size_max= count= conc= off= off_max= style= soff=
 *	sstyle= roff= verify= ack= trunc= drop= nomatch= delay_ms= timeout_ms=
 *	max_ms= ni=]
 */
int si_cmd_traffic(struct si_args *args, struct si_out *out)
{
	struct si_run *run = kzalloc_obj(*run);
	int rc;

	if (!run)
		return -ENOMEM;
	rc = si_run_setup(run, args, out);
	rc = rc ?: si_run_find_ni(run, args);
	if (!rc) {
		rc = si_arg_done(args, out);
		rc = rc ?: si_run_all(run, out);
	}
	if (run->ni)
		si_ni_unuse(run->ni);
	kvfree(run->samples);
	kfree(run);
	return rc;
}

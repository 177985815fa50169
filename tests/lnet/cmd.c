// SPDX-License-Identifier: GPL-2.0
/*
 * debugfs: one command a write, which returns when the command has ended. A
 * reader of the same open file gets that command's result; "result" has the
 * last one of anybody.
 */

#define pr_fmt(fmt) "lnet_standin: " fmt

#include <linux/debugfs.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>

#include "standin.h"

#define SI_MAX_LINE	4000

static struct dentry *si_dir;
static DEFINE_MUTEX(si_last_mutex);
static char *si_last;
static size_t si_last_len;

void si_out(struct si_out *out, const char *fmt, ...)
{
	va_list args;

	if (!out)
		return;
	va_start(args, fmt);
	out->len += vscnprintf(out->buf + out->len, SI_OUT_SIZE - out->len, fmt, args);
	va_end(args);
}

/* ------------------------------------------------------------------- words */

const char *si_arg_word(struct si_args *args, int n)
{
	if (n >= args->argc || strchr(args->argv[n], '='))
		return NULL;
	args->used |= BIT(n);
	return args->argv[n];
}

const char *si_arg_str(struct si_args *args, const char *key)
{
	size_t len = strlen(key);
	int i;

	for (i = 1; i < args->argc; i++) {
		if (strncmp(args->argv[i], key, len) || args->argv[i][len] != '=')
			continue;
		args->used |= BIT(i);
		return args->argv[i] + len + 1;
	}
	return NULL;
}

int si_arg_s64(struct si_args *args, const char *key, s64 min, s64 max, s64 *val)
{
	const char *text = si_arg_str(args, key);
	s64 v;

	if (!text)
		return 0;
	if (kstrtos64(text, 0, &v) || v < min || v > max) {
		pr_err("%s=%s: a number in %lld..%lld is needed\n", key, text, min, max);
		return -EINVAL;
	}
	*val = v;
	return 0;
}

int si_arg_done(struct si_args *args, struct si_out *out)
{
	int i;

	for (i = 1; i < args->argc; i++) {
		if (args->used & BIT(i))
			continue;
		pr_err("%s: unknown word \"%s\"\n", args->argv[0], args->argv[i]);
		si_out(out, "unknown=%s\n", args->argv[i]);
		return -EINVAL;
	}
	return 0;
}

/* ---------------------------------------------------------------- commands */

/* fault hstatus=N [every=N] [count=N] | fault off */
static int si_cmd_fault(struct si_args *args, struct si_out *out)
{
	const char *off = si_arg_word(args, 1);
	s64 hstatus = LNET_MSG_STATUS_REMOTE_TIMEOUT, every = 1, count = 1;
	int rc;

	if (off && strcmp(off, "off"))
		return -EINVAL;
	rc = si_arg_s64(args, "hstatus", 1, LNET_MSG_STATUS_END - 1, &hstatus);
	rc = rc ?: si_arg_s64(args, "every", 1, 1000000, &every);
	rc = rc ?: si_arg_s64(args, "count", 1, 1000000, &count);
	rc = rc ?: si_arg_done(args, out);
	if (!rc)
		si_fault_set(&(struct si_fault) {
			.on = !off, .hstatus = hstatus, .every = every, .left = count,
		});
	return rc;
}

/* fail_loc LOC [val=N]: 0xf201, 0x1000f201 for once, 0 for off */
static int si_cmd_fail_loc(struct si_args *args, struct si_out *out)
{
	const char *text = si_arg_word(args, 1);
	unsigned long loc;
	s64 val = 0;
	int rc;

	if (!text || kstrtoul(text, 0, &loc))
		return -EINVAL;
	rc = si_arg_s64(args, "val", 0, U32_MAX, &val);
	rc = rc ?: si_arg_done(args, out);
	if (rc)
		return rc;
	cfs_fail_val = val;
	WRITE_ONCE(cfs_fail_loc, loc);
	return 0;
}

static int si_cmd_reset(struct si_args *args, struct si_out *out)
{
	si_stats_reset();
	return si_arg_done(args, out);
}

static const struct {
	const char *name;
	int (*run)(struct si_args *args, struct si_out *out);
} si_cmds[] = {
	{ "net", si_cmd_net },
	{ "ping", si_cmd_traffic },
	{ "put", si_cmd_traffic },
	{ "get", si_cmd_traffic },
	{ "lctl", si_cmd_lctl },
	{ "nl_get", si_cmd_nl_get },
	{ "nl_set", si_cmd_nl_set },
	{ "dev_prio", si_cmd_dev_prio },
	{ "fault", si_cmd_fault },
	{ "fail_loc", si_cmd_fail_loc },
	{ "reset", si_cmd_reset },
};

static int si_run_cmd(struct si_args *args, struct si_out *out)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(si_cmds); i++)
		if (!strcmp(args->argv[0], si_cmds[i].name))
			return si_cmds[i].run(args, out);
	return -EINVAL;
}

static void si_keep_result(const struct si_out *out)
{
	mutex_lock(&si_last_mutex);
	memcpy(si_last, out->buf, out->len);
	si_last_len = out->len;
	mutex_unlock(&si_last_mutex);
}

struct si_cmd_file {
	struct mutex	mutex;		/* one command at a time; the result */
	struct si_out	out;
};

static int si_cmd_open(struct inode *inode, struct file *file)
{
	struct si_cmd_file *cf = kzalloc_obj(*cf);

	if (!cf)
		return -ENOMEM;
	cf->out.buf = kvmalloc(SI_OUT_SIZE, GFP_KERNEL);
	if (!cf->out.buf) {
		kfree(cf);
		return -ENOMEM;
	}
	mutex_init(&cf->mutex);
	file->private_data = cf;
	return 0;
}

static int si_cmd_release(struct inode *inode, struct file *file)
{
	struct si_cmd_file *cf = file->private_data;

	kvfree(cf->out.buf);
	kfree(cf);
	return 0;
}

static ssize_t si_cmd_write(struct file *file, const char __user *ubuf,
			    size_t count, loff_t *ppos)
{
	struct si_cmd_file *cf = file->private_data;
	struct si_args args = {};
	char *line;
	int rc;

	if (count > SI_MAX_LINE)
		return -E2BIG;
	line = memdup_user_nul(ubuf, count);
	if (IS_ERR(line))
		return PTR_ERR(line);
	args.argv = argv_split(GFP_KERNEL, line, &args.argc);
	kfree(line);
	if (!args.argv)
		return -ENOMEM;
	mutex_lock(&cf->mutex);
	cf->out.len = 0;
	if (!args.argc || args.argc > SI_MAX_ARGS)
		rc = -EINVAL;
	else
		rc = si_run_cmd(&args, &cf->out);
	si_out(&cf->out, "rc=%d\n", rc);
	si_keep_result(&cf->out);
	mutex_unlock(&cf->mutex);
	argv_free(args.argv);
	*ppos = 0;
	return rc ? rc : count;
}

static ssize_t si_cmd_read(struct file *file, char __user *ubuf, size_t count,
			   loff_t *ppos)
{
	struct si_cmd_file *cf = file->private_data;
	ssize_t rc;

	mutex_lock(&cf->mutex);
	rc = simple_read_from_buffer(ubuf, count, ppos, cf->out.buf, cf->out.len);
	mutex_unlock(&cf->mutex);
	return rc;
}

static const struct file_operations si_cmd_fops = {
	.owner = THIS_MODULE,
	.open = si_cmd_open,
	.release = si_cmd_release,
	.read = si_cmd_read,
	.write = si_cmd_write,
};

static int si_result_show(struct seq_file *s, void *unused)
{
	mutex_lock(&si_last_mutex);
	seq_write(s, si_last, si_last_len);
	mutex_unlock(&si_last_mutex);
	return 0;
}

DEFINE_SHOW_ATTRIBUTE(si_result);
DEFINE_SHOW_ATTRIBUTE(si_stats);
DEFINE_SHOW_ATTRIBUTE(si_nis);
DEFINE_SHOW_ATTRIBUTE(si_checks);

int si_cmd_setup(void)
{
	si_last = kvzalloc(SI_OUT_SIZE, GFP_KERNEL);
	if (!si_last)
		return -ENOMEM;
	si_dir = debugfs_create_dir("lnet_standin", NULL);
	debugfs_create_file("cmd", 0600, si_dir, NULL, &si_cmd_fops);
	debugfs_create_file("result", 0400, si_dir, NULL, &si_result_fops);
	debugfs_create_file("stats", 0400, si_dir, NULL, &si_stats_fops);
	debugfs_create_file("nis", 0400, si_dir, NULL, &si_nis_fops);
	debugfs_create_bool("gpu", 0600, si_dir, &si_gpu);
	debugfs_create_file("checks", 0400, si_dir, NULL, &si_checks_fops);
	return 0;
}

void si_cmd_cleanup(void)
{
	debugfs_remove(si_dir);
	kvfree(si_last);
}

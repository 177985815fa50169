// SPDX-License-Identifier: GPL-2.0
/*
 * Shims over kernel facilities, for rust/kx.
 */
#include <linux/debugfs.h>
#include <linux/inetdevice.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/nsproxy.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>
#include <net/addrconf.h>
#include <net/net_namespace.h>

#include <ko2iblnd/kernel.h>

void kor_event_init(struct kor_event *ev)
{
	atomic_set(&ev->pending, 0);
	init_waitqueue_head(&ev->wq);
}

void kor_event_signal(struct kor_event *ev)
{
	/* A full barrier between the caller's work and the flag. */
	atomic_xchg(&ev->pending, 1);
	wake_up(&ev->wq);
}

static bool kor_event_ready(struct kor_event *ev, bool *signalled)
{
	*signalled = atomic_xchg(&ev->pending, 0);
	return *signalled ||
	       ((current->flags & PF_KTHREAD) && kthread_should_stop());
}

bool kor_event_wait(struct kor_event *ev, u64 timeout_ns)
{
	bool signalled = false;
	unsigned long timeout;

	if (timeout_ns == KOR_WAIT_FOREVER) {
		wait_event_idle(ev->wq, kor_event_ready(ev, &signalled));
		return signalled;
	}
	timeout = min_t(u64, nsecs_to_jiffies64(timeout_ns) + 1,
			MAX_SCHEDULE_TIMEOUT - 1);
	wait_event_idle_timeout(ev->wq, kor_event_ready(ev, &signalled),
				timeout);
	return signalled;
}

struct task_struct *kor_kthread_create(int (*fn)(void *data), void *data,
				       int node, const char *name)
{
	struct task_struct *task;

	task = kthread_create_on_node(fn, data, node, "%s", name);
	if (!IS_ERR(task))
		get_task_struct(task);
	return task;
}

void kor_kthread_start(struct task_struct *task)
{
	wake_up_process(task);
}

int kor_kthread_stop(struct task_struct *task)
{
	return kthread_stop_put(task);
}

bool kor_llist_add(struct llist_node *node, struct llist_head *head)
{
	return llist_add(node, head);
}

struct llist_node *kor_llist_take(struct llist_head *head)
{
	return llist_reverse_order(llist_del_all(head));
}

static int kor_debugfs_show(struct seq_file *seq, void *unused)
{
	const struct kor_debugfs_file *file = seq->private;

	file->show(file->ctx, seq);
	return 0;
}

/* The operations have an owner: this module. */
DEFINE_SHOW_ATTRIBUTE(kor_debugfs);

struct dentry *kor_debugfs_dir(const char *name)
{
	return debugfs_create_dir(name, NULL);
}

struct dentry *kor_debugfs_create(const char *name, struct dentry *dir,
				  const struct kor_debugfs_file *file)
{
	return debugfs_create_file(name, 0444, dir, (void *)file,
				   &kor_debugfs_fops);
}

void kor_debugfs_remove(struct dentry *dentry)
{
	debugfs_remove(dentry);
}

void kor_synchronize_text(void)
{
	/* Where the kernel is not preemptible, this is synchronize_rcu(). */
	synchronize_rcu_tasks();
}

unsigned int kor_nofs_save(void)
{
	return memalloc_nofs_save();
}

void kor_nofs_restore(unsigned int flags)
{
	memalloc_nofs_restore(flags);
}

void kor_cond_resched(void)
{
	cond_resched();
}

u64 kor_monotonic_ns(void)
{
	return ktime_get_ns();
}

s64 kor_monotonic_secs(void)
{
	return ktime_get_seconds();
}

u64 kor_realtime_us(void)
{
	return div_u64(ktime_get_real_ns(), NSEC_PER_USEC);
}

void kor_net_get(struct net *net)
{
	get_net(net);
}

void kor_net_put(struct net *net)
{
	put_net(net);
}

struct net *kor_net_of_current(void)
{
	return current->nsproxy->net_ns;
}

/* The one watch; written only while no notifier is registered. */
static struct {
	void (*changed)(void *ctx);
	void *ctx;
	bool used;
} kor_watch;

static DEFINE_MUTEX(kor_watch_mutex);

static int kor_netdev_notify(struct notifier_block *nb, unsigned long event,
			     void *ptr)
{
	switch (event) {
	case NETDEV_UP:
	case NETDEV_DOWN:
	case NETDEV_CHANGE:
	case NETDEV_UNREGISTER:
		kor_watch.changed(kor_watch.ctx);
	}
	return NOTIFY_DONE;
}

static int kor_addr_notify(struct notifier_block *nb, unsigned long event,
			   void *ptr)
{
	kor_watch.changed(kor_watch.ctx);
	return NOTIFY_DONE;
}

static struct notifier_block kor_netdev_nb = {
	.notifier_call = kor_netdev_notify,
};

static struct notifier_block kor_inetaddr_nb = {
	.notifier_call = kor_addr_notify,
};

#if IS_ENABLED(CONFIG_IPV6)
static struct notifier_block kor_inet6addr_nb = {
	.notifier_call = kor_addr_notify,
};
#endif

static int kor_netwatch_start(void)
{
	int rc;

	rc = register_netdevice_notifier(&kor_netdev_nb);
	if (rc)
		return rc;
	rc = register_inetaddr_notifier(&kor_inetaddr_nb);
	if (rc)
		goto err_netdev;
#if IS_ENABLED(CONFIG_IPV6)
	rc = register_inet6addr_notifier(&kor_inet6addr_nb);
	if (rc)
		goto err_inetaddr;
#endif
	return 0;

#if IS_ENABLED(CONFIG_IPV6)
err_inetaddr:
	unregister_inetaddr_notifier(&kor_inetaddr_nb);
#endif
err_netdev:
	unregister_netdevice_notifier(&kor_netdev_nb);
	return rc;
}

int kor_netwatch_register(void (*changed)(void *ctx), void *ctx)
{
	int rc = -EBUSY;

	mutex_lock(&kor_watch_mutex);
	if (!kor_watch.used) {
		kor_watch.changed = changed;
		kor_watch.ctx = ctx;
		rc = kor_netwatch_start();
		kor_watch.used = !rc;
	}
	mutex_unlock(&kor_watch_mutex);
	return rc;
}

void kor_netwatch_unregister(void)
{
	mutex_lock(&kor_watch_mutex);
#if IS_ENABLED(CONFIG_IPV6)
	unregister_inet6addr_notifier(&kor_inet6addr_nb);
#endif
	unregister_inetaddr_notifier(&kor_inetaddr_nb);
	unregister_netdevice_notifier(&kor_netdev_nb);
	kor_watch.used = false;
	mutex_unlock(&kor_watch_mutex);
}

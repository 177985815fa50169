/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Kernel facilities that the kernel crate lacks and that C offers as inline
 * functions or macros. Used by rust/kx only.
 */
#ifndef _KO2IBLND_KERNEL_H
#define _KO2IBLND_KERNEL_H

#include <linux/llist.h>
#include <linux/types.h>
#include <linux/wait.h>

struct dentry;
struct kobject;
struct net;
struct seq_file;
struct task_struct;

/* An event that one thread waits for: signals add up to one. */
struct kor_event {
	atomic_t		pending;
	wait_queue_head_t	wq;
};

#define KOR_WAIT_FOREVER	(~0ULL)

void kor_event_init(struct kor_event *ev);
/* Any context, hard interrupts included. */
void kor_event_signal(struct kor_event *ev);
/*
 * Sleeps, not counted as load, until the event is signalled, the calling
 * kthread is asked to stop or @timeout_ns is over. True if it was signalled.
 */
bool kor_event_wait(struct kor_event *ev, u64 timeout_ns);

/* A kthread that has not started; the caller owns a reference to the task. */
struct task_struct *kor_kthread_create(int (*fn)(void *data), void *data,
				       int node, const char *name);
void kor_kthread_start(struct task_struct *task);
/* Waits for the end of the thread, then drops the caller's reference. */
int kor_kthread_stop(struct task_struct *task);

/* True if the list was empty. */
bool kor_llist_add(struct llist_node *node, struct llist_head *head);
/* Everything on the list, oldest first. */
struct llist_node *kor_llist_take(struct llist_head *head);

/*
 * A file of debugfs whose content @show prints. It keeps the module while it is
 * open. Both must stay until the dentry is removed.
 */
struct kor_debugfs_file {
	void	(*show)(void *ctx, struct seq_file *seq);
	void	*ctx;
};

/* An error pointer is as good for what takes a dentry here. */
struct dentry *kor_debugfs_dir(const char *name);
struct dentry *kor_debugfs_create(const char *name, struct dentry *dir,
				  const struct kor_debugfs_file *file);
/* With all in it. On return no call of @show is running or will be made. */
void kor_debugfs_remove(struct dentry *dentry);

/*
 * On return no thread is in a piece of code that it had entered before and in
 * which it does not sleep. Sleeps.
 */
void kor_synchronize_text(void);

unsigned int kor_nofs_save(void);
void kor_nofs_restore(unsigned int flags);

/* Process context, no lock held: lets others run if the scheduler wants it. */
void kor_cond_resched(void);

u64 kor_monotonic_ns(void);
s64 kor_monotonic_secs(void);
u64 kor_realtime_us(void);

/* References that keep a namespace in service. Any context. */
void kor_net_get(struct net *net);
void kor_net_put(struct net *net);
struct net *kor_net_of_current(void);

/*
 * Calls @changed for every change of an interface or of an address in any
 * namespace. @changed may run in atomic context. One registration at a time.
 */
int kor_netwatch_register(void (*changed)(void *ctx), void *ctx);
/* On return no call is running or will be made. Sleeps. */
void kor_netwatch_unregister(void);

/*
 * A module that is loaded, or a part of the kernel with parameters, by its
 * name; NULL if there is none. A reference to its kobject, which does not keep
 * the module: only what we or our modules use is sure to stay.
 */
struct kobject *kor_loaded_find(const char *name);
void kor_loaded_put(struct kobject *kobj);
/* Not built with the kernel it is loaded in. False for a part of the kernel. */
bool kor_loaded_out_of_tree(struct kobject *kobj);
/*
 * The first @len bytes, at most, of the module's section .note.gnu.build-id;
 * how many there are, 0 if it has no such section. The module must stay. Sleeps.
 */
u32 kor_loaded_build_id_note(struct kobject *kobj, u8 *buf, u32 len);

#endif /* _KO2IBLND_KERNEL_H */

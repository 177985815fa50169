// SPDX-License-Identifier: GPL-2.0

//! Kernel facilities, for [`kx`](crate::kx).

use super::bindings;

/// `struct kor_event`: opaque, self-referential once initialised.
pub(crate) type RawEvent = bindings::kor_event;
/// `struct llist_node`.
pub(crate) type LlistNode = bindings::llist_node;
/// `struct llist_head`.
pub(crate) type LlistHead = bindings::llist_head;
/// `struct dentry`.
pub(crate) type Dentry = bindings::dentry;
/// `struct seq_file`.
pub(crate) type SeqFile = bindings::seq_file;
/// `struct kor_debugfs_file`: what a file shows.
pub(crate) type DebugfsFile = bindings::kor_debugfs_file;
/// `struct kobject`.
pub(crate) type Kobject = bindings::kobject;
/// `struct task_struct`.
pub(crate) type Task = bindings::task_struct;

/// The timeout of [`event_wait`] that never comes.
pub(crate) const WAIT_FOREVER: u64 = u64::MAX;

pub(crate) use bindings::{
    kor_cond_resched as cond_resched, //
    kor_debugfs_create as debugfs_create,
    kor_debugfs_dir as debugfs_dir,
    kor_debugfs_remove as debugfs_remove,
    kor_event_init as event_init,
    kor_event_signal as event_signal,
    kor_event_wait as event_wait,
    kor_kthread_create as kthread_create,
    kor_kthread_start as kthread_start,
    kor_kthread_stop as kthread_stop,
    kor_llist_add as llist_add,
    kor_llist_take as llist_take,
    kor_loaded_build_id_note as loaded_build_id_note,
    kor_loaded_find as loaded_find,
    kor_loaded_out_of_tree as loaded_out_of_tree,
    kor_loaded_put as loaded_put,
    kor_monotonic_ns as monotonic_ns,
    kor_monotonic_secs as monotonic_secs,
    kor_net_get as net_get,
    kor_net_put as net_put,
    kor_netwatch_register as netwatch_register,
    kor_netwatch_unregister as netwatch_unregister,
    kor_nofs_restore as nofs_restore,
    kor_nofs_save as nofs_save,
    kor_realtime_us as realtime_us,
    kor_synchronize_text as synchronize_text,
};

#[cfg(KOR_DMA_CHECK)]
pub(crate) use bindings::kor_net_of_current as net_of_current;
pub(crate) use bindings::{
    kthread_should_stop, //
    seq_write,
};

/// Error numbers of `errno.h`, positive.
pub(crate) mod errno {
    pub(crate) use ::kernel::bindings::{
        EADDRINUSE, //
        EADDRNOTAVAIL,
        EAFNOSUPPORT,
        ENETDOWN,
        ENOTCONN,
        EOPNOTSUPP,
    };
}

// SPDX-License-Identifier: GPL-2.0
/*
 * What is known of other modules that are loaded, for rust/kx.
 */
#include <linux/bitops.h>
#include <linux/kernfs.h>
#include <linux/kobject.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/panic.h>
#include <linux/sysfs.h>

#include <ko2iblnd/kernel.h>

struct kobject *kor_loaded_find(const char *name)
{
	/* The kset of all modules is not exported; ours is in it, too. */
	return kset_find_obj(THIS_MODULE->mkobj.kobj.kset, name);
}

void kor_loaded_put(struct kobject *kobj)
{
	kobject_put(kobj);
}

bool kor_loaded_out_of_tree(struct kobject *kobj)
{
	const struct module *mod =
		container_of(kobj, struct module_kobject, kobj)->mod;

	/* What is built into the kernel may have a kobject, but no module. */
	return mod && test_bit(TAINT_OOT_MODULE, &mod->taints);
}

/* The attribute behind notes/.note.gnu.build-id; its node in *@kn. */
static const struct bin_attribute *kor_build_id_attr(struct kobject *kobj,
						     struct kernfs_node **kn)
{
	struct kernfs_node *notes;

	*kn = NULL;
	notes = kernfs_find_and_get(kobj->sd, "notes");
	if (!notes)
		return NULL;
	if (kernfs_type(notes) == KERNFS_DIR)
		*kn = kernfs_find_and_get(notes, ".note.gnu.build-id");
	kernfs_put(notes);
	if (!*kn || kernfs_type(*kn) != KERNFS_FILE)
		return NULL;
	/* sysfs keeps the attribute here: sysfs_add_bin_file_mode_ns(). */
	return container_of((const struct attribute *)(*kn)->priv,
			    const struct bin_attribute, attr);
}

u32 kor_loaded_build_id_note(struct kobject *kobj, u8 *buf, u32 len)
{
	const struct bin_attribute *attr;
	struct kernfs_node *kn;
	ssize_t n = 0;

	attr = kor_build_id_attr(kobj, &kn);
	/* The bounds are the caller's business: sysfs_bin_attr_simple_read(). */
	if (attr && attr->read)
		n = attr->read(NULL, kobj, attr, buf, 0,
			       min_t(size_t, len, attr->size));
	kernfs_put(kn);
	return n > 0 ? n : 0;
}

// SPDX-License-Identifier: GPL-2.0
/* The device, its port and its protection domains. */
#include <linux/netdevice.h>
#include <net/addrconf.h>

#include "hca.h"

static int hca_query_device(struct ib_device *ib, struct ib_device_attr *attr,
			    struct ib_udata *udata)
{
	const struct hca_limits *l = &to_hca(ib)->limits;

	*attr = (struct ib_device_attr) {
		.device_cap_flags = IB_DEVICE_MEM_MGT_EXTENSIONS,
		.kernel_cap_flags = IBK_ALLOW_USER_UNREG,
		.max_mr_size = ~0ULL,
		.page_size_cap = PAGE_SIZE,
		.max_qp = l->qp,
		.max_qp_wr = l->wr,
		.max_send_sge = l->sge,
		.max_recv_sge = l->sge,
		.max_sge_rd = l->sge_rd,
		.max_cq = l->cq,
		.max_cqe = l->cqe,
		.max_mr = l->mr,
		.max_pd = 1 << 16,
		.max_qp_rd_atom = l->rd_atom,
		.max_qp_init_rd_atom = l->rd_atom,
		.max_res_rd_atom = l->rd_atom,
		.max_fast_reg_page_list_len = l->pages,
	};
	addrconf_addr_eui48((u8 *)&attr->sys_image_guid, to_hca(ib)->mac);
	return 0;
}

static int hca_port_state(struct ib_device *ib, struct ib_port_attr *attr)
{
	struct net_device *netdev = ib_device_get_netdev(ib, 1);

	if (!netdev)
		return -ENODEV;
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = ib_mtu_int_to_enum(READ_ONCE(netdev->mtu));
	attr->state = ib_get_curr_port_state(netdev);
	attr->phys_state = attr->state == IB_PORT_ACTIVE ? IB_PORT_PHYS_STATE_LINK_UP :
							   IB_PORT_PHYS_STATE_DISABLED;
	dev_put(netdev);
	return 0;
}

static int hca_query_port(struct ib_device *ib, u32 port, struct ib_port_attr *attr)
{
	int rc = hca_fault(to_hca(ib), HCA_OP_query_port);

	if (rc)
		return rc;
	*attr = (struct ib_port_attr) {
		.gid_tbl_len = 1,
		.max_msg_sz = U32_MAX,
		.port_cap_flags = IB_PORT_CM_SUP,
		.active_speed = IB_SPEED_EDR,
		.active_width = IB_WIDTH_4X,
	};
	return hca_port_state(ib, attr);
}

static int hca_port_immutable(struct ib_device *ib, u32 port, struct ib_port_immutable *imm)
{
	imm->gid_tbl_len = 1;
	imm->core_cap_flags = RDMA_CORE_PORT_IWARP;
	return 0;
}

static int hca_query_gid(struct ib_device *ib, u32 port, int index, union ib_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	ether_addr_copy(gid->raw, to_hca(ib)->mac);
	return 0;
}

static int hca_alloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	int rc = hca_fault(to_hca(pd->device), HCA_OP_alloc_pd);

	if (!rc)
		hca_born(to_hca(pd->device), pd);
	return rc;
}

static int hca_dealloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	int rc = hca_fault(to_hca(pd->device), HCA_OP_dealloc_pd);

	if (!rc)
		hca_gone(to_hca(pd->device), pd);
	return rc;
}

const struct ib_device_ops hca_dev_ops = {
	.query_device = hca_query_device,
	.query_port = hca_query_port,
	.get_port_immutable = hca_port_immutable,
	.query_gid = hca_query_gid,
	.alloc_pd = hca_alloc_pd,
	.dealloc_pd = hca_dealloc_pd,
	INIT_RDMA_OBJ_SIZE(ib_pd, hca_pd, ib),
};

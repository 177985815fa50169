/* SPDX-License-Identifier: GPL-2.0 */
/* Operations that may not sleep; for enum hca_op and its names. */
HCA_NAME(map_mr_sg),
HCA_NAME(post_send),
HCA_NAME(post_recv),
HCA_NAME(poll_cq),
HCA_NAME(arm_cq),

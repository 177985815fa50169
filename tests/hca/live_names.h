/* SPDX-License-Identifier: GPL-2.0 */
/* Objects that exist, as "live_NAME" in debugfs; for enum hca_live and its names. */
HCA_NAME(pd),
HCA_NAME(cq),
HCA_NAME(qp),
HCA_NAME(mr),
HCA_NAME(ep),

# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 60
# Real LNet: node 1 with our LND, node 2 with the C driver. Our LND beside other builds of LNet.

# shellcheck source=tests/kernel/lnet-lib.sh
. "$TREE/tests/kernel/lnet-lib.sh"
# shellcheck source=tests/kernel/lnet-other.sh
. "$TREE/tests/kernel/lnet-other.sh"

lnet_other ours c

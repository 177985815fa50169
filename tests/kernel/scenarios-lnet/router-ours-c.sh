# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 240
# links: 1-2 2-3
# Real LNet: node 1 with our LND, node 2 with the C driver. Node 2 routes to node 3.

# shellcheck source=tests/kernel/lnet-lib.sh
. "$TREE/tests/kernel/lnet-lib.sh"
# shellcheck source=tests/kernel/lnet-checks.sh
. "$TREE/tests/kernel/lnet-checks.sh"
# shellcheck source=tests/kernel/lnet-router.sh
. "$TREE/tests/kernel/lnet-router.sh"

lnet_router ours c

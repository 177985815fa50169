# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 180
# Real LNet: node 1 with our LND, node 2 with the C driver. Loading on an installed node.

# shellcheck source=tests/kernel/lnet-lib.sh
. "$TREE/tests/kernel/lnet-lib.sh"
# shellcheck source=tests/kernel/lnet-checks.sh
. "$TREE/tests/kernel/lnet-checks.sh"
# shellcheck source=tests/kernel/lnet-loading.sh
. "$TREE/tests/kernel/lnet-loading.sh"

lnet_loading ours c

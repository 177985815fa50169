# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 200
# links: 1-2 1-2
# Real LNet: node 1 with our LND, node 2 with our LND. The NI is on a bond.

# shellcheck source=tests/kernel/lnet-lib.sh
. "$TREE/tests/kernel/lnet-lib.sh"
# shellcheck source=tests/kernel/lnet-checks.sh
. "$TREE/tests/kernel/lnet-checks.sh"
# shellcheck source=tests/kernel/lnet-bond.sh
. "$TREE/tests/kernel/lnet-bond.sh"

lnet_bond ours ours

# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 560
# Real LNet: node 1 with our LND, node 2 with the C driver. The checklist of what can be seen.

# shellcheck source=tests/kernel/lnet-lib.sh
. "$TREE/tests/kernel/lnet-lib.sh"
# shellcheck source=tests/kernel/lnet-checks.sh
. "$TREE/tests/kernel/lnet-checks.sh"

lnet_checks ours c

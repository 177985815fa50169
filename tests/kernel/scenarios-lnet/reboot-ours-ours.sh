# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 200
# Real LNet: node 1 with our LND, node 2 with our LND. Node 2 is power-cycled.

# shellcheck source=tests/kernel/lnet-lib.sh
. "$TREE/tests/kernel/lnet-lib.sh"
# shellcheck source=tests/kernel/lnet-checks.sh
. "$TREE/tests/kernel/lnet-checks.sh"
# shellcheck source=tests/kernel/lnet-reboot.sh
. "$TREE/tests/kernel/lnet-reboot.sh"

lnet_reboot ours ours

# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 240
# Real LNet: node 1 with the C driver, node 2 with our LND. The peer vanishes under load.

# shellcheck source=tests/kernel/lnet-lib.sh
. "$TREE/tests/kernel/lnet-lib.sh"
# shellcheck source=tests/kernel/lnet-checks.sh
. "$TREE/tests/kernel/lnet-checks.sh"

lnet_vanish c ours

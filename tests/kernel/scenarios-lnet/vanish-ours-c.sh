# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 240
# Real LNet: node 1 with our LND, node 2 with the C driver. The peer vanishes under load.

# shellcheck source=tests/kernel/lnet-lib.sh
. "$TREE/tests/kernel/lnet-lib.sh"
# shellcheck source=tests/kernel/lnet-checks.sh
. "$TREE/tests/kernel/lnet-checks.sh"

lnet_vanish ours c

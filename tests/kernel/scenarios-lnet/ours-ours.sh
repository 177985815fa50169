# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 300
# Real LNet: node 1 with our LND, node 2 with our LND. Each starts the connection in turn.

# shellcheck source=tests/kernel/lnet-lib.sh
. "$TREE/tests/kernel/lnet-lib.sh"

lnet_pair ours ours

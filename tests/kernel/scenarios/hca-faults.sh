# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# timeout: 240
# kernels: um
# one node
# The LND over a device that fails: completions late and in any order, with every kind of request
# ended by an error, calls that fail, a device that goes, and a start, connecting, transfer and stop
# of which a call fails.

# shellcheck source=tests/kernel/hca-faults.sh
. "$TREE/tests/kernel/hca-faults.sh"

hca_faults_up
say 'late completions'
hca_nis
hca_cmd 0 late 20000
hca_messages || { cat "$RUN/messages"; fail 'messages fail with late completions'; }
hca_recovers 'late completions'
say 'completions with an error'
hca_statuses 10 12
expect "faults that hit, of $TRIED" $SEEN $TRIED
say 'calls that fail'
hca_calls_fail 1 7
expect "faults that hit, of $TRIED" $SEEN $TRIED
hca_dereg_fails
say 'a device that goes'
hca_vanishes connect 1
hca_vanishes accept 1
hca_vanishes post_send 20
hca_down
hca_right 0
say 'calls of a round'
hca_round_calls
for ((k = 1; k <= CALLS; k += CALLS / 12)); do
	hca_round_fails "$k"
done
say "$TRIED faults, $SEEN calls and requests failed"
hca_faults_down

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the models take from the engine. tests/host/tests/model.rs reads this file and fails when
 * a value, or a formula for any argument, is not what rust/wire and rust/proto have.
 */

/* Messages that need no credit and that a receiver has buffers for (section 12.5). */
#define OOB_V1 0
#define OOB_V2 2

/* Credits that only a NOOP may use. */
#define KEPT_V1 1
#define KEPT_V2 0

/* Receive buffers of a connection. */
#define RX_SLOTS(depth, oob) (2 * (depth) + (oob))

/* Owed credits at which a NOOP returns them (section 12.3). */
#define V1_HIW 7
#define CLAMP(n, low, high) ((n) < (low) -> (low) : ((n) > (high) -> (high) : (n)))
#define HIW_MAX(depth) ((depth) > 2 -> (depth) - 1 : 1)
#define HIW_V1(depth) CLAMP(V1_HIW, 1, HIW_MAX(depth))
#define HIW_V2(depth, hiw, peer_credits) CLAMP((depth) * (hiw) / (peer_credits), 1, HIW_MAX(depth))

/* Queue depths. */
#define V1_DEPTH 8
#define MIN_DEPTH_V1 3
#define MIN_DEPTH_V2 1
#define MAX_DEPTH 255

/* Fragments of a transfer; version 1 peers know one less. */
#define MAX_FRAGS 257
#define V1_MAX_FRAGS 256

/* Connection requests rejected with CONN_RACE before the loser is let in. */
#define MAX_RACES 20

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Credits of one connection between two nodes: protocol.md section 12, written down a second
 * time, without looking at how the engine does it more than params.pml says.
 *
 * Each node sends MSGS messages of any kind, at any time. The wire keeps order. A message that
 * arrives takes a posted receive buffer; the node handles it later; LNet answers later still.
 * Send completions come late, and only for what was signalled. Everything that can be posted
 * after a step is posted within the step, as the engine's contract says.
 *
 * Checked: no invalid end state (a run ends only when every message has come to its end), and
 * the assertions in check().
 *
 * Knobs (-D): VERSION 1 or 2; DEPTH; MSGS per node; KINDS 1 (IMMEDIATE), 2 (and GET), 3 (and PUT);
 * SENDS0, SENDS1 (concurrent sends); HIW0, HIW1; IDLE (keepalive NOOPs per node);
 * RNR (0: an arrival without a posted buffer is an error; 1: the wire waits, as RC does).
 */
#include "params.pml"

#ifndef VERSION
#define VERSION 2
#endif
#ifndef DEPTH
#define DEPTH 2
#endif
#ifndef MSGS
#define MSGS 2
#endif
#ifndef KINDS
#define KINDS 3
#endif
#ifndef SENDS0
#define SENDS0 DEPTH
#endif
#ifndef SENDS1
#define SENDS1 DEPTH
#endif
#ifndef IDLE
#define IDLE 0
#endif
#ifndef RNR
#define RNR 0
#endif

#if VERSION == 1
#define OOB OOB_V1
#ifndef KEPT
#define KEPT KEPT_V1
#endif
#define HIW_DEFAULT HIW_V1(DEPTH)
#else
#define OOB OOB_V2
#ifndef KEPT
#define KEPT KEPT_V2
#endif
#define HIW_DEFAULT HIW_V2(DEPTH, 1, 2)
#endif
#ifndef HIW0
#define HIW0 HIW_DEFAULT
#endif
#ifndef HIW1
#define HIW1 HIW_DEFAULT
#endif

#define RX RX_SLOTS(DEPTH, OOB)

/* Messages. The DONEs of a transfer follow WRITEs; when those are posted, the buffer with the
 * peer's descriptor is free. */
#define IMM 1
#define GET_REQ 2
#define PUT_REQ 3
#define PUT_NAK 4
#define PUT_ACK 5
#define PUT_DONE 6
#define GET_DONE 7
#define NOOP 8
/* On a send queue only: invalidates a sink. */
#define INV 9

#define REPLIES (RX + 2)
#define SQ (SENDS0 + SENDS1 + DEPTH)

/* Type, credits. */
chan wire0 = [SENDS0] of { byte, byte };
chan wire1 = [SENDS1] of { byte, byte };
/* Arrived, to be handled. */
chan cq0 = [RX] of { byte, byte };
chan cq1 = [RX] of { byte, byte };
/* Requests that wait for a reserved buffer; messages that wait for a credit. */
chan rsrvd0 = [MSGS] of { byte };
chan rsrvd1 = [MSGS] of { byte };
chan credit0 = [MSGS] of { byte };
chan credit1 = [MSGS] of { byte };
/* Answers: type, WRITEs have to be posted first. */
chan reply0 = [REPLIES] of { byte, bit };
chan reply1 = [REPLIES] of { byte, bit };
/* Posted and not known to be complete: type, signalled. */
chan sq0 = [SQ] of { byte, bit };
chan sq1 = [SQ] of { byte, bit };

typedef node {
	byte held;	/* credits that we may use */
	byte owed;	/* buffers posted again, the peer not told */
	byte rsrv;	/* buffers for answers, not set aside yet */
	byte granted;	/* credits that the peer has, as far as we know */
	byte posted;	/* receives that the device has */
	byte sends;	/* SENDs not known to be complete */
	byte noops;	/* NOOPs among them */
	byte told;	/* our messages that arrived, not counted as complete yet */
	byte head;	/* oldest entry of the send queue, 0: none; and whether it is signalled */
	bit head_sig;
	byte front;	/* oldest answer, 0: none; and whether WRITEs have to go first */
	bit front_writes;
	byte quiet;	/* completed, but not signalled */
	byte quiet_invs;
	byte left;	/* messages that LNet will still send */
	byte idle;	/* keepalives that will still be due */
	byte imms;	/* buffers that LNet has, by what came in them */
	byte gets;
	byte puts;
	byte invs;	/* sinks to be invalidated */
	byte open;	/* our requests whose answer still needs its reserved buffer */
	/* For the law of conservation: where the peer's credits are. */
	byte used;	/* with a message, or the buffer that it came in */
	byte flight	/* announced by us, not handled by the peer */
};
node n[2];

#define LAW(i, p) (n[i].held + n[p].used + n[p].owed + n[p].flight == DEPTH)
#define SANE(i) (n[i].rsrv + n[i].open == DEPTH && n[i].posted <= RX && \
	n[i].noops <= n[i].sends && n[i].owed + n[i].granted <= DEPTH)

#define NOOP_ALLOWED(i) (n[i].sends < limit && n[i].front == 0 && \
	((VERSION == 2 && n[i].noops < OOB && (len(credit) == 0 || n[i].held == 0)) || \
	(VERSION == 1 && n[i].held > 0 && !(n[i].held == 1 && n[i].owed == 0) && \
	(len(credit) == 0 || n[i].held == 1))))
#define NOOP_DUE(i) ((n[i].owed >= hiw || due) && NOOP_ALLOWED(i))

#define DRAINED(i, rsrvd, credit, cq, wire) (n[i].left == 0 && n[i].idle == 0 && \
	len(rsrvd) == 0 && len(credit) == 0 && n[i].front == 0 && n[i].head == 0 && \
	len(cq) == 0 && len(wire) == 0 && n[i].imms == 0 && n[i].gets == 0 && \
	n[i].puts == 0 && n[i].open == 0 && n[i].used == 0)
#define OVER (DRAINED(0, rsrvd0, credit0, cq0, wire0) && \
	DRAINED(1, rsrvd1, credit1, cq1, wire1))

/* An entry is put on the send queue when it is known whether another one follows. */
inline enqueue() {
	if
	:: has_last -> assert(len(sq) < SQ);
		sq!last_t,(last_t == NOOP || last_t == IMM || last_t == PUT_DONE ||
			last_t == GET_DONE)
	:: else
	fi
}

inline post(type) {
	enqueue();
	has_last = 1;
	last_t = type;
	if
	:: last_t == INV
	:: else ->
		assert(len(to) < limit);
		n[i].flight = n[i].flight + n[i].owed;
		n[i].granted = n[i].granted + n[i].owed;
		to!last_t,n[i].owed;
		n[i].owed = 0;
		n[i].sends++;
		if
		:: last_t == NOOP -> n[i].noops++
		:: else
		fi
	fi
}

inline spend() {
	assert(n[i].held > 0);
	n[i].held--;
	n[p].used++
}

/* A buffer of ours that the peer had used is posted again. */
inline owe() {
	n[i].posted++;
	n[i].used--;
	n[i].owed++;
	assert(n[i].owed + n[i].granted <= DEPTH)
}

/* A buffer that held the answer to a request of ours is posted again. */
inline unreserve() {
	n[i].posted++;
	n[i].rsrv++;
	n[i].open--
}

inline answer(type, writes) {
	assert(len(reply) < REPLIES);
	reply!type,writes
}

/* Posts whatever can be posted. */
inline pump() {
	do
	:: n[i].invs > 0 ->
		n[i].invs--;
		post(INV)
	:: n[i].invs == 0 && len(rsrvd) > 0 && n[i].rsrv > 0 ->
		n[i].rsrv--;
		n[i].open++;
		rsrvd?t;
		credit!t
	:: n[i].invs == 0 && !(len(rsrvd) > 0 && n[i].rsrv > 0) ->
		if
		:: n[i].front == 0 && len(reply) > 0 ->
			reply?t,w;
			n[i].front = t;
			n[i].front_writes = w
		/* WRITEs; then the peer's descriptor is not needed any more. */
		:: n[i].front_writes ->
			n[i].front_writes = 0;
			if
			:: n[i].front == PUT_DONE -> unreserve()
			:: else -> owe()
			fi
		:: n[i].front != 0 && !n[i].front_writes && n[i].sends < limit ->
			t = n[i].front;
			n[i].front = 0;
			post(t)
		:: n[i].front != 0 && !n[i].front_writes && n[i].sends >= limit -> break
		:: n[i].front == 0 && len(reply) == 0 && NOOP_DUE(i) ->
			due = 0;
			if
			:: VERSION == 1 -> spend()
			:: else
			fi;
			post(NOOP)
		:: n[i].front == 0 && len(reply) == 0 && !NOOP_DUE(i) ->
			if
			:: len(credit) > 0 && n[i].held > KEPT && n[i].sends < limit ->
				credit?t;
				spend();
				post(t)
			:: else -> break
			fi
		fi
	od;
	/* The last one is signalled. */
	if
	:: has_last -> assert(len(sq) < SQ);
		sq!last_t,1
	:: else
	fi;
	if
	:: n[i].head == 0 && len(sq) > 0 ->
		sq?t,w;
		n[i].head = t;
		n[i].head_sig = w
	:: else
	fi;
	has_last = 0;
	last_t = 0;
	due = 0;
	t = 0;
	w = 0;
	c = 0;
	assert(LAW(0, 1) && LAW(1, 0) && SANE(0) && SANE(1))
}

/* The peer used a buffer of ours: did it have a credit? */
inline consume() {
	assert(n[i].granted > 0);
	n[i].granted--
}

inline handle() {
	n[i].held = n[i].held + c;
	n[p].flight = n[p].flight - c;
	assert(n[i].held <= DEPTH);
	if
	:: t == NOOP ->
		if
		:: VERSION == 1 -> consume(); owe()
		:: else -> n[i].posted++
		fi
	:: t == IMM -> consume(); n[i].imms++
	:: t == GET_REQ -> consume(); n[i].gets++
	:: t == PUT_REQ -> consume(); n[i].puts++
	:: t == PUT_NAK || t == GET_DONE -> unreserve()
	:: t == PUT_ACK -> answer(PUT_DONE, 1)
	:: t == PUT_DONE -> n[i].invs++
	fi
}

#define CAN_RETIRE (n[i].head == INV || (n[i].head != 0 && n[i].told > 0))

/* Completions, as far as there are any. What is not signalled is known with the next that is. */
inline retire() {
	do
	:: CAN_RETIRE && !w ->
		w = n[i].head_sig;
		if
		:: n[i].head == INV -> n[i].quiet_invs++
		:: else ->
			n[i].told--;
			n[i].quiet++
		fi;
		if
		:: n[i].head == NOOP -> n[i].noops--
		:: else
		fi;
		n[i].head = 0;
		n[i].head_sig = 0;
		if
		:: !w && len(sq) > 0 ->
			sq?t,c;
			n[i].head = t;
			n[i].head_sig = c
		:: else
		fi
	:: else -> break
	od;
	if
	:: w ->
		n[i].sends = n[i].sends - n[i].quiet;
		n[i].quiet = 0;
		do
		:: n[i].quiet_invs > 0 ->
			n[i].quiet_invs--;
			owe()
		:: else -> break
		od
	:: else
	fi;
	w = 0
}

proctype Node(byte i, limit, hiw; chan to, from, cq, rsrvd, credit, reply, sq) {
	byte p = 1 - i;
	byte t, c, last_t;
	bit w, has_last, due;

	do
	:: d_step { n[i].left > 0 -> n[i].left--; credit!IMM; pump() }
	:: d_step { KINDS >= 2 && n[i].left > 0 -> n[i].left--; rsrvd!GET_REQ; pump() }
	:: d_step { KINDS >= 3 && n[i].left > 0 -> n[i].left--; rsrvd!PUT_REQ; pump() }
	:: d_step { len(from) > 0 && (n[i].posted > 0 || !RNR) ->
		assert(n[i].posted > 0);
		n[i].posted--;
		from?t,c;
		cq!t,c;
		n[p].told++;
		t = 0;
		c = 0
	   }
	:: d_step { len(cq) > 0 -> cq?t,c; handle(); pump() }
	:: d_step { CAN_RETIRE -> retire(); pump() }
	:: d_step { n[i].imms > 0 -> n[i].imms--; owe(); pump() }
	:: d_step { n[i].gets > 0 -> n[i].gets--; owe(); answer(GET_DONE, 0); pump() }
	:: d_step { n[i].gets > 0 -> n[i].gets--; answer(GET_DONE, 1); pump() }
	:: d_step { n[i].puts > 0 -> n[i].puts--; owe(); answer(PUT_NAK, 0); pump() }
	:: d_step { n[i].puts > 0 -> n[i].puts--; n[i].posted++; answer(PUT_ACK, 0); pump() }
	:: d_step { n[i].idle > 0 -> n[i].idle--; due = 1; pump() }
	:: OVER -> break
	od
}

init {
	d_step {
		byte k;
		for (k : 0 .. 1) {
			n[k].held = DEPTH;
			n[k].granted = DEPTH;
			n[k].rsrv = DEPTH;
			n[k].posted = RX;
			n[k].left = MSGS;
			n[k].idle = IDLE
		}
		k = 0
	};
	atomic {
		run Node(0, SENDS0, HIW0, wire0, wire1, cq0, rsrvd0, credit0, reply0, sq0);
		run Node(1, SENDS1, HIW1, wire1, wire0, cq1, rsrvd1, credit1, reply1, sq1)
	}
}

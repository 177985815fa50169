/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How two nodes agree on a connection: protocol.md section 14, for one attempt at a time and node.
 * Versions, queue depths, fragment limits, both tie-break rules, rejects and what they teach.
 *
 * Checked: no invalid end state (a run ends only when no message waits and nothing is under
 * way); what is agreed is within both nodes' limits; as long as the CM loses nothing, nobody
 * gives up; the number of attempts is bounded.
 *
 * Knobs (-D), for nodes 0 and 1: VERSION0, VERSION1 the highest version that it speaks; DEPTH0,
 * DEPTH1 its queue depth in version 2; FRAGS0, FRAGS1 its fragment limit; WINS0, WINS1 it
 * believes that the other's request gives way; YIELDS0, YIELDS1 a node that is told that it
 * loses rejects no more, as the engine does and the C driver does not; WANTS0, WANTS1 it has a
 * message to send; RACES rejected before giving in; LOST requests, answers or
 * confirmations that the CM may lose.
 */
#include "params.pml"

#ifndef VERSION0
#define VERSION0 2
#endif
#ifndef VERSION1
#define VERSION1 2
#endif
#ifndef DEPTH0
#define DEPTH0 8
#endif
#ifndef DEPTH1
#define DEPTH1 8
#endif
#ifndef FRAGS0
#define FRAGS0 MAX_FRAGS
#endif
#ifndef FRAGS1
#define FRAGS1 MAX_FRAGS
#endif
#ifndef WINS0
#define WINS0 0
#endif
#ifndef WINS1
#define WINS1 1
#endif
#ifndef YIELDS0
#define YIELDS0 1
#endif
#ifndef YIELDS1
#define YIELDS1 1
#endif
#ifndef WANTS0
#define WANTS0 1
#endif
#ifndef WANTS1
#define WANTS1 1
#endif
#ifndef RACES
#define RACES MAX_RACES
#endif
#ifndef LOST
#define LOST 0
#endif
/* One request for each race, and those that lower limits or version. */
#define ATTEMPTS (RACES + RACES + 6)

/* Answers. FATAL is also what a version 1 node says to a version 2 request. */
#define ACK 1
#define FATAL 2
#define STALE 3
#define RACE 4
#define QUEUE 5
#define FRAGS 6

typedef node {
	byte version;	/* the highest that it speaks */
	byte depth;
	short frags;
	bit wins;
	bit may_yield;
	bit wants;	/* a message waits */
	/* What is known of the peer: its version, 0 if not known, and what it takes. */
	byte known;
	byte offer_depth;
	short offer_frags;
	bit yields;
	byte races;
	byte attempts;
	/* What is under way: our request; theirs, accepted by us. */
	bit connecting;
	byte asked_version;
	byte asked_depth;
	short asked_frags;
	bit accepting;
	byte up		/* established connections */
};
node n[2];
byte lost = LOST;

/* Requests of a node: version, depth, fragments. */
chan req0 = [1] of { byte, byte, short };
chan req1 = [1] of { byte, byte, short };
/* Answers to a node's requests: answer, version, depth, fragments. */
chan rsp0 = [1] of { byte, byte, byte, short };
chan rsp1 = [1] of { byte, byte, byte, short };
/* Confirmation of a node that its request was accepted. */
chan rtu0 = [1] of { bit };
chan rtu1 = [1] of { bit };

#define DEPTH_OF(i, v) (v == 1 -> V1_DEPTH : n[i].depth)
#define MIN(a, b) ((a) < (b) -> (a) : (b))
#define MIN_DEPTH(v) (v == 1 -> MIN_DEPTH_V1 : MIN_DEPTH_V2)
#define IDLE(i) (!n[i].wants && !n[i].connecting && !n[i].accepting)
#define OVER (IDLE(0) && IDLE(1) && len(req0) == 0 && len(req1) == 0 && \
	len(rsp0) == 0 && len(rsp1) == 0 && len(rtu0) == 0 && len(rtu1) == 0)

inline start() {
	n[i].connecting = 1;
	n[i].attempts++;
	assert(n[i].attempts <= ATTEMPTS);
	v = (n[i].known == 0 -> n[i].version : n[i].known);
	d = (v == 1 -> V1_DEPTH : n[i].offer_depth);
	f = (v == 1 -> MIN(n[i].offer_frags, V1_MAX_FRAGS) : n[i].offer_frags);
	n[i].asked_version = v;
	n[i].asked_depth = d;
	n[i].asked_frags = f;
	req!v,d,f
}

/* The attempt is over without a connection, and there is no point in another one. */
inline give_up() {
	n[i].connecting = 0;
	assert(LOST > 0);
	if
	:: n[i].accepting
	:: else -> n[i].wants = 0
	fi
}

/* Node `i` answers the request of its peer. */
inline admit() {
	if
	:: v > n[i].version -> answer!FATAL,n[i].version,0,0
	:: v <= n[i].version && d > DEPTH_OF(i, v) ->
		if
		:: v == 1 -> answer!FATAL,v,0,0
		:: else -> answer!QUEUE,v,DEPTH_OF(i, v),n[i].frags
		fi
	:: v <= n[i].version && d <= DEPTH_OF(i, v) && f > n[i].frags ->
		if
		:: v == 1 -> answer!FATAL,v,0,0
		:: else -> answer!FRAGS,v,DEPTH_OF(i, v),n[i].frags
		fi
	:: v <= n[i].version && d <= DEPTH_OF(i, v) && f <= n[i].frags ->
		if
		:: n[i].known != 0 && n[i].known != v ->
			n[i].known = v;
			answer!STALE,v,0,0
		:: else ->
			n[i].known = v;
			if
			:: n[i].connecting && n[i].wins && !n[i].yields && n[i].races < RACES ->
				n[i].races++;
				answer!RACE,v,0,0
			:: else ->
				n[i].races = 0;
				n[i].accepting = 1;
				if
				:: v == 2 ->
					n[i].offer_depth = MIN(n[i].depth, d);
					n[i].offer_frags = MIN(n[i].frags, f)
				:: else
				fi;
				/* The device may not be able to serve the depth. */
				if
				:: lower && d > MIN_DEPTH(v) -> d = d - 1
				:: else
				fi;
				answer!ACK,v,d,f
			fi
		fi
	fi
}

/* Node `i` handles the answer to its request. What is started again is started by start(). */
inline learn() {
	if
	:: a == ACK ->
		assert(v == n[i].asked_version && v <= n[0].version && v <= n[1].version);
		assert(d >= MIN_DEPTH(v) && d <= n[i].asked_depth);
		assert(d <= DEPTH_OF(0, v) && d <= DEPTH_OF(1, v));
		assert(f > 0 && f <= n[0].frags && f <= n[1].frags);
		n[i].connecting = 0;
		n[i].known = v;
		n[i].wants = 0;
		n[i].up++;
		if
		:: v == 2 -> n[i].offer_depth = MIN(n[i].offer_depth, d)
		:: else
		fi;
		rtu!1
	:: a == RACE ->
		n[i].yields = n[i].may_yield;
		n[i].connecting = 0
	:: a == STALE -> n[i].known = v; n[i].connecting = 0
	:: a == FATAL && v == 1 && n[i].asked_version == 2 ->
		n[i].known = 1;
		n[i].connecting = 0
	:: a == QUEUE && d > 0 && d < n[i].asked_depth ->
		n[i].known = v;
		n[i].offer_depth = d;
		n[i].connecting = 0
	:: a == FRAGS && f > 0 && f < n[i].asked_frags ->
		n[i].known = v;
		n[i].offer_frags = f;
		n[i].connecting = 0
	:: else -> give_up()
	fi
}

/* Node `i` is the one that the peer's request reaches, and that answers and confirmations for
 * its own requests come to. */
proctype Node(byte i; chan req, rsp, rtu, peer_req, answer, peer_rtu) {
	byte a, v, d;
	short f;
	bit lower;

	do
	:: d_step { n[i].wants && !n[i].connecting && !n[i].accepting && len(req) == 0 ->
		start();
		v = 0; d = 0; f = 0
	   }
	:: d_step { len(peer_req) > 0 && len(answer) == 0 ->
		peer_req?v,d,f; admit();
		v = 0; d = 0; f = 0
	   }
	:: d_step { len(peer_req) > 0 && len(answer) == 0 ->
		lower = 1; peer_req?v,d,f; admit();
		lower = 0; v = 0; d = 0; f = 0
	   }
	:: d_step { len(rsp) > 0 ->
		rsp?a,v,d,f; learn();
		a = 0; v = 0; d = 0; f = 0
	   }
	:: d_step { len(peer_rtu) > 0 && n[i].accepting ->
		peer_rtu?a;
		a = 0;
		n[i].accepting = 0;
		n[i].wants = 0;
		n[i].up++
	   }
	/* Lost: the request; the answer, which also ends what was accepted; the confirmation. */
	:: d_step { len(req) > 0 && lost > 0 ->
		lost--; req?v,d,f; give_up();
		v = 0; d = 0; f = 0
	   }
	:: d_step { len(rsp) > 0 && lost > 0 ->
		lost--; rsp?a,v,d,f;
		if
		:: a == ACK -> n[1 - i].accepting = 0
		:: else
		fi;
		give_up();
		a = 0; v = 0; d = 0; f = 0
	   }
	/* The first message of the peer stands for it (LU-8303), or the peer goes away too. */
	:: d_step { len(peer_rtu) > 0 && n[i].accepting && lost > 0 ->
		lost--; peer_rtu?a;
		a = 0;
		n[i].accepting = 0;
		n[1 - i].up--
	   }
	:: OVER -> break
	od
}

#define SETUP(i, version_, depth_, frags_, wins_, yields_, wants_) \
	n[i].version = version_; n[i].depth = depth_; n[i].frags = frags_; \
	n[i].offer_depth = depth_; n[i].offer_frags = frags_; \
	n[i].wins = wins_; n[i].may_yield = yields_; n[i].wants = wants_

init {
	d_step {
		SETUP(0, VERSION0, DEPTH0, FRAGS0, WINS0, YIELDS0, WANTS0);
		SETUP(1, VERSION1, DEPTH1, FRAGS1, WINS1, YIELDS1, WANTS1)
	};
	atomic {
		run Node(0, req0, rsp0, rtu0, req1, rsp1, rtu1);
		run Node(1, req1, rsp1, rtu1, req0, rsp0, rtu0)
	};
	/* With nothing lost, both have a connection, and the same number of them. */
	OVER && _nr_pr == 1;
	assert(LOST > 0 || (n[0].up > 0 && n[0].up == n[1].up))
}

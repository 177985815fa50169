#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""A peer of before release 2.15, that knows 256 fragments and no more, among nodes with real LNet.

usage: oldpeer_ping.py SRC_IP DST_IP --asked DIR    (where kor_evil.ko is loaded)

SRC_IP is an address of this node on which no LND listens; DST_IP is the node under test. First it
connects, offering 256 fragments, and pings the node. Then it makes the file DIR/asked: the node
under test must ping SRC_IP, and is answered as such a peer does it, until DIR/over is there: a
request for 257 fragments is refused with 256, the next must ask for no more. Exits 0 when all went
as protocol.md says (sections 14.2 to 14.5).
"""
import argparse
import os
import struct
import sys
import time

from evil import (CONNACK, CONNREQ, FRAGS, GET, IMMEDIATE, MAGIC, MSG_BYTES, PORT, REPLY, V2,
                  Peer, command)

OLD_FRAGS = 256
PING_MAGIC, PING_FEATURES, PID = 0x70696E67, 3, 12345
PING_BITS = 0x8000000000000000
NI_UP, LOOPBACK = 0x15AAC0DE, 9 << 48
ANSWER_S = 60


def check(what, good, seen):
    print(f"oldpeer: {'ok  ' if good else 'FAIL'} {what}: {seen}", flush=True)
    if not good:
        sys.exit(1)


def frags_of(private):
    """The fragments in a CONNREQ or CONNACK."""
    return struct.unpack_from("<H", private, 50)[0]


def ping_request(p):
    union = struct.pack("<QQQIII", 0x1234, 0x5678, PING_BITS, 0, 0, 4096)
    head = struct.pack("<QQIIII", p.dst, p.src, PID, PID, GET, 0)
    return p.msg(IMMEDIATE, head + union.ljust(40, b"\0"))


def ping_reply(p, request):
    """The answer to a GET in an IMMEDIATE: who we are."""
    handle = request[80:96]
    payload = struct.pack("<IIII", PING_MAGIC, PING_FEATURES, PID, 2)
    for nid in (LOOPBACK, p.src):
        payload += struct.pack("<QII", nid, NI_UP, 0)
    head = struct.pack("<QQIIII", p.dst, p.src, PID, PID, REPLY, len(payload))
    return p.msg(IMMEDIATE, head + handle.ljust(40, b"\0") + payload)


def lnet_type(message):
    return struct.unpack_from("<I", message, 72)[0] if message[6] == IMMEDIATE else None


def received(ms):
    out = command(f"recv {ms}")
    return bytes.fromhex(out[1]) if out[0] == "received" else None


def asks(p):
    out = command(f"connect {args.src} {args.dst} {PORT} "
                  f"{p.msg(CONNREQ, p.params(frags=OLD_FRAGS), dststamp=0).hex()}")
    check("a request for 256 fragments", out[0] == "accepted", out[0])
    answer = bytes.fromhex(out[1])
    check("fragments in the answer", frags_of(answer) == OLD_FRAGS, frags_of(answer))
    p.stamp = struct.unpack_from("<Q", answer, 24)[0]
    check("a ping", command(f"send {ping_request(p).hex()}") == ["sent"], "sent")
    end = time.monotonic() + ANSWER_S
    reply = None
    while time.monotonic() < end and not (reply and lnet_type(reply) == REPLY):
        reply = received(1000)
    good = reply and struct.unpack_from("<I", reply, 120)[0] == PING_MAGIC
    check("its reply", good, reply and reply[120:136].hex())
    command("close")


def asked():
    """The fragments that the next request wants."""
    out = command(f"requested {ANSWER_S * 1000}")
    check("a request", out[0] == "requested", out[0])
    return frags_of(bytes.fromhex(out[1]))


def is_asked(p):
    refusal = struct.pack("<IHBBQHHI", MAGIC, V2, FRAGS, 0, 0x0005F0A1B2C3D4E5, 8, OLD_FRAGS,
                          MSG_BYTES)
    answer = p.msg(CONNACK, p.params(frags=OLD_FRAGS))
    check("listening", command(f"listen {args.src} {PORT} reject {refusal.hex()} "
                               f"accept {answer.hex()}") == ["listening"], args.src)
    with open(os.path.join(args.asked, "asked"), "w", encoding="ascii"):
        pass
    first = asked()
    check("the first request wants more", first > OLD_FRAGS, first)
    second = asked()
    check("the next one wants as many as there are", second == OLD_FRAGS, second)
    end = time.monotonic() + ANSWER_S
    pings = 0
    while time.monotonic() < end and not os.path.exists(os.path.join(args.asked, "over")):
        try:
            message = received(500)
        except OSError:     # not connected yet
            time.sleep(0.1)
            continue
        if not message or lnet_type(message) != GET:
            continue
        check("an answer to a ping", command(f"send {ping_reply(p, message).hex()}")
              == ["sent"], "sent")
        pings += 1
    check("pings answered", pings > 0, pings)
    command("close")


ap = argparse.ArgumentParser(description=__doc__)
ap.add_argument("src")
ap.add_argument("dst")
ap.add_argument("--asked", required=True)
args = ap.parse_args()
peer = Peer(args.src, args.dst)
asks(peer)
is_asked(peer)
print("oldpeer: 256 fragments both ways")

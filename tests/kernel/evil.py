#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The hostile peer's script: every malformed message of the validation list, one by one.

usage: evil.py SRC_IP DST_IP [--depth N] [--asked DIR]    (where kor_evil.ko is loaded)

SRC_IP is an address of this node on which no LND listens; DST_IP is the node under test, whose
queue depth is N (default 8). Prints one line a case and a total; exits 0 when every case ended as
protocol.md says (sections 9 and 14.2 to 14.5).

With --asked, bad answers are tried too: for each, a file DIR/go.K is made, then the node under test
must send to SRC_IP and leave the outcome, "0" or the error, in DIR/went.K.
"""
import argparse
import ipaddress
import os
import struct
import sys
import time

DEBUGFS = "/sys/kernel/debug/kor_evil/"
PORT = 987
MAGIC, V2, MSG_BYTES, MAX_FRAGS = 0x0BE91B91, 0x12, 4096, 257
CONNREQ, CONNACK, NOOP, IMMEDIATE, PUT_REQ, PUT_NAK, PUT_ACK, PUT_DONE, GET_REQ, GET_DONE = (
    0xC0, 0xC1, 0xD0, 0xD1, 0xD2, 0xD3, 0xD4, 0xD5, 0xD6, 0xD7)
CONN_RACE, NO_RESOURCES, FATAL, UNCOMPAT, STALE, FRAGS, QUEUE_SIZE, SRV_ID, EARLY = range(1, 10)
ACK, PUT, GET, REPLY, HELLO = range(5)
CONSUMER_DEFINED = 28
MY_STAMP = 0x0005F0A1B2C3D4E5
OK_MS, CLOSE_MS = 500, 5000
ASKED_S = 100
# How many requests, and how many of them the node under test is to accept.
FLOOD, PENDING = 40, 32


def nid(ip):
    return (5 << 48) | int(ipaddress.IPv4Address(ip))


def command(text):
    with open(DEBUGFS + "cmd", "w", encoding="ascii") as f:
        f.write(text)
    with open(DEBUGFS + "out", encoding="ascii") as f:
        return f.read().split()


def cksum(data):
    total = 0
    for byte in data:
        total = ((total << 1 | total >> 31) + byte) & 0xFFFFFFFF
    return total or 1


class Peer:
    """Messages from us to the node under test, right unless a keyword says otherwise."""

    def __init__(self, src, dst):
        self.src, self.dst = nid(src), nid(dst)
        self.stamp = 0

    def msg(self, kind, body=b"", magic=MAGIC, version=V2, credits=0, nob=None, srcnid=None,
            srcstamp=MY_STAMP, dstnid=None, dststamp=None, sum=0, cut=None):
        nob = 48 + len(body) if nob is None else nob
        out = struct.pack("<IHBBIIQQQQ", magic, version, kind, credits, nob, sum,
                          self.src if srcnid is None else srcnid, srcstamp,
                          self.dst if dstnid is None else dstnid,
                          self.stamp if dststamp is None else dststamp) + body
        return out[:cut]

    def params(self, depth=8, frags=MAX_FRAGS, size=MSG_BYTES):
        return struct.pack("<HHI", depth, frags, size)

    def lnet(self, kind, payload=0, dest=None, src=None):
        head = struct.pack("<QQIIII", self.dst if dest is None else dest,
                           self.src if src is None else src, 12345, 12345, kind, payload)
        union = struct.pack("<QQQ", 2 ** 64 - 1, 2 ** 64 - 1, 0x77)
        if kind == PUT:
            union += struct.pack("<QII", 0, 63, 0)
        elif kind == GET:
            union += struct.pack("<III", 63, 0, 8192)
        return head + union.ljust(40, b"\0")

    def desc(self, frags, key=0x1234, count=None):
        out = struct.pack("<II", key, len(frags) if count is None else count)
        return out + b"".join(struct.pack("<IQ", n, a) for a, n in frags)

    def cookie(self, value=0x77):
        return struct.pack("<Q", value)

    def done(self, cookie=0x7777, status=0):
        return struct.pack("<Qi", cookie, status)


class Cases:
    def __init__(self, peer, args):
        self.peer, self.args = peer, args
        self.passed = self.failed = self.rounds = 0

    def verdict(self, name, want, got):
        good = got == want
        self.passed += good
        self.failed += not good
        print(f"evil: {'ok  ' if good else 'FAIL'} {name}" + ("" if good else f": {got}, not {want}"),
              flush=True)

    def connect(self, private):
        return command(f"connect {self.args.src} {self.args.dst} {PORT} {private.hex()}")

    def open(self):
        """A good connection; learns the other side's incarnation."""
        p = self.peer
        out = self.connect(p.msg(CONNREQ, p.params(self.args.depth), dststamp=0))
        if out[0] == "rejected" and out[1] == str(CONSUMER_DEFINED):
            # Our last connection is still being taken down: its incarnation is what it said.
            command("close")
            out = self.connect(p.msg(CONNREQ, p.params(self.args.depth), dststamp=0))
        if out[0] != "accepted":
            sys.exit(f"evil: a good CONNREQ was not accepted: {out}")
        p.stamp = struct.unpack_from("<Q", bytes.fromhex(out[1]), 24)[0]

    def refused(self, name, private, why):
        out = self.connect(private)
        command("close")
        got = out[:2]
        if out[0] == "rejected" and len(out) > 2:
            got = bytes.fromhex(out[2])[6]
        self.verdict(f"CONNREQ: {name}", why, got)

    def closes(self, name, *messages):
        """Sends on a good connection; the node under test must close it."""
        self.open()
        for m in messages:
            if command(f"send {m.hex()}")[0] != "sent":
                break
        self.verdict(f"QP: {name}", ["closed"], command(f"closed {CLOSE_MS}"))
        command("close")

    def survives(self, name, *messages):
        self.open()
        for m in messages:
            command(f"send {m.hex()}")
        self.verdict(f"QP: {name}", ["timeout"], command(f"closed {OK_MS}"))
        command("close")

    def asked(self, name, verb, private):
        """The node under test connects to us, and gets a bad answer: its message must fail."""
        out = command(f"listen {self.args.src} {PORT} {verb} {private.hex()}")
        if out != ["listening"]:
            sys.exit(f"evil: cannot listen: {out}")
        self.rounds += 1
        answer = os.path.join(self.args.asked, f"went.{self.rounds}")
        with open(os.path.join(self.args.asked, f"go.{self.rounds}"), "w", encoding="ascii"):
            pass
        end = time.monotonic() + ASKED_S
        while not os.path.exists(answer):
            if time.monotonic() > end:
                sys.exit(f"evil: no outcome of {name}")
            time.sleep(0.05)
        time.sleep(0.05)
        with open(answer, encoding="ascii") as f:
            got = f.read().strip()
        self.verdict(f"{verb}ed with {name}", "failed",
                     "failed" if got not in ("", "0") else f"outcome '{got}'")
        command("close")


def reject_cases(c):
    """Answers to our CONNREQ that refuse it: the attempt ends, whatever is in them."""
    stamp = c.peer.stamp

    def reject(why, depth=8, frags=MAX_FRAGS, magic=MAGIC, version=V2, cut=None):
        return struct.pack("<IHBBQHHI", magic, version, why, 0, stamp, depth, frags,
                           MSG_BYTES)[:cut]

    for why in (NO_RESOURCES, FATAL, UNCOMPAT, SRV_ID, EARLY, 0, 10, 255):
        c.asked(f"reason {why}", "reject", reject(why))
    c.asked("a wrong magic", "reject", reject(FATAL, magic=0x12345678))
    c.asked("an unknown version", "reject", reject(FATAL, version=0x99))
    c.asked("nothing", "reject", b"\0")
    c.asked("a queue depth of 0", "reject", reject(QUEUE_SIZE, depth=0))
    c.asked("a queue depth above ours", "reject", reject(QUEUE_SIZE, depth=255))
    c.asked("0 fragments", "reject", reject(FRAGS, frags=0))
    c.asked("too many fragments", "reject", reject(FRAGS, frags=9999))
    c.asked("one race after the other", "reject", reject(CONN_RACE))
    c.asked("a stale incarnation, always", "reject", reject(STALE))


def connack_cases(c):
    """Answers to our CONNREQ that accept it, but wrongly: the connection is closed."""
    p = c.peer
    c.asked("no CONNACK", "accept", b"\0")
    c.asked("a CONNREQ", "accept", p.msg(CONNREQ, p.params()))
    c.asked("a NOOP", "accept", p.msg(NOOP, p.params()))
    c.asked("a wrong magic", "accept", p.msg(CONNACK, p.params(), magic=0x12345678))
    c.asked("version 1 to a request of version 2", "accept",
            p.msg(CONNACK, p.params(), version=0x11))
    c.asked("a bad checksum", "accept", p.msg(CONNACK, p.params(), sum=1))
    c.asked("nob under the minimum", "accept", p.msg(CONNACK, p.params(), nob=55))
    c.asked("a queue depth above ours", "accept", p.msg(CONNACK, p.params(depth=9)))
    c.asked("a queue depth of 0", "accept", p.msg(CONNACK, p.params(depth=0)))
    c.asked("more fragments than asked", "accept", p.msg(CONNACK, p.params(frags=258)))
    c.asked("0 fragments", "accept", p.msg(CONNACK, p.params(frags=0)))
    c.asked("a message size above 4096", "accept", p.msg(CONNACK, p.params(size=4097)))
    c.asked("another destination NID", "accept",
            p.msg(CONNACK, p.params(), dstnid=nid("10.77.77.77")))
    c.asked("another destination incarnation", "accept",
            p.msg(CONNACK, p.params(), dststamp=p.stamp + 1))


def connreq_cases(c):
    p = c.peer
    good = dict(dststamp=0)
    c.open()
    stamp = p.stamp
    command("close")
    c.refused("no private data", b"\0", FATAL)
    c.refused("wrong magic", p.msg(CONNREQ, p.params(), magic=0x12345678, **good), FATAL)
    c.refused("unified LNet magic", p.msg(CONNREQ, p.params(), magic=0x45726963, **good), FATAL)
    c.refused("unknown version", p.msg(CONNREQ, p.params(), version=0x13, **good), FATAL)
    c.refused("cut inside the header", p.msg(CONNREQ, p.params(), cut=20, **good), FATAL)
    c.refused("nob over the length", p.msg(CONNREQ, p.params(), nob=57, **good), FATAL)
    c.refused("nob under the minimum", p.msg(CONNREQ, p.params(), nob=55, **good), FATAL)
    c.refused("bad checksum", p.msg(CONNREQ, p.params(), sum=0xDEAD, **good), FATAL)
    c.refused("source NID is the wildcard",
              p.msg(CONNREQ, p.params(), srcnid=2 ** 64 - 1, **good), FATAL)
    c.refused("source NID of another node",
              p.msg(CONNREQ, p.params(), srcnid=nid("10.77.77.77"), **good), FATAL)
    c.refused("source NID on another network",
              p.msg(CONNREQ, p.params(), srcnid=p.src | 1 << 32, **good), FATAL)
    c.refused("unknown type", p.msg(0xE0, p.params(), **good), FATAL)
    c.refused("a NOOP", p.msg(NOOP, p.params(), **good), FATAL)
    c.refused("a CONNACK", p.msg(CONNACK, p.params(), **good), FATAL)
    c.refused("for a NID that is not here",
              p.msg(CONNREQ, p.params(), dstnid=nid("10.77.77.77"), **good), FATAL)
    c.refused("for an earlier incarnation",
              p.msg(CONNREQ, p.params(), dststamp=stamp ^ 1), STALE)
    c.refused("queue depth too large", p.msg(CONNREQ, p.params(depth=256), **good), QUEUE_SIZE)
    c.refused("queue depth 0", p.msg(CONNREQ, p.params(depth=0), **good), FATAL)
    c.refused("fragments too many", p.msg(CONNREQ, p.params(frags=258), **good), FRAGS)
    c.refused("fragments 0", p.msg(CONNREQ, p.params(frags=0), **good), FATAL)
    c.refused("message size too large", p.msg(CONNREQ, p.params(size=4097), **good), FATAL)


def flood_case(c):
    """Connections that are accepted and never established: some are enough."""
    p = c.peer
    private = p.msg(CONNREQ, p.params(c.args.depth), dststamp=0)
    out = command(f"flood {FLOOD} {c.args.src} {c.args.dst} {PORT} {private.hex()}")
    command("close")
    c.verdict(f"{FLOOD} connections that are never established",
              ["flooded", str(PENDING), str(FLOOD - PENDING), str(NO_RESOURCES)], out)


def header_cases(c):
    p = c.peer
    c.open()    # learn the incarnation before the messages below are built
    command("close")
    c.survives("a good NOOP", p.msg(NOOP))
    c.closes("5 bytes", p.msg(NOOP, cut=5))
    c.closes("wrong magic", p.msg(NOOP, magic=0x12345678))
    c.closes("unknown version", p.msg(NOOP, version=0x10))
    c.closes("47 bytes", p.msg(NOOP, cut=47))
    c.closes("nob over the length", p.msg(NOOP, nob=49))
    c.closes("bad checksum", p.msg(NOOP, sum=1))
    good = p.msg(NOOP)
    c.survives("a good checksum", good[:12] + struct.pack("<I", cksum(good)) + good[16:])
    c.closes("source NID is the wildcard", p.msg(NOOP, srcnid=2 ** 64 - 1))
    c.closes("unknown type", p.msg(0xDF))
    c.closes("another source NID", p.msg(NOOP, srcnid=nid("10.77.77.77")))
    c.closes("another destination NID", p.msg(NOOP, dstnid=nid("10.77.77.77")))
    c.closes("another source incarnation", p.msg(NOOP, srcstamp=MY_STAMP + 1))
    c.closes("another destination incarnation", p.msg(NOOP, dststamp=p.stamp + 1))
    c.closes("more credits than the queue is deep", p.msg(NOOP, credits=1))
    c.closes("255 credits", p.msg(NOOP, credits=255))
    c.closes("CONNREQ on the QP", p.msg(CONNREQ, p.params()))
    c.closes("CONNACK on the QP", p.msg(CONNACK, p.params()))


def short_cases(c):
    p = c.peer
    c.closes("IMMEDIATE of 119 bytes", p.msg(IMMEDIATE, p.lnet(ACK)[:71]))
    c.closes("PUT_REQ of 127 bytes", p.msg(PUT_REQ, (p.lnet(PUT, 8192) + p.cookie())[:79]))
    c.closes("PUT_ACK of 71 bytes", p.msg(PUT_ACK, (p.cookie() * 2 + p.desc([]))[:23]))
    c.closes("GET_REQ of 135 bytes",
             p.msg(GET_REQ, (p.lnet(GET) + p.cookie() + p.desc([]))[:87]))
    for kind, name in ((PUT_NAK, "PUT_NAK"), (PUT_DONE, "PUT_DONE"), (GET_DONE, "GET_DONE")):
        c.closes(f"{name} of 59 bytes", p.msg(kind, p.done()[:11]))
        c.closes(f"{name} for nothing", p.msg(kind, p.done()))


def descriptor_cases(c):
    p = c.peer
    frag = (0x7F0000000000, 4096)
    two = p.cookie() * 2

    def get(desc, **kw):
        return p.msg(GET_REQ, p.lnet(GET) + p.cookie() + desc, **kw)

    c.closes("PUT_ACK with 0 fragments", p.msg(PUT_ACK, two + p.desc([])))
    c.closes("PUT_ACK with 258 fragments", p.msg(PUT_ACK, two + p.desc([frag] * 258)))
    c.closes("PUT_ACK with a fragment cut off", p.msg(PUT_ACK, two + p.desc([frag], count=2)))
    c.closes("PUT_ACK with 2^32-1 fragments",
             p.msg(PUT_ACK, two + p.desc([frag], count=2 ** 32 - 1)))
    c.closes("PUT_ACK for nothing", p.msg(PUT_ACK, two + p.desc([frag])))
    c.closes("PUT_ACK whose fragments overflow",
             p.msg(PUT_ACK, two + p.desc([(0, 2 ** 32 - 1)] * 2)))
    c.closes("GET_REQ with 0 fragments", get(p.desc([])))
    c.closes("GET_REQ with 258 fragments", get(p.desc([frag] * 258)))
    c.closes("GET_REQ with a fragment cut off", get(p.desc([frag], count=2)))
    c.closes("GET_REQ whose fragments overflow", get(p.desc([(0, 2 ** 32 - 1)] * 2)))


def lnet_cases(c):
    p = c.peer
    sink = p.cookie() + p.desc([(0x7F0000000000, 8192)])
    c.closes("IMMEDIATE whose payload is not all there",
             p.msg(IMMEDIATE, p.lnet(PUT, 100) + b"x" * 99))
    c.closes("IMMEDIATE with a payload of 2^32-1", p.msg(IMMEDIATE, p.lnet(PUT, 2 ** 32 - 1)))
    c.closes("IMMEDIATE HELLO", p.msg(IMMEDIATE, p.lnet(HELLO)))
    c.closes("IMMEDIATE of an unknown LNet type", p.msg(IMMEDIATE, p.lnet(77)))
    c.closes("PUT_REQ that carries a GET", p.msg(PUT_REQ, p.lnet(GET) + p.cookie()))
    c.closes("PUT_REQ that carries an ACK", p.msg(PUT_REQ, p.lnet(ACK) + p.cookie()))
    c.closes("PUT_REQ that carries a HELLO", p.msg(PUT_REQ, p.lnet(HELLO) + p.cookie()))
    c.closes("GET_REQ that carries a PUT", p.msg(GET_REQ, p.lnet(PUT, 8192) + sink))
    c.closes("GET_REQ that carries a REPLY", p.msg(GET_REQ, p.lnet(REPLY, 8192) + sink))
    c.closes("GET_REQ that carries a HELLO", p.msg(GET_REQ, p.lnet(HELLO) + sink))
    c.survives("a PUT that nobody waits for", p.msg(IMMEDIATE, p.lnet(PUT, 5) + b"hello"))


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("src")
    ap.add_argument("dst")
    ap.add_argument("--depth", type=int, default=8)
    ap.add_argument("--asked")
    args = ap.parse_args()
    c = Cases(Peer(args.src, args.dst), args)
    for group in (connreq_cases, header_cases, short_cases, descriptor_cases, lnet_cases):
        group(c)
    if args.asked:
        reject_cases(c)
        connack_cases(c)
    flood_case(c)
    print(f"evil: {c.passed} passed, {c.failed} failed")
    sys.exit(1 if c.failed else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""A peer from before Lustre 2.15, which knows 256 fragments, and one that speaks version 1 only.

To be run where kor_evil.ko is loaded. SRC_IP is an address of this node on which no LND listens; DST_IP is the node under test. It starts
connections, and answers those that the node under test starts: for that a file DIR/go.K holds what
that node is to send, and DIR/went.K the outcome. Prints one line a case and a total.
"""
import argparse
import os
import struct
import sys
import time

import evil
from evil import (CONNACK, CONNREQ, FATAL, FRAGS, GET, GET_DONE, GET_REQ, IMMEDIATE, NOOP, PUT_ACK,
                  PUT_DONE, PUT_REQ, command)

V1, V2, OLD_FRAGS, DEPTH, SIZE = 0x11, 0x12, 256, 8, 1 << 20
WAIT_S = 60


def pattern(seed, size):
    """What the stand-in fills the payload of the message with this hdr_data with."""
    mask, out = 2 ** 64 - 1, bytearray()
    for n in range((size + 7) // 8):
        x = ((seed ^ 0x6B6F722D6C6E6474) + n * 0x9E3779B97F4A7C15) & mask
        x ^= x >> 29
        x = x * 0xBF58476D1CE4E5B9 & mask
        out += struct.pack("<Q", x ^ x >> 32)
    # no byte of it is the stand-in's poison
    return bytes(out[:size]).replace(b"\xa5", b"\xa4")


class OldPeer(evil.Peer):
    def __init__(self, src, dst, directory):
        super().__init__(src, dst)
        self.src_ip, self.dst_ip, self.dir, self.round = src, dst, directory, 0
        self.passed = self.failed = 0
        self.owed = 0
        self.version = V2

    def verdict(self, name, good, got=""):
        self.passed += good
        self.failed += not good
        print(f"oldpeer: {'ok  ' if good else 'FAIL'} {name} {'' if good else got}", flush=True)

    def say(self, kind, body=b""):
        out = command("send " + self.msg(kind, body, version=self.version,
                                         credits=self.owed).hex())
        self.owed = 0
        if out != ["sent"]:
            sys.exit(f"oldpeer: cannot send: {out}")

    def hear(self, want):
        """The next message but NOOPs, of this kind."""
        while True:
            out = self.received()
            if out[0] != "received":
                sys.exit(f"oldpeer: no message of kind {want:#x}: {out}")
            data = bytes.fromhex(out[1])
            if data[:4] != struct.pack("<I", evil.MAGIC) or data[4] != self.version & 0xFF:
                sys.exit(f"oldpeer: not version {self.version:#x}: {data[:8].hex()}")
            kind = data[6]
            if kind == NOOP:
                self.owed += self.version == V1
                continue
            if kind != want:
                sys.exit(f"oldpeer: kind {kind:#x}, not {want:#x}")
            return data

    @staticmethod
    def received():
        end = time.monotonic() + WAIT_S
        while True:
            try:
                return command("recv 30000")
            except OSError:     # a request was answered, its queue pair is not there yet
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def ask(self, words):
        """Has the node under test run a command, which it does meanwhile."""
        self.round += 1
        path = os.path.join(self.dir, f"go.{self.round}")
        with open(path + ".part", "w", encoding="ascii") as f:
            f.write(words)
        os.rename(path + ".part", path)

    def outcome(self):
        path = os.path.join(self.dir, f"went.{self.round}")
        end = time.monotonic() + WAIT_S
        while not os.path.exists(path):
            if time.monotonic() > end:
                sys.exit("oldpeer: no outcome")
            time.sleep(0.05)
        with open(path, encoding="ascii") as f:
            return f.read().strip()

    # --- one exchange each -----------------------------------------------------------------------

    def take_immediate(self):
        self.ask("put size=100")
        data = self.hear(IMMEDIATE)
        self.owed += 1
        seed = struct.unpack_from("<Q", data, 48 + 32 + 24)[0]
        self.verdict("IMMEDIATE arrives", data[120:220] == pattern(seed, 100))
        self.verdict("IMMEDIATE ends well", self.outcome() == "0")

    def take_put(self):
        """A PUT of 1 MiB into a sink of as many fragments as the old peer has."""
        key, addr = map(int, command(f"sink {SIZE}")[1:])
        self.ask(f"put size={SIZE}")
        data = self.hear(PUT_REQ)
        seed = struct.unpack_from("<Q", data, 48 + 32 + 24)[0]
        cookie = data[120:128]
        each = SIZE // OLD_FRAGS
        frags = [(addr + n * each, each) for n in range(OLD_FRAGS)]
        self.say(PUT_ACK, cookie + self.cookie(0x99) + self.desc(frags, key))
        done = self.hear(PUT_DONE)
        self.owed += 1
        got, status = struct.unpack_from("<Qi", done, 48)
        self.verdict("PUT_DONE for our cookie, without an error", got == 0x99 and status >= 0)
        want, seen = pattern(seed, SIZE), b""
        while len(seen) < SIZE:
            seen += bytes.fromhex(command(f"peek {len(seen)} 4096")[1])
        self.verdict(f"{OLD_FRAGS} fragments are filled", seen == want)
        self.verdict("PUT ends well", self.outcome() == "0")

    def take_get(self):
        """A GET of 1 MiB that nothing matches here."""
        self.ask(f"get size={SIZE}")
        data = self.hear(GET_REQ)
        self.owed += 1
        count = struct.unpack_from("<I", data, 48 + 72 + 8 + 4)[0]
        self.verdict(f"GET_REQ asks for at most {OLD_FRAGS} fragments", 1 <= count <= OLD_FRAGS)
        self.say(GET_DONE, struct.pack("<Qi", struct.unpack_from("<Q", data, 120)[0], -61))
        self.verdict("GET fails with our status", self.outcome() != "0")

    def exchanges(self):
        self.take_immediate()
        self.take_put()
        self.take_get()
        command("close")

    # --- connecting ------------------------------------------------------------------------------

    def params_of(self, data):
        return struct.unpack_from("<HHI", data, 48)

    def connect(self, version):
        self.version, self.owed = version, 0
        request = self.msg(CONNREQ, self.params(DEPTH, OLD_FRAGS), version=version, dststamp=0)
        for _ in range(50):
            out = command(f"connect {self.src_ip} {self.dst_ip} {evil.PORT} {request.hex()}")
            if out[0] == "accepted":
                break
            # Our last connection is still being taken down.
            command("close")
            time.sleep(0.1)
        else:
            sys.exit(f"oldpeer: not accepted: {out}")
        data = bytes.fromhex(out[1])
        self.stamp = struct.unpack_from("<Q", data, 24)[0]
        self.verdict(f"CONNACK of version {version:#x} with {OLD_FRAGS} fragments",
                     data[4] == version and self.params_of(data)[:2] == (DEPTH, OLD_FRAGS),
                     data.hex())

    def reject(self, why, version):
        return struct.pack("<IHBBQHHI", evil.MAGIC, version, why, 0, evil.MY_STAMP, DEPTH, OLD_FRAGS,
                           evil.MSG_BYTES)

    def be_asked(self, name, why, version):
        """Refuses what the node under test proposes first, and takes what it proposes then."""
        self.version, self.owed = version, 0
        ack = self.msg(CONNACK, self.params(DEPTH, OLD_FRAGS), version=version)
        out = command(f"listen {self.src_ip} {evil.PORT} reject {self.reject(why, version).hex()} "
                      f"accept {ack.hex()}")
        if out != ["listening"]:
            sys.exit(f"oldpeer: cannot listen: {out}")
        self.ask("forget")
        self.outcome()
        self.ask("ping timeout_ms=2000")
        data = self.hear_request()
        self.verdict(f"{name}: the first request proposes version 2 and 257 fragments",
                     data[4] == V2 and self.params_of(data)[1] == 257, data.hex())
        again = self.hear_request()
        self.verdict(f"{name}: the second one version {version:#x} and {OLD_FRAGS}",
                     again[4] == version and self.params_of(again)[1] == OLD_FRAGS, again.hex())
        ping = self.hear(IMMEDIATE)
        self.owed += 1
        self.verdict(f"{name}: a ping comes", struct.unpack_from("<I", ping, 72)[0] == GET)
        self.verdict(f"{name}: it is not answered", self.outcome() != "0")
        self.exchanges()

    def hear_request(self):
        out = command("requested 20000")
        if out[0] != "requested":
            sys.exit(f"oldpeer: no request: {out}")
        return bytes.fromhex(out[1])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("SRC_IP", "DST_IP", "DIR"):
        parser.add_argument(name)
    args = parser.parse_args()
    peer = OldPeer(args.SRC_IP, args.DST_IP, args.DIR)
    for version in (V2, V1):
        peer.connect(version)
        peer.exchanges()
    peer.be_asked("256 fragments", FRAGS, V2)
    peer.be_asked("version 1", FATAL, V1)
    print(f"oldpeer: {peer.passed} passed, {peer.failed} failed")
    sys.exit(1 if peer.failed or not peer.passed else 0)


if __name__ == "__main__":
    main()

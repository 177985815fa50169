#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The outside judge: what Debian's tshark decodes of our traffic against what our counters say.

CAPTURE is taken on the host end of the veth between two nodes. A STATS file is a copy of
/sys/kernel/debug/ko2iblnd/stats of a node, taken after the traffic and before the module went;
its lines `nid A.B.C.D@o2ib`, `sent TYPE MESSAGES BYTES` and `received TYPE MESSAGES BYTES` are read.

Without STATS files only the capture itself is judged. Exits 0 when every check holds, and prints
one line per check that does not.
"""
import argparse
import collections
import subprocess
import sys

TYPES = {
    0xC0: "CONNREQ", 0xC1: "CONNACK", 0xD0: "NOOP", 0xD1: "IMMEDIATE", 0xD2: "PUT_REQ",
    0xD3: "PUT_NAK", 0xD4: "PUT_ACK", 0xD5: "PUT_DONE", 0xD6: "GET_REQ", 0xD7: "GET_DONE",
}
FIELDS = [
    "frame.number", "ip.src", "ip.dst", "infiniband.bth.destqp", "infiniband.bth.psn",
    "lnet.ib.type", "lnet.ib.nob", "lnet.ib.version", "lnet.nid.addr", "lnet.nid.type",
    "lnet.o2ib.cookie", "lnet.o2ib.src_cookie", "lnet.o2ib.dest_cookie", "lnet.o2ib.status",
    "infiniband.bth.padcnt", "_ws.malformed", "udp.payload",
]
BTH_BYTES = 12
ICRC_BYTES = 4
GET_REQ_COOKIE_AT = 120
MAX_SHOWN = 20


class Msg:
    """One o2iblnd message of the capture, by tshark's fields."""

    def __init__(self, row):
        f = dict(zip(FIELDS, row))
        self.frame = int(f["frame.number"])
        self.src, self.dst = f["ip.src"].split(",")[0], f["ip.dst"].split(",")[0]
        self.qp = f["infiniband.bth.destqp"]
        self.psn = int(f["infiniband.bth.psn"] or 0)
        self.type = int(f["lnet.ib.type"], 0)
        self.name = TYPES.get(self.type, f"type {self.type:#x}")
        self.nob = int(f["lnet.ib.nob"])
        self.nids = f["lnet.nid.addr"].split(",")[:2]
        self.nid_types = f["lnet.nid.type"].split(",")[:2]
        self.cookie = f["lnet.o2ib.cookie"]
        self.src_cookie = f["lnet.o2ib.src_cookie"]
        self.dst_cookie = f["lnet.o2ib.dest_cookie"]
        self.malformed = f["_ws.malformed"]
        self.payload = bytes.fromhex(f["udp.payload"].replace(":", ""))
        if self.name == "GET_REQ":
            # The dissector reads this one message four bytes off (its only flaw here, seen with
            # the C driver's messages too), so the cookie is taken from the bytes.
            at = BTH_BYTES + GET_REQ_COOKIE_AT
            self.cookie = hex(int.from_bytes(self.payload[at:at + 8], "little"))
        elif self.cookie:
            self.cookie = hex(int(self.cookie, 0))
        self.pad = int(f["infiniband.bth.padcnt"] or 0)
        self.src_cookie = self.src_cookie and hex(int(self.src_cookie, 0))
        self.dst_cookie = self.dst_cookie and hex(int(self.dst_cookie, 0))

    def frame_nob(self):
        """Bytes between the BTH and the padding in front of the ICRC."""
        return len(self.payload) - BTH_BYTES - ICRC_BYTES - self.pad


def decode(pcap):
    """Every message tshark finds, without the retransmitted copies (same QP and PSN)."""
    cmd = ["tshark", "-r", pcap, "-Y", "lnet.ib.type", "-T", "fields",
           "-E", "occurrence=a", "-E", "aggregator=,"]
    for field in FIELDS:
        cmd += ["-e", field]
    run = subprocess.run(cmd, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"judge: tshark failed: {run.stderr.strip()}")
    seen, out, copies = set(), [], 0
    for line in run.stdout.splitlines():
        m = Msg(line.split("\t"))
        # A QP number can come again on a later connection, with another starting PSN.
        key = (m.src, m.dst, m.qp, m.psn, m.payload)
        if key in seen and m.type not in (0xC0, 0xC1):
            copies += 1
            continue
        seen.add(key)
        out.append(m)
    return out, copies


def judge_cookies(msgs, bad):
    """Every answer must name a request that is open in the capture, and close it."""
    open_put, open_ack, open_get = set(), set(), set()

    def close(pool, key, m, what):
        if key not in pool:
            bad.append(f"frame {m.frame}: {m.name} names no open {what} (cookie {key[-1]})")
        pool.discard(key)

    for m in msgs:
        way, back = (m.src, m.dst), (m.dst, m.src)
        if m.name == "PUT_REQ":
            open_put.add((way, m.cookie))
        elif m.name == "PUT_NAK":
            close(open_put, (back, m.cookie), m, "PUT_REQ")
        elif m.name == "PUT_ACK":
            close(open_put, (back, m.src_cookie), m, "PUT_REQ")
            open_ack.add((way, m.dst_cookie))
        elif m.name == "PUT_DONE":
            close(open_ack, (back, m.cookie), m, "PUT_ACK")
        elif m.name == "GET_REQ":
            open_get.add((way, m.cookie))
        elif m.name == "GET_DONE":
            close(open_get, (back, m.cookie), m, "GET_REQ")
    return len(open_put) + len(open_ack) + len(open_get)


def judge_messages(msgs, bad):
    for m in msgs:
        if m.type not in TYPES:
            bad.append(f"frame {m.frame}: unknown message {m.name}")
        # Only the LNET dissector's own verdict counts. A bare "_ws.malformed" is its length note
        # on an IMMEDIATE whose payload it cannot show (the length is judged below), and the
        # Lustre dissector takes the payload of some portals for its own.
        if "[Malformed Packet: LNet]" in m.malformed and m.name != "GET_REQ":
            bad.append(f"frame {m.frame}: tshark calls this {m.name} malformed")
        if m.type not in (0xC0, 0xC1) and m.frame_nob() != m.nob:
            bad.append(f"frame {m.frame}: {m.name} of {m.frame_nob()} bytes says nob {m.nob}")
        if m.type not in (0xC0, 0xC1) and m.nids != [m.src, m.dst]:
            bad.append(f"frame {m.frame}: NIDs {m.nids} on a frame {m.src} -> {m.dst}")
        if any(int(t, 0) != 5 for t in m.nid_types):
            bad.append(f"frame {m.frame}: NID types {m.nid_types}, not o2ib")


def read_stats(path):
    stats = {"nid": None, "sent": {}, "received": {}}
    with open(path, encoding="ascii") as f:
        for line in f:
            w = line.split()
            if len(w) >= 2 and w[0] == "nid":
                stats["nid"] = w[1].split("@")[0]
            elif len(w) == 4 and w[0] in ("sent", "received"):
                stats[w[0]][w[1]] = (int(w[2]), int(w[3]))
    if not stats["nid"] or not stats["sent"]:
        sys.exit(f"judge: {path} holds no nid and sent lines")
    return stats


def judge_stats(msgs, stats, bad):
    for s in stats:
        for side, mine in (("sent", lambda m: m.nids[0]), ("received", lambda m: m.nids[1])):
            wire = collections.defaultdict(lambda: [0, 0])
            for m in msgs:
                if mine(m) == s["nid"]:
                    wire[m.name][0] += 1
                    wire[m.name][1] += m.nob
            for name in TYPES.values():
                ours = s[side].get(name, (0, 0))
                if tuple(wire[name]) != ours:
                    bad.append(f"{s['nid']} {side} {name}: capture has {wire[name][0]} messages,"
                               f" {wire[name][1]} bytes; the counters say {ours[0]}, {ours[1]}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("capture", metavar="CAPTURE.pcap")
    parser.add_argument("stats", metavar="STATS", nargs="*", help="of node 1 and node 2")
    args = parser.parse_args()
    if len(args.stats) not in (0, 2):
        parser.error("STATS of both nodes or of none")
    msgs, copies = decode(args.capture)
    bad = []
    if not msgs:
        bad.append("tshark decodes no o2iblnd message in the capture")
    judge_messages(msgs, bad)
    still_open = judge_cookies(msgs, bad)
    if still_open:
        bad.append(f"{still_open} requests never got their answer")
    judge_stats(msgs, [read_stats(p) for p in args.stats], bad)
    for line in bad[:MAX_SHOWN]:
        print(f"judge: {line}")
    if len(bad) > MAX_SHOWN:
        print(f"judge: and {len(bad) - MAX_SHOWN} more")
    kinds = collections.Counter(m.name for m in msgs)
    text = ", ".join(f"{kinds[n]} {n}" for n in TYPES.values() if kinds[n])
    print(f"judge: {len(msgs)} messages ({text}), {copies} retransmitted copies left out,"
          f" {len(bad)} complaints")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()

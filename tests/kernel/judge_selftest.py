#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Shows that judge.py can say no: a good capture passes, each damaged copy of it is refused."""
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CAPTURE = HERE.parent / "host" / "data" / "c-driver-both-ends.pcap"
PCAP_HEADER, RECORD_HEADER = 24, 16
ETH_IP_UDP_BTH = 14 + 20 + 8 + 12
MAGIC = bytes.fromhex("911be90b")


def records(data):
    """(offset of the frame, its length) of each record of a little-endian pcap."""
    at = PCAP_HEADER
    while at < len(data):
        length = int.from_bytes(data[at + 8:at + 12], "little")
        yield at + RECORD_HEADER, length
        at += RECORD_HEADER + length


def damage(data, msg_type, offset):
    """Flips one byte at `offset` of the first message of that type."""
    out = bytearray(data)
    for at, _ in records(data):
        msg = at + ETH_IP_UDP_BTH
        if out[msg:msg + 4] == MAGIC and out[msg + 6] == msg_type:
            out[msg + offset] ^= 0x40
            return bytes(out)
    sys.exit(f"judge_selftest: no message {msg_type:#x} in the capture")


def drop(data, msg_type):
    """Leaves out the first message of that type."""
    for at, length in records(data):
        msg = at + ETH_IP_UDP_BTH
        if data[msg:msg + 4] == MAGIC and data[msg + 6] == msg_type:
            return data[:at - RECORD_HEADER] + data[at + length:]
    sys.exit(f"judge_selftest: no message {msg_type:#x} in the capture")


def judge(data, *stats):
    with tempfile.NamedTemporaryFile(suffix=".pcap") as f:
        f.write(data)
        f.flush()
        return subprocess.run([sys.executable, HERE / "judge.py", f.name, *stats],
                              capture_output=True, text=True).returncode


def main():
    good = CAPTURE.read_bytes()
    cases = [
        ("the capture as it is", good, 0),
        ("GET_DONE with another cookie", damage(good, 0xD7, 48), 1),
        ("PUT_ACK with another source cookie", damage(good, 0xD4, 48), 1),
        ("PUT_DONE with another cookie", damage(good, 0xD5, 48), 1),
        ("IMMEDIATE with another nob", damage(good, 0xD1, 8), 1),
        ("IMMEDIATE from another NID", damage(good, 0xD1, 16), 1),
        ("a GET_DONE missing", drop(good, 0xD7), 1),
        ("a PUT_REQ missing", drop(good, 0xD2), 1),
    ]
    failed = 0
    for name, data, want in cases:
        got = judge(data)
        if got != want:
            failed += 1
            print(f"judge_selftest: {name}: judge.py exits {got}, not {want}")
    print(f"{len(cases) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

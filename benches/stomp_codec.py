"""
What one frame costs in the STOMP parser, in microseconds.

Each line feeds the same frames again and again to a fresh connection, in chunks as a socket gives
them, and prints the best and the median round. Processor time is counted, not wall time, so that
neighbours on the machine disturb little. The targets: SEND of 1 KiB 2.0, bare ACK 0.8, MESSAGE 4.0.

Run: .venv/bin/python benches/stomp_codec.py [--rounds N]
"""

from __future__ import annotations

import argparse
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.protocols.stomp.connection import StompConnection
from holdfast.protocols.stomp.states import Role

KIB = 1024
CHUNK_BYTES = 256 * KIB
FRAMES = 10_000
BODY = b"x" * KIB
SEND = b"SEND\ndestination:/queue/bench\ncontent-length:1024\npersistent:true\n"
MESSAGE = (
    b"MESSAGE\ndestination:/queue/bench\nmessage-id:ID\\cabc-1-%d\nsubscription:1\nack:%d\n"
    b"content-length:1024\npersistent:true\npriority:4\ntimestamp:1712345678901\n\n"
)


@dataclass(frozen=True)
class Scenario:
    """Frames of one kind; `frame` makes the one with this number."""

    name: str
    frame: Callable[[int], bytes]
    role: Role = "server"
    chunk_bytes: int = CHUNK_BYTES
    frame_count: int = FRAMES
    target: float | None = None


SCENARIOS = [
    Scenario(
        "SEND 1 KiB, receipt", lambda n: SEND + b"receipt:r-%d\n\n%b\0" % (n, BODY), target=2.0
    ),
    Scenario(
        "SEND 1 KiB, receipt, producer-sequence",
        lambda n: (
            SEND
            + b"producer-id:0123456789abcdef\nproducer-sequence:%d\nreceipt:%d\n\n%b\0"
            % (n, n, BODY)
        ),
        target=2.0,
    ),
    Scenario(
        "SEND 1 KiB, receipt first, no length",
        lambda n: b"SEND\nreceipt:r-%d\ndestination:/queue/bench\n\n%b\0\n" % (n, BODY),
        target=2.0,
    ),
    Scenario(
        "SEND 1 KiB, one frame a chunk",
        lambda _: SEND + b"receipt:r-1\n\n%b\0" % BODY,
        chunk_bytes=len(SEND) + len("receipt:r-1\n\n\0") + KIB,
        target=2.0,
    ),
    Scenario(
        "SEND 1 KiB, CRLF",
        lambda n: (SEND + b"receipt:r-%d\n\n" % n).replace(b"\n", b"\r\n") + BODY + b"\0",
    ),
    Scenario(
        "SEND 1 KiB, a header that varies",
        lambda n: SEND + b"correlation-id:%d\nreceipt:r-%d\n\n%b\0" % (n, n, BODY),
    ),
    Scenario(
        "SEND 1 MiB, 64 KiB chunks",
        lambda _: b"SEND\ndestination:/q\ncontent-length:1048576\n\n" + BODY * KIB + b"\0",
        chunk_bytes=64 * KIB,
        frame_count=40,
    ),
    Scenario("ACK, id only", lambda n: b"ACK\nid:%d\n\n\0" % n, target=0.8),
    Scenario(
        "ACK, id only, one frame a chunk",
        lambda _: b"ACK\nid:12345\n\n\0",
        chunk_bytes=len("ACK\nid:12345\n\n\0"),
    ),
    Scenario("ACK, id and receipt", lambda n: b"ACK\nid:%d\nreceipt:%d\n\n\0" % (n, n)),
    Scenario("BEGIN", lambda n: b"BEGIN\ntransaction:%d\n\n\0" % n),
    Scenario(
        "client: MESSAGE 1 KiB, 8 headers",
        lambda n: MESSAGE % (n, n) + BODY + b"\0",
        role="client",
        target=4.0,
    ),
    Scenario("client: RECEIPT", lambda n: b"RECEIPT\nreceipt-id:%d\n\n\0" % n, role="client"),
]


def connected(role: Role) -> StompConnection:
    connection = StompConnection(role)
    if role == "server":
        connection.receive_data(b"CONNECT\naccept-version:1.2\nhost:bench\n\n\0")
    else:
        connection.receive_data(b"CONNECTED\nversion:1.2\n\n\0")
    connection.events_received()
    return connection


def round_microseconds(scenario: Scenario, chunks: list[bytes]) -> float:
    """Parse all chunks on a fresh connection; microseconds per frame."""
    connection = connected(scenario.role)
    count = 0
    start = time.process_time()
    for chunk in chunks:
        connection.receive_data(chunk)
        count += len(connection.events_received())
    elapsed = time.process_time() - start
    assert count == scenario.frame_count, f"{scenario.name}: {count} events"
    return elapsed / count * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    print(f"Python {platform.python_version()}, {platform.machine()}, commit {commit}")
    print(f"{'microseconds per frame':42}{'best':>8}{'median':>8}{'target':>8}")
    for scenario in SCENARIOS:
        wire = b"".join(scenario.frame(number) for number in range(scenario.frame_count))
        size = scenario.chunk_bytes
        chunks = [wire[at : at + size] for at in range(0, len(wire), size)]
        times = [round_microseconds(scenario, chunks) for _ in range(rounds)]
        target = "" if scenario.target is None else f"{scenario.target:.1f}"
        best, median = min(times), statistics.median(times)
        print(f"{scenario.name:42}{best:8.2f}{median:8.2f}{target:>8}")


if __name__ == "__main__":
    main()

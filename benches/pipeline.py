"""
What one message costs on its way through a node, in microseconds of processor time, by stage.

The same calls as the conducting loop makes, in one process without sockets, disk or threads: SEND
parsed and handled, records encoded, the entry sealed, applied, receipts, dispatch, MESSAGE frames,
their join, ACK parsed and handled. A follower's share (decode and apply) stands apart. The budget
of the first line of the speed table is 20 microseconds for all of it.

Run: .venv/bin/python benches/pipeline.py [--messages N] [--batch N] [--profile]
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from machine import KIB, print_heading

from holdfast.broker.broker import Broker
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.settings import BrokerSettings
from holdfast.journal.entry import KIND_RECORDS, Entry, seal_entry
from holdfast.model.records import MessageRecord
from holdfast.protocols.stomp.settings import StompSettings
from holdfast.sessions.context import SessionContext
from holdfast.sessions.stomp import StompSession
from holdfast.store.record_codec import decode_records, encode_records

BODY = b"x" * KIB
CHUNK_BYTES = 256 * KIB
SEND = b"SEND\ndestination:/queue/bench\ncontent-length:1024\npersistent:true\nreceipt:%d\n\n%b\0"
CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\n\n\0"
SUBSCRIBE = (
    b"SUBSCRIBE\nid:0\ndestination:/queue/bench\nack:client-individual\n"
    b"activemq.prefetchSize:%d\n\n\0"
)
FOLLOWER = "(a follower: decode, apply)"
ROUNDS = 5


class Pipeline:
    """A leader, a producer, a consumer and a follower's state, without anything between them."""

    def __init__(self, batch: int) -> None:
        self.batch = batch
        self.broker = Broker(BrokerSettings())
        self.broker.lead()
        self.follower = BrokerState(BrokerSettings())
        self.context = SessionContext(node="a", version="0", cluster="c0ffee")
        self.producer, self.consumer = self._session(), self._session()
        self.consumer.receive(SUBSCRIBE % (2 * batch))
        self.index = 0
        self.first_record = 1
        self.chain = bytes(16)
        self.sent = 0
        self.seconds: dict[str, float] = defaultdict(float)

    def turn(self) -> None:
        """Pass one batch through every stage."""
        sends = [SEND % (number, BODY) for number in range(self.batch)]
        data = b"".join(sends)
        self.producer.out.clear()
        self.consumer.out.clear()
        self.context.dirty.clear()
        with self._timed("SEND: parse, handle"):
            for at in range(0, len(data), CHUNK_BYTES):
                self.producer.receive(data[at : at + CHUNK_BYTES])
        entry = self._store()
        keys = self._deliver()
        assert len(keys) == self.batch, f"{len(keys)} of {self.batch} delivered"
        acknowledgements = b"".join(b"ACK\nid:1-%d\n\n\0" % key for key in keys)
        with self._timed("ACK: parse, handle"):
            self.consumer.receive(acknowledgements)
        with self._timed(FOLLOWER):
            records = decode_records(entry.body, with_content=False)
            self.follower.apply(entry.first_record, records, entry.timestamp)
        self.sent += self.batch

    def _store(self) -> Entry:
        broker = self.broker
        with self._timed("records: encode"):
            batch = broker.receipts.take_batch()
            parts = encode_records(batch.records)
        self.index += 1
        with self._timed("entry: checksums, seal"):
            entry = seal_entry(
                index=self.index,
                term=1,
                kind=KIND_RECORDS,
                timestamp=self.index,
                first_record=self.first_record,
                record_count=len(batch.records),
                parts=parts,
                previous_chain=self.chain,
            )
        self.chain = entry.chain
        with self._timed("apply"):
            broker.apply_batch(batch, self.first_record, self.index)
        self.first_record += len(batch.records)
        with self._timed("receipts"):
            for replier, receipt in batch.replies:
                replier.reply(receipt)
        return entry

    def _deliver(self) -> list[int]:
        with self._timed("dispatch"):
            deliveries = list(chain.from_iterable(self.broker.dispatch()))
        with self._timed("MESSAGE: write"):
            for subscription, key, message, _, redelivered in deliveries:
                session = subscription.receiver
                assert isinstance(session, StompSession)
                assert isinstance(message, MessageRecord)
                session.deliver(subscription, key, message, redelivered=redelivered)
        with self._timed("frames: join"):
            b"".join(self.consumer.out)
            b"".join(self.producer.out)
        return [delivery[1] for delivery in deliveries]

    def _session(self) -> StompSession:
        session = StompSession(self.broker, self.context, StompSettings(), _read_nothing)
        session.room_bytes = 1 << 40
        session.receive(CONNECT)
        return session

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        begin = time.thread_time()
        yield
        self.seconds[stage] += time.thread_time() - begin


def _read_nothing(record_number: int) -> MessageRecord:
    raise AssertionError(f"record {record_number} should be in memory")


def measure(messages: int, batch: int) -> dict[str, float]:
    """Microseconds per message and stage of one round."""
    pipeline = Pipeline(batch)
    pipeline.turn()
    pipeline.seconds.clear()
    pipeline.sent = 0
    while pipeline.sent < messages:
        pipeline.turn()
    return {stage: took / pipeline.sent * 1e6 for stage, took in pipeline.seconds.items()}


def profile(messages: int, batch: int) -> None:
    """Print the functions that cost most."""
    pipeline = Pipeline(batch)
    with cProfile.Profile() as profiler:
        while pipeline.sent < messages:
            pipeline.turn()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=40_000, help="per round")
    parser.add_argument("--batch", type=int, default=500, help="messages per turn of the loop")
    parser.add_argument("--profile", action="store_true", help="cProfile instead of times")
    given = parser.parse_args()
    gc.set_threshold(100_000, 50, 100)  # as a node has it
    settings = f"{given.messages:,} messages of 1 KiB per round, {ROUNDS} rounds, {given.batch} per"
    print_heading(Path(tempfile.gettempdir()), settings=f"{settings} turn, processor time")
    if given.profile:
        profile(given.messages, given.batch)
        return
    rounds = [measure(given.messages, given.batch) for _ in range(ROUNDS)]
    print(f"{'microseconds per message':32}{'best':>8}{'median':>8}")
    for stage in rounds[0]:
        times = [each[stage] for each in rounds]
        print(f"{stage:32}{min(times):8.2f}{statistics.median(times):8.2f}")
    totals = [sum(took for stage, took in each.items() if stage != FOLLOWER) for each in rounds]
    print(f"{'leader, all stages':32}{min(totals):8.2f}{statistics.median(totals):8.2f}")


if __name__ == "__main__":
    main()

"""
The sender of a replay: rows in, messages out, each under the number that is its own.

Invariants:
    The same rows give each message the same producer id and number, whoever sends them.
    What is unconfirmed stays bounded however many rows there are.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from holdfast.client import Connection, Producer, connect
from holdfast.client.sequence import is_lasting
from holdfast.client.wire import RESERVED
from holdfast.environment.clock import Clock
from holdfast.errors import StoreError
from holdfast.protocols.stomp.codec import parse_headers
from holdfast.spark.pipelines.replay_numbers import Beginning, own_producers

ROWS_PER_TURN: Final = 500
"""How many rows the sender takes from Spark at once."""

HEADER_BLOCKS_MAX: Final = 4096
WINDOW: Final = 1000


@dataclass(slots=True)
class ReplayProgress:
    """What was sent so far."""

    job: str = ""
    confirmed: int = 0
    body_bytes: int = 0
    seconds: float = 0.0
    by_destination: Counter[str] = field(default_factory=Counter)

    @property
    def rate(self) -> float:
        """Messages per second."""
        return self.confirmed / self.seconds if self.seconds > 0 else 0.0


Told = Callable[[ReplayProgress], None]


def first_copies(rows: Iterable[Any], beginning: Beginning) -> Iterator[Any]:
    """
    Leave out copies of messages whose originals the source has, or that came before.

    Raises:
        StoreError: The rows are not in the order of the log, so numbers would not be stable.
    """
    last = (-1, -1)
    seen: set[tuple[int, int]] = set()
    for row in rows:
        place = (row.log_index, row.ordinal)
        if place <= last:
            raise StoreError(f"entry {place[0]:,} came after entry {last[0]:,}; nothing is sent")
        last = place
        key = (row.queue_number, row.sequence)
        if not beginning.has_all_from(*key):
            if key in seen:
                continue
            seen.add(key)
        elif row.rewritten:
            continue
        yield row


class Sender:
    """One replay: the rows in, messages out. Belongs to one event loop."""

    def __init__(
        self,
        job: str,
        target: str,
        beginning: Beginning,
        *,
        rate: float | None,
        told: Told | None,
        clock: Clock,
    ) -> None:
        self.progress = ReplayProgress(job=job)
        self._beginning = beginning
        self._target = target
        self._rate = rate
        self._told = told
        self._clock = clock
        self._producers: dict[str, Producer] = {}
        self._last: dict[int, Producer] = {}
        """By queue, the one of its last block."""
        self._headers: dict[bytes, dict[str, str]] = {}
        self._began = 0.0
        self._sent = 0

    async def run(self, uri: str, rows: Iterator[Any], options: dict[str, Any]) -> None:
        """Send all rows and wait for the last confirmation."""
        async with connect(uri, **{"carries_headers": True, **options}) as connection:
            self._began = self._clock.monotonic()
            # Spark's rows are waited for in a thread: the link's heart-beats go on meanwhile.
            while batch := await asyncio.to_thread(_take, rows):
                for row in batch:
                    await self._pace()
                    await self._send(connection, row)
                self._tell()
            for producer in self._producers.values():
                await producer.flush()
        self._tell()

    async def _send(self, connection: Connection, row: Any) -> None:
        producer = await self._producer_of(connection, row)
        # Persistent: whatever is in a log or an archive was.
        await producer.send(bytes(row.body), headers=self._headers_of(bytes(row.header_block)))
        self._sent += 1
        self.progress.body_bytes += len(row.body)
        self.progress.by_destination[row.destination or f"queue {row.queue_number}"] += 1

    async def _producer_of(self, connection: Connection, row: Any) -> Producer:
        block, producer_id = str(row.queue_number), None
        if is_lasting(self._target):
            block = self._beginning.block(row.queue_number, row.sequence)
            producer_id = own_producers(self.progress.job) + block
        producer = self._producers.get(block)
        if producer is None:
            producer = connection.producer(self._target, window=WINDOW, producer_id=producer_id)
            self._producers[block] = producer
        last = self._last.get(row.queue_number, producer)
        if last is not producer:
            # What is unconfirmed stays bounded however many blocks there are.
            await last.flush()
        self._last[row.queue_number] = producer
        return producer

    def _headers_of(self, block: bytes) -> dict[str, str]:
        """The application's headers; those that the client sets by itself are left to it."""
        found = self._headers.get(block)
        if found is None:
            found = {
                name: value
                for name, value in parse_headers(b"\n" + block, "1.2").items()
                if name not in RESERVED
            }
            if len(self._headers) < HEADER_BLOCKS_MAX:
                self._headers[block] = found
        return found

    async def _pace(self) -> None:
        if self._rate is not None:
            early = self._began + self._sent / self._rate - self._clock.monotonic()
            if early > 0:
                await asyncio.sleep(early)

    def _tell(self) -> None:
        self.progress.confirmed = sum(it.confirmed_count for it in self._producers.values())
        self.progress.seconds = self._clock.monotonic() - self._began
        if self._told is not None:
            self._told(self.progress)


def _take(rows: Iterator[Any]) -> list[Any]:
    return list(islice(rows, ROWS_PER_TURN))

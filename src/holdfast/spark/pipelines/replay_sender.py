"""
The sender of a replay: rows in, messages out, each under the number that is its own.

Invariants:
    The same rows give each message the same producer id and number, whoever sends them.
    What is unconfirmed stays bounded however many rows there are.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from holdfast.client import Connection, Producer, connect
from holdfast.client.sequence import is_lasting
from holdfast.client.wire import RESERVED
from holdfast.environment.clock import Clock
from holdfast.errors import LinkLostError, StoreError
from holdfast.protocols.stomp.codec import parse_headers
from holdfast.spark.pipelines.replay_numbers import SeenSequences, Stretches, own_producers

logger = logging.getLogger("holdfast.spark")

ROWS_PER_TURN: Final = 500
"""How many rows the sender takes from Spark at once."""

HEADER_BLOCKS_MAX: Final = 4096
WINDOW: Final = 1000
_LOOK_SECONDS: Final = 0.5
_SILENT_SECONDS: Final = 5.0
"""A failover takes less; after that it is said what is waited for."""
_LATE_SECONDS_MAX: Final = 0.1
"""So much of a delay is made up for: a sleep of the loop's is some milliseconds too long."""


@dataclass(slots=True)
class ReplayProgress:
    """What was sent so far."""

    job: str = ""
    confirmed: int = 0
    body_bytes: int = 0
    seconds: float = 0.0
    by_destination: Counter[str] = field(default_factory=Counter)
    waits_for: str = ""
    """The target's address, if it has confirmed nothing for some seconds; else nothing."""
    step: str = ""
    """Of several senders what they are at, and how far."""

    @property
    def rate(self) -> float:
        """Messages per second."""
        return self.confirmed / self.seconds if self.seconds > 0 else 0.0


Told = Callable[[ReplayProgress], None]


def first_copies(rows: Iterable[Any], stretches: Stretches) -> Iterator[Any]:
    """
    Leave out copies of messages whose originals the source has, or that came before.

    Raises:
        StoreError: The rows are not in the order of the log, so numbers would not be stable.
    """
    last = (-1, -1)
    seen = SeenSequences()
    for row in rows:
        place = (row.log_index, row.ordinal)
        if place <= last:
            raise StoreError(f"entry {place[0]:,} came after entry {last[0]:,}; nothing is sent")
        last = place
        if stretches.has_all_from(row.queue_number, row.sequence):
            if row.rewritten:
                continue
        elif not seen.is_first(row.queue_number, row.sequence):
            continue
        yield row


@dataclass(slots=True, eq=False)
class _Numbered:
    """A producer of this replay, and how far it is."""

    producer: Producer
    sent: int = 0
    counted: int = 0
    """So many of its confirmations are told."""


class Sender:
    """One replay: the rows in, messages out. Belongs to one event loop."""

    def __init__(
        self,
        job: str,
        target: str,
        stretches: Stretches,
        *,
        rate: float | None,
        told: Told | None,
        clock: Clock,
    ) -> None:
        self.progress = ReplayProgress(job=job)
        self._stretches = stretches
        self._target = target
        self._rate = rate
        self._told = told
        self._clock = clock
        self._numbered: dict[str, _Numbered] = {}
        """By block and term; kept, as a copy by the cleaner may come much later."""
        self._active: dict[str, _Numbered] = {}
        """Those of which not all that was sent is confirmed and counted."""
        self._last: dict[int, _Numbered] = {}
        """By queue, the one of its last block."""
        self._headers: dict[bytes, dict[str, str]] = {}
        self._began = 0.0
        self._is_connected = False
        self._heard_at = 0.0
        """When the target was last known to confirm what it is sent, or had nothing to."""
        self._next_at = 0.0
        """Not before then goes the next message, by the clock."""

    async def run(
        self,
        uri: str,
        rows: Iterator[Any],
        options: dict[str, Any],
        silent_seconds_max: float | None = None,
    ) -> None:
        """
        Send all rows and wait for the last confirmation.

        Raises:
            LinkLostError: The target confirmed nothing for so many seconds.
            HoldfastError: It refused a message.
        """
        self._began = self._heard_at = self._clock.monotonic()
        sending = asyncio.create_task(self._send_all(uri, rows, options))
        try:
            while not (await asyncio.wait({sending}, timeout=_LOOK_SECONDS))[0]:
                self._tell()
                self._look_at_target(uri, silent_seconds_max)
            sending.result()
        finally:
            if not sending.done():
                sending.cancel()
                await asyncio.wait({sending})

    def _look_at_target(self, uri: str, silent_seconds_max: float | None) -> None:
        """Say that it is waited for, or give up; what Spark takes its time for is not its fault."""
        now = self._clock.monotonic()
        if self._is_connected and not self._active:
            self._heard_at = now
        silent = now - self._heard_at
        was_waiting, self.progress.waits_for = self.progress.waits_for, ""
        if silent_seconds_max is not None and silent >= silent_seconds_max:
            done = f"{self.progress.confirmed:,} messages were confirmed before"
            raise LinkLostError(
                f"{uri} has confirmed nothing for {silent:,.0f} s; {done}. Once it answers, run the"
                " same again: a queue stores only what it does not have"
            )
        if silent >= _SILENT_SECONDS:
            self.progress.waits_for = uri
            if not was_waiting:
                logger.warning("%s confirms nothing: waiting for it", uri)

    async def _send_all(self, uri: str, rows: Iterator[Any], options: dict[str, Any]) -> None:
        async with connect(uri, **{"carries_headers": True, **options}) as connection:
            self._is_connected = True
            self._began = self._next_at = self._clock.monotonic()
            # Spark's rows are waited for in a thread: the link's heart-beats go on meanwhile.
            while batch := await asyncio.to_thread(_take, rows):
                for row in batch:
                    await self._pace()
                    await self._send(connection, row)
                self._tell()
            for numbered in list(self._active.values()):
                await numbered.producer.flush()
        self._tell()

    async def _send(self, connection: Connection, row: Any) -> None:
        numbered = await self._producer_of(connection, row)
        # Persistent: whatever is in a log or an archive was.
        headers = self._headers_of(bytes(row.header_block))
        # Before it is: sending may wait for room, and who looks meanwhile takes it for done else.
        numbered.sent += 1
        await numbered.producer.send(bytes(row.body), headers=headers)
        self.progress.body_bytes += len(row.body)
        self.progress.by_destination[row.destination or f"queue {row.queue_number}"] += 1

    async def _producer_of(self, connection: Connection, row: Any) -> _Numbered:
        is_numbered = is_lasting(self._target)
        block = str(row.queue_number)
        if is_numbered:
            named = self._stretches.block(row.log_index, row.queue_number, row.sequence)
            block = f"{named}-{row.term}"
        found = self._numbered.get(block)
        if found is None:
            producer_id = None
            if is_numbered:
                # The rows of a block come in the order of the log: this is the first of its term.
                producer_id = f"{own_producers(self.progress.job)}{block}-{row.stored_us or 0}"
            producer = connection.producer(self._target, window=WINDOW, producer_id=producer_id)
            found = self._numbered[block] = _Numbered(producer)
        last = self._last.get(row.queue_number, found)
        if last is not found:
            # What is unconfirmed stays bounded however many blocks there are.
            await last.producer.flush()
        self._last[row.queue_number] = found
        self._active[block] = found
        return found

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
        if self._rate is None:
            return
        now = self._clock.monotonic()
        # After a stall of Spark's or the target's nothing is caught up with.
        self._next_at = max(self._next_at, now - _LATE_SECONDS_MAX)
        if self._next_at > now:
            await asyncio.sleep(self._next_at - now)
        self._next_at += 1 / self._rate

    def _tell(self) -> None:
        before = self.progress.confirmed
        for block, numbered in list(self._active.items()):
            confirmed = numbered.producer.confirmed_count
            self.progress.confirmed += confirmed - numbered.counted
            numbered.counted = confirmed
            if confirmed == numbered.sent:
                del self._active[block]
        if self.progress.confirmed > before:
            self._heard_at = self._clock.monotonic()
        self.progress.seconds = self._clock.monotonic() - self._began
        if self._told is not None:
            self._told(self.progress)


def _take(rows: Iterator[Any]) -> list[Any]:
    return list(islice(rows, ROWS_PER_TURN))

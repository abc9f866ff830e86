"""
What a client did and what it was told, line by line in a file: the evidence a verdict rests on.

Each worker writes one file of JSON lines. A line is written before the deed it tells of (a send, an
acknowledgement) and after what it heard (a receipt, a delivery), straight to the kernel: when the
worker is killed the line is there, at worst the last one torn. Times are nanoseconds of the
machine's monotonic clock, so lines of all workers have one order.

Invariants:
    A (producer, sequence) is used for one message, whose body follows from these two alone.
    Whatever a broker may have seen stands in the file.

A `HistoryFile` may be used from several threads.
"""

from __future__ import annotations

import json
import os
import re
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

SECOND: Final = 1_000_000_000
"""Nanoseconds."""

DEAD_LETTERS: Final = "/queue/ActiveMQ.DLQ"

GROUPED: Final = "/queue/chaos.groups"
"""Where every message is of a group."""

SCHEDULED: Final = "/queue/chaos.reminders"
"""Where every message is to come a while after it was sent."""

SWEEPER: Final = "sweeper"
"""Who takes what is left at the end; so are called whose names end in this."""

Event = dict[str, Any]
"""
One line: `t` (nanoseconds), `e` (what), and by kind:

    begin       w worker, library, numbered (retries are recognised by the broker)
    send        p producer, n sequence, q queue, u transaction or absent, g group or absent,
                d milliseconds that it is not to come before, or absent; dr how often it is to come
                again after that, dp milliseconds apart, or absent
    stored      p, n: the receipt came
    refused     p, n, code: the broker said that it is not stored
    unknown     p, n: nobody will ever know
    again       p, n: sent once more, by the worker itself
    commit      u: asked for; x message ids acknowledged in it, c the consumer that had them
    committed   u     rolled-back u     commit-refused u, code     commit-unknown u
    link        c consumer: a new link; what comes from now on was sent over it
    subscribe   c, s durable subscription, k part that it selects or absent: asked for
    subscribed  c, s: the receipt came     not-subscribed c, s, code
    delivery    c, q, id, p, n, r (flagged as redelivered), o the id that a dead letter had before;
                q is the subscription where that is a durable one
    damaged     c, q, id, text: a body that nobody sent
    shown-twice c, id: the library gave it although the program still has it, unsettled
    settle      c, v verb (acknowledge, reject), x message ids: asked for
    settled     c, v, x: the receipt came
    not-settled c, v, x, code: refused, or unknown
    interrupted, resumed, complaint     what the library or the link told
    finished    every send has its outcome; nothing more will be sent
    drained     c: nothing came for a while over a working link
    mark        text: the nemesis
    end         the worker ended by itself
"""

_FILLER: Final = bytes(65 + number % 26 for number in range(1 << 17))
_BODY: Final = re.compile(rb"HC1 ([\w.:-]{1,64}) (\d{1,12}) ")
_LARGE_ONE_IN: Final = 64


def make_body(producer: str, sequence: int) -> bytes:
    """
    Give the one body that this message may have.

    Mostly some hundred bytes; one in a few dozen has up to 40 KiB.
    """
    head = b"HC1 %b %d " % (producer.encode(), sequence)
    draw = zlib.crc32(head)
    size = 64 + draw % 700
    if not draw % _LARGE_ONE_IN:
        size = draw % 40_960
    start = draw % 26
    return head + _FILLER[start : start + max(0, size - len(head))]


def read_body(body: bytes) -> tuple[str, int] | None:
    """Tell whose message this is; None if it is not byte for byte one that could be sent."""
    found = _BODY.match(body)
    if found is None:
        return None
    producer, sequence = found[1].decode(), int(found[2])
    return (producer, sequence) if body == make_body(producer, sequence) else None


class HistoryFile:
    """A history being written."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        # Appending writes of one call each: lines of several threads do not mix.
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, event: str, **fields: object) -> None:
        """Add a line; it outlives the process from here on."""
        line = {"t": time.monotonic_ns(), "e": event, **fields}
        os.write(self._file, json.dumps(line, separators=(",", ":")).encode() + b"\n")

    def delivery(
        self, consumer: str, queue: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[str, int] | None:
        """Note what a consumer got; gives producer and sequence, None if the body is damaged."""
        identity = headers["message-id"]
        whose = read_body(body)
        if whose is None:
            text = body[:80].decode("ascii", "replace")
            self.write("damaged", c=consumer, q=queue, id=identity, text=text)
            return None
        flagged = headers.get("redelivered") == "true"
        before = headers.get("original-message-id")
        more = {} if before is None else {"o": before}
        told = {"c": consumer, "q": queue, "id": identity, "p": whose[0], "n": whose[1]}
        self.write("delivery", **told, r=flagged, **more)
        return whose

    def close(self) -> None:
        """Write no more."""
        os.close(self._file)

    def __enter__(self) -> Self:
        """The file is open already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()


class HistoryError(ValueError):
    """A history that no worker can have written; the sentence tells file and line."""


def read_history(path: Path) -> list[Event]:
    """
    Read one file. A last line without its end was torn by the death of its writer, and is left out.

    Raises:
        HistoryError: Another line makes no sense.
    """
    *lines, _ = path.read_bytes().split(b"\n")
    events: list[Event] = []
    for number, line in enumerate(lines, start=1):
        try:
            event = json.loads(line)
            event["e"], event["t"]
        except (ValueError, KeyError, TypeError) as error:
            raise HistoryError(f"{path} line {number}: {error}: {line[:80]!r}") from error
        events.append(event)
    return events


@dataclass(frozen=True, slots=True)
class History:
    """All lines of a run in the order of time, those of one worker in the order of writing."""

    events: tuple[Event, ...]

    @classmethod
    def of(cls, workers: Iterable[list[Event]]) -> History:
        """
        Merge the lines of several workers; each line learns its worker (`w`) by that.

        The last line of a worker that did not say `end` is followed by a `died` of the same time.
        """
        merged: list[Event] = []
        for number, events in enumerate(workers):
            if not events:
                continue
            name = str(events[0].get("w", number))
            for event in events:
                event["w"] = name
            merged += events
            if events[0]["e"] == "begin" and events[-1]["e"] != "end":
                merged.append({"t": events[-1]["t"], "e": "died", "w": name})
        merged.sort(key=lambda event: event["t"])  # stable: lines of one worker keep their order
        return cls(tuple(merged))

    @classmethod
    def read(cls, paths: Iterable[Path]) -> History:
        """
        Read and merge files.

        Raises:
            HistoryError: A line makes no sense.
            OSError: A file cannot be read.
        """
        return cls.of(read_history(path) for path in sorted(paths))

    def __iter__(self) -> Iterator[Event]:
        """Give the lines."""
        return iter(self.events)

    def of_kind(self, *kinds: str) -> Iterator[Event]:
        """Give the lines of these kinds."""
        return (event for event in self.events if event["e"] in kinds)

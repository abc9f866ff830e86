"""
The sender of a replay against a broker on paper: which rows are sent, under which numbers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.environment.clock import SystemClock
from holdfast.errors import StoreError
from holdfast.spark.pipelines import replay_numbers, replay_sender
from holdfast.spark.pipelines.replay_numbers import Beginning
from holdfast.spark.pipelines.replay_sender import ReplayProgress, Sender, first_copies


def row(
    index: int, ordinal: int, sequence: int, *, rewritten: bool = False, queue: int = 1
) -> SimpleNamespace:
    return SimpleNamespace(
        log_index=index,
        ordinal=ordinal,
        queue_number=queue,
        sequence=sequence,
        rewritten=rewritten,
        destination="q",
        header_block=b"",
        body=b"%d" % sequence,
    )


class PaperBroker:
    """Takes each number of a producer once, in their order, as the broker does."""

    def __init__(self) -> None:
        self.stored: list[int] = []
        self.last: dict[str, int] = {}

    @asynccontextmanager
    async def connect(self, uri: str, **options: Any) -> AsyncIterator[PaperBroker]:
        yield self

    def producer(self, target: str, *, window: int, producer_id: str) -> PaperProducer:
        return PaperProducer(self, producer_id)


class PaperProducer:
    """Numbers what it sends from 1, as the client does for an id of one's own."""

    def __init__(self, broker: PaperBroker, producer_id: str) -> None:
        self.broker = broker
        self.id = producer_id
        self.confirmed_count = 0
        self.flushed = True

    async def send(self, body: bytes, *, headers: dict[str, str]) -> None:
        self.confirmed_count += 1
        self.flushed = False
        last = self.broker.last.get(self.id, 0)
        assert self.confirmed_count <= last + 1, "a gap"
        if self.confirmed_count > last:
            self.broker.last[self.id] = self.confirmed_count
            self.broker.stored.append(int(body))

    async def flush(self) -> None:
        self.flushed = True


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> PaperBroker:
    paper = PaperBroker()
    monkeypatch.setattr(replay_sender, "connect", paper.connect)
    monkeypatch.setattr(replay_numbers, "BLOCK_SEQUENCES", 10)
    return paper


def send(rows: list[SimpleNamespace], beginning: Beginning) -> ReplayProgress:
    sender = Sender("j", "/queue/x", beginning, rate=None, told=None, clock=SystemClock())
    asyncio.run(sender.run("x", first_copies(rows, beginning), {}))
    return sender.progress


def chosen(first: int, last: int) -> list[SimpleNamespace]:
    """Every second message of a queue."""
    return [row(n, 0, n) for n in range(first, last + 1) if n % 2 == 0]


def test_a_source_that_begins_later_shifts_no_numbers(broker: PaperBroker) -> None:
    """What is new is stored, what was stored is not; only the block that is cut comes again."""
    send(chosen(1, 30), Beginning())
    before = list(broker.stored)
    assert list(range(2, 31, 2)) == before

    late = Beginning(14, {1: 14})
    assert 14 == send(chosen(14, 41), late).confirmed

    assert [14, 16, 18, 32, 34, 36, 38, 40] == broker.stored[len(before) :]
    send(chosen(14, 41), late)
    assert len(before) + 8 == len(broker.stored)


def test_a_source_that_begins_earlier_shifts_none_either(broker: PaperBroker) -> None:
    """As when the log itself is read after an archive that was begun late."""
    send(chosen(14, 30), Beginning(14, {1: 14}))
    send(chosen(1, 30), Beginning())
    assert set(range(2, 31, 2)) == set(broker.stored)
    assert [14, 16, 18] == [n for n in sorted(set(broker.stored)) if broker.stored.count(n) > 1]


def test_copies_do_not_shift_what_the_source_has_whole(broker: PaperBroker) -> None:
    """A late source has copies of old messages in between; originals it has are numbered alone."""
    send([row(n, 0, n) for n in range(1, 31)], Beginning())
    before = len(broker.stored)
    rows = [row(15, 0, 15), row(16, 0, 3, rewritten=True)]
    rows += [row(n, 0, n) for n in range(17, 31)] + [row(31, 0, 22, rewritten=True)]
    send(rows, Beginning(15, {1: 15}))
    assert {3, 15, 17, 18, 19} == set(broker.stored[before:])


def test_queues_do_not_share_numbers(broker: PaperBroker) -> None:
    """A queue that came later changes nothing for the others, nor one that has copies alone."""
    send([row(1, 0, 1), row(2, 0, 1, queue=2)], Beginning())
    send([row(1, 0, 1), row(2, 0, 1, queue=2), row(3, 0, 2)], Beginning())
    assert [1, 1, 2] == broker.stored
    send([row(4, 0, 25, rewritten=True)], Beginning(4))
    assert "replay-j-1-2-from-4" in broker.last


def test_copies_by_the_cleaner_are_sent_once() -> None:
    """Where the source lacks its beginning, the first of the copies counts."""
    rows = [row(5, 0, 1, rewritten=True), row(5, 1, 2), row(9, 0, 1, rewritten=True)]
    rows += [row(10, 0, 3), row(11, 0, 2, rewritten=True)]
    sent = [it.sequence for it in first_copies(rows, Beginning(5, {1: 2}))]
    assert sent == [1, 2, 3]


def test_rows_out_of_order_are_refused() -> None:
    """Numbers are places among the chosen: in another order they would mean other messages."""
    with pytest.raises(StoreError, match="came after"):
        list(first_copies([row(5, 1, 2), row(5, 0, 1)], Beginning()))

"""
The sender of a replay against a broker on paper: which rows are sent, under which numbers.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.environment.clock import SystemClock
from holdfast.errors import LinkLostError, StoreError
from holdfast.spark.pipelines import replay_numbers, replay_sender
from holdfast.spark.pipelines.replay_numbers import Beginning, Stretches
from holdfast.spark.pipelines.replay_sender import ReplayProgress, Sender, first_copies


def row(
    index: int,
    ordinal: int,
    sequence: int,
    *,
    rewritten: bool = False,
    queue: int = 1,
    term: int = 1,
    stored_us: int = 7,
) -> SimpleNamespace:
    return SimpleNamespace(
        log_index=index,
        ordinal=ordinal,
        queue_number=queue,
        term=term,
        stored_us=stored_us,
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


class PaperClock(SystemClock):
    """Time goes on only where somebody sleeps, or a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


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


def send(rows: list[SimpleNamespace], *beginnings: Beginning) -> ReplayProgress:
    stretches = Stretches(beginnings)
    sender = Sender("j", "/queue/x", stretches, rate=None, told=None, clock=SystemClock())
    asyncio.run(sender.run("x", first_copies(rows, stretches), {}))
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
    assert "replay-j-1-2-from-4-1-7" in broker.last


@pytest.mark.parametrize("led", [{"term": 3, "stored_us": 7}, {"term": 2, "stored_us": 8}])
def test_two_copies_that_both_went_on_share_no_numbers(
    broker: PaperBroker, led: dict[str, int]
) -> None:
    """
    What both have is stored once; what only one has is stored, whatever sequence it has.
    """
    common = [row(n, 0, n) for n in range(1, 5)]
    send([*common, *(row(n, 0, n, term=2) for n in range(5, 8))], Beginning())
    send([*common, *(row(n, 0, n, **led) for n in range(5, 10))], Beginning())

    assert [1, 2, 3, 4, 5, 6, 7, 5, 6, 7, 8, 9] == broker.stored


def test_a_target_that_answers_nothing_is_named_and_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """
    Failover tries for ever: whoever watches is told for whom, and --timeout ends it.
    """

    @asynccontextmanager
    async def connect(uri: str, **_: Any) -> AsyncIterator[None]:
        await asyncio.Event().wait()
        yield

    clock = PaperClock()
    heard: list[str] = []

    def told(progress: ReplayProgress) -> None:
        heard.append(progress.waits_for)
        clock.now += 2.0

    monkeypatch.setattr(replay_sender, "connect", connect)
    monkeypatch.setattr(replay_sender, "_LOOK_SECONDS", 0.001)
    sender = Sender("j", "/queue/x", Stretches(), rate=None, told=told, clock=clock)
    with pytest.raises(
        LinkLostError, match="failover:x has confirmed nothing for 20 s; 0 messages were"
    ):
        asyncio.run(sender.run("failover:x", iter([row(1, 0, 1)]), {}, 20.0))

    assert ("", "failover:x", 1) == (heard[0], heard[-1], caplog.text.count("waiting for it"))


def test_what_spark_takes_its_time_for_is_not_the_targets_fault(broker: PaperBroker) -> None:
    """The timeout is of the target alone: all that was sent is confirmed."""
    clock, looked = PaperClock(), threading.Event()

    def rows() -> Iterator[SimpleNamespace]:
        for n in range(1, 4):
            clock.now += 1000.0
            looked.clear()
            assert looked.wait(10)
            yield row(n, 0, n)

    def told(_: ReplayProgress) -> None:
        looked.set()

    sender = Sender("j", "/queue/x", Stretches(), rate=None, told=told, clock=clock)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replay_sender, "_LOOK_SECONDS", 0.001)
        patch.setattr(replay_sender, "ROWS_PER_TURN", 1)
        asyncio.run(sender.run("x", rows(), {}, 20.0))

    assert 3 == sender.progress.confirmed


def test_a_message_that_waits_for_room_is_waited_for(
    broker: PaperBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The first message of a block may wait behind large ones: it is counted, and its receipt awaited.
    """
    looks = asyncio.Event()
    whole, awaited = PaperProducer.send, list[PaperProducer]()

    async def send_late(self: PaperProducer, body: bytes, *, headers: dict[str, str]) -> None:
        looks.clear()
        await looks.wait()
        await whole(self, body, headers=headers)
        self.confirmed_count -= 1
        awaited.append(self)

    async def flush(self: PaperProducer) -> None:
        self.confirmed_count += awaited.count(self)

    monkeypatch.setattr(PaperProducer, "send", send_late)
    monkeypatch.setattr(PaperProducer, "flush", flush)
    monkeypatch.setattr(replay_sender, "_LOOK_SECONDS", 0.001)

    def told(_: ReplayProgress) -> None:
        looks.set()

    sender = Sender("j", "/queue/x", Stretches(), rate=None, told=told, clock=SystemClock())
    asyncio.run(sender.run("x", iter([row(1, 0, 1)]), {}))

    assert (1, [1]) == (sender.progress.confirmed, broker.stored)


def test_a_rate_is_not_caught_up_with_after_a_stall(
    broker: PaperBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Spark's first task, or the target, may take minutes: then the rest goes at the rate, too.
    """
    clock = PaperClock()
    monkeypatch.setattr(asyncio, "sleep", clock.sleep)
    sent_at: list[float] = []

    def rows() -> Iterator[SimpleNamespace]:
        clock.now += 5.0
        for n in range(1, 301):
            yield row(n, 0, n)

    whole = PaperProducer.send

    async def send_noted(self: PaperProducer, body: bytes, *, headers: dict[str, str]) -> None:
        sent_at.append(clock.now)
        await whole(self, body, headers=headers)

    monkeypatch.setattr(PaperProducer, "send", send_noted)
    sender = Sender("j", "/queue/x", Stretches(), rate=100, told=None, clock=clock)
    asyncio.run(sender.run("x", rows(), {}))

    assert 300 == sender.progress.confirmed
    assert 112 >= sum(1 for at in sent_at if at < 6.0)
    assert 7.7 < sent_at[-1] < 8.1


def test_copies_by_the_cleaner_are_sent_once() -> None:
    """Where the source lacks its beginning, the first of the copies counts."""
    rows = [row(5, 0, 1, rewritten=True), row(5, 1, 2), row(9, 0, 1, rewritten=True)]
    rows += [row(10, 0, 3), row(11, 0, 2, rewritten=True)]
    sent = [it.sequence for it in first_copies(rows, Stretches((Beginning(5, {1: 2}),)))]
    assert sent == [1, 2, 3]


def test_rows_out_of_order_are_refused() -> None:
    """Numbers are places among the chosen: in another order they would mean other messages."""
    with pytest.raises(StoreError, match="came after"):
        list(first_copies([row(5, 1, 2), row(5, 0, 1)], Stretches()))

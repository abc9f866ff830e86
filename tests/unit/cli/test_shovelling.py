"""The work of a shovel between two brokers that are lists, and fail where a test says so."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.cli import shovelling
from holdfast.cli.shovel_rules import routes_of
from holdfast.cli.shovelling import STAYING_COUNT_MAX, Shovelling
from holdfast.errors import LinkLostError, QueueFullError, RefusedError, UnknownDeliveryError


async def until(condition: Callable[[], bool]) -> None:
    """Let others work until it holds."""
    while not condition():
        await asyncio.sleep(0)


class Taken:
    """A message of the source."""

    def __init__(self, source: Source, number: int, *, redelivered: bool = False) -> None:
        self._source = source
        self.id = f"ID:{number}"
        self.body = b"%d" % number
        self.destination = "/queue/a"
        self.redelivered = redelivered
        self.headers = {"message-id": self.id, "content-length": "1"}

    async def acknowledge(self, *, confirm: bool = False) -> None:
        if self._source.refusal is not None:
            if confirm:
                raise self._source.refusal
            return
        self._source.acknowledged.append(self.id)


class Source:
    """A broker that delivers a list, and knows what was acknowledged."""

    cluster = None
    address = "stomp://there:61613"

    def __init__(self, count: int) -> None:
        self.waiting = deque(Taken(self, number) for number in range(count))
        self.acknowledged: list[str] = []
        self.refusal: Exception | None = None
        self.is_closed = False
        self.asked_count = 0
        self.subscribed: dict[str, Any] = {}

    def subscribe(self, destination: str, **said: Any) -> Source:
        self.subscribed = {"destination": destination, **said}
        return self

    async def __aenter__(self) -> Source:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    @property
    def buffered_count(self) -> int:
        return len(self.waiting)

    async def receive(self, seconds: float) -> Taken | None:
        self.asked_count += 1
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await until(lambda: bool(self.waiting))
        return self.waiting.popleft() if self.waiting else None

    async def __anext__(self) -> Taken:
        return self.waiting.popleft()

    def statistics(self) -> SimpleNamespace:
        return SimpleNamespace(server="ActiveMQ/5.17.2", link_count=1)


class Target:
    """A broker that stores, and refuses what it is told to."""

    cluster = "5" * 32

    def __init__(self) -> None:
        self.stored: list[tuple[str, bytes, dict[str, str]]] = []
        self.refusals: dict[bytes, list[Exception]] = {}

    async def send(self, destination: str, body: bytes, *, headers: dict[str, str]) -> None:
        await asyncio.sleep(0)
        if self.refusals.get(body):
            raise self.refusals[body].pop(0)
        self.stored.append((destination, body, headers))

    def statistics(self) -> SimpleNamespace:
        return SimpleNamespace(server="Holdfast/1", link_count=1)


def shovel(*routes: str, **said: Any) -> Shovelling:
    wishes = {
        "count": None,
        "silence_seconds": 0.01,
        "durable": None,
        "selector": None,
        "transformation": None,
        "takes_empty": False,
    }
    return Shovelling(routes_of(routes or ("a",)), **(wishes | said))


def carry(work: Shovelling, source: Source, target: Target) -> None:
    asyncio.run(work.run(source, target))  # type: ignore[arg-type]


def test_all_is_stored_in_order_and_then_acknowledged() -> None:
    """More than one window of them."""
    source, target = Source(450), Target()
    work = shovel("a=b")
    carry(work, source, target)
    assert [it[1] for it in target.stored] == [b"%d" % number for number in range(450)]
    assert {it[0] for it in target.stored} == {"/queue/b"}
    assert source.acknowledged == [f"ID:{number}" for number in range(450)]
    assert (work.tally.count, work.fields()["carried"], work.staying_count) == (450, 450, 0)


def test_a_count_is_the_end() -> None:
    """Not one more is taken."""
    source, target = Source(10), Target()
    carry(shovel(count=3), source, target)
    assert (len(target.stored), len(source.acknowledged)) == (3, 3)


def test_what_is_refused_stays_and_holds_up_nobody() -> None:
    """It is neither acknowledged nor lost, and told of."""
    source, target = Source(5), Target()
    target.refusals = {b"2": [RefusedError("too large for it")]}
    work = shovel()
    carry(work, source, target)
    assert [it[1] for it in target.stored] == [b"0", b"1", b"3", b"4"]
    assert "ID:2" not in source.acknowledged
    assert work.routes[0].fields()["staying"] == {"refused": 1}
    assert work.routes[0].told == {"refused": "ID:2: too large for it"}


def test_what_finds_no_room_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are stored meanwhile; it says nothing of having been stored, as it was not."""
    monkeypatch.setattr(shovelling, "PAUSE_SECONDS", (0.001, 0.002))
    source, target = Source(3), Target()
    target.refusals = {b"1": [QueueFullError("full"), QueueFullError("full")]}
    carry(shovel(), source, target)
    assert [it[1] for it in target.stored] == [b"0", b"2", b"1"]
    assert not [it for it in target.stored if "possible-duplicate" in it[2]]
    assert sorted(source.acknowledged) == ["ID:0", "ID:1", "ID:2"]


def test_too_many_that_stay_end_it() -> None:
    """They take the places of all that would come behind them."""
    source, target = Source(STAYING_COUNT_MAX + 10), Target()
    target.refusals = {
        b"%d" % number: [RefusedError("not there")] for number in range(STAYING_COUNT_MAX + 10)
    }
    with pytest.raises(RefusedError, match=r"200 messages have to stay on /queue/a.*ID:0: not"):
        carry(shovel(), source, target)
    assert source.acknowledged == []


@pytest.mark.parametrize("error", [UnknownDeliveryError("another's"), LinkLostError("it is away")])
def test_what_comes_again_after_it_was_stored_is_only_acknowledged(error: Exception) -> None:
    """Its acknowledgement was lost with a link."""
    source, target = Source(2), Target()
    source.refusal = error
    work = shovel(silence_seconds=0.3)

    async def scenario() -> None:
        running = asyncio.create_task(work.run(source, target))  # type: ignore[arg-type]
        await until(lambda: len(target.stored) == 2 and source.asked_count > 1)
        source.refusal = None
        source.waiting.extend([Taken(source, 0, redelivered=True), Taken(source, 1)])
        await running

    asyncio.run(scenario())
    assert [it[1] for it in target.stored] == [b"0", b"1", b"1"]
    assert [it[2].get("possible-duplicate") for it in target.stored] == [None, None, "true"]
    assert source.acknowledged == ["ID:0", "ID:1"]
    assert work.routes[0].fields() | {"staying": 0} == {
        "source": "/queue/a",
        "target": "/queue/a",
        "stored": 3,
        "doubtful": 1,
        "known": 1,
        "staying": 0,
    }


def test_what_somebody_may_have_had_says_so() -> None:
    """The source's own flag."""
    source, target = Source(0), Target()
    source.waiting.append(Taken(source, 7, redelivered=True))
    carry(shovel(), source, target)
    assert target.stored[0][2]["possible-duplicate"] == "true"


def test_the_end_of_a_connection_ends_it_as_itself() -> None:
    """One error, not a group of them."""
    source, target = Source(3), Target()
    target.refusals = {b"1": [LinkLostError("there is nobody")]}
    with pytest.raises(LinkLostError, match="there is nobody"):
        carry(shovel(), source, target)
    assert source.acknowledged == []


def test_the_end_of_the_source_ends_it() -> None:
    """Not a link that is made anew."""
    source, target = Source(3), Target()
    source.refusal, source.is_closed = LinkLostError("it is gone"), True
    with pytest.raises(LinkLostError, match="it is gone"):
        carry(shovel(), source, target)


def test_it_stops_when_it_is_told_to() -> None:
    """Whatever is under way is done; silence would not end it."""
    source, target = Source(3), Target()
    work = shovel(silence_seconds=None)

    async def scenario() -> None:
        running = asyncio.create_task(work.run(source, target))  # type: ignore[arg-type]
        await until(lambda: len(source.acknowledged) == 3)
        work.stop()
        await asyncio.wait_for(running, 5)

    asyncio.run(scenario())
    assert len(source.acknowledged) == 3


def test_a_broker_that_is_away_is_not_silent() -> None:
    """An outage longer than the silence that was asked for is no end of its messages."""
    source, target = Source(0), Target()
    source.address = None  # type: ignore[assignment]
    work = shovel(silence_seconds=0.01)

    async def scenario() -> None:
        running = asyncio.create_task(work.run(source, target))  # type: ignore[arg-type]
        await until(lambda: source.asked_count > 5)
        assert not running.done()
        source.waiting.append(Taken(source, 1))
        source.address = "stomp://there:61613"
        await asyncio.wait_for(running, 5)

    asyncio.run(scenario())
    assert len(target.stored) == 1


def test_wishes_go_to_the_source() -> None:
    """A topic's name, a selector, as what objects are told."""
    source = Source(0)
    work = shovel("/topic/t=q", durable="d", selector="a > 1", transformation="jms-json")
    carry(work, source, Target())
    assert source.subscribed["durable"] == "d"
    assert source.subscribed["selector"] == "a > 1"
    assert source.subscribed["headers"] == {"transformation": "jms-json"}

"""
What uses the patience of `send` and `receive` up, and what does not.

Against the scripted broker of the client's tests, on the test's own loop; what depends on time has
a loop whose time the test sets.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "client"))
from scripted_broker import ScriptedBroker

from holdfast.cli import message_patience
from holdfast.cli.message_patience import Patience
from holdfast.client import Connection, connect
from holdfast.errors import LinkLostError, RefusedError

Scenario = Callable[[ScriptedBroker, Patience, Connection], Awaitable[None]]


def play(
    scenario: Scenario,
    *,
    first: float | None = None,
    later: float | None = None,
    is_failover: bool = True,
    is_deaf: bool = False,
) -> None:
    async def played() -> None:
        async with ScriptedBroker() as broker:
            broker.is_deaf = is_deaf
            uri = f"failover:({broker.uri})" if is_failover else broker.uri
            patience = Patience(uri, first_seconds=first, later_seconds=later)
            async with patience.held(), connect(uri) as connection:
                patience.connected(connection)
                await scenario(broker, patience, connection)

    asyncio.run(asyncio.wait_for(played(), 20))


async def nothing(broker: ScriptedBroker, patience: Patience, connection: Connection) -> None:
    """Connected is all."""


def test_a_broker_that_accepts_and_says_nothing_is_none() -> None:
    """The first connection is there when the broker has said so."""
    with pytest.raises(LinkLostError, match=r"no broker answered at .* within 0\.05 s"):
        play(nothing, first=0.05, is_deaf=True)


def test_an_outage_ends_the_block() -> None:
    """Although leaving a subscription would wait for the broker's answer."""

    async def lose(broker: ScriptedBroker, patience: Patience, connection: Connection) -> None:
        async with connection.subscribe("/queue/q") as subscription:
            broker.kill()
            await subscription.receive()

    with pytest.raises(LinkLostError, match=r"there was no broker for 0\.05 s: gave up$"):
        play(lose, later=0.05)


def test_a_missing_answer_ends_the_block() -> None:
    """A broker that reads and does not answer; what it owes is told."""

    async def hold(broker: ScriptedBroker, patience: Patience, connection: Connection) -> None:
        broker.is_holding = True
        with patience.answer():
            await connection.send("/queue/q", b"x")

    with pytest.raises(LinkLostError, match=r"did not answer for 0\.05 s: gave up; 1 unconfirmed"):
        play(hold, later=0.05, is_failover=False)


def test_a_silent_queue_uses_no_patience_up() -> None:
    """There is a broker and nothing was asked: ten times the limit are well."""

    async def wait(broker: ScriptedBroker, patience: Patience, connection: Connection) -> None:
        async with connection.subscribe("/queue/q") as subscription:
            assert await subscription.receive(0.1) is None
            assert await subscription.receive(0.1) is None

    play(wait, first=60, later=0.01)


def test_a_goodbye_without_an_answer_spoils_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """All is done and acknowledged: that the broker goes now is not the command's failure."""
    monkeypatch.setattr(message_patience, "GOODBYE_SECONDS_MAX", 0.05)

    async def finish(broker: ScriptedBroker, patience: Patience, connection: Connection) -> None:
        async with connection.subscribe("/queue/q"):
            broker.kill()
            patience.finished()

    play(finish, later=60)
    play(finish)


def test_other_failures_are_not_ours() -> None:
    """A refusal, and the end of a plain connection, are told as they are."""

    async def refused(broker: ScriptedBroker, patience: Patience, connection: Connection) -> None:
        broker.refuse = lambda _: ("store-full", "no room")
        await connection.send("/queue/q", b"x")

    async def lost(broker: ScriptedBroker, patience: Patience, connection: Connection) -> None:
        async with connection.subscribe("/queue/q") as subscription:
            broker.kill()
            await subscription.receive()

    with pytest.raises(RefusedError, match="no room"):
        play(refused, later=60)
    with pytest.raises(LinkLostError, match="127"):
        play(lost, later=60, is_failover=False)


class SetLoop:
    """A loop whose time is set; it keeps when it is to call."""

    def __init__(self) -> None:
        self.now = 0.0
        self.planned: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, call: Callable[[], None]) -> Any:
        self.planned.append((self.now + seconds, call))
        return contextlib.nullcontext()

    def advance(self) -> None:
        """Go to the one thing planned, and do it."""
        ((self.now, call),) = self.planned
        self.planned = []
        call()


def test_every_answer_begins_the_wait_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Patience is for a broker that does nothing, not for one that has much to do; one timer serves
    all answers, and none runs while nothing is owed.
    """

    async def build() -> Patience:
        return Patience("stomp://h:1", first_seconds=None, later_seconds=10)

    patience, loop, given_up = asyncio.run(build()), SetLoop(), []
    patience._loop = loop  # type: ignore[assignment]
    monkeypatch.setattr(patience, "_give_up", lambda: given_up.append(loop.now))
    patience.asked()
    patience.asked()
    loop.now = 9
    patience.answered()
    loop.advance()
    assert (loop.now, given_up) == (10, [])
    patience.answered()
    loop.advance()
    assert (loop.now, loop.planned) == (19, [])

    loop.now = 100
    patience.asked()
    loop.advance()
    assert given_up == [110]

    patience.answered()
    patience._lost()
    loop.now = 115
    patience._back()
    patience.asked()
    loop.advance()
    assert given_up == [110]
    assert [when for when, _ in loop.planned] == [125]

"""What a medium does not store for its size or its room: whom that costs what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.errors import AppendRefusedError, EntryRefusedError
from trials.leased.passage import LOST, Fate

AWAY = Fate(before=LOST)


def test_what_is_too_large_for_its_medium_costs_the_lease_once(
    broker: Callable[..., Any],
) -> None:
    """After that its size is refused: else its sender took the lease again and again."""
    holder = broker("a").serve()
    assert 0 == holder.driver.message_bytes_max
    holder.passage.fates.extend([AWAY] * 20)
    holder.propose(b"x" * 8_000_000)
    holder.until(lambda: not holder.driver.is_leader)

    assert 0 < holder.driver.message_bytes_max < 8_000_000


def test_what_its_medium_refuses_for_its_size_costs_the_lease_once(
    broker: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small one is tried again, with the lease in hand: nobody can tell what is wrong with it."""
    holder = broker("a").serve()

    def refuse(*_: object) -> None:
        raise EntryRefusedError("larger than the cluster takes")

    monkeypatch.setattr(holder.log, "append", refuse)
    holder.propose(b"x")
    holder.until(holder.driver.refusal)
    assert holder.driver.is_leader
    monkeypatch.undo()
    holder.until(lambda: not holder.driver.refusal())
    monkeypatch.setattr(holder.log, "append", refuse)
    holder.propose(b"x" * 8_000_000)
    holder.until(lambda: not holder.driver.is_leader)

    assert 3_900_000 < holder.driver.message_bytes_max < 8_000_000


def test_what_has_no_room_does_not_hold_up_what_has(
    broker: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A nearly full database: what is of some size is given up after a while, so that messages are
    acknowledged, which makes room; what is small is waited with.
    """
    holder = broker("a").serve()
    append, room = type(holder.log).append, 100_000

    def store(entries: list[Any], seconds_max: float) -> Any:
        if sum(len(it.raw) for it in entries) > room:
            raise AppendRefusedError("the table is full")
        return append(holder.log, entries, seconds_max)

    monkeypatch.setattr(holder.log, "append", store)
    holder.propose(b"x" * 300_000)
    began = holder.passage.now
    holder.until(lambda: not holder.driver.is_leader)
    assert 3.0 <= holder.passage.now - began < 5.0
    assert 140_000 < holder.driver.message_bytes_max < 300_000
    assert holder.driver.batch_bytes_max == holder.driver.message_bytes_max // 7
    holder.serve()
    holder.store(b"an acknowledgement")
    room = 100
    holder.propose(b"x" * 1000)
    holder.until(lambda: holder.passage.now > began + 20.0)
    assert holder.driver.is_leader
    assert holder.driver.refusal()


def test_the_slowest_of_several_copies_limits_what_one_message_may_have(
    broker: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the append as a whole took: that one would be left out for it."""
    holder = broker("a").serve()
    asked: list[float] = []

    def of_copies(sure_seconds: float) -> int:
        asked.append(sure_seconds)
        return 2_000_000

    monkeypatch.setattr(holder.log, "message_bytes_max", of_copies)
    assert holder.driver.message_bytes_max == 2_000_000
    assert set(asked) == {holder.driver._state.sure_seconds}
    holder.driver._state.throughput.stored(3_000_000, 1.0, holder.driver._state.now)
    assert holder.driver.message_bytes_max == 2_000_000
    monkeypatch.setattr(holder.log, "message_bytes_max", lambda _: 0)
    assert holder.driver.message_bytes_max > 2_000_000


def test_what_refuses_all_is_waited_with(
    broker: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As unsafe settings do: nothing smaller would be stored instead, so nobody is cut off."""
    holder = broker("a").serve()
    error = AppendRefusedError("it would lose what is stored")
    error.is_of_all = True

    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(holder.log, "append", refuse)
    holder.propose(b"x" * 300_000)
    until = holder.passage.now + 30.0
    holder.until(lambda: holder.passage.now > until)
    assert holder.driver.is_leader
    assert holder.driver.message_bytes_max == 0


def test_where_a_lease_needs_room_nothing_is_given_up_without_any(
    broker: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory that is nearly full: nobody could take the lease again."""
    holder = broker("a").serve()
    monkeypatch.setattr(type(holder.log), "low_room", "8 MiB are left")
    monkeypatch.setattr(type(holder.log), "is_fence", False)

    def refuse(*_: object) -> None:
        raise AppendRefusedError("no room")

    monkeypatch.setattr(holder.log, "append", refuse)
    holder.propose(b"x" * 300_000)
    until = holder.passage.now + 30.0
    holder.until(lambda: holder.passage.now > until)
    assert holder.driver.is_leader
    monkeypatch.setattr(type(holder.log), "low_room", "")
    holder.until(lambda: not holder.driver.is_leader)

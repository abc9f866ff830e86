"""A broker whose own --data is full, while the log's place has room."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from holdfast.leases.cache_room import AGAIN_SECONDS, CLOSED_AGAIN_SECONDS
from holdfast.leases.contract import Waiter
from holdfast.leases.orders import Release, Take
from holdfast.leases.settings import LeaseSettings
from holdfast.leases.state import Phase
from trials.simulation.local_journal import SMALL

LITTLE: dict[str, Any] = {
    "settings": LeaseSettings(unread_bytes_max=2000),
    "journal_settings": replace(SMALL, tail_cache_bytes=0),
}


def fill(broker: Any) -> None:
    """Let its cache's writer find no room."""
    broker.is_cache_slow = True
    broker.journal.is_out_of_room = True


def clear(broker: Any) -> None:
    """Let there be room again."""
    broker.is_cache_slow = False
    broker.write()
    broker.journal.is_out_of_room = False


def test_a_holder_alone_goes_on_until_so_much_waits_to_be_written(
    broker: Callable[..., Any],
) -> None:
    """What is confirmed stands in the medium; then publishing is refused, and --data is named."""
    alone = broker("a", **LITTLE).serve()
    fill(alone)
    alone.store(bytes(500))
    assert alone.take() == [1]
    assert alone.driver.cache_refusal == ""
    assert "--data (/) has no room" not in alone.driver.refusal_reason
    assert any("--data (/) has no room for" in it for it in alone.driver.facts().warnings)
    alone.store(bytes(900), bytes(900))

    assert "its own copy of the log" in alone.driver.cache_refusal
    assert "/" not in alone.driver.cache_refusal
    assert "which is no part of it: make room there" in alone.driver.refusal_reason
    assert alone.driver.refusal() == ""
    assert alone.driver.is_serving
    alone.store(b"settled")
    assert alone.take() == [2, 3, 4]
    clear(alone)
    assert (alone.driver.cache_refusal, alone.driver.refusal_reason) == ("", "")
    assert alone.journal.stored_index == 4


def test_a_holder_gives_the_lease_to_who_keeps_up(
    broker: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """To nobody before that one was seen to have read further than this one can write; once."""
    holder, standby = broker("a").serve(), broker("b")
    standby.until(lambda: standby.driver.leader == "a")
    fill(holder)
    holder.store(b"one")
    holder.until(lambda: not holder.orders)
    assert holder.driver.is_serving
    standby.until(lambda: standby.take() == [1])
    told = standby.state.told_count
    standby.until(lambda: standby.state.told_count > told + 1)
    with caplog.at_level(logging.ERROR, "holdfast.leases"):
        holder.until(lambda: holder.driver.is_handing_over)
        holder.until(lambda: not holder.driver.is_leader)
    assert "the lease is given to b: --data (/) has no room for this broker's copy" in caplog.text
    standby.until(lambda: standby.take() is not None and standby.driver.is_serving)
    standby.store(b"two")

    assert [2] == standby.take()
    assert [1, 2] == [epoch for epoch, _ in holder.medium.takes]


def test_it_is_not_handed_back_and_forth(broker: Callable[..., Any]) -> None:
    """Whoever gets it back soon keeps it, as the other one may have as little room."""
    holder, standby = broker("a").serve(), broker("b")
    standby.until(lambda: standby.driver.leader == "a")
    fill(holder)
    holder.store(b"one")
    standby.until(lambda: standby.take() == [1])
    for _ in range(2):
        told = standby.state.told_count
        standby.until(lambda told=told: standby.state.told_count > told)
    holder.until(lambda: not holder.driver.is_leader)
    standby.until(lambda: standby.driver.is_leader)
    standby.until(lambda: standby.driver.is_serving or standby.take())
    standby.driver.transfer()
    standby.until(lambda: not standby.driver.is_leader)
    holder.state.rests_until = holder.passage.now = standby.passage.now + 1.0
    holder.until(lambda: holder.take() is not None and holder.driver.is_serving)
    began = holder.passage.now
    for _ in range(200):
        holder.step()
        holder.take()
    assert holder.driver.is_serving
    assert 10 < holder.passage.now - began < AGAIN_SECONDS / 2


@pytest.mark.parametrize("hindered", ["refusal", "trouble"])
def test_a_holder_with_other_worries_hands_nothing_over(
    broker: Callable[..., Any], hindered: str
) -> None:
    """A medium that takes nothing takes nothing from the other one either."""
    holder, standby = broker("a").serve(), broker("b")
    standby.until(lambda: standby.driver.leader == "a")
    fill(holder)
    holder.store(b"one")
    standby.until(lambda: standby.take() == [1])
    able = Waiter(claimant=standby.driver.claimant, known_level=7, beat=1, applied_index=1)
    setattr(holder.state, hindered, "it is so")
    holder.driver._room.step([able])
    assert not holder.state.is_giving_up
    setattr(holder.state, hindered, "")
    holder.driver._room.step([replace(able, applied_index=0)])
    assert not holder.state.is_giving_up
    holder.driver._room.step([able])
    assert holder.state.is_giving_up


def test_who_cannot_read_the_log_does_not_take_it(broker: Callable[..., Any]) -> None:
    """It would hold the lease and never serve; it says why, and takes it once there is room."""
    holder = broker("a").serve()
    late = broker("b", **LITTLE)
    fill(late)
    holder.store(*[bytes(900)] * 5)
    holder.take()
    late.passage.now = holder.passage.now
    late.until(lambda: late.state.phase.value == "standby" and late.journal.last_index >= 3)
    late.take()
    for _ in range(100):
        late.step()
        assert not isinstance(late.orders[0] if late.orders else None, Take)
    assert late.passage.now > holder.passage.now + 10
    assert "which is no part of it" in late.driver.trouble
    clear(late)
    late.until(lambda: late.take() is not None and late.driver.is_serving)
    assert late.driver.trouble == ""
    assert late.driver.commit_index == 5


def test_who_took_it_and_cannot_read_it_gives_it_back(
    broker: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Others may have room; it is no reason to end."""
    late = broker("a", **LITTLE).serve()
    fill(late)
    late.store(*[bytes(900)] * 3)
    late.state.phase, late.state.end_index = Phase.CATCHING_UP, 9
    with caplog.at_level(logging.ERROR, "holdfast.leases"):
        late.until(lambda: any(isinstance(it, Release) for it in late.orders))
    late.perform()

    assert not late.driver.is_leader
    assert "the lease is given back: --data (/) has no room" in caplog.text
    for _ in range(100):
        late.step()
    assert not late.driver.is_leader


def test_past_twice_that_nothing_is_stored_and_the_lease_is_kept(
    broker: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """
    Whoever publishes nothing fills memory as well; what waits is stored once there is room.
    """
    alone = broker("a", **LITTLE).serve()
    fill(alone)
    with caplog.at_level(logging.WARNING, "holdfast.leases"):
        alone.store(*[bytes(900)] * 5)
        for _ in range(5):
            alone.driver.propose([bytes(900)], 1, now=0.0, wall_microseconds=1)
        began, stored, kept = alone.passage.now, alone.medium.end.index, alone.medium.beat
        alone.until(lambda: alone.passage.now > began + 3 * alone.state.lease_seconds)

        assert alone.driver.is_serving
        assert alone.medium.end.index == stored == 5
        assert alone.medium.beat > kept + 10
        assert alone.journal.tail.memory.bytes < 3 * 2000
        told = "until then nothing is stored, and acknowledgements wait"
        assert told in alone.driver.refusal_reason
        assert caplog.text.count(told) == 1
        clear(alone)
        alone.until(lambda: alone.medium.end.index == 10)
    assert caplog.text.count("there is room for this broker's copy again") == 1
    assert told not in alone.driver.refusal_reason


def test_a_holder_that_stores_nothing_hands_the_lease_over_sooner(
    broker: Callable[..., Any],
) -> None:
    """Nobody is served there, and what waits is stored before the lease goes."""
    holder, standby = broker("a", **LITTLE).serve(), broker("b")
    standby.until(lambda: standby.driver.leader == "a")
    fill(holder)
    holder.store(*[bytes(900)] * 5)
    standby.until(lambda: standby.take() is not None and standby.journal.last_index == 5)
    holder.driver._room._handed_at = holder.passage.now
    holder.driver.propose([b"settled"], 1, now=0.0, wall_microseconds=1)
    able = [Waiter(claimant=standby.driver.claimant, known_level=7, beat=1, applied_index=5)]
    began = holder.state.now
    holder.driver._room.step(able)
    assert not holder.state.is_giving_up
    holder.state.now = began + CLOSED_AGAIN_SECONDS + 1
    holder.driver._room.step(able)
    assert holder.state.is_giving_up
    holder.until(lambda: not holder.driver.is_leader)

    assert holder.medium.end.index == 6

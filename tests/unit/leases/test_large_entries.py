"""What a medium does not store for its size or its room: whom that costs what."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.environment.machine import Machine
from holdfast.errors import AppendRefusedError, EntryRefusedError
from holdfast.leases.refusals import Refusals
from holdfast.model.limits import KiB
from holdfast.shared.reserve import Reserve
from holdfast.shared.settings import SharedSettings
from holdfast.shared.shared_log import SharedLog, Surroundings
from trials.leased.passage import LOST, Fate
from trials.simulation.simulated_share import SimulatedSharedDisk

ROOT = Path("/share")
LOCAL_MOUNT = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
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


@pytest.mark.parametrize("is_by_time", [True, False], ids=["by time", "by what is stored"])
def test_what_was_given_up_is_refused_whatever_else_is_stored(
    broker: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, is_by_time: bool
) -> None:
    """
    Its sender sends it again, and others send little: were that a sign of room, each would cost the
    lease anew. In five minutes it does twice: it is tried again after two.
    """
    if not is_by_time:
        stored = Refusals.stored

        def lift(self: Refusals, count: int) -> None:
            stored(self, count)
            self._bytes = 0

        monkeypatch.setattr(Refusals, "stored", lift)
    holder = broker("a").serve()
    append = type(holder.log).append

    def store(entries: list[Any], seconds_max: float) -> Any:
        if sum(len(it.raw) for it in entries) > 100_000:
            raise AppendRefusedError("the table is full")
        return append(holder.log, entries, seconds_max)

    monkeypatch.setattr(holder.log, "append", store)
    until = holder.passage.now + 290.0
    while holder.passage.now < until:
        holder.serve()
        holder.store(b"little")
        limit = holder.driver.message_bytes_max
        if not limit or limit > 300_000:
            holder.propose(b"x" * 300_000)
            holder.until(lambda: not holder.driver.is_leader)
        holder.passage.wait(1.0)
    losses = holder.state.epoch - 1
    assert losses == 2 if is_by_time else losses > 20


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
    error.keeps_lease = True

    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(holder.log, "append", refuse)
    holder.propose(b"x" * 300_000)
    until = holder.passage.now + 30.0
    holder.until(lambda: holder.passage.now > until)
    assert holder.driver.is_leader
    assert holder.driver.message_bytes_max == 0


class Share:
    """A directory on a share in memory, with what one process needs to keep its log there."""

    def __init__(self, **settings: Any) -> None:
        self.disk = SimulatedSharedDisk()
        self._settings = SharedSettings(
            segment_bytes=64 * KiB, first_segment_bytes=64 * KiB, **settings
        )
        self._around = Surroundings(lambda: LOCAL_MOUNT, lambda: Machine("host", "m1", "start"))

    def log(self, *_: object) -> SharedLog:
        """Open it as another process does."""
        return SharedLog(ROOT, self._settings, disk=self.disk, surroundings=self._around)

    def kept(self) -> int:
        """For how many takes room is kept."""
        return sum(it.startswith("reserve-") for it in self.disk.list_directory(ROOT))


@pytest.fixture
def share() -> Share:
    return Share()


def held_up(holder: Any, share: Share, takes: int) -> None:
    """Have others fill the share once so many takes have room, with a large entry under way."""
    holder.serve()
    holder.until(lambda: share.kept() == takes)
    holder.store(b"a message that waits")
    share.disk.limit(0)
    holder.propose(b"x" * 300_000)
    holder.propose(b"an acknowledgement")
    holder.until(holder.driver.refusal)


@pytest.mark.parametrize("takes", [2, 4])
def test_on_a_full_share_what_has_no_room_does_not_hold_up_what_has(
    broker: Callable[..., Any], takes: int
) -> None:
    """The large one is given up with the lease, which is taken again by the room kept for that."""
    share = Share(takes_with_room=takes)
    holder = broker("a", log_type=share.log)
    held_up(holder, share, takes)
    holder.until(lambda: not holder.driver.is_leader)
    holder.serve()
    assert holder.state.epoch == 2
    assert 0 < holder.driver.message_bytes_max < 300_000
    holder.store(b"an acknowledgement", b"and another one")
    assert share.kept() == takes - 1


@pytest.mark.parametrize("takes", [0, 1])
def test_where_nobody_could_follow_the_lease_is_kept(
    broker: Callable[..., Any], takes: int
) -> None:
    """On a full share a take needs room: the last that is kept is for whoever follows a holder."""
    share = Share(takes_with_room=takes)
    holder = broker("a", log_type=share.log)
    held_up(holder, share, takes)
    until = holder.passage.now + 30.0
    holder.until(lambda: holder.passage.now > until)
    assert holder.driver.is_leader
    share.disk.limit(None)
    holder.until(lambda: not holder.driver.refusal())
    assert holder.take() == [1, 2, 3]


def test_without_room_for_a_take_nobody_could_acknowledge_any_more(
    broker: Callable[..., Any], share: Share, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept is what lets it go on: where a taker leaves it alone, the log is nobody's."""
    monkeypatch.setattr(Reserve, "_give_up_one", lambda *_: False)
    holder = broker("a", log_type=share.log)
    held_up(holder, share, 4)
    holder.until(lambda: holder.state.take_trouble)
    assert not holder.driver.is_leader
    assert "has no room" in holder.state.take_trouble

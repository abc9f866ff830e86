"""Damage in the cache is mended from the medium."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.errors import CorruptEntryError
from holdfast.leases.orders import Fetch
from trials.simulation.local_journal import SMALL


def spoil(broker: Any, index: int) -> None:
    """Let a byte of an entry in the cache's file rot, and let somebody read it."""
    broker.take()
    broker.turn()
    place = broker.journal.place_of(index)
    broker.local.disk.flip_bit(place.path, (place.byte + place.size - 20) * 8)
    with pytest.raises(CorruptEntryError):
        broker.journal.entry(index)


@pytest.fixture
def holder(broker: Callable[..., Any]) -> Any:
    """One that holds the lease, with some entries that it reads from its disk."""
    holder = broker("a", journal_settings=SMALL).serve()
    holder.store(*[b"payload %d " % number * 400 for number in range(6)])
    return holder


def test_a_damaged_entry_is_read_from_the_medium_and_written_over(holder: Any) -> None:
    """Who reads it then finds it whole, also after a restart."""
    spoil(holder, 2)
    assert (2,) == holder.driver.damaged
    holder.until(lambda: not holder.driver.damaged)

    assert 1 == holder.driver.repaired_count
    assert holder.medium.history[2] == holder.journal.entry(2).chain
    assert holder.medium.history[2] == holder.local.reopen().entry(2).chain


def test_several_are_mended_one_after_the_other(holder: Any) -> None:
    """The first one first: damaged neighbours have no bounds of their own."""
    for index in (4, 3, 2):
        spoil(holder, index)
    fetched = []
    while holder.driver.damaged:
        holder.until(lambda: holder.orders)
        if isinstance(holder.orders[0], Fetch):
            fetched.append(holder.orders[0].index)
        holder.perform()

    assert [4, 2, 3] == fetched, "the one found first was asked for at once"


def test_it_stays_damaged_until_it_is_written(holder: Any) -> None:
    """What waits for the disk is not mended yet, and is not fetched again meanwhile."""
    spoil(holder, 2)
    holder.is_cache_slow = True
    holder.until(lambda: holder.jobs)
    for _ in range(5):
        holder.step()
    assert (2,) == holder.driver.damaged
    assert 1 == len(holder.jobs)
    holder.write()
    holder.turn()
    assert () == holder.driver.damaged


def test_where_the_mediums_copy_is_damaged_too_it_is_tried_later(holder: Any) -> None:
    """Rot in both ends nobody: the broker goes on with the rest, and tries again (L38)."""
    spoil(holder, 2)
    holder.medium.damage(2)
    holder.until(lambda: holder.state.mend_at > holder.passage.now)
    assert holder.driver.is_serving
    asked = len(holder.passage.asked)
    holder.store(b"goes on")
    assert (2,) == holder.driver.damaged
    assert "entries" not in holder.passage.asked[asked:]

    holder.medium.damage(2)
    holder.until(lambda: not holder.driver.damaged)
    assert 1 == holder.driver.repaired_count


def test_what_went_meanwhile_concerns_nobody(holder: Any) -> None:
    """Cleaned away, or not there at all: nothing is asked for it."""
    holder.driver.report_damage(99)
    holder.turn()
    assert () == holder.driver.damaged


def test_what_the_medium_dropped_is_begun_behind_if_it_is_still_needed(
    broker: Callable[..., Any], holder: Any
) -> None:
    """A cache that has more than the medium, with rot in what was not given out yet."""
    reader = broker("b", journal_settings=SMALL)
    reader.until(lambda: reader.journal.last_index == 6)
    spoil(reader, 2)
    reader.state.taken_index = 1
    holder.take()
    holder.turn()
    holder.journal.drop_before(6)
    first = holder.journal.first_index
    holder.until(lambda: holder.medium.first_index == first - 1 and not holder.orders)
    assert first > 3
    reader.until(lambda: reader.driver.log_epoch == 1 and reader.journal.last_index == 6)

    assert list(range(first, 7)) == reader.take()
    assert () == reader.driver.damaged


def test_what_the_medium_dropped_stays_where_it_was_given_out(
    broker: Callable[..., Any], holder: Any
) -> None:
    """Nobody needs it any more: the cache is not thrown away for it."""
    reader = broker("b", journal_settings=SMALL)
    reader.until(lambda: reader.journal.last_index == 6)
    spoil(reader, 2)
    holder.take()
    holder.turn()
    holder.journal.drop_before(6)
    holder.until(lambda: holder.medium.first_index > 2 and not holder.orders)
    reader.until(lambda: reader.state.mend_at > reader.passage.now)

    assert (0, (2,)) == (reader.driver.log_epoch, reader.driver.damaged)


def test_a_repair_of_a_cache_that_began_anew_does_not_stand_in_the_way(
    broker: Callable[..., Any], holder: Any
) -> None:
    """Its entry is gone before it was written: the next damage is mended all the same."""
    reader = broker("b", journal_settings=SMALL)
    reader.until(lambda: reader.journal.last_index == 6)
    spoil(reader, 2)
    reader.is_cache_slow = True
    reader.until(lambda: reader.jobs)
    reader.state.damaged.clear()
    reader.driver._writer.submit(reader.journal.stage_reset(1, 0, bytes(16), 1))
    reader.write()
    reader.is_cache_slow = False
    reader.turn()
    reader.until(lambda: reader.journal.last_index == 6)
    spoil(reader, 3)
    reader.until(lambda: not reader.driver.damaged)

    assert 1 == reader.driver.repaired_count
    assert holder.medium.history[3] == reader.journal.entry(3).chain


def test_a_copy_of_another_past_is_not_written(holder: Any) -> None:
    """What stood there is told by its header: the medium's must be the same entry."""
    spoil(holder, 2)
    holder.medium.rows[2] = holder.medium.rows[3]
    holder.until(lambda: holder.state.mend_at > holder.passage.now)

    assert (2,) == holder.driver.damaged
    assert 0 == holder.driver.repaired_count

"""What was read of the log goes into the cache, or the cache begins anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.errors import StoreError
from holdfast.journal.entry import Entry, seal_entry
from holdfast.leases import catching_up
from holdfast.leases.orders import Look, Report

LOOK = Look(0, bytes(16), 1.0)


@pytest.fixture
def reader(broker: Callable[..., Any]) -> Any:
    """One that waits, with two entries in its cache."""
    writer = broker("a").serve()
    writer.store(b"one", b"two")
    reader = broker("b")
    reader.until(lambda: reader.journal.last_index == 2)
    return reader


def take(reader: Any, **found: Any) -> None:
    report = Report(order=LOOK, began=0.0, **found)
    catching_up.take(reader.state, reader.journal, reader.driver._writer, report)


def following(reader: Any, **others: Any) -> Entry:
    journal = reader.journal
    fields: dict[str, Any] = {
        "index": journal.last_index + 1,
        "term": 1,
        "kind": 0,
        "timestamp": 9,
        "first_record": journal.next_record_number,
        "record_count": 1,
        "parts": [b"three"],
        "previous_chain": journal.last_chain,
    }
    return seal_entry(**fields | others)


def test_what_follows_is_committed_and_in_the_cache(reader: Any) -> None:
    """What was read of the medium is final enough to be followed."""
    entry = following(reader)
    take(reader, entries=[entry])

    assert entry == reader.journal.entry(3)
    assert 3 == reader.driver.commit_index


def test_what_is_known_already_is_not_taken_twice(reader: Any) -> None:
    """A reading that does not follow on the cache is of no use."""
    take(reader, entries=[following(reader, index=2)])
    take(reader, entries=[])

    assert 2 == reader.driver.commit_index


def test_records_must_follow_on_one_another(reader: Any) -> None:
    """An entry whose records begin elsewhere was made by hand."""
    with pytest.raises(StoreError, match="it was changed by hand"):
        take(reader, entries=[following(reader, first_record=99)])


def test_a_cache_of_another_past_begins_anew(reader: Any) -> None:
    """All of it goes, and who built on it is told; its damage is nobody's any more."""
    reader.state.damaged = {1}
    take(reader, is_other=True)

    assert (1, 0) == (reader.journal.first_index, reader.journal.last_index)
    assert (1, 0, 0) == (
        reader.driver.log_epoch,
        reader.driver.commit_index,
        reader.driver.taken_index,
    )
    assert set() == reader.state.damaged


def test_behind_an_anchor_it_goes_on_from_there(reader: Any) -> None:
    """Of a log that was cleaned only the rest can be read."""
    anchor = following(reader, index=30, first_record=70)
    take(reader, is_other=True, anchor=anchor)
    take(reader, entries=[following(reader)])

    assert 31 == reader.journal.first_index == reader.journal.last_index
    assert 71 == reader.journal.entry(31).first_record
    assert 31 == reader.driver.commit_index


def test_an_empty_cache_of_an_empty_log_need_not_begin_anew(broker: Callable[..., Any]) -> None:
    """Nobody is told of a change where there is none."""
    fresh = broker("c")
    take(fresh, is_other=True)

    assert 0 == fresh.driver.log_epoch
    assert [] == fresh.jobs

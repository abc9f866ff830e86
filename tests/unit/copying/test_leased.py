"""A database and a shared directory as the source of a copy, and as where one is made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.copying.leased import LeasedSource, LeasedTarget
from holdfast.errors import StoreError, StoreLockedError
from holdfast.leases.contract import Outcome
from holdfast.leases.copies import CopiedLog
from tests.stores.copied_log_suite import ANCHOR, claimant, entries_behind, plan_of
from tests.unit.copying.places_to_copy import MEDIA, SECONDS, Time, served


@pytest.fixture(params=list(MEDIA))
def medium(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], CopiedLog]:
    """One more way to a place."""
    return lambda: MEDIA[request.param](tmp_path / "place")


def test_a_source_is_held_and_given_back(medium: Callable[[], CopiedLog]) -> None:
    """Brokers wait meanwhile; then one takes it at once. Its plan says what there is."""
    entries = served(medium())
    source = LeasedSource.open(medium(), hold=Time().hold)
    assert (source.plan.anchor, source.plan.end.chain) == (None, entries[-1].chain)
    other = medium()
    seen = other.open()
    assert source.plan.identity == other.identity()
    assert (seen.epoch, seen.is_released) == (source.plan.epoch, False)
    source.close()
    assert other.observe(SECONDS).is_released
    other.close()


def test_where_nothing_is_nothing_is_copied_or_made(medium: Callable[[], CopiedLog]) -> None:
    """No log is laid out for a name that is wrong; one without an entry has nothing to copy."""
    with pytest.raises(StoreError, match="holds no log"):
        LeasedSource.open(medium())
    log = medium()
    log.open()
    log.close()
    with pytest.raises(StoreError, match="is empty: there is nothing to copy"):
        LeasedSource.open(medium())


def test_a_log_in_use_is_neither_source_nor_target(medium: Callable[[], CopiedLog]) -> None:
    """Whoever holds it is named."""
    served(medium())
    broker = medium()
    broker.open()
    broker.take(broker.observe(SECONDS), claimant(5), SECONDS)
    with pytest.raises(StoreLockedError, match="is in use by copy"):
        LeasedSource.open(medium(), lambda *_: broker.renew(SECONDS), Time().hold)
    assert broker.renew(SECONDS) is Outcome.STORED
    broker.close()


def test_of_two_copies_to_one_place_the_second_is_refused(
    medium: Callable[[], CopiedLog],
) -> None:
    """The first one gives signs of life; without any it is replaced, and the copy gone on with."""
    entries = entries_behind(ANCHOR)
    plan = plan_of(entries)
    time = Time()
    first = LeasedTarget(medium(), "", hold=time.hold)
    assert first.begin(plan) == plan.begins_behind
    first.append(entries[:3])

    def living(_who: str, _left: float) -> None:
        time.now += 1.5
        first.keep()

    second = LeasedTarget(medium(), "", living, time.hold)
    with pytest.raises(StoreLockedError, match="is in use by holdfast store copy"):
        second.begin(plan)
    second.close()

    third = LeasedTarget(medium(), "start", hold=time.hold)
    assert third.begin(plan).index == entries[2].index
    third.append(entries[3:])
    with pytest.raises(StoreError, match="was taken by somebody else"):
        first.append(entries[3:])
    assert third.entries(ANCHOR.index) == entries
    assert third.finish(lambda: None) == "start"
    third.close()
    first.close()


def test_a_log_is_not_copied_to_itself(medium: Callable[[], CopiedLog]) -> None:
    """Whatever its two names are: the lease tells that it is being copied."""
    served(medium())
    source = LeasedSource.open(medium(), hold=Time().hold)
    target = LeasedTarget(medium(), "")
    with pytest.raises(StoreLockedError, match="is the log that is copied"):
        target.begin(source.plan)
    target.close()
    source.close()

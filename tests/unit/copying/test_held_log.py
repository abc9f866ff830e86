"""The lease of a log that is copied: taken from nobody who lives, kept, and given back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.copying.held_log import NAME, PATIENCE_SECONDS, HeldLog
from holdfast.errors import StoreError, StoreLockedError, UnreachableError
from holdfast.leases.contract import Outcome
from holdfast.leases.copies import CopiedLog
from holdfast.shared.lease_files import claim
from tests.stores.copied_log_suite import claimant
from tests.unit.copying.places_to_copy import SECONDS, Time, shared_at, sqlite_at


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def another(tmp_path: Path) -> Callable[[], CopiedLog]:
    """One more way to the same log, opened."""

    def open_log() -> CopiedLog:
        log = sqlite_at(tmp_path / "x.db")
        log.open()
        return log

    return open_log


def test_a_log_of_nobody_is_taken_at_once(time: Time, another: Callable[[], CopiedLog]) -> None:
    """One that was never held, and one that was given back."""
    for _ in range(2):
        held = time.hold(another())
        holding = held.take()
        assert holding.claimant is not None
        assert holding.claimant.name == NAME
        held.close()
    assert time.now == 1000.0


def test_a_holder_that_is_silent_is_waited_for(
    time: Time, another: Callable[[], CopiedLog]
) -> None:
    """For a whole lease and a tenth of it; who that is is told meanwhile."""
    broker = another()
    broker.take(broker.observe(SECONDS), claimant(1), SECONDS)
    told: list[tuple[str, float]] = []
    time.hold(log := another()).take(lambda *it: told.append(it))

    assert 5.5 <= time.now - 1000.0 <= 6.5
    assert told[0] == ("copy", 5.5)
    assert broker.renew(SECONDS) is Outcome.DEPOSED
    log.close()


def test_a_holder_that_lives_keeps_its_log(time: Time, another: Callable[[], CopiedLog]) -> None:
    """One sign of life is enough; the sentence names who it is."""
    broker = another()
    broker.take(broker.observe(SECONDS), claimant(1), SECONDS)

    def living(_who: str, left: float) -> None:
        if left < 2:
            broker.renew(SECONDS)

    with pytest.raises(StoreLockedError, match="is in use by copy: stop every broker"):
        time.hold(another()).take(living)
    assert broker.renew(SECONDS) is Outcome.STORED


def test_one_that_is_given_back_meanwhile_is_taken(
    time: Time, another: Callable[[], CopiedLog]
) -> None:
    """Without waiting any longer."""
    broker = another()
    broker.take(broker.observe(SECONDS), claimant(1), SECONDS)
    time.hold(another()).take(lambda *_: broker.release(SECONDS))
    assert time.now - 1000.0 < 1.0


def test_who_takes_it_between_look_and_take_has_it(
    time: Time, another: Callable[[], CopiedLog]
) -> None:
    """The medium judges: then it is in use, by one that lives."""
    log, broker = another(), another()
    take = log.take

    def late(*arguments: object) -> object:
        broker.take(broker.observe(SECONDS), claimant(1), SECONDS)
        return take(*arguments)  # type: ignore[arg-type]

    log.take = late  # type: ignore[method-assign]
    with pytest.raises(StoreLockedError, match="is in use by copy"):
        time.hold(log).take(lambda *_: broker.renew(SECONDS))


def test_an_epoch_that_was_won_and_never_begun_is_passed_by(time: Time, tmp_path: Path) -> None:
    """Its winner was killed in between: it is waited for like a holder that is silent."""
    log = shared_at(tmp_path / "s")
    holding = log.open()
    disk, places = log._log._disk, log._log._places
    assert claim(disk, places, holding.epoch + 1, claimant(1))
    taken = time.hold(log).take()
    assert taken.epoch == holding.epoch + 2
    assert time.now - 1000.0 >= log.lease_seconds
    log.close()


def test_an_outcome_that_is_not_known_is_asked_for_again(
    time: Time, another: Callable[[], CopiedLog]
) -> None:
    """Also where the lease was ours and the answer was lost; not for ever."""
    log = another()
    take = log.take
    failures = [1]

    def lossy(*arguments: object) -> object:
        found = take(*arguments)  # type: ignore[arg-type]
        if failures:
            failures.pop()
            raise UnreachableError("the answer was lost")
        return found

    log.take = lossy  # type: ignore[method-assign]
    held = time.hold(log)
    held.take()
    held.keep(at_once=True)
    assert log.observe(SECONDS).claimant is not None

    def away() -> None:
        raise UnreachableError("nobody there")

    began = time.now
    with pytest.raises(UnreachableError, match="nobody there"):
        held.again(away)
    assert PATIENCE_SECONDS <= time.now - began <= PATIENCE_SECONDS + 1


def test_it_is_kept_until_somebody_takes_it(time: Time, another: Callable[[], CopiedLog]) -> None:
    """A sign of life a second; who was replaced learns it with the next one."""
    held: HeldLog = time.hold(log := another())
    held.take()
    beat = log.observe(SECONDS).beat
    held.keep()
    assert log.observe(SECONDS).beat == beat, "not each time"
    time.now += 1.5
    held.keep()
    assert log.observe(SECONDS).beat != beat

    other = another()
    other.take(other.observe(SECONDS), claimant(1), SECONDS)
    time.now += 1.5
    with pytest.raises(StoreError, match="was taken by somebody else"):
        held.keep()
    held.close()
    assert not another().observe(SECONDS).is_released, "it is not ours to give back"

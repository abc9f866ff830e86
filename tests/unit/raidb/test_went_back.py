"""
A database that goes back in time while nothing is sent, under its holder: a snapshot, a backup, a
standby that lagged behind. What it lacks is stored by the others, and only by them.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from holdfast.errors import StoreError, UnreachableError
from holdfast.leases.contract import Outcome
from holdfast.raidb.raidb_log import RaidbLog
from holdfast.raidb.tenure import Tenure
from tests.stores.leased_log_suite import SECONDS, Writer
from tests.unit.raidb.several import Several, fill, until_left_out

EARLIER, LATER = 3, 5


def went_back(several: Several, place: int, *, by_majority: bool = False) -> Writer:
    """A holder that has stored all, and one database that has not: it does not know yet."""
    writer = Writer(several.log(by_majority=by_majority))
    writer.take()
    writer.append(*(b"%d" % number for number in range(EARLIER)))
    assert writer.log.renew(SECONDS) is Outcome.STORED
    backup = several.databases[place].backup()
    writer.append(*(b"%d" % number for number in range(LATER)))
    assert writer.log.renew(SECONDS) is Outcome.STORED
    several.databases[place].put_back(backup)
    assert several.ends()[place] == EARLIER
    return writer


@pytest.mark.parametrize("by_majority", [False, True], ids=["all", "majority"])
def test_it_is_left_out_with_the_next_sign_of_life(by_majority: bool) -> None:
    """Nothing was sent; then it is filled."""
    several = Several()
    writer = went_back(several, 2, by_majority=by_majority)
    for _ in range(3):  # By majority a sign of life waits for most only.
        several.pass_time(0.5)
        with suppress(UnreachableError):
            assert writer.log.renew(SECONDS) is Outcome.STORED
    assert several.states() == "active active failed"
    fill(writer)
    assert several.states() == "active active active"
    assert several.ends() == [EARLIER + LATER] * 3


def test_it_is_not_gone_on_with_alone() -> None:
    """The other one cannot be reached at that moment: then nothing is stored by anybody."""
    several = Several(2)
    writer = went_back(several, 1)
    several.databases[0].is_away = True
    for _ in range(40):
        several.pass_time(0.5)
        with pytest.raises((StoreError, UnreachableError)):
            writer.log.renew(SECONDS)
    several.databases[0].is_away = False
    written = several.databases[1].written
    assert written is not None
    assert dict(written.known.states)[several.databases[0].member] == "active"
    later = Writer(several.log(), "b")
    several.pass_time(30)
    later.take()
    assert several.ends() == [EARLIER + LATER] * 2


def test_no_set_is_written_there_before_it_is_found_out() -> None:
    """An operator takes the other one out in that moment."""
    several = Several(2)
    writer = went_back(several, 1)
    log = writer.log
    assert isinstance(log, RaidbLog)
    tenure = log._tenure
    assert tenure is not None
    tenure.change({several.databases[0].member: "disabled"})
    with pytest.raises((StoreError, UnreachableError)):
        tenure.stand_within(SECONDS)
    written = several.databases[1].written
    assert written is not None
    assert dict(written.known.states)[several.databases[0].member] == "active"


def test_without_the_look_what_was_stored_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ablation: the same, and nobody asks where it ends."""
    monkeypatch.setattr(Tenure, "known_end", lambda *_: None)
    several = Several(2)
    writer = went_back(several, 1)
    several.databases[0].is_away = True
    assert until_left_out(several, lambda: writer.log.renew(SECONDS)) is Outcome.STORED
    several.databases[0].is_away = False
    later = Writer(several.log(), "b")
    several.pass_time(30)
    later.take()
    fill(later)
    assert several.ends() == [EARLIER] * 2


def test_by_majority_one_that_lags_is_read_from_as_far_as_it_is() -> None:
    """It has not what most have yet: that is no going back in time."""
    several = Several(4)
    writer = went_back(several, 3, by_majority=True)
    log = writer.log
    assert isinstance(log, RaidbLog)
    tenure = log._tenure
    assert tenure is not None
    lagging = tenure.active[0]
    assert tenure.known_end(lagging) == tenure.end
    tenure.backlogs[lagging].offer(writer.sealed(b"under way"))  # type: ignore[attr-defined]
    assert tenure.known_end(lagging) is None

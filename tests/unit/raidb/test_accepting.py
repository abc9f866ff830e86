"""An operator lets some of several databases go on alone."""

from __future__ import annotations

import pytest

from holdfast.errors import MirrorHistoriesError, StoreError, UnreachableError
from holdfast.leases.contract import Outcome
from holdfast.raidb.accepting import look_at
from tests.stores.leased_log_suite import SECONDS, Writer, read_all
from tests.unit.raidb.several import Several, fill, until_left_out

NOBODY = "e" * 32


@pytest.fixture
def several() -> Several:
    """Three, of which two are away."""
    several = Several()
    writer = several.writer()
    writer.append(b"one")
    writer.log.release(SECONDS)
    for it in several.databases[1:]:
        it.is_away = True
    return several


def test_one_that_is_left_goes_on(several: Several) -> None:
    """What it has is served at once; the others are filled when they come back."""
    found = look_at(several.reached())
    assert found.trouble() == "b-member, c-member cannot be used"
    accepted = found.accept("mark", NOBODY)
    assert accepted.active == {"a-member"}

    writer = Writer(several.log(), "b")
    assert writer.take().end.index == 1
    writer.append(b"two")
    for it in several.databases:
        it.is_away = False
    fill(writer)
    assert several.states() == "active active active"
    assert [bytes(it.body) for it in read_all(several.log())] == [b"one", b"two"]


def test_where_nothing_is_missing_there_is_nothing_to_accept(several: Several) -> None:
    """Two of three are enough."""
    several.databases[1].is_away = False

    assert look_at(several.reached()).trouble() == ""


def test_two_that_were_accepted_apart_are_two_histories(several: Several) -> None:
    """Both may hold what was confirmed: nobody chooses by itself."""
    look_at(several.reached()).accept("mark", NOBODY)
    several.databases[0].is_away, several.databases[1].is_away = True, False
    look_at(several.reached()).accept("other", NOBODY)
    several.databases[0].is_away = False

    with pytest.raises(MirrorHistoriesError):
        several.log()


def test_one_that_was_left_out_and_accepted_is_refused_beside_the_others() -> None:
    """It did not know that it was left out: the others have what it lacks."""
    several = Several()
    writer = several.writer()
    several.databases[0].is_away = True
    entries = writer.sealed(b"one")
    until_left_out(several, lambda: writer.send(entries))
    for it in several.databases:
        it.is_away = it.member != "a-member"

    look_at(several.reached()).accept("mark", NOBODY, lambda _: None)
    for it in several.databases:
        it.is_away = False

    with pytest.raises(MirrorHistoriesError):
        several.log()


def test_one_that_is_being_written_is_left_alone(several: Several) -> None:
    """Somebody has done something there since it was looked at."""
    found = look_at(several.reached())
    several.databases[0].beat += 1

    with pytest.raises(UnreachableError, match="is being written by a broker"):
        found.accept("mark", NOBODY)


def test_a_holder_that_is_there_keeps_its_lease(several: Several) -> None:
    """It is not taken from a broker that still gives signs of life in what is left of it."""
    several.databases[1].is_away = several.databases[2].is_away = False
    writer = Writer(several.log(), "b")
    writer.take()
    found = look_at(several.reached())

    def renew(seconds: float) -> None:
        assert seconds == 5.0
        assert writer.log.renew(SECONDS) is Outcome.STORED

    with pytest.raises(UnreachableError, match="is being written by a broker"):
        found.accept("mark", NOBODY, renew)
    assert writer.log.renew(SECONDS) is Outcome.STORED


def test_of_two_that_are_not_alike_the_longer_one_is_enabled() -> None:
    """By majority what it has beyond the other may have been confirmed; the other is filled."""
    several = Several(5)
    ways = several.ways()
    writer = Writer(several.log(ways, by_majority=True))
    writer.take()
    ways[4].is_cut = True
    writer.append(b"one")
    assert several.ends() == [1, 1, 1, 1, 0]
    for it in several.databases[:3]:
        it.is_away = True

    accepted = look_at(several.reached()).accept("mark", NOBODY, lambda _: None)

    assert accepted.active == {"d-member"}
    assert Writer(several.log(), "b").take().end.index == 1


def test_one_that_is_named_and_does_not_answer_is_waited_for() -> None:
    """
    By majority it is the one that has the last of what was confirmed, and restarts just now.

    Nothing is changed; once it answers the longest goes on, and has all.
    """
    several = Several()
    ways = several.ways()
    writer = Writer(several.log(ways, by_majority=True))
    writer.take()
    ways[1].is_cut = True
    writer.append(b"in a and c")
    first, lagging, longest = several.databases
    first.is_away = longest.is_away = True
    ways[1].is_cut = False
    before = lagging.row()

    found = look_at(several.reached(ways[1:]))
    with pytest.raises(UnreachableError, match=r"what the others lack.*--without c-member"):
        found.accept("mark", NOBODY, lambda _: None)
    assert lagging.row() == before

    longest.is_away = False
    accepted = look_at(several.reached(ways[1:])).accept("mark", NOBODY, lambda _: None)
    assert accepted.active == {"c-member"}


def test_status_tells_why_one_was_not_read(several: Several) -> None:
    """It was not given, or did not answer."""
    found = look_at(several.reached(several.ways()[:2]))

    assert found.why_not("b-member").startswith("the medium did not answer")
    assert found.why_not("c-member") == "it was not given"


def test_databases_of_no_set_are_told() -> None:
    """One that is the only one of its log, or away."""
    with pytest.raises(StoreError, match="none of these databases is one of several"):
        look_at(Several(1).reached()).trouble()

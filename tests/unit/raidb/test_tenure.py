"""Who is written, who is left out, and when anything is called stored."""

from __future__ import annotations

import pytest

from holdfast.errors import (
    AppendRefusedError,
    EntryRefusedError,
    StoreError,
    UnreachableError,
)
from holdfast.leases.contract import Outcome
from holdfast.model.limits import MiB
from holdfast.raidb.raidb_log import RaidbLog
from holdfast.raidb.tenure import Tenure, refusal_of
from tests.stores.leased_log_suite import SECONDS, Writer
from tests.unit.raidb.several import TIMEOUT, Several, Way, until_left_out


def held(several: Several, ways: list[Way] | None = None) -> tuple[Writer, Tenure]:
    writer = Writer(several.log(ways))
    writer.take()
    assert isinstance(writer.log, RaidbLog)
    tenure = writer.log._tenure
    assert tenure is not None
    return writer, tenure


def test_nothing_is_stored_while_the_set_does_not_stand() -> None:
    """Who is left out is written in all the others first; until then the append is not known."""
    several = Several()
    ways = several.ways()
    writer, tenure = held(several, ways)
    several.databases[2].is_away = True
    entries = writer.sealed(b"one")
    with pytest.raises(UnreachableError):
        writer.send(entries)
    several.now += TIMEOUT
    ways[0].lost["write"] = "request"

    with pytest.raises(UnreachableError):
        writer.send(entries)
    assert not tenure.holding.is_standing
    assert writer.send(entries) is Outcome.STORED
    assert tenure.holding.is_standing


def test_a_set_that_stands_is_settled_by_the_next_write() -> None:
    """Who looks then need not ask whom it came from."""
    several = Several()
    writer, tenure = held(several)
    assert tenure.holding.current.before
    assert writer.log.renew(SECONDS) is Outcome.STORED

    assert all(it.written and not it.written.known.before for it in several.databases)


def test_one_that_makes_no_sense_is_left_out_at_once() -> None:
    """An error that does not pass by itself is not waited for."""
    several = Several()
    writer, _ = held(several)
    several.databases[1].has_lease_row = False

    writer.append(b"one")
    assert tuple(tenure_states(several)) == ("active", "failed", "active")


def tenure_states(several: Several) -> list[str]:
    written = several.databases[0].written
    assert written is not None
    return [state for _, state in written.known.states]


def test_where_all_make_no_sense_it_is_told() -> None:
    """Nobody is left to go on with."""
    several = Several()
    writer, _ = held(several)
    for it in several.databases:
        it.has_lease_row = False

    with pytest.raises(StoreError, match="gone"):
        writer.append(b"one")


def test_one_that_answers_again_in_time_is_kept() -> None:
    """What counts is how long it has failed without a break."""
    several = Several()
    writer, _ = held(several)
    for number in range(4):
        entries = writer.sealed(b"%d" % number)
        several.databases[1].is_away = True
        with pytest.raises(UnreachableError):
            writer.send(entries)
        several.now += TIMEOUT * 0.6
        several.databases[1].is_away = False
        assert writer.send(entries) is Outcome.STORED

    assert several.states() == "active active active"


def test_what_proves_the_lease_is_a_write_that_began_later() -> None:
    """Each write in all members is counted when it begins, and proves so much when it succeeds."""
    several = Several()
    writer, tenure = held(several)
    assert writer.log.renew(SECONDS) is Outcome.STORED
    assert tenure.proved_count == tenure.begun_count
    several.databases[0].is_away = True
    with pytest.raises(UnreachableError):
        writer.log.renew(SECONDS)
    assert tenure.proved_count == tenure.begun_count - 1


def test_a_renewal_leaves_out_as_an_append_does() -> None:
    """A holder that has nothing to store keeps its lease all the same."""
    several = Several()
    writer, _ = held(several)
    several.databases[0].is_away = True

    assert until_left_out(several, lambda: writer.log.renew(SECONDS)) is Outcome.STORED
    assert several.states() == "failed active active"


def test_what_is_large_takes_its_time() -> None:
    """Nobody has failed who only is far away; some of the time is left for what comes of it."""
    several = Several()
    _, tenure = held(several)
    deadline = several.clock() + 3.6

    assert tenure._bound(deadline, 100_000) == TIMEOUT
    assert tenure._bound(deadline, 48 * MiB) == pytest.approx(2.7)
    assert tenure._bound(deadline, MiB) == pytest.approx(TIMEOUT + 0.25)
    assert tenure._bound(several.clock() + 1.0, 48 * MiB) == pytest.approx(1.0)


def test_what_most_refuse_is_refused_and_the_lease_is_kept() -> None:
    """J3: the third one has stored it; nobody is left out, and the next holder judges of it."""
    several = Several()
    writer, tenure = held(several)
    several.databases[1].is_full = several.databases[2].is_full = True
    entries = writer.sealed(bytes(100_000))
    for _ in range(3):
        with pytest.raises(AppendRefusedError, match=r"is full; .*is full"):
            writer.send(entries)
        several.now += TIMEOUT
        assert writer.log.renew(SECONDS) is Outcome.STORED
    assert several.ends() == [1, 0, 0]
    assert tenure.is_in_flight
    assert tenure_states(several) == ["active", "active", "active"]

    after, _ = held(several)
    assert after.end.index == 0
    assert several.ends() == [0, 0, 0]


@pytest.mark.parametrize(
    ("kinds", "keeps_lease", "is_its_own"),
    [
        ((EntryRefusedError, EntryRefusedError), False, True),
        ((EntryRefusedError, AppendRefusedError), False, False),
        ((AppendRefusedError, AppendRefusedError), True, False),
    ],
)
def test_a_refusal_of_several_says_what_all_say(
    kinds: tuple[type[AppendRefusedError], ...], keeps_lease: bool, is_its_own: bool
) -> None:
    """An entry is its own trouble where each says so; a setting refuses whatever comes."""
    errors = [kind(f"{number}") for number, kind in enumerate(kinds)]
    errors[0].keeps_lease = keeps_lease

    found = refusal_of(errors)
    assert str(found) == "0; 1"
    assert isinstance(found, EntryRefusedError) is is_its_own
    assert found.keeps_lease is keeps_lease

"""
What brokers tell of databases that lack what was final: nobody is told to throw the only copy away.

An operator let brokers go on with what lacks it, or only what was left out answers, or all others
are away; who saw the entry waits, and the sentence says what may be done.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest

from holdfast.errors import StoreError, UnreachableError
from holdfast.leases.contract import Outcome, Place
from holdfast.leases.seen import Seen
from holdfast.mirrors.mirror_set import Acceptance, Number
from holdfast.raidb.accepting import look_at
from holdfast.raidb.histories import Histories
from holdfast.raidb.raidb_log import RaidbLog
from tests.stores.leased_log_suite import SECONDS, Writer
from tests.unit.raidb.several import Several, until_left_out
from trials.leased.model_databases import ModelMember, cloned

EMPTY, REMOVE = "empty that database", "remove last-seen"
BEHIND = 1
"""Of three databases the place of the one that lacks the end."""


def behind(count: int = 3) -> tuple[Several, Place]:
    """Give databases of which one lacks what most have confirmed, and that; its holder is gone."""
    several = Several(count)
    ways = several.ways()
    writer = Writer(several.log(ways, by_majority=True))
    writer.take()
    writer.append(b"in all")
    ways[BEHIND].is_cut = True
    writer.append(b"in most")
    assert several.ends() == [2, 1, 2]
    end = several.databases[0].end
    return several, end


def only(several: Several, *places: int) -> None:
    """Let these answer, and no others."""
    for place, it in enumerate(several.databases):
        it.is_away = place not in places


def accept(several: Several, *places: int, mark: str = "mark") -> None:
    only(several, *places)
    look_at(several.reached()).accept(mark, "e" * 32, lambda _: None)


def late(several: Several, place: Place, *, accepted: str | None = "") -> RaidbLog:
    """A broker that saw that as final, and knows no acceptance but this."""
    log = several.log(is_open=False)
    seen = Seen(several.databases[0].identity, 1, place, 1, accepted)
    log.databases.seen = lambda: seen
    return log


def told(log: RaidbLog) -> str:
    """All that it says when it is to go by the databases that answer."""
    text = ""
    try:
        log.open()
        log.observe(SECONDS)
    except StoreError as error:
        text = str(error)
    return "; ".join([text, *map(str, log.databases.troubles.values())])


@pytest.mark.parametrize("accepted", ["", None], ids=["none was known", "by an older version"])
def test_who_saw_what_was_given_up_is_told_of_the_operators_word(accepted: str | None) -> None:
    """The one database that is left is all that there is."""
    several, final = behind()
    accept(several, BEHIND)

    log = late(several, final, accepted=accepted)
    with pytest.raises(UnreachableError, match="an operator let brokers go on with b-member alone"):
        log.open()
    assert EMPTY not in told(log)
    assert "what only they had is lost" in told(log)


def test_what_was_seen_behind_an_acceptance_is_not_lost_by_it() -> None:
    """It went back in time since, or others are away that have it: nobody gives it up."""
    several, _ = behind()
    accept(several, BEHIND)
    final = Place(7, b"c" * 16)

    text = told(late(several, final, accepted="mark"))
    assert "b-member lack entry 7, which this broker saw as final: the other databases" in text
    assert EMPTY not in text
    assert REMOVE not in text


def test_what_was_accepted_is_not_emptied_where_another_one_has_more() -> None:
    """Messages may have been confirmed in it since: which history goes on is the operator's."""
    several, final = behind()
    accept(several, BEHIND)
    only(several, BEHIND, 2)

    text = told(late(several, final))
    assert "without entry 2, which this broker saw as final and c-member has" in text
    assert "one of the two histories is to be given up" in text
    assert EMPTY not in text
    assert REMOVE not in text
    only(several, 0, 1, 2)
    assert "and a-member, c-member has" in told(late(several, final))


def test_what_was_told_of_a_database_is_over_once_an_operator_goes_on_with_it() -> None:
    """A broker that runs on does not hold against it what it was before."""
    several, final = behind()
    behind_there = several.databases[BEHIND].backup()
    other = Writer(several.log(), "b")
    other.take()
    other.log.release(SECONDS)
    several.databases[BEHIND].restore(behind_there)
    begun = several.databases[0].written
    several.databases[BEHIND].written = begun
    several.databases[BEHIND].epoch = several.databases[0].epoch
    log = late(several, final)
    assert EMPTY in told(log)  # Both others have the entry.
    assert log.databases.histories._apart

    accept(several, BEHIND)
    text = told(log)
    assert "an operator let brokers go on with b-member alone" in text
    assert EMPTY not in text


def test_nobody_is_told_to_empty_what_no_other_one_has_more_than() -> None:
    """However many are away, whoever was accepted: only what others have is thrown away."""
    places = range(3)
    found = 0
    for chosen in (it for count in (1, 2) for it in combinations(places, count)):
        for back in (it for count in (1, 2, 3) for it in combinations(places, count)):
            several, final = behind()
            if len(chosen) == 1:
                accept(several, *chosen)
            only(several, *back)
            text = told(late(several, final))
            having = [several.databases[it].history.get(2) == final.chain for it in back]
            if not any(having):
                found += 1
                assert EMPTY not in text, (chosen, back, text)
            assert REMOVE not in text or (len(chosen) == 1 and not any(having)), (chosen, back)
    assert found >= 6


def test_a_copy_that_others_accepted_is_not_emptied_either() -> None:
    """It is left out, as the others have what it lacks; whose word that was is not known here."""
    several, final = behind()
    clone = cloned(several.databases[BEHIND], 3, 5)
    assert clone.written is not None
    known = clone.written.known
    accepted = (Acceptance("theirs", Number(1, 1)),)
    clone.written = replace(clone.written, known=replace(known, accepted=accepted))
    log = late(several, final)
    log.databases.members[BEHIND].leads_to = clone

    text = told(log)
    assert "has another history than a-member, c-member: it lacks entry 2" in text
    assert "one of the two histories is to be given up" in text
    assert EMPTY not in text
    assert log.observe(SECONDS).end == final


def left_out() -> tuple[Several, Writer, RaidbLog]:
    """Two, of which one was left out before the last entry; the other one is away now."""
    several = Several(2)
    log = several.log()
    writer = Writer(log)
    writer.take()
    writer.append(b"in both")
    several.databases[1].is_away = True
    entries = writer.sealed(b"in one")
    outcome = until_left_out(several, lambda: log.append(entries, SECONDS))
    assert outcome is Outcome.STORED
    only(several, 1)
    return several, writer, log


def test_what_was_left_out_is_not_asked_for_what_is_final() -> None:
    """It does not count, so it lacks the end: the other one is waited for, or given up."""
    several, _, _ = left_out()

    text = told(late(several, several.databases[0].end))
    assert "a-member cannot be used, and b-member alone may lack messages" in text
    assert "'holdfast mirror accept'" in text
    assert REMOVE not in text
    assert EMPTY not in text


def test_a_holder_says_nothing_of_what_it_has_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """It looks once a second whether that is back, while the one that counts is away."""
    several, writer, log = left_out()
    seen = Seen(several.databases[0].identity, 1, several.databases[0].end, 1, "")
    log.databases.seen = lambda: seen

    caplog.clear()
    log.caretaker.step()
    assert caplog.messages == []
    only(several, 0, 1)
    assert writer.log.renew(SECONDS) is Outcome.STORED


@pytest.mark.parametrize("is_all", [True, False])
def test_what_does_not_say_what_it_has_is_asked_again(is_all: bool) -> None:
    """It is no reason to leave out another one, nor to go by it."""
    several, final = behind(3)
    writer = Writer(several.log(), "b")
    writer.take()
    members = [ModelMember(it.database, it) for it in several.ways()]
    rows = {it: it.database.row() for it in members}
    lacking = members[BEHIND]
    histories = Histories(lambda member, *_: False if member is lacking else None)
    seen = Seen(several.databases[0].identity, 1, final, 1)
    with pytest.raises(UnreachableError, match="do not say whether they have it"):
        histories.judge(rows, is_all=is_all, seen=seen)
    assert not histories._apart

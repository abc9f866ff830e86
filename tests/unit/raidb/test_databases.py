"""Which database is which, and what is asked of several."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from holdfast.errors import ForeignMirrorError, StoreError, UnreachableError
from holdfast.raidb.databases import Databases
from holdfast.raidb.lanes import ThreadLanes
from holdfast.raidb.member import Token
from tests.unit.raidb.several import Several
from trials.leased.model_databases import ModelMember

HELD = Token(0, "")
"""Under what nobody has taken a database yet."""


def begun(count: int = 3) -> Several:
    """With a set that is written in each."""
    several = Several(count)
    several.log()
    return several


def test_members_are_known_by_their_own_ids_once_they_were_read() -> None:
    """One that does not answer is told of, and keeps what was known of it."""
    several = Several()
    found = several.reached()
    assert found.ids == ["a-member", "b-member", "c-member"]

    several.databases[1].is_away = True
    assert sorted(found.read(3.0)) == ["a-member", "c-member"]
    assert list(found.troubles) == ["b-member"]
    assert sorted(found.known) == ["a-member", "b-member", "c-member"]
    several.databases[1].is_away = False
    found.read(3.0)
    assert not found.troubles


def test_another_database_at_an_address_is_another_member() -> None:
    """What is asked of the one that was there is not done in the other one."""
    several = Several()
    ways = several.ways()
    found = several.reached(ways)
    several.databases[2].member = "new"
    found.read(3.0)

    assert found.ids == ["a-member", "b-member", "new"]
    with pytest.raises(UnreachableError, match="c-member is none of the databases"):
        found.ask("c-member", lambda member, seconds: member.read(seconds), 1.0)


def test_two_addresses_of_one_database_are_refused() -> None:
    """L58: both are named."""
    several = Several(2)
    several.databases[1].member = "a-member"

    with pytest.raises(StoreError, match="are one database"):
        several.reached()


def test_an_address_that_is_turned_to_another_of_them_counts_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As one that does not answer, which is logged once; the way that led there before goes on."""
    several = begun()
    found = several.reached()
    turned = found.members[0]
    assert isinstance(turned, ModelMember)
    turned.leads_to = several.databases[2]
    for _ in range(3):
        assert sorted(found.read(3.0)) == ["b-member", "c-member"]

    assert "are one database" in str(found.troubles["a-member"])
    assert found.ids == ["b-member", "c-member"]
    assert found._by_id["c-member"] is found.members[2]
    with pytest.raises(UnreachableError, match="a-member is none of the databases"):
        found.ask("a-member", lambda member, seconds: member.read(seconds), 1.0)
    assert [it.levelname for it in caplog.records] == ["ERROR"]

    turned.leads_to = several.databases[0]
    assert sorted(found.read(3.0)) == ["a-member", "b-member", "c-member"]
    assert not found.troubles


def test_a_database_of_another_set_is_kept_nowhere() -> None:
    """Else signs of life there would be taken for such of this log."""
    several, other = begun(), Several(1)
    other.databases[0].identity, other.databases[0].member = "9" * 32, "other"
    other.log()
    several.databases[2] = other.databases[0]
    found = several.reached()

    assert sorted(found.known) == sorted(found.ids) == ["a-member", "b-member"]
    assert "has another log now" in str(found.troubles["other"])
    assert not found.set_id, "it is for the log to say"


def test_of_two_logs_none_is_chosen_where_neither_has_most_addresses() -> None:
    """Both rows are given, and judged as those of two logs."""
    several, other = begun(2), Several(1)
    other.databases[0].identity, other.databases[0].member = "9" * 32, "other"
    other.log()
    several.databases[1] = other.databases[0]

    assert sorted(several.reached().known) == ["a-member", "other"]
    with pytest.raises(ForeignMirrorError):
        several.log()


def test_what_is_to_be_told_where_none_answers() -> None:
    """Not reached: later. Refused by all: for good."""
    several = Several(2)
    found = several.reached()
    for it in several.databases:
        it.is_away = True
    found.read(3.0)
    assert isinstance(found.trouble(), UnreachableError)
    for it in several.databases:
        it.is_away, it.has_lease_row = False, False
    found.read(3.0)
    assert type(found.trouble()) is StoreError
    assert "gone" in str(found.trouble())


def test_each_is_asked_what_is_meant_for_it() -> None:
    """Results by id; an error is a result of `run`, and raised by `ask`."""
    several = Several(2)
    found = several.reached()
    several.databases[0].is_away = True
    results = found.run(dict.fromkeys(found.ids, lambda member, seconds: member.place), 1.0)
    assert results == {"a-member": "a-member", "b-member": "b-member"}

    rows = found.run(dict.fromkeys(found.ids, lambda member, seconds: member.read(seconds)), 1.0)
    assert isinstance(rows["a-member"], UnreachableError)
    assert rows["b-member"].member == "b-member"
    with pytest.raises(UnreachableError):
        found.ask("a-member", lambda member, seconds: member.read(seconds), 1.0)


def members(several: Several) -> list[ModelMember]:
    """One more way to each."""
    return [ModelMember(it.database, it) for it in several.ways()]


def test_what_is_read_beside_holds_up_nothing_else() -> None:
    """A long reading over a slow way: the same database is written, and gives signs of life."""
    several = Several(2)
    lanes = ThreadLanes()
    found = Databases(members(several), lanes)
    found.read(3.0)
    found.add_twins(members(several))
    begun, over = threading.Event(), threading.Event()
    told: list[Any] = []

    def read_long(_member: object, _seconds: float) -> str:
        begun.set()
        assert over.wait(10.0)
        return "read"

    def read() -> None:
        told.append(found.ask_beside("a-member", read_long, HELD, 9.0))

    thread = threading.Thread(target=read)
    thread.start()
    assert begun.wait(10.0)
    row = found.ask("a-member", lambda member, seconds: member.read(seconds), 5.0)
    over.set()
    thread.join(10.0)
    assert row.member == "a-member"
    assert told == ["read"]
    found.close(3.0)


def test_without_a_second_way_what_is_read_beside_goes_by_the_first() -> None:
    """As where there are no threads; and an error is raised likewise."""
    several = Several(2)
    found = several.reached()
    read = lambda member, seconds: member.read(seconds)  # noqa: E731
    assert found.ask_beside("a-member", read, HELD, 1.0).member == "a-member"
    found.add_twins(members(several))
    assert found.ask_beside("b-member", read, HELD, 1.0).member == "b-member"
    several.databases[1].is_away = True
    with pytest.raises(UnreachableError):
        found.ask_beside("b-member", read, HELD, 1.0)
    with pytest.raises(UnreachableError, match="nobody is none of the databases"):
        found.ask_beside("nobody", read, HELD, 1.0)

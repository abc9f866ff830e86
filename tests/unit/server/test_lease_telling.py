"""Tests of server/lease_telling.py: what an operator reads of the lease of a log."""

from __future__ import annotations

from holdfast.leases.elector import ElectorFacts, Line, Reading
from holdfast.server.lease_telling import lease_status
from trials.leased.group_desk import GroupDesk
from trials.leased.model_medium import ModelMedium


def test_the_holder_and_who_waits_tell_the_same_holder() -> None:
    """The one for how long it has it still, the other for how long it was silent."""
    medium = ModelMedium()
    holder, standby = GroupDesk(medium, "a"), GroupDesk(medium, "b")
    holder.go_on()
    standby.go_on()
    one, other = lease_status(holder.group), lease_status(standby.group)

    assert (True, False) == (one.is_held, other.is_held)
    assert "a" == one.holder == other.holder
    assert ("a:2", "a:1") == (other.holder_stomp, other.holder_admin)
    assert one.left_seconds > 0.0 == other.left_seconds
    assert one.held_seconds is not None
    assert other.held_seconds is None
    assert 5.0 == one.lease_seconds
    assert "model" == one.kind
    assert "" == one.trouble == one.refusal


def test_before_it_was_reached_there_is_no_holder() -> None:
    """Nothing is made up."""
    found = lease_status(GroupDesk(ModelMedium(), "a").group)

    assert found.holder is None
    assert "" == found.holder_stomp
    assert not found.is_held


def test_what_cannot_be_shown_to_people_is_a_warning() -> None:
    """The log goes on without it: an operator finds out here."""
    desk = GroupDesk(ModelMedium(), "a")
    desk.go_on()
    assert () == lease_status(desk.group).warnings
    desk.group._state.projection_trouble = "no such table"

    assert ("what it shows is not new: no such table",) == lease_status(desk.group).warnings


def test_an_elector_is_told_by_the_names_of_its_brokers() -> None:
    """The first letters of an id stand for one that nobody knows, as of another log's broker."""
    desk = GroupDesk(ModelMedium(), "a", elector=_Elector())
    assert lease_status(GroupDesk(ModelMedium(), "b").group).elector is None
    before = lease_status(desk.group).elector
    assert before is not None
    assert ("it was not asked yet", None, None) == (
        before.trouble,
        before.elected,
        before.heard_seconds,
    )
    desk.go_on()
    line = Line(holders=("a" * 32, "f" * 32), sure_seconds=1_000.0, strangers=3)
    now = desk.passage.now
    desk.group.elector_said(Reading(began=now, ended=now, is_willing=True, line=line))
    desk.go_on(3)
    found = lease_status(desk.group).elector

    assert found is not None
    assert ("fake", "here", "") == (found.kind, found.place, found.trouble)
    assert ("a", ("a", "ffffffff"), 3) == (found.elected, found.line, found.strangers)
    assert found.is_elected
    assert found.heard_seconds is not None


class _Elector:
    """Asked by nobody here."""

    def facts(self) -> ElectorFacts:
        return ElectorFacts(kind="fake", place="here")

    def stand(self, candidate: str, *, is_willing: bool, seconds_max: float) -> Line:
        raise AssertionError

    def close(self, seconds_max: float) -> None:
        raise AssertionError

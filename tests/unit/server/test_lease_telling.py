"""Tests of server/lease_telling.py: what an operator reads of the lease of a log."""

from __future__ import annotations

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

    assert ("queues are not shown there: no such table",) == lease_status(desk.group).warnings

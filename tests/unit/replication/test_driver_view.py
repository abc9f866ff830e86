"""
What a member says of itself, over a state without a driver.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.replication.driver_view import DriverView
from holdfast.replication.messages import Hello
from holdfast.replication.state import Role


def view_of(bench: Any) -> DriverView:
    view = DriverView()
    view._state = bench.state
    view._journal = bench.journal
    view._bootstrap = bench.state.membership
    view._ledger = SimpleNamespace(is_over=lambda stored, last, most: last - stored > most)
    view._outgoing = SimpleNamespace(hello=Hello("a", "aa" * 16))
    return view


def test_only_a_leader_dispatches_and_only_while_its_lease_holds(
    member: Callable[..., Any],
) -> None:
    """Between the end of the lease before and that of its own, and never once it has ended."""
    bench = member("a", "b", "c", terms=[1])
    view, state = view_of(bench), bench.state
    state.dispatch_from, state.lease_until = 101.0, 102.0
    assert not view.may_dispatch(101.5)

    state.role = Role.LEADER
    assert [view.may_dispatch(now) for now in (100.9, 101.0, 101.9, 102.0)] == [
        False,
        True,
        True,
        False,
    ]
    assert view.is_lease_awaited(100.9) and not view.is_lease_awaited(101.0)

    view._outgoing.hello = Hello("a", "aa" * 16, has_ended=True)
    assert not view.may_dispatch(101.5)


def test_what_is_confirmed_by_us_alone_needs_some_of_the_lease_to_be_left(
    member: Callable[..., Any],
) -> None:
    """It is delivered a few turns later at most, and must be ours still."""
    bench = member("a", "b", "c", terms=[1])
    view, state = view_of(bench), bench.state
    state.role, state.lease_until = Role.LEADER, 110.0
    spare = state.settings.lease_seconds / 4

    assert view.holds_lease(110.0 - spare - 0.01)
    assert not view.holds_lease(110.0 - spare + 0.01)


@pytest.mark.parametrize(
    ("role", "taken", "is_serving"),
    [(Role.LEADER, 3, True), (Role.LEADER, 2, False), (Role.FOLLOWER, 3, False)],
)
def test_it_serves_once_all_before_its_term_was_given_out(
    member: Callable[..., Any], role: Role, taken: int, is_serving: bool
) -> None:
    """A leader that has not applied what came before it would deliver by an old state."""
    bench = member("a", "b", "c", terms=[1, 1])
    view, state = view_of(bench), bench.state
    state.role, state.term_start, state.taken_index = role, 3, taken

    assert view.is_serving is is_serving
    assert view.is_leader is (role is Role.LEADER)


def test_it_tells_what_is_committed_and_what_was_given_out(member: Callable[..., Any]) -> None:
    """What may be reclaimed ends before the entry that names the members."""
    bench = member("a", "b", "c", terms=[1, 1])
    view, state = view_of(bench), bench.state
    state.commit_index, state.taken_index = 3, 1

    assert view.has_committed and (view.commit_index, view.taken_index) == (3, 1)
    assert view.reclaim_limit == min(state.config_index, 3)


def test_before_there_is_a_cluster_it_names_whom_it_waits_for(member: Callable[..., Any]) -> None:
    """Who is named and was not met yet has no hello."""
    bench = member("a", "b", "c", terms=[1])
    view, state = view_of(bench), bench.state
    assert view.founders() == []

    state.cluster_id = ""
    del state.connected["c"]

    assert [(it.name, hello is not None) for it, hello in view.founders()] == [
        ("b", True),
        ("c", False),
    ]

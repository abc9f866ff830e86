"""Tests of testing/elections.py: which terms the simulator lets pass as needed."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.replication.membership import Member, Membership
from holdfast.replication.messages import PreVoteResponse, TransferRequest, VoteRequest
from trials.simulation.elections import BEREFT, EXCESS_TERMS_MAX, Elections
from trials.simulation.history import ViolationError

LATE = 100.0


class World:
    """A clock, a committed membership, and a checker that knows who led."""

    def __init__(self, names: str = "abc") -> None:
        self.timeline = SimpleNamespace(now=0.0)
        self.replication_settings = SimpleNamespace(election_seconds_max=2.0)
        self.counts = Counter[str]()
        self.membership = Membership(tuple(Member(name, f"{name}:1") for name in names))
        self.leaders: dict[int, str] = {}
        self.elections = Elections(self)  # type: ignore[arg-type]
        self.watched = self.elections
        self.log = SimpleNamespace(membership=self.membership)

    def membership_of(self, _node: object) -> Membership:
        return self.membership

    def count(self, what: str) -> None:
        self.counts[what] += 1

    def node(self, name: str, term: int = 0) -> Any:
        return SimpleNamespace(
            name=name, world=self, driver=SimpleNamespace(term=term, generation=0)
        )

    def promise(self, voter: str, candidate: str, term: int) -> None:
        message = PreVoteResponse(term, granted=True)
        self.watched.on_message(self.node(voter), candidate, message)

    def ask(self, candidate: str, term: int, *, is_transfer: bool = False) -> None:
        message = VoteRequest(term, 1, 1, is_transfer)
        self.watched.on_message(self.node(candidate), "b", message)


@pytest.fixture
def world() -> World:
    return World()


def test_votes_that_a_majority_promised_may_be_asked_for(world: World) -> None:
    """The candidate's own is one of them."""
    world.promise("b", "a", 2)

    world.ask("a", 2)


def test_a_term_that_nobody_wanted_is_spent_in_vain(world: World) -> None:
    """Neither a promise for another term counts, nor one to another candidate."""
    world.promise("b", "a", 2)
    world.promise("b", "c", 3)

    with pytest.raises(ViolationError, match="F10: a spends term 3"):
        world.ask("a", 3)


def test_a_minority_of_five_is_not_enough() -> None:
    """It is a majority of the voters that must want the term."""
    world = World("abcde")
    world.promise("b", "a", 2)

    with pytest.raises(ViolationError, match="F10"):
        world.ask("a", 2)


def test_only_a_leader_hands_over(world: World) -> None:
    """Whoever stands unasked says that somebody did."""
    with pytest.raises(ViolationError, match="F10: nobody handed term 3"):
        world.ask("b", 3, is_transfer=True)

    world.watched.on_message(world.node("a"), "b", TransferRequest(2))
    world.ask("b", 3, is_transfer=True)


def terms_without_leader(world: World, dying: str, *, after: float = 0.0) -> None:
    """Spend more terms than may go by, and end a process each time."""
    world.elections = 1  # type: ignore[assignment]
    for term in range(3, 4 + EXCESS_TERMS_MAX):
        world.promise("b", "a", term)
        world.timeline.now += after
        if dying:
            world.watched.on_stop(world.node(dying))
    world.watched.check_terms(world.node("a", 3 + EXCESS_TERMS_MAX))


@pytest.mark.parametrize("dying", ["a", "b"])
def test_who_ends_before_it_elects_spends_no_term_in_vain(world: World, dying: str) -> None:
    """The candidate, or the voter without which it has no majority."""
    terms_without_leader(world, dying)

    assert world.counts[BEREFT] == EXCESS_TERMS_MAX + 1


@pytest.mark.parametrize(("dying", "after"), [("", 0.0), ("c", 0.0), ("b", LATE)])
def test_the_end_of_others_excuses_nothing(world: World, dying: str, after: float) -> None:
    """Who promised nothing, or long ago, takes no majority away."""
    with pytest.raises(ViolationError, match="F10: a is in term 11 after 1 leaders"):
        terms_without_leader(world, dying, after=after)

    assert not world.counts[BEREFT]


def test_a_majority_that_is_left_excuses_nothing(world: World) -> None:
    """Both others had promised, and one of them is still there."""
    world.promise("b", "a", 3)
    world.promise("c", "a", 3)

    world.watched.on_stop(world.node("b"))

    assert not world.watched.bereft
    world.watched.on_stop(world.node("c"))
    assert world.watched.bereft == {3}


def test_a_term_that_was_led_is_not_bereft(world: World) -> None:
    """What ends later had elected."""
    world.promise("b", "a", 3)
    world.leaders[3] = "a"

    world.watched.on_stop(world.node("a"))

    assert not world.watched.bereft

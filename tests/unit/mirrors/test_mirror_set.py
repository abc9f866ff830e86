"""Who of several mirrors may start, and with which of them a holder may go on."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from holdfast.errors import (
    ForeignMirrorError,
    MirrorHistoriesError,
    MirrorsLostError,
    MirrorsMissingError,
)
from holdfast.mirrors.mirror_set import (
    Holding,
    MirrorSet,
    MirrorState,
    Number,
    Start,
    accept,
    found_set,
    newest_of,
)


def copies_of(made: MirrorSet, members: str) -> dict[str, MirrorSet]:
    return dict.fromkeys(members, made)


def held(members: str) -> Holding:
    """A set of these members that was begun and stands."""
    start = Start(copies_of(found_set("s", members), members))
    holding = Holding(start.begin())
    holding.written(members)
    return holding


def changed(holding: Holding, changes: Mapping[str, MirrorState | None], on: str) -> MirrorSet:
    made = holding.change(changes)
    holding.written(on)
    return made


def test_all_members_start() -> None:
    """With every active member there is nothing to be unsure of."""
    start = Start(copies_of(found_set("s", "ab"), "ab"))
    assert start.holds == {"a", "b"}
    assert start.number == 2
    begun = start.begin()
    assert begun.active == {"a", "b"}
    assert begun.number == Number(2, 1)


def test_half_does_not_start() -> None:
    """Of two, the other one may have gone on alone: one is refused, and told what is missing."""
    with pytest.raises(MirrorsMissingError) as refused:
        Start({"a": found_set("s", "ab")})
    assert refused.value.missing == {"b"}
    assert refused.value.found == {"a"}


def test_more_than_half_starts_and_the_others_count_as_failed() -> None:
    """Two of three go on; the third has to be filled again before it counts."""
    begun = Start(copies_of(found_set("s", "abc"), "ac")).begin()
    assert begun.active == {"a", "c"}
    assert begun.state_of("b") == "failed"
    assert begun.before == (frozenset("abc"),)


def test_one_left_behind_never_starts_alone() -> None:
    """After a holder went on with one of two, that one starts alone and the other one does not."""
    old = found_set("s", "ab")
    holding = held("ab")
    left = changed(holding, {"b": "failed"}, "a")
    assert holding.is_standing
    assert Start({"a": left}).holds == {"a"}
    with pytest.raises(MirrorsMissingError):
        Start({"b": old})
    assert Start({"a": left, "b": old}).holds == {"a"}


def test_holder_keeps_at_least_half() -> None:
    """Two of four may go on, one of three may not: the others would be more than half."""
    holding = held("abcd")
    changed(holding, {"c": "failed", "d": "failed"}, "ab")
    assert holding.is_standing
    with pytest.raises(MirrorsLostError) as lost:
        held("abc").change({"b": "failed", "c": "failed"})
    assert lost.value.lost == {"b", "c"}


def test_whom_a_holder_may_go_on_without_is_told_beforehand() -> None:
    """As many as `change` lets go: of two one, of three one, and never all."""
    assert held("ab").may_go_on_without("a")
    assert held("abc").may_go_on_without("a")
    assert not held("abc").may_go_on_without("ab")
    assert held("abcd").may_go_on_without("ab")
    assert not held("a").may_go_on_without("a")
    assert held("abc").may_go_on_without("")

    begun = Holding(Start(copies_of(found_set("s", "abc"), "ab")).begin())
    assert not begun.may_go_on_without("b"), "those that it came from count until it stands"
    begun.written("ab")
    assert begun.may_go_on_without("b")


def test_half_is_of_the_last_set_that_stands() -> None:
    """Losing one after another while nothing is confirmed is losing them at once."""
    holding = held("abc")
    holding.change({"c": "failed"})
    with pytest.raises(MirrorsLostError):
        holding.change({"b": "failed"})


def test_set_that_is_not_on_all_does_not_stand() -> None:
    """Nothing is confirmed while an active member does not know the set."""
    holding = held("abc")
    holding.change({"c": "failed"})
    holding.written("a")
    assert not holding.is_standing
    holding.written("ab")
    assert holding.is_standing


def test_unsettled_set_is_judged_with_what_it_came_from() -> None:
    """Half of six took over, written on two of them: these two need the six as well."""
    holding = held("abcdef")
    half = holding.change({"d": "failed", "e": "failed", "f": "failed"})
    with pytest.raises(MirrorsMissingError):
        Start(copies_of(half, "ab"))
    old = found_set("s", "abcdef")
    assert Start({**copies_of(half, "ab"), **copies_of(old, "de")}).holds == {"a", "b"}


def test_settled_set_needs_its_own_members_only() -> None:
    """Once it is known to stand, what it came from does not matter any more."""
    holding = held("abcdef")
    changed(holding, {"d": "failed", "e": "failed", "f": "failed"}, "abc")
    assert Start(copies_of(holding.settled(), "ab")).holds == {"a", "b"}


def test_set_found_on_all_its_members_stands() -> None:
    """The holder ended before it could say so; whoever finds all of it can tell."""
    left = held("ab").change({"b": "failed"})
    assert Start({"a": left}).stands


def test_promise_keeps_the_copy_and_raises_the_number() -> None:
    """A start that is broken off leaves nothing but a number that no later one uses."""
    made = found_set("s", "abc")
    promised = Start(copies_of(made, "ab")).promise()
    assert {it.promised for it in promised.values()} == {2}
    assert {it.number for it in promised.values()} == {made.number}
    assert Start({"b": promised["b"], "c": made}).number == 3


def test_joining_member_counts_once_it_is_active() -> None:
    """What is being filled neither helps to start nor keeps from it."""
    holding = held("a")
    joining = changed(holding, {"b": "joining"}, "ab")
    assert joining.active == {"a"}
    assert Start({"a": joining}).begin().state_of("b") == "joining"
    with pytest.raises(MirrorsMissingError):
        Start({"b": joining})
    grown = changed(holding, {"b": "active"}, "ab")
    assert Start(copies_of(grown, "ab")).holds == {"a", "b"}


def test_member_that_is_taken_out_is_forgotten() -> None:
    """A disk that was replaced does not stay in the list for ever."""
    holding = held("ab")
    changed(holding, {"b": "failed"}, "a")
    assert holding.change({"b": None}).states == (("a", "active"),)


def test_foreign_member_is_refused() -> None:
    """A directory of another set is named, not taken for one that is behind."""
    with pytest.raises(ForeignMirrorError, match="a and b are mirrors of two different sets"):
        Start({"a": found_set("s", "ab"), "b": found_set("t", "ab")})


def test_accepted_half_starts_and_the_other_is_behind() -> None:
    """An operator says that the other one is gone; what comes back of it does not count."""
    old = found_set("s", "ab")
    accepted = accept({"a": old}, "mark")
    assert Start({"a": accepted}).holds == {"a"}
    assert Start({"a": accepted, "b": old}).holds == {"a"}
    with pytest.raises(MirrorsMissingError):
        Start({"b": old})


def test_halves_that_both_were_accepted_are_two_histories() -> None:
    """Each went on by an operator's word: neither may be taken for the older one."""
    old = found_set("s", "ab")
    halves = {"a": accept({"a": old}, "one"), "b": accept({"b": old}, "two")}
    with pytest.raises(MirrorHistoriesError, match="went on apart"):
        newest_of(halves)


def test_half_that_went_on_beside_an_accepted_one_is_another_history() -> None:
    """One of three was accepted, and the other two started: they may have confirmed more."""
    old = found_set("s", "abc")
    accepted = accept({"a": old}, "mark")
    began = Start(copies_of(old, "bc")).begin()
    with pytest.raises(MirrorHistoriesError):
        newest_of({"a": accepted, "b": began, "c": began})


def test_nothing_is_accepted_of_what_is_no_active_member() -> None:
    """A mirror that was being filled has not all of it, whatever the operator says."""
    joining = found_set("s", "a", "b")
    with pytest.raises(MirrorsLostError):
        accept({"b": joining}, "mark")

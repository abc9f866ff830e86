"""Tests of replication/quorum.py against slow, obvious versions of the same rules."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.replication import quorum

matches = st.lists(
    st.tuples(st.sampled_from("xyz"), st.integers(0, 20), st.booleans()), min_size=1, max_size=7
)


def is_committable(held: list[tuple[str, int, bool]], index: int, copies: int, sites: int) -> bool:
    """The commit rule in words: how many hold it, how many with data, and on how many sites."""
    holders = [site for site, match, _ in held if match >= index]
    with_data = [match for _, match, has_data in held if has_data]
    wanted_sites = min(sites, len({site for site, _, _ in held}))
    return (
        2 * len(holders) > len(held)
        and sum(match >= index for match in with_data) >= min(copies, len(with_data))
        and (len(set(holders)) >= wanted_sites)
    )


@given(matches, st.integers(1, 8), st.integers(1, 4))
def test_the_commit_rule_is_the_obvious_one(
    held: list[tuple[str, int, bool]], copies: int, sites: int
) -> None:
    """The sorted shortcut gives the highest index that the rule in words allows."""
    slow = max(index for index in range(21) if is_committable(held, index, copies, sites))

    assert slow == quorum.committable_index(held, copies, sites)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=7))
def test_a_majority_holds_the_majority_index(held: list[int]) -> None:
    """More than half hold it, and no higher index has that."""
    index = quorum.majority_index(held)

    assert 2 * sum(match >= index for match in held) > len(held)
    assert 2 * sum(match > index for match in held) <= len(held)


def test_without_voters_nothing_is_committed() -> None:
    """A group that has no voter yet commits nothing."""
    assert 0 == quorum.committable_index([], 2, 1)
    assert 0 == quorum.majority_index([])
    assert 0 == quorum.site_index([], 1)


def test_a_witness_is_no_copy() -> None:
    """Two copies asked for are two nodes with data; a majority with the witness is not enough."""
    held = [("", 5, True), ("", 3, True), ("", 5, False)]

    assert 3 == quorum.committable_index(held, 2, 1)
    assert 5 == quorum.committable_index(held, 1, 1)


def test_the_default_is_two_copies_where_one_may_be_lost() -> None:
    """A pair with a witness goes on with one of the two; without one it needs both anyway."""
    found = {
        (data, voters): quorum.default_copies(data, voters)
        for data, voters in ((1, 1), (2, 2), (2, 3), (3, 3), (4, 5), (1, 3))
    }

    assert {(1, 1): 1, (2, 2): 2, (2, 3): 1, (3, 3): 2, (4, 5): 2, (1, 3): 1} == found


def test_votes_decide_as_soon_as_they_can() -> None:
    """Two of three win; two refusals of three lose; one of each decides nothing."""
    assert quorum.is_won([True, True], 2)
    assert quorum.is_lost([False, False], 3, 2)
    assert not quorum.is_won([True, False], 2)
    assert not quorum.is_lost([True, False], 3, 2)


def test_an_unknown_tail_needs_proof_from_the_others() -> None:
    """So many others must vote that no majority can have held the lost entries."""
    needed = [quorum.votes_needed(count, has_unknown_tail=True) for count in (2, 3, 4, 5)]

    assert [2, 3, 4, 4] == needed
    assert 2 == quorum.votes_needed(3, has_unknown_tail=False)


@pytest.mark.parametrize("count", range(3, 9))
def test_the_proof_holds_if_a_voter_was_taken_in_or_out(count: int) -> None:
    """
    Whoever voted, one of them would be of each majority that the lost entries may have had.

    The candidate itself is in each of them: it stored the entries.
    """
    needed = quorum.votes_needed(count, has_unknown_tail=True)
    voters = range(1, count)
    for others in (range(1, count), range(1, count + 1), range(1, count - 1)):
        held = quorum.majority(len(others) + 1) - 1
        for holders in combinations(others, held):
            for votes in combinations(voters, needed - 1):
                assert set(holders) & set(votes), f"{holders} of {list(others)}, {votes}"

"""
Majority arithmetic, and the commit rule.

Pure functions on small lists: how many make a majority, how far a majority has come, and how far
the operator's placement (copies, distinct sites) lets the leader commit.

Invariants:
    Two majorities of the same voters share a voter.
    The commit rule never passes the index a majority of voters holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def majority(voter_count: int) -> int:
    """How many of so many voters make a majority."""
    return voter_count // 2 + 1


def reached_by(values: Sequence[float], count: int) -> float:
    """The highest value that at least `count` of the values reach; `count` is 1 or more."""
    return sorted(values, reverse=True)[count - 1]


def majority_index(matches: Sequence[int]) -> int:
    """The highest index that a majority of the voters holds; 0 without voters."""
    if not matches:
        return 0
    return sorted(matches, reverse=True)[len(matches) // 2]


def site_index(matches: Iterable[tuple[str, int]], sites: int) -> int:
    """The highest index held on so many distinct sites, or on all sites if there are fewer."""
    best: dict[str, int] = {}
    for site, match in matches:
        if match >= best.get(site, 0):
            best[site] = match
    if not best:
        return 0
    return sorted(best.values(), reverse=True)[min(sites, len(best)) - 1]


def default_copies(data_count: int, voter_count: int) -> int:
    """
    How many nodes with data must hold an entry where nobody says: two, if one may then be lost.

    Of two with a witness one must do: the witness is there so that the loss of the other stops
    nothing, and its log is the second one until both have the entry.
    """
    if data_count == 2 and voter_count > 2:
        return 1
    return max(1, min(2, data_count))


def committable_index(matches: Sequence[tuple[str, int, bool]], copies: int, sites: int) -> int:
    """
    The highest index that may be committed: a majority, enough copies and enough sites hold it.

    Args:
        matches: (site, last durable index, is no witness) of every voter.
        copies: Voters with data that must hold it; all of them if there are fewer.
        sites: Distinct sites that must hold it; all of them if there are fewer.
    """
    count = len(matches)
    if count <= 1:
        return matches[0][1] if matches else 0
    data = sorted([match for _, match, has_data in matches if has_data], reverse=True)
    wanted = min(copies, len(data))
    if len(data) == count:
        index = data[max(majority(count), wanted) - 1]
    else:
        index = majority_index([match for _, match, _ in matches])
        if data:
            index = min(index, data[wanted - 1])
    if sites > 1:
        index = min(index, site_index([(site, match) for site, match, _ in matches], sites))
    return index


def votes_needed(voter_count: int, *, has_unknown_tail: bool) -> int:
    """
    How many votes, its own included, make a candidate leader.

    One whose log may have lost its last entries needs more than a majority: so many others must
    vote, and thereby prove that they do not hold those entries, that no majority could have: also
    none of the voters that there were if one of the entries took one in or out. Of two, their votes
    cannot prove that (see unknown_ends.py); who is alone can prove nothing.
    """
    if has_unknown_tail:
        return max(2, min(voter_count, voter_count // 2 + 2))
    return majority(voter_count)


def is_won(votes: Iterable[bool], needed: int) -> bool:
    """Whether enough votes were granted."""
    return sum(votes) >= needed


def is_lost(votes: Sequence[bool], voter_count: int, needed: int) -> bool:
    """Whether so many refused that not enough votes can come any more."""
    refused = len(votes) - sum(votes)
    return voter_count - refused < needed

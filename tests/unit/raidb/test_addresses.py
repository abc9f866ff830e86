"""Addresses that lead to a database of another log, or to one that counts already."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.errors import StoreError, UnreachableError
from holdfast.raidb.addresses import Addresses, set_of
from holdfast.raidb.member import Member, Row
from tests.unit.raidb.several import Several


def answers(several: Several) -> dict[Member, Row]:
    """What each member says of itself, by the way to it."""
    return {it: it.read(1.0) for it in several.log().databases.members}


def test_one_of_another_log_is_left_out() -> None:
    """Which log it is most addresses say, or what is known of it."""
    several = Several(3)
    found = answers(several)
    first, _, last = found
    row = found[last]
    ours = set_of(row)
    assert row.written is not None
    known = replace(row.written.known, set_id="f" * 32)
    found[last] = replace(row, member="other", written=replace(row.written, known=known))
    for set_id in ("", ours):
        wrong = Addresses(3, set_id, are_meant=False).leading_wrong(found)
        assert [*wrong] == [last]
        assert f"has another log now ({'f' * 32})" in str(wrong[last])
    assert set_of(found[first]) == ours


def test_of_two_ways_to_one_database_the_first_counts() -> None:
    """Before anything is written there nobody can know what was meant, and it is refused."""
    several = Several(2)
    found = answers(several)
    first, second = found
    found[second] = found[first]
    wrong = Addresses(2, set_of(found[first]), are_meant=False).leading_wrong(found)

    assert [*wrong] == [second]
    assert "are one database" in str(wrong[second])
    empty = Several(2)
    ways = empty.log(is_open=False).databases.members
    row = ways[0].read(1.0)
    with pytest.raises(StoreError, match="are one database"):
        Addresses(2, "", are_meant=False).leading_wrong(dict.fromkeys(ways, row))


def test_a_log_that_nothing_is_known_of_is_not_taken_for_that_of_most() -> None:
    """Where others do not answer it may be one that an address leads to by mistake."""
    several = Several(1)
    found = answers(several)
    (member,) = found
    (wrong,) = Addresses(3, "", are_meant=False).leading_wrong(found).values()
    assert isinstance(wrong, UnreachableError)
    assert f"{member.place} has a log" in str(wrong)
    assert not Addresses(3, "", are_meant=True).leading_wrong(found)
    assert not Addresses(3, set_of(found[member]), are_meant=False).leading_wrong(found)

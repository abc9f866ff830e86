"""What several rows say together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.errors import MirrorHistoriesError, MirrorsMissingError
from holdfast.leases.contract import Claimant, Holding, Place
from holdfast.mirrors.mirror_set import Number, found_set
from holdfast.raidb.member import KnownSet, Row
from holdfast.raidb.sight import look, told_apart

SET = replace(found_set("s", "abc"), number=Number(4, 1), promised=4)


def claimant(letter: str) -> Claimant:
    return Claimant(holder=letter * 32, name=letter, admin=f"{letter}:1", stomp="")


def row(
    member: str,
    end: int = 5,
    *,
    epoch: int = 4,
    beat: int = 1,
    holder: str = "x",
    released: bool = False,
    first: int = 1,
) -> Row:
    place = Place(end, bytes([end]) * 16)
    lease = Holding(
        epoch=epoch,
        beat=beat,
        claimant=claimant(holder),
        is_released=released,
        first_index=first,
        end=place,
        sure=place,
    )
    return Row(member=member, log_id="l", lease=lease, written=KnownSet(SET))


def rows(*given: Row) -> dict[str, Row]:
    return {it.member: it for it in given}


def test_the_end_is_that_of_the_longest_and_sure_is_what_most_have() -> None:
    """More than half of all active members, also of those that were not read."""
    all_three = look(rows(row("a", 7), row("b", 6), row("c", 5)), {})
    assert (all_three.holding.end.index, all_three.holding.sure.index) == (7, 6)
    assert all_three.by_length == ("a", "b", "c")

    two = look(rows(row("a", 7), row("b", 5)), {})
    assert (two.holding.end.index, two.holding.sure.index) == (7, 5)


def test_what_is_kept_is_what_all_keep() -> None:
    """One of them may have dropped more; it is never more than one behind the end."""
    assert look(rows(row("a", first=2), row("b", first=4)), {}).holding.first_index == 4
    assert look(rows(row("a", 2, first=1), row("b", 2, first=3)), {}).holding.first_index == 3


def test_with_half_of_them_nobody_is_sure() -> None:
    """Those that are missed are named."""
    with pytest.raises(MirrorsMissingError) as raised:
        look(rows(row("a")), {})
    assert raised.value.missing == {"b", "c"}


def test_the_beat_changes_with_that_of_each() -> None:
    """Also with that of one that was read before and does not answer now: it counts as it was."""
    before = look(rows(row("a"), row("b"), row("c")), {}).holding.beat
    known = rows(row("a"), row("b"), row("c"))

    assert look(rows(row("a"), row("b")), known).holding.beat == before
    assert look(rows(row("a"), row("b", beat=2)), known).holding.beat != before
    assert look(rows(row("a"), row("b"), row("c", epoch=5)), known).holding.beat != before


def test_the_lease_is_given_back_where_all_say_so() -> None:
    """One that does not is held still."""
    both = look(rows(row("a", released=True), row("b", released=True)), {}).holding
    assert both.is_released
    one = look(rows(row("a", released=True), row("b", holder="y")), {}).holding
    assert not one.is_released
    assert one.claimant == claimant("y")


def test_where_members_name_different_holders_it_is_nobodys() -> None:
    """No shortcut is taken: neither is known to be gone, and neither is us."""
    holding = look(rows(row("a", epoch=6, holder="y"), row("b"), row("c")), {}).holding

    assert holding.claimant is not None
    assert holding.claimant.holder not in {"x" * 32, "y" * 32}
    assert holding.claimant.admin == ""
    assert holding.claimant.name == "y"


def test_the_epoch_is_that_of_the_set() -> None:
    """A take that came to no set has none."""
    assert look(rows(row("a", epoch=9), row("b")), {}).holding.epoch == 4


def test_rows_of_two_sets_are_told() -> None:
    """One was read before the set was written there, and may be of a member that was away then."""
    newer = KnownSet(replace(SET, number=Number(4, 2), before=(SET.active,)))
    mixed = rows(row("a"), replace(row("b"), written=newer), replace(row("c"), written=newer))

    assert not look(mixed, {}).is_of_one_set(mixed)
    same = rows(row("a"), row("b"))
    assert look(same, {}).is_of_one_set(same)


def test_two_that_went_on_apart_are_named_by_their_addresses() -> None:
    """With what each has, as one is to be chosen; nobody knows them by their ids."""
    told = told_apart(
        MirrorHistoriesError("a", "z", "entry 5 is another one"), rows(row("a", 7)), "db-{}".format
    )
    assert str(told).startswith(
        "db-a (through entry 7) and db-z went on apart from each other: entry 5 is another one:"
    )

"""What a row of a member says."""

from __future__ import annotations

from dataclasses import replace

from holdfast.leases.contract import Claimant, Holding
from holdfast.mirrors.mirror_set import found_set
from holdfast.raidb.member import NOTHING, KnownSet, Row, Token

A = Claimant(holder="a" * 32, name="a", admin="", stomp="")
LEASE = Holding(
    epoch=4, beat=9, claimant=A, is_released=False, first_index=1, end=NOTHING, sure=NOTHING
)
ROW = Row(member="m", log_id="l", lease=LEASE, written=KnownSet(found_set("s", ["m"])))


def test_a_token_counts_where_epoch_and_holder_are_its_own() -> None:
    """And where it was not given back."""
    assert ROW.is_held_by(Token(4, "a" * 32))
    assert not ROW.is_held_by(Token(3, "a" * 32))
    assert not ROW.is_held_by(Token(4, "b" * 32))
    given_back = replace(ROW, lease=replace(LEASE, is_released=True))
    assert not given_back.is_held_by(Token(4, "a" * 32))
    nobodys = replace(ROW, lease=replace(LEASE, claimant=None))
    assert not nobodys.is_held_by(Token(4, "a" * 32))


def test_the_epoch_of_a_row_is_a_promise() -> None:
    """No start below it is served: whoever took the member has said so."""
    assert ROW.copy is not None
    assert ROW.copy.promised == 4
    younger = replace(ROW, lease=replace(LEASE, epoch=0))
    assert younger.copy is not None
    assert younger.copy.promised == 1, "what the set itself says"


def test_a_member_is_new_until_it_has_a_set_or_a_lease() -> None:
    """One that was the only database of a log is not new."""
    assert not ROW.is_new
    alone = replace(ROW, written=None)
    assert not alone.is_new
    assert alone.copy is None
    assert replace(alone, lease=replace(LEASE, epoch=0)).is_new

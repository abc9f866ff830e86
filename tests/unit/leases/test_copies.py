"""What a copy begins behind, and how it is told from another one."""

from __future__ import annotations

from dataclasses import replace

from holdfast.journal.entry import FIRST_CHAIN, KIND_NOOP, KIND_RECORDS, seal_entry, verify_chain
from holdfast.leases.contract import Place
from holdfast.leases.copies import EPOCHS_LEFT_OUT, CopyPlan, anchor_entry, half_copy

CHAIN = bytes(range(16))
ANCHOR = anchor_entry(index=7, term=3, chain=CHAIN, next_record=20, timestamp=5)
PLAN = CopyPlan(identity="a" * 32, anchor=ANCHOR, end=Place(9, bytes(16)), epoch=4)


def test_an_anchor_says_how_the_next_entry_follows() -> None:
    """It has index, term, chain and record number of what it stands for, and no body."""
    assert (ANCHOR.index, ANCHOR.term, ANCHOR.chain, ANCHOR.timestamp) == (7, 3, CHAIN, 5)
    assert (ANCHOR.kind, ANCHOR.next_record, bytes(ANCHOR.body)) == (KIND_NOOP, 20, b"")
    following = seal_entry(
        index=8,
        term=3,
        kind=KIND_RECORDS,
        timestamp=6,
        first_record=20,
        record_count=1,
        parts=[b"x"],
        previous_chain=CHAIN,
    )
    assert verify_chain(following, ANCHOR.chain)


def test_the_same_anchor_is_the_same_bytes() -> None:
    """So two copies of one log are alike."""
    again = anchor_entry(index=7, term=3, chain=CHAIN, next_record=20, timestamp=5)
    assert again.raw == ANCHOR.raw


def test_a_plan_begins_behind_its_anchor_or_with_entry_1() -> None:
    """The anchor is the first entry that is kept; its epochs begin behind the source's."""
    assert (PLAN.first_index, PLAN.begins_behind) == (7, Place(7, CHAIN))
    whole = replace(PLAN, anchor=None)
    assert (whole.first_index, whole.begins_behind) == (1, Place(0, FIRST_CHAIN))
    assert PLAN.epoch_before == 4 + EPOCHS_LEFT_OUT


def test_a_mark_is_of_one_log_with_one_beginning_and_one_end() -> None:
    """Each of them changes it; the source's epoch, which each attempt raises, does not."""
    others = [
        replace(PLAN, identity="b" * 32),
        replace(PLAN, anchor=None),
        replace(PLAN, end=Place(10, bytes(16))),
        replace(PLAN, end=Place(9, CHAIN)),
    ]
    assert len({PLAN.mark, *(it.mark for it in others)}) == 5
    assert replace(PLAN, epoch=5).mark == PLAN.mark
    assert len(bytes.fromhex(PLAN.mark)) == 16


def test_a_half_copy_says_where_it_is_and_what_to_do() -> None:
    """The sentence names the place and the command."""
    told = str(half_copy("/x"))
    assert told.startswith("/x has a copy that is not whole")
    assert "run the same 'holdfast store copy' again" in told

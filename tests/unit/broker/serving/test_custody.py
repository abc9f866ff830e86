"""
What is known of single messages, as long as it is needed.
"""

from __future__ import annotations

from holdfast.broker.serving.custody import Custody


def test_what_is_settled_is_forgotten_but_for_what_is_reserved() -> None:
    """
    A COMMIT takes that out by itself, when it is through.
    """
    custody = Custody()
    custody.redelivered |= {1, 2}
    custody.had_by = {1: "a", 2: "b"}
    custody.reserve(1)
    custody.forget([1])
    assert (custody.redelivered, custody.had_by, custody.withheld) == ({2}, {2: "b"}, set())
    assert custody.reserved == {1}
    custody.unreserve([1, 9])
    assert custody.reserved == set()


def test_nothing_goes_out_while_something_is_on_its_way_back() -> None:
    """
    So the old order is kept.
    """
    custody = Custody()
    assert not custody.is_held
    custody.releasing["a transaction"] = None
    assert custody.is_held


def test_emptied_it_gives_all_that_may_be_long() -> None:
    """
    To be freed in steps; what transactions hold stays theirs.
    """
    custody = Custody()
    custody.reserve(1)
    custody.redelivered.add(2)
    assert custody.empty() == ({2}, {}, {1})
    assert (custody.redelivered, custody.withheld, custody.reserved) == (set(), set(), {1})

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
    custody.had_by.put_next(1, ["a", "b"])
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
    custody.spoil(3)
    assert custody.empty() == ({2}, {}, {1, 3}, {3})
    assert (custody.redelivered, custody.withheld, custody.reserved) == (set(), set(), {1})
    assert not custody.mend(3)


def test_what_is_damaged_comes_again_only_while_that_is_all() -> None:
    """
    Reserved or acknowledged late meanwhile, it ends, or comes back by whoever kept it.
    """
    custody = Custody()
    for key in (1, 2, 3, 4):
        custody.spoil(key)
    custody.reserve(2)
    custody.settle_late(3)
    custody.forget([4])
    assert [custody.mend(key) for key in (1, 1, 2, 3, 4)] == [True, False, False, False, False]
    assert custody.withheld == {2, 3}

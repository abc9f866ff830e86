"""
What is on its way back to a queue, and what rests.
"""

from __future__ import annotations

from holdfast.broker.lasting.returns import Returned
from holdfast.broker.serving.comebacks import Comebacks, Coming


def test_what_is_awaited_is_counted_until_it_is_back() -> None:
    """A queue waits for what its lost consumers had, not for what is rejected."""
    comebacks = Comebacks()
    comebacks.begin([1, 2], "client", is_awaited=True)
    comebacks.begin([3], "", is_awaited=False)
    assert comebacks.awaited_count == 2
    assert comebacks.arrived(3) == Coming("", False)
    assert comebacks.arrived(1) == Coming("client", True)
    assert comebacks.arrived(1) is None
    assert comebacks.awaited_count == 1


def test_what_rests_comes_when_it_is_due() -> None:
    """In the order of that, and no more at once than asked for."""
    comebacks = Comebacks()
    assert [comebacks.rest(key, due) for key, due in ((5, 30), (6, 10), (7, 20))] == [
        True,
        True,
        False,
    ]
    assert comebacks.soonest == 10
    assert comebacks.due(9, 10) == []
    assert comebacks.due(20, 1) == [6]
    assert comebacks.due(25, 10) == [7]
    assert (comebacks.soonest, comebacks.due(30, 10), comebacks.soonest) == (30, [5], 0)


def test_what_rests_again_is_not_woken_by_its_former_alarm() -> None:
    """Given back meanwhile and rejected anew, it rests from then on."""
    comebacks = Comebacks()
    comebacks.rest(5, 10)
    comebacks.stay(5)
    comebacks.rest(5, 20)
    assert comebacks.due(10, 10) == []
    assert comebacks.due(20, 10) == [5]


def test_what_is_settled_or_purged_is_not_woken() -> None:
    """Nor counted any more, where only this leader has counted it."""
    comebacks = Comebacks()
    for key in (5, -6, 7):
        comebacks.rest(key, 10)
    comebacks.volatile_again(-6, failed=True)
    assert comebacks.volatile.find(-6) == Returned(1, 1)
    comebacks.forget([5, -6])
    assert comebacks.volatile.find(-6) is None
    assert comebacks.due(10, 10) == [7]
    comebacks.rest(8, 10)
    assert comebacks.empty()
    assert (comebacks.soonest, comebacks.due(10, 10)) == (0, [])

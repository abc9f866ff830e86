"""
In whose name a message is read that is only looked at.
"""

from __future__ import annotations

import pytest

from holdfast.broker.serving.router.examiner import Examiner, Look


def test_nobody_gives_it_anything(desk) -> None:
    """It is no consumer, and never has room."""
    handed: list[int] = []
    examiner = Examiner(desk.queue(), lambda key, _message: handed.append(key))
    assert not desk.queue().choice.make_ready(examiner)
    assert not examiner.has_room()
    examiner.receiver.recount_room()
    for refuse in (
        lambda: examiner.receiver.deliver(examiner, 1, None, redelivered=0),
        lambda: examiner.receiver.overdue(examiner, [1]),
    ):
        with pytest.raises(AssertionError):
            refuse()
    examiner.examine(5, None)
    assert handed == [5]


def test_a_look_begins_with_nothing_known() -> None:
    """About one class, or all."""
    look = Look(7, None)
    assert (look.key, look.asked, look.values, look.place) == (7, None, None, 0)
    assert look.classes == look.wanted == []

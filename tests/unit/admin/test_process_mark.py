"""By what a process is known."""

from __future__ import annotations

from holdfast.admin.process_mark import mark_of


def test_each_life_has_a_mark_of_its_own_that_tells_nothing_of_it() -> None:
    """The life is what requests passed on are signed for; the mark is told to everybody."""
    lives = [f"{number:032x}" for number in range(100)]
    marks = {mark_of(it) for it in lives}
    assert len(marks) == 100
    assert {len(it) for it in marks} == {32}
    assert not any(life in marks for life in lives)

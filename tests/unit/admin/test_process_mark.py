"""By what a process is known."""

from __future__ import annotations

from holdfast.admin.process_mark import mark_of, place_mark_of


def test_each_life_has_a_mark_of_its_own_that_tells_nothing_of_it() -> None:
    """The life is what requests passed on are signed for; the mark is told to everybody."""
    lives = [f"{number:032x}" for number in range(100)]
    marks = {mark_of(it) for it in lives}
    assert len(marks) == 100
    assert {len(it) for it in marks} == {32}
    assert not any(life in marks for life in lives)


def test_a_place_is_told_to_who_knows_the_life_and_to_nobody_else() -> None:
    """Where it is not known there is no mark that another one could have, too."""
    assert place_mark_of("a", "here") == place_mark_of("a", "here") != ""
    assert len({place_mark_of(it, at) for it in "ab" for at in ("here", "there")}) == 4
    assert place_mark_of("a", "") == ""

"""What a medium refused for its size: what is not tried again, for how long, and what is kept."""

from __future__ import annotations

from holdfast.leases.refusals import SECONDS_MAX, Refusals
from holdfast.model.limits import KiB, MiB

LEAST = 64 * KiB


def test_what_is_as_large_is_not_tried_for_a_while() -> None:
    """However much of what is smaller is stored meanwhile."""
    refusals = Refusals(LEAST)
    assert (refusals.message_max(0.0), refusals.gathered_max(0.0)) == (0, 0)
    refusals.gave_up(8 * MiB, 1000.0, 600.0)
    assert refusals.message_max(1000.0) == 4 * MiB - 1
    refusals.stored(3 * MiB)
    assert refusals.message_max(1600.0) == 4 * MiB - 1
    assert refusals.message_max(1600.1) == 0


def test_as_much_as_was_ever_stored_is_taken() -> None:
    """It is half of what was refused otherwise: who sends ever smaller ones finds it in few."""
    refusals = Refusals(LEAST)
    refusals.stored(6 * MiB)
    refusals.gave_up(8 * MiB, 0.0, 600.0)
    assert refusals.message_max(1.0) == 6 * MiB - 1
    refusals = Refusals(LEAST)
    limit, losses = 4 * MiB, 0
    for size in range(60 * MiB, MiB, -MiB):
        known = refusals.message_max(1.0)
        if known and size > known:
            continue
        if size > limit:
            assert refusals.may_give_up(size)
            refusals.gave_up(size, 1.0, 600.0)
            losses += 1
        refusals.stored(10)
    assert losses <= 4


def test_what_is_gathered_and_one_more_on_top_is_less_than_what_was_refused() -> None:
    """An entry is closed when it has so much, and the last message may be of the largest size."""
    refusals = Refusals(LEAST)
    for size in (100 * KiB, MiB, 8 * MiB + 3):
        refusals.gave_up(size, 0.0, 600.0)
        assert refusals.gathered_max(0.0) + refusals.message_max(0.0) < size
        refusals = Refusals(LEAST)


def test_the_smallest_of_what_was_refused_counts() -> None:
    """Until its time is over; and what is small is never refused for its size."""
    refusals = Refusals(LEAST)
    refusals.gave_up(8 * MiB, 0.0, 600.0)
    refusals.gave_up(4 * MiB, 1.0, 600.0)
    refusals.gave_up(6 * MiB, 2.0, 600.0)
    assert refusals.message_max(3.0) == 2 * MiB - 1
    refusals.gave_up(100, 4.0, 60.0)
    assert refusals.message_max(3.0) == LEAST


def test_what_is_refused_again_soon_is_tried_twice_as_late() -> None:
    """One that sends the same for ever costs less and less; after a while it is forgotten."""
    refusals, now, pauses = Refusals(LEAST), 0.0, []
    for _ in range(9):
        refusals.gave_up(8 * MiB, now, 120.0)
        began = now
        while refusals.message_max(now):
            now += 1.0
        pauses.append(round(now - began, -1))
    assert pauses[:4] == [120.0, 240.0, 480.0, 960.0]
    assert max(pauses) == pauses[-1] == SECONDS_MAX
    now += 2 * SECONDS_MAX
    refusals.gave_up(8 * MiB, now, 120.0)
    assert refusals.message_max(now + 130.0) == 0


def test_who_takes_nothing_is_given_nothing_up_for() -> None:
    """Once, and for what is half as large: then something has to be stored before."""
    refusals = Refusals(LEAST)
    assert refusals.may_give_up(MiB)
    assert not refusals.may_give_up(LEAST), "what is small is never given up"
    refusals.gave_up(MiB, 0.0, 120.0)
    assert not refusals.may_give_up(MiB)
    assert not refusals.may_give_up(400 * KiB)
    assert refusals.may_give_up(200 * KiB)
    refusals.gave_up(200 * KiB, 4.0, 120.0)
    assert not refusals.may_give_up(80 * KiB), "it was so once already"
    refusals.stored(10)
    assert refusals.may_give_up(600 * KiB)

"""
One subscription's strands: what they share, and whose turn it is.
"""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace

import pytest

from holdfast.broker.serving.bundle import TURN_COUNT, Bundle, Strand
from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.late import settled_over


def bundle_of(
    count: int, prefetch: int, mode: AcknowledgeMode = AcknowledgeMode.CLIENT
) -> tuple[Bundle, list[Strand]]:
    whole = Bundle(
        SimpleNamespace(room_bytes=1000),  # type: ignore[arg-type]
        "s",
        mode=mode,
        prefetch=prefetch,
        destination="/queue/>",
        client="",
        patterns=(),
        stirring=deque(),
    )
    strands = [Strand(whole, destination=f"/queue/{place}") for place in range(count)]
    for ordinal, strand in enumerate(strands, 1):
        strand.ordinal = ordinal
        assert not strand.has_room()  # It has to wait for its first turn.
    return whole, strands


def test_strands_share_what_may_be_out() -> None:
    """What one has the others cannot have; what it lets go of they may."""
    whole, (one, other) = bundle_of(2, prefetch=3)
    assert whole.woken() == [one, other]
    for key in (1, 2, 3):
        assert one.has_room()
        one.unacknowledged[key] = None
    assert (whole.held, one.held_count, other.held_count) == (3, 3, 3)
    assert not other.has_room()
    assert len(one.unacknowledged) >= one.prefetch
    del one.unacknowledged[2]
    one.unacknowledged.pop(2, None)
    assert whole.held == 2
    assert whole.woken() == [other]
    assert other.has_room()


def test_who_was_served_longest_ago_has_the_next_turn() -> None:
    """However often the others ask."""
    whole, (a, b, c) = bundle_of(3, prefetch=1)
    order = []
    for key in range(1, 7):
        (strand,) = whole.woken()
        assert strand.has_room()
        strand.unacknowledged[key] = None
        order.append(strand)
        assert not any(it.has_room() for it in (c, b, a))
        del strand.unacknowledged[key]
    assert order == [a, b, c] * 2


@pytest.mark.parametrize("mode", list(AcknowledgeMode))
def test_a_turn_is_bounded(mode: AcknowledgeMode) -> None:
    """Also where nothing is acknowledged, and being asked is being given."""
    whole, (strand,) = bundle_of(1, prefetch=1000, mode=mode)
    assert whole.woken() == [strand]
    given = 0
    while len(strand.unacknowledged) < strand.prefetch:
        given += 1
        if mode is not AcknowledgeMode.AUTO:
            strand.unacknowledged[given] = None
    assert given == TURN_COUNT
    strand.is_ready = True
    strand.is_ready = False  # Its queue's ring drops it.
    assert whole.woken() == [strand]
    assert strand.has_room()


def test_a_cumulative_acknowledgement_covers_the_order_of_delivery() -> None:
    """Over the strands, up to the one it names; an exact one covers only that."""
    whole, (one, other) = bundle_of(2, prefetch=10)
    whole.woken()
    for strand, key in ((one, 5), (other, 5), (one, 6), (other, 9), (one, 7)):
        strand.unacknowledged[key] = None
    assert settled_over(other, 9, exact=True) == [(other, [9])]
    assert settled_over(one, 6, exact=False) == [(one, [5, 6]), (other, [5])]
    assert settled_over(other, 9, exact=False) == [(one, [5, 6]), (other, [5, 9])]
    assert settled_over(one, 5, exact=False) == [(one, [5])]


def test_what_a_transaction_gives_back_has_its_old_place() -> None:
    """Before what was delivered after it, on whichever queue."""
    whole, (one, other) = bundle_of(2, prefetch=10)
    whole.woken()
    for strand, key in ((one, 1), (other, 1), (one, 2), (other, 2)):
        strand.unacknowledged[key] = None
    one.reserve([1, 2])
    other.reserve([1])
    assert whole.held == 1
    other.unacknowledged = dict.fromkeys([1, 2])
    one.unacknowledged.update(dict.fromkeys([2, 1]))
    one.unacknowledged = dict.fromkeys([2, 1])
    assert whole.held == 4
    assert settled_over(one, 1, exact=False) == [(one, [1])]
    assert settled_over(other, 1, exact=False) == [(other, [1]), (one, [1])]
    assert settled_over(one, 2, exact=False) == [(other, [1]), (one, [1, 2])]


def test_what_comes_anew_has_a_new_place() -> None:
    """Though a transaction had it once: it was given back to its queue meanwhile."""
    whole, (one, other) = bundle_of(2, prefetch=10)
    whole.woken()
    one.unacknowledged[1] = None
    one.reserve([1])
    other.unacknowledged[1] = None
    one.unacknowledged[1] = None
    assert settled_over(other, 1, exact=False) == [(other, [1])]


def test_a_window_that_is_put_together_is_given_nothing() -> None:
    """Until that is over, and then it has its turn; who is closed never has one."""
    whole, (strand,) = bundle_of(1, prefetch=10)
    prefetch, strand.prefetch = strand.prefetch, -1
    assert whole.woken() == [strand]
    assert not strand.has_room()
    assert whole.woken() == []
    strand.prefetch = prefetch
    assert whole.woken() == [strand]
    assert strand.has_room()
    strand.is_closed = True
    strand.prefetch = 0
    assert not strand.has_room()
    assert whole.woken() == []


def test_what_was_taken_away_takes_room_from_all() -> None:
    """Until its client says something of it."""
    whole, (one, other) = bundle_of(2, prefetch=2)
    whole.woken()
    one.unacknowledged[1] = None
    del one.unacknowledged[1]
    one.lapse(1)
    assert whole.prefetch == 1
    other.unacknowledged[1] = None
    assert not one.has_room()
    assert one.answered(1)
    assert not one.answered(1)
    assert whole.woken() == [one]

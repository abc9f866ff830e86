"""Tests of replication/progress.py: a peer as the leader sees it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.replication.progress import Pace, Progress


def test_a_match_ends_probing() -> None:
    """The first answer tells where the logs agree; from then on requests need not wait."""
    progress = Progress(10)

    assert progress.matched(4)
    assert (Pace.REPLICATING, 5) == (progress.pace, progress.next_index)


def test_answers_free_the_window() -> None:
    """What was matched is not under way any more; an old answer frees nothing twice."""
    progress = Progress(1)
    progress.matched(0)
    progress.sent(3, 100)
    progress.sent(5, 50)

    assert progress.matched(3)
    assert 50 == progress.under_way_bytes
    assert not progress.matched(2)
    assert 50 == progress.under_way_bytes


def test_probing_never_goes_below_what_is_matched() -> None:
    """What the peer said is durable is durable; there is no need to ask again."""
    progress = Progress(10)
    progress.matched(7)

    progress.probe(3)

    assert 8 == progress.next_index
    assert 0 == progress.under_way_bytes


def test_starting_over_forgets_the_match() -> None:
    """A peer that begins anew holds nothing; nothing is sent until it has answered."""
    progress = Progress(10)
    progress.matched(7)

    progress.reset(20)

    assert (0, 20, True) == (progress.match_index, progress.next_index, progress.is_waiting)


@given(st.lists(st.tuples(st.sampled_from("smp"), st.integers(0, 30)), max_size=40))
def test_the_match_stays_below_next(steps: list[tuple[str, int]]) -> None:
    """Whatever comes in whatever order, match_index < next_index and no bytes are negative."""
    progress = Progress(5)
    for kind, value in steps:
        if kind == "s":
            progress.sent(progress.next_index + value, 10)
        elif kind == "m":
            progress.matched(value)
        else:
            progress.probe(value)

        assert progress.match_index < progress.next_index
        assert progress.under_way_bytes == sum(size for _, size in progress.under_way)


def test_a_peer_keeps_up_if_it_soon_has_what_there_was() -> None:
    """However much there is by then; a round that takes longer tells that it does not, at once."""
    progress = Progress(1)
    progress.look(10.0, 100, 1.0)
    assert not progress.keeps_up  # How long what it has took is not known.
    progress.matched(100)
    progress.look(10.5, 180, 1.0)
    assert progress.keeps_up

    progress.look(11.4, 300, 1.0)
    assert progress.keeps_up
    progress.look(11.6, 310, 1.0)
    assert not progress.keeps_up
    progress.matched(250)
    progress.look(12.0, 320, 1.0)
    assert not progress.keeps_up
    progress.matched(320)
    progress.look(12.2, 330, 1.0)
    assert progress.keeps_up

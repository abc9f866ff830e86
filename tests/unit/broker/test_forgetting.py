"""
The bound on producers: whom it takes, when, and in what pieces.
"""

from __future__ import annotations

from collections import Counter

import pytest

from holdfast.broker.forgetting import ProducerLimit
from holdfast.broker.lasting.snapshot import digest_of
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import ProducerForgottenError
from holdfast.model.records import ProducerRecord


@pytest.fixture
def crowded(new_desk):
    """A desk that keeps 64 producers and has 100, each used at its number's time."""
    desk = new_desk(BrokerSettings(producer_count_max=64))
    # Not in the order of their use: as after a start from a log that the cleaner went through.
    order = sorted(range(1, 101), key=lambda number: number * 37 % 101)
    desk.broker.receipts.add_records([ProducerRecord(f"p{number}", 3, number) for number in order])
    desk.turn()
    desk.limit = ProducerLimit(desk.broker)
    return desk


def run(desk) -> int:
    """Step until nothing is left to do; give how many records the longest step asked for."""
    longest = idle = 0
    while idle < 3:
        before = len(desk.broker.receipts.batch.records)
        desk.limit.step()
        longest = max(longest, len(desk.broker.receipts.batch.records) - before)
        idle = 0 if desk.broker.receipts.has_batch() or desk.limit._left is not None else idle + 1
        desk.turn()
    return longest


def test_those_used_longest_ago_are_forgotten(crowded) -> None:
    """
    By log time, whatever order they came in; some more than needed, so that the next search waits.
    """
    run(crowded)
    left = {int(name[1:]) for name in crowded.state.producers.by_id}
    assert left == set(range(45, 101))
    assert crowded.state.producers.forgotten_count == 44
    assert digest_of(crowded.state) == digest_of(crowded.replayed())


def roomed(user: str, number: int) -> str:
    return f"holdfast-user:{user}:0:p{number}"


def counts(desk) -> dict[str, int]:
    """Give how many producers each user has."""
    return Counter(name.split(":")[1] for name in desk.state.producers.by_id)


def test_who_has_the_most_gives_way_to_who_has_fewer(new_desk) -> None:
    """
    Ann's producers are the oldest, and Eve makes as many new ones as the bound.
    """
    desk = new_desk(BrokerSettings(producer_count_max=64))
    names = [roomed("ann", number) for number in range(10)]
    names += [roomed("eve", number) for number in range(64)]
    records = [ProducerRecord(name, 3, number) for number, name in enumerate(names, 1)]
    desk.broker.receipts.add_records([*records])
    desk.turn()
    desk.limit = ProducerLimit(desk.broker)
    run(desk)
    assert counts(desk) == {"ann": 10, "eve": 46}
    left = {int(name.split("p")[-1]) for name in desk.state.producers.by_id if ":eve:" in name}
    assert left == set(range(18, 64))
    assert digest_of(desk.state) == digest_of(desk.replayed())


def test_many_who_have_the_most_give_way_together(new_desk) -> None:
    """
    Each of a crowd has somewhat more than his share; who has fewer loses none.
    """
    desk = new_desk(BrokerSettings(producer_count_max=400))
    names = [roomed("ann", number) for number in range(4)]
    names += [roomed(f"eve{user}", number) for number in range(10) for user in range(50)]
    records = [ProducerRecord(name, 3, number) for number, name in enumerate(names, 1)]
    desk.broker.receipts.add_records([*records])
    desk.turn()
    desk.limit = ProducerLimit(desk.broker)
    run(desk)
    left = counts(desk)
    assert left.pop("ann") == 4
    assert 300 <= sum(left.values()) <= 400
    assert min(left.values()) >= 5


def test_one_that_comes_back_is_told_so(crowded) -> None:
    """
    Its number would else be taken for the first of another producer, or for a gap.
    """
    run(crowded)
    with pytest.raises(ProducerForgottenError):
        crowded.broker.send(crowded.queue(), b"", b"x", crowded.client, None, "p1", 4)


def test_one_that_sends_is_not_forgotten(crowded) -> None:
    """
    Neither with a number under way, nor with one stored since it was chosen.
    """
    crowded.limit.step()
    crowded.limit.step()
    crowded.broker.send(crowded.queue(), b"", b"x", crowded.client, None, "p1", 4)
    crowded.turn()
    crowded.broker.send(crowded.queue(), b"", b"x", crowded.client, None, "p2", 4)
    run(crowded)
    assert {"p1", "p2"} <= set(crowded.state.producers.by_id)
    assert len(crowded.state.producers.by_id) <= 64


def test_nobody_is_forgotten_within_the_bound(new_desk) -> None:
    """
    However old.
    """
    desk = new_desk(BrokerSettings(producer_count_max=3))
    desk.broker.receipts.add_records([ProducerRecord(f"p{number}", 1, 1) for number in range(3)])
    desk.turn()
    desk.limit = ProducerLimit(desk.broker)
    run(desk)
    assert len(desk.state.producers.by_id) == 3


@pytest.mark.slow
def test_a_step_does_a_bounded_piece(new_desk) -> None:
    """
    Neither the search nor the records grow with the number of producers.
    """
    desk = new_desk(BrokerSettings(producer_count_max=1_000))
    desk.broker.receipts.add_records([ProducerRecord(f"p{n}", 1, n) for n in range(12_000)])
    desk.turn()
    desk.limit = ProducerLimit(desk.broker)
    desk.limit.step()
    for _ in range(2):
        desk.limit.step()
        assert desk.limit._left is not None
        assert not desk.broker.receipts.has_batch()
    assert run(desk) == 500
    assert len(desk.state.producers.by_id) == 1_000 - 1_000 // 8


def test_another_leadership_chooses_anew(crowded) -> None:
    """
    What the last one had chosen may have sent since.
    """
    crowded.limit.step()
    crowded.limit.step()
    crowded.limit.stop()
    crowded.limit.step()
    assert not crowded.broker.receipts.has_batch()
    run(crowded)
    assert len(crowded.state.producers.by_id) == 56


@pytest.mark.slow
def test_the_more_come_the_more_go(new_desk) -> None:
    """
    A crowd that does not end passes the bound by what comes in one round, and by no more.
    """
    desk = new_desk(BrokerSettings(producer_count_max=10_000))
    desk.limit = ProducerLimit(desk.broker)
    most = 0
    for step in range(100):
        names = [f"p{step}.{number}" for number in range(500)]
        desk.broker.receipts.add_records([ProducerRecord(name, 1, step + 1) for name in names])
        for _ in range(5):
            desk.limit.step()
        desk.turn()
        most = max(most, len(desk.state.producers.by_id))
    assert most < 15_000

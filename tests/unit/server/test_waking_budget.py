"""
Many messages that were delayed until the same moment: soon let go, and no turn is long for it.
"""

from __future__ import annotations

from itertools import pairwise

from holdfast.broker.settings import BrokerSettings
from holdfast.model.format_level import RETURNS_LEVEL
from holdfast.model.records import (
    FormatRecord,
    MessageRecord,
    QueueRecord,
    ReturnCause,
)

STEP = BrokerSettings().step_count_max
COUNT = 40 * STEP


class Scheduled:
    """A loop that notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    def call_soon(self, work: object) -> None:
        self.asked.append(work)


def delayed(node) -> None:
    """Let COUNT messages rest until the next second, as this leader knows."""
    messages = [MessageRecord(1, number, b"", b"", 0) for number in range(1, COUNT + 1)]
    node.broker.receipts.add_records([FormatRecord(RETURNS_LEVEL), QueueRecord(1, "q"), *messages])
    node.turns_until(lambda: node.broker.state.live_count() == COUNT)
    queue = node.broker.queue("q")
    due_ms = node.clock.wall_microseconds() // 1000 + 1_000
    keys = list(range(1, COUNT + 1))
    queue.choice.skip_to(COUNT + 1)
    queue.send_back(keys, ReturnCause.REJECTED, due_ms=due_ms)
    node.turns_until(lambda: queue.index.returned(COUNT).due_ms == due_ms)
    node.clock.now += 1


def test_many_that_are_due_come_turn_by_turn_without_a_pause(hasty) -> None:
    """
    A step in each turn where the slice is over by then, and the next turn follows at once.

    64 came with each tick, whatever else there was to do: a million took minutes.
    """
    delayed(hasty)
    comebacks = hasty.broker.queue("q").custody.comebacks
    hasty.conductor.loop = loop = Scheduled()
    seen = [len(comebacks.resting)]
    while seen[-1]:
        loop.asked.clear()
        hasty.turn()
        seen.append(len(comebacks.resting))
        assert loop.asked or not seen[-1]
    assert {before - after for before, after in pairwise(seen)} == {STEP}


def test_what_is_due_comes_in_one_turn_while_there_is_time(new_node) -> None:
    """
    A slice has room for many steps.
    """
    node = new_node()
    node.serve()
    delayed(node)
    comebacks = node.broker.queue("q").custody.comebacks
    assert len(comebacks.resting) == COUNT
    node.turn()
    assert len(comebacks.resting) == 0
    assert len(node.broker.queue("q").choice.returned) == COUNT


def test_time_goes_on_after_the_clock_was_put_back_though_nothing_is_known_to_rest(node) -> None:
    """
    A leader that nobody has asked for a queue yet: what rests there waits no longer for that.

    Nobody looked at the clock while no alarm stood, and a look counts for a second at most; a delay
    of a minute took another one from when its queue was asked for.
    """
    node.serve()
    node.broker.state.timestamp = ahead = node.clock.wall_microseconds() + 3_600_000_000
    node.conductor.tick()
    assert not node.broker.destinations.leadership.alarms
    for _ in range(300):
        node.clock.now += 0.4
        node.conductor.tick()
    assert ahead // 1000 + 59_000 <= node.broker.returning.now_ms <= ahead // 1000 + 61_000

"""A learner's place in the log is held, within bounds."""

from __future__ import annotations

import pytest

from holdfast.admin.status import HoldRequest
from holdfast.errors import DestinationError
from holdfast.server.learner_holds import LEARNER_PREFIX
from holdfast.server.log_access import hold_record
from holdfast.server.settings import ServerSettings

FAR = f"{LEARNER_PREFIX}far"


@pytest.fixture
def node(new_node, send):
    """A leader with ten messages in the log, five segments, and a learner that has two entries."""
    made = new_node(settings=ServerSettings(learner_look_seconds=0.0, clean_segment_count_min=1))
    made.serve()
    made.store.learners = {"far": 2}
    connection = made.connect()
    for number in range(10):
        connection.data_received(send(b"%d" % number * 100))
        made.settle()
    look(made)
    return made


def look(node) -> None:
    """Let the leader look where the learners are, and apply what follows."""
    node.conductor.cleaner.learner_holds.step(node.clock.now)
    node.settle()


def test_the_hold_stands_where_the_learner_is(node) -> None:
    """It is in the log, so that a new leader knows it before it hears from the learner."""
    assert (3, 0) == (node.broker.state.holds[FAR].index, node.broker.state.holds[FAR].lost_through)


def test_it_moves_on_by_whole_segments(node) -> None:
    """The log goes by segments, so less would only cost records."""
    node.store.learners = {"far": 3}
    look(node)
    assert 3 == node.broker.state.holds[FAR].index
    node.store.learners = {"far": 6}
    look(node)
    assert 7 == node.broker.state.holds[FAR].index


def test_a_new_leader_that_knows_nothing_of_it_leaves_it(node) -> None:
    """It never moves back, and an unknown place is no place."""
    node.store.learners = {"far": 0}
    look(node)
    assert 3 == node.broker.state.holds[FAR].index


def test_it_ends_with_the_learner(node) -> None:
    """Removed, or made a voter."""
    node.store.learners = {}
    look(node)
    assert FAR not in node.broker.state.holds


def test_what_it_holds_is_not_cleaned(node) -> None:
    """However much of it is dead."""
    assert node.conductor.cleaner._is_held(4, is_full=False)
    assert not node.conductor.cleaner._is_held(2, is_full=False)


def test_its_bound_is_a_bound(new_node, send, node) -> None:
    """Beyond it the learner is left behind; that is told, and known to every later leader."""
    node.conductor.cleaner.settings = ServerSettings()
    bounded = ServerSettings(learner_look_seconds=0.0, learner_hold_bytes_max=300)
    node.conductor.cleaner.learner_holds._settings = bounded
    look(node)
    assert 300 == node.broker.state.holds[FAR].bytes_max

    assert not node.conductor.cleaner._is_held(4, is_full=False)
    node.settle()

    hold = node.broker.state.holds[FAR]
    assert (5, 4) == (hold.index, hold.lost_through)
    look(node)
    assert 4 == node.broker.state.holds[FAR].lost_through
    node.store.learners = {"far": 10}
    look(node)
    assert (11, 0) == (
        node.broker.state.holds[FAR].index,
        node.broker.state.holds[FAR].lost_through,
    )


def test_a_disk_that_is_almost_full_wins(node) -> None:
    """Else the learner's absence would stop publishing."""
    assert not node.conductor.cleaner._is_held(4, is_full=True)
    node.settle()
    assert 4 == node.broker.state.holds[FAR].lost_through


def test_no_reader_may_take_its_name(node) -> None:
    """It would move a learner's place."""
    with pytest.raises(DestinationError, match="a learner's hold"):
        hold_record(node, FAR, HoldRequest(index=1))

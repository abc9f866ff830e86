"""
The end of a leadership, step by step.
"""

from __future__ import annotations

from holdfast.broker.broker import Broker
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.serving.leadership import forget_leadership
from holdfast.broker.settings import BrokerSettings
from holdfast.model.numbering import Numbering
from holdfast.model.records import DeleteQueueRecord, MessageRecord, QueueRecord

SETTINGS = BrokerSettings(step_count_max=4)


class Client:
    """Takes the word that something is done."""

    def reply(self, receipt: bytes) -> None:
        pass


def with_queues(count: int) -> BrokerState:
    state = BrokerState(SETTINGS)
    state.apply(1, [QueueRecord(number, f"q{number}") for number in range(1, count + 1)], 1)
    return state


def test_few_queues_take_one_step() -> None:
    """
    So a usual leader serves in the very turn.
    """
    assert list(forget_leadership(with_queues(3), [], Numbering())) == []


def test_many_queues_take_many_steps_and_the_state_may_change_between() -> None:
    """
    A queue that is deleted meanwhile stays so.
    """
    state = with_queues(10)
    last = state.queues[10]
    state.touch(last)  # A follower hands nothing out, nor does a leader without its lease.
    steps = forget_leadership(state, [], Numbering())
    next(steps)
    state.apply(11, [DeleteQueueRecord(10)], 2)
    assert len(list(steps)) == 1
    assert last.is_deleted
    assert all(queue.cursor == 1 for queue in state.queues.values())


def test_names_mean_again_what_the_log_says(desk) -> None:
    """
    What the leader had planned, declarations and deletions, may never have come to the log.
    """
    for name in ("kept", "gone", "again"):
        desk.queue(name)
    desk.turn()
    names = dict(desk.state.by_name)
    desk.queue("new")
    for name in ("gone", "again"):
        desk.broker.delete(name, desk.client, b"")
    desk.queue("again")
    desk.queue("brief")
    desk.broker.delete("brief", desk.client, b"")
    desk.broker.follow()
    assert desk.state.by_name == names
    desk.broker.lead()
    desk.broker.delete("gone", desk.client, b"")
    desk.turn()
    desk.broker.follow()
    del names["gone"]
    assert desk.state.by_name == names
    assert not desk.state.leaving


def test_the_first_step_looks_at_no_queue_that_nothing_was_planned_for() -> None:
    """
    It is one turn, and there may be 100,000 queues: to find all their names took 26 ms.
    """
    state = with_queues(10)
    state.by_name = looked_at = Counting(state.by_name)
    next(forget_leadership(state, [], Numbering()))
    assert state.by_name is looked_at
    assert looked_at.count == 0


class Counting(dict):
    """Counts the names that are put or taken."""

    count = 0

    def __setitem__(self, name, queue) -> None:
        self.count += 1
        super().__setitem__(name, queue)

    def __delitem__(self, name) -> None:
        self.count += 1
        super().__delitem__(name)


def test_contents_are_counted_until_they_are_let_go_of() -> None:
    """
    However many a queue has, it takes one step; they are freed in steps of their own.
    """
    state = with_queues(1)
    state.apply(2, [MessageRecord(1, number, b"", b"x", 1) for number in range(1, 10)], 1)
    cost = 1 + state.overhead
    assert state.memory_bytes == 9 * cost
    assert list(forget_leadership(state, [], Numbering())) == []
    assert not state.queues[1].cache
    assert state.memory_bytes == 9 * cost == len(list(state.discards.contents())) * cost
    assert state.discards.step(4) == (4 * cost, 0)
    assert len(list(state.discards.contents())) == 5


def test_strays_of_an_errand_that_was_dropped_are_not_forgotten() -> None:
    """
    A leader that was deposed and is elected again before it was through has them still.
    """
    broker = Broker(SETTINGS, with_queues(1))
    broker.lead()
    for number in range(9):
        broker.send_transient(broker.queue(f"planned {number}"), b"", b"x")
    broker.follow()
    broker.follow()
    broker.errands.finish()
    broker.let_go(lambda: False)
    assert broker.state.memory_bytes == 0


def test_a_broker_that_is_prepared_leads_at_once() -> None:
    """
    What is not done is done then, and a change of heart costs nothing but time.
    """
    broker = Broker(SETTINGS, with_queues(10))
    broker.prepare()
    assert broker.errands
    broker.lead()
    assert not broker.errands
    assert broker.is_leading
    broker.send_transient(broker.temporaries.queue("t", owner=broker), b"", b"x")
    broker.send_transient(broker.queue("planned"), b"", b"x")
    broker.follow()
    assert not broker.is_prepared
    broker.errands.finish()
    broker.let_go(lambda: False)
    assert broker.state.memory_bytes == 0


def test_what_the_next_change_of_roles_breaks_off_is_not_counted_for_ever() -> None:
    """
    Freeing what was purged, or had a temporary queue, is left off when a leadership begins or ends.
    """
    broker = Broker(SETTINGS)
    broker.lead()
    client = Client()
    for _ in range(20):
        broker.send_transient(broker.queue("purged"), b"", b"x")
        broker.send_transient(broker.temporaries.queue("t", owner=client), b"", b"x")
    broker.purge("purged", client, b"p")
    assert broker.state.discards
    broker.follow()
    broker.prepare()
    broker.errands.finish()
    assert broker.state.memory_bytes == 0

"""
The end of a leadership, step by step.
"""

from __future__ import annotations

from holdfast.broker.broker import Broker
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.settings import BrokerSettings
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


def test_a_half_is_made_when_somebody_first_asks() -> None:
    """
    So to begin to lead takes no time for each queue; the next leader has halves of its own.
    """
    broker = Broker(SETTINGS, with_queues(10))
    broker.lead()
    assert all(queue.listener is None for queue in broker.state.queues.values())
    queue = broker.queue("q3")
    assert broker.state.queues[3].listener is queue is broker.queue("q3")
    broker.follow()
    assert broker.destinations.leadership.half_of(queue.lasting) is None
    broker.lead()
    again = broker.queue("q3")
    assert again is not queue
    broker.let_go(lambda: False)
    assert broker.state.queues[3].listener is again


def test_a_deleted_queue_is_taken_off_those_to_look_at() -> None:
    """
    With others, where it stands there for nothing: a hundred thousand deletions take no scan each.
    """
    broker = Broker(SETTINGS, with_queues(3))
    broker.lead()
    leadership = broker.destinations.leadership
    for number in (1, 2, 3):
        broker.queue(f"q{number}").touch()
    broker.state.apply(4, [DeleteQueueRecord(1)], 2)
    assert len(leadership.touched) == 3
    broker.state.apply(5, [DeleteQueueRecord(2)], 3)
    assert list(leadership.touched) == [broker.queue("q3")]


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
    assert not desk.broker.destinations.leadership.leaving


def test_contents_are_counted_until_they_are_let_go_of() -> None:
    """
    However many a queue has, it takes one step; they are freed in steps of their own.
    """
    broker = Broker(SETTINGS, with_queues(1))
    broker.lead()
    queue, flow = broker.queue("q1"), broker.flow
    records = [MessageRecord(1, number, b"", b"x", 1) for number in range(1, 10)]
    broker.state.apply(2, records, 1)
    cost = 1 + flow.overhead
    assert len(queue.cache) == 9
    broker.follow()
    assert flow.memory_bytes == 9 * cost
    steps = 0
    while flow.discards:
        before = flow.memory_bytes
        flow.let_go()
        assert before - flow.memory_bytes <= 4 * cost
        steps += 1
    assert (flow.memory_bytes, steps > 3) == (0, True)


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
    assert broker.flow.memory_bytes == 0


def test_a_broker_that_is_prepared_leads_at_once() -> None:
    """
    Nothing is left to be done then, and a change of heart costs nothing but time.
    """
    broker = Broker(SETTINGS, with_queues(10))
    broker.prepare()
    assert broker.is_prepared
    leadership = broker.destinations.leadership
    broker.lead()
    assert broker.destinations.leadership is leadership
    assert broker.is_leading
    broker.send_transient(broker.temporaries.queue("t", owner=broker), b"", b"x")
    broker.send_transient(broker.queue("planned"), b"", b"x")
    broker.follow()
    assert not broker.is_prepared
    broker.errands.finish()
    broker.let_go(lambda: False)
    assert broker.flow.memory_bytes == 0


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
    assert broker.flow.discards
    broker.follow()
    broker.prepare()
    broker.errands.finish()
    assert broker.flow.memory_bytes == 0


def test_a_queue_has_one_alarm_however_often_something_rests_on_it() -> None:
    """
    Something rests for a week, and others for a moment, one after the other, all the time.
    """
    broker = Broker(SETTINGS, with_queues(1))
    broker.lead()
    leadership, queue = broker.destinations.leadership, broker.queue("q1")
    broker.state.apply(2, [MessageRecord(1, number, b"", b"", 1) for number in range(1, 3)], 1)
    queue.rest(1, 1_000_000)
    for now in range(1, 1_000):
        queue.rest(2, now)
        leadership.wake(now, 4)
        assert not queue.is_withheld(2)
    assert len(leadership.alarms) < 10
    leadership.wake(1_000_000, 4)
    assert not queue.is_withheld(1)

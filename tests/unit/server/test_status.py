"""
The numbers of a status, for what `test_node` does not see.
"""

from __future__ import annotations

from types import SimpleNamespace

from holdfast.broker.serving.bounds import Bounds
from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.subscription import Subscription
from holdfast.journal.damage import Damage
from holdfast.journal.journal import Journal
from holdfast.server.status import damage_status, queue_status
from holdfast.sessions.stomp import StompSession
from tests.unit.broker.served import served
from tests.unit.sessions.conftest import Desk
from trials.simulation.local_journal import LocalJournal
from trials.simulation.simulated_disk import SimulatedDisk

AUTO = AcknowledgeMode.AUTO


def test_a_queue_counts_what_is_stored_and_what_is_only_in_memory() -> None:
    """
    A person asks how many messages wait, not how they are kept.
    """
    queue = served(7, "orders")
    queue.index.put(1, 10, 100)
    queue.transients[-1] = TransientMessage(-1, b"", b"12345", 0)
    queue.transient_bytes = 5
    queue.lasting.enqueued_total, queue.lasting.acknowledged_total, queue.redelivered_total = (
        3,
        1,
        2,
    )

    (status,) = queue_status(queue.lasting, queue)
    assert status is not None
    assert (status.name, status.number) == ("orders", 7)
    assert (status.messages, status.bytes) == (2, 105)
    assert (status.enqueued, status.acknowledged, status.redelivered) == (3, 1, 2)
    assert (status.consumers, status.unacknowledged) == (0, 0)


def test_a_queue_tells_how_much_was_dropped() -> None:
    """
    Of one without limits nothing ever is.
    """
    queue = served(7, "orders")
    (before,) = queue_status(queue.lasting, queue)
    queue.bounds = Bounds(queue)
    queue.bounds.dropped_total = 5
    (status,) = queue_status(queue.lasting, queue)
    assert before is not None
    assert status is not None
    assert (before.dropped, status.dropped) == (0, 5)


def test_a_queue_tells_what_waits_for_consumers_who_select() -> None:
    """
    Nobody else could say why messages stand there while consumers have room.
    """
    queue = served(7, "orders")
    (before,) = queue_status(queue.lasting, queue)
    sifting = SimpleNamespace(selector_count=2, parked_count=3, is_full=True, unlooked_count=5)
    queue.sifting = sifting  # type: ignore[assignment]
    (status,) = queue_status(queue.lasting, queue)
    assert before is not None
    assert (before.selectors, before.parked, before.is_parked_full) == (0, 0, False)
    assert status is not None
    assert (status.selectors, status.parked, status.is_parked_full) == (2, 3, True)
    assert (before.unlooked, status.unlooked) == (0, 5)


def test_very_many_consumers_are_looked_at_some_at_a_time() -> None:
    """
    There may be 200,000 on one queue: what they hold was summed up in one turn.
    """
    queue = served(7, "orders")
    for number in range(1000):
        each = Subscription(StompSession.__new__(StompSession), "s", mode=AUTO, prefetch=1)
        each.unacknowledged = dict.fromkeys(range(number % 3))
        queue.subscriptions[each] = None

    *steps, status = queue_status(queue.lasting, queue)
    assert len(steps) >= 10
    assert set(steps) == {None}
    assert status is not None
    assert (status.consumers, status.unacknowledged) == (1000, 999)


def rot(log: LocalJournal, index: int) -> Journal:
    """Flip a bit of an entry while the node is down, and open the log again."""
    place = log.journal.place_of(index)
    log.journal.close()
    log.disk.flip_bit(place.path, place.byte * 8 + 300)
    log._open()
    return log.journal


def test_an_end_that_may_be_damaged_is_told() -> None:
    """
    It counts when the node votes, so nobody may lead because of it: its place must be found.
    """
    log = LocalJournal(SimulatedDisk(), resolve_unknown_tail=False)
    for body in (b"one", b"two", b"three"):
        log.append(body)
    journal = rot(log, 3)
    assert (journal.last_index, journal.tail_state) == (2, "unknown")

    (told,) = damage_status(journal)
    assert (told.index, told.byte) == (3, journal.recovered_tail.start)
    assert told.segment == journal.segments()[-1].path.name
    assert told.reason.startswith("damaged or interrupted")


def test_damage_is_told_once() -> None:
    """
    What was stored for certain is damage, with nothing to add.
    """
    log = LocalJournal(SimulatedDisk(), resolve_unknown_tail=False)
    for body in (b"one", b"two", b"three"):
        log.append(body)
    log.writer.save_floor()
    journal = rot(log, 2)
    assert [it.index for it in damage_status(journal)] == [it.index for it in journal.damage]


def test_of_very_many_damaged_places_the_last_is_told() -> None:
    """
    What a promotion by force says of a damaged log is said of its furthest place.
    """
    places = [Damage("s", 0, index, "r") for index in range(1, 151)]
    log = SimpleNamespace(damage=places, last_index=200, unknown_through=0)
    told = [it.index for it in damage_status(log)]  # type: ignore[arg-type]
    assert told == [*range(1, 100), 150]


def test_a_queue_tells_whose_turn_it_is() -> None:
    """
    Nobody else could say why consumers with room get nothing.
    """
    desk = Desk()
    queue = desk.broker.queue("orders")

    def told():
        (status,) = queue_status(queue.lasting, queue)
        assert status is not None
        return (status.sole_consumer, status.is_draining, status.is_gate_closed, status.is_grouped)

    assert told() == ("", False, False, False)
    first = desk.connect(client_id="ann")
    first.subscribe(ack="client-individual", **{"activemq.exclusive": "true"})
    first.send(b"1")
    desk.turn()
    assert told() == ("ann", False, False, False)
    second = desk.connect()
    claim = {"activemq.exclusive": "true", "activemq.priority": "9"}
    second.subscribe(id="2", ack="client-individual", **claim)
    desk.turn()
    assert told() == (second.session.id, True, False, False)
    first.leave()
    second.send(b"2", JMSXGroupID="g")
    desk.turn()
    assert told()[:2] == (second.session.id, False)

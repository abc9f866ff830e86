"""
COMMIT: what a transaction held goes into one batch.
"""

from __future__ import annotations

from itertools import chain, pairwise

import pytest

from holdfast.broker import committing
from holdfast.broker.destinations import Destinations
from holdfast.broker.outputs import size_of
from holdfast.broker.serving.transactions import NUMBERED_PER_STEP, Transaction
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import UnknownDeliveryError
from holdfast.model.records import AcknowledgeRecord, DispatchMarkRecord, MessageRecord


def test_sends_and_acknowledgements_are_one_batch(desk) -> None:
    """
    So one entry of the log, and the receipt waits for it.
    """
    consumer = desk.subscribe()
    desk.send(b"taken")
    desk.turn()
    transaction = Transaction("t", desk.settings)
    transaction.add_settlement(consumer, list(consumer.unacknowledged))
    desk.broker.hold(transaction, desk.queue(), b"", b"moved", persistent=True)
    desk.broker.commit(transaction, desk.client, b"done")
    kinds = [type(record) for record in desk.broker.receipts.take_batch().records]
    assert sorted(kinds, key=str) == [AcknowledgeRecord, MessageRecord]
    assert not desk.client.replies


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_a_commit_takes_no_time_for_a_message_that_is_not_kept(desk, kind: str) -> None:
    """
    100,000 of them took 12 to 30 ms; where each goes now is found out as it is published.
    """
    destination = desk.queue() if kind == "queue" else desk.broker.topic("t")
    transaction = Transaction("t", desk.settings)
    for number in range(300):
        desk.broker.hold(transaction, destination, b"", b"%d" % number, persistent=False)
    desk.broker.commit(transaction, desk.client, b"done")
    [publications] = desk.broker.receipts.batch.publications
    assert publications.held is transaction.publications
    bodies = [body for _, _, body, *_ in publications.sends()]
    assert bodies == [b"%d" % number for number in range(300)]


def test_a_large_commit_keeps_numbers_free_and_gives_them_later(desk) -> None:
    """
    So its turn takes no time for each message; what others send meanwhile stands behind them.
    """
    count = 10 * NUMBERED_PER_STEP
    transaction = Transaction("t", desk.settings)
    for name in ("a", "b"):
        for _ in range(count // 2):
            desk.broker.hold(transaction, desk.queue(name), b"", b"x", persistent=True)
    desk.broker.commit(transaction, desk.client, b"done")
    assert not any(record.sequence for record in transaction.records)
    desk.send(b"behind", "a")
    batch = desk.broker.receipts.take_batch()
    steps = list(chain.from_iterable(batch.unnumbered))
    assert len(steps) == 10
    messages = [record for record in batch.records if type(record) is MessageRecord]
    of_a = [record.sequence for record in messages if record.queue_number == 1]
    assert of_a == list(range(1, count // 2 + 2))
    assert (
        batch.size_bytes
        == desk.broker.receipts.uncommitted_bytes
        == sum(map(size_of, batch.records))
    )


def test_what_a_commit_kept_free_is_given_back_if_it_fails(desk, monkeypatch) -> None:
    """
    By a mistake of ours; the same transaction may be committed again.
    """
    transaction = Transaction("t", desk.settings)
    for name in ("a", "b"):
        for _ in range(NUMBERED_PER_STEP):
            desk.broker.hold(transaction, desk.queue(name), b"", b"x", persistent=True)
    with monkeypatch.context() as patch:
        patch.setattr(committing, "number_messages", None)
        with pytest.raises(TypeError):
            desk.broker.commit(transaction, desk.client, b"done")
    assert {desk.queue(name).assigned_sequence for name in ("a", "b")} == {1}
    assert not desk.broker.receipts.batch.unnumbered
    desk.broker.commit(transaction, desk.client, b"done")
    assert desk.queue("a").assigned_sequence == NUMBERED_PER_STEP + 1
    assert len(desk.broker.receipts.batch.unnumbered) == 1


# In steps -----------------------------------------------------------------------------------------

_STEP = 4
_STEPS = BrokerSettings(step_count_max=_STEP)


def acknowledging(desk, subscriptions: int, *, each: int = 3) -> Transaction:
    """A transaction that has acknowledged all that these subscriptions were given."""
    consumers = [desk.subscribe(prefetch=each) for _ in range(subscriptions)]
    for _ in range(subscriptions * each):
        desk.send(b"x")
    desk.turn()
    transaction = desk.broker.begin("t")
    for consumer in consumers:
        transaction.add_settlement(consumer, list(consumer.unacknowledged))
    return transaction


def one_by_one(desk):
    """Do the errands a step at a time."""
    while desk.broker.errands:
        desk.broker.errands.run(lambda: True)
        yield


def test_a_commit_takes_no_time_for_an_acknowledgement(new_desk) -> None:
    """
    100,000 over 5,000 subscriptions held the loop for 14 ms. They are in the batch at once, all of
    them; what is to be done for each comes after it, in steps, and nobody is given any meanwhile.
    """
    desk = new_desk(_STEPS)
    transaction = acknowledging(desk, 20)
    queue = desk.queue()
    assert len(queue.custody.reserved) == 60
    desk.broker.commit(transaction, desk.client, b"done")
    assert sorted(queue.acknowledged) == list(range(1, 61))
    assert desk.broker.receipts.batch.settled_count == 60
    left = [len(queue.custody.reserved)]
    assert left[0] >= 60 - 2 * _STEP
    other = desk.subscribe()
    for _ in one_by_one(desk):
        desk.dispatch()
        left.append(len(queue.custody.reserved))
    assert max(before - after for before, after in pairwise(left)) <= 2 * _STEP
    assert left[-1] == 0
    desk.turn()
    assert desk.client.replies == [b"done"]
    assert not other.receiver.deliveries
    assert desk.state.live_count() == desk.replayed().live_count() == 0


def test_its_errand_ends_what_is_only_in_memory_too(new_desk) -> None:
    """
    Both kinds acknowledged by one subscription; only the lasting ones are in the log.
    """
    desk = new_desk(_STEPS)
    consumer = desk.subscribe()
    for _ in range(10):
        desk.send(b"x")
        desk.turn()
        desk.broker.send_transient(desk.queue(), b"", b"y")
    desk.turn()
    transaction = desk.broker.begin("t")
    keys = list(consumer.unacknowledged)
    assert len([key for key in keys if key < 0]) == 10
    transaction.add_settlement(consumer, keys)
    desk.broker.commit(transaction, desk.client, b"done")
    assert desk.queue().acknowledged == [key for key in keys if key > 0]
    assert desk.queue().transients
    for _ in one_by_one(desk):
        pass
    assert not desk.queue().transients
    assert not desk.queue().custody.reserved
    assert desk.broker.flow.volatile_bytes == 0


def test_a_late_acknowledgement_of_what_a_commit_has_just_settled_is_fine(new_desk) -> None:
    """
    A client that lost its connection after COMMIT says it again while the errand is under way.
    """
    desk = new_desk(_STEPS)
    transaction = acknowledging(desk, 20)
    with pytest.raises(UnknownDeliveryError):
        desk.broker.acknowledge_identity(1, 60, desk.client, None)
    desk.broker.commit(transaction, desk.client, None)
    assert 60 in desk.queue().custody.reserved
    for in_flight in (False, True):
        if in_flight:
            desk.seal()
        desk.broker.acknowledge_identity(1, 60, desk.client, b"late")
    assert desk.broker.receipts.batch.settled_count == 0
    desk.turn()
    assert desk.client.replies == [b"late", b"late"]


def test_whoever_goes_meanwhile_gets_nothing_of_it_back(new_desk) -> None:
    """
    The subscriptions are closed while the errand is under way.
    """
    desk = new_desk(_STEPS)
    transaction = acknowledging(desk, 20)
    other = desk.subscribe()
    desk.broker.commit(transaction, desk.client, b"done")
    for consumer in transaction.settlements:
        desk.broker.unsubscribe(consumer)
    for _ in one_by_one(desk):
        desk.dispatch()
    desk.turn()
    assert not other.receiver.deliveries
    assert not desk.queue().is_held
    assert desk.state.live_count() == 0


def test_marks_for_many_queues_are_asked_for_in_steps(new_desk) -> None:
    """
    5,000 at once took 6 ms.
    """
    desk = new_desk(BrokerSettings(step_count_max=_STEP, dispatch_mark_step_min=2))
    transaction = desk.broker.begin("t")
    consumers = [desk.subscribe(f"{number}") for number in range(20)]
    desk.turn()
    for number in range(20):
        for _ in range(3):
            desk.broker.hold(transaction, desk.queue(f"{number}"), b"", b"x", persistent=True)
    desk.broker.commit(transaction, desk.client, b"done")

    def marks() -> int:
        return sum(type(each) is DispatchMarkRecord for each in desk.broker.receipts.batch.records)

    asked = [0, marks(), *(marks() for _ in one_by_one(desk))]
    assert max(after - before for before, after in pairwise(asked)) == _STEP
    assert asked[-1] == 20
    desk.turn()
    assert [len(consumer.receiver.deliveries) for consumer in consumers] == [3] * 20


def test_a_mistake_in_its_errand_costs_that_queue_only(desk, monkeypatch) -> None:
    """
    The COMMIT is in the batch by then, and whoever conducts builds the queue's half anew.
    """
    transaction = acknowledging(desk, 1)
    monkeypatch.setattr(Destinations, "settle_transient", None)
    transaction.settlements[next(iter(transaction.settlements))].append(-1)
    desk.broker.commit(transaction, desk.client, b"done")
    [(queue, _)] = desk.broker.broken
    assert queue is desk.queue()
    desk.turn()
    assert desk.client.replies == [b"done"]

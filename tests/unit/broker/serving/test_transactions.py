"""
What a transaction holds until its end.
"""

from __future__ import annotations

import pytest

from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.serving.transactions import (
    NUMBERED_PER_STEP,
    Run,
    Transaction,
    number_messages,
)
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import TransactionError
from holdfast.model.records import MessageRecord
from tests.unit.broker.served import served

SETTINGS = BrokerSettings(transaction_bytes_max=100, transaction_operation_count_max=5)


def holding(*keys: int) -> Subscription:
    subscription = Subscription(None, "s", mode=AcknowledgeMode.CLIENT, prefetch=9)  # type: ignore[arg-type]
    subscription.unacknowledged = dict.fromkeys(keys)
    return subscription


def test_undo_restores_the_order_of_delivery() -> None:
    """
    Several acknowledgements, and what was delivered since behind them.
    """
    subscription = holding(5, 1, 2, 3)
    transaction = Transaction("t", SETTINGS)
    transaction.add_settlement(subscription, [5, 1])
    transaction.add_settlement(subscription, [2])
    subscription.unacknowledged[9] = None
    assert list(subscription.unacknowledged) == [3, 9]
    assert list(transaction.undo(64)) == [subscription]
    assert list(subscription.unacknowledged) == [5, 1, 2, 3, 9]


def test_undo_tells_what_has_no_subscription_any_more() -> None:
    """
    It has to go back to its queue.
    """
    subscription = holding(1, 2)
    subscription.queue = queue = served(7, "q")
    transaction = Transaction("t", SETTINGS)
    transaction.add_settlement(subscription, [1])
    subscription.is_closed = True
    assert list(transaction.undo(64)) == [queue]
    assert list(subscription.unacknowledged) == [2]


@pytest.mark.parametrize(
    ("count", "size", "why"), [(1, 101, "100 bytes"), (6, 0, "5 operations"), (3, 40, "100 bytes")]
)
def test_it_does_not_grow_over_its_limits(count, size, why) -> None:
    """
    What is refused is not held, and counts for nothing.
    """
    transaction = Transaction("t", SETTINGS)
    queue = served(1, "q")
    for _ in range(count - 1):
        transaction.add_send(queue, b"", b"x" * size, persistent=True)
    with pytest.raises(TransactionError, match=why):
        transaction.add_send(queue, b"", b"x" * size, persistent=True)
    assert len(transaction.records) == count - 1
    assert transaction.size_bytes == (count - 1) * size
    assert transaction.operation_count == count - 1


def test_acknowledgements_count_too() -> None:
    """
    Those of deliveries and those by identity; refused ones stay in delivery.
    """
    subscription = holding(*range(1, 9))
    transaction = Transaction("t", SETTINGS)
    transaction.add_settlement(subscription, [1, 2, 3])
    queue = served(7, "q")
    transaction.add_late(queue, 70)
    with pytest.raises(TransactionError):
        transaction.add_settlement(subscription, [4, 5])
    transaction.add_late(queue, 71)
    with pytest.raises(TransactionError):
        transaction.add_late(queue, 72)
    assert list(subscription.unacknowledged) == [4, 5, 6, 7, 8]
    assert transaction.late == {queue: [70, 71]}
    assert queue.custody.reserved == {70, 71}


def test_it_reaches_no_more_places_than_a_commit_can_look_at() -> None:
    """
    Queues, topics, subscriptions and queues of late acknowledgements, each once however often.
    """
    transaction = Transaction("t", BrokerSettings(transaction_destination_count_max=4))
    queue, other = served(1, "q"), served(2, "r")
    subscription = holding(1, 2)
    for _ in range(2):
        transaction.add_send(queue, b"", b"", persistent=True)
        transaction.add_send(other, b"", b"", persistent=False)
        transaction.add_settlement(subscription, [next(iter(subscription.unacknowledged))])
    transaction.add_late(queue, 70)
    transaction.add_late(queue, 71)
    for refused in (
        lambda: transaction.add_send(served(3, "s"), b"", b"", persistent=True),
        lambda: transaction.add_send(served(3, "s"), b"", b"", persistent=False),
        lambda: transaction.add_settlement(holding(1), [1]),
        lambda: transaction.add_late(other, 7),
    ):
        with pytest.raises(TransactionError, match="more than 4 destinations"):
            refused()
    assert transaction.operation_count == 8


def test_a_rollback_takes_one_pass_over_what_was_acknowledged() -> None:
    """
    The window is put together once, and not once for each acknowledgement: that was quadratic.
    """
    subscription = holding(*range(1, 10_001))
    built = 0

    class Counting(Subscription):
        __slots__ = ("window",)

        @property  # type: ignore[override]
        def unacknowledged(self) -> dict[int, None]:
            return self.window  # type: ignore[no-any-return]

        @unacknowledged.setter
        def unacknowledged(self, window: dict[int, None]) -> None:
            nonlocal built
            built += 1
            self.window = window

    counting = Counting(None, "s", mode=AcknowledgeMode.INDIVIDUAL, prefetch=9)  # type: ignore[arg-type]
    counting.unacknowledged = subscription.unacknowledged
    transaction = Transaction("t", BrokerSettings())
    for key in range(1, 10_001):
        transaction.add_settlement(counting, [key])
    built = 0
    assert list(transaction.undo(64))[-1] is counting
    assert list(counting.unacknowledged) == list(range(1, 10_001))
    assert built == 1


def test_its_messages_get_their_numbers_in_one_pass() -> None:
    """
    On the queue that has the name now, which may be another than when they came.
    """
    transaction = Transaction("t", BrokerSettings())
    gone, queue = served(1, "q"), served(2, "q")
    for body in (b"x", b"y"):
        transaction.add_send(gone, b"", body, persistent=True)
    assert list(number_messages([Run(queue, 7, transaction.by_queue[gone])], [], 99)) == []
    found = [(each.queue_number, each.sequence, each.stored_at) for each in transaction.records]
    assert found == [(2, 7, 99), (2, 8, 99)]


def test_many_messages_get_their_numbers_in_steps() -> None:
    """
    However they are spread over queues.
    """
    step = NUMBERED_PER_STEP
    for counts in ([5 * step], [step // 2] * 10, [1] * (5 * step)):
        runs = [
            Run(served(number, "q"), 7, [MessageRecord(0, 0, b"", b"", 0) for _ in range(count)])
            for number, count in enumerate(counts, 1)
        ]
        records = [record for run in runs for record in run.records]
        done = 0
        for _ in number_messages(runs, [], 99):
            before, done = done, sum(record.sequence > 0 for record in records)
            assert done - before <= step
        assert done == len(records)
        for run in runs:
            numbers = [(each.queue_number, each.sequence) for each in run.records]
            assert numbers == [(run.queue.number, 7 + place) for place in range(len(numbers))]

"""
COMMIT: what a transaction held goes into one batch.
"""

from __future__ import annotations

from itertools import chain

import pytest

from holdfast.broker import committing
from holdfast.broker.outputs import size_of
from holdfast.broker.transactions import NUMBERED_PER_STEP, Transaction
from holdfast.model.records import AcknowledgeRecord, MessageRecord


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
    kinds = [type(record) for record in desk.broker.take_batch().records]
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
    [publications] = desk.broker.batch.publications
    assert publications.held is transaction.publications
    bodies = [body for _, _, body in desk.broker.batch.published()]
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
    batch = desk.broker.take_batch()
    steps = list(chain.from_iterable(batch.unnumbered))
    assert len(steps) == 10
    messages = [record for record in batch.records if type(record) is MessageRecord]
    of_a = [record.sequence for record in messages if record.queue_number == 1]
    assert of_a == list(range(1, count // 2 + 2))
    assert batch.size_bytes == desk.broker.uncommitted_bytes == sum(map(size_of, batch.records))


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
    assert not desk.broker.batch.unnumbered
    desk.broker.commit(transaction, desk.client, b"done")
    assert desk.queue("a").assigned_sequence == NUMBERED_PER_STEP + 1
    assert len(desk.broker.batch.unnumbered) == 1

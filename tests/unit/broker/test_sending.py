"""
Messages as they come: numbered, repeated, taken back.
"""

from __future__ import annotations

import pytest


def test_sends_that_were_taken_before_are_counted(desk) -> None:
    """
    On their way to the log or stored already, alone or in a transaction; all are confirmed.
    """
    broker = desk.broker

    def send(sequence: int, receipt: bytes) -> None:
        broker.send(desk.queue(), b"", b"x", desk.client, receipt, "p", sequence)

    def commit(sequence: int, receipt: bytes) -> None:
        transaction = broker.begin("t")
        for persistent in (True, True, False):
            broker.hold(transaction, desk.queue(), b"", b"x", persistent=persistent)
        broker.commit(transaction, desk.client, receipt, "p", sequence)

    send(1, b"1")
    commit(2, b"2")
    assert broker.sending.duplicates_total == 0
    send(1, b"under way")
    desk.turn()
    assert broker.sending.duplicates_total == 1
    send(1, b"stored")
    commit(2, b"all of it")
    desk.turn()
    assert broker.sending.duplicates_total == 1 + 1 + 3
    assert desk.queue().lasting.enqueued_total == 4
    assert sorted(desk.client.replies) == [b"1", b"2", b"all of it", b"stored", b"under way"]
    broker.follow()
    broker.begin_anew()
    assert broker.sending.duplicates_total == 5


def test_a_request_that_fails_in_the_middle_leaves_nothing(desk) -> None:
    """
    Its numbers are given again, and what it was counted for is not counted.
    """
    desk.send(b"before")
    receipts = desk.broker.receipts
    before = receipts.uncommitted_bytes, len(receipts.batch.records)
    with pytest.raises(ZeroDivisionError), desk.broker.sending.all_or_nothing():
        desk.send(b"taken back")
        raise ZeroDivisionError
    assert (receipts.uncommitted_bytes, len(receipts.batch.records)) == before
    assert desk.queue().assigned_sequence == 2


def test_a_message_in_memory_stands_behind_what_was_stored_before_it(desk, new_client) -> None:
    """
    Both lanes of a queue give one producer's messages in the order they were sent.
    """
    client = new_client()
    desk.send(b"1")
    desk.broker.send_transient(desk.queue(), b"", b"2")
    desk.send(b"3")
    desk.turn()
    desk.subscribe(client=client)
    desk.turn()
    assert client.keys == [1, -1, 2]

"""
What rests as a leader begins is put aside as it is come by, and comes when it is due.
"""

from __future__ import annotations

import pytest

from holdfast.broker.serving.careful import Careful, choose
from holdfast.broker.serving.plain import Plain
from holdfast.model.format_level import RETURNS_LEVEL
from holdfast.model.records import FormatRecord, ReturnCause, ReturnedRecord

DUE = 9_000_000


@pytest.fixture
def resting(desk):
    """A new leader of six messages, of which the second to fourth rest."""
    desk.broker.receipts.record(FormatRecord(RETURNS_LEVEL))
    for _ in range(6):
        desk.send(b"x")
    desk.turn()
    returned = ReturnedRecord(1, ReturnCause.REJECTED, [2, 3, 4], DUE)
    desk.broker.receipts.add_records([returned])
    desk.turn()
    desk.fail_over()
    return desk


def test_what_rests_is_put_aside_until_it_is_due(resting, new_client) -> None:
    """Those behind it do not wait; it comes at its old place, with which delivery it is."""
    client = new_client()
    resting.subscribe(client=client, prefetch=3)
    resting.turn()
    assert type(resting.queue().choice) is Careful
    assert client.keys == [1, 5, 6]
    resting.broker.sending.now_microseconds = (DUE - 1) * 1000
    resting.broker.wake()
    other = new_client()
    resting.subscribe(client=other)
    resting.turn()
    assert other.keys == []
    resting.broker.sending.now_microseconds = DUE * 1000
    resting.broker.wake()
    resting.turn()
    assert other.counts == [(2, 2), (3, 2), (4, 2)]


def test_to_put_many_aside_is_done_in_steps(resting, new_client) -> None:
    """A turn is short however many rest."""
    client = new_client()
    resting.subscribe(client=client)
    resting.turn()
    resting.fail_over()
    resting.subscribe(client=client)
    choice = resting.queue().choice
    step: list = []
    client.counts.clear()
    assert not choice.assign(lambda _key: None, step, 2)
    assert ([key for _, key, *_ in step], choice.cursor) == ([1], 2)
    assert not choice.assign(lambda _key: None, step, 2)
    assert ([key for _, key, *_ in step], choice.cursor) == ([1], 4)
    assert not choice.assign(lambda _key: None, step, 2)
    assert ([key for _, key, *_ in step], choice.cursor) == ([1, 5], 6)
    assert not choice.assign(lambda _key: None, step, 2)
    assert choice.assign(lambda _key: None, step, 2)
    assert [key for _, key, *_ in step] == [1, 5, 6]


def test_a_queue_on_which_nothing_rests_is_served_as_before(desk, resting) -> None:
    """What nobody uses costs nothing."""
    assert type(choose(resting.queue("other"))) is Plain
    resting.subscribe()
    resting.turn()
    purged = resting.queue()
    resting.broker.purge("orders", resting.client, b"p")
    resting.turn()
    assert type(choose(purged)) is Plain

"""
The cleaner where several queues have one message: its bytes count for each, and stand once.
"""

from __future__ import annotations

import pytest

from holdfast.broker.cleaning import kept_bytes
from holdfast.broker.lasting.snapshot import digest_of
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.model.records import FormatRecord
from holdfast.server.settings import ServerSettings
from tests.unit.server.test_cleaning import clean, kept_state

QUEUES = 8


@pytest.fixture
def shared(new_node):
    """A node with five messages that live on eight queues each, and nothing else."""
    node = new_node(settings=ServerSettings(clean_segment_count_min=0))
    node.serve()
    node.broker.receipts.record(FormatRecord(NEWEST_LEVEL))
    node.settle()
    node.producer = node.connect()
    to = b",".join(b"/queue/s%d" % number for number in range(QUEUES))
    for _ in range(5):
        send(node, to)
    return node


def send(node, to: bytes) -> None:
    frame = b"SEND\ndestination:%b\npersistent:true\n\n%b\0" % (to, b"x" * 400)
    node.producer.data_received(frame)
    node.settle()


def spend(node, count: int) -> None:
    """Send so many to another queue, and let them be taken."""
    taker = node.connect(b"SUBSCRIBE\nid:1\ndestination:/queue/work\nack:auto\n\n\0")
    for _ in range(count):
        send(node, b"/queue/work")
    node.settle()
    taker.connection_lost(None)
    node.settle()


def test_what_is_dead_beside_it_goes(shared) -> None:
    """
    By bytes more lives than the log has, so messages are counted.
    """
    clean(shared, 60)
    length = shared.store.log_bytes
    assert kept_bytes(shared.broker.state) > 2 * length
    spend(shared, 60)
    grown = shared.store.log_bytes
    clean(shared, 200)
    assert shared.store.log_bytes < (grown + length) / 2
    assert shared.broker.state.live_count() == 5 * QUEUES
    assert digest_of(kept_state(shared)) == digest_of(shared.broker.state)


def test_what_is_all_alive_is_not_written_again_for_ever(shared) -> None:
    """
    One round finds out; none comes after it before something has died.
    """
    clean(shared, 100)
    once = shared.conductor.cleaner.rewritten_bytes
    clean(shared, 200)
    assert shared.conductor.cleaner.rewritten_bytes == once
    assert shared.broker.state.live_count() == 5 * QUEUES


def test_a_low_disk_is_full_of_what_lives_only_if_it_is(shared) -> None:
    """
    Else it is cleaned.
    """
    clean(shared, 100)
    shared.store.is_low = True
    clean(shared, 20)
    assert shared.conductor.cleaner.is_log_full
    shared.store.is_low = False
    clean(shared)
    spend(shared, 30)
    shared.store.is_low = True
    grown = shared.store.log_bytes
    clean(shared, 200)
    assert shared.store.log_bytes < grown / 2

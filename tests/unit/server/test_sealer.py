"""
Which batch goes next, when, and how large ones are sealed; the turns around it are test_loop.py's.
"""

from __future__ import annotations

import gc
from types import SimpleNamespace

import pytest

from holdfast.broker.broker import Broker
from holdfast.broker.settings import BrokerSettings
from holdfast.journal.entry_body import EntryBody
from holdfast.model.records import ProducerRecord
from holdfast.server.sealer import Sealer
from holdfast.server.settings import ServerSettings
from tests.unit.broker.served import served

SETTINGS = ServerSettings(seal_records_max=3, batch_records_max=4, tick_seconds=0.01)


@pytest.fixture
def broker() -> Broker:
    return Broker(BrokerSettings())


@pytest.fixture
def sealer(broker: Broker) -> Sealer:
    return Sealer(broker, SimpleNamespace(new_body=EntryBody), SETTINGS)  # type: ignore[arg-type]


def add(broker: Broker, count: int) -> None:
    broker.receipts.add_records([ProducerRecord(f"p{number}", 1, 1) for number in range(count)])


def test_a_small_batch_is_given_as_it_is(broker: Broker, sealer: Sealer) -> None:
    """
    To gather it in steps would cost more than it takes.
    """
    assert not sealer.has_work()
    add(broker, 3)
    assert sealer.has_work()
    taken = sealer.take(lambda: True)
    assert taken is not None
    assert (len(taken[0].records), taken[1]) == (3, None)
    assert not sealer.has_work()


def test_a_large_batch_is_given_when_it_is_whole(broker: Broker, sealer: Sealer) -> None:
    """
    What came meanwhile is given after it.
    """
    add(broker, 4)
    assert sealer.take(lambda: True) is None
    assert sealer.has_work()
    add(broker, 1)
    taken = sealer.take(lambda: True)
    assert taken is not None
    assert taken[1] is not None
    assert len(taken[0].records) == 4
    assert sealer.has_work()
    following = sealer.take(lambda: True)
    assert following is not None
    assert len(following[0].records) == 1


def test_with_time_enough_it_is_given_at_once(broker: Broker, sealer: Sealer) -> None:
    """
    Steps are for turns that have others to serve.
    """
    add(broker, 4)
    taken = sealer.take(lambda: False)
    assert taken is not None
    assert taken[1] is not None


def test_what_was_under_way_is_forgotten_with_the_leadership(
    broker: Broker, sealer: Sealer
) -> None:
    """
    The next one gives its own numbers.
    """
    add(broker, 4)
    assert sealer.take(lambda: True) is None
    sealer.stop()
    assert not sealer.has_work()


def test_acknowledgements_alone_wait_for_company(broker: Broker, sealer: Sealer) -> None:
    """
    For one tick; a record that somebody waits for does not.
    """
    assert not sealer.is_due(5.0)
    assert not sealer.is_due(5.005)
    assert sealer.is_due(5.02)
    assert not sealer.is_due(5.03)
    add(broker, 1)
    assert sealer.is_due(5.03)


def test_a_full_batch_waits_for_nothing(broker: Broker, sealer: Sealer) -> None:
    """
    By the number of its records, or by their bytes, or by what was acknowledged.
    """
    add(broker, 3)
    assert not sealer.is_full()
    broker.receipts.batch.size_bytes = broker.settings.batch_bytes_max
    assert sealer.is_full()
    broker.receipts.batch.size_bytes = 0
    add(broker, 1)
    assert sealer.is_full()
    assert not sealer.is_over()
    add(broker, 1)
    assert sealer.is_over()


def test_less_is_gathered_for_a_store_that_is_slow(broker: Broker, sealer: Sealer) -> None:
    """Never more than the settings say; and as much as they say once it is not slow any more."""
    usual = broker.settings.batch_bytes_max
    for told, expected in ((100_000, 100_000), (1 << 40, usual), (200_000, 200_000), (0, usual)):
        sealer.bound(told)
        broker.receipts.batch.size_bytes = expected - 1
        assert not sealer.is_full()
        broker.receipts.batch.size_bytes = expected
        assert sealer.is_full()
        assert not sealer.is_over()
        broker.receipts.batch.size_bytes = expected + 1
        assert sealer.is_over()


def test_acknowledgements_fill_a_batch_too(broker: Broker, sealer: Sealer) -> None:
    """
    Each queue has a record of them, which names all messages; they come with the end of the batch.
    """
    broker.receipts.acknowledged_queues += [served(number, "q") for number in range(1, 5)]
    assert (sealer.is_full(), sealer.is_over()) == (True, False)
    broker.receipts.acknowledged_queues.append(served(5, "q"))
    assert sealer.is_over()
    broker.receipts.acknowledged_queues.clear()
    broker.receipts.batch.settled_count = SETTINGS.batch_settled_count_max
    assert (sealer.is_full(), sealer.is_over()) == (True, False)
    broker.receipts.batch.settled_count += 1
    assert sealer.is_over()


@pytest.mark.parametrize("is_ended", [True, False])
def test_nothing_is_kept_of_a_batch_that_was_given(
    broker: Broker, sealer: Sealer, is_ended: bool
) -> None:
    """
    A transaction of 60 MiB stayed in memory until the next one as large came, or for ever.
    """
    broker.receipts.add_records([ProducerRecord(f"given-{is_ended}", 1, 1) for _ in range(4)])
    assert sealer.take(lambda: True) is None
    if is_ended:
        sealer.stop()
    else:
        sealer.take(lambda: False)
    broker.follow()
    broker.let_go(lambda: False)
    gc.collect()
    found = [each for each in gc.get_objects() if isinstance(each, ProducerRecord)]
    assert f"given-{is_ended}" not in {each.producer_id for each in found}


def test_nothing_goes_into_a_batch_that_is_more_than_full(node, send) -> None:
    """
    What is not over its limit yet stays open.
    """
    node.serve()
    sealer, receipts = node.conductor.sealer, node.broker.receipts
    client = node.connect()
    client.data_received(send(b"x"))
    node.conductor.clients.read(node.clock.now)
    sealer.close_full()
    assert not receipts.closed
    receipts.batch.size_bytes = node.broker.settings.batch_bytes_max + 1
    sealer.close_full()
    assert len(receipts.closed) == 1

"""
Letting go of what waited for a batch: in steps, in order; a mistake costs the client it came from.
"""

from __future__ import annotations

import pytest

from holdfast.broker.broker import Broker
from holdfast.broker.outputs import Batch
from holdfast.broker.settings import BrokerSettings
from holdfast.server.containment import Containment
from holdfast.server.releasing import Releasing

_STEP = 3


class Client:
    """Notes what it is told; one cannot be told anything."""

    def __init__(self, told: list[bytes], *, is_broken: bool = False) -> None:
        self.told = told
        self.is_broken = is_broken

    def reply(self, receipt: bytes) -> None:
        if self.is_broken:
            raise ConnectionError
        self.told.append(receipt)


class Leadership:
    """That lasts until it is told otherwise."""

    is_serving = True


@pytest.fixture
def broker() -> Broker:
    return Broker(BrokerSettings())


@pytest.fixture
def containment(broker: Broker) -> Containment:
    return Containment(broker)


@pytest.fixture
def releasing(broker: Broker, containment: Containment) -> Releasing:
    return Releasing(broker, containment, _STEP)


def batch_of(broker: Broker, count: int, told: list[bytes], broken: int = -1) -> Batch:
    """A batch as it stands while it is under way, with so many who wait for it."""
    for number in range(count):
        client = Client(told, is_broken=number == broken)
        broker.receipts.reply_with_batch(client, b"%d" % number)
    return broker.receipts.take_batch()


def test_few_are_told_at_once(broker: Broker, releasing: Releasing) -> None:
    """It is the common case, and costs no generator."""
    told: list[bytes] = []
    assert releasing.at_once(batch_of(broker, _STEP, told))
    assert told == [b"0", b"1", b"2"]


def test_many_are_told_in_steps(broker: Broker, releasing: Releasing) -> None:
    """Nobody is told before the caller takes the steps; each does no more than its share."""
    told: list[bytes] = []
    batch = batch_of(broker, 8, told)
    assert not releasing.at_once(batch)
    assert not told
    counts = [len(told) for _ in releasing.steps(batch, Leadership())]
    assert counts == [3, 6]
    assert told == [b"%d" % number for number in range(8)]


def test_who_cannot_be_told_costs_the_others_nothing(
    broker: Broker, releasing: Releasing, containment: Containment
) -> None:
    """The mistake is counted; everybody behind it is told."""
    told: list[bytes] = []
    assert releasing.at_once(batch_of(broker, _STEP, told, broken=1))
    assert told == [b"0", b"2"]
    assert containment.mistake_count == 1


def test_a_leadership_that_is_over_tells_nothing_more(broker: Broker, releasing: Releasing) -> None:
    """Its clients are gone, or were told that it ended."""
    told: list[bytes] = []
    leadership = Leadership()
    steps = releasing.steps(batch_of(broker, 8, told), leadership)
    next(steps)
    leadership.is_serving = False
    assert list(steps) == []
    assert told == [b"0", b"1", b"2"]

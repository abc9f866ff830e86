"""Tests of testing/workload.py: what the simulator's clients do when a broker refuses."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest

from trials.simulation.faults import Plan
from trials.simulation.simulator import Simulation
from trials.simulation.workload import Mover, Producer, TransactionProducer

NUMBER = re.compile(rb"producer-id:(.*)\nproducer-sequence:(\d+)\n")


class Wire:
    """Stands for the connection: keeps what was sent, by call."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, data: bytes) -> None:
        self.sent.append(data)

    def drop(self) -> None:
        self.sent.append(b"gone")

    def take(self) -> list[tuple[bytes, bytes]]:
        """The ids and numbers sent since."""
        sent, self.sent = b"".join(self.sent), []
        return NUMBER.findall(sent)


@pytest.fixture
def world() -> Simulation:
    """One without a cluster: the test is the broker, and nobody looks for its log."""
    made = Simulation(1, Plan())
    made.history.confirm_checks.clear()
    return made


@pytest.fixture
def wire() -> Wire:
    return Wire()


def connect(client: Any, wire: Wire) -> None:
    client.pipe = cast("Any", wire)
    client.is_connected = True
    client.connected()


@pytest.fixture
def producer(world: Simulation, wire: Wire) -> Producer:
    """With all of its four messages sent."""
    made = Producer(world, "p1", queues=["q1"], count=4, is_numbered=True)
    connect(made, wire)
    while made.made < made.count:
        made.hurry()
    assert wire.take() == [(b"p1", b"%d" % number) for number in (1, 2, 3, 4)]
    return made


def refuse(client: Any, code: bytes, *numbers: int) -> None:
    for number in numbers:
        client.frame(b"ERROR", {b"code": code, b"receipt-id": b"%d" % number}, b"", 0.0)


def test_a_refused_window_is_sent_again_when_all_of_it_is_answered(
    world: Simulation, wire: Wire, producer: Producer
) -> None:
    """
    One that sends all again at each refusal makes work faster than it is done, and never ends.
    """
    refuse(producer, b"store-full", 1, 2, 3)
    world.timeline.run(1.0)
    assert wire.take() == []

    refuse(producer, b"producer-sequence-gap", 4)
    world.timeline.run(1.0)
    assert wire.take() == [(b"p1", b"%d" % number) for number in (1, 2, 3, 4)]


def test_nothing_new_is_sent_behind_a_refusal(world: Simulation, wire: Wire) -> None:
    """It would leave a gap before it, and be refused as well."""
    producer = Producer(world, "p1", queues=["q1"], count=200, is_numbered=True)
    producer.window = 200
    connect(producer, wire)
    producer.hurry()
    sent = len(wire.take())
    assert sent < 200

    refuse(producer, b"store-full", 1)
    producer.hurry()

    assert wire.take() == []


def test_who_is_forgotten_goes_on_under_another_id(
    world: Simulation, wire: Wire, producer: Producer
) -> None:
    """As holdfast.client does. What was refused on the first connection is certainly not stored."""
    producer.frame(b"RECEIPT", {b"receipt-id": b"1"}, b"", 0.0)
    refuse(producer, b"producer-forgotten", 2, 3, 4)
    world.timeline.run(1.0)

    assert wire.take() == [(b"p1~1", b"1"), (b"p1~1", b"2"), (b"p1~1", b"3")]
    assert not world.history.doubtful


def test_what_an_earlier_connection_left_unanswered_may_come_twice(
    world: Simulation, wire: Wire, producer: Producer
) -> None:
    """It may have been stored before the producer was forgotten."""
    producer.frame(b"RECEIPT", {b"receipt-id": b"1"}, b"", 0.0)
    connect(producer, wire)
    assert wire.take() == [(b"p1", b"2"), (b"p1", b"3"), (b"p1", b"4")]

    refuse(producer, b"producer-forgotten", 2, 3, 4)
    world.timeline.run(1.0)

    assert [name for name, _ in wire.take()] == [b"p1~1"] * 3
    assert world.history.doubtful == {"p1.2", "p1.3", "p1.4"}


def test_a_gap_behind_a_full_store_is_no_reason_for_another_id(
    world: Simulation, wire: Wire, producer: Producer
) -> None:
    """Only a gap with nothing refused before it shows a broker that knows other numbers."""
    refuse(producer, b"store-full", 1)
    refuse(producer, b"producer-sequence-gap", 2, 3, 4)
    world.timeline.run(1.0)

    assert {name for name, _ in wire.take()} == {b"p1"}


def test_a_transaction_is_sent_under_another_id(world: Simulation, wire: Wire) -> None:
    """It is whole all the same, and only known to be stored once if it was never sent before."""
    client = TransactionProducer(world, "t1", queues=["q1"], count=1)
    connect(client, wire)
    client.chance.seed(2)  # It is not to be rolled back.
    world.timeline.run(1.0)
    assert client.pending is not None
    assert wire.take()[-1] == (b"t1", b"1")

    refuse(client, b"producer-forgotten", client.made)
    connect(client, wire)

    assert wire.take() == [(b"t1~1", b"1")]
    assert not world.history.doubtful

    refuse(client, b"producer-forgotten", client.made)
    assert world.history.doubtful == set(client.pending[0])


def test_a_mover_leaves_a_transaction_of_a_forgotten_number_to_redelivery(
    world: Simulation, wire: Wire
) -> None:
    """What was not moved is delivered again; what was is not."""
    mover = Mover(world, "m1", source="q3", target="q2")
    connect(mover, wire)
    body = b"p2.1 of q3"
    world.history.send("p2.1", "q3", body)
    headers = {b"message-id": b"x-3-1", b"ack": b"1-1"}
    mover.frame(b"MESSAGE", headers, body, 0.0)
    world.timeline.run(0.2)
    assert wire.take() == [(b"m1", b"1")]

    refuse(mover, b"producer-forgotten", 1)
    connect(mover, wire)
    assert wire.take() == []

    mover.frame(b"MESSAGE", {**headers, b"redelivered": b"true"}, body, 0.0)
    world.timeline.run(0.2)
    assert wire.take() == [(b"m1~1", b"1")]

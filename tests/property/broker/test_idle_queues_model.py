"""
Queues that go when nobody uses them, whatever is sent at that moment: nothing stored is lost.
"""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.broker.removing import LOOK_MS, Removing
from holdfast.broker.serving.subscription import Subscription
from holdfast.model.records import PolicyRecord
from tests.unit.broker.conftest import Client, Desk

NAMES = ("a", "b")
STEPS = {
    "send": 1.0,
    "send_volatile": 0.2,
    "subscribe": 0.8,
    "acknowledge": 5.0,
    "leave": 1.5,
    "seal": 1.5,
    "commit": 1.5,
    "turn": 2.0,
    "look": 3.0,
    "change_leader": 0.15,
}


class IdleMachine:
    """Two queues that go, and what their clients know."""

    def __init__(self) -> None:
        self.desk = Desk()
        self.desk.broker.sending.now_microseconds = 1_000_000
        values = {"gcInactiveDestinations": "true", "inactiveTimeoutBeforeGC": 1}
        self.desk.broker.receipts.record(PolicyRecord("queue://>", json.dumps(values)))
        self.desk.turn()
        self.consumers: list[tuple[Subscription, Client]] = []
        self.stored: set[tuple[str, int]] = set()
        """By name and number, what was sent and is not acknowledged."""
        self.volatile_count = dict.fromkeys(NAMES, 0)
        self.removed = 0

    def send(self, random: Random) -> None:
        name = random.choice(NAMES)
        body = b"%d" % random.getrandbits(64)
        sequence = self.desk.queue(name).assigned_sequence
        self.desk.send(body, name)
        self.stored.add((name, sequence))

    def send_volatile(self, random: Random) -> None:
        name = random.choice(NAMES)
        self.desk.broker.send_transient(self.desk.queue(name), b"", b"x")
        self.volatile_count[name] += 1

    def subscribe(self, random: Random) -> None:
        client = Client()
        self.consumers.append((self.desk.subscribe(random.choice(NAMES), client=client), client))

    def acknowledge(self, random: Random) -> None:
        for subscription, client in self.consumers:
            queue = subscription.queue
            assert queue is not None
            assert not queue.is_deleted, "somebody consumes from it"
            for key in list(subscription.unacknowledged)[: random.randrange(1, 5)]:
                self.desk.broker.acknowledge(subscription, key, client, None)
                if key > 0:
                    self.stored.remove((queue.name, key))
                else:
                    self.volatile_count[queue.name] -= 1

    def leave(self, random: Random) -> None:
        if self.consumers:
            place = random.randrange(len(self.consumers))
            self.desk.broker.unsubscribe(self.consumers.pop(place)[0])

    def seal(self, random: Random) -> None:
        self.desk.seal()

    def commit(self, random: Random) -> None:
        self.desk.commit()

    def turn(self, random: Random) -> None:
        self.desk.turn()
        self.check()

    def look(self, random: Random) -> None:
        broker = self.desk.broker
        before = broker.removing.removed_total
        for _ in range(LOOK_MS // 1000 + 1):
            broker.sending.now_microseconds += 1_000_000
            broker.returning.look_at_the_clock()
        broker.wake()
        self.removed += broker.removing.removed_total - before

    def change_leader(self, random: Random) -> None:
        now = self.desk.broker.sending.now_microseconds
        # What is not committed is nobody's; its senders were not told that it is stored.
        self.desk.turn()
        self.desk.fail_over()
        self.consumers = []
        self.volatile_count = dict.fromkeys(NAMES, 0)
        self.desk.broker.sending.now_microseconds = now

    def check(self) -> None:
        found = {
            (name, sequence)
            for name, lasting in self.desk.state.by_name.items()
            for sequence in range(1, lasting.next_sequence)
            if lasting.index.is_live(sequence)
        }
        assert found == self.stored
        for name, count in self.volatile_count.items():
            queue = self.desk.broker.destinations.leadership.by_name.get(name)
            assert count == (0 if queue is None else queue.transient_count)


def live(seed: int) -> int:
    """Live through a story; give how many queues went in it."""
    random = Random(seed)
    machine = IdleMachine()
    for _ in range(100):
        (name,) = random.choices(list(STEPS), list(STEPS.values()))
        getattr(machine, name)(random)
    machine.turn(random)
    return machine.removed


@given(seed=st.integers(0, 1 << 32))
def test_nothing_stored_goes_with_a_queue_that_goes(seed: int) -> None:
    """
    Q61: whatever is sent, consumed, on its way to the log or under another leader at that moment.
    """
    live(seed)


def test_queues_do_go_in_these_stories() -> None:
    """
    Else they would show nothing.
    """
    assert sum(live(seed) for seed in range(60)) > 30


def test_what_is_on_its_way_must_be_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The ablation: a queue goes whose first message is not in the log yet, and that is lost.
    """
    monkeypatch.setattr(Removing, "_is_awaited", staticmethod(lambda _queue: False))
    with pytest.raises((AssertionError, KeyError)):
        for seed in range(100):
            live(seed)

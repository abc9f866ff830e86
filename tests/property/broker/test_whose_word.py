"""
A late acknowledgement settles nothing that another client had last, if that one can be known again.

Clients with a name and without come and go, acknowledge, roll back, and say late words about any
message they have heard of. With the rule switched off the same walks find a message that was taken
from its client, so they can.
"""

from __future__ import annotations

from itertools import chain
from random import Random

import pytest

from holdfast.broker.broker import Broker
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.serving import late
from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import UnknownDeliveryError
from holdfast.store.record_codec import decode_records, encode_records

CLIENTS = ("ann", "bob", "")
SETTINGS = BrokerSettings(step_count_max=2, dispatch_mark_step_min=4, dispatch_mark_step_max=16)


class World:
    """One queue, its leaders one after the other, and what is known of who had what."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.room_bytes = 1 << 30
        self.subscriptions: dict[str, Subscription] = {}
        self.log: list[tuple[int, bytes]] = []
        self.next_record = 1
        self.had_by: dict[int, str] = {}
        """Who had a message last, under this leader."""
        self.seen: list[int] = []
        self.settled: set[int] = set()
        """Also what is on its way to the log."""
        self.taken: list[str] = []
        """What went wrong."""
        self.broker = Broker(SETTINGS)
        self.broker.lead()

    def reply(self, receipt: bytes) -> None:
        assert receipt

    # What happens ---------------------------------------------------------------------------------

    def send(self) -> None:
        queue = self.broker.queue("q")
        for _ in range(self.random.randint(1, 4)):
            self.broker.send(queue, b"", b"x", self, None)
            self.broker.send_transient(queue, b"", b"y")

    def come(self) -> None:
        client = self.random.choice(CLIENTS)
        name = f"{client} {self.random.random()}"
        subscription = Subscription(
            self,
            name,
            mode=AcknowledgeMode.INDIVIDUAL,
            prefetch=self.random.randint(1, 5),
            client=client,
        )
        self.subscriptions[name] = subscription
        self.broker.subscribe(subscription, self.broker.queue("q"))

    def go(self) -> None:
        if self.subscriptions:
            name = self.random.choice(list(self.subscriptions))
            self.broker.unsubscribe(self.subscriptions.pop(name))

    def go_with_a_transaction(self) -> None:
        """What it had acknowledged is given back, too."""
        if not self.subscriptions:
            return
        name = self.random.choice(list(self.subscriptions))
        subscription = self.subscriptions.pop(name)
        transaction = self.broker.begin("t")
        if subscription.unacknowledged:
            key = self.random.choice(list(subscription.unacknowledged))
            transaction.add_settlement(subscription, [key])
        self.broker.unsubscribe(subscription)
        for _ in self.broker.abort(transaction):
            pass

    def acknowledge(self) -> None:
        for subscription in self.subscriptions.values():
            for key in list(subscription.unacknowledged)[:1]:
                self.broker.acknowledge(subscription, key, self, None)
                self.settled.add(key)

    def say_late(self) -> None:
        """A word about something heard of, by somebody."""
        if not self.seen:
            return
        key = self.random.choice(self.seen)
        client = self.random.choice(CLIENTS)
        was_there = self.is_there(key) and key not in self.settled
        is_held = any(key in each.unacknowledged for each in self.subscriptions.values())
        try:
            self.broker.acknowledge_identity(1, key, self, None, client)
        except UnknownDeliveryError:
            if was_there and not is_held and client and self.had_by.get(key) == client:
                self.taken.append(f"{client} had {key} last, and may not settle it")
            return
        self.settled.add(key)
        self.turn()
        if was_there and not self.is_there(key) and self.had_by.get(key, "") not in ("", client):
            self.taken.append(f"{client or 'nobody'} settled {key} of {self.had_by[key]}")

    def fail_over(self) -> None:
        """Another leader knows nothing of who had what."""
        self.turn()
        state = BrokerState(SETTINGS)
        for number, (first, body) in enumerate(self.log):
            state.apply(first, decode_records(body, with_content=False), number)
        self.subscriptions.clear()
        self.had_by.clear()
        self.broker = Broker(SETTINGS, state)
        self.broker.lead()

    def turn(self) -> None:
        self.broker.errands.finish()
        while self.broker.receipts.has_batch():
            batch = self.broker.receipts.take_batch()
            self.log.append((self.next_record, b"".join(encode_records(batch.records))))
            self.broker.apply_batch(batch, self.next_record, len(self.log))
            self.next_record += len(batch.records)
        for subscription, key, *_ in chain.from_iterable(self.broker.dispatch()):
            self.had_by[key] = subscription.client
            self.seen.append(key)

    def is_there(self, key: int) -> bool:
        queue = self.broker.queue("q")
        return key in queue.transients or (key > 0 and queue.index.is_live(key))

    def walk(self, steps: int) -> list[str]:
        """Take so many steps; give what went wrong."""
        often = (self.send, self.come, self.go, self.go_with_a_transaction, self.say_late)
        acts = (*often, *often, self.say_late, self.turn, self.turn, self.acknowledge)
        for _ in range(steps):
            self.random.choice(acts)()
            if self.random.random() < 0.01:
                self.fail_over()
        self.turn()
        known = set(self.broker.queue("q").custody.had_by)
        assert all(self.is_there(key) for key in known), "what is settled is still known"
        return self.taken


@pytest.mark.parametrize("seed", range(20))
def test_nobody_settles_late_what_another_client_had_last(seed: int) -> None:
    """
    And whoever had it last, and has a name, may.
    """
    assert World(Random(seed)).walk(200) == []


def test_without_the_rule_messages_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The walks above would show it.
    """
    monkeypatch.setattr(late, "_require_same", lambda *_: None)
    assert any(World(Random(seed)).walk(200) for seed in range(20))

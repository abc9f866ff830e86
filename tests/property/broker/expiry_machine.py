"""
The broker against its model with messages that expire; see `broker_machine`.

Beside what is true of all deliveries: nothing goes to anybody whose time is over. What expires is
taken off only then, and only if nobody has it; it is a dead letter, or nowhere, as the policy says.
Each node knows of each message when it expires, whatever it has been through.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.delivery import Step
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.subscription import Subscription
from holdfast.model.facts import Attributes, Cause, MessageFacts
from holdfast.model.records import PolicyRecord
from tests.property.broker.broker_machine import BrokerMachine, Consumer
from tests.property.broker.expected import PLACE, QUEUES, Model

LIVES_MS = (0, 20, 60, 300)
"""How long messages live, in turns; 0: for ever."""


class ExpiryModel(Model):
    """What must be true of messages that expire."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.sent_with: dict[bytes, int] = {}
        """By body: when it expires where it was sent to."""
        self.elsewhere: dict[PLACE, int] = {}
        """The same where it was moved to."""

    def facts_of(self, body: bytes) -> MessageFacts | None:
        lasts_ms = LIVES_MS[int(body.split()[1]) % len(LIVES_MS)]
        if not lasts_ms:
            return None
        expires_ms = self.sent_with[body] = self.now_ms + lasts_ms
        return MessageFacts(attributes=Attributes(expires_ms=expires_ms))

    def expires_ms(self, place: PLACE) -> int:
        return self.elsewhere.get(place, self.sent_with.get(place[1], 0))

    def is_over(self, place: PLACE) -> bool:
        return 0 < self.expires_ms(place) <= self.now_ms


class _Watched:
    """A part of the broker of which some is done otherwise."""

    def __init__(self, part: object, **otherwise: object) -> None:
        self._part = part
        self.__dict__.update(otherwise)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)


class ExpiryMachine(BrokerMachine):
    """A leader of whose messages some expire."""

    model: ExpiryModel

    def __init__(self, **policy: object) -> None:
        super().__init__()
        self.model = ExpiryModel()
        self.policy = policy
        self.expired_count = 0
        self.moved_from: str | None = None
        """What is being moved by an operator comes from there."""
        self.watch()
        self.raise_the_level()
        self.broker.receipts.record(PolicyRecord("queue://>", json.dumps(policy)))
        self.turn()

    @property
    def is_swept(self) -> bool:
        return self.policy.get("expireMessagesPeriod") != 0

    def watch(self) -> None:
        """Be told of whatever this leader takes off because it has expired."""
        expiring: Any = self.broker.expiring
        if isinstance(expiring._settling, _Watched):
            return  # The same node leads again.
        destinations = self.broker.destinations
        settling, sift = self.broker.settling, expiring.sift

        def bury(
            queue: Queue, names: Sequence[str], keys: list[int], cause: Cause, moved_at: int
        ) -> None:
            assert cause is Cause.EXPIRED
            for key in keys:
                place = self.place_of(queue, key)
                assert place is not None, "it lives"
                self.leaves_expired(place)
                for name in names:
                    self.model.seen.discard((name, place[1]))
                    self.arrives(self.model.sent(name, place[1]))
            settling.bury(queue, names, keys, cause, moved_at)

        def settle_transient(queue: Queue, key: int) -> None:
            place = self.place_of(queue, key)
            if place is not None and place not in self.model.leaving:
                self.leaves_expired(place)
            destinations.settle_transient(queue, key)

        def store_dead(queue: Queue, message: TransientMessage, origin: object) -> None:
            settling.store_dead(queue, message, origin)  # type: ignore[arg-type]
            self.model.seen.discard(("dead", message.body))
            self.arrives(self.model.sent("dead", message.body))

        def watched_sift(queue: Queue, step: Step) -> Step:
            kept = sift(queue, step)
            self.check_sifted(queue, step, kept)
            return kept

        expiring._destinations = _Watched(destinations, settle_transient=settle_transient)
        expiring._settling = _Watched(settling, bury=bury, store_dead=store_dead)
        expiring.sift = watched_sift

    def check_sifted(self, queue: Queue, step: Step, kept: Step) -> None:
        """What is left out has expired, and nothing else has; who never acknowledges settles it."""
        kept_keys = {each[1] for each in kept}
        for consumer, key, message, number, _ in step:
            content = message or self.read(number)
            assert content.body is not None
            place = (queue.name, content.body)
            assert self.model.is_over(place) == (key not in kept_keys), f"{place} has its time"
            if key < 0 and key not in kept_keys and consumer.mode is AcknowledgeMode.AUTO:
                self.leaves_expired(place)

    def leaves_expired(self, place: PLACE) -> None:
        """It is taken off now: nobody has it, and its time is over."""
        self.expired_count += 1
        assert self.model.is_over(place), f"{place} has not expired"
        assert place in self.model.live - self.model.leaving, f"{place} is not there any more"
        assert not self.is_held(place), f"somebody has {place}"
        late = [it for each in self.transactions for _, _, it in each.late]
        assert place not in late, f"a transaction has a word on {place}"
        self.leaves([place])
        self.model.transient.discard(place)  # Should it come back here, it is stored.
        self.model.returned.discard(place)
        self.model.coming.pop(place, None)
        self.model.overtaken.add(place)

    def arrives(self, place: PLACE) -> None:
        """With the life that it has there from now on."""
        super().arrives(place)
        dead_ms = int(str(self.policy.get("expiration", 0)))
        expires_ms = self.model.now_ms + dead_ms if dead_ms else 0
        if self.moved_from is not None:
            expires_ms = self.model.expires_ms((self.moved_from, place[1]))
        self.effects.append(lambda: self.model.elsewhere.update({place: expires_ms}))

    def move(self, name: str, to: str, picks: list[int]) -> None:
        self.moved_from = name
        super().move(name, to, picks)
        self.moved_from = None

    def time_passes(self, milliseconds: int) -> None:
        self.model.now_ms += milliseconds
        super().time_passes(milliseconds)

    def check_order(
        self, subscription: Subscription, place: PLACE, given_back: dict[str, int]
    ) -> None:
        """What was given back and has expired holds nobody up."""
        returned = self.model.returned
        self.model.returned = {each for each in returned if not self.model.is_over(each)}
        super().check_order(subscription, place, given_back)
        self.model.returned = returned

    def change_leader(self, survivors: int, way: str) -> None:
        super().change_leader(survivors, way)
        self.watch()

    def check(self) -> None:
        super().check()
        for lasting in self.broker.state.queues.values():
            for key in lasting.index.sequences(1, lasting.next_sequence):
                body = self.read(lasting.index.record_number(key)).body or b""
                place = (lasting.name, body)
                assert lasting.index.expires_ms(key) == self.model.expires_ms(place), place

    def come_to_rest(self) -> None:
        """What has expired and nobody has is gone."""
        for _ in range(60):
            self.time_passes(50)
            self.turn()
            if self.finishing is not None:
                self.finish_cleaning(*self.finishing)
        transactions = self.transactions
        held = {place for each in self.consumers for place in each.held.values()}
        held |= {it for each in transactions for _, kept in each.settled for it in kept.values()}
        held |= {it for each in transactions for _, _, it in each.late}
        left = {place for place in self.model.live - held if self.model.is_over(place)}
        assert not (left and self.is_swept), f"{left} have expired, and nobody has them"

    def teardown(self) -> None:
        self.come_to_rest()
        for name in QUEUES:  # What only goes on its way out does so now.
            everybody = Consumer(name, AcknowledgeMode.AUTO, 1)
            self.consumers.append(everybody)
            self.broker.subscribe(everybody.subscription, self.broker.queue(name))
        for _ in range(3):
            self.come_to_rest()
        super().teardown()

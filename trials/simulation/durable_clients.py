"""
Clients of a simulated world with durable subscriptions of one topic.

Two stay: one wants all, one wants what is gold, and both are away for a while now and then. The
third is fickle: it begins anew with another selector, or ends its subscription and makes another.
The fourth stays, sends to the topic itself, and does not want what it has sent.
One producer sends one by one, another in transactions, once those that stay are there.

What must come to whom is worked out from the log alone (`stored_topics`).

Invariants (each violation is raised with its name):
    M8: who was told that a durable subscription is there has it in the log, as it was asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trials.simulation.history import ViolationError
from trials.simulation.stored_topics import Key, called
from trials.simulation.workload import Consumer, Producer, TransactionProducer, make_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trials.simulation.simulator import Simulation

DURABLE: Final = "topics have durable subscriptions"
AWAY: Final = "a durable subscription is left alone"
ANEW: Final = "a durable subscription begins anew"
OWN: Final = "who does not want his own sends"
COPIED: Final = "a message of a topic is written again"
_TOPIC: Final = "prices"
KINDS: Final = ("gold", "tin")
_SIZE_MAX: Final = 150
_AGAIN_SECONDS: Final = 0.25
_AWAY_SECONDS: Final = 1.5
_SUBSCRIBED: Final = b"subscribed"
_ENDED: Final = b"ended"
_OWN_MARK: Final = b"own."
_OWN_MAX: Final = 150


class DurableConsumer(Consumer):
    """Has one durable subscription, which stays, and is away now and then."""

    has_no_local = False

    def __init__(
        self, world: Simulation, name: str, *, kind: str = "", topic: str = _TOPIC
    ) -> None:
        self.topic = topic
        self.key: Key = name, "mine"
        super().__init__(world, name, queue=called(self.key), mode="client-individual", prefetch=6)
        self.kind = kind
        """It wants messages of this kind only; empty: all."""
        self.is_subscribed = False
        """Whether the broker has said so once."""
        self.death_chance = 0.15
        self._away_until = 0.0
        self.greeting = make_frame(
            b"CONNECT",
            b"accept-version:1.2",
            b"host:simulated",
            b"heart-beat:1500,800",
            b"client-id:" + name.encode(),
        )

    def destination(self) -> bytes:
        """Give where its messages come from."""
        return b"/topic/" + self.topic.encode()

    def subscription_lines(self) -> list[bytes]:
        """Name it, and say what it wants."""
        lines = [b"activemq.subscriptionName:" + self.key[1].encode(), b"receipt:" + _SUBSCRIBED]
        if self.kind:
            lines.append(b"selector:kind = '" + self.kind.encode() + b"'")
        return lines

    def disconnected(self) -> None:
        """Stay away for a while, as long as there is trouble."""
        super().disconnected()
        if self.world.nemesis.is_active and self.chance.random() < 0.5:
            self.world.count(AWAY)
            self._away_until = self.world.timeline.now + _AWAY_SECONDS * self.chance.random()

    def _dial(self) -> None:
        if self.world.timeline.now < self._away_until and self.world.nemesis.is_active:
            self.world.timeline.after(_AGAIN_SECONDS, self._dial)
        else:
            super()._dial()

    def frame(self, command: bytes, headers: dict[bytes, bytes], body: bytes, at: float) -> None:
        """Look whether the log has what the broker says that there is."""
        if command == b"RECEIPT" and headers[b"receipt-id"] == _SUBSCRIBED:
            self.check_term()
            self._check_there()
            self.is_subscribed = True
            return
        super().frame(command, headers, body, at)
        # The old connection may still be there, or the level is too low.
        if command == b"ERROR" and headers.get(b"code") != b"slow-consumer":
            self.world.timeline.after(_AGAIN_SECONDS, self.drop)

    def _check_there(self) -> None:
        checkers = self.world.checkers
        checkers.catch_up()
        known = checkers.log.topics.by_key.get(self.key)
        wanted = (self.kind, self.has_no_local)
        if known is None or (known.kind, known.has_no_local) != wanted:
            raise ViolationError("M8", f"{self.key} for {wanted} is there, and it is {known}")


class SelfishConsumer(DurableConsumer):
    """Sends to its topic as well, each message once, and does not want what it has sent."""

    has_no_local = True

    def __init__(self, world: Simulation, name: str) -> None:
        super().__init__(world, name)
        self._sent_count = 0
        world.timeline.after(_AGAIN_SECONDS, self._send_own)

    def subscription_lines(self) -> list[bytes]:
        """Say that it does not want its own."""
        return [*super().subscription_lines(), b"no-local:true"]

    def _send_own(self) -> None:
        if self.is_ended or self._sent_count >= _OWN_MAX:
            return
        if self.is_connected and self.world.nemesis.is_active and is_stored(self.world):
            self._sent_count += 1
            self.world.count(OWN)
            token, history = f"{self.name}.{self._sent_count}", self.world.history
            body = token.encode() + b" gold of its own"
            history.send(token, self.topic, body)
            history.unnumbered.add(token)
            lines = [b"destination:" + self.destination(), b"persistent:true", b"kind:gold"]
            receipt = b"receipt:%b%d" % (_OWN_MARK, self._sent_count)
            self.send(make_frame(b"SEND", *lines, receipt, body=body))
        self.world.timeline.after(self.soon(_AGAIN_SECONDS * self.chance.random()), self._send_own)

    def frame(self, command: bytes, headers: dict[bytes, bytes], body: bytes, at: float) -> None:
        """Take the confirmation of its own, too."""
        receipt = headers.get(b"receipt-id", b"")
        if receipt.startswith(_OWN_MARK):
            if command == b"RECEIPT":
                self.check_term()
                number = int(receipt.removeprefix(_OWN_MARK))
                self.world.history.confirm([f"{self.name}.{number}"])
            return
        super().frame(command, headers, body, at)


class FickleConsumer(DurableConsumer):
    """Wants something else after a while, or ends it and begins anew."""

    def connected(self) -> None:
        """End it first, now and then."""
        topics = self.world.checkers.log.topics
        if self.is_subscribed and self.world.nemesis.is_active and self.chance.random() < 0.5:
            self.world.count(ANEW)
            topics.changing.add(self.key)
            self.late = []  # Of what ends here nothing is to be settled.
            if self.chance.random() < 0.5:
                name = b"activemq.subscriptionName:" + self.key[1].encode()
                self.send(make_frame(b"UNSUBSCRIBE", b"id:s", name, b"receipt:" + _ENDED))
            else:
                self.kind = self.chance.choice((*KINDS, ""))
        super().connected()


def is_stored(world: Simulation, topic: str = _TOPIC) -> bool:
    """Whether those are there that stay: so the topic is stored."""
    durable = [each for each in world.clients if isinstance(each, DurableConsumer)]
    staying = [it for it in durable if it.topic == topic and not isinstance(it, FickleConsumer)]
    return bool(staying) and all(each.is_subscribed for each in staying)


class TopicProducer(Producer):
    """Sends to the topic, one by one; again what was not confirmed, without a number."""

    def __init__(self, world: Simulation, name: str, topic: str = _TOPIC) -> None:
        count = max(120, world.plan.operations // 8)
        super().__init__(world, name, queues=[topic], count=count, is_numbered=False)
        self.topic = topic
        world.history.topics.add(topic)
        self._copied_count = 0
        world.history.entry_checks.append(self._count_copies)

    def _count_copies(self) -> None:
        copied = self.world.checkers.log.topics.copied_count
        self.world.faults[COPIED] += copied - self._copied_count
        self._copied_count = copied

    def _produce(self) -> None:
        if is_stored(self.world, self.topic):
            super()._produce()
        elif not self.is_ended:
            self.world.timeline.after(_AGAIN_SECONDS, self._produce)

    def _make(self, number: int) -> tuple[str, bytes]:
        token, kind = f"{self.name}.{number}", self.chance.choice(KINDS)
        body = b"%b %b %b" % (
            *(token.encode(), kind.encode()),
            b"x" * self.chance.randrange(_SIZE_MAX),
        )
        self.world.history.send(token, self.topic, body)
        self.world.history.unnumbered.add(token)
        lines = [b"destination:/topic/" + self.topic.encode(), b"persistent:true"]
        lines += [b"kind:" + kind.encode(), b"receipt:%d" % number]
        return token, make_frame(b"SEND", *lines, body=body)


class TopicTransactions(TransactionProducer):
    """Sends some to the topic in each transaction, which has a number."""

    def __init__(
        self, world: Simulation, name: str, topic: str = _TOPIC, names: Sequence[str] = (_TOPIC,)
    ) -> None:
        count = max(20, world.plan.operations // 40)
        super().__init__(world, name, queues=list(names), count=count)
        self._topic = topic
        world.history.topics.update(names)

    def _produce(self) -> None:
        if is_stored(self.world, self._topic):
            super()._produce()
        elif not self.is_ended:
            self.world.timeline.after(_AGAIN_SECONDS, self._produce)

    def _made(self, token: str, queue: str) -> tuple[bytes, list[bytes]]:
        kind = self.chance.choice(KINDS).encode()
        size = self.chance.randrange(10, 200)
        body = b"%b %b %b" % (token.encode(), kind, b"y" * size)
        return body, [b"destination:/topic/" + queue.encode(), b"kind:" + kind]

"""
Wildcard consumers against books that are kept by hand: what is out, in which order, and what a
cumulative acknowledgement settles, also beyond what a queue had that is gone; queues come and go,
transactions are rolled back, consumers are
lost, others take from the same queues. Nothing is lost, settled in error, overtaken, or stuck.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.broker.serving.bundle import Bundle
from holdfast.model.format_level import NEWEST_LEVEL
from tests.unit.sessions.conftest import Desk, StompClient

QUEUES = ("W.a", "W.b", "W.c.d")
GROUPS = ("", "x", "y")


class Consumer:
    """A connection with one subscription, and the books of what it has in delivery."""

    def __init__(self, desk: Desk, destination: str, ack: str, prefetch: int) -> None:
        self.client: StompClient = desk.connect()
        self.ack = ack
        self.prefetch = prefetch
        self.held: list[tuple[str, str]] = []
        """Body and the name it is acknowledged by, in the order of delivery."""
        self.order: dict[str, int] = {}
        """Which place the newest delivery of each body has among all."""
        self.over: set[str] = set()
        """Bodies it was given of queues that are gone, of which it has said nothing since."""
        self.without_room = 0
        """Of all that were ever over, so many at most took no room, as there was none to take."""
        self.within: list[tuple[str, str]] | None = None
        """What an open transaction has settled."""
        self.client.subscribe(destination, ack=ack, activemq__prefetchSize=str(prefetch))

    def is_over(self, bodies: set[str]) -> None:
        """Note that the queues of these are gone: each takes the room of another, if any."""
        new = bodies - self.over
        self.without_room += max(0, len(new) - max(0, self.prefetch - len(self.over)))
        self.over |= new

    @property
    def room(self) -> tuple[int, int]:
        """How many it may hold beside those, at least and at most."""
        taking = max(0, len(self.over) - self.without_room)
        return max(0, self.prefetch - len(self.over)), self.prefetch - taking

    def covered(self, place: int) -> list[tuple[str, str]]:
        """Give what an acknowledgement of one of those settles."""
        return self.held[: place + 1] if self.ack == "client" else [self.held[place]]

    def take(self, body: str, name: str) -> None:
        """Note a delivery."""
        self.held.append((body, name))
        self.order[body] = len(self.order) + max(self.order.values(), default=0)

    def say(self, place: int, **said: str) -> list[tuple[str, str]]:
        """Acknowledge a delivery; give what that settles."""
        covered = self.covered(place)
        self.client.say("ACK", id=self.held[place][1], **said)
        self.held = [it for it in self.held if it not in covered]
        gone = [it for it in covered if it[0] in self.over]
        self.over -= {body for body, _ in gone}
        return [it for it in covered if it not in gone]


def number_of(body: str) -> int:
    """Give which of all messages it was."""
    return int(body.rpartition(" ")[2])


class Bundles(RuleBasedStateMachine):
    """The broker beside the books."""

    @initialize()
    def begin(self) -> None:
        self.desk = Desk()
        self.desk.broker.state.format_level = NEWEST_LEVEL
        self.producer = self.desk.connect()
        self.count = 0
        self.live: dict[str, set[str]] = {name: set() for name in QUEUES}
        self.consumers: list[Consumer] = []
        self.grouped: set[str] = set()

    @rule(
        destination=st.sampled_from(("/queue/W.>", "/queue/*.a,/queue/W.b", "/queue/W.a")),
        ack=st.sampled_from(("client", "client-individual")),
        prefetch=st.integers(1, 40),
    )
    def subscribe(self, destination: str, ack: str, prefetch: int) -> None:
        if len(self.consumers) < 3:
            self.consumers.append(Consumer(self.desk, destination, ack, prefetch))
            self.look()

    @rule(name=st.sampled_from(QUEUES), count=st.integers(1, 30), group=st.sampled_from(GROUPS))
    def send(self, name: str, count: int, group: str) -> None:
        for _ in range(count):
            self.count += 1
            body = f"{name} {self.count}"
            self.live[name].add(body)
            if group:
                self.grouped.add(body)
            said = {"JMSXGroupID": group} if group else {}
            self.producer.send(body.encode(), f"/queue/{name}", **said)
        self.look()

    @precondition(lambda self: any(it.held for it in self.consumers))
    @rule(data=st.data())
    def acknowledge(self, data: Any) -> None:
        consumer, place = self.chosen(data)
        self.settled(consumer.say(place))
        self.look()

    @precondition(lambda self: any(it.held for it in self.consumers))
    @rule(data=st.data())
    def acknowledge_within(self, data: Any) -> None:
        consumer, place = self.chosen(data)
        if consumer.within is None:
            consumer.client.say("BEGIN", transaction="t")
            consumer.within = []
        consumer.within += consumer.say(place, transaction="t")
        self.look()

    @precondition(lambda self: any(it.within is not None for it in self.consumers))
    @rule(commits=st.booleans())
    def end_transaction(self, commits: bool) -> None:
        consumer = next(it for it in self.consumers if it.within is not None)
        within, consumer.within = consumer.within or [], None
        consumer.client.say("COMMIT" if commits else "ABORT", transaction="t")
        if commits:
            self.settled(within)
        else:
            consumer.held = sorted(consumer.held + within, key=lambda it: consumer.order[it[0]])
        self.look()

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), unsubscribes=st.booleans())
    def leave(self, data: Any, unsubscribes: bool) -> None:
        consumer = data.draw(st.sampled_from(self.consumers))
        self.consumers.remove(consumer)
        if unsubscribes and consumer.within is None:
            consumer.client.say("UNSUBSCRIBE", id="s")
            self.desk.turn()
        consumer.client.leave()
        self.look()

    @rule(name=st.sampled_from(QUEUES))
    def delete(self, name: str) -> None:
        broker = self.desk.broker
        if any(it.within is not None for it in self.consumers):
            return
        queue = broker.destinations.find(name)
        named = queue is not None and queue[1] is not None
        if queue is None or (named and len(queue[1].subscriptions) > queue[1].wild_count):  # type: ignore[union-attr]
            return
        broker.operating.delete(name, self.producer.session, b"gone")
        self.desk.turn()
        self.live[name].clear()
        for consumer in self.consumers:
            consumer.is_over({body for body, _ in consumer.held if body.startswith(f"{name} ")})
        self.look()

    def chosen(self, data: Any) -> tuple[Consumer, int]:
        consumer = data.draw(st.sampled_from([it for it in self.consumers if it.held]))
        return consumer, data.draw(st.integers(0, len(consumer.held) - 1))

    def settled(self, covered: list[tuple[str, str]]) -> None:
        for body, _ in covered:
            self.live[body.partition(" ")[0]].remove(body)

    def look(self) -> None:
        """Let the broker do all there is to do, and note what it delivers."""
        self.desk.turn()
        new: set[str] = set()
        for consumer in self.consumers:
            for frame in consumer.client.frames():
                assert frame.command == "MESSAGE", frame
                body = frame.body.decode()
                assert body in self.live[body.partition(" ")[0]], "it is settled"
                assert not any(body == held for it in self.consumers for held, _ in it.held)
                consumer.take(body, frame.headers["ack"])
                new.add(body)
        self.nothing_is_overtaken(new)
        self.producer.frames()

    def nothing_is_overtaken(self, new: set[str]) -> None:
        """Outside of groups nothing rests before what was just given; each gets it in order."""
        for live in self.live.values():
            out = {body for it in self.consumers for body, _ in it.held + (it.within or [])}
            loose = {body for body in live if body not in self.grouped}
            given = [number_of(body) for body in new & loose]
            at_hand = [number_of(body) for body in loose - out]
            assert not given or all(number > max(given) for number in at_hand), (given, at_hand)
            for consumer in self.consumers:
                mine = [it for it, _ in consumer.held if it in new and it in loose]
                assert mine == sorted(mine, key=number_of)

    @invariant()
    def books_agree(self) -> None:
        for name, live in self.live.items():
            found = self.desk.broker.destinations.find(name)
            assert (0 if found is None else found[0].index.live_count) == len(live)
        for consumer in self.consumers:
            (subscription,) = consumer.client.session.subscriptions.values()
            assert subscription.held_count == len(consumer.held) - len(consumer.over)
            if isinstance(subscription, Bundle):
                windows = [it.unacknowledged for it in subscription.strands.values()]
                assert sum(map(len, windows)) == subscription.held
                assert len(subscription.holding) == sum(map(bool, windows))
                least, most = consumer.room
                assert least <= subscription.prefetch <= most

    def teardown(self) -> None:
        """One who takes everything gets everything, once all others are gone."""
        for consumer in self.consumers:
            consumer.client.leave()
        self.consumers = [Consumer(self.desk, "/queue/W.>", "client", 7)]
        for _ in range(sum(map(len, self.live.values())) + 1):
            self.look()
            (last,) = self.consumers
            if not last.held:
                break
            last.client.say("ACK", id=last.held[-1][1])
            self.settled(last.held)
            last.held = []
        assert not any(self.live.values()), self.live
        self.books_agree()


Bundles.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestBundles = Bundles.TestCase
TestBundles.__doc__ = "Whatever happens, the broker and the books agree."


def test_what_is_held_beyond_the_prefetch_takes_no_room_as_its_queue_goes() -> None:
    """
    A roll-back gives back more than a consumer may hold; of those one takes room as they are over.
    """
    state = Bundles()
    state.begin()
    state.send(count=3, group="", name="W.a")
    for _ in range(2):
        state.subscribe(ack="client", destination="/queue/W.>", prefetch=1)
    first = state.consumers[0]
    first.client.say("BEGIN", transaction="t")
    first.within = first.say(0, transaction="t")
    state.look()
    state.end_transaction(commits=False)
    assert len(first.held) == 2
    state.delete(name="W.a")
    state.books_agree()
    assert (len(first.over), first.room) == (2, (0, 0))
    state.teardown()

"""
Durable subscriptions against lists: what each needs, over failovers, selectors and transactions;
and whether it wants what its own client sends.
"""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.broker.lasting.snapshot import digest_of
from holdfast.broker.settings import BrokerSettings
from holdfast.model.format_level import DURABLE_LEVEL
from holdfast.model.records import FormatRecord
from holdfast.protocols.stomp.frames import Frame
from tests.unit.sessions.conftest import Desk, StompClient

TOPICS = ("/topic/a", "/topic/b")
SELECTORS = ("", "n < 5", "n = 1")
WANTS = {"": lambda _: True, "n < 5": lambda n: n < 5, "n = 1": lambda n: n == 1}
NAMES = [(client, name) for client in ("c1", "c2", "c3") for name in ("x", "y")]

SENDERS = ("", "c1", "c2")
"""By client-id; who has none is a stranger."""

senders = st.sampled_from(SENDERS)
names = st.integers(0, len(NAMES) - 1)
numbers = st.integers(0, 9)
STEPS = st.one_of(
    st.tuples(
        st.just("subscribe"),
        names,
        st.sampled_from(TOPICS),
        st.sampled_from(SELECTORS),
        st.booleans(),
    ),
    st.tuples(st.just("leave"), names),
    st.tuples(st.just("unsubscribe"), names),
    *2
    * (
        st.tuples(
            st.just("send"),
            senders,
            st.sampled_from(TOPICS),
            st.lists(numbers, min_size=1, max_size=4),
        ),
    ),
    st.tuples(st.just("together"), senders, st.sampled_from(TOPICS), st.lists(numbers, max_size=6)),
    st.tuples(st.just("acknowledge"), names, st.integers(0, 7)),
    st.tuples(st.just("acknowledge"), names, st.integers(0, 7)),
    st.tuples(st.just("reject"), names, st.integers(0, 7), st.booleans()),
    st.tuples(st.just("purge"), names),
    st.tuples(st.just("fail over")),
)


class World:
    """A desk, who is connected to it, and what each subscription needs by the lists."""

    level = DURABLE_LEVEL

    def __init__(self) -> None:
        self.desk = Desk(BrokerSettings(known_format_level=self.level))
        self.desk.broker.receipts.record(FormatRecord(self.level))
        self.desk.turn()
        self.serial = 0
        self.needs: dict[int, tuple[tuple[str, str, bool], list[str]]] = {}
        """By name: topic, selector, whether it does not want its own, and the bodies of what it
        needs."""
        self.clients: dict[str, StompClient] = {}
        self.consuming: dict[int, dict[str, str]] = {}
        """By name of who consumes: what it was given and has not settled, and its `ack`."""
        self.dead: list[str] = []
        self.newest: dict[tuple[int, str], int] = {}
        """By name and topic: the last that came and had not come before."""

    def client(self, client_id: str) -> StompClient:
        if client_id not in self.clients:
            self.clients[client_id] = self.desk.connect(client_id=client_id)
        return self.clients[client_id]

    def subscribe(self, which: int, topic: str, selector: str, no_local: bool) -> None:
        client_id, name = NAMES[which]
        client = self.client(client_id)
        headers = {"selector": selector} if selector else {}
        headers |= {"no_local": "true"} if no_local else {}
        client.say(
            *("SUBSCRIBE",),
            destination=topic,
            id=f"s{which}",
            ack="client-individual",
            **{"activemq__subscriptionName": name, **headers},
        )
        if which in self.consuming:
            self.desk.turn()
            answers = self.take(client)
            assert [each.command for each in answers] == ["ERROR"]
            return
        known = self.needs.get(which)
        wanted = (topic, selector, no_local)
        if known is None or known[0] != wanted:
            self.needs[which] = (wanted, [])
        self.consuming[which] = {}

    def leave(self, which: int) -> None:
        client_id, _ = NAMES[which]
        client = self.clients.pop(client_id, None)
        if client is not None:
            client.leave()
            for each in [it for it in self.consuming if NAMES[it][0] == client_id]:
                del self.consuming[each]

    def unsubscribe(self, which: int) -> None:
        client_id, name = NAMES[which]
        client = self.client(client_id)
        client.say("UNSUBSCRIBE", id="none", activemq__subscriptionName=name)
        self.needs.pop(which, None)
        self.consuming.pop(which, None)

    def send(self, name: str, topic: str, values: list[int]) -> None:
        sender = self.client(name) if name else self.desk.connect()
        for value in values:
            sender.send(self.needed(name, topic, value), topic, n=str(value))
        if not name:
            sender.leave()

    def together(self, name: str, topic: str, values: list[int]) -> None:
        sender = self.client(name) if name else self.desk.connect()
        sender.say("BEGIN", transaction="t")
        for value in values:
            sender.send(self.needed(name, topic, value), topic, n=str(value), transaction="t")
        sender.say("COMMIT", transaction="t")
        if not name:
            sender.leave()

    def needed(self, sender: str, topic: str, value: int) -> bytes:
        self.serial += 1
        body = f"{self.serial}"
        for which, ((of_topic, selector, no_local), bodies) in self.needs.items():
            is_own = no_local and sender == NAMES[which][0]
            if self.means(of_topic, topic) and WANTS[selector](value) and not is_own:
                bodies.append(body)
        return body.encode()

    def means(self, subscribed: str, topic: str) -> bool:
        return subscribed == topic

    def acknowledge(self, which: int, place: int) -> None:
        body, ack = self.held(which, place)
        if body:
            self.clients[NAMES[which][0]].say("ACK", id=ack)
            self.needs[which][1].remove(body)

    def reject(self, which: int, place: int, requeue: bool) -> None:
        body, ack = self.held(which, place)
        if body:
            self.clients[NAMES[which][0]].say("NACK", id=ack, requeue=str(requeue).lower())
            if not requeue:
                self.needs[which][1].remove(body)
                self.dead.append(body)

    def held(self, which: int, place: int) -> tuple[str, str]:
        held = self.consuming.get(which)
        if not held:
            return "", ""
        body = list(held)[place % len(held)]
        return body, held.pop(body)

    def purge(self, which: int) -> None:
        self.desk.turn()
        self.collect()
        queue = self.desk.broker.durables.find(NAMES[which])
        if queue is not None and which not in self.consuming:
            self.desk.broker.durables.purge(queue)
            del self.needs[which][1][:]

    def fail_over(self) -> None:
        self.desk.turn()
        before = digest_of(self.desk.broker.state)
        self.desk.fail_over()
        assert digest_of(self.desk.broker.state) == before
        self.desk.context.forget_sessions()
        self.clients.clear()
        self.consuming.clear()

    def take(self, client: StompClient) -> list:
        """Take what came; of messages note who has them."""
        others = []
        for frame in client.frames():
            if frame.command != "MESSAGE":
                others.append(frame)
                continue
            self.note(frame)
        return others

    def note(self, frame: Frame) -> None:
        """Note that somebody has a message."""
        which = int(frame.headers["subscription"][1:])
        if which in self.consuming:
            body = frame.body.decode()
            assert body in self.needs[which][1], "it needs it"
            if frame.headers.get("redelivered") != "true":
                place = which, frame.headers["destination"]
                assert int(body) > self.newest.get(place, 0), "they come in the order of sending"
                self.newest[place] = int(body)
            self.consuming[which][body] = frame.headers["ack"]

    def collect(self) -> None:
        for client in self.clients.values():
            assert self.take(client) == []

    def check(self) -> None:
        self.desk.turn()
        self.collect()
        for which, held in self.consuming.items():
            assert sorted(held, key=int) == self.needs[which][1]
        needed = {body for _, bodies in self.needs.values() for body in bodies}
        assert self.desk.broker.state.live_count() == len(needed) + len(self.dead)
        self.check_there()

    def check_there(self) -> None:
        state = self.desk.broker.state
        assert {it.key for it in state.subscriptions.values()} == {NAMES[it] for it in self.needs}
        assert self.desk.broker.durables.count == len(self.needs)
        for which, (_, bodies) in self.needs.items():
            lasting = state.subscriptions[NAMES[which]]
            assert lasting.index.live_count == len(bodies)

    def do(self, step: tuple) -> None:
        getattr(self, step[0].replace(" ", "_"))(*step[1:])


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, max_size=40))
def test_each_gets_what_it_needs_and_nothing_else(steps: list[tuple]) -> None:
    """
    M8: whoever is connected has all it needs by the lists; what nobody needs is gone.
    """
    world = World()
    for step in steps:
        world.do(step)
        world.check()
    world.fail_over()
    world.check()

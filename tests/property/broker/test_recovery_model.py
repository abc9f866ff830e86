"""
What topics keep for who comes later, against lists: each subscriber has got what was kept when he
came and all that came since, each once, in order, whatever was on its way then.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from holdfast.broker.serving.backlogs import Backlogs
from holdfast.broker.serving.bundle import Strand
from holdfast.broker.serving.publishing import Publishing
from holdfast.broker.serving.topic import Topic
from holdfast.broker.settings import BrokerSettings
from holdfast.model.policies import as_text
from holdfast.model.records import PolicyRecord
from tests.unit.sessions.conftest import Desk, StompClient

TOPICS = ("a.x", "a.y")
RULES = {
    "none": {},
    "last": {"subscriptionRecoveryPolicy": "lastImageSubscriptionRecoveryPolicy"},
    "count": {
        "subscriptionRecoveryPolicy": "fixedCountSubscriptionRecoveryPolicy",
        "recoveryMaximumCount": 5,
    },
    "size": {
        "subscriptionRecoveryPolicy": "fixedSizedSubscriptionRecoveryPolicy",
        "recoveryMaximumSize": 300,
    },
    "time": {
        "subscriptionRecoveryPolicy": "timedSubscriptionRecoveryPolicy",
        "recoverDuration": 20,
    },
    "always": {
        "subscriptionRecoveryPolicy": "fixedCountSubscriptionRecoveryPolicy",
        "recoveryMaximumCount": 7,
        "alwaysRetroactive": "true",
    },
}
SELECTORS = {"": lambda _: True, "n < 5": lambda n: n < 5}

topics = st.sampled_from(TOPICS)
who = st.integers(0, 2)
STEPS = st.one_of(
    st.tuples(st.just("follow"), st.sampled_from(sorted(RULES))),
    st.tuples(
        st.just("subscribe"),
        who,
        st.sampled_from((*TOPICS, "a.>")),
        st.sampled_from(sorted(SELECTORS)),
        st.booleans(),
        st.booleans(),
    ),
    st.tuples(st.just("leave"), who),
    st.tuples(st.just("room"), who, st.booleans()),
    *3 * (st.tuples(st.just("send"), who, topics, st.integers(0, 9), st.booleans()),),
    st.tuples(st.just("together"), who, topics, st.lists(st.integers(0, 9), max_size=5)),
    st.tuples(st.just("dispatch"), st.integers(1, 4)),
    st.tuples(st.just("wait"), st.integers(1, 15)),
)


class Sent:
    """One message, as the model knows it."""

    def __init__(self, body: str, sender: int, value: int, size: int, at_ms: int) -> None:
        self.body = body
        self.sender = sender
        self.value = value
        self.size = size
        self.at_ms = at_ms


class World:
    """A desk with three clients, and what each subscription must have got."""

    def __init__(self, *, step_count: int = 2) -> None:
        self.desk = Desk(BrokerSettings(step_count_max=step_count))
        self.start_us = self.desk.broker.sending.now_microseconds
        self.clients: list[StompClient] = [self.desk.connect() for _ in range(3)]
        self.rule = "none"
        self.serial = 0
        self.kept: dict[str, list[Sent]] = {name: [] for name in TOPICS}
        self.expected: dict[str, dict[str, list[str]]] = {}
        """By subscription: by topic, the bodies."""
        self.wants: dict[str, tuple[int, str, str, bool]] = {}
        self.got: dict[str, dict[str, list[str]]] = {}
        self.recovered: dict[str, set[str]] = {}
        """By subscription: what was sent before it came."""

    @property
    def now_ms(self) -> int:
        return (self.desk.broker.sending.now_microseconds - self.start_us) // 1000

    def do(self, step: tuple) -> None:
        getattr(self, step[0])(*step[1:])
        self.look_at_backlogs()

    def follow(self, name: str) -> None:
        self.rule = name
        self.desk.broker.receipts.record(PolicyRecord("topic://a.>", as_text(RULES[name])))
        self.desk.seal()
        self.desk.commit()
        if name == "none":
            self.kept = {topic: [] for topic in TOPICS}
            self.desk.broker.recovering.is_on  # noqa: B018 - what anybody does who sends

    def wait(self, count: int) -> None:
        self.desk.broker.sending.now_microseconds += count * 1000

    def trimmed(self, topic: str) -> list[Sent]:
        kept = self.kept[topic]
        rule = RULES[self.rule]
        most = {"none": 0, "last": 1, "count": 5, "always": 7}.get(self.rule, len(kept))
        del kept[: max(0, len(kept) - most)]
        if self.rule == "size":
            while sum(each.size for each in kept) > int(rule["recoveryMaximumSize"]):
                del kept[0]
        while self.rule == "time" and kept and kept[0].at_ms <= self.now_ms - 20:
            del kept[0]
        return kept

    def subscribe(
        self, who: int, topic: str, selector: str, retroactive: bool, no_local: bool
    ) -> None:
        if self.clients[who].session.is_spreading:
            return  # Whoever is given what was kept, or publishes to many, is not read before.
        self.serial += 1
        name = f"s{self.serial}"
        headers = {"selector": selector} if selector else {}
        headers |= {"activemq__retroactive": "true"} if retroactive else {}
        headers |= {"no_local": "true"} if no_local else {}
        self.clients[who].subscribe(f"/topic/{topic}", name, ack="auto", **headers)
        self.desk.broker.errands.finish()
        self.wants[name] = (who, topic, selector, no_local)
        self.got[name] = {each: [] for each in TOPICS}
        self.expected[name] = {each: [] for each in TOPICS}
        if retroactive or self.rule == "always":
            for each in TOPICS:
                if topic in (each, "a.>"):
                    for sent in self.trimmed(each):
                        self.expect(name, each, sent)
        self.recovered[name] = {it for bodies in self.expected[name].values() for it in bodies}

    def room(self, who: int, is_there: bool) -> None:
        """Let a client's connection have room, or none."""
        session = self.clients[who].session
        session.room_bytes = (1 << 30) if is_there else 0
        if is_there:
            self.desk.broker.resume(session)

    def look_at_backlogs(self) -> None:
        """What waits is counted, and by itself what was sent before its subscription came."""
        backlogs = self.desk.broker.publishing.backlogs
        overhead = self.desk.settings.message_memory_overhead_bytes
        for client in self.clients:
            recovered = waiting = 0
            for topic in self.desk.broker.destinations.topics.values():
                for each in topic.subscriptions:
                    if each.receiver is not client.session:
                        continue
                    name = each.whole.id if isinstance(each, Strand) else each.id
                    pending = list(each.pending or ())
                    before = [it for it in pending if it.body.decode() in self.recovered[name]]
                    size = sum(it.size for it in before)
                    assert backlogs.since_bytes(each) == sum(it.size for it in pending) - size
                    recovered += size + overhead * len(before)
                    waiting += sum(it.size + overhead for it in pending)
            assert backlogs.recovered_sizes.get(client.session, 0) == recovered
            assert backlogs.sizes.get(client.session, 0) == waiting

    def expect(self, name: str, topic: str, sent: Sent) -> None:
        who, wanted, selector, no_local = self.wants[name]
        is_own = no_local and who == sent.sender
        if wanted in (topic, "a.>") and SELECTORS[selector](sent.value) and not is_own:
            self.expected[name][topic].append(sent.body)

    def leave(self, who: int) -> None:
        if self.clients[who].session.is_spreading:
            return
        for name in [each for each, wants in self.wants.items() if wants[0] == who]:
            self.clients[who].say("UNSUBSCRIBE", id=name)
            self.take()
            for topic, bodies in self.got[name].items():
                assert self.expected[name][topic][: len(bodies)] == bodies
            del self.wants[name], self.got[name], self.expected[name]
        self.desk.broker.errands.finish()

    def sent(self, who: int, topic: str, value: int) -> bytes:
        self.serial += 1
        body = f"{self.serial}"
        # The headers as they are stored, and the body.
        headers = f"persistent:true\nn:{value}\ncontent-length:{len(body)}\n"
        size = len(headers) + len(body)
        sent = Sent(body, who, value, size, self.now_ms)
        self.kept[topic].append(sent)
        self.trimmed(topic)
        for name in self.wants:
            self.expect(name, topic, sent)
        return body.encode()

    def send(self, who: int, topic: str, value: int, together: bool) -> None:
        if together:
            self.together(who, topic, [value])
        elif not self.clients[who].session.is_spreading:
            self.clients[who].send(self.sent(who, topic, value), f"/topic/{topic}", n=str(value))

    def together(self, who: int, topic: str, values: list[int]) -> None:
        client = self.clients[who]
        if client.session.is_spreading:
            return
        client.say("BEGIN", transaction="t")
        for value in values:
            body = self.sent(who, topic, value)
            client.send(body, f"/topic/{topic}", n=str(value), transaction="t")
        client.say("COMMIT", transaction="t")
        self.desk.seal()
        self.desk.commit()

    def dispatch(self, count: int) -> None:
        steps = self.desk.broker.dispatch()
        for _ in range(count):
            for subscription, key, message, _, redelivered in next(steps, []):
                subscription.receiver.deliver(subscription, key, message, redelivered=redelivered)
        steps.close()
        for client in self.clients:
            client.session.send_waiting()
        self.take()

    def take(self) -> None:
        for client in self.clients:
            for frame in client.frames():
                assert frame.command == "MESSAGE", frame
                if frame.headers["subscription"] in self.got:
                    topic = frame.headers["destination"].removeprefix("/topic/")
                    self.got[frame.headers["subscription"]][topic].append(frame.body.decode())

    def finish(self) -> None:
        for who in range(len(self.clients)):
            self.room(who, True)
        self.desk.turn()
        self.take()
        self.look_at_backlogs()
        assert self.got == self.expected
        assert self.desk.broker.publishing.spread_bytes == 0


WILD = ("subscribe", 1, "a.>", "", False, False)
NEW_TOPIC = [
    ("follow", "count"),
    *[WILD] * 5,
    ("subscribe", 1, "a.>", "", True, False),
    *[("send", 0, "a.x", 1, False), ("together", 2, "a.x", [1, 2]), WILD],
]
"""More subscriptions mean a new topic than join it in one step."""
NOT_ITS_OWN = [
    *[("subscribe", 0, "a.>", "", False, it) for it in (False, True, False, False)],
    ("send", 0, "a.y", 0, True),
    ("send", 0, "a.x", 0, False),
]
"""Who does not want what comes over its own connection joins behind another topic."""


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(steps=NEW_TOPIC).via("who joined a new topic in a later step had not its first message")
@example(steps=NOT_ITS_OWN).via("nobody had asked yet who sent the first message")
@given(steps=st.lists(STEPS, max_size=50))
def test_each_gets_what_was_kept_and_what_came_since(steps: list[tuple]) -> None:
    """
    Q53: by each rule, with selectors, wildcards, transactions and a line that goes on in steps.
    """
    world = World()
    for step in steps:
        world.do(step)
    world.finish()


STORY = [
    ("follow", "count"),
    *[("send", 0, "a.x", 1, False)] * 5,
    ("subscribe", 1, "a.x", "", True, False),
    ("send", 2, "a.x", 1, False),
]


def tell(story: list[tuple]) -> None:
    world = World()
    for step in story:
        world.do(step)
    world.finish()


def test_a_seam_that_is_open_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The ablations: what comes overtakes what was kept, or the last that was kept is not replayed.
    """
    tell(STORY)
    replay = Publishing.replay

    def overtaken(publishing, topic, subscription, messages) -> None:
        replay(publishing, topic, subscription, messages)
        topic.spread_count -= 1

    def shorter(publishing, topic, subscription, messages) -> None:
        replay(publishing, topic, subscription, messages[:-1])

    for broken in (overtaken, shorter):
        monkeypatch.setattr(Publishing, "replay", broken)
        with pytest.raises(AssertionError):
            tell(STORY)


def test_a_new_topic_that_does_not_wait_for_all_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    The ablation: whoever joins in a later step lacks what was sent first.
    """
    monkeypatch.setattr(Topic, "begin_joining", lambda *_: None)
    with pytest.raises(AssertionError):
        tell(NEW_TOPIC)


def test_what_was_kept_and_counts_as_sent_since_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    The ablation: it would stop who sends.
    """
    story = [STORY[0], ("room", 1, False), *STORY[1:], ("dispatch", 4)]
    tell(story)
    monkeypatch.setattr(Backlogs, "note_recovered", lambda *_: None)
    with pytest.raises(AssertionError):
        tell(story)

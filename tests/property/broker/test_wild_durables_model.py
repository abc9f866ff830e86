"""
Durable subscriptions of wildcards against lists, beside some of single topics: what each needs.

Which topics there are nobody says before: they are there from the first message to them on.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.broker import parts
from holdfast.broker.serving.transactions import Transaction
from holdfast.model.format_level import WILD_DURABLES_LEVEL
from tests.property.broker.test_durable_model import (
    NAMES,
    SELECTORS,
    World,
    names,
    numbers,
    senders,
)
from tests.unit.sessions.conftest import StompClient

MEANS = {
    "/topic/a.*": lambda name: name.count(".") == 1 and name.startswith("/topic/a."),
    "/topic/a.>": lambda name: name == "/topic/a" or name.startswith("/topic/a."),
    "/topic/>": lambda _: True,
    "/topic/*.x": lambda name: name.count(".") == 1 and name.endswith(".x"),
    "/topic/a.x": lambda name: name == "/topic/a.x",
}
"""By what is subscribed to: which topics it means."""
TOPICS = ("/topic/a", "/topic/a.x", "/topic/a.y", "/topic/a.x.y", "/topic/b.x", "/topic/c")

MEANT = [(topic, it) for topic in TOPICS for it in MEANS if MEANS[it](topic)]

topics = st.sampled_from(TOPICS)
STEPS = st.one_of(
    *2
    * (
        st.tuples(
            st.just("subscribe"),
            names,
            st.sampled_from(list(MEANS)),
            st.sampled_from(SELECTORS),
            st.booleans(),
        ),
    ),
    st.tuples(st.just("leave"), names),
    st.tuples(st.just("unsubscribe"), names),
    st.tuples(st.just("end elsewhere"), names),
    *2 * (st.tuples(st.just("send"), senders, topics, st.lists(numbers, min_size=1, max_size=4)),),
    st.tuples(st.just("together"), senders, topics, st.lists(numbers, max_size=6)),
    st.tuples(
        st.just("to several"),
        senders,
        st.lists(topics, min_size=2, max_size=4, unique=True),
        names,
        st.sampled_from(list(MEANS)),
        st.booleans(),
    ),
    st.tuples(
        st.just("over time"),
        senders,
        st.sampled_from(MEANT),
        names,
        st.lists(st.booleans(), min_size=1, max_size=4),
    ),
    st.tuples(st.just("pass by"), topics, st.integers(1, 3)),
    st.tuples(st.just("acknowledge"), names, st.integers(0, 7)),
    st.tuples(st.just("acknowledge"), names, st.integers(0, 7)),
    st.tuples(st.just("reject"), names, st.integers(0, 7), st.booleans()),
    st.tuples(st.just("fail over")),
    st.tuples(st.just("tidy up")),
    st.tuples(st.just("fail over while it ends"), names),
)


class WildWorld(World):
    """Most subscriptions are of wildcards."""

    level = WILD_DURABLES_LEVEL
    waited_count = 0
    """Turns that a COMMIT waited for parts."""

    def means(self, subscribed: str, topic: str) -> bool:
        return MEANS[subscribed](topic)

    def end_elsewhere(self, which: int) -> None:
        """As an operator ends it, whom a consumer stands against."""
        if which in self.needs and which not in self.consuming:
            self.desk.turn()
            self.collect()
            self.desk.broker.durables.remove(self.desk.broker.durables.find(NAMES[which]))
            del self.needs[which]

    def to_several(
        self, name: str, places: list[str], which: int, wildcard: str, is_cut_short: bool
    ) -> None:
        """
        To some topics in one transaction; a wildcard that comes before its COMMIT has all of it.

        One part is given in each turn, and the leader may be gone before the COMMIT is done.
        """
        sender = self.client(name) if name else self.desk.connect()
        sender.say("BEGIN", transaction="all")
        for number, place in enumerate(places, self.serial + 1):
            sender.send(f"{number}".encode(), place, n="1", transaction="all")
        self.subscribe(which, wildcard, "", False)
        if self.commit(sender, is_cut_short):
            for place in places:
                self.needed(name, place, 1)
            if not name:
                sender.leave()

    def over_time(
        self, name: str, meant: tuple[str, str], which: int, is_wanted_later: list[bool]
    ) -> None:
        """
        Some to one topic in one transaction, while somebody begins to want it, and nobody does.

        At last somebody does, who gets all of it as it was sent.
        """
        topic, wildcard = meant
        is_wanted = [True, *is_wanted_later]
        sender = self.client(name) if name else self.desk.connect()
        sender.say("BEGIN", transaction="all")
        for number, it in enumerate(is_wanted, self.serial + 1):
            if it:
                self.subscribe(which, wildcard, "", False)
            else:
                for each in list(self.needs):
                    if self.means(self.needs[each][0][0], topic):
                        self.unsubscribe(each)
            self.desk.turn()
            self.collect()
            sender.send(f"{number}".encode(), topic, n="1", transaction="all")
        self.subscribe(which, wildcard, "", False)
        self.commit(sender, is_cut_short=False)
        for _ in is_wanted:
            self.needed(name, topic, 1)
        if not name:
            sender.leave()

    def commit(self, sender: StompClient, is_cut_short: bool) -> bool:
        """Commit as far as it is done before the leader is gone; whether all of it is."""
        sender.say("COMMIT", transaction="all")
        while sender.session.is_left_off:
            self.waited_count += 1
            if is_cut_short:
                self.fail_over()
                return False
            self.desk.turn()
            self.collect()
            sender.session.proceed(lambda: False)
        return True

    def pass_by(self, topic: str, count: int) -> None:
        """Somebody sends what is not kept, whoever is there has it."""
        sender = self.desk.connect()
        for _ in range(count):
            sender.say("SEND", b"passing", destination=topic, persistent="false")
        sender.leave()
        self.desk.turn()
        came = dict.fromkeys(self.consuming, 0)
        for client in self.clients.values():
            for frame in client.frames():
                if frame.body == b"passing":
                    which = int(frame.headers["subscription"][1:])
                    came[which] += 1
                    client.say("ACK", id=frame.headers["ack"])
                else:
                    self.note(frame)
        for which, (wanted, _) in self.needs.items():
            if which in self.consuming:
                is_meant = self.means(wanted[0], topic) and not wanted[1]
                assert came[which] == count * is_meant

    def tidy_up(self) -> None:
        """Of topics nothing is kept of which nobody has anything."""
        self.desk.turn()
        self.collect()
        removing, state = self.desk.broker.removing, self.desk.broker.state
        for topic in list(state.topics.values()):
            if removing._is_idle_topic(topic):
                removing._remove(topic)
        self.desk.turn()
        for topic in state.topics.values():
            is_only_theirs = all(it.whole_number for it in topic.subscriptions.values())
            assert topic.index.live_count or not is_only_theirs

    def fail_over_while_it_ends(self, which: int) -> None:
        """Its end is in the log, and of what it had not all is gone."""
        if which in self.needs and which not in self.consuming:
            self.desk.turn()
            self.collect()
            desk, durables = self.desk, self.desk.broker.durables
            durables.remove(durables.find(NAMES[which]))
            del self.needs[which]
            desk.seal()
            desk.commit()
            desk.fail_over()
            desk.context.forget_sessions()
            self.clients.clear()
            self.consuming.clear()

    def check_there(self) -> None:
        state, durables = self.desk.broker.state, self.desk.broker.durables
        assert set(durables.names()) == {NAMES[it] for it in self.needs}
        assert durables.count == len(state.subscriptions)
        wholes = set()
        for which, (_, bodies) in self.needs.items():
            lasting = state.subscriptions[NAMES[which]]
            wholes.add(lasting.number)
            parts = state.parts.get(lasting.number, {}).values()
            assert lasting.index.live_count + sum(it.index.live_count for it in parts) == len(
                bodies
            )
            assert len({it.topic.number for it in parts}) == len(parts)
        assert state.parts.keys() <= wholes, "of what has ended nothing is left"
        counted = {
            number: len(it.subscriptions)
            for number, it in state.queues.items()
            if hasattr(it, "subscriptions")
        }
        assert all(counted.values()), "no topic is stored for nobody"


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, max_size=40))
def test_each_gets_what_its_wildcard_means(steps: list[tuple]) -> None:
    """
    M8: also of topics that nobody had named before, from the first message on; once each.
    """
    world = WildWorld()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "PARTS_PER_STEP", 1)
        for step in steps:
            world.do(step)
            world.check()
        world.fail_over()
        world.check()


@pytest.mark.parametrize("is_cut_short", [True, False])
def test_a_transaction_waits_for_parts_in_the_model(is_cut_short: bool) -> None:
    """
    That is what the step is for.
    """
    world = WildWorld()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "PARTS_PER_STEP", 1)
        places = ["/topic/a.x", "/topic/a.y", "/topic/c"]
        world.do(("to several", "", places, 0, "/topic/>", is_cut_short))
    assert world.waited_count == (1 if is_cut_short else 2)
    world.check()
    assert len(world.needs[0][1]) == (0 if is_cut_short else 3)


@pytest.mark.parametrize("is_wanted", [[False], [True, False], [False, True, False]])
def test_the_order_within_a_transaction_is_held_in_the_model(is_wanted: list[bool]) -> None:
    """
    Whether its topic was stored as each was sent or not; so it had come in another one.
    """
    world = WildWorld()
    for wildcard in ("/topic/a.x", "/topic/a.*"):
        world.do(("over time", "", ("/topic/a.x", wildcard), 0, is_wanted))
        world.check()
        assert len(world.needs[0][1]) == 1 + len(is_wanted)


def test_another_order_within_a_transaction_is_found_out(monkeypatch) -> None:
    """
    As where what is sent to a topic that is stored again stands with what was before.
    """
    monkeypatch.setattr(Transaction, "_is_among_unstored", lambda *_: False)
    world = WildWorld()
    with pytest.raises(AssertionError, match="the order of sending"):
        world.do(("over time", "", ("/topic/a.x", "/topic/a.x"), 0, [False, True]))
        world.check()

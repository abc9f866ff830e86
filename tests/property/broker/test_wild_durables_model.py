"""
Durable subscriptions of wildcards against lists, beside some of single topics: what each needs.

Which topics there are nobody says before: they are there from the first message to them on.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.broker import parts
from holdfast.model.format_level import WILD_DURABLES_LEVEL
from tests.property.broker.test_durable_model import (
    NAMES,
    SELECTORS,
    World,
    names,
    numbers,
    senders,
)

MEANS = {
    "/topic/a.*": lambda name: name.count(".") == 1 and name.startswith("/topic/a."),
    "/topic/a.>": lambda name: name == "/topic/a" or name.startswith("/topic/a."),
    "/topic/>": lambda _: True,
    "/topic/*.x": lambda name: name.count(".") == 1 and name.endswith(".x"),
    "/topic/a.x": lambda name: name == "/topic/a.x",
}
"""By what is subscribed to: which topics it means."""
TOPICS = ("/topic/a", "/topic/a.x", "/topic/a.y", "/topic/a.x.y", "/topic/b.x", "/topic/c")

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
        sender.say("COMMIT", transaction="all")
        while sender.session.is_left_off:
            self.waited_count += 1
            if is_cut_short:
                self.fail_over()
                return
            self.desk.turn()
            self.collect()
            sender.session.proceed(lambda: False)
        for place in places:
            self.needed(name, place, 1)
        if not name:
            sender.leave()

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

"""
Where messages go by any policies, held against a slow description of what these mean.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from holdfast.broker.broker import Broker
from holdfast.broker.forwarding_checks import Ways
from holdfast.broker.lasting.policies import PolicyKey
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import PolicyError
from holdfast.model.destination import Destination, parse_destinations
from holdfast.model.records import PolicyRecord
from holdfast.model.wildcards import parse_pattern

QUEUES = ("a", "b", "c", "d", "Consumer.A.VirtualTopic.v")
TOPICS = ("t", "VirtualTopic.v", "VirtualTopic.Mirror.a")
PLACES = (*(f"queue://{it}" for it in QUEUES), *(f"topic://{it}" for it in TOPICS))
SELECTORS = ("", "one", "two")


class Rule(NamedTuple):
    """What is said of one destination."""

    forwards: tuple[tuple[str, str], ...]
    only: bool
    keeps: bool
    mirrored: bool

    @property
    def values(self) -> dict[str, str]:
        """As a policy says it."""
        parts = [f"{to} when {when}" if when else to for to, when in self.forwards]
        values = {
            "forwardTo": ", ".join(parts),
            "forwardOnly": "true" if self.only else "false",
            "sendWhenNotMatched": "true" if self.keeps else "false",
        }
        return values | ({"mirrored": "true"} if self.mirrored else {})


FORWARDS = st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(SELECTORS)), max_size=4)
RULES = st.builds(Rule, FORWARDS.map(tuple), st.booleans(), st.booleans(), st.booleans())
POLICIES = st.dictionaries(st.sampled_from(PLACES), RULES, max_size=6).map(
    lambda rules: {
        place: rule if place.startswith("queue") else rule._replace(mirrored=False)
        for place, rule in rules.items()
    }
)


class Content:
    """Content of which only these are true."""

    def __init__(self, true: frozenset[str]) -> None:
        self.true = true

    def is_selected(self, selector: str, _sent_to: Destination) -> bool:
        return selector in self.true


def steps(place: str, policies: dict[str, Rule], true: frozenset[str], heard: frozenset[str]):
    """Whether it stays at a place, and where else it is let go from there."""
    rule = policies.get(place)
    stays, more = True, []
    if rule is not None and (rule.forwards or rule.mirrored):
        more = [to for to, when in rule.forwards if not when or when in true]
        if rule.forwards:
            stays = not rule.only or (rule.keeps and not more)
        mirror = f"topic://VirtualTopic.Mirror.{place.removeprefix('queue://')}"
        forwards_on = mirror in policies and bool(policies[mirror].forwards)
        if rule.mirrored and (mirror in heard or forwards_on):
            more.append(mirror)
    if stays and place == "topic://VirtualTopic.v" and "queue://Consumer.A.VirtualTopic.v" in heard:
        more.append("queue://Consumer.A.VirtualTopic.v")
    return stays, more


@given(
    policies=POLICIES,
    true=st.frozensets(st.sampled_from(SELECTORS[1:])),
    sent_to=st.lists(st.sampled_from(PLACES), min_size=1, max_size=3),
    consumed=st.booleans(),
)
def test_a_message_goes_wherever_a_way_leads_and_nowhere_else(
    policies: dict[str, Rule], true: frozenset[str], sent_to: list[str], consumed: bool
) -> None:
    """
    Once, whatever circles there are; and to nothing that no way leads to.
    """
    broker = Broker(BrokerSettings())
    broker.lead()
    if consumed:
        broker.queue("Consumer.A.VirtualTopic.v")
    for place, rule in policies.items():
        broker.state.policies.apply(PolicyRecord(place, json.dumps(rule.values)), 1)
    heard = frozenset(["queue://Consumer.A.VirtualTopic.v"] if consumed else ())

    ways: dict[str, list[str]] = {}
    ahead, expected = list(sent_to), set()
    while ahead:
        place = ahead.pop()
        if place not in ways:
            stays, ways[place] = steps(place, policies, true, heard)
            expected |= {place} if stays else set()
            ahead += ways[place]
    consumer, topic = "queue://Consumer.A.VirtualTopic.v", "topic://VirtualTopic.v"
    heads = {*sent_to}
    while kept := kept_from_circles(heads, ways, expected) - expected:
        expected |= kept
        if topic in kept and consumer in heard:
            ways[topic].append(consumer)
        if topic in expected and consumer in heard:
            heads.add(consumer)
    written = parse_destinations(",".join(sent_to) + ",")
    route = broker.addressing.route(written, Content(true))
    found = [f"{it.kind.value}://{it.name}" for it in route.destinations]
    assert expected == set(found)
    assert len(found) == len(set(found))
    if not broker.addressing.directs(written):
        assert set(sent_to) == set(found)


def kept_from_circles(sent_to, ways, expected) -> set[str]:
    """From where no queue is reached, but a place that can be reached from itself."""

    def reachable(start: str) -> set[str]:
        found: set[str] = set()
        ahead = [*ways.get(start, ())]
        while ahead:
            place = ahead.pop()
            if place not in found:
                found.add(place)
                ahead += ways.get(place, ())
        return found

    queues = {place for place in expected if place.startswith("queue")}
    circles = {place for place in ways if place in reachable(place)}
    return {
        place
        for place in sent_to
        if not (reachable(place) | {place}) & queues and (reachable(place) | {place}) & circles
    }


@given(policies=POLICIES, of=st.sampled_from(PLACES))
def test_a_circle_is_refused_if_and_only_if_a_way_leads_back(
    policies: dict[str, Rule], of: str
) -> None:
    """
    From where the word is said, whatever the messages say and whoever listens.
    """
    every = frozenset(SELECTORS)
    heard = frozenset(PLACES)
    ways = {place: set(steps(place, policies, every, heard)[1]) for place in PLACES}
    if "Consumer.A.VirtualTopic.v" in str(policies.keys()):
        ways["topic://VirtualTopic.v"].add("queue://Consumer.A.VirtualTopic.v")
    else:
        ways["topic://VirtualTopic.v"].discard("queue://Consumer.A.VirtualTopic.v")

    def reachable(start: str) -> set[str]:
        found, ahead = set(), [*ways.get(start, ())]
        while ahead:
            place = ahead.pop()
            if place not in found:
                found.add(place)
                ahead += ways.get(place, ())
        return found

    records = {
        PolicyKey(False, place): PolicyRecord(place, json.dumps(rule.values))
        for place, rule in policies.items()
    }
    values = policies[of].values if of in policies else {}
    circles = {place for place in PLACES if place in reachable(place)}
    expected = bool(circles & (reachable(of) | {of}))
    try:
        for _ in Ways(records).judge(parse_pattern(of), values):
            pass
    except PolicyError:
        assert expected
    else:
        assert not expected


NAMES = ("ActiveMQ.DLQ", "a", "b", "c", "d")
FATES = st.fixed_dictionaries(
    {"deadLetterQueue": st.sampled_from(NAMES)},
    optional={
        "forwardTo": st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map(", ".join),
        "forwardOnly": st.sampled_from(["true", "false"]),
    },
)


@given(policies=st.dictionaries(st.sampled_from(NAMES), FATES), drops=st.booleans())
def test_dead_letters_become_more_no_longer_than_they_come_to_new_queues(
    policies: dict[str, dict[str, str]], drops: bool
) -> None:
    """
    Whatever dies wherever it comes, again and again: what goes in a circle is copied no more. And
    where it dies as full queues drop what is too much, all of it is gone in the end.
    """
    broker = Broker(BrokerSettings())
    broker.lead()
    limits = {"maxLength": 1, "overflow": "drop-head", "deadLetterOverflow": "true"}
    broker.state.policies.apply(PolicyRecord("queue://>", json.dumps(limits if drops else {})), 1)
    for name, values in policies.items():
        broker.state.policies.apply(PolicyRecord(f"queue://{name}", json.dumps(values)), 1)
    said = broker.limiting.limits_of(broker.queue("a"))

    def die(there: dict[str, int]) -> dict[str, int]:
        left: dict[str, int] = {}
        for name, count in there.items():
            queue = broker.queue(name)
            if said is not None:
                places = broker.limiting._places(queue, said)
            elif broker.policies.of(queue).keeps_dead_letters:
                places = ()
            else:
                places = broker.policies.burial_places(queue)
                assert places, "it is on another queue"
            for place in places:
                left[place] = left.get(place, 0) + count
        return left

    for start in NAMES:
        there = {start: 1}
        for _ in NAMES:
            there = die(there)
        count = sum(there.values())
        if drops:
            assert not there
        for _ in NAMES:
            there = die(there)
            assert sum(there.values()) <= count

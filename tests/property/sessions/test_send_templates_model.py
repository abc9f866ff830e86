"""
A SEND comes to the same whether another with other headers was worked out before it or not.

Two brokers get the same frames, turn by turn, with headers drawn from a few that mean something,
several of which make no sense, and from many that mean nothing. One works out each anew. Logs and
answers must be the same to the byte.
"""

from __future__ import annotations

import json
import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import DestinationError
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.model.records import FormatRecord, PolicyRecord
from holdfast.sessions.send_templates import SendTemplates
from tests.unit.sessions.conftest import Desk

STEPS = 120
NOW_MS = 1_700_000_000_000
VALUES: dict[str, tuple[str, ...]] = {
    "persistent": ("true", "false"),
    "expires": ("0", f"{NOW_MS + 5_000}", f"{NOW_MS - 5}", "soon"),
    "expiration": ("0", "700", "-1"),
    "timestamp": (f"{NOW_MS - 100}",),
    "priority": ("0", "4", "7", "12", "high"),
    "JMSXGroupID": ("a", "b"),
    "JMSXGroupSeq": ("1", "-1", "last"),
    "producer-id": ("p", "q", "p" * 300),
    "transaction": ("t", "u", "none"),
    "reply-to": ("/temp-queue/r", "/queue/answers"),
    "AMQ_SCHEDULED_DELAY": ("0", "900", "later"),
    "AMQ_SCHEDULED_REPEAT": ("3",),
    "colour": ("red", "green", "blue"),
    "x": ("a" * 600,),
}
PLACES = (
    *("/queue/a", "/queue/b", "a", "/topic/t", "/topic/VirtualTopic.v", "/temp-queue/r"),
    *("/queue/a,/topic/t", "/queue/forwarding", "/queue/*", "/queue/a?consumer.x=1"),
)
POLICIES: tuple[tuple[str, dict[str, object]], ...] = (
    ("queue://a", {"prioritizedMessages": True}),
    ("queue://a", {}),
    ("queue://b", {"queueLengthLimit": 3, "overflow": "reject"}),
    ("queue://b", {"ttlCeiling": 1_000}),
    ("queue://forwarding", {"forwardTo": ["queue://b when colour = 'red'"]}),
    ("queue://forwarding", {}),
)


class Anew(SendTemplates):
    """Knows nothing of what came before."""

    __slots__ = ()

    def find(self, headers):
        return None


class ByDestination(SendTemplates):
    """Believes that all with one destination come to the same."""

    __slots__ = ("_careless",)

    def __init__(self) -> None:
        super().__init__()
        self._careless: dict[str, object] = {}

    def find(self, headers):
        return self._careless.get(headers["destination"])

    def keep(self, asked, template) -> None:
        self._careless[asked["destination"]] = template


class Unforgetting(SendTemplates):
    """Believes that what policies say has no part in it."""

    __slots__ = ()

    def forget(self) -> None:
        pass


class Side:
    """One of the brokers, and what its client gets."""

    def __init__(self, templates: SendTemplates) -> None:
        self.desk = Desk()
        self.desk.broker.sending.now_microseconds = NOW_MS * 1000
        self.desk.broker.receipts.record(FormatRecord(NEWEST_LEVEL))
        self.desk.turn()
        self.client = self.desk.connect(client_id="c")
        self.client.session.templates = templates
        self.templates = templates

    def do(self, step) -> bytes:
        step(self)
        self.desk.turn()
        return self.client.bytes()


def sending(rng: random.Random, number: int):
    headers = {"destination": rng.choice(PLACES)}
    names = rng.sample(sorted(VALUES), rng.choice((0, 1, 1, 2, 3)))
    headers |= {name: rng.choice(VALUES[name]) for name in names}
    if "producer-id" in headers and rng.random() < 0.9:
        headers["producer-sequence"] = f"{rng.randint(1, 4)}"
    if rng.random() < 0.7:
        headers["correlation-id"] = f"{number}"
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    frame = f"SEND\n{lines}receipt:{number}\n\nbody {number}\0".encode()
    return lambda side: side.client.raw(frame)


def deleting(name: str):
    def delete(side: Side) -> None:
        with suppress(DestinationError):  # Somebody consumes from it, or there is none.
            side.desk.broker.delete(name, side.client.session, b"gone")

    return delete


def drawn(rng: random.Random, number: int):
    """One step, the same for both."""
    kind = rng.random()
    if kind < 0.8:
        return sending(rng, number)
    if kind < 0.86:
        pattern, values = rng.choice(POLICIES)
        record = PolicyRecord(pattern, json.dumps(values))
        return lambda side: side.desk.broker.receipts.record(record)
    if kind < 0.9:
        return deleting(rng.choice("ab"))
    if kind < 0.94:
        words = rng.choice(("BEGIN", "COMMIT", "ABORT"))
        frame = f"{words}\ntransaction:{rng.choice('tu')}\n\n\0".encode()
        return lambda side: side.client.raw(frame)
    if kind < 0.95:
        name = "activemq.subscriptionName:d\n"
        words = rng.choice(("SUBSCRIBE\ndestination:/topic/t\n", "UNSUBSCRIBE\n"))
        frame = f"{words}id:d\n{name}\n\0".encode()
        return lambda side: side.client.raw(frame)
    if kind < 0.97:
        frame = f"SUBSCRIBE\nid:{number}\ndestination:/queue/{rng.choice('ab')}\n\n\0".encode()
        return lambda side: side.client.raw(frame)
    passed = rng.choice((1, 1_000, 6_000)) * 1000

    def later(side: Side) -> None:
        side.desk.broker.sending.now_microseconds += passed

    return later


def walk(seed: int, templates: SendTemplates) -> None:
    rng = random.Random(seed)
    anew, other = Side(Anew()), Side(templates)
    for number in range(STEPS):
        step = drawn(rng, number)
        assert other.do(step) == anew.do(step), f"step {number} of seed {seed}"
        assert other.desk.log == anew.desk.log, f"step {number} of seed {seed}"
        if anew.client.session.is_closing:
            break


@given(st.integers(0, 1_000_000))
def test_a_send_comes_to_the_same_with_and_without_templates(seed: int) -> None:
    """
    Whatever is in its headers, whatever policies are set, queues deleted, clocks set.
    """
    walk(seed, SendTemplates())


@pytest.mark.parametrize("broken", [ByDestination, Unforgetting])
def test_a_template_that_asks_too_little_is_found_out(broken) -> None:
    """
    One that goes by the destination alone, and one that outlives a change of policies.
    """
    with pytest.raises((AssertionError, AttributeError)):
        for seed in range(60):
            walk(seed, broken())

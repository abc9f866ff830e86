"""
Mirrors take nothing: whoever sends to a mirrored queue is answered as if nobody looked at it,
whatever is said of the queues that do; and these have the newest of what came.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.broker.serving.effective import Limits
from holdfast.broker.settings import BrokerSettings
from holdfast.model.format_level import LIMITS_LEVEL
from holdfast.model.policies import as_text
from holdfast.model.records import FormatRecord, PolicyRecord
from tests.unit.sessions.conftest import Desk

NAMES = [f"Consumer.{name}.VirtualTopic.Mirror.orders" for name in "ab"]

LIMITS = st.fixed_dictionaries(
    {"overflow": st.sampled_from(["reject", "block", "drop-head"])},
    optional={
        "maxLength": st.integers(1, 4),
        "maxLengthBytes": st.integers(40, 400),
        "memoryLimit": st.integers(1, 3_000),
        "sendFailIfNoSpace": st.sampled_from(["true", "false"]),
    },
)
STEPS = st.one_of(
    st.tuples(st.just("send"), st.booleans(), st.integers(0, 300)),
    st.tuples(st.just("together"), st.lists(st.booleans(), min_size=1, max_size=4)),
    st.tuples(st.just("take"), st.integers(0, 1), st.booleans()),
    st.tuples(st.just("turn")),
)


class World:
    """A mirrored queue with a limit of its own, and who looks at it."""

    def __init__(self, limits: dict[str, object], *, is_looked_at: bool) -> None:
        self.desk = Desk(BrokerSettings())
        record = self.desk.broker.receipts.record
        record(FormatRecord(LIMITS_LEVEL))
        record(PolicyRecord("queue://orders", as_text({"mirrored": "true", "maxLength": 9})))
        record(PolicyRecord("queue://Consumer.>", as_text(limits)))
        self.desk.turn()
        self.client, self.looking = self.desk.connect(), self.desk.connect()
        self.answers: list[tuple[str, ...]] = []
        self.bodies: list[str] = []
        """What was taken, in order."""
        for name in NAMES if is_looked_at else []:
            self.desk.broker.queue(name)
        self.desk.turn()

    def do(self, step: tuple) -> None:
        getattr(self, step[0])(*step[1:])
        self.listen()

    def listen(self) -> None:
        for frame in self.client.frames():
            said = frame.headers.get("receipt-id", ""), frame.headers.get("code", "")
            self.answers.append((frame.command, *said))

    def body(self, size: int) -> bytes:
        self.bodies.append(f"{len(self.bodies)}".ljust(size, "."))
        return self.bodies[-1].encode()

    def send(self, is_kept: bool, size: int) -> None:
        kept = "true" if is_kept else "false"
        self.client.send(self.body(size), persistent=kept, receipt=f"{len(self.bodies)}")

    def together(self, kept: list[bool]) -> None:
        self.client.say("BEGIN", transaction="t")
        for each in kept:
            self.client.send(self.body(0), persistent="true" if each else "false", transaction="t")
        self.client.say("COMMIT", transaction="t", receipt=f"c{len(self.bodies)}")

    def take(self, number: int, is_original: bool) -> None:
        """Somebody has one message of a queue for good."""
        name = "orders" if is_original else NAMES[number]
        if self.desk.broker.destinations.has_queue(name):
            self.looking.subscribe(f"/queue/{name}", "x", ack="auto", activemq__prefetchSize="1")
            self.desk.dispatch()
            self.looking.say("UNSUBSCRIBE", id="x")

    def turn(self) -> None:
        self.desk.broker.wake()
        self.desk.turn()


def compare(limits: dict[str, object], steps: list[tuple]) -> None:
    """Do the same with and without who looks."""
    alone, seen = (World(limits, is_looked_at=it) for it in (False, True))
    for step in [*steps, ("turn",), ("turn",)]:
        if step[0] != "take" or step[2]:
            alone.do(step)
        seen.do(step)
        assert sorted(seen.answers) == sorted(alone.answers)
    first, second = (each.desk.broker.queue("orders") for each in (alone, seen))
    assert first.index.live_count == second.index.live_count
    assert first.transient_count == second.transient_count
    for name in NAMES:
        queue = seen.desk.broker.queue(name)
        count = queue.index.live_count + queue.transient_count
        assert count <= max(1, int(str(limits.get("maxLength", count))))


@given(LIMITS, st.lists(STEPS, max_size=25))
def test_who_sends_is_answered_as_if_nobody_looked(
    limits: dict[str, object], steps: list[tuple]
) -> None:
    """
    And what is sent is on the queue as it would be; mirrors are within their limits at the end.
    """
    compare(limits, steps)


def test_a_mirror_that_refuses_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The ablation: its own limit counts for who sends to the queue that it mirrors.
    """
    full = {"overflow": "reject", "maxLength": 1}
    compare(full, [("send", True, 0)] * 3)
    monkeypatch.setattr(Limits, "of_mirror", lambda self: self)
    with pytest.raises(AssertionError):
        compare(full, [("send", True, 0)] * 3)

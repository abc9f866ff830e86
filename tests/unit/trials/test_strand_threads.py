"""Lanes of the product on strands: several databases at once, and virtual time for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from queue import Empty
from random import Random
from types import MethodType, SimpleNamespace
from typing import Any

import pytest

from holdfast.errors import UnreachableError
from holdfast.raidb.lanes import GRACE_SECONDS, Act, ThreadLanes
from trials.leased.passage import Sent
from trials.leased.simulated_broker import SimulatedBroker
from trials.leased.strand import Strand
from trials.leased.strand_threads import StrandThreads
from trials.simulation.simulated_clock import Timeline


class Machine:
    """One whose clock is right; `seen` has what its worker did, and when that was done."""

    rate = 1.0

    def __init__(self) -> None:
        self.timeline = Timeline()
        self.chance = Random(1)
        self.worker = self.current = Strand()
        self.threads = StrandThreads(self)
        self.lanes = ThreadLanes(self.threads)
        self.seen: list[tuple[float, Any]] = []

    def lease_clock(self) -> float:
        return self.timeline.now * self.rate

    def post(self, seconds: float, action: Callable[..., object], *arguments: object) -> None:
        self.timeline.after(seconds, action, *arguments)

    def slow(self, seconds: float, result: Any = "done") -> Act:
        """Give what takes so long, or all the time that it has, and fails then."""

        def act(seconds_max: float) -> Any:
            self.threads.sleep(min(seconds, seconds_max))
            if seconds > seconds_max:
                raise UnreachableError("no time")
            return result

        return act

    def work(self, *calls: Callable[[], Any]) -> list[tuple[float, Any]]:
        """Let the worker make these calls in turn; gives what came of each, and when."""
        self.seen = []

        def make() -> None:
            for call in calls:
                outcome = call()
                self.seen.append((round(self.timeline.now, 2), outcome))

        self.current = self.worker
        self.worker.run(make)
        self.timeline.run(100.0)
        return self.seen

    def end(self) -> None:
        self.worker.cut()
        self.threads.cut()


@pytest.fixture
def machine() -> Iterator[Machine]:
    made = Machine()
    yield made
    made.end()


def test_what_is_asked_of_several_takes_as_long_as_the_slowest(machine: Machine) -> None:
    """Not as long as all of them together, as it would one after the other."""
    acts = {"a": machine.slow(2.0), "b": machine.slow(3.0), "c": machine.slow(1.0)}

    assert machine.work(lambda: machine.lanes.run(acts, 9.0)) == [
        (3.0, dict.fromkeys("abc", "done"))
    ]


def test_what_nobody_waits_for_goes_on_meanwhile(machine: Machine) -> None:
    """Asked for again by the same act it is done when it would have been, while others answer."""
    lanes, long = machine.lanes, machine.slow(2.5, "read")
    acts = [{"a": long, "b": machine.slow(0.1, number)} for number in range(3)]
    seen = machine.work(*(lambda it=it: lanes.run(it, 9.0, leave_after=1.0) for it in acts))

    assert seen == [(1.0, {"b": 0}), (2.0, {"b": 1}), (2.5, {"a": "read", "b": 2})]


def test_who_does_not_answer_is_given_up_when_it_would_be_in_threads(machine: Machine) -> None:
    """After the bound and its grace; and it is asked nothing more before it has come back."""
    lanes = machine.lanes

    def hang(_: float) -> None:
        machine.threads.sleep(5.0)

    seen = machine.work(
        lambda: lanes.run({"a": hang}, 1.0),
        lambda: lanes.run({"a": machine.slow(0.1)}, 1.0),
        lambda: machine.threads.sleep(5.0),
        lambda: lanes.run({"a": machine.slow(0.1)}, 1.0),
    )

    assert [it for it, _ in seen] == [1 + GRACE_SECONDS, 1 + GRACE_SECONDS, 6.25, 6.35]
    assert isinstance(seen[0][1]["a"], UnreachableError)
    assert "asked before" in str(seen[1][1]["a"])
    assert seen[3][1] == {"a": "done"}


def test_two_threads_use_the_lanes_at_the_same_time(machine: Machine) -> None:
    """What one asks of a database waits for what the other asked of the same, and nothing else."""
    other = Strand()
    heard: list[float] = []

    def ask() -> None:
        machine.lanes.run({"a": machine.slow(1.0), "b": machine.slow(1.0)}, 9.0)
        heard.append(round(machine.timeline.now, 2))

    machine.current = other
    other.run(ask)
    seen = machine.work(
        lambda: machine.lanes.run({"c": machine.slow(0.5)}, 9.0),
        lambda: machine.lanes.run({"a": machine.slow(1.0)}, 9.0),
    )
    other.cut()

    assert [it for it, _ in seen] == [0.5, 2.0]
    assert heard == [1.0]


def test_an_inbox_wakes_who_waits_for_it_once(machine: Machine) -> None:
    """Who waited in vain is not woken in its next wait by what came too late for that one."""
    inbox = machine.threads.inbox()

    def hand_over_late() -> None:
        machine.threads.sleep(1.0)
        inbox.put("late")

    machine.threads.start("other", hand_over_late)

    def take(timeout: float | None) -> Any:
        try:
            return inbox.get(timeout=timeout)
        except Empty:
            return None

    seen = machine.work(
        lambda: take(0),
        lambda: take(0.99995),
        lambda: machine.threads.sleep(3.0),
        lambda: take(None),
    )

    assert [it for it, _ in seen] == [0.0, 1.0, 4.0, 4.0]
    assert [it for _, it in seen] == [None, None, None, "late"]


def test_who_dies_while_it_sends_has_sent_nothing() -> None:
    """Of what is large; what was sent as a whole takes effect, whoever is dead by then."""
    timeline = Timeline()
    broker: Any = SimpleNamespace(world=SimpleNamespace(timeline=timeline), life=1, is_alive=True)
    broker._all_is_sent = MethodType(SimulatedBroker._all_is_sent, broker)
    done: list[str] = []
    for name, sending in (("small", 0.0), ("large", 1.0), ("larger", 3.0)):
        sent = Sent(lambda name=name: done.append(name), sending)
        SimulatedBroker.send(broker, sending + 1.5, sent)
    timeline.run(1.2)
    broker.is_alive = False
    timeline.run(9.0)

    assert done == ["small", "large"]


def test_a_clock_that_is_fast_waits_less(machine: Machine) -> None:
    """A bound is one of this machine's seconds."""
    machine.rate = 2.0
    seen = machine.work(lambda: machine.lanes.run({"a": machine.slow(9.0)}, 4.0, leave_after=3.0))

    assert seen == [(1.5, {})]

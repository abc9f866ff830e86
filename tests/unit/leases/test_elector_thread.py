"""The thread that asks an elector: what it asks, what it tells, how it ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from queue import Queue

import pytest

from holdfast.errors import UnreachableError
from holdfast.leases.elector import ElectorFacts, Line, Reading
from holdfast.leases.elector_thread import ElectorAsking, ElectorThread

OWN = "a" * 32
WAIT = 10.0


class Fake:
    """An elector that does what the test says."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bool, float]] = []
        self.begun: Queue[bool] = Queue()
        self.raises: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.closed = 0

    def facts(self) -> ElectorFacts:
        return ElectorFacts(kind="fake", place="here")

    def stand(self, candidate: str, *, is_willing: bool, seconds_max: float) -> Line:
        self.asked.append((candidate, is_willing, seconds_max))
        self.begun.put(is_willing)
        self.gate.wait(WAIT)
        if self.raises is not None:
            raise self.raises
        return Line(holders=(candidate,) if is_willing else (), sure_seconds=3.0)

    def close(self, seconds_max: float) -> None:
        self.closed += 1
        if self.raises is not None:
            raise self.raises


@pytest.fixture
def fake() -> Fake:
    """One that answers."""
    return Fake()


@pytest.fixture
def asking(fake: Fake) -> ElectorAsking:
    """Of a session of three seconds, at a clock that goes on by one each time."""
    ticks = iter(range(1_000_000))
    return ElectorAsking(fake, OWN, lambda: float(next(ticks)), 3.0)


def test_a_step_asks_once_within_a_third_of_a_session(fake: Fake, asking: ElectorAsking) -> None:
    """So that a lost answer costs no session; it tells what was wanted, and since when."""
    asking.is_willing = True
    reading = asking.step()

    assert [(OWN, True, 1.0)] == fake.asked
    assert (0.0, 1.0, True) == (reading.began, reading.ended, reading.is_willing)
    assert reading.line == Line(holders=(OWN,), sure_seconds=3.0)
    assert "" == reading.trouble


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (UnreachableError("it is away"), "it is away"),
        (KeyError("kvs"), "the elector broke: KeyError: 'kvs'"),
    ],
)
def test_whatever_an_elector_raises_is_trouble(
    fake: Fake, asking: ElectorAsking, raised: Exception, told: str
) -> None:
    """And never the end of the thread, at the end of all neither."""
    fake.raises = raised
    reading = asking.step()
    asking.close()

    assert (None, told) == (reading.line, reading.trouble)
    assert 1 == fake.closed


@pytest.fixture
def readings() -> Queue[Reading]:
    """What the thread told."""
    return Queue()


@pytest.fixture
def thread(fake: Fake, asking: ElectorAsking, readings: Queue[Reading]) -> Iterator[ElectorThread]:
    """One that would wait for ever between two steps, if nothing woke it."""
    asking.pause_seconds = 1_000.0
    made = ElectorThread(asking, readings.put)
    made.start()
    yield made
    fake.gate.set()
    made.close(WAIT)


def test_news_of_what_is_wanted_is_told_at_once(
    thread: ElectorThread, readings: Queue[Reading]
) -> None:
    """Who has given the lease back is not elected for another pause."""
    assert not readings.get(timeout=WAIT).is_willing
    thread.want(is_willing=True)
    assert readings.get(timeout=WAIT).is_willing
    thread.want(is_willing=True)
    thread.want(is_willing=False)
    assert not readings.get(timeout=WAIT).is_willing
    assert readings.empty()


def test_who_ends_leaves_the_line(thread: ElectorThread, fake: Fake) -> None:
    """Closing says good-bye once, also where nothing was ever started."""
    assert thread.close(WAIT)
    assert 1 == fake.closed
    assert ElectorThread(ElectorAsking(fake, OWN, lambda: 0.0, 3.0), lambda _: None).close(0.0)


def test_an_elector_that_hangs_is_left(
    fake: Fake, asking: ElectorAsking, thread: ElectorThread, readings: Queue[Reading]
) -> None:
    """Closing waits so long and no longer."""
    readings.get(timeout=WAIT)
    assert not fake.begun.get(timeout=WAIT)
    fake.gate.clear()
    thread.want(is_willing=True)
    assert fake.begun.get(timeout=WAIT)

    assert not thread.close(0.05)
    fake.gate.set()
    assert thread.close(WAIT)


def test_it_asks_again_and_again(fake: Fake, asking: ElectorAsking) -> None:
    """A tenth of a session lies between: else the session would end."""
    assert 0.3 == pytest.approx(asking.pause_seconds)
    asking.pause_seconds = 0.001
    readings: Queue[Reading] = Queue()
    thread = ElectorThread(asking, readings.put)
    thread.start()
    for _ in range(3):
        readings.get(timeout=WAIT)
    assert thread.close(WAIT)

"""What a store that shows something is told of the queues, and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.broker.broker import Broker
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import CorruptEntryError
from holdfast.leases.projection import ROWS_MAX, Changes, QueueRow
from holdfast.model.records import (
    AcknowledgeRecord,
    DeleteQueueRecord,
    MessageRecord,
    QueueRecord,
    Record,
)
from holdfast.server.projecting import Projecting
from holdfast.server.showing_walk import SECONDS, SECONDS_MAX


class Scene:
    """A broker with its log, and a store that writes what it is told when it is let."""

    def __init__(self) -> None:
        self.broker = Broker(BrokerSettings())
        self.applied_index = 0
        self.messages: dict[int, MessageRecord] = {}
        self.reads = 0
        self.is_damaged = False
        self.is_ours = True
        self.term, self.projections_lost = 1, 0
        self.waiting: list[Changes] = []
        self.told: list[Changes] = []
        self.now = 100.0
        self.projecting = Projecting(self.broker, self, self)

    # The log
    def apply(self, *records: Record) -> None:
        self.applied_index += 1
        first = 100 * self.applied_index
        for number, record in enumerate(records, start=first):
            if isinstance(record, MessageRecord):
                self.messages[number] = record
        self.broker.apply_entry(first, list(records), self.applied_index)

    def read(self, record_number: int) -> MessageRecord:
        self.reads += 1
        if self.is_damaged:
            raise CorruptEntryError("a bit", segment="x", index=1)
        return self.messages[record_number]

    # The store
    shown_keys = ()

    @property
    def can_project(self) -> bool:
        return self.is_ours and not self.waiting

    def project(self, changes: Changes) -> None:
        assert self.can_project
        self.waiting.append(changes)

    def write(self) -> None:
        self.told += self.waiting
        self.waiting.clear()

    def lose(self) -> None:
        self.waiting.clear()
        self.projections_lost += 1

    # The loop
    def step(
        self, *, is_serving: bool = True, is_spent: Callable[[], bool] = lambda: False
    ) -> bool:
        return self.projecting.step(self.now, is_spent, is_serving=is_serving)

    def look(self) -> list[Changes]:
        """All that is told in one look, five seconds later."""
        self.now += SECONDS
        self.told.clear()
        while self.step():
            self.write()
        return self.told


@pytest.fixture
def scene() -> Scene:
    made = Scene()
    made.apply(QueueRecord(1, "orders"), QueueRecord(2, "invoices"))
    return made


def message(queue: int, sequence: int, stored_at: int = 0) -> MessageRecord:
    record = MessageRecord(queue, sequence, b"", b"body", 4)
    record.stored_at = stored_at
    return record


def row(number: int, name: str, as_of_index: int, **others: int) -> QueueRow:
    numbers = dict.fromkeys(("depth", "bytes", "enqueued", "dequeued", "oldest_at"), 0) | others
    return QueueRow(number=number, name=name, as_of_index=as_of_index, **numbers)


def test_first_all_are_told_then_what_changed(scene: Scene) -> None:
    """And of those that did not change nothing, as nothing at all where none did."""
    scene.apply(message(1, 1, 5_000_000), message(1, 2, 6_000_000))
    orders = {"depth": 2, "bytes": 8, "enqueued": 2, "oldest_at": 5_000}
    assert scene.look() == [
        Changes(queues=(row(1, "orders", 2, **orders), row(2, "invoices", 2)), stale_before=2)
    ]
    assert scene.look() == []
    scene.apply(AcknowledgeRecord(1, [1]))
    orders = {"depth": 1, "bytes": 4, "enqueued": 2, "dequeued": 1, "oldest_at": 6_000}
    assert scene.look() == [Changes(queues=(row(1, "orders", 3, **orders),))]
    scene.apply(DeleteQueueRecord(2))
    assert scene.look() == [Changes(gone=(2,))]
    assert scene.look() == []


def test_only_who_serves_tells_and_not_more_often(scene: Scene) -> None:
    """Every five seconds from the end of the last look."""
    assert not scene.step(is_serving=False)
    assert scene.step()
    scene.write()
    assert not scene.step()
    scene.apply(message(1, 1))
    scene.now += SECONDS - 0.1
    assert not scene.step()
    scene.now += 0.1
    assert scene.step()


@pytest.mark.parametrize("happens", ["another lease", "given up"])
def test_after_a_takeover_or_a_loss_all_are_told_anew(scene: Scene, happens: str) -> None:
    """What is shown may be anybody's."""
    whole = len(scene.look()[0].queues)
    scene.apply(message(1, 1))
    scene.now += SECONDS
    assert scene.step()
    if happens == "given up":
        scene.lose()
    else:
        scene.write()
        scene.term += 1
    while scene.step():
        scene.write()
    scene.now += SECONDS
    (changes,) = scene.look()

    assert whole == len(changes.queues) == 2
    assert changes.stale_before == scene.applied_index


def test_a_loss_in_the_first_look_makes_the_next_one_whole_again(scene: Scene) -> None:
    """With nothing of the rest written in between."""
    scene.apply(*(QueueRecord(it, f"q{it}") for it in range(3, ROWS_MAX + 3)))
    scene.step()
    scene.lose()
    assert not scene.step()
    assert scene.told == []
    scene.now += SECONDS

    assert sum(len(it.queues) for it in scene.look()) == ROWS_MAX + 2
    assert scene.look() == []


def test_what_is_refused_again_and_again_is_told_ever_later(scene: Scene) -> None:
    """Up to five minutes; once it was written, as often as before."""
    pauses = []
    for _ in range(9):
        began = scene.now
        while not scene.step():
            scene.now += 1.0
        pauses.append(scene.now - began)
        scene.lose()
        assert not scene.step()
    assert pauses[1:] == [10, 20, 40, 80, 160, *[SECONDS_MAX] * 3]
    scene.now += SECONDS_MAX
    assert scene.look()
    scene.apply(message(1, 1))

    assert scene.look(), "five seconds later"


def test_queues_that_come_and_go_leave_nothing(scene: Scene) -> None:
    """However many go between two looks: no row, and nothing that is kept of them here."""
    shown: set[int] = set()
    names = 3
    for _ in range(5):
        many = range(names, names + 3 * ROWS_MAX)
        names = many.stop
        scene.apply(*(QueueRecord(it, f"q{it}") for it in many), *(message(it, 1) for it in many))
        for changes in scene.look():
            shown |= {it.number for it in changes.queues}
        assert len(shown) == 2 + len(many)
        scene.apply(*(DeleteQueueRecord(it) for it in many))
        told = scene.look()
        assert max(len(it.gone) for it in told) == ROWS_MAX
        for changes in told:
            shown -= set(changes.gone)

        assert shown == {1, 2}
        assert len(scene.projecting._told) == 2
        assert not scene.projecting._heads


def test_many_are_told_in_pieces_and_looked_at_in_slices(scene: Scene) -> None:
    """An append waits for one piece at most, the loop for one slice."""
    scene.apply(*(QueueRecord(it, f"q{it}") for it in range(3, 2 * ROWS_MAX + 10)))
    steps: list[Any] = []

    def is_spent() -> bool:
        steps.append(None)
        return len(steps) % 10 == 0

    for _ in range(ROWS_MAX):
        if scene.step(is_spent=is_spent):
            scene.write()

    assert [len(it.queues) for it in scene.told] == [ROWS_MAX, ROWS_MAX, 9]
    assert [it.stale_before for it in scene.told] == [0, 0, 2]
    assert len(steps) > 2 * ROWS_MAX


def test_while_it_is_not_written_nothing_is_looked_at(scene: Scene) -> None:
    """Nor where the store is not ours, or shows nothing."""
    assert scene.step()
    scene.apply(message(1, 1))
    scene.now += 100
    assert scene.step(), "still to be written"
    assert scene.reads == 0
    scene.lose()
    scene.is_ours = False
    assert not scene.step(is_serving=False)
    assert scene.waiting == []


def test_the_first_message_is_read_once(scene: Scene) -> None:
    """As long as it is the first; where it cannot be read nothing is said of its age."""
    scene.apply(message(1, 1, 5_000_000))
    scene.look()
    scene.apply(message(1, 2, 6_000_000))
    assert [it.oldest_at for it in scene.look()[0].queues] == [5_000]
    assert scene.reads == 1
    scene.is_damaged = True
    scene.apply(AcknowledgeRecord(1, [1]))
    assert [it.oldest_at for it in scene.look()[0].queues] == [0]
    scene.is_damaged = False
    assert [it.oldest_at for it in scene.look()[0].queues] == [6_000]

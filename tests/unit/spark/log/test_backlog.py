"""
What is live, against a model that goes record by record.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import CorruptEntryError, RecordNotFoundError
from holdfast.model.facts import Cause
from holdfast.model.records import (
    AcknowledgeRecord,
    CleanedRecord,
    DeadLetterRecord,
    DeleteQueueRecord,
    DispatchMarkRecord,
    MessageRecord,
    MoveRecord,
    PurgeRecord,
    QueueRecord,
    Run,
)
from holdfast.spark.log import backlog as backlog_module
from holdfast.spark.log.backlog import Backlog, backlog_as_of, index_of, place_of
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.source import DamagedRange
from trials.pipeline.written_log import WrittenLog, block_of, knowing, message


def random_move(
    chance: random.Random, queue: int, newest: dict[int, int], live: dict[int, set[int]]
) -> MoveRecord:
    """Some messages of a queue go to another one, or nowhere; a copy stays as well."""
    known = sorted(live[queue])
    chosen = sorted(chance.sample(known, min(len(known), 3)))
    target = chance.choice([it for it in (*live, 0) if it != queue])
    is_copy = bool(target) and chance.random() < 0.3
    if not is_copy:
        live[queue] -= set(chosen)
    places = [0] * len(chosen)
    if target:
        places = list(range(newest[target] + 1, newest[target] + 1 + len(chosen)))
        newest[target] = places[-1]
        live[target].update(places)
    runs = [Run(*place, 1) for place in zip(chosen, places, strict=True)]
    return MoveRecord(queue, target, Cause.MOVED, runs, is_copy=is_copy)


def random_history(seed: int) -> list[list]:
    """Batches of records as a broker could write them."""
    chance = random.Random(seed)
    sequence = dict.fromkeys((1, 2, 3), 0)
    live: dict[int, set[int]] = {1: set(), 2: set(), 3: set()}
    batches: list[list] = [[QueueRecord(queue, f"q{queue}") for queue in live]]
    for _ in range(60):
        batch = []
        for _ in range(chance.randrange(1, 12)):
            queue = chance.choice(list(live))
            known = sorted(live[queue])
            action = chance.randrange(12)
            if action < 5 or not known:
                sequence[queue] += 1
                live[queue].add(sequence[queue])
                batch.append(message(queue, sequence[queue]))
            elif action < 8:
                settled = chance.sample(known, min(len(known), 3))
                live[queue] -= set(settled)
                kind = AcknowledgeRecord if action < 7 else DeadLetterRecord
                batch.append(kind(queue, settled))
            elif action == 8:
                copy = message(queue, chance.choice(known))
                copy.rewritten = True
                batch.append(copy)
            elif action > 9:
                batch.append(random_move(chance, queue, sequence, live))
            elif chance.randrange(4) == 0:
                through = chance.choice(known)
                live[queue] = {it for it in known if it > through}
                batch.append(PurgeRecord(queue, through))
            else:
                batch.append(DispatchMarkRecord(queue, sequence[queue]))
        batches.append(batch)
    if seed % 2:
        batches.append([DeleteQueueRecord(2)])
    return batches


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("settle_min", [5, 10**6])
def test_the_backlog_is_the_brokers(
    seed: int, settle_min: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same messages as the broker's own state, each at its newest record."""
    monkeypatch.setattr(backlog_module, "_SETTLE_MIN", settle_min)
    batches = random_history(seed)
    state = BrokerState(BrokerSettings())
    backlog = Backlog()
    newest: dict[tuple[int, int], int] = {}
    number = 1
    for place, batch in enumerate(batches):
        state.apply(number, batch, 5)
        number += len(batch)
        backlog.take(block_of(batch, first_index=place + 1))
        for ordinal, record in enumerate(batch):
            if isinstance(record, MessageRecord):
                spot = place_of(np.array([place + 1]), np.array([ordinal]))
                newest[record.queue_number, record.sequence] = int(spot[0])
    wanted = sorted(
        newest[queue.number, sequence]
        for queue in state.queues.values()
        for sequence in queue.index.sequences(1, 10**6)
        if not queue.index.move_number(sequence)
    )
    assert wanted == backlog.live()[0].tolist()
    spots = {}
    number = 1
    for place, batch in enumerate(batches):
        for ordinal in range(len(batch)):
            spot = place_of(np.array([place + 1]), np.array([ordinal]))
            spots[number + ordinal] = (int(spot[0]), batch[ordinal])
        number += len(batch)
    moved = sorted(
        (spots[index.record_number(sequence)][0], queue.number, sequence)
        for queue in state.queues.values()
        for index in [queue.index]
        for sequence in index.sequences(1, 10**6)
        if index.move_number(sequence)
    )
    found = backlog.moved()
    assert moved == sorted(
        zip(found.places.tolist(), found.queues.tolist(), found.sequences.tolist(), strict=True)
    )
    for queue, sequence, which in zip(
        found.queues.tolist(), found.sequences.tolist(), found.moved_by.tolist(), strict=True
    ):
        by = spots[state.queues[queue].index.move_number(sequence)][1]
        assert found.moves[which] is not by
        assert found.moves[which].runs == by.runs
    for queue in state.queues.values():
        assert queue.dispatch_mark == backlog.marks()[queue.number]
        assert queue.name == backlog.names[queue.number]


def test_places_sort_like_the_log() -> None:
    """And give their entry back."""
    indexes = np.array([1, 1, 2, 2**38])
    places = place_of(indexes, np.array([0, 2**24 - 1, 0, 5]))
    assert sorted(places.tolist()) == places.tolist()
    assert indexes.tolist() == index_of(places).tolist()


def test_a_moment_before_the_survivors_were_written_again_cannot_be_told(tmp_path: Path) -> None:
    """What lived in the dropped part would be missing without a word."""
    with WrittenLog(tmp_path) as written:
        written.put(QueueRecord(1, "a"))
        for number in range(1, 20):
            written.put(message(1, number, bytes(7_000)))
        dropped = written.journal.segments()[1].base_index - 1
        copies = [message(1, number) for number in range(1, dropped)]
        for copy in copies:
            copy.rewritten = True
        written.put(*copies)
        cleaned = written.put(CleanedRecord(dropped)).index
        written.put(message(1, 20))
        written.journal.drop_before(dropped + 1)
    source = LogDirectory(str(tmp_path))
    position = source.position()
    assert 19 == len(backlog_as_of(source, position, cleaned).live()[0])
    assert 20 == len(backlog_as_of(source, position, cleaned + 1).live()[0])
    with pytest.raises(RecordNotFoundError, match="cannot be told"):
        backlog_as_of(source, position, cleaned - 1)


def test_damage_is_raised_or_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the mode says; the tasks report it."""
    fault = DamagedRange(1, 1, CorruptEntryError("rotten"))
    good = block_of([message(1, 1)], first_index=2)
    monkeypatch.setattr(LogDirectory, "blocks", lambda *_: iter([fault, good]))
    monkeypatch.setattr(LogDirectory, "position", lambda _: None)
    source = LogDirectory("/x")
    position = type("Position", (), {"first_index": 1})()
    with pytest.raises(CorruptEntryError):
        backlog_as_of(source, position, 2)
    assert 1 == len(backlog_as_of(source, position, 2, is_strict=False).live()[0])


def test_a_message_on_several_queues_is_live_on_each_by_itself() -> None:
    """With the queues on which it is; the newest record of each counts."""
    several, again = knowing(message(1, 1), "places"), message(9, 90)
    again.rewritten = True
    backlog = Backlog()
    backlog.take(block_of([several, message(1, 2)]))
    first, second = place_of(1, 0), place_of(1, 1)
    assert [(first, 1), (first, 8), (first, 9), (second, 1)] == listed(backlog)
    backlog.take(block_of([AcknowledgeRecord(1, [1])], [AcknowledgeRecord(8, [80])]))
    assert [(first, 9), (second, 1)] == listed(backlog)
    backlog.take(block_of([again], first_index=2))
    assert [(second, 1), (place_of(2, 0), 9)] == listed(backlog)


def test_a_copy_in_the_same_block_is_the_newest_record_of_each_place() -> None:
    """Though its first place is another one."""
    several, again = knowing(message(1, 1), "places"), message(9, 90)
    again.rewritten = True
    backlog = Backlog()
    backlog.take(block_of([several, again, AcknowledgeRecord(1, [1]), AcknowledgeRecord(8, [80])]))
    assert [(place_of(1, 1), 9)] == listed(backlog)


def listed(backlog: Backlog) -> list[tuple[int, int]]:
    places, queues = backlog.live()
    return list(zip(places.tolist(), queues.tolist(), strict=True))


def test_queues_are_only_told_where_it_takes_them() -> None:
    """Of a million messages they would be eight million bytes for every task."""
    backlog = Backlog()
    backlog.take(block_of([message(1, 1), message(2, 1)]))
    places, queues = backlog.live()
    assert (2, 0) == (len(places), len(queues))

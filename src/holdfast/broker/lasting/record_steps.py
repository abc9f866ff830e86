"""
The records of one entry, cut into steps that each take a millisecond or two to apply.

Most records take about as long as a message. What others take beside that `record_weights` tells:
one of acknowledgements names as many messages as its queue's consumers have acknowledged while a
batch gathered, a message whom of a thousand subscriptions it is not for, one of moves a thousand
messages. A step ends before they are too much together; what alone is too much is cut as well. The
pieces come one after the other under the number of their record.

Each step is cut when the one before it is applied: what a record touches is seen in the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from itertools import islice
from typing import Final

from holdfast.broker.lasting.chunk import CHUNK_SHIFT
from holdfast.broker.lasting.record_weights import (
    OF_COUNTED,
    OF_RETURNED,
    OF_SUBSCRIPTION,
    Queues,
    purged_chunks,
    weight_of,
    weight_of_all,
)
from holdfast.model.records import (
    AcknowledgeRecord,
    DeadLetterRecord,
    MessageRecord,
    MoveRecord,
    PurgeRecord,
    Record,
    ReturnedRecord,
    Run,
    SubscriptionAcknowledgeRecord,
)
from holdfast.model.topic_records import CountedRecord

SEQUENCES_PER_RECORD = 8
"""So many acknowledged sequences are as much as they may be where each record counts for one."""

_PER_SEQUENCE: Final[dict[type[Record], int]] = {
    AcknowledgeRecord: 1,
    DeadLetterRecord: 1,
    SubscriptionAcknowledgeRecord: OF_SUBSCRIPTION,
    ReturnedRecord: OF_RETURNED,
    CountedRecord: OF_COUNTED,
}


def record_steps(
    first_record: int, records: Iterable[Record], count_max: int, queues: Queues
) -> Iterator[tuple[int, list[Record]]]:
    """
    Give the records in order, each step with the number of its first.

    `queues` are those of the state that each step is applied to before the next is asked for.
    """
    rest = iter(records)
    number = first_record
    weight_max = count_max * SEQUENCES_PER_RECORD
    while some := list(islice(rest, count_max)):
        if weight_of_all(some, queues) <= weight_max:
            yield number, some
        else:
            yield from _steps(number, some, weight_max, queues)
        number += len(some)


def is_one_step(records: Iterable[Record], count_max: int, queues: Queues) -> bool:
    """Whether so many records at most are no more than one step may have."""
    # As `weight_of_all` does it, for a few: most entries are one message.
    weight = 0
    for record in records:
        if type(record) is not MessageRecord or record.facts is not None or record.rewritten:
            weight += weight_of(record, queues)
    return weight <= count_max * SEQUENCES_PER_RECORD


def _steps(
    first: int, records: list[Record], weight_max: int, queues: Queues
) -> Iterator[tuple[int, list[Record]]]:
    step: list[Record] = []
    taken = 0
    for number, record in enumerate(records, first):
        weight = weight_of(record, queues)
        if step and taken + weight > weight_max:
            yield number - len(step), step
            step, taken = [], 0
            weight = weight_of(record, queues)  # What was before it is applied.
        if weight > weight_max:
            for piece in _pieces(record, weight, weight_max, queues):
                yield number, [piece]
        else:
            step.append(record)
            taken += weight
    if step:
        yield first + len(records) - len(step), step


def _pieces(record: Record, weight: int, weight_max: int, queues: Queues) -> Iterator[Record]:
    """Give records that one after the other are this one, which is too much for a step."""
    if type(record) is MoveRecord:
        yield from _pieces_of_move(record, max(1, weight_max * record.count // weight))
    elif type(record) is PurgeRecord:
        yield from _pieces_of_purge(record, weight_max, queues)
    elif type(record) in _PER_SEQUENCE:
        yield from _pieces_of_many(record, max(1, weight_max // _PER_SEQUENCE[type(record)]))
    else:
        yield record


def _pieces_of_many(record: Record, count_max: int) -> Iterator[Record]:
    sequences: list[int] = record.sequences  # type: ignore[union-attr]
    for start in range(0, max(1, len(sequences)), count_max):
        piece = copy(record)
        piece.sequences = sequences[start : start + count_max]  # type: ignore[union-attr, misc]
        yield piece


def _pieces_of_purge(record: PurgeRecord, weight_max: int, queues: Queues) -> Iterator[Record]:
    """Give purges of some chunks of a topic each; of a queue it takes its chunks off as a whole."""
    queue = queues.get(record.queue_number) if record.topic_number else None
    taken = 0
    for number, weight in purged_chunks(queue, record.through_sequence):
        if taken and taken + weight > weight_max:
            through = (number << CHUNK_SHIFT) - 1
            yield PurgeRecord(record.queue_number, through, record.topic_number)
            taken = 0
        taken += weight
    yield record


def _pieces_of_move(record: MoveRecord, count_max: int) -> Iterator[Record]:
    """Give moves of at most so many messages each that together are this one."""
    runs: list[Run] = []
    count = 0
    for first, target_first, length in record.runs:
        start = 0
        while start < length:
            taken = min(length - start, count_max - count)
            runs.append(Run(first + start, target_first and target_first + start, taken))
            count += taken
            start += taken
            if count >= count_max:
                yield _with_runs(record, runs)
                runs, count = [], 0
    if runs:
        yield _with_runs(record, runs)


def _with_runs(record: MoveRecord, runs: list[Run]) -> MoveRecord:
    piece = copy(record)
    piece.runs = runs
    return piece

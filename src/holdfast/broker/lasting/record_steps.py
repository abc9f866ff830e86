"""
The records of one entry, cut into steps that each take well under a millisecond to apply.

Most records take about as long as a message. One of acknowledgements names as many messages as its
queue's consumers have acknowledged while a batch gathered, or as one frame or transaction did, and
one of returns as many as a consumer had, one of moves a thousand: they are cut as well. The pieces
come one after the other under the number of their record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from itertools import islice
from typing import Final

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

SEQUENCES_PER_RECORD = 8
"""So many acknowledged sequences are as much as they may be where each record counts for one."""

_OF_SUBSCRIPTION: Final = 3
"""So many acknowledgements on a queue take as long as one on a subscription: 0.4 and 1.1 us."""

_A_STEP: Final = 1 << 30
"""What has a step of its own is more than any is to have."""

SEQUENCES_PER_MOVED = 8
"""So many of them take as long as a message that is moved: 0.4 and 3 us, measured."""


_WEIGHT = 8
"""So many acknowledgements take as long as one message that came back."""


def record_steps(
    first_record: int, records: Iterable[Record], count_max: int
) -> Iterator[tuple[int, list[Record]]]:
    """Give the records in order, each step with the number of its first."""
    rest = iter(records)
    number = first_record
    sequences_max = count_max * SEQUENCES_PER_RECORD
    while some := list(islice(rest, count_max)):
        if sum(map(_sequence_count, some)) <= sequences_max:
            yield number, some
        else:
            for place, record in enumerate(some, number):
                for piece in _pieces(record, sequences_max):
                    yield place, [piece]
        number += len(some)


def _sequence_count(record: Record) -> int:
    if type(record) is MessageRecord:
        facts = record.facts
        return 0 if facts is None else len(facts.places) * SEQUENCES_PER_MOVED
    if isinstance(record, ReturnedRecord):
        return _WEIGHT * len(record.sequences)
    if isinstance(record, SubscriptionAcknowledgeRecord):
        return _OF_SUBSCRIPTION * len(record.sequences)
    if isinstance(record, (AcknowledgeRecord, DeadLetterRecord)):
        return len(record.sequences)
    if type(record) is MoveRecord:
        return record.count * SEQUENCES_PER_MOVED
    if type(record) is PurgeRecord and record.topic_number:
        return _A_STEP  # It goes through a subscription's chunks.
    return 0


def _pieces(record: Record, sequences_max: int) -> Iterator[Record]:
    if type(record) is MoveRecord:
        yield from _pieces_of_move(record, sequences_max // SEQUENCES_PER_MOVED)
        return
    if not isinstance(record, (AcknowledgeRecord, DeadLetterRecord, ReturnedRecord)):
        yield record
        return
    sequences = record.sequences
    if isinstance(record, ReturnedRecord):
        sequences_max = max(1, sequences_max // _WEIGHT)
    elif isinstance(record, SubscriptionAcknowledgeRecord):
        sequences_max = max(1, sequences_max // _OF_SUBSCRIPTION)
    for start in range(0, max(1, len(sequences)), sequences_max):
        some = sequences[start : start + sequences_max]
        if isinstance(record, ReturnedRecord):
            number, topic = record.queue_number, record.topic_number
            yield ReturnedRecord(number, record.cause, some, record.due_ms, topic)
        elif isinstance(record, SubscriptionAcknowledgeRecord):
            yield SubscriptionAcknowledgeRecord(record.queue_number, some, record.topic_number)
        else:
            yield type(record)(record.queue_number, some)


def _pieces_of_move(record: MoveRecord, count_max: int) -> Iterator[Record]:
    """Give moves of at most so many messages each that together are this one."""
    runs: list[Run] = []
    count = 0
    for first, target_first, length in record.runs:
        start = 0
        while start < length:
            taken = min(length - start, max(1, count_max) - count)
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

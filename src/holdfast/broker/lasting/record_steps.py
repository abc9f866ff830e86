"""
The records of one entry, cut into steps that each take well under a millisecond to apply.

Most records take about as long as a message. One of acknowledgements names as many messages as its
queue's consumers have acknowledged while a batch gathered, or as one frame or transaction did, and
one of returns as many as a consumer had: they are cut as well. The pieces come one after the other
under the number of their record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from holdfast.model.records import AcknowledgeRecord, DeadLetterRecord, Record, ReturnedRecord

SEQUENCES_PER_RECORD = 8
"""So many acknowledged sequences are as much as they may be where each record counts for one."""


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
    if isinstance(record, ReturnedRecord):
        return _WEIGHT * len(record.sequences)
    if isinstance(record, (AcknowledgeRecord, DeadLetterRecord)):
        return len(record.sequences)
    return 0


def _pieces(record: Record, sequences_max: int) -> Iterator[Record]:
    if not isinstance(record, (AcknowledgeRecord, DeadLetterRecord, ReturnedRecord)):
        yield record
        return
    sequences = record.sequences
    if isinstance(record, ReturnedRecord):
        sequences_max = max(1, sequences_max // _WEIGHT)
    for start in range(0, max(1, len(sequences)), sequences_max):
        some = sequences[start : start + sequences_max]
        if isinstance(record, ReturnedRecord):
            yield ReturnedRecord(record.queue_number, record.cause, some, record.due_ms)
        else:
            yield type(record)(record.queue_number, some)

"""
The records of one entry, cut into steps that each take well under a millisecond to apply.

Most records take about as long as a message. One of acknowledgements names as many messages as its
queue's consumers have acknowledged while a batch gathered, or as one frame or transaction did: it
is cut as well. Its pieces come one after the other under its own number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from holdfast.model.records import AcknowledgeRecord, DeadLetterRecord, Record

SEQUENCES_PER_RECORD = 8
"""So many acknowledged sequences are as much as they may be where each record counts for one."""


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
    if type(record) is AcknowledgeRecord or type(record) is DeadLetterRecord:
        return len(record.sequences)
    return 0


def _pieces(record: Record, sequences_max: int) -> Iterator[Record]:
    if not (type(record) is AcknowledgeRecord or type(record) is DeadLetterRecord):
        yield record
        return
    sequences = record.sequences
    for start in range(0, max(1, len(sequences)), sequences_max):
        yield type(record)(record.queue_number, sequences[start : start + sequences_max])

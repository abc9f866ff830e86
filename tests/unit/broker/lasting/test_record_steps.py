"""
An entry's records in steps: no step has many more messages or acknowledgements than any other.
"""

from __future__ import annotations

from holdfast.broker.lasting.record_steps import SEQUENCES_PER_RECORD, record_steps
from holdfast.model.records import (
    AcknowledgeRecord,
    CleanedRecord,
    DeadLetterRecord,
    MessageRecord,
    Record,
)


def message(sequence: int) -> MessageRecord:
    return MessageRecord(1, sequence, b"", b"", 0)


def test_records_go_in_steps_of_so_many() -> None:
    """
    Each step knows the number of its first record.
    """
    records: list[Record] = [message(number) for number in range(7)]
    steps = list(record_steps(100, iter(records), 3))
    assert steps == [(100, records[:3]), (103, records[3:6]), (106, records[6:])]
    assert list(record_steps(100, [], 3)) == []


def test_few_acknowledgements_are_cut_by_nobody() -> None:
    """
    Nor does one of nothing get lost: who counts records counts it.
    """
    records = [message(1), AcknowledgeRecord(1, [1, 2]), AcknowledgeRecord(1, [])]
    assert list(record_steps(5, records, 3)) == [(5, records)]


def test_many_acknowledgements_are_cut_under_their_own_number() -> None:
    """
    In their order, whether one record names very many messages or many records together do.
    """
    most = 2 * SEQUENCES_PER_RECORD
    many = list(range(1, 10 * most + 2))
    records: list[Record] = [
        AcknowledgeRecord(1, many),
        message(1),
        DeadLetterRecord(2, many),
        AcknowledgeRecord(3, []),
        CleanedRecord(7),
    ]
    found: dict[int, list[Record]] = {}
    for number, some in record_steps(50, records, 2):
        sizes = [len(getattr(record, "sequences", ())) for record in some]
        assert sum(sizes) <= most
        found.setdefault(number, []).extend(some)
    assert sorted(found) == [50, 51, 52, 53, 54]
    for number, kind, queue in ((50, AcknowledgeRecord, 1), (52, DeadLetterRecord, 2)):
        assert {(type(each), each.queue_number) for each in found[number]} == {(kind, queue)}
        assert [key for each in found[number] for key in each.sequences] == many
    assert found[51] == [records[1]]
    assert len(found[53]) == 1
    assert found[54] == [records[4]]

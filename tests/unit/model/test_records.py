"""
Records are plain values.
"""

from __future__ import annotations

from holdfast.model.records import MessageRecord, ProducerRecord, QueueRecord


def test_a_new_record_is_the_first_of_its_kind() -> None:
    """
    Defaults say: not written again, never redelivered, stored when its entry is, by nobody.
    """
    record = MessageRecord(1, 2, b"h", b"b", 2)
    assert (record.producer_id, record.producer_sequence) == (None, 0)
    assert (record.rewritten, record.redelivery_count, record.stored_at) == (False, 0, 0)
    assert (QueueRecord(1, "q").next_sequence, QueueRecord(1, "q").dispatch_mark) == (1, 0)
    assert ProducerRecord("p", 1).used_at == 0


def test_records_have_slots() -> None:
    """
    There is one per message on the hot path: no dictionary each.
    """
    assert not hasattr(MessageRecord(1, 2, b"", b"", 0), "__dict__")

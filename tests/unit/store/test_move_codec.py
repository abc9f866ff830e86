"""
The payload of a MOVE record. Its golden bytes and refusals stand with those of all records.
"""

from __future__ import annotations

from holdfast.model.facts import Cause
from holdfast.model.records import MOVE_COUNT_MAX, MoveRecord, Run
from holdfast.store.move_codec import decode_move, encode_move
from holdfast.testing.every_record import told_by


def test_every_cause_and_flag_comes_back() -> None:
    """
    With names in any script, and as many messages as may be.
    """
    for cause in Cause:
        for is_copy, clears_expiry, expires_ms in (
            (False, False, 0),
            (True, False, 0),
            (False, True, 0),
            (False, True, 1 << 63),
        ):
            record = MoveRecord(
                *(1, 2, cause, [Run(1, 1 << 50, MOVE_COUNT_MAX - 1), Run(1 << 60, 9, 1)]),
                queue_name="\u00e9\u4e16",
                reason="r" * 300,
                moved_at=1 << 45,
                is_copy=is_copy,
                clears_expiry=clears_expiry,
                expires_ms=expires_ms,
            )
            assert told_by(decode_move(encode_move(record))) == told_by(record)


def test_a_run_takes_twenty_bytes() -> None:
    """
    So do a thousand neighbours, or one message by itself.
    """
    one = MoveRecord(1, 2, Cause.MOVED, [Run(1, 1, 1)])
    two = MoveRecord(1, 2, Cause.MOVED, [Run(1, 1, 1), Run(5, 2, 500)])
    assert len(encode_move(two)) - len(encode_move(one)) == 20

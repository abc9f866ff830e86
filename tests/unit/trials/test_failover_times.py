"""
Times without confirms: measured around the moment at which the leader was lost.
"""

from __future__ import annotations

from trials.failover_times import KILLED, TimedLedger, evidence_of
from trials.promises.evidence import stamp


def confirmed(*moments: float) -> TimedLedger:
    ledger = TimedLedger(1, 64)
    for sequence, moment in enumerate(moments, 1):
        ledger.note_sent(0, sequence, moment)
        ledger.note_confirmed(0, sequence, moment)
    return ledger


def test_the_time_runs_from_the_last_confirm_before_to_the_first_one_after() -> None:
    """Receipts that were under way when the leader went do not end it; earlier times are others."""
    ledger = confirmed(1.0, 3.0, 3.005, 3.02, 4.5, 4.505)

    assert round(ledger.longest_since(3.01), 3) == 1.48
    assert round(ledger.longest_since(2.0), 3) == 2.0
    assert ledger.longest_since(4.6) == 0.0


def test_a_receipt_that_comes_twice_ends_nothing() -> None:
    """Only the first receipt of a message is a confirm."""
    ledger = confirmed(1.0)
    ledger.note_confirmed(0, 1, 2.0)
    ledger.note_sent(0, 2, 2.0)
    ledger.note_confirmed(0, 2, 3.0)

    assert ledger.longest_since(1.5) == 2.0


def test_deliveries_have_a_time_of_their_own() -> None:
    """They may begin again later than confirms, and one that is repeated ends the time too."""
    ledger = confirmed(1.0, 1.005)
    body = b"%08x%04x%08x" % (1, 0, 1)
    for moment in (1.0, 1.004, 2.5, 2.505):
        ledger.note_delivered(0, body, b"id", redelivered=moment > 2, now=moment)

    assert round(ledger.longest_undelivered_since(1.2), 3) == 1.496
    assert ledger.longest_undelivered_since(2.6) == 0.0
    assert ledger.longest_since(1.2) == 0.0


def test_a_measurement_is_in_milliseconds_and_says_what_was_lost() -> None:
    """The evidence has what the table tells."""
    record = evidence_of(KILLED, [0.2504, 1.0], confirmed(1.0).account(2.0))

    assert (record.how, record.gaps_ms) == ("killed", (250.4, 1000.0))
    assert (record.confirmed, record.lost) == (1, 1)
    assert record.stamp == stamp()

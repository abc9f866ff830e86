"""The account must find what it is there to find: each fault once, on books kept by hand."""

from __future__ import annotations

import pytest

from holdfast.testing.ledger import Ledger, make_body

RUN = 7
BYTES = 64


@pytest.fixture
def ledger() -> Ledger:
    """Three messages of producer 0, sent and confirmed."""
    made = Ledger(RUN, BYTES)
    for sequence in (1, 2, 3):
        made.note_sent(0, sequence, now=float(sequence))
        made.note_confirmed(0, sequence, now=float(sequence))
    return made


def deliver(ledger: Ledger, sequence: int, *, message_id: bytes = b"", flagged: bool = False):
    ledger.note_delivered(
        0,
        make_body(RUN, 0, sequence, BYTES),
        message_id or b"id-%d" % sequence,
        redelivered=flagged,
        now=9.0,
    )


def faults(ledger: Ledger) -> dict[str, int]:
    account = ledger.account(9.0)
    names = ("lost", "unflagged", "stored_twice", "resurrected", "reordered", "corrupt", "foreign")
    return {name: getattr(account, name) for name in names if getattr(account, name)}


def test_a_good_run_has_no_fault(ledger):
    """All three in order: nothing to complain of."""
    for sequence in (1, 2, 3):
        deliver(ledger, sequence)

    assert faults(ledger) == {}
    assert ledger.account(9.0).delivered == 3


def test_a_confirmed_message_that_never_came_is_lost(ledger):
    """Confirmed, not delivered."""
    deliver(ledger, 1)
    deliver(ledger, 3)

    assert faults(ledger) == {"lost": 1}


def test_a_second_delivery_must_say_so(ledger):
    """The same message twice is fine if flagged, and a lie if not."""
    for sequence in (1, 2, 3):
        deliver(ledger, sequence)
    deliver(ledger, 1, flagged=True)
    assert faults(ledger) == {}
    deliver(ledger, 2)

    assert faults(ledger) == {"unflagged": 1}


def test_one_sequence_under_two_ids_was_stored_twice(ledger):
    """A retry that was stored again has another message id."""
    for sequence in (1, 2, 3):
        deliver(ledger, sequence)
    deliver(ledger, 3, message_id=b"another")

    assert faults(ledger) == {"stored_twice": 1}


def test_what_comes_back_after_its_acknowledgement_is_resurrected(ledger):
    """The broker had confirmed that it was settled."""
    for sequence in (1, 2, 3):
        deliver(ledger, sequence)
    ledger.note_settled(b"id-2")
    deliver(ledger, 2, flagged=True)

    assert faults(ledger) == {"resurrected": 1}


def test_a_first_delivery_out_of_order_is_seen(ledger):
    """One producer's messages reach one consumer in their order."""
    for sequence in (2, 1, 3):
        deliver(ledger, sequence)

    assert faults(ledger) == {"reordered": 1}


def test_a_changed_byte_and_a_strangers_message_are_seen(ledger):
    """A body is right as a whole or it is corrupt; other runs are foreign."""
    for sequence in (1, 2, 3):
        deliver(ledger, sequence)
    body = bytearray(make_body(RUN, 0, 1, BYTES))
    body[-1] ^= 1
    ledger.note_delivered(0, bytes(body), b"x", redelivered=False, now=9.0)
    ledger.note_delivered(0, make_body(8, 0, 1, BYTES), b"y", redelivered=False, now=9.0)

    assert faults(ledger) == {"corrupt": 1, "foreign": 1}


def test_the_gap_is_the_longest_wait_while_a_receipt_was_due():
    """Idle time is no gap; waiting at the end is."""
    ledger = Ledger(RUN, BYTES)
    ledger.note_sent(0, 1, now=0.0)
    ledger.note_confirmed(0, 1, now=0.5)
    ledger.note_sent(0, 2, now=100.0)
    ledger.note_confirmed(0, 2, now=102.0)

    assert ledger.account(200.0).gap_seconds == 2.0

    ledger.note_sent(0, 3, now=300.0)

    assert ledger.account(310.0).gap_seconds == 10.0


def test_a_receipt_counts_once_and_only_for_what_was_sent(ledger):
    """A second receipt, or one for nothing, confirms nothing."""
    assert not ledger.note_confirmed(0, 1, now=9.0)
    assert not ledger.note_confirmed(0, 4, now=9.0)
    assert ledger.account(9.0).confirmed == 3

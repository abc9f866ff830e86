"""The account must find what it is there to find: each fault once, on books kept by hand."""

from __future__ import annotations

import pytest

from trials.clients.ledger import Ledger, make_body

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


def deliver(
    ledger: Ledger,
    sequence: int,
    *,
    message_id: bytes = b"",
    flagged: bool = False,
    consumer: int = 0,
):
    ledger.note_delivered(
        consumer,
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


def test_a_copy_that_was_sent_again_may_overtake_the_first(ledger):
    """The first copy is with another consumer that has not seen it yet; both were stored."""
    for sequence in (1, 2, 3):
        ledger.note_sent_again(0, sequence)
    deliver(ledger, 1, flagged=True)
    deliver(ledger, 3, flagged=True)
    deliver(ledger, 2, message_id=b"its second copy")
    deliver(ledger, 2, flagged=True, consumer=1)

    assert faults(ledger) == {"stored_twice": 1}


def test_what_a_lost_consumer_had_not_seen_comes_later(ledger):
    """Consumer 1 was killed with 2 on its way; flagged it comes to one that has seen 3."""
    for consumer in (0, 1):
        ledger.note_connected(consumer)
    deliver(ledger, 1)
    deliver(ledger, 3)
    ledger.note_lost(1)
    deliver(ledger, 2, flagged=True)

    assert faults(ledger) == {}


def test_after_a_restart_it_comes_in_order(ledger):
    """All connections were lost: on a new one what is flagged comes in the old order."""
    for consumer in (0, 1):
        ledger.note_connected(consumer)
    deliver(ledger, 3)
    for consumer in (0, 1):
        ledger.note_lost(consumer)
    ledger.note_connected(0)
    deliver(ledger, 1, flagged=True)
    deliver(ledger, 2, flagged=True)
    assert faults(ledger) == {}

    ledger.note_sent(0, 4, now=4.0)
    ledger.note_sent(0, 5, now=4.0)
    deliver(ledger, 5, flagged=True)
    deliver(ledger, 4, flagged=True)
    assert faults(ledger) == {"reordered": 1}


def test_what_is_new_is_never_late(ledger):
    """Nobody had it before: the loss of a consumer explains nothing."""
    for consumer in (0, 1):
        ledger.note_connected(consumer)
    deliver(ledger, 1)
    deliver(ledger, 3)
    ledger.note_lost(1)
    deliver(ledger, 2)

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

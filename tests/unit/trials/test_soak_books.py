"""
The account of a soak: one byte per message finds what is lost, damaged, doubled and foreign.
"""

from __future__ import annotations

import pytest

from trials.soak.books import Books, Meter, percentile_ms


@pytest.fixture
def books() -> Books:
    return Books("backlog", 7)


def test_all_there(books: Books) -> None:
    """
    Sent, confirmed and delivered, the receipt before or after the delivery.
    """
    first, body = books.next_body(100)
    books.note_confirmed(first)
    assert books.missing_count == 1
    books.note_delivered(body, redelivered=False)
    second, body = books.next_body(5000)
    assert len(body) == 5000
    books.note_delivered(body, redelivered=False)
    books.note_confirmed(second)
    row = books.row(1.0)
    assert (row.sent, row.confirmed, row.delivered, row.lost) == (2, 2, 2, 0)
    assert row.faults == []


def test_a_confirmed_message_that_never_came_is_lost(books: Books) -> None:
    """
    One that was not confirmed is not.
    """
    books.next_body(100)
    number, _ = books.next_body(100)
    books.note_confirmed(number)
    books.note_confirmed(number)
    assert books.row(1.0).faults == ["1 lost"]


def test_a_second_delivery_must_say_so(books: Books) -> None:
    """
    Redelivered is honest, unflagged is a fault.
    """
    number, body = books.next_body(100)
    books.note_confirmed(number)
    books.note_delivered(body, redelivered=False)
    books.note_delivered(body, redelivered=True)
    assert books.row(1.0).faults == []
    books.note_delivered(body, redelivered=False)
    assert books.row(1.0).faults == ["1 unflagged"]
    assert books.row(1.0).redelivered == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body[:-1] + b"?",
        lambda body: body.replace(b"00000007", b"00000008"),
        lambda body: body.replace(b"backlog", b"backlag"),
        lambda body: body.replace(b" 1 ", b" 2 "),
        lambda body: b"something else",
    ],
)
def test_what_nobody_sent_is_unexpected(books: Books, change) -> None:
    """
    Damage, another run, another book, a number that was never given.
    """
    _, body = books.next_body(200)
    books.note_delivered(change(body), redelivered=False)
    assert books.row(1.0).faults == ["1 unexpected"]


def test_subscribers_of_one_topic_share_bodies() -> None:
    """
    Each has books of its own, and what one lacks may be lost.
    """
    one, two = (Books(f"topic-{n}", 7, is_strict=False, label="topic") for n in (1, 2))
    number, body = one.next_body(100)
    two.next_body(0)
    for each in (one, two):
        each.note_confirmed(number)
    two.note_delivered(body, redelivered=False)
    assert (one.row(1.0).lost, two.row(1.0).lost) == (1, 0)
    assert one.row(1.0).faults == two.row(1.0).faults == []


def test_the_meter_gives_what_came_since() -> None:
    """
    Counts and latencies of one sample, and the longest silence that ended or lasts.
    """
    meter = Meter(100.0)
    for number in range(1, 101):
        meter.note_confirmed(100.0 + number / 100, number / 1000)
    meter.note_delivered()
    sample = meter.take(1.0, 101.5, 3, 1 << 20)
    assert (sample.confirms, sample.deliveries, sample.due, sample.seconds) == (100, 1, 3, 1.5)
    assert sample.p50_ms == pytest.approx(51.0)
    assert sample.p99_ms == pytest.approx(100.0)
    assert sample.gap_ms == pytest.approx(500.0)
    assert meter.take(2.0, 102.0, 0, 0).gap_ms == pytest.approx(1000.0)
    meter.note_confirmed(102.4, 0.1)
    sample = meter.take(2.5, 102.5, 0, 0)
    assert (sample.confirms, sample.gap_ms) == (1, pytest.approx(1400.0))
    assert meter.take(3.0, 102.6, 0, 0).p50_ms is None


def test_the_gap_of_a_fault() -> None:
    """
    What ended before it does not count.
    """
    meter = Meter(0.0)
    meter.note_confirmed(3.0, 0.1)
    meter.note_confirmed(3.1, 0.1)
    meter.note_confirmed(5.1, 0.1)
    meter.note_confirmed(5.2, 0.1)
    assert meter.gap_since(2.0, 5.2) == pytest.approx(3.0)
    assert meter.gap_since(4.0, 5.2) == pytest.approx(2.0)
    assert meter.gap_since(5.15, 5.3) == pytest.approx(0.1)


def test_percentiles() -> None:
    """
    Of ascending seconds, in milliseconds.
    """
    assert percentile_ms([], 0.5) is None
    assert percentile_ms([0.1], 0.99) == pytest.approx(100.0)
    assert percentile_ms([0.1, 0.2, 0.3], 0.5) == pytest.approx(200.0)

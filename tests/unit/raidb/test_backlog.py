"""What one database is yet to store, batch after batch."""

from __future__ import annotations

from holdfast.leases.contract import Place
from holdfast.raidb.backlog import BATCH_BYTES_MAX, Backlog
from holdfast.raidb.member import NOTHING
from tests.stores.leased_log_suite import Writer
from tests.unit.raidb.several import Several


def writer() -> Writer:
    return Several(3).writer()


def test_what_was_sent_is_the_same_until_it_is_stored() -> None:
    """What is offered meanwhile is the next batch, together."""
    sealed = writer().sealed(b"one", b"two", b"three")
    backlog = Backlog(NOTHING)
    assert backlog.is_empty
    assert backlog.batch() == []

    backlog.offer(sealed[:1])
    assert backlog.batch() == sealed[:1]
    backlog.offer(sealed[1:2])
    backlog.offer(sealed[2:])
    assert backlog.is_behind
    assert backlog.batch() == sealed[:1]
    assert backlog.first_index == 1
    backlog.stored()

    assert backlog.first_index == 2
    assert backlog.before == Place(1, sealed[0].chain)
    assert backlog.batch() == sealed[1:]
    assert not backlog.is_behind
    assert not backlog.is_empty
    backlog.stored()
    assert backlog.is_empty
    assert (backlog.bytes, backlog.first_index) == (0, 0)


def test_the_very_same_may_be_offered_again() -> None:
    """As its owner does who does not know what came of it."""
    sealed = writer().sealed(b"one")
    backlog = Backlog(NOTHING)
    backlog.offer(sealed)
    backlog.offer(sealed)

    assert backlog.bytes == len(sealed[0].raw)
    backlog.batch()
    backlog.stored()
    backlog.offer(sealed)
    assert backlog.is_empty


def test_a_batch_is_of_bounded_size() -> None:
    """Of what is long one alone."""
    sealed = writer().sealed(bytes(BATCH_BYTES_MAX), b"two", bytes(BATCH_BYTES_MAX // 2), b"four")
    backlog = Backlog(NOTHING)
    for entry in sealed:
        backlog.offer([entry])

    batches = []
    while batch := backlog.batch():
        batches.append([it.index for it in batch])
        backlog.stored()
    assert batches == [[1], [2, 3, 4]]


def test_what_nobody_stored_may_be_taken_back() -> None:
    """Then it lacks nothing, and may be offered the same once more."""
    sealed = writer().sealed(b"one")
    backlog = Backlog(NOTHING)
    backlog.offer(sealed)
    backlog.batch()

    backlog.withdraw(sealed)
    assert backlog.is_empty
    assert backlog.bytes == 0
    backlog.offer(sealed)
    assert backlog.batch() == sealed

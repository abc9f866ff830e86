"""How much a medium stores in the time of a lease."""

from __future__ import annotations

import pytest

from holdfast.leases.throughput import GATHERED_BYTES, LARGE_BYTES, Throughput
from holdfast.model.limits import MiB


def test_nothing_is_refused_before_anything_is_known() -> None:
    """Nor is what small appends say counted: they wait for other things than bytes."""
    throughput = Throughput()
    throughput.stored(LARGE_BYTES - 1, 100.0, 0.0)
    throughput.late(LARGE_BYTES - 1, 100.0, 0.0)
    assert throughput.bytes_max(5.0, 0.0) == 0


def test_a_message_may_take_a_third_of_the_lease() -> None:
    """By what was stored, the latest counting most."""
    throughput = Throughput()
    throughput.stored(30 * MiB, 3.0, 0.0)
    assert throughput.bytes_max(6.0, 0.0) == 20 * MiB
    throughput.stored(30 * MiB, 1.0, 1.0)
    assert throughput.bytes_max(6.0, 1.0) == 40 * MiB


def test_what_was_late_counts_for_less_than_it_took() -> None:
    """Nobody knows how far it came; each time again, and never below what is not large."""
    throughput = Throughput()
    throughput.late(30 * MiB, 3.0, 0.0)
    assert throughput.bytes_max(6.0, 0.0) == 14 * MiB
    for _ in range(5):
        throughput.late(LARGE_BYTES, 30.0, 0.0)
    assert throughput.bytes_max(6.0, 0.0) == LARGE_BYTES


def test_one_outage_makes_no_slow_store() -> None:
    """What was stored before counts as much as what was not."""
    throughput = Throughput()
    throughput.stored(50 * MiB, 1.0, 0.0)
    throughput.late(3 * MiB, 4.0, 1.0)
    assert throughput.bytes_max(5.0, 1.0) > 40 * MiB


def test_what_the_medium_refuses_itself_is_not_tried_for_a_while() -> None:
    """However quickly it stores: the less of both limits counts."""
    throughput = Throughput()
    throughput.refusals.gave_up(8 * MiB, 1000.0, 600.0)
    assert throughput.bytes_max(5.0, 1000.0) == 4 * MiB - 1
    assert throughput.batch_bytes_max(5.0, 1000.0) == (4 * MiB - 1) // 7
    throughput.late(3 * MiB, 5.0, 1000.0)
    assert throughput.bytes_max(5.0, 1000.0) < 3 * MiB
    throughput.stored(6 * MiB, 0.1, 1001.0)
    throughput.stored(6 * MiB, 0.1, 1001.0)
    throughput.stored(6 * MiB, 0.1, 1001.0)
    assert throughput.bytes_max(5.0, 1001.0) == 4 * MiB - 1
    assert throughput.bytes_max(5.0, 1601.0) > 7 * MiB


def test_a_slow_while_is_forgotten() -> None:
    """
    After each two minutes without anything large twice as much is tried: at first what takes two
    thirds of a lease where the medium is as slow as it was, so that trying does not cost it.
    """
    throughput = Throughput()
    throughput.late(30 * MiB, 3.0, -1.0)
    throughput.late(30 * MiB, 3.0, 0.0)
    assert throughput.bytes_max(6.0, 119.0) == 14 * MiB
    assert throughput.bytes_max(6.0, 121.0) == 28 * MiB
    assert throughput.bytes_max(6.0, 601.0) == 32 * 14 * MiB
    assert throughput.bytes_max(6.0, 1e9) > 64 * MiB
    throughput.stored(20 * MiB, 5.0, 700.0)
    assert throughput.bytes_max(6.0, 700.0) < 14 * MiB


def test_one_outage_while_nothing_is_known_counts_for_a_moment() -> None:
    """J8: a failover during the first large message; the next one that is late counts in full."""
    throughput = Throughput()
    throughput.late(3 * MiB, 3.0, 0.0)
    assert throughput.bytes_max(6.0, 30.0) == int(1.4 * MiB)
    assert throughput.bytes_max(6.0, 31.0) == 0

    throughput.late(3 * MiB, 3.0, 40.0)
    assert throughput.bytes_max(6.0, 100.0) == int(1.4 * MiB)


@pytest.mark.parametrize(("seconds", "bytes_max"), [(0.5, 0), (2.0, 3 * MiB)])
def test_the_same_again_tells_whether_it_was_slow(seconds: float, bytes_max: int) -> None:
    """What is stored at once the second time was no matter of how much it is."""
    throughput = Throughput()
    throughput.late(3 * MiB, 3.0, 0.0)
    throughput.stored(3 * MiB, seconds, 3.5)

    assert throughput.bytes_max(6.0, 4.0) == bytes_max


def test_what_is_known_is_not_doubted() -> None:
    """The same again says nothing where it was seen before how fast the medium is."""
    throughput = Throughput()
    throughput.stored(3 * MiB, 3.0, 0.0)
    throughput.late(3 * MiB, 3.0, 10.0)
    throughput.stored(3 * MiB, 0.1, 13.0)

    assert throughput.bytes_max(6.0, 100.0) == int(1.7 * MiB)


def test_what_goes_in_a_time_is_known_once_something_was_stored() -> None:
    """Of what is of some size; nothing is assumed before."""
    throughput = Throughput()
    assert throughput.bytes_in(2.0, 0.0) == 0
    throughput.stored(300_000, 0.3, 0.0)
    assert throughput.bytes_in(2.0, 0.0) == 2_000_000


def test_what_is_gathered_goes_by_what_was_stored_of_some_size() -> None:
    """Small appends say nothing; never less than is stored for nothing else."""
    throughput = Throughput()
    throughput.stored(GATHERED_BYTES - 1, 1.0, 0.0)
    throughput.late(GATHERED_BYTES - 1, 1.0, 0.0)
    assert throughput.batch_bytes_max(6.0, 0.0) == 0
    throughput.stored(300_000, 0.3, 0.0)
    assert throughput.batch_bytes_max(6.0, 0.0) == 2_000_000
    assert throughput.bytes_max(6.0, 0.0) == 0
    throughput.stored(GATHERED_BYTES, 1e6, 0.0)
    for _ in range(20):
        throughput.stored(GATHERED_BYTES, 1e6, 0.0)
    assert throughput.batch_bytes_max(6.0, 0.0) == GATHERED_BYTES


def test_each_time_that_what_was_gathered_is_late_it_is_less_by_half() -> None:
    """And soon more again, once it is stored in time."""
    throughput = Throughput()
    throughput.stored(MiB, 0.25, 0.0)
    for expected in (4, 2, 1):
        throughput.late(4 * MiB, 0.5, 0.0)
        assert throughput.batch_bytes_max(6.0, 0.0) == expected * MiB
    for _ in range(3):
        throughput.stored(MiB, 0.125, 0.0)
    assert throughput.batch_bytes_max(6.0, 0.0) > 14 * MiB


def test_what_is_late_twice_says_how_slow_the_store_has_become() -> None:
    """However fast it was before: each time more would cost the lease once more."""
    throughput = Throughput()
    throughput.stored(20 * MiB, 0.1, 0.0)
    throughput.late(20 * MiB, 4.0, 1.0)
    assert throughput.bytes_max(5.0, 1.0) > 20 * MiB, "it may have been an outage"
    throughput.late(20 * MiB, 4.0, 6.0)
    assert throughput.bytes_max(5.0, 6.0) < 7 * MiB
    throughput.stored(5 * MiB, 1.0, 8.0)
    throughput.late(20 * MiB, 4.0, 9.0)
    assert throughput.bytes_max(5.0, 9.0) < 10 * MiB

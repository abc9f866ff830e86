"""When a broker that waits may take the lease, by its own clock."""

from __future__ import annotations

from dataclasses import replace

from holdfast.leases.contract import Claimant, Holding, Place
from holdfast.leases.silence import Silence

END = Place(0, bytes(16))
HELD = Holding(
    epoch=3,
    beat=7,
    claimant=Claimant(holder="h" * 32, name="a", admin="", stomp=""),
    is_released=False,
    first_index=1,
    end=END,
    sure=END,
)


def test_silence_is_what_lies_between_two_readings_for_sure() -> None:
    """From the end of the first reading to the beginning of the next: no beat can be in between."""
    silence = Silence()

    assert 0.0 == silence.note(HELD, 10.0, 12.0)
    assert 8.0 == silence.note(HELD, 20.0, 23.0)


def test_a_beat_and_an_epoch_each_start_it_anew() -> None:
    """A beat that was given late counts as one given now, and so does another holder's take."""
    silence = Silence()
    silence.note(HELD, 10.0, 10.0)

    assert 0.0 == silence.note(replace(HELD, beat=8), 30.0, 31.0)
    assert 0.0 == silence.note(replace(HELD, epoch=4, beat=8), 60.0, 61.0)
    assert 1.0 == silence.note(replace(HELD, epoch=4, beat=8), 62.0, 62.0)


def test_an_old_observation_proves_nothing() -> None:
    """Hours without the medium are no silence if the beat is another one when it is back (L10)."""
    silence = Silence()
    silence.note(HELD, 10.0, 10.0)

    assert 0.0 == silence.note(replace(HELD, beat=9_000), 40_000.0, 40_000.0)


def test_who_is_alive_is_waited_for_in_full() -> None:
    """A lease is taken after the needed silence and not a moment before."""
    silence = Silence()

    assert not silence.may_take(HELD, 5.49, 5.5, "own")
    assert silence.may_take(HELD, 5.5, 5.5, "own")


def test_what_nobody_holds_is_taken_at_once() -> None:
    """Never held, given back, our own, or held by a process that is known to be gone."""
    silence = Silence()

    assert silence.may_take(replace(HELD, claimant=None), 0.0, 5.5, "own")
    assert silence.may_take(replace(HELD, is_released=True), 0.0, 5.5, "own")
    assert silence.may_take(HELD, 0.0, 5.5, "h" * 32)
    assert not silence.may_take(HELD, 0.0, 5.5, "own")
    assert silence.is_gone("h" * 32, 1.0)
    assert not silence.is_gone("h" * 32, 1.0)
    assert silence.may_take(HELD, 0.0, 5.5, "own")
    silence.forget_gone()
    assert not silence.may_take(HELD, 0.0, 5.5, "own")


def test_a_holder_that_lives_is_not_said_to_be_gone_twice() -> None:
    """One sign of life may have been on its way when its process died; two tell that it lives."""
    silence = Silence()
    silence.note(replace(HELD, beat=1), 0.0, 0.0)
    assert silence.is_gone("h" * 32, 0.5)
    silence.note(replace(HELD, beat=1), 0.9, 0.9)

    silence.note(replace(HELD, beat=2), 1.0, 1.0)
    assert silence.may_take(HELD, 0.0, 5.5, "own")
    silence.note(replace(HELD, beat=3), 2.0, 2.0)
    assert not silence.may_take(HELD, 0.0, 5.5, "own")
    assert not silence.is_gone("h" * 32, 2.5)
    assert not silence.may_take(HELD, 0.0, 5.5, "own")
    assert silence.is_gone("x" * 32, 2.5)


def test_what_a_holder_gave_while_it_lived_is_no_sign_of_its_life() -> None:
    """
    The reading under way, and the first one after it was told to be gone, find what is of before;
    after that its last append may still come, and is no reason to wait for its lease.
    """
    silence = Silence()
    silence.note(replace(HELD, beat=1), 0.0, 0.0)
    assert silence.is_gone("h" * 32, 1.0)
    for beat, began in ((5, 0.9), (9, 1.1), (10, 1.2)):
        silence.note(replace(HELD, beat=beat), began, 1.3)
        assert silence.may_take(HELD, 0.0, 5.5, "own")

    silence.note(replace(HELD, beat=11), 1.3, 1.3)
    assert not silence.may_take(HELD, 0.0, 5.5, "own")


def test_what_another_machine_seems_to_tell_counts_once_it_has_been_silent() -> None:
    """What stands between may refuse for a holder that lives: that gives its signs all the time."""
    silence = Silence()
    silence.note(HELD, 10.0, 10.0)
    assert silence.is_gone("h" * 32, 10.0, still_seconds=2.0)
    for second in range(11, 20):
        held = replace(HELD, beat=second)
        silent = silence.note(held, float(second), float(second))
        assert not silence.may_take(held, silent, 10.0, "own")
    assert not silence.is_gone("h" * 32, 20.0), "it lived: that is not believed again"

    other = Silence()
    other.note(HELD, 10.0, 10.0)
    other.is_gone("h" * 32, 10.0, still_seconds=2.0)
    assert not other.may_take(HELD, other.note(HELD, 11.9, 11.9), 10.0, "own")
    assert other.may_take(HELD, other.note(HELD, 12.0, 12.0), 10.0, "own")
    assert other.may_take(HELD, 1.0, 1.0, "own"), "a lease that is over by itself is"

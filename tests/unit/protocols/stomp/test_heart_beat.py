"""Heart-beats and the connect timeout, on a clock that is an argument."""

from __future__ import annotations

import pytest

from holdfast.errors import RemoteProtocolError
from holdfast.protocols.stomp.heart_beat import HeartBeat, HeartBeats, parse_heart_beat
from holdfast.protocols.stomp.settings import StompSettings

SETTINGS = StompSettings(
    connect_timeout_seconds=30.0,
    heart_beat_grace_factor=1.5,
    heart_beat_grace_seconds_min=0.5,
    heart_beat_send_fraction=0.5,
)


def beating(mine: tuple[int, int], theirs: tuple[int, int]) -> HeartBeats:
    """An established connection at time 100 with these heart-beat headers."""
    beats = HeartBeats(SETTINGS, opened_at=100.0)
    beats.note_connected()
    beats.negotiate(mine, theirs)
    return beats


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, (0, 0)), ("0,0", (0, 0)), ("1000,2000", (1000, 2000)), (" 5 , 6 ", (5, 6))],
)
def test_the_header_is_read(value: str | None, expected: tuple[int, int]) -> None:
    """
    A missing header is 0,0; padding is forgiven.
    """
    assert expected == parse_heart_beat(value)


@pytest.mark.parametrize(
    "value", ["", "1", "1,2,3", "-1,0", "a,b", "1.5,2", "²,1", "9" * 5000, "\u2003 5,6", "1_0,5"]
)
def test_nonsense_in_the_header_is_an_error(value: str) -> None:
    """
    Two plain numbers of milliseconds, or the peer is told.
    """
    with pytest.raises(RemoteProtocolError) as caught:
        parse_heart_beat(value)

    assert caught.value.code == "bad-heart-beat"


@pytest.mark.parametrize(
    ("mine", "theirs", "outgoing", "incoming"),
    [
        ((0, 0), (1000, 1000), 0.0, 0.0),
        ((1000, 1000), (0, 0), 0.0, 0.0),
        ((1000, 0), (0, 2000), 2.0, 0.0),
        ((3000, 0), (0, 2000), 3.0, 0.0),
        ((0, 4000), (2000, 0), 0.0, 6.0),
        ((0, 2000), (4000, 0), 0.0, 6.0),
        ((0, 100), (100, 0), 0.0, 0.6),
    ],
)
def test_both_sides_must_agree_and_the_larger_number_counts(
    mine: tuple[int, int], theirs: tuple[int, int], outgoing: float, incoming: float
) -> None:
    """
    STOMP 1.2, Heart-beating: MAX of the two, 0 switches off. Incoming beats get their grace:
    half an interval, or half a second where intervals are short.
    """
    beats = beating(mine, theirs)

    assert outgoing == pytest.approx(beats.outgoing_seconds)
    assert incoming == pytest.approx(beats.incoming_seconds)


def test_a_beat_is_due_before_the_promised_interval_is_over() -> None:
    """
    At half the interval of silence, until something is sent.
    """
    beats = beating((1000, 0), (0, 1000))

    assert beats.deadline == 100.5
    assert beats.handle_deadline(100.4) is HeartBeat.NOTHING
    assert beats.handle_deadline(100.5) is HeartBeat.SEND
    beats.sent_at = 100.5
    assert beats.handle_deadline(100.9) is HeartBeat.NOTHING
    assert beats.deadline == 101.0


def test_a_silent_peer_is_dead_after_its_grace() -> None:
    """
    Any octet keeps it alive; being late by less than the grace does not kill.
    """
    beats = beating((0, 1000), (1000, 0))

    assert beats.deadline == 101.5
    assert beats.handle_deadline(101.4) is HeartBeat.NOTHING
    beats.received_at = 101.4
    assert beats.handle_deadline(102.8) is HeartBeat.NOTHING
    assert beats.handle_deadline(102.9) is HeartBeat.PEER_DEAD


def test_death_goes_before_a_beat() -> None:
    """
    A dead peer is not sent another beat.
    """
    beats = beating((1000, 1000), (1000, 1000))

    assert beats.handle_deadline(200.0) is HeartBeat.PEER_DEAD


def test_without_heart_beats_there_is_no_deadline() -> None:
    """
    Neither side asked: nothing is ever due.
    """
    beats = beating((0, 0), (0, 0))

    assert beats.deadline is None
    assert beats.handle_deadline(1e9) is HeartBeat.NOTHING


def test_a_client_that_does_not_connect_in_time_is_given_up() -> None:
    """
    The connect timeout runs from the opening, octets or not, until CONNECT is complete.
    """
    beats = HeartBeats(SETTINGS, opened_at=100.0)
    beats.received_at = 129.0

    assert beats.deadline == 130.0
    assert beats.handle_deadline(129.9) is HeartBeat.NOTHING
    assert beats.handle_deadline(130.0) is HeartBeat.PEER_DEAD
    beats.note_connected()
    assert beats.deadline is None


def test_without_an_opening_time_clocks_start_with_the_first_octets() -> None:
    """
    A connection that was not told when it opened has no timeout, and beats from its first use.
    """
    beats = HeartBeats(SETTINGS, opened_at=None)
    beats.negotiate((1000, 1000), (1000, 1000))

    assert beats.deadline is None
    beats.sent_at = 10.0
    beats.received_at = 10.0
    assert beats.deadline == 10.5

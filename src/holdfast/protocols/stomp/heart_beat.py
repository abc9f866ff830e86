"""
Heart-beats and the connect timeout as deadlines; time is always an argument, in seconds.

STOMP 1.2, Heart-beating: each side says how often it can beat and how often it wants beats, in
milliseconds; 0 means it cannot or does not want. A direction beats only if both agree, at the
larger of the two numbers. Any octet counts as a beat, a lone line end is one if nothing else is
due. Beats that are a little late are forgiven: real clients' timers drift.
"""

from __future__ import annotations

import enum

from holdfast.errors import RemoteProtocolError
from holdfast.model.digits import read_digits
from holdfast.protocols.stomp.settings import StompSettings

HEART_BEAT = b"\n"
"""What to send when a beat is due."""

_MILLISECONDS_DIGITS_MAX = 10


class HeartBeat(enum.Enum):
    """What is due at a deadline."""

    NOTHING = "nothing"
    SEND = "send"
    """Write `HEART_BEAT` and note that it is sent."""
    PEER_DEAD = "peer-dead"
    """Silent for too long, or CONNECT did not come in time: close the connection."""


def parse_heart_beat(value: str | None) -> tuple[int, int]:
    """
    Read a heart-beat header: milliseconds the peer can send in, and wants to receive in.

    Raises:
        RemoteProtocolError: `bad-heart-beat`.
    """
    if value is None:
        # STOMP 1.2, Heart-beating: a missing header is the same as 0,0.
        return 0, 0
    first, _, second = value.partition(",")
    sends = read_digits(first.strip(" \t"), _MILLISECONDS_DIGITS_MAX)
    wants = read_digits(second.strip(" \t"), _MILLISECONDS_DIGITS_MAX)
    if sends is None or wants is None:
        raise RemoteProtocolError(
            f"heart-beat {value[:40]!r}; expected two numbers of milliseconds",
            code="bad-heart-beat",
        )
    return sends, wants


class HeartBeats:
    """The deadlines of one connection, from its opening to its end."""

    __slots__ = (
        "_connect_by",
        "_incoming_seconds",
        "_outgoing_seconds",
        "_settings",
        "received_at",
        "sent_at",
    )

    def __init__(self, settings: StompSettings, *, opened_at: float | None) -> None:
        """With `opened_at` the peer must connect within the timeout; None waits for ever."""
        self._settings = settings
        self._connect_by = (
            None if opened_at is None else opened_at + settings.connect_timeout_seconds
        )
        self.sent_at = opened_at
        """When octets last went out, or it was opened; whoever sends them says so."""
        self.received_at = opened_at
        """When octets last came in, or it was opened; whoever takes them says so."""
        self._outgoing_seconds = 0.0
        self._incoming_seconds = 0.0

    @property
    def outgoing_seconds(self) -> float:
        """The interval we promised to send in; 0 for none."""
        return self._outgoing_seconds

    @property
    def incoming_seconds(self) -> float:
        """The silence after which the peer is dead; 0 for never."""
        return self._incoming_seconds

    def note_connected(self) -> None:
        """The connect timeout is over."""
        self._connect_by = None

    def negotiate(self, mine: tuple[int, int], theirs: tuple[int, int]) -> None:
        """Agree on intervals from (can send, want to receive) of either side, in milliseconds."""
        settings = self._settings
        can_send, want_receive = mine
        peer_sends, peer_wants = theirs
        self._outgoing_seconds = (
            max(can_send, peer_wants) / 1000 if can_send and peer_wants else 0.0
        )
        interval = max(want_receive, peer_sends) / 1000 if want_receive and peer_sends else 0.0
        # STOMP 1.2, Heart-beating: the receiver should be tolerant and take an error margin into
        # account, because of timing inaccuracies.
        self._incoming_seconds = interval and max(
            interval * settings.heart_beat_grace_factor,
            interval + settings.heart_beat_grace_seconds_min,
        )

    @property
    def deadline(self) -> float | None:
        """When `handle_deadline` should be called at the latest; None for never."""
        times = [
            time
            for time in (self._connect_by, self._silent_at(), self._beat_at())
            if time is not None
        ]
        return min(times, default=None)

    def handle_deadline(self, now: float) -> HeartBeat:
        """Say what is due; changes nothing, so a beat is due until one was sent."""
        for death in (self._connect_by, self._silent_at()):
            if death is not None and now >= death:
                return HeartBeat.PEER_DEAD
        beat_at = self._beat_at()
        if beat_at is not None and now >= beat_at:
            return HeartBeat.SEND
        return HeartBeat.NOTHING

    def _silent_at(self) -> float | None:
        if not self._incoming_seconds or self.received_at is None:
            return None
        return self.received_at + self._incoming_seconds

    def _beat_at(self) -> float | None:
        if not self._outgoing_seconds or self.sent_at is None:
            return None
        return self.sent_at + self._outgoing_seconds * self._settings.heart_beat_send_fraction

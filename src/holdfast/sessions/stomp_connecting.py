"""
CONNECT: who a client is, what is agreed upon with it, and what waits while the first is found out.

As long as a login is under way nothing of the client is done, and nothing that comes is parsed: a
stranger is worth its bytes and no more. The loop does not read on meanwhile.

Owned by its session.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.protocols.stomp.codec import encode_frame
from holdfast.protocols.stomp.connection import StompConnection
from holdfast.protocols.stomp.frames import Frame
from holdfast.sessions.context import SessionContext
from holdfast.sessions.credentials import Credential

HEART_BEAT_MS_MIN: Final = 200
"""A client that wants beats more often gets them so often: one is sent at the look at the clock
that follows half of the interval, and a node at rest looks every 80 ms."""


LOGIN_SECONDS_MAX: Final = 30.0
"""So long a login may be looked at: a thousand passwords that come at once take ten seconds."""


class Login:
    """A CONNECT that waits for its answer, and what came behind it."""

    __slots__ = ("deadline", "frame", "unread")

    def __init__(self, frame: Frame, deadline: float | None) -> None:
        self.frame = frame
        self.deadline = deadline
        """When the client is given up; None for never."""
        self.unread = b""
        """What came since, as it came."""


def login_by(connect_by: float | None, now: float) -> float | None:
    """
    Give when a client is given up whose login is being looked at; None: never.

    The time in which it has to connect stands still for so long: it is our work that takes it.
    """
    return None if connect_by is None else max(connect_by, now + LOGIN_SECONDS_MAX)


def read_credential(headers: Mapping[str, str]) -> Credential:
    """Give what a CONNECT shows."""
    return Credential(headers.get("login", ""), headers.get("passcode", ""))


def connected(
    protocol: StompConnection, context: SessionContext, session_id: str, said: Mapping[str, str]
) -> bytes:
    """Agree upon heart-beats, and give the CONNECTED frame."""
    headers = [
        ("version", protocol.version),
        ("session", session_id),
        ("server", context.server),
        ("heart-beat", _heart_beats(protocol)),
        ("holdfast-cluster", context.cluster),
        ("holdfast-term", str(context.term)),
        ("holdfast-node", context.node),
    ]
    if context.promotion:
        headers.append(("holdfast-promotion", context.promotion))
    request = said.get("request-id") or said.get("receipt")
    if request is not None:
        headers += [("response-id", request), ("receipt-id", request)]
    return encode_frame("CONNECTED", headers, b"", protocol.version)


def _heart_beats(protocol: StompConnection) -> str:
    """Promise what the client wants and want what it promises, as ActiveMQ does."""
    theirs = protocol.peer_heart_beat
    mine = tuple(max(HEART_BEAT_MS_MIN, beat) if beat else 0 for beat in reversed(theirs))
    outgoing, incoming = mine
    protocol.negotiate_heart_beats((outgoing, incoming), theirs)
    return f"{outgoing},{incoming}"

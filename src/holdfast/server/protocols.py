"""
What clients may speak with this node: one line for each protocol.

A port that is bound to one of them is given that one alone; one that is given several finds out by
the first bytes of each client.
"""

from __future__ import annotations

from typing import Final

from holdfast.protocols.detect import by_words
from holdfast.protocols.stomp.codec import encode_frame
from holdfast.protocols.stomp.settings import StompSettings
from holdfast.protocols.stomp.states import CLIENT_COMMANDS
from holdfast.sessions.registration import Arrival, Registration
from holdfast.sessions.session import Session
from holdfast.sessions.stomp import StompSession

TLS_REQUIRED: Final = "tls-required"
"""The code of the answer to a client that speaks in clear where TLS is spoken."""

TLS_IS_SPOKEN: Final = encode_frame(
    "ERROR",
    [("message", "this port speaks TLS, and no STOMP in clear"), ("code", TLS_REQUIRED)],
    b"",
    "1.2",
)
"""That answer: who speaks in clear speaks the one protocol that there is."""


def served(stomp: StompSettings) -> tuple[Registration, ...]:
    """Give all protocols, with their settings."""

    def accept_stomp(arrival: Arrival) -> Session:
        return StompSession(
            arrival.broker,
            arrival.context,
            stomp,
            arrival.read_message,
            opened_at=arrival.opened_at,
        )

    return (Registration("STOMP", by_words(CLIENT_COMMANDS, b"\r\n"), accept_stomp),)

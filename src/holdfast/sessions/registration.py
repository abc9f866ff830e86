"""
How a protocol is served: its name, by what its first bytes are known, and who makes its sessions.

A port speaks one protocol or several. Where it is one, its session is there from the first byte;
where there are several, the client's first bytes choose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from holdfast.broker.broker import Broker
from holdfast.model.records import MessageRecord
from holdfast.protocols.detect import Recognizes
from holdfast.sessions.context import SessionContext
from holdfast.sessions.session import Session


class Arrival(NamedTuple):
    """What a session needs of the node that it begins on."""

    broker: Broker
    context: SessionContext
    read_message: Callable[[int], MessageRecord]
    """Reads a stored message by record number; a rejected one may not be in memory."""
    opened_at: float
    """When the socket was opened, in seconds of the monotonic clock."""


class Registration(NamedTuple):
    """One protocol that is served."""

    name: str
    recognizes: Recognizes
    accept: Callable[[Arrival], Session]
    """Makes the session of a client that speaks it."""

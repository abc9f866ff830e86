"""
A client of a port that speaks several protocols, until its first bytes tell which one is meant.

Then the right session takes its place, as if it had been there from the beginning, and is given
what came. What nobody speaks is answered with a sentence in plain text, as good a guess as any, and
the connection ends; so does one that says nothing in time.

Invariants:
    It keeps less of what came than the first bytes that are looked at.

Owned by the loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.broker.errands import IsSpent
from holdfast.broker.serving.consumer import Consumer
from holdfast.broker.serving.message import TransientMessage
from holdfast.errors import RemoteProtocolError
from holdfast.model.records import MessageRecord
from holdfast.protocols.detect import choose, without_line_ends
from holdfast.sessions.registration import Arrival, Registration
from holdfast.sessions.session import Session

SILENT_SECONDS_MAX: Final = 30.0
"""Who has said nothing by then is closed: as long as a STOMP client may take to connect."""


def begin(protocols: tuple[Registration, ...], arrival: Arrival) -> Session:
    """Make the session of a new client of a port that speaks these protocols, at least one."""
    if len(protocols) == 1:
        return protocols[0].accept(arrival)
    return Undecided(protocols, arrival)


class Undecided(Session):
    """One connection of which it is not known yet what it speaks."""

    def __init__(self, protocols: tuple[Registration, ...], arrival: Arrival) -> None:
        super().__init__(f"{arrival.context.node}-{arrival.context.term}-undecided")
        self._protocols = protocols
        self._arrival = arrival
        self._start = b""
        self._received_at = arrival.opened_at
        self._is_deaf = False

    @property
    def protocol_name(self) -> str:
        return "undecided"

    def receive(self, data: bytes, is_spent: IsSpent = lambda: False) -> bool:
        if self.is_closing or self._is_deaf:
            return True
        start = without_line_ends(self._start + data)
        try:
            chosen = choose(start, self._protocols)
        except RemoteProtocolError as error:
            self._arrival.context.refusals.note(self, error.code, str(error))
            self._end(str(error))
            return True
        if chosen is None:
            self._start = start
            return True
        return self._give_way(chosen).receive(start, is_spent)

    def _give_way(self, chosen: Registration) -> Session:
        connection = self.connection
        assert connection is not None, "what is read has a connection"
        session = chosen.accept(self._arrival)
        session.connection = connection
        session.room_bytes = self.room_bytes
        connection.session = session
        if self.is_gone:
            session.disconnected()
        self.connection = None
        return session

    def _end(self, text: str) -> None:
        self._start = b""
        self.is_closing = True
        self._arrival.context.dirty.append(self)
        self.out.append(f"{text}\n".encode())

    @property
    def unfinished_bytes(self) -> int:
        return len(self._start)

    def give_up(self) -> None:
        self._is_deaf = True
        self._start = b""

    @property
    def received_at(self) -> float | None:
        return self._received_at

    def note_received(self, now: float) -> None:
        self._received_at = now

    @property
    def deadline(self) -> float | None:
        return self._arrival.opened_at + SILENT_SECONDS_MAX

    def handle_deadline(self, now: float) -> bytes | None:
        return None if now >= self._arrival.opened_at + SILENT_SECONDS_MAX else b""

    def deliver(
        self,
        subscription: Consumer,
        key: int,
        message: MessageRecord | TransientMessage,
        *,
        redelivered: int,
    ) -> None:
        raise AssertionError("who has subscribed to nothing is given nothing")

    def reply(self, receipt: bytes) -> None:
        raise AssertionError("who has asked for nothing is told nothing")

    def confirm(self, receipt: bytes) -> None:
        raise AssertionError("who has published nothing is told nothing")

    def recount_room(self) -> None:
        """Nothing was given room."""

    def farewell(self, text: str, code: str) -> None:
        self._arrival.context.refusals.count(code)
        self._end(text)

    def leaving(self) -> Iterator[None]:
        return iter(())

    @property
    def held_count(self) -> int:
        return 0

"""
What clients make this node hold, and who is closed when that is too much.

Frames that have not come whole, open transactions, what waits for subscribers of topics, answers
and deliveries that nobody takes: each has its limits, for a connection and for the node. Clients
that stay below each could still fill the memory together, so all of it has one more. From half of
it on nobody is read who does not take what it asked for; past it whoever has the most, of all kinds
together, is closed with an ERROR. Those with little, most, never notice.

To find out who has the most takes 20 ms of ten thousand, and to close thousands takes longer: a
look goes on from tick to tick, and there is none while all that is too much is of those who go.

Invariants:
    Who is being closed counts until its socket is; but nobody else is closed for what it holds.

Owned by the loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Iterator
from typing import Final

import structlog

from holdfast.broker.broker import Broker
from holdfast.broker.errands import IsSpent
from holdfast.server.connection import ClientConnection
from holdfast.server.containment import Containment
from holdfast.server.departures import Departures
from holdfast.server.greediest import greediest
from holdfast.server.settings import ServerSettings
from holdfast.server.shared_messages import SharedMessages
from holdfast.server.slow_consumers import SLOW_CONSUMER, SlowConsumers
from holdfast.server.standing_frames import UNFINISHED_TOO_LONG, StandingFrames
from holdfast.server.unfinished_frames import TOO_MUCH_UNFINISHED, UnfinishedFrames
from holdfast.sessions.permissions import sharer
from holdfast.sessions.session import LARGE_BYTES, Session

log = structlog.get_logger("holdfast.server")

TOO_MUCH_HELD: Final = "too-much-held"

_LOOKED_AT_PER_STEP: Final = 64


class HeldMemory:
    """Watches what is held for clients of one node."""

    __slots__ = (
        *("_broker", "_containment", "_departures", "_leaving", "_looking", "_settings"),
        *("_standing", "_unsent"),
        *("is_half_full", "shared", "slow_consumers", "unfinished", "unsent_bytes"),
    )

    def __init__(
        self,
        broker: Broker,
        settings: ServerSettings,
        containment: Containment,
        departures: Departures,
    ) -> None:
        self._broker = broker
        self._settings = settings
        self._containment = containment
        self._departures = departures
        self.unfinished = UnfinishedFrames(settings.unfinished_bytes_max, self._whose)
        self._standing = StandingFrames(self.unfinished.sizes, settings.unfinished_seconds_max)
        self.slow_consumers = SlowConsumers(broker, settings)
        self.unsent_bytes = 0
        """What sockets have not taken; too much at times, see `_count_unsent`."""
        self.shared = SharedMessages()
        """What several of them have not taken, which is not in that."""
        self._unsent: dict[ClientConnection, int] = {}
        self._leaving: dict[ClientConnection, int] = {}
        """Who is being closed for it, and what it held then; whoever went first stands first."""
        self._looking: Iterator[None] | None = None
        """The rest of a look that was begun."""
        self.is_half_full = False

    def _whose(self, connection: ClientConnection) -> str | None:
        return sharer(connection.session, self._broker)

    @property
    def bytes(self) -> int:
        """All of it."""
        backlogs = self._broker.publishing.backlogs.total_bytes
        unsent = self.unsent_bytes + self.shared.bytes
        return self.unfinished.bytes + self._broker.flow.held_bytes + backlogs + unsent

    def note_unfinished(self, connection: ClientConnection, size: int, until: float) -> None:
        """
        Take note of how much of a connection's last frame is there; too much closes the largest.

        Args:
            until: When the last word need not be waited for any more.
        """
        connection.has_unfinished = size > 0
        self.unfinished.note(connection, size)
        while (found := self.unfinished.take_largest()) is not None:
            self._close(*found, TOO_MUCH_UNFINISHED, until)

    def close_standing(self, now: float) -> None:
        """Close those whose frames stand still; they are given a while for the last word."""
        for connection, why in self._standing.look(now):
            self._close(connection, why, UNFINISHED_TOO_LONG, now + self._settings.drain_seconds)

    def note_unsent(self, connection: ClientConnection, size: int) -> None:
        """Take note of what a connection's socket has not taken."""
        large = connection.session.large
        if large:
            self.shared.give(connection, large)
            large.clear()
        left = size if size >= LARGE_BYTES else 0
        self.shared.taken(connection, connection.written_bytes - left)
        own = max(size - self.shared.of(connection), 0)
        self.unsent_bytes += own - self._unsent.pop(connection, 0)
        connection.has_unsent = size > 0
        if own:
            self._unsent[connection] = own

    def close_slow_consumers(self) -> None:
        """Close whom too much of topics waits for."""
        for session, why in self.slow_consumers.look():
            assert isinstance(session, Session), "every receiver here is a session"
            log.warning("a slow consumer is closed", session=session.id, reason=why)
            session.farewell(why, SLOW_CONSUMER)
            self._containment.leave(session)
            if session.connection is not None:
                session.connection.flush()

    def look(
        self,
        connections: Collection[ClientConnection],
        until: float,
        is_spent: IsSpent = lambda: False,
    ) -> None:
        """
        Close whoever holds the most, while all hold too much; `until` as above.

        Where `is_spent` says that the time is over, the next call goes on.
        """
        if self._looking is None and self._over() > 0:
            self._looking = self._close_largest(connections, until)
        if self._looking is not None and self._go_on(self._looking, is_spent):
            self._looking = None
        bytes_max = self._settings.held_bytes_max
        self.is_half_full = 2 * self.bytes > bytes_max
        while self._leaving and 2 * self.bytes > 3 * bytes_max:
            self.forget(next(iter(self._leaving)))
            if is_spent():
                return

    @staticmethod
    def _go_on(steps: Iterator[None], is_spent: IsSpent) -> bool:
        """Do steps until the time is over; whether all are done."""
        return not any(is_spent() for _ in steps)

    def _over(self) -> int:
        """By how much all hold too much, without those who are being closed."""
        return self.bytes - sum(self._leaving.values()) - self._settings.held_bytes_max

    def _close_largest(
        self, connections: Collection[ClientConnection], until: float
    ) -> Iterator[None]:
        """Close whoever holds the most, in steps."""
        yield from self._count_unsent()
        over, held = self._over(), self.bytes
        if over <= 0:
            return
        sizes = yield from self._by_connection(connections)
        for connection, size in greediest(sizes, self._whose):
            if over <= 0:
                break
            if connection.is_lost or connection in self._leaving:
                continue  # Meanwhile.
            why = (
                f"this connection makes the node hold {size:,} bytes, the most of any (where there"
                f" are users, of those of the user who has it hold the most), and all together"
                f" {held:,}, at most {self._settings.held_bytes_max:,}: frames that are not whole,"
                f" open transactions, and what it does not read"
            )
            self._leaving[connection] = size
            self._close(connection, why, TOO_MUCH_HELD, until)
            over -= size
            yield

    def forget(self, connection: ClientConnection) -> None:
        """Count no more what a connection held: it is gone, or ended here and now."""
        self.unfinished.note(connection, 0)
        self.note_unsent(connection, 0)
        if self._leaving.pop(connection, None) is not None and not connection.is_lost:
            connection.transport.abort()

    def clear(self) -> None:
        """Forget all: nobody is connected any more."""
        self.unfinished.clear()
        self._unsent.clear()
        self.shared.clear()
        self._leaving.clear()
        self._looking = None
        self.unsent_bytes = 0
        self.is_half_full = False

    def _count_unsent(self) -> Iterator[None]:
        """Look again, in steps, how much there is: it shrinks without a word."""
        for place, connection in enumerate({**self._unsent, **dict.fromkeys(self.shared)}, 1):
            if not connection.is_lost:
                self.note_unsent(connection, connection.transport.get_write_buffer_size())
            if not place % _LOOKED_AT_PER_STEP:
                yield

    def _by_connection(
        self, connections: Collection[ClientConnection]
    ) -> Generator[None, None, Counter[ClientConnection]]:
        sizes: Counter[ClientConnection] = Counter(self._unsent)
        yield
        sizes.update(self.unfinished.sizes)
        yield
        for connection in self.shared:
            sizes[connection] += self.shared.of(connection)
        yield
        for receiver, size in self._broker.publishing.backlogs.sizes.items():
            whose = receiver.connection if isinstance(receiver, Session) else None
            if isinstance(whose, ClientConnection):
                sizes[whose] += size
        yield
        for connection in connections:
            if connection.session.transactions:
                sizes[connection] += connection.session.transaction_bytes
        return sizes

    def _close(self, connection: ClientConnection, why: str, code: str, until: float) -> None:
        log.warning("a client is closed", session=connection.session.id, reason=why)
        connection.session.farewell(why, code)
        connection.session.give_up()
        self.unfinished.note(connection, 0)
        if code == TOO_MUCH_HELD:
            self._containment.leave(connection.session)
            connection.flush()
        self._departures.parting(connection, until)

"""
The clients of one node: who is there, who brought something, and who is not read for now.

They come, are read in slices, wait where there is no room, and go. What they ask is done by their
sessions; here is only when.

Invariants:
    A client that was not read in this turn goes first in the next.
    A mistake of ours at one client's request costs that client, and nobody else.

Owned by the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Final, Protocol

from holdfast.broker.broker import Broker
from holdfast.environment.clock import Clock
from holdfast.security.principal import Principal
from holdfast.server.connection import ClientConnection
from holdfast.server.containment import Containment
from holdfast.server.departures import Departures
from holdfast.server.heart_beats import HeartBeats
from holdfast.server.held_memory import HeldMemory
from holdfast.server.idleness import client_admission, give_way, is_session_idle, turn_away
from holdfast.server.pausing import Pausing
from holdfast.server.reading import Reading
from holdfast.server.resuming import Resuming
from holdfast.server.role import Role
from holdfast.server.sealer import Sealer
from holdfast.server.settings import ServerSettings
from holdfast.server.turn_budget import TurnBudget
from holdfast.sessions.context import SessionContext
from holdfast.sessions.credentials import Answer
from holdfast.sessions.registration import Arrival, Registration
from holdfast.sessions.session import Connection
from holdfast.sessions.undecided import begin
from holdfast.store.contract import LogStore

_WAITING_PER_TURN: Final = 256
"""Clients whose SENDs wait for room that are asked in one turn."""


class Loop(Protocol):
    """The conductor whose clients they are, as far as they need its parts."""

    settings: ServerSettings
    clock: Clock
    broker: Broker
    store: LogStore
    context: SessionContext
    containment: Containment
    heart_beats: HeartBeats
    held_memory: HeldMemory
    budget: TurnBudget
    sealer: Sealer
    role: Role
    departures: Departures
    resuming: Resuming

    def schedule(self) -> None:
        """Turn as soon as the sockets that are ready now have been read."""


class Clients:
    """The connections of one node."""

    __slots__ = (
        *(
            "_broker",
            "_budget",
            "_containment",
            "_context",
            "_departures",
            "_heart_beats",
            "_now",
            "_resuming",
        ),
        *("_role", "_sealer", "_store", "admission", "clock", "coming", "commit_count"),
        *(
            "connections",
            "held_memory",
            "make_way",
            "paused",
            "protocols",
            "reading",
            "ready",
            "receipts",
            "received_bytes",
            "schedule",
        ),
        "settings",
    )

    def __init__(self, loop: Loop, protocols: tuple[Registration, ...]) -> None:
        self.protocols = protocols
        self.settings = loop.settings
        self.clock = loop.clock
        self.held_memory = loop.held_memory
        self.schedule = loop.schedule
        """Asks for a turn soon."""
        self._broker = loop.broker
        self.receipts = loop.broker.receipts
        self._store = loop.store
        self._context = loop.context
        loop.broker.destinations.read_selector = loop.context.selections.read_of_topic
        self._containment = loop.containment
        self._heart_beats = loop.heart_beats
        self._budget = loop.budget
        self._sealer = loop.sealer
        self._role = loop.role
        self._departures = loop.departures
        self._resuming = loop.resuming
        self.connections: set[ClientConnection] = set()
        loop.broker.advising.speaker = loop.context
        loop.broker.advising.connections = self.connections
        self.admission = client_admission(loop.settings.connection_count_max)
        shares = loop.context.connection_shares
        shares.count_max = loop.settings.connection_count_max
        shares.is_idle = lambda session: is_session_idle(session, self.clock.monotonic())
        shares.turn_away = give_way
        self.make_way: Callable[[], None] = lambda: None
        """Called when one more is inside: what room is left is lent to who comes by TLS."""
        self.reading = Reading(loop.settings)
        self.ready: list[ClientConnection] = []
        """Who brought something, of those who have said who they are."""
        self.coming: list[ClientConnection] = []
        """The same of those who have not."""
        self.paused = Pausing()
        self.commit_count = 0
        self.received_bytes = 0
        """What all clients sent since the last commit, while something waits to be committed."""
        self._now = 0.0
        """When this turn began."""

    def opened(self, connection: ClientConnection) -> None:
        """Take a new client, or turn it away."""
        now = self.clock.monotonic()
        arrival = Arrival(self._broker, self._context, self._store.read, now)
        session = begin(connection.protocols, arrival)
        session.connection = connection
        session.room_bytes = self.settings.output_bytes_max
        connection.session = session
        if not self._role.is_serving:
            connection.transport.abort()
            return
        leaving = self.admission.enter(connection, now)
        self.make_way()
        if leaving is not None:
            turn_away(leaving)
        if leaving is connection:
            return
        self.connections.add(connection)
        self.reading.share(len(self.connections))

    def is_there(self, connection: Connection) -> bool:
        """Whether a connection is not lost yet."""
        return connection in self.connections

    def principals(self) -> Iterator[Principal]:
        """Give who is connected, each client's; they may come and go before the last one."""
        for connection in tuple(self.connections):
            if (who := connection.session.principal) is not None:
                yield who

    def authenticated(self, connection: Connection, answer: Answer) -> None:
        """Tell a session who its client is, if it is still there, and go on with what waited."""
        if connection not in self.connections:
            return
        assert isinstance(connection, ClientConnection), "one of these"
        try:
            connection.session.authenticated(answer)
        except Exception as error:  # noqa: BLE001 - a mistake of ours costs one client
            self._containment.broke(connection.session, error)
            return
        if not connection.is_ready:
            connection.is_ready = True
            self.ready.append(connection)
        self.schedule()

    def lost(self, connection: ClientConnection) -> None:
        """Give back what a client held."""
        self.admission.leave(connection)
        self._departures.parted(connection)
        self.held_memory.forget(connection)
        if connection in self.connections:
            self.paused.forget(connection)
            connection.session.room_bytes = 0
            self._serve_deferred(connection)
            if not connection.is_ready:  # Else what it sent before it went is read first.
                self._forget(connection)
            self.schedule()

    def _forget(self, connection: ClientConnection) -> None:
        self.connections.discard(connection)
        self.reading.share(len(self.connections))
        self.held_memory.forget(connection)
        self._departures.gone(connection)

    def pause(self, connection: ClientConnection) -> None:
        """Stop reading from a client until there is room for more."""
        self.paused.add(connection)

    def output_drained(self, connection: ClientConnection) -> None:
        """Let a client have deliveries again: its socket has caught up."""
        connection.session.room_bytes = self.settings.output_bytes_max
        self._resuming.later(connection)
        self._serve_deferred(connection)
        self.schedule()

    def _serve_deferred(self, connection: ClientConnection) -> None:
        if connection.is_deferred:
            connection.is_deferred = False
            self.ready.append(connection)

    def attend(self, now: float) -> None:
        """Keep clients' heart-beats, and see off who is gone."""
        if self._heart_beats.is_under_way:
            self._budget.begin()
            self._heart_beats.step(now, self._budget.is_spent)
        if self._departures.are_waiting:
            self._budget.begin()
            self._departures.step(self._budget.is_spent)
        if self._heart_beats.is_under_way or self._departures.are_waiting:
            self.schedule()

    @property
    def have_brought(self) -> bool:
        """Whether there is something to be read of anybody."""
        return bool(self.ready or self.coming)

    def read(self, now: float) -> None:
        """
        Take what every ready client has brought, as far as the time goes.

        Who has not said yet who he is has a slice of its own, behind the others: of ten thousand
        who come at once nobody has to wait who was there before.
        """
        self._now = now
        ready, self.ready = self.ready, []
        if ready:
            self._budget.begin(now)
            left = self._read(ready)
            if left:
                self.ready[:0] = left  # Whoever was not read goes first next time.
        coming, self.coming = self.coming, []
        if coming:
            self._budget.begin()
            self.coming[:0] = self._read(coming)
        if self.coming or (self.ready and not all(it.session.is_spreading for it in self.ready)):
            self.schedule()

    def _read(self, ready: list[ClientConnection]) -> list[ClientConnection]:
        """Do what these ask until the time is spent; gives those who were not read."""
        is_spent = self._budget.is_spent
        for place, connection in enumerate(ready, 1):
            session = connection.session
            if connection not in self.connections:
                connection.is_ready = False
                connection.incoming.clear()
                continue
            is_deaf = connection.is_output_full and connection.is_deaf
            try:
                if is_deaf and session.proceed_with_endings(is_spent):
                    connection.is_deferred = True
                    self.pause(connection)
                    continue
                is_done = not is_deaf and self._receive(connection)
            except Exception as error:  # noqa: BLE001 - a mistake of ours costs one client
                connection.is_ready = False
                connection.incoming.clear()
                self.paused.served(connection)
                # Which may have been found out just now: what was there before has no connection.
                self._containment.broke(connection.session, error)
                continue
            if not is_done:
                self.ready.append(connection)
            elif connection.is_lost:
                self._forget(connection)
                continue
            session = connection.session  # What it speaks may have been found out just now.
            session.note_received(self._now)
            if session.is_full:
                self.pause(connection)
            if place < len(ready) and is_spent():
                break
        if self.receipts.uncommitted_bytes > self.settings.uncommitted_bytes_max:
            for connection in ready[:place]:
                self.pause(connection)
        return ready[place:]

    def _receive(self, connection: ClientConnection) -> bool:
        """Do what a client asks, as far as the time goes; whether that was all."""
        session = connection.session
        is_spent = self._budget.is_spent
        is_done = True
        if session.is_left_off:
            is_done = session.proceed(is_spent)
            self._sealer.close_full()
        incoming = connection.incoming
        bytes_max = self.settings.read_bytes_max
        while is_done and incoming:
            data = incoming.popleft()
            if len(data) > bytes_max:
                incoming.appendleft(data[bytes_max:])
                data = data[:bytes_max]
            is_done = connection.session.receive(data, is_spent)
            self._sealer.close_full()
            if incoming and is_spent():
                is_done = False
        connection.is_ready = not is_done
        if is_done:
            connection.incoming_bytes = 0
            self.paused.served(connection)
        unfinished_bytes = connection.session.unfinished_bytes
        if unfinished_bytes or connection.has_unfinished:
            until = self._now + self.settings.drain_seconds
            self.held_memory.note_unfinished(connection, unfinished_bytes, until)
        return is_done

    def hold(self) -> None:
        """
        Leave unread what comes while the lead is being handed over.

        A hand-over may be given up; then all goes on, with what is only in memory still there.
        """
        self._budget.begin()
        for connection in chain(self.ready, self.coming):
            if not connection.is_paused:
                self.pause(connection)
                if self._budget.is_spent():
                    self.schedule()
                    return

    def unblock(self, now: float, *, is_behind: bool) -> None:
        """
        Read again from those who waited, where what they waited for has come.

        While topics are behind, nothing that waits for room is published.
        """
        if self._context.waiting and not is_behind:
            self._send_waiting()
        if not self.paused or self.receipts.uncommitted_bytes > self.settings.uncommitted_bytes_max:
            return
        self._budget.begin()
        is_spent, is_pending = self._budget.is_spent, self.receipts.proposed_count > 0
        is_all = self.paused.resume(now, self.commit_count, is_spent, is_pending=is_pending)
        if not is_all:
            self.schedule()

    def _send_waiting(self) -> None:
        waiting = self._context.waiting
        is_spent = self._budget.is_spent
        self._budget.begin()
        for session in list(islice(waiting, _WAITING_PER_TURN)):
            if session not in waiting:
                continue
            waiting[session] = waiting.pop(session)  # To the end: the others have their turn.
            try:
                session.send_waiting(is_spent)
            except Exception as error:  # noqa: BLE001 - a mistake of ours costs one client
                self._containment.broke(session, error)
            if isinstance(session.connection, ClientConnection):
                self.paused.served(session.connection)  # There may be room for more of it.
            if is_spent():
                self.schedule()
                break

    def part(self, connection: ClientConnection) -> None:
        """Give a client a while to take its last words: it need not read them."""
        self._departures.parting(connection, self._context.now + self.settings.drain_seconds)

    def go_on(self) -> None:
        """Take the acknowledgements that waited for a lease: it is over."""
        self._context.is_lease_awaited = False
        for connection in list(self.connections):
            # It is done as everything that is read: all clients may have something to catch up.
            try:
                has_more = connection.session.go_on()
            except Exception as error:  # noqa: BLE001 - a mistake of ours costs one client
                self._containment.broke(connection.session, error)
                continue
            if has_more and not connection.is_ready:
                connection.is_ready = True
                self.ready.append(connection)

    def committed(self) -> None:
        """Note that something is committed, so that those who waited for that are read again."""
        self.commit_count += 1
        self.received_bytes = 0

    def send_away(self, farewell: str) -> None:
        """Close everybody, in slices: the leadership is over, and nobody is served any more."""
        self._departures.send_away(self.connections, farewell)
        self.connections.clear()
        self.admission.clear()
        self.paused.clear()
        self.held_memory.clear()
        self.ready.clear()
        self.coming.clear()
        self._resuming.stop()

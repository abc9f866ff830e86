"""
A mistake of ours that one client's request brings out costs that client, and not the node.

Everything the loop does on behalf of one session goes through here where it may fail: reading,
replies, deliveries, heart-beats, flushing, leaving. The session at whose work the exception came
is closed, and what it held is given back. Else a frame that ends one node would end each
successor too, as the client connects to it and says the same again.

Why it is safe to go on: lasting state is written by `apply` only, which runs for nobody and whose
failure ends the node. A request leaves its records whole in the batch or, where it consists of
several, takes them back (`Broker.commit`, `Broker.reject`). What is left is the leader's own half
of the queues the session used: where that fails it is built anew from the lasting half
(`Broker.renew`), which closes all who consume from that queue and flags what they may have seen.

Invariants:
    Every mistake is counted and logged with its trace; none is passed over in silence.

Owned by the loop.
"""

from __future__ import annotations

from collections.abc import Iterator

import structlog

from holdfast.broker.broker import Broker
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.topic import Topic
from holdfast.sessions.session import Session

log = structlog.get_logger("holdfast.server")


class Containment:
    """Closes the sessions whose work fails."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.mistakes: list[Exception] = []
        """The newest of them, a few."""
        self.mistake_count = 0

    def broke(self, whose: object, error: Exception) -> None:
        """Close the session whose work failed; an operator's request is only told of."""
        self._note(error)
        if not isinstance(whose, Session):
            log.error("a request or an errand broke", exc_info=error)
            return
        log.error("a session broke; its connection is closed", session=whose.id, exc_info=error)
        self._close(whose)

    def destination_broke(self, destination: Queue | Topic, error: Exception) -> None:
        """Close everybody who consumes from a destination, and build a queue's half anew."""
        self._note(error)
        log.error(
            "a destination broke; its consumers are closed", name=destination.name, exc_info=error
        )
        self._renew(destination)

    def errand_broke(self, owner: object, error: Exception) -> None:
        """Let an errand that failed cost whoever it was for; the broker's own is only told of."""
        if isinstance(owner, (Queue, Topic)):
            self.destination_broke(owner, error)
        else:
            self.broke(owner, error)

    def leave(self, session: Session) -> None:
        """Give back everything a session holds, whatever state it is in; step by step if much."""
        leaving = self._leaving(session)
        if session.held_count > self.broker.settings.step_count_max:
            self.broker.errands.begin(leaving, session)
            return
        for _ in leaving:
            pass

    def _leaving(self, session: Session) -> Iterator[None]:
        # Temporary ones end with it, one by one: a list here would let go of thousands at once.
        queues = [
            queue
            for each in session.subscriptions.values()
            for queue in each.queues
            if not queue.is_temporary
        ]
        is_broken = False
        for _ in range(session.held_count + 1):
            try:
                yield from session.leaving()
                break
            except Exception as error:
                is_broken = True
                self._note(error)
                log.exception("a session broke while it left", session=session.id)
        if is_broken:
            for queue in dict.fromkeys(queues):
                self._renew(queue)

    def _note(self, error: Exception) -> None:
        self.mistake_count += 1
        self.mistakes = [*self.mistakes[-9:], error]

    def _close(self, session: Session) -> None:
        session.is_closing = True
        if session.connection is not None:
            session.connection.abort()
        self.leave(session)

    def _renew(self, destination: Queue | Topic) -> None:
        if isinstance(destination, Queue):
            leaving = self.broker.receipts.settling().get(destination.number, set())
            receivers = self.broker.renew(destination, leaving)
        else:
            receivers = [each.receiver for each in destination.subscriptions]
        for receiver in receivers:
            if isinstance(receiver, Session):
                self._close(receiver)

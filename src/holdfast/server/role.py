"""
Who serves clients: whether this node does, and when that begins and ends.

The store says who leads. A node that leads serves as soon as all that is committed is applied, its
broker is prepared, and nothing that its own term proposed before is undecided. It ceases at once
when it leads no more, when too few members answer, or when what it proposed was refused.

Invariants:
    `is_serving` is written here and nowhere else; whoever opens or closes ports obeys it.
    Of each change the conductor hears first, so that nobody is served by a lead that is over.
    A node that ends lets in nobody, though it may lead on until it has handed over.

Owned by the loop. Pure: time is read only from the clock it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import structlog

if TYPE_CHECKING:
    from holdfast.broker.broker import Broker
    from holdfast.environment.clock import Clock
    from holdfast.server.format_gate import FormatGate
    from holdfast.sessions.context import SessionContext
    from holdfast.store.contract import LogStore

log = structlog.get_logger("holdfast.server")


class Served(Protocol):
    """The conductor whose clients are served or not, as far as the role needs it."""

    broker: Broker
    store: LogStore
    context: SessionContext
    clock: Clock
    format_gate: FormatGate

    def has_to_apply(self) -> bool:
        """Whether something committed is not applied yet."""
        ...

    def let_go_of_clients(self, farewell: str) -> None:
        """See all clients off, and forget what only a leader knows."""
        ...


class Role:
    """Whether one node serves clients now."""

    __slots__ = (
        "_broker",
        "_clock",
        "_context",
        "_on_change",
        "_served",
        "_store",
        "is_draining",
        "is_serving",
        "silent_until",
    )

    def __init__(self, served: Served, on_change: Callable[[], None]) -> None:
        """Decide for a conductor whether it serves; tell of each change after it."""
        self._served = served
        self._broker = served.broker
        self._store = served.store
        self._context = served.context
        self._clock = served.clock
        self._on_change = on_change
        self.is_serving = False
        self.is_draining = False
        """The node ends: it finishes what is under way."""
        self.silent_until = 0.0
        """This node was paused and may be deposed: until then it explains nothing to clients."""

    @property
    def admits_clients(self) -> bool:
        """Whether clients may come: the client port is open for just so long."""
        return self.is_serving and not self.is_draining and self._served.format_gate.lets_in

    @property
    def term(self) -> int:
        """Since which election it leads, or has led last."""
        return self._context.term

    def follow(self) -> bool:
        """Begin or cease to serve, as the store says; whether clients are served in this turn."""
        store = self._store
        should_serve = store.is_serving and (self.is_serving or not self._served.has_to_apply())
        if should_serve == self.is_serving:
            self._broker.is_prepared = False  # Should it lead once more, from the state of then.
            return should_serve
        if should_serve:
            if not self._is_ready_to_lead():
                return False
            self._lead()
        elif store.is_handing_over:
            return False  # Given up, it goes on as if nothing had been; done, another leads.
        else:
            self.end(store.farewell if self._has_lost_the_lead() else "")
        return self.is_serving

    def _is_ready_to_lead(self) -> bool:
        if not self._store.is_applied_whole:
            # What this term has proposed may yet be committed, and its numbers are taken.
            return False
        if not self._broker.is_prepared:
            self._broker.prepare(self._store.numbering)
        return not self._broker.errands  # Else they are run in this turn and the next ones.

    def _lead(self) -> None:
        store, context = self._store, self._context
        context.term = store.term
        context.promotion = store.promotion
        context.is_lease_awaited = True  # Until the next turn knows better.
        self._broker.lead(store.numbering)
        self._served.format_gate.begin(self._clock.monotonic())
        self.is_serving = True
        self._on_change()

    def _has_lost_the_lead(self) -> bool:
        """
        Whether the lead ended because nobody answers, and not because another leads.

        After a pause this node cannot know: then it says nothing.
        """
        store = self._store
        if self.is_draining or store.is_leader or store.term != self._context.term:
            return False  # stopped, handing over, deposed
        return self._clock.monotonic() >= self.silent_until

    def end(self, farewell: str = "") -> None:
        """Cease to serve: the lead is over, whatever the store says in this turn."""
        if farewell:
            log.warning(farewell)
        was_serving = self.is_serving
        self.is_serving = False
        self._served.let_go_of_clients(farewell)
        if was_serving:
            self._on_change()

    def drain(self) -> None:
        """Let nobody in any more; who is there is served until it is done."""
        self.is_draining = True
        self._on_change()

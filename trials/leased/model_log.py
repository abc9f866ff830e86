"""
One broker's connection to a modelled medium: `LeasedLog` over statements that may be lost or late.

What is known here is only what a broker's own connection knows: which epoch it took. Everything
else is asked.

Invariants:
    Each call is a few statements, each sent once: who does not hear of it sends it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.journal.entry import Entry
from holdfast.leases.contract import Claimant, Holding, MediumFacts, Outcome, Waiter
from trials.leased.model_medium import ModelMedium
from trials.leased.passage import Passage, ask

OPEN_SECONDS = 5.0


class ModelLog:
    """A database's."""

    low_room = ""
    is_fence = True
    lease_seconds = 5.0

    def __init__(self, medium: ModelMedium, passage: Passage) -> None:
        self.medium = medium
        self._passage = passage
        self._epoch = 0
        self._holder = ""
        self.is_closed = False

    def _ask(self, kind: str, seconds_max: float, statement: Callable[[], Any]) -> Any:
        assert not self.is_closed, "asked after it was closed"
        return ask(self._passage, kind, seconds_max, statement)

    def open(self, *, may_lay_out: bool = True) -> Holding:
        """Reach it."""
        return self._read("open", OPEN_SECONDS)

    def identity(self) -> str:
        """The log's own id."""
        return self.medium.identity

    def message_bytes_max(self, sure_seconds: float) -> int:
        """Say nothing of it: there is one copy."""
        del sure_seconds
        return 0

    def facts(self) -> MediumFacts:
        """What it is."""
        return MediumFacts(kind="model", place="memory")

    def observe(self, seconds_max: float) -> Holding:
        """Read the lease."""
        return self._read("observe", seconds_max)

    def _read(self, kind: str, seconds_max: float) -> Holding:
        holding: Holding = self._ask(kind, seconds_max, self.medium.read)
        return holding

    def take(self, seen: Holding, claimant: Claimant, seconds_max: float) -> Holding | None:
        """Begin the next epoch, unless something happened since."""
        holding: Holding | None = self._ask(
            "take", seconds_max, lambda: self.medium.take(seen, claimant)
        )
        if holding is not None:
            self._epoch, self._holder = holding.epoch, claimant.holder
        return holding

    def renew(self, seconds_max: float) -> Outcome:
        """Give a sign of life."""
        epoch, holder = self._epoch, self._holder
        outcome: Outcome = self._ask("renew", seconds_max, lambda: self.medium.renew(epoch, holder))
        return outcome

    def release(self, seconds_max: float) -> None:
        """Give the lease back."""
        epoch, holder = self._epoch, self._holder
        self._ask("release", seconds_max, lambda: self.medium.release(epoch, holder))

    def append(self, entries: list[Entry], seconds_max: float) -> Outcome:
        """Store entries, in one statement."""
        epoch, holder, given = self._epoch, self._holder, list(entries)
        outcome: Outcome = self._ask(
            "append", seconds_max, lambda: self.medium.append(epoch, holder, given)
        )
        return outcome

    def entries(self, after: int, through: int, bytes_max: int, seconds_max: float) -> list[Entry]:
        """Read entries."""
        found: list[Entry] = self._ask(
            "entries", seconds_max, lambda: self.medium.entries(after, through, bytes_max)
        )
        return found

    def drop_before(self, index: int, seconds_max: float) -> bool:
        """Forget entries."""
        epoch, holder = self._epoch, self._holder
        is_more: bool = self._ask(
            "drop", seconds_max, lambda: self.medium.drop_before(epoch, holder, index)
        )
        return is_more

    def tell(self, waiter: Waiter, seconds_max: float) -> None:
        """Write this broker's line."""
        self._ask(
            "tell",
            seconds_max,
            lambda: self.medium.waiters.__setitem__(waiter.claimant.name, waiter),
        )

    def waiters(self, seconds_max: float) -> list[Waiter]:
        """Read all lines."""
        lines: list[Waiter] = self._ask(
            "waiters",
            seconds_max,
            lambda: [it for _, it in sorted(self.medium.waiters.items())],
        )
        return lines

    def forget(self, name: str, seconds_max: float) -> None:
        """Drop a line."""
        self._ask("forget", seconds_max, lambda: self.medium.waiters.pop(name, None))

    def close(self) -> None:
        """Let go."""
        self.is_closed = True

"""
What tests with the marker `promise` did in one run of pytest; tests/conftest.py feeds it.

A test with several parameters is one test here: it passed if all of them did. What loads of the
test found is kept beside it, so that loss is a number and not only the word "passed".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trials.clients.ledger import Account
from trials.clients.load import Load
from trials.promises.evidence import (
    EVIDENCE,
    MarkedTest,
    level_of,
    save_tests,
    stamp,
)

_KEPT_COUNTS = ("confirmed", "lost", "duplicates", "unflagged", "gap_seconds")


@dataclass(slots=True)
class _Notes:
    faults: tuple[str, ...]
    outcomes: list[str] = field(default_factory=list)
    accounts: list[dict[str, Any]] = field(default_factory=list)


class TestBooks:
    """Books of one run; not to be shared between threads."""

    __test__ = False  # pytest: no test, its books

    def __init__(self) -> None:
        self._notes: dict[str, _Notes] = {}

    def note(
        self, name: str, faults: Sequence[str], outcome: str, accounts: Sequence[Account] = ()
    ) -> None:
        """Note that a test, or one phase of it, ended so; `name` is pytest's own."""
        notes = self._notes.setdefault(name.partition("[")[0], _Notes(tuple(faults)))
        notes.outcomes.append(outcome)
        for account in accounts:
            counts = asdict(account)
            notes.accounts.append({key: counts[key] for key in _KEPT_COUNTS})

    def records(self) -> list[MarkedTest]:
        """Sum up: one failure is a failure, and what was only skipped showed nothing."""
        now = stamp()
        return [
            MarkedTest(
                name=name,
                faults=notes.faults,
                outcome=_sum_up(notes.outcomes),
                level=level_of(name),
                accounts=tuple(notes.accounts),
                stamp=now,
            )
            for name, notes in self._notes.items()
        ]

    def save(self, folder: Path = EVIDENCE) -> None:
        """Put them beside what is known of other tests."""
        save_tests(self.records(), folder)


def _sum_up(outcomes: Sequence[str]) -> str:
    for word in ("failed", "passed"):
        if word in outcomes:
            return word
    return "skipped"


@contextmanager
def accounts_of_loads() -> Iterator[list[Account]]:
    """
    Collect what every load that finishes meanwhile found.

    One that has no consumers cannot know what is lost, and does not count.
    """
    found: dict[int, tuple[Load, Account]] = {}
    finish = Load.finish
    accounts: list[Account] = []

    def finish_and_tell(self: Load, seconds: float = 60.0) -> Account:
        account = finish(self, seconds)
        if self.settings.consumers:
            found[id(self.ledger)] = (self, account)
        return account

    Load.finish = finish_and_tell  # type: ignore[method-assign]
    try:
        yield accounts
    finally:
        Load.finish = finish  # type: ignore[method-assign]
        accounts += [account for _, account in found.values()]

"""
What one source has told of where brokers may be: how long that is good, and when to ask again.

Invariants:
    What was found stays until something else is: a source that is away, or that knows of nobody,
    takes nothing back. Only one that says on purpose that there is nothing does.
    Between an answer and the next question are ANSWER_SECONDS_MIN to ANSWER_SECONDS_MAX.
    At most CANDIDATES_MAX are known.

Owned by whoever looks for brokers; pure: the time is an argument, chance is handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

CANDIDATES_MAX: Final = 64
"""More nodes than a cluster has; a list of thousands is a mistake, or somebody's bad will."""

ANSWER_SECONDS_MIN: Final = 5.0
ANSWER_SECONDS_MAX: Final = 300.0
_REST_SECONDS: Final = 1.0
"""After a question without an answer; twice as long after the next, up to ANSWER_SECONDS_MIN."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Where a broker may be."""

    host: str
    port: int
    name: str
    """Whom it has to show that it is, by TLS: never a name that somebody may have forged."""

    priority: int = 0
    """The lowest is tried first."""

    weight: int = 1
    """Its share of being tried first among those of its priority."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a source has told; no candidates at all mean that there is nothing on purpose."""

    candidates: tuple[Candidate, ...]
    seconds: float
    """So long it is good."""

    remarks: tuple[str, ...] = ()
    """What was left out of it and why, a sentence each."""


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """Why a source has told nothing."""

    why: str


class Candidates:
    """The candidates of one source."""

    def __init__(self) -> None:
        self.known: tuple[Candidate, ...] = ()
        self.problem = "it has not answered yet"
        """Why there is nothing, or nothing new; empty while all is well."""

        self.remarks: tuple[str, ...] = ()
        """What was left out of the last answer, and why."""

        self.due_at = 0.0
        """When to ask again."""

        self._rest_seconds = _REST_SECONDS

    def is_due(self, now: float) -> bool:
        """Whether it is time to ask again."""
        return now >= self.due_at

    def take(self, outcome: Answer | NoAnswer, now: float) -> None:
        """Keep what a question has brought."""
        if isinstance(outcome, NoAnswer):
            self.problem = outcome.why
            self.due_at = now + self._rest_seconds
            self._rest_seconds = min(2 * self._rest_seconds, ANSWER_SECONDS_MIN)
            return
        found = outcome.candidates[:CANDIDATES_MAX]
        self.known, self.remarks, self.problem = found, outcome.remarks, ""
        if not found:
            self.problem = "; ".join(outcome.remarks) or "it says that there is nothing"
        self.due_at = now + min(max(outcome.seconds, ANSWER_SECONDS_MIN), ANSWER_SECONDS_MAX)
        self._rest_seconds = _REST_SECONDS


def in_order(
    candidates: Iterable[Candidate], uniform: Callable[[float, float], float] | None
) -> list[Candidate]:
    """
    In which order to try them: by priority; of one priority by chance, in the shares of weights.

    As RFC 2782 has it for SRV. Without `uniform`, a source of chance as `random.uniform`, the
    heavier come first, and else they stay as they were told.
    """
    rest = sorted(candidates, key=lambda it: (it.priority, -it.weight))
    if uniform is None:
        return rest
    # RFC 2782: "place all those with weight 0 at the beginning": they have a chance, a small one.
    rest.sort(key=lambda it: (it.priority, it.weight != 0))
    ordered: list[Candidate] = []
    while rest:
        equals = [it for it in rest if it.priority == rest[0].priority]
        chosen = _chosen(equals, uniform)
        rest.remove(chosen)
        ordered.append(chosen)
    return ordered


def _chosen(equals: list[Candidate], uniform: Callable[[float, float], float]) -> Candidate:
    """One of these, by their weights; where none has any, all have the same chance."""
    total = sum(it.weight for it in equals)
    if total == 0:
        return equals[min(int(uniform(0, len(equals))), len(equals) - 1)]
    # RFC 2782 draws from 0 always, which gives the first of those with a weight one share more.
    low = 0 if equals[0].weight == 0 else 1
    drawn = min(int(uniform(low, total + 1)), total)
    for candidate in equals:
        drawn -= candidate.weight
        if drawn <= 0:
            return candidate
    return equals[-1]

"""
What must hold of message groups, by the clients' word alone.

* A group is in one hand: two consumers never had messages of it at once. Had is what a consumer got
  and, over the same link, settled with a receipt: so its broker thought it alive all the time.
  What a lost link left behind may be in another hand before its consumer knows.
* A group is in order: its messages come the first time in the order of the queue.

Pure: lines in the order of time go in, sentences come out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from trials.chaos.history import Event

IN_TWO_HANDS: Final = "in_two_hands"
OUT_OF_GROUP_ORDER: Final = "out_of_group_order"


@dataclass(slots=True)
class _Hold:
    """A message that a consumer got."""

    consumer: str
    identity: str
    since: int
    asked: int = 0
    """When its settling was first asked for."""
    is_confirmed: bool = False
    """Over the link that it came by."""


@dataclass(slots=True)
class _Group:
    holds: list[_Hold] = field(default_factory=list)
    first: list[tuple[int, str]] = field(default_factory=list)
    """Place and id of each message, in the order in which they came first."""
    seen: set[str] = field(default_factory=set)


class GroupBook:
    """What the consumers of grouped queues told."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = defaultdict(_Group)
        self._open: dict[tuple[str, str], _Hold] = {}
        """By consumer and id: what it has, over the link that it has now."""

    def deliver(self, event: Event, group: str, place: int) -> None:
        """A consumer got a message of a group."""
        found = self._groups[group]
        identity = event["id"]
        if identity not in found.seen:
            found.seen.add(identity)
            found.first.append((place, identity))
        hold = _Hold(event["c"], identity, event["t"])
        found.holds.append(hold)
        self._open[event["c"], identity] = hold

    def ask(self, consumer: str, identities: Iterable[str], now: int) -> None:
        """A consumer settles what it has."""
        for identity in identities:
            hold = self._open.get((consumer, identity))
            if hold is not None and not hold.asked:
                hold.asked = now

    def confirm(self, consumer: str, identities: Iterable[str]) -> None:
        """The receipt came."""
        for identity in identities:
            hold = self._open.pop((consumer, identity), None)
            if hold is not None and hold.asked:
                hold.is_confirmed = True

    def relink(self, consumer: str) -> None:
        """A consumer has a new link: what it had may be anybody's."""
        for key in [key for key in self._open if key[0] == consumer]:
            del self._open[key]

    def violations(self, noun: str = "group") -> Iterator[tuple[str, str]]:
        """Give (kind, sentence) for everything that must not be; `noun` says what these are."""
        for name, group in self._groups.items():
            yield from _hands(f"{noun} {name}", group.holds)
            yield from _order(f"{noun} {name}", group.first)


def _hands(name: str, holds: list[_Hold]) -> Iterator[tuple[str, str]]:
    latest: dict[str, _Hold] = {}
    for hold in sorted((each for each in holds if each.is_confirmed), key=lambda each: each.since):
        for other in latest.values():
            if other.consumer != hold.consumer and other.asked > hold.since:
                late = (other.asked - hold.since) / 1e6
                sentence = (
                    f"{name}: {hold.consumer} got {hold.identity} {late:.0f} ms before"
                    f" {other.consumer} was done with {other.identity}"
                )
                yield IN_TWO_HANDS, sentence
        before = latest.get(hold.consumer)
        if before is None or hold.asked > before.asked:
            latest[hold.consumer] = hold


def _order(name: str, first: list[tuple[int, str]]) -> Iterator[tuple[str, str]]:
    for (place, identity), (following, after) in pairwise(first):
        if following < place:
            yield OUT_OF_GROUP_ORDER, f"{name}: {after} came first after {identity}"

"""
Where a message goes that is sent to some destinations: the one place that says so.

A composite destination forwards what is sent to it, as policies say; a mirrored queue lets a topic
have it, too; a virtual topic lets the queues have it that consume it. These may lead on to one
another. They are followed from one to the next, each looked at once, so that it comes to an end
whatever policies say, and each destination gets a message once by however many ways it comes there.
What is sent where ways lead in a circle, and to no queue, stays there: it was confirmed.

Names only: nothing is declared here, and whether a message may go there is for others to say. The
leader alone asks, as a message is sent or a scheduled one is due; what came of it stands in the
record of the message, so nobody asks again.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from holdfast.broker.destinations import Destinations
from holdfast.broker.errands import Errands
from holdfast.broker.serving.burials import FORWARDED_MAX
from holdfast.broker.serving.policies import PolicyBook
from holdfast.errors import DestinationError
from holdfast.model.destination import Destination, Kind
from holdfast.model.forwarding import mirror_of
from holdfast.model.virtual_topics import is_virtual

PLACES_MAX: Final = 1_100
"""One message goes to so many at most, with the queues that consume virtual topics: that takes 10
ms, and nobody else is served meanwhile."""


_KEEPS_NOTHING: Final = (Kind.TOPIC, Kind.TEMPORARY_TOPIC, Kind.REMOTE_TEMPORARY_TOPIC)


class RouteUnknownError(Exception):
    """Where a message goes is not known yet: it is to be asked again, in another turn."""


class Content(Protocol):
    """What selectors of policies are asked of."""

    def is_selected(self, selector: str, sent_to: Destination) -> bool:
        """
        Whether a selector is true of the message, which was sent to that destination.

        Raises:
            RouteUnknownError: So much was read for it in this turn already.
        """


class Route(NamedTuple):
    """Where a message goes."""

    destinations: tuple[Destination, ...]
    """All of them, each once; none: nowhere, as nothing of what is said fits it."""
    is_directed: bool
    """Whether others than its sender have a say in it: policies, or who consumes a topic."""


class _Way:
    """How far it was followed where one message goes."""

    __slots__ = (
        *("ahead", "forwarded_count", "found", "has_met", "is_directed", "sent_to", "ways"),
        "written",
    )

    def __init__(self, written: tuple[Destination, ...]) -> None:
        self.written = written
        self.found: dict[Destination, None] = {}
        """Where it stays."""
        self.ways: dict[Destination, Sequence[Destination]] = {}
        """Where it goes on to from each place where it came."""
        self.ahead = deque(written)
        self.sent_to = list(written)
        """Where it was sent, be it by who consumes a topic."""
        self.forwarded_count = 0
        self.is_directed = False
        self.has_met = False
        """It came to a place by two ways: there may be a circle."""


class Addressing:
    """Follows what is sent from one destination to the next."""

    __slots__ = ("_destinations", "_errands", "_policies")

    def __init__(self, destinations: Destinations, policies: PolicyBook, errands: Errands) -> None:
        self._destinations = destinations
        self._errands = errands
        self._policies = policies
        destinations.form_of = policies.form_of

    def directs(self, written: tuple[Destination, ...]) -> bool:
        """Whether anything may go elsewhere, or to more, that is sent to these."""
        if self._policies.directs_anything:
            return True
        return any(each.kind is Kind.TOPIC and is_virtual(each.name) for each in written)

    def route(self, written: tuple[Destination, ...], content: Content) -> Route:
        """
        Give where a message goes that is sent to these now.

        Raises:
            DestinationError: It comes to too many.
            RouteUnknownError: To find that out takes more than one turn.
        """
        way = _Way(written)
        self._follow(way, content)
        while way.has_met:
            kept = _kept_from_circles(way)
            way.has_met = False
            for each in kept:
                self._stay(way, each)
            self._follow(way, content)
        return Route(tuple(way.found), way.is_directed)

    def _follow(self, way: _Way, content: Content) -> None:
        while way.ahead:
            each = way.ahead.popleft()
            if each in way.ways:
                way.has_met = True
                continue
            more, stays = self._from(each, content)
            way.ways[each] = () if more is None else more
            if more is not None:
                way.is_directed = True
                way.forwarded_count += len(more)
                way.ahead += more
            if way.forwarded_count > FORWARDED_MAX:
                raise DestinationError(
                    f"'{way.written[0]}' comes to more than {FORWARDED_MAX} destinations, as"
                    f" policies forward it"
                )
            if stays:
                self._stay(way, each)

    def _stay(self, way: _Way, each: Destination) -> None:
        """Let it be there, and on the queues that consume it, if it is a virtual topic."""
        way.found[each] = None
        if each.kind is Kind.TOPIC and self._policies.form_of(each.name) is not None:
            way.is_directed = True
            names = self._consumers_of(each.name)
            _require_few(way.written, len(way.found) + len(way.ahead) + len(names))
            consumers = [Destination(Kind.QUEUE, name) for name in names]
            way.ways[each] = (*way.ways[each], *consumers)
            way.sent_to += consumers
            way.ahead += consumers

    def _from(
        self, each: Destination, content: Content
    ) -> tuple[Sequence[Destination] | None, bool]:
        """Give where policies let it go on from there, None: they say nothing; and if it stays."""
        if each.kind is not Kind.QUEUE and each.kind is not Kind.TOPIC:
            return None, True
        rule = self._policies.forwarding_of(each.kind, each.name)
        if rule is None:
            return None, True
        more = [
            it.destination
            for it in rule.forwards
            if not it.selector or content.is_selected(it.selector, each)
        ]
        stays = not rule.is_only or (rule.keeps_unmatched and not more)
        is_mirrored = rule.is_mirrored and not self._destinations.consumes_mirror(each.name)
        mirror = mirror_of(each.name) if is_mirrored else None
        if mirror is not None and self._takes(mirror):
            more.append(mirror)
        return more, stays

    def _takes(self, topic: Destination) -> bool:
        """Whether anybody would get what a mirror gets."""
        forwards_on = self._policies.forwarding_of(topic.kind, topic.name) is not None
        if forwards_on or self._consumers_of(topic.name):
            return True
        return self._destinations.is_heard(topic.name)

    def _consumers_of(self, topic: str) -> Sequence[str]:
        """
        Give the names of the queues that consume a topic, if it is a virtual one.

        Raises:
            RouteUnknownError: All names are being looked through, as policies name them newly.
        """
        looking = self._destinations.look_for_consumers(topic)
        if looking is not None:
            self._errands.begin(looking)
            raise RouteUnknownError
        return self._destinations.consumers_of(topic)


def _require_few(written: tuple[Destination, ...], count: int) -> None:
    if count > PLACES_MAX:
        raise DestinationError(
            f"a message to '{written[0]}' would go to {count:,} destinations, with the queues that"
            f" consume virtual topics; at most {PLACES_MAX:,} may have one"
        )


def _kept_from_circles(way: _Way) -> list[Destination]:
    """Give where it was sent and stays: it would come to no queue, as it goes in a circle."""
    before: dict[Destination, list[Destination]] = {}
    for each, more in way.ways.items():
        for it in more:
            before.setdefault(it, []).append(each)
    to_queues = _all_before(before, [it for it in way.found if it.kind not in _KEEPS_NOTHING])
    in_circles = dict.fromkeys(way.ways)
    left = {each: len(more) for each, more in way.ways.items()}
    ends = [each for each, count in left.items() if not count]
    while ends:
        end = ends.pop()
        del in_circles[end]
        for each in before.get(end, ()):
            left[each] -= 1
            if not left[each]:
                ends.append(each)
    return [
        each
        for each in dict.fromkeys(way.sent_to)
        if each in in_circles and each not in to_queues and each not in way.found
    ]


def _all_before(
    before: dict[Destination, list[Destination]], ends: list[Destination]
) -> set[Destination]:
    """Give all from where ways lead to these, and themselves."""
    found = set(ends)
    while ends:
        more = [it for it in before.get(ends.pop(), ()) if it not in found]
        found.update(more)
        ends += more
    return found

"""
Temporary queues and topics: of one connection only, gone with it.

They live on the leader and are never in the log. Their names carry the connection's identity, so
that others may send there and nobody meets them by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import TypeVar

from holdfast.broker.flow_control import require_room
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.topic import Topic
from holdfast.errors import DestinationError

_Place = TypeVar("_Place", Queue, Topic)


class Temporaries:
    """The temporary destinations of all connections, by full name."""

    __slots__ = ("_make_queue", "_owned", "count_max", "queues", "topics")

    def __init__(self, count_max: int, make_queue: Callable[[str], Queue]) -> None:
        self.count_max = count_max
        self._make_queue = make_queue
        self.queues: dict[str, Queue] = {}
        self.topics: dict[str, Topic] = {}
        self._owned: dict[Hashable, list[Queue | Topic]] = {}

    def queue(self, name: str, owner: Hashable | None = None) -> Queue:
        """
        Give a temporary queue by its full name; `owner` makes it if it is not there.

        Raises:
            DestinationError: It does not exist, or its connection is gone.
        """
        return self._given(self.queues, "queue", name, owner, self._make_queue)

    def topic(self, name: str, owner: Hashable | None = None) -> Topic:
        """
        Give a temporary topic by its full name; `owner` makes it if it is not there.

        Raises:
            DestinationError: It does not exist, or its connection is gone.
        """
        return self._given(self.topics, "topic", name, owner, Topic)

    def count_of(self, owner: Hashable) -> int:
        """How many destinations a connection has."""
        return len(self._owned.get(owner, ()))

    def drop(self, owner: Hashable) -> Iterator[Queue | None]:
        """
        Forget the destinations of a connection that is gone, one at each step.

        Gives those that are queues, None for a topic.
        """
        places = self._owned.pop(owner, [])
        while places:
            place = places.pop()  # One by one: the list must not let go of all of them at its end.
            place.is_deleted = True
            if isinstance(place, Queue):
                del self.queues[place.name]
                yield place
            else:
                del self.topics[place.name]
                yield None

    def _given(
        self,
        places: dict[str, _Place],
        kind: str,
        name: str,
        owner: Hashable | None,
        make: Callable[[str], _Place],
    ) -> _Place:
        place = places.get(name)
        if place is None:
            if owner is None:
                raise DestinationError(f"temporary {kind} {name!r} does not exist any more")
            require_room(len(places), self.count_max, f"temporary {kind}s")
            place = places[name] = make(name)
            place.is_temporary = True
            place.owner = owner
            self._owned.setdefault(owner, []).append(place)
        return place

"""
Temporary queues and topics: of one client only, gone with it.

They live on the leader and are never in the log. Their names carry what their client is known by,
so that others may send there and nobody meets them by chance.

A client that can be known again finds its own again when it has lost its connection: for a while
they are *orphans*, which take what is sent there and belong to nobody. A new leader cannot know
what there was: as long as its clients may still be on their way back, what is sent to an address
that a client can come back to makes an orphan, too.

Each user has a share of the places (`model.shares`), orphans with them. Where he has no room an
orphan of his own goes, and no other.

Invariants:
    A place is somebody's, or an orphan: it stands in exactly one of the two books.
    Of orphans there are never more than there is room for: the oldest go for what is wanted now,
        of the same user where somebody is somebody.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator
from itertools import islice
from typing import Final, TypeVar

from holdfast.broker.flow_control import require_room
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.topic import Topic
from holdfast.errors import DestinationError
from holdfast.model.shares import Shares, refusal_of

_Place = TypeVar("_Place", Queue, Topic)

_OF_A_CLIENT: Final = re.compile(
    r"(?![^.]*-[0-9]+-[0-9]+\.)(?:[A-Za-z0-9_%-]+|~[0-9a-f]{32})\..+", re.DOTALL
)
"""Names of a client that can be known again, see `sessions.client_ids`; those of others begin with
node, term and number of the connection."""


_LOOKED_AT_MAX: Final = 64
"""So many orphans are looked at for one that may go."""


class Temporaries:
    """The temporary destinations of all clients, by full name."""

    __slots__ = (
        *("_began_ms", "_came", "_clients", "_elapsed_ms", "_empty", "_make_queue", "_orphan_ms"),
        *("_orphans", "_owned", "_shares", "_users", "_went", "count_max", "queues", "topics"),
    )

    def __init__(
        self,
        count_max: int,
        make_queue: Callable[[str], Queue],
        *,
        orphan_ms: int = 0,
        elapsed_ms: Callable[[], int] = lambda: 0,
        empty: Callable[[Queue], object] = lambda _queue: None,
        came: Callable[[Queue | Topic], object] = lambda _place: None,
        went: Callable[[Queue | Topic], object] = lambda _place: None,
    ) -> None:
        self.count_max = count_max
        self._make_queue = make_queue
        self._orphan_ms = orphan_ms
        self._elapsed_ms = elapsed_ms
        self._empty = empty
        self._came, self._went = came, went
        self._began_ms = 0
        self.queues: dict[str, Queue] = {}
        self.topics: dict[str, Topic] = {}
        self._users: dict[Queue | Topic, str] = {}
        """Of whose share they are."""
        self._shares: dict[type, Shares] = {Queue: Shares(), Topic: Shares()}
        self._owned: dict[Hashable, dict[Queue | Topic, None]] = {}
        self._clients: dict[Hashable, str] = {}
        """By what the owners are known again, who are by anything."""
        self._orphans: dict[type, dict[Queue | Topic, tuple[int, str]]] = {Queue: {}, Topic: {}}
        """Until when they are kept, and for whom (empty: for whom the name is of), oldest first."""

    def lead(self) -> None:
        """Note that clients may come back from another leader from now on."""
        self._began_ms = self._elapsed_ms()

    def queue(
        self, name: str, owner: Hashable | None = None, client: str = "", user: str | None = None
    ) -> Queue:
        """
        Give a temporary queue by its full name; `owner` makes it if it is not there.

        Args:
            client: By what the owner is known again; empty: by nothing.
            user: Of whose share it is if it is made; None: nobody is somebody here.

        Raises:
            DestinationError: It does not exist, or its client is gone, or it is another one's.
        """
        return self._given(self.queues, "queue", name, (owner, client, user), self._make_queue)

    def topic(
        self, name: str, owner: Hashable | None = None, client: str = "", user: str | None = None
    ) -> Topic:
        """
        Give a temporary topic by its full name; otherwise as `queue`.

        Raises:
            DestinationError: It does not exist, or its client is gone, or it is another one's.
        """
        return self._given(self.topics, "topic", name, (owner, client, user), Topic)

    def count_of(self, owner: Hashable) -> int:
        """How many destinations a connection has."""
        return len(self._owned.get(owner, ()))

    def drop(self, owner: Hashable) -> Iterator[Queue | None]:
        """
        Forget the destinations of a connection that is gone, one at each step.

        Gives those that are queues, None for a topic.
        """
        self._clients.pop(owner, None)
        places = self._owned.pop(owner, {})
        while places:
            place = places.popitem()[0]  # One by one: the book must not let go of all at its end.
            yield self._forget(place)

    def abandon(self, owner: Hashable) -> Iterator[None]:
        """Keep, for a while, the destinations of a connection that is lost, one at each step."""
        # Both books hold to the end: its client may be back before, and ask for any of them.
        client = self._clients.get(owner, "")
        places = self._owned.get(owner, {})
        while places:
            self._orphan(places.popitem()[0], client)
            yield
        self._clients.pop(owner, None)
        self._owned.pop(owner, None)

    @property
    def has_orphans(self) -> bool:
        """Whether something waits for its client."""
        return any(self._orphans.values())

    def drop_orphans(self) -> Iterator[None]:
        """Forget what was waited for in vain for long enough, one at each step."""
        now_ms = self._elapsed_ms()
        for orphans in self._orphans.values():
            while orphans:
                place, (until_ms, _) = next(iter(orphans.items()))
                if until_ms > now_ms:
                    break
                self._drop_orphan(place)
                yield

    def _orphan(self, place: Queue | Topic, client: str) -> None:
        place.owner = None
        self._orphans[type(place)][place] = (self._elapsed_ms() + self._orphan_ms, client)

    def _drop_orphan(self, place: Queue | Topic) -> None:
        del self._orphans[type(place)][place]
        queue = self._forget(place)
        if queue is not None:
            self._empty(queue)

    def _forget(self, place: Queue | Topic) -> Queue | None:
        place.delete()
        self._went(place)
        self._shares[type(place)].add(self._users.pop(place, None), -1)
        if isinstance(place, Queue):
            del self.queues[place.name]
            return place
        del self.topics[place.name]
        return None

    def _given(
        self,
        places: dict[str, _Place],
        kind: str,
        name: str,
        whose: tuple[Hashable | None, str, str | None],
        make: Callable[[str], _Place],
    ) -> _Place:
        owner, client, user = whose
        place = places.get(name)
        if place is None:
            if owner is None and not self._may_come_back(name):
                raise DestinationError(f"temporary {kind} {name!r} does not exist any more")
            self._make_room(Queue if kind == "queue" else Topic, len(places), user)
            require_room(len(places), self.count_max, f"temporary {kind}s")
            self._require_share(kind, len(places), user)
            place = places[name] = make(name)
            place.is_temporary = True
            self._is_of(place, user)
            self._came(place)
            if owner is None:
                self._orphan(place, "")
                return place
        elif owner is None or place.owner is owner:
            return place
        elif not self._taken_from_others(place, client):
            raise DestinationError(f"temporary {kind} {name!r} belongs to another client")
        elif self._users.get(place) != user:
            self._is_of(place, user)
        place.owner = owner
        self._owned.setdefault(owner, {})[place] = None
        if client:
            self._clients[owner] = client
        return place

    def _make_room(self, kind: type, count: int, user: str | None) -> None:
        """Let an orphan go for one more place of this user, if one has to and one may."""
        left = self.count_max - count - 1
        if left >= 0 and self._shares[kind].has_room(user, 1, left, self.count_max):
            return
        for orphan in islice(self._orphans[kind], _LOOKED_AT_MAX):
            if user in (None, self._users.get(orphan)):
                self._drop_orphan(orphan)
                return

    def _require_share(self, kind: str, count: int, user: str | None) -> None:
        shares = self._shares[Queue if kind == "queue" else Topic]
        if not shares.has_room(user, 1, self.count_max - count - 1, self.count_max):
            had = f"{shares.of(user):,} temporary {kind}s"
            raise DestinationError(refusal_of(user, had, f"{self.count_max:,} for all"))

    def _is_of(self, place: Queue | Topic, user: str | None) -> None:
        """Count a place for a user from now on, and what stands there; None: for nobody."""
        self._shares[type(place)].add(self._users.pop(place, None), -1)
        self._shares[type(place)].add(user, 1)
        if user is not None:
            self._users[place] = user
        if isinstance(place, Queue) and place.user != user:
            flow = place.leadership.flow
            taken = place.transient_bytes + flow.overhead * len(place.transients)
            flow.temporary_shares.add(place.user, -taken)
            flow.temporary_shares.add(user, taken)
            flow.answer_shares.move(place, place.user, user)
            place.user = user

    def _may_come_back(self, name: str) -> bool:
        """Whether a client may be on its way here that had a place of this name elsewhere."""
        if not _OF_A_CLIENT.fullmatch(name):
            return False
        return self._elapsed_ms() - self._began_ms < self._orphan_ms

    def _taken_from_others(self, place: Queue | Topic, client: str) -> bool:
        """Take a place from its client's old connection, or from nobody; false: another has it."""
        orphans = self._orphans[type(place)]
        if place in orphans:
            if orphans[place][1] not in ("", client):
                return False
            del orphans[place]
            return True
        if not client or self._clients.get(place.owner) != client:
            return False
        # One that is lost: of two that live, none has the other's name.
        del self._owned[place.owner][place]
        return True

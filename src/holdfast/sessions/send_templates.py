"""
What SENDs come to whose headers differ in what nobody asks: worked out once for all of them.

Applications give a message headers of its own: a correlation id, an order's number, a time. What
the broker makes of it depends on a few others, mostly the same. So as a SEND is worked out it is
noted which of its headers were asked and what they said. One that says the same comes to the same,
whatever else it says; and which those are nobody has to list.

Invariants:
    What is kept takes no more than a few KiB of a connection, whatever headers it sends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.topic import Topic
from holdfast.model.destination import Destination
from holdfast.sessions.target import Basis

COUNT_MAX: Final = 16
"""So many templates a connection has, then it begins anew."""
SAID_LENGTH_MAX: Final = 512
"""Characters that the headers asked for may have together."""

Said = tuple[str | None, ...]


class AskedHeaders(Mapping[str, str]):
    """Headers that note which of them are asked for, whether they are there or not."""

    __slots__ = ("_headers", "names")

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = headers
        self.names: dict[str, None] | None = {}
        """What was asked for; None: all of them, by walking through them."""

    def __getitem__(self, name: str) -> str:
        self._note(name)
        return self._headers[name]

    def __contains__(self, name: object) -> bool:
        self._note(str(name))
        return name in self._headers

    def __iter__(self) -> Iterator[str]:
        self.names = None
        return iter(self._headers)

    def __len__(self) -> int:
        self.names = None
        return len(self._headers)

    def _note(self, name: str) -> None:
        if self.names is not None:
            self.names[name] = None

    @property
    def said(self) -> Said | None:
        """What those said that were asked for; None: too much to be kept."""
        if self.names is None:
            return None
        said = tuple(map(self._headers.get, self.names))
        length = sum(len(each) for each in said if each is not None)
        return said if length <= SAID_LENGTH_MAX else None


class SendTemplate:
    """What the headers that were asked for come to, of a SEND to one queue or topic by its name."""

    __slots__ = (
        *("basis", "destination", "destinations", "is_kept", "is_limited", "is_numbered"),
        *("is_wanted", "mirrors", "priority", "producer_id", "written"),
    )

    def __init__(
        self,
        destination: Queue | Topic,
        *,
        is_wanted: bool,
        is_kept: bool,
        is_numbered: bool,
        is_limited: bool,
        priority: int,
        producer_id: str | None,
        destinations: tuple[Queue | Topic, ...] | None = None,
        mirrors: tuple[str, ...] = (),
        written: tuple[Destination, ...] = (),
        basis: Basis | None = None,
    ) -> None:
        self.destination = destination
        self.destinations = destinations
        """All that it goes to, where that is more."""
        self.mirrors, self.written = mirrors, written
        """As with `Target`."""
        self.basis = basis or destination
        """What this rests on."""
        self.is_wanted = is_wanted
        """Whether it is to be kept, where it can be."""
        self.is_kept = is_kept
        """Whether that is so here."""
        self.is_numbered = is_numbered
        """Whether a producer's numbers count there."""
        self.is_limited = is_limited
        self.priority = priority
        """What its headers say of it."""
        self.producer_id = producer_id


class SendTemplates:
    """What one connection's SENDs came to."""

    __slots__ = ("_by_names", "wild_count")

    def __init__(self) -> None:
        self._by_names: dict[tuple[str, ...], dict[Said, SendTemplate]] = {}
        self.wild_count = 0
        """As with `Target`, of all that is known."""

    def follow(self, wild_count: int) -> None:
        """Forget all where a durable subscription of a wildcard was made since."""
        if wild_count != self.wild_count:
            self.wild_count = wild_count
            self.forget()

    def find(self, headers: Mapping[str, str]) -> SendTemplate | None:
        """Give what these headers come to; None: that is not known, or not any more."""
        get = headers.get
        for names, known in self._by_names.items():
            template = known.get(tuple(map(get, names)))
            if template is not None:
                return None if template.basis.is_outdated else template
        return None

    def keep(self, asked: AskedHeaders, template: SendTemplate) -> None:
        """Know from now on what these headers come to."""
        said, names = asked.said, asked.names
        if said is None or names is None:
            return
        if sum(map(len, self._by_names.values())) >= COUNT_MAX:
            self.forget()
        self._by_names.setdefault(tuple(names), {})[said] = template

    def forget(self) -> None:
        """Know nothing: what it depends on beside headers has changed."""
        self._by_names.clear()

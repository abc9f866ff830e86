"""
What a destination's written name means.

`/queue/a` and `/topic/a` name a queue and a topic; `/temp-queue/a` and `/temp-topic/a` belong to
the connection that uses them; `/remote-temp-queue/ID` is how another connection sees the first
one's temporary queue. A bare name is a queue, prefix and all, as ActiveMQ reads it. Spaces around
a name, and options behind a question mark, are no part of it.

A composite destination names several, with commas between: `/queue/a,/topic/b`. Within one, JMS'
own prefixes are read as well (`queue://a`), and a part without a prefix is of the first one's
kind, as in ActiveMQ. Who subscribes may write a wildcard for many: `/queue/a.*`, `/topic/a.>` (see
`wildcards`). Pure values; nothing here knows whether a destination exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final
from urllib.parse import parse_qsl

from holdfast.errors import DestinationError
from holdfast.model.limits import COMPOSITE_COUNT_MAX, QUEUE_NAME_BYTES_MAX


class Kind(Enum):
    """The kinds of destination."""

    QUEUE = "queue"
    TOPIC = "topic"
    TEMPORARY_QUEUE = "temp-queue"
    TEMPORARY_TOPIC = "temp-topic"
    REMOTE_TEMPORARY_QUEUE = "remote-temp-queue"
    REMOTE_TEMPORARY_TOPIC = "remote-temp-topic"


_PREFIXES = {f"/{kind.value}/": kind for kind in Kind}
_JMS_PREFIXES: Final = {f"{kind.value}://": kind for kind in Kind if "remote" not in kind.value}
_OPTIONS_COUNT_MAX: Final = 64
_PARTS_MAX: Final = 4 * COMPOSITE_COUNT_MAX
"""Also of what is written twice: each is read."""
_SHOWN_MAX: Final = 200
_SPACES: Final = " \t\r\n\v\f"


@dataclass(frozen=True, slots=True)
class Destination:
    """A kind and a name, as a client wrote them."""

    kind: Kind
    name: str
    options: str = ""
    """What stood behind a question mark: `consumer.prefetchSize=10&…`."""

    def read_options(self) -> dict[str, str]:
        """
        Give the options by name; of a repeated one the last counts, as in ActiveMQ.

        Raises:
            DestinationError: There are too many.
        """
        try:
            pairs = parse_qsl(
                self.options, keep_blank_values=True, max_num_fields=_OPTIONS_COUNT_MAX
            )
        except ValueError:
            raise DestinationError(
                f"more than {_OPTIONS_COUNT_MAX} options behind destination '{self}'"
            ) from None
        return dict(pairs)

    @property
    def is_wildcard(self) -> bool:
        """Whether it means all destinations of a kind whose names match."""
        return has_wildcards(self.name)

    def __str__(self) -> str:
        return f"/{self.kind.value}/{self.name}"


def has_wildcards(name: str) -> bool:
    """Whether a name, instead of being one, tells which names are meant."""
    return name.endswith(">") or "*" in name.split(".")


def parse_destination(text: str) -> Destination:
    """
    Read one destination as a client writes it.

    Raises:
        DestinationError: The name is empty, too long, or means several (`a,b`, `a.>`).
    """
    written, _, options = text.partition("?")
    if "," in written:
        raise DestinationError(
            f"destination {_shown(text)}: several at once, with commas between, may only be sent"
            f" to or subscribed to"
        )
    return _single(written, options, text)


def parse_sources(text: str) -> tuple[Destination, ...]:
    """
    Read what a client subscribes to: one destination, or several with commas between, wildcards
    among them.

    Raises:
        DestinationError: As with `parse_destinations`; a wildcard for temporary destinations.
    """
    found = _several(text, may_be_wild=True)
    for each in found:
        if each.kind not in (Kind.QUEUE, Kind.TOPIC) and each.is_wildcard:
            raise DestinationError(
                f"destination {_shown(text)}: wildcards stand for queues and topics,"
                f" not for temporary ones"
            )
    return found


def parse_destinations(text: str) -> tuple[Destination, ...]:
    """
    Read where a client sends to: one destination, or several with commas between.

    Each is given once, in the order they are written; parts that are empty are passed over. What
    stands behind a question mark, at the end, is said of all of them.

    Raises:
        DestinationError: A name is empty, too long, or a wildcard, or there are too many.
    """
    return _several(text, may_be_wild=False)


def _several(text: str, *, may_be_wild: bool) -> tuple[Destination, ...]:
    written, _, options = text.partition("?")
    behind = options.split(",", _PARTS_MAX)[1:]
    if any(part.strip(_SPACES).startswith((*_PREFIXES, *_JMS_PREFIXES)) for part in behind):
        raise DestinationError(
            f"destination {_shown(text)}: options stand behind the last of several destinations"
        )
    if "," not in written:
        return (_single(written, options, text, may_be_wild=may_be_wild),)
    if written.count(",") > _PARTS_MAX:
        raise DestinationError(
            f"destination {_shown(text)}: more than {COMPOSITE_COUNT_MAX} destinations at once"
        )
    found: dict[Destination, None] = {}
    for part in written.split(","):
        name = part.strip(_SPACES)
        if not name:
            continue
        kind = next(iter(found)).kind if found else Kind.QUEUE
        destination = _part(name, kind, options, text, may_be_wild=may_be_wild)
        found[destination] = None
        if len(found) > COMPOSITE_COUNT_MAX:
            raise DestinationError(
                f"destination {_shown(text)}: more than {COMPOSITE_COUNT_MAX} destinations at once"
            )
    if not found:
        raise DestinationError(f"destination {_shown(text)} is nothing but commas")
    return tuple(found)


def _part(name: str, kind: Kind, options: str, text: str, *, may_be_wild: bool) -> Destination:
    """Read one of several, which is of this kind if it does not say."""
    for prefix, named in _JMS_PREFIXES.items():
        if name.startswith(prefix):
            own = name[len(prefix) :].strip(_SPACES)
            return Destination(named, _checked(own, text, may_be_wild=may_be_wild), options)
    if name.startswith(tuple(_PREFIXES)):
        return _single(name, options, text, may_be_wild=may_be_wild)
    return Destination(kind, _checked(name, text, may_be_wild=may_be_wild), options)


def _single(written: str, options: str, text: str, *, may_be_wild: bool = False) -> Destination:
    written = written.strip(_SPACES)
    for prefix, kind in _PREFIXES.items():
        if written.startswith(prefix):
            name = written[len(prefix) :].strip(_SPACES)
            return Destination(kind, _checked(name, text, may_be_wild=may_be_wild), options)
    return Destination(Kind.QUEUE, _checked(written, text, may_be_wild=may_be_wild), options)


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…")


def _checked(name: str, text: str, *, may_be_wild: bool) -> str:
    if not name:
        raise DestinationError(
            f"destination {_shown(text)} has no name; write for example /queue/orders"
        )
    if len(name.encode()) > QUEUE_NAME_BYTES_MAX:
        raise DestinationError(
            f"destination name of {len(name.encode()):,} bytes; at most {QUEUE_NAME_BYTES_MAX:,}"
        )
    if not may_be_wild and has_wildcards(name):
        raise DestinationError(
            f"destination {_shown(text)}: wildcards are for who subscribes, nothing else"
        )
    return name

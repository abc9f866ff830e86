"""
What a destination's written name means.

`/queue/a` and `/topic/a` name a queue and a topic; `/temp-queue/a` and `/temp-topic/a` belong to
the connection that uses them; `/remote-temp-queue/ID` is how another connection sees the first
one's temporary queue. A bare name is a queue, prefix and all, as ActiveMQ reads it. Spaces around
a name, and options behind a question mark, are no part of it.

A composite destination names several, with commas between: `/queue/a,/topic/b`. Within one, JMS'
own prefixes are read as well (`queue://a`), and a part without a prefix is of the first one's
kind, as in ActiveMQ. Pure values; nothing here knows whether a destination exists.
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

    def __str__(self) -> str:
        return f"/{self.kind.value}/{self.name}"


def parse_destination(text: str) -> Destination:
    """
    Read one destination as a client writes it.

    Raises:
        DestinationError: The name is empty, too long, or of a form that is not served here:
            several destinations (`a,b`) and wildcards.
    """
    written, _, options = text.partition("?")
    if "," in written:
        raise DestinationError(
            f"destination {_shown(text)}: several at once, with commas between, may only be sent to"
        )
    return _single(written, options, text)


def parse_destinations(text: str) -> tuple[Destination, ...]:
    """
    Read where a client sends to: one destination, or several with commas between.

    Each is given once, in the order they are written; parts that are empty are passed over. What
    stands behind a question mark, at the end, is said of all of them.

    Raises:
        DestinationError: A name is empty, too long, or a wildcard, or there are too many.
    """
    written, _, options = text.partition("?")
    behind = options.split(",", _PARTS_MAX)[1:]
    if any(part.strip(_SPACES).startswith((*_PREFIXES, *_JMS_PREFIXES)) for part in behind):
        raise DestinationError(
            f"destination {_shown(text)}: options stand behind the last of several destinations"
        )
    if "," not in written:
        return (_single(written, options, text),)
    if written.count(",") > _PARTS_MAX:
        raise DestinationError(
            f"destination {_shown(text)}: more than {COMPOSITE_COUNT_MAX} destinations at once"
        )
    found: dict[Destination, None] = {}
    for part in written.split(","):
        name = part.strip(_SPACES)
        if not name:
            continue
        destination = _part(name, next(iter(found)).kind if found else Kind.QUEUE, options, text)
        found[destination] = None
        if len(found) > COMPOSITE_COUNT_MAX:
            raise DestinationError(
                f"destination {_shown(text)}: more than {COMPOSITE_COUNT_MAX} destinations at once"
            )
    if not found:
        raise DestinationError(f"destination {_shown(text)} is nothing but commas")
    return tuple(found)


def _part(name: str, kind: Kind, options: str, text: str) -> Destination:
    """Read one of several, which is of this kind if it does not say."""
    for prefix, named in _JMS_PREFIXES.items():
        if name.startswith(prefix):
            return Destination(named, _checked(name[len(prefix) :].strip(_SPACES), text), options)
    if name.startswith(tuple(_PREFIXES)):
        return _single(name, options, text)
    return Destination(kind, _checked(name, text), options)


def _single(written: str, options: str, text: str) -> Destination:
    written = written.strip(_SPACES)
    for prefix, kind in _PREFIXES.items():
        if written.startswith(prefix):
            name = written[len(prefix) :].strip(_SPACES)
            return Destination(kind, _checked(name, text), options)
    return Destination(Kind.QUEUE, _checked(written, text), options)


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…")


def _checked(name: str, text: str) -> str:
    if not name:
        raise DestinationError(
            f"destination {_shown(text)} has no name; write for example /queue/orders"
        )
    if len(name.encode()) > QUEUE_NAME_BYTES_MAX:
        raise DestinationError(
            f"destination name of {len(name.encode()):,} bytes; at most {QUEUE_NAME_BYTES_MAX:,}"
        )
    if name.endswith(">") or "*" in name.split("."):
        raise DestinationError(f"destination {_shown(text)}: wildcards are not served")
    return name

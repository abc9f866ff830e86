"""
What a destination's written name means.

`/queue/a` and `/topic/a` name a queue and a topic; `/temp-queue/a` and `/temp-topic/a` belong to
the connection that uses them; `/remote-temp-queue/ID` is how another connection sees the first
one's temporary queue. A bare name is a queue, prefix and all, as ActiveMQ reads it. Spaces around
a name, and options behind a question mark, are no part of it. Pure values; nothing here knows
whether a destination exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final
from urllib.parse import parse_qsl

from holdfast.errors import DestinationError
from holdfast.model.limits import QUEUE_NAME_BYTES_MAX


class Kind(Enum):
    """The kinds of destination."""

    QUEUE = "queue"
    TOPIC = "topic"
    TEMPORARY_QUEUE = "temp-queue"
    TEMPORARY_TOPIC = "temp-topic"
    REMOTE_TEMPORARY_QUEUE = "remote-temp-queue"
    REMOTE_TEMPORARY_TOPIC = "remote-temp-topic"


_PREFIXES = {f"/{kind.value}/": kind for kind in Kind}
_OPTIONS_COUNT_MAX: Final = 64
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
    Read a destination as a client writes it.

    Raises:
        DestinationError: The name is empty, too long, or of a form that is not served:
            composite names (`a,b`) and wildcards.
    """
    written, _, options = text.partition("?")
    written = written.strip(_SPACES)
    for prefix, kind in _PREFIXES.items():
        if written.startswith(prefix):
            name = written[len(prefix) :].strip(_SPACES)
            return Destination(kind, _checked(name, text), options)
    return Destination(Kind.QUEUE, _checked(written, text), options)


def _checked(name: str, text: str) -> str:
    if not name:
        raise DestinationError(f"destination {text!r} has no name; write for example /queue/orders")
    if len(name.encode()) > QUEUE_NAME_BYTES_MAX:
        raise DestinationError(
            f"destination name of {len(name.encode()):,} bytes; at most {QUEUE_NAME_BYTES_MAX:,}"
        )
    if "," in name:
        raise DestinationError(f"destination {text!r}: composite names are not served")
    if name.endswith(">") or "*" in name.split("."):
        raise DestinationError(f"destination {text!r}: wildcards are not served")
    return name

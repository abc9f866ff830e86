"""
What a destination's written name means.

`/queue/a` and `/topic/a` name a queue and a topic; `/temp-queue/a` and `/temp-topic/a` belong to
the connection that uses them; `/remote-temp-queue/ID` is how another connection sees the first
one's temporary queue. A bare name is a queue, prefix and all, as ActiveMQ reads it. Pure values;
nothing here knows whether a destination exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

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


@dataclass(frozen=True, slots=True)
class Destination:
    """A kind and a name, as a client wrote them."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"/{self.kind.value}/{self.name}"


def parse_destination(text: str) -> Destination:
    """
    Read a destination as a client writes it.

    Raises:
        DestinationError: The name is empty, too long, or of a form that is not served:
            composite names (`a,b`) and wildcards.
    """
    for prefix, kind in _PREFIXES.items():
        if text.startswith(prefix):
            return Destination(kind, _checked(text[len(prefix) :], text))
    return Destination(Kind.QUEUE, _checked(text, text))


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

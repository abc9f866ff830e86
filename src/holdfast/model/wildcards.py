"""
Patterns of destinations: `queue://ORDERS.>` means every queue whose name begins with ORDERS.

A name is parts with dots between them. In a pattern `*` stands for one part and `>`, at the end,
for any number of them, also for none: `A.>` matches `A`, as ActiveMQ has it. Everything else is
itself. Of several that match a name the one with more parts of its own says more of it; of equally
many the one whose own parts stand further left, and one that tells how many parts there are before
one that ends in `>`. So two different patterns never say equally much of one name.

Pure values; nothing here knows whether a destination exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from holdfast.errors import PolicyError
from holdfast.model.destination import Kind
from holdfast.model.limits import QUEUE_NAME_BYTES_MAX

ONE: Final = "*"
REST: Final = ">"

_KINDS: Final = {
    "queue://": Kind.QUEUE,
    "topic://": Kind.TOPIC,
    "/queue/": Kind.QUEUE,
    "/topic/": Kind.TOPIC,
}
"""How a pattern may begin: as ActiveMQ writes it, or as a destination in STOMP."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Where a pattern has parts of its own, which is what it has in common with others."""

    own: tuple[int, ...]
    """The places of those parts, from 0."""
    length: int
    """How many parts a name has, or has at least."""
    is_open: bool
    """It ends in `>`: a name may have more."""

    @property
    def rank(self) -> tuple[int, tuple[int, ...]]:
        """How much it says of a name that matches, to be compared: most is said by the largest."""
        places = tuple(2 if place in self.own else 1 for place in range(self.length))
        return len(self.own), (*places, 0 if self.is_open else 1)

    def key_of(self, parts: list[str]) -> tuple[str, ...] | None:
        """Give what a name of these parts has where the pattern has its own; None: it cannot be."""
        count = len(parts)
        if count < self.length or (count > self.length and not self.is_open):
            return None
        return tuple(parts[place] for place in self.own)


@dataclass(frozen=True, slots=True)
class Pattern:
    """Which destinations are meant."""

    kind: Kind
    text: str
    """What stands for their names."""
    shape: Shape
    key: tuple[str, ...]
    """The parts of its own."""

    def matches(self, kind: Kind, name: str) -> bool:
        """Whether a destination is meant."""
        return kind is self.kind and self.shape.key_of(name.split(".")) == self.key

    @property
    def is_exact(self) -> bool:
        """Whether it means one destination."""
        return not self.shape.is_open and len(self.key) == self.shape.length

    def __str__(self) -> str:
        return f"{self.kind.value}://{self.text}"


def parse_pattern(written: str) -> Pattern:
    """
    Read a pattern as it is written: `queue://A.*`, `/topic/A.>`, or a bare name of queues.

    Raises:
        PolicyError: It is empty, too long, or has a `*` or `>` where none can stand.
    """
    kind, text = Kind.QUEUE, written.strip()
    for prefix, meant in _KINDS.items():
        if text.startswith(prefix):
            kind, text = meant, text.removeprefix(prefix).strip()
            break
    size = len(text.encode())
    if not text or size > QUEUE_NAME_BYTES_MAX:
        raise PolicyError(
            f"pattern {_shown(written)} has a name of {size:,} bytes; allowed are 1 to"
            f" {QUEUE_NAME_BYTES_MAX:,}, for example queue://ORDERS.>"
        )
    if "," in text or not text.isprintable():
        raise PolicyError(f"pattern {_shown(written)}: a name has no commas or control characters")
    parts = text.split(".")
    is_open = parts[-1] == REST
    if is_open:
        del parts[-1]
    if REST in parts or any(part.endswith(REST) for part in parts):
        raise PolicyError(f"pattern {_shown(written)}: '>' stands at the end, as a part of its own")
    own = tuple(place for place, part in enumerate(parts) if part != ONE)
    shape = Shape(own, len(parts), is_open)
    return Pattern(kind, text, shape, tuple(parts[place] for place in own))


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:40]}…{text[-40:]}")

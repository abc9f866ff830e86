"""
Which subscriptions with wildcards a destination's name concerns, found without asking each of them.

Invariants:
    Patterns with parts of their own at the same places are looked up together; there are never more
    such kinds of patterns than the limit, so what a new destination costs has a bound.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from holdfast.errors import DestinationError
from holdfast.model.destination import Kind
from holdfast.model.limits import WILDCARD_SHAPES_MAX
from holdfast.model.wildcards import Pattern, Shape

_Key = tuple[str, ...]


class Patterned(Protocol):
    """Whatever is concerned by names that patterns mean."""

    @property
    def patterns(self) -> Sequence[Pattern]:
        """These."""


T = TypeVar("T", bound=Patterned)


class Wildcards(Generic[T]):
    """Subscriptions by their patterns."""

    __slots__ = ("_by_shape",)

    def __init__(self) -> None:
        self._by_shape: dict[tuple[Kind, Shape], dict[_Key, dict[T, None]]] = {}

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._by_shape)

    def require_room(self, patterns: Iterable[Pattern]) -> None:
        """
        Refuse patterns that would be of too many kinds, with those that are there.

        Raises:
            DestinationError: They would.
        """
        new = {(it.kind, it.shape) for it in patterns} - self._by_shape.keys()
        if len(self._by_shape) + len(new) > WILDCARD_SHAPES_MAX:
            raise DestinationError(
                f"subscriptions have wildcards at {len(self._by_shape):,} different places in"
                f" names already; at most {WILDCARD_SHAPES_MAX:,}"
            )

    def add(self, subscription: T) -> None:
        """
        Note a subscription.

        Raises:
            DestinationError: There are too many kinds of patterns.
        """
        self.require_room(subscription.patterns)
        for it in subscription.patterns:
            by_key = self._by_shape.setdefault((it.kind, it.shape), {})
            by_key.setdefault(it.key, {})[subscription] = None

    def remove(self, subscription: T) -> None:
        """Forget a subscription, if it is there."""
        for it in subscription.patterns:
            by_key = self._by_shape.get((it.kind, it.shape), {})
            found = by_key.get(it.key, {})
            found.pop(subscription, None)
            if not found:
                by_key.pop(it.key, None)
            if not by_key:
                self._by_shape.pop((it.kind, it.shape), None)

    def concern(self, kind: Kind, name: str) -> bool:
        """Whether a destination of this name concerns anybody."""
        parts = name.split(".")
        return any(
            shape.key_of(parts) in by_key
            for (of_kind, shape), by_key in self._by_shape.items()
            if of_kind is kind
        )

    def of(self, kind: Kind, name: str) -> list[T]:
        """Give the subscriptions that a destination of this name concerns, each once."""
        parts = name.split(".")
        found: dict[T, None] = {}
        for (of_kind, shape), by_key in self._by_shape.items():
            key = shape.key_of(parts) if of_kind is kind else None
            if key is not None:
                found |= by_key.get(key, {})
        return [*found]

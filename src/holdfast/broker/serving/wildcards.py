"""
Which subscriptions with wildcards a destination's name concerns, found without asking each of them.

Invariants:
    Patterns with parts of their own at the same places are looked up together; there are never more
    such kinds of patterns than the limit, so what a new destination costs has a bound.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from holdfast.broker.serving.bundle import Bundle
from holdfast.errors import DestinationError
from holdfast.model.destination import Kind
from holdfast.model.limits import WILDCARD_SHAPES_MAX
from holdfast.model.wildcards import Shape

_Key = tuple[str, ...]


class Wildcards:
    """Subscriptions by their patterns."""

    __slots__ = ("_by_shape",)

    def __init__(self) -> None:
        self._by_shape: dict[tuple[Kind, Shape], dict[_Key, dict[Bundle, None]]] = {}

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._by_shape)

    def add(self, bundle: Bundle) -> None:
        """
        Note a subscription.

        Raises:
            DestinationError: There are too many kinds of patterns.
        """
        new = {(it.kind, it.shape) for it in bundle.patterns} - self._by_shape.keys()
        if len(self._by_shape) + len(new) > WILDCARD_SHAPES_MAX:
            raise DestinationError(
                f"subscriptions have wildcards at {len(self._by_shape):,} different places in"
                f" names already; at most {WILDCARD_SHAPES_MAX:,}"
            )
        for it in bundle.patterns:
            by_key = self._by_shape.setdefault((it.kind, it.shape), {})
            by_key.setdefault(it.key, {})[bundle] = None

    def remove(self, bundle: Bundle) -> None:
        """Forget a subscription, if it is there."""
        for it in bundle.patterns:
            by_key = self._by_shape.get((it.kind, it.shape), {})
            found = by_key.get(it.key, {})
            found.pop(bundle, None)
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

    def of(self, kind: Kind, name: str) -> list[Bundle]:
        """Give the subscriptions that a destination of this name concerns, each once."""
        parts = name.split(".")
        found: dict[Bundle, None] = {}
        for (of_kind, shape), by_key in self._by_shape.items():
            key = shape.key_of(parts) if of_kind is kind else None
            if key is not None:
                found |= by_key.get(key, {})
        return [*found]

"""
The selectors of a node's subscriptions: each text is read once, and each message, for all of them.

A message goes to its subscribers one after the other, so what it says is kept until another one is
asked about, as the frames that they share are.

Owned by the context of all sessions of one node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from holdfast.broker.serving.message import TransientMessage
from holdfast.sessions.stomp_values import StompValues

if TYPE_CHECKING:
    from holdfast.selectors.selector import Selector


class Selections:
    """All selectors, and the message that they are asked of."""

    __slots__ = ("_selectors", "_values")

    def __init__(self) -> None:
        self._selectors: WeakValueDictionary[str, Selector] = WeakValueDictionary()
        self._values: StompValues | None = None

    def read(self, text: str, destination: str, identity: str) -> Selection:
        """
        Give what selects messages of one topic, of which all begin their ids so.

        Raises:
            SelectorError: The selector cannot be read.
        """
        # With all that reads: a node that starts is asked for no selector yet.
        from holdfast.selectors.selector import Selector  # noqa: PLC0415

        selector = self._selectors.get(text)
        if selector is None:
            selector = self._selectors[text] = Selector(text)
        return Selection(selector, self, destination, identity)

    def values_of(self, message: TransientMessage, destination: str, identity: str) -> StompValues:
        """Give what a message says, without its body."""
        values = self._values
        if values is None or values.key != message.key or values.lines is not message.headers:
            values = self._values = StompValues(message, destination, identity)
        return values

    def clear(self) -> None:
        """Keep nothing of any message."""
        self._values = None


class Selection:
    """Which messages of a topic a consumer wants (`MessageSelector`)."""

    __slots__ = ("_destination", "_identity", "_selections", "_selector")

    def __init__(
        self, selector: Selector, selections: Selections, destination: str, identity: str
    ) -> None:
        self._selector = selector
        self._selections = selections
        self._destination = destination
        self._identity = identity

    @property
    def effort(self) -> int:
        """What asking it takes at most, counted in deliveries."""
        return self._selector.effort

    @property
    def cost_bytes(self) -> int:
        """What it takes of the memory for subscriptions, though it may be shared."""
        return self._selector.cost_bytes

    def selects(self, message: TransientMessage) -> bool:
        """Whether its consumer wants a message."""
        values = self._selections.values_of(message, self._destination, self._identity)
        return self._selector.matches(values)

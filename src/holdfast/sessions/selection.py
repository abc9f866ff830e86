"""
The selectors of a node's subscriptions: each text is read once, and each message, for all of them.

A topic's message goes to its subscribers one after the other, so what it says is kept until another
one is asked about, as the frames that they share are. A queue asks all of them itself.

Owned by the context of all sessions of one node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from holdfast.broker.lasting.queue import LastingQueue
from holdfast.broker.serving.dead_letters import with_origin
from holdfast.broker.serving.message import TransientMessage
from holdfast.errors import SelectorError
from holdfast.model.limits import MiB
from holdfast.model.records import MessageRecord
from holdfast.sessions.stomp_values import StompValues

if TYPE_CHECKING:
    from holdfast.selectors.selector import Selector


_OF_POLICIES_BYTES_MAX: Final = 32 * MiB
_UNREADABLE_BYTES: Final = 200
"""What a selector takes beside its text that cannot be read."""


class Selections:
    """All selectors, and the message that they are asked of."""

    __slots__ = ("_of_policies", "_of_policies_bytes", "_selectors", "_values")

    def __init__(self) -> None:
        self._selectors: WeakValueDictionary[str, Selector] = WeakValueDictionary()
        self._of_policies: dict[str, Selector | None] = {}
        """By their texts; None of one that cannot be read."""
        self._of_policies_bytes = 0
        self._values: StompValues | None = None

    def read(self, text: str, destination: str, identity: str) -> Selection:
        """
        Give what selects messages of one destination, of which all begin their ids so.

        Raises:
            SelectorError: The selector cannot be read.
        """
        # With all that reads: a node that starts is asked for no selector yet.
        from holdfast.selectors.selector import Selector  # noqa: PLC0415

        selector = self._selectors.get(text)
        if selector is None:
            selector = self._selectors[text] = Selector(text)
        return Selection(selector, self, destination, identity)

    def has_of_policy(self, text: str) -> bool:
        """Whether a selector that policies have was read, and is kept."""
        return text in self._of_policies

    def of_policy(self, text: str) -> Selector | None:
        """
        Give a selector that policies have; each is kept.

        None: it cannot be read here, as a later version may have written it.
        """
        from holdfast.selectors.selector import Selector  # noqa: PLC0415 - as in `read`

        if text in self._of_policies:
            return self._of_policies[text]
        try:
            selector = Selector(text)
        except SelectorError:
            selector = None
        self._of_policies[text] = selector
        self._of_policies_bytes += _cost_of(text, selector)
        while self._of_policies_bytes > _OF_POLICIES_BYTES_MAX and len(self._of_policies) > 1:
            oldest = next(iter(self._of_policies))
            self._of_policies_bytes -= _cost_of(oldest, self._of_policies.pop(oldest))
        return selector

    def read_of_topic(self, text: str, topic: LastingQueue) -> Selection:
        """
        Give what selects messages of a stored topic.

        Raises:
            SelectorError: The selector cannot be read.
        """
        return self.read(text, f"topic://{topic.name}", f"ID:{topic.number}-")

    def values_of(self, message: TransientMessage, destination: str, identity: str) -> StompValues:
        """Give what a message says, without its body."""
        values = self._values
        if values is None or values.key != message.key or values.lines is not message.headers:
            values = self._values = StompValues(message, destination, identity)
        return values

    def clear(self) -> None:
        """Keep nothing of any message."""
        self._values = None


def _cost_of(text: str, selector: Selector | None) -> int:
    return _UNREADABLE_BYTES + len(text) if selector is None else selector.cost_bytes


class Selection:
    """Which messages of a destination a consumer wants (`MessageSelector`)."""

    __slots__ = ("_destination", "_selections", "_selector", "identity", "volatile_identity")

    def __init__(
        self, selector: Selector, selections: Selections, destination: str, identity: str
    ) -> None:
        self._selector = selector
        self._selections = selections
        self._destination = destination
        self.identity = identity
        """The beginning of the ids of its messages."""
        self.volatile_identity = identity
        """The same of those that are in memory only, on a queue."""

    def of(self, destination: str) -> Selection:
        """Give what selects by the same words, messages of another destination."""
        return Selection(self._selector, self._selections, destination, self.identity)

    @property
    def effort(self) -> int:
        """What asking it takes at most, counted in deliveries."""
        return self._selector.effort

    @property
    def cost_bytes(self) -> int:
        """What it takes of the memory for subscriptions, though it may be shared."""
        return self._selector.cost_bytes

    @property
    def condition(self) -> str:
        """What it asks for, the same for all that ask for the same in other letters."""
        return self._selector.condition

    @property
    def literal(self) -> tuple[str, str] | None:
        """A name, and the only word that may stand under it where it selects; None: any may."""
        return self._selector.demand

    def selects(self, message: TransientMessage) -> bool:
        """Whether its consumer wants a message of a topic."""
        values = self._selections.values_of(message, self._destination, self.identity)
        return self._selector.matches(values)

    def values_of(
        self, key: int, message: MessageRecord | TransientMessage, redelivered: int
    ) -> StompValues:
        """Give what a message of a queue says; which delivery of it this is, 0: the first."""
        assert message.headers is not None and message.body is not None, "it has its content"
        lines, facts = message.headers, message.facts
        if facts is not None and facts.origin is not None:
            lines = with_origin(lines, facts)
        identity = self.identity if key > 0 else self.volatile_identity
        said = TransientMessage(-abs(key), lines, message.body, 0, message.stored_at)
        return StompValues(said, self._destination, identity, redelivered, is_stored=key > 0)

    def is_true_of(self, values: Mapping[str, Any]) -> bool:
        """Whether its consumer wants a message that says so."""
        return self._selector.matches(values)

"""
One key of what may be said of destinations by pattern: what it is for, and what it may be.

The table of all is `policy_options`. Here are also the names of those keys of which more is known
than what the table says: that they are names, or say where messages go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from holdfast.model.allowed import Allowed
from holdfast.model.destination import Kind

FLOW_CONTROL: Final = "producerFlowControl"
FORWARD_TO: Final = "forwardTo"
MIRRORED: Final = "mirrored"
VIRTUAL_TOPIC: Final = "virtualTopic"
VIRTUAL_TOPIC_PREFIX: Final = "virtualTopicPrefix"
VIRTUAL_TOPIC_POSTFIX: Final = "virtualTopicPostfix"
OFFLINE_TIMEOUT: Final = "offlineDurableSubscriberTimeout"
DIRECTING: Final = frozenset(
    {FORWARD_TO, MIRRORED, VIRTUAL_TOPIC, VIRTUAL_TOPIC_PREFIX, VIRTUAL_TOPIC_POSTFIX}
)
"""Keys that say where messages go."""

KEEPING: Final = frozenset({OFFLINE_TIMEOUT, "maxLength", "maxLengthBytes"})
"""Keys of topics that say how much their durable subscriptions keep, and for how long."""

NAMES: Final = {
    "deadLetterQueue": "",
    "queuePrefix": "x",
    "queueSuffix": "x",
    "topicPrefix": "x",
    "topicSuffix": "x",
}
"""Keys that are names of queues; what a part of one is tried with."""

Value = str | int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOption:
    """One key."""

    name: str
    kind: Kind
    """What it can be said of."""
    meaning: str
    allowed: Allowed | None = None
    """Of a number, its range; of a text, its length in bytes."""
    choices: tuple[str, ...] = ()
    default: Value = ""
    setting: str = ""
    """Where its default is from, if that is a setting."""
    is_decimal: bool = False
    """Whether it is a number that may have a fraction."""
    is_of_both: bool = False
    """Whether it can be said of topics as of queues."""

    def is_of(self, kind: Kind) -> bool:
        """Whether it can be said of destinations of a kind."""
        return self.is_of_both or kind is self.kind

    @property
    def is_number(self) -> bool:
        """Whether it is a number, else a text."""
        return self.allowed is not None and not (self.is_name or self.is_list or self.is_around)

    @property
    def is_around(self) -> bool:
        """Whether it stands around the names of topics in those of queues."""
        return self.name in (VIRTUAL_TOPIC_PREFIX, VIRTUAL_TOPIC_POSTFIX)

    @property
    def is_list(self) -> bool:
        """Whether it is a list of destinations."""
        return self.name == FORWARD_TO

    @property
    def is_name(self) -> bool:
        """Whether it is, or is a part of, the name of a queue."""
        return self.name in NAMES

    @property
    def says_allowed(self) -> str:
        """What it may be, for people."""
        if self.choices:
            return ", ".join(self.choices)
        if self.is_list:
            return "destinations with commas between, each perhaps 'when' a selector is true"
        return str(self.allowed) if self.is_number else f"{self.allowed} bytes"

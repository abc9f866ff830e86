"""
Virtual topics, by their names: what is sent to `VirtualTopic.orders` goes to each queue that is
called `Consumer.<anything>.VirtualTopic.orders`, too, as in ActiveMQ (whose default names these
are). So each of several applications has a queue of its own of one topic, and its consumers share
it. Policies may say that other topics are virtual, and in which form their queues are called.
Pure; nothing here knows whether a destination exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from holdfast.model.reserved_names import OWN_MARK

_TOPIC: Final = "VirtualTopic"
_ONE: Final = "*"


def is_virtual(topic: str) -> bool:
    """Whether a topic of this name is a virtual one, if nothing is said of it."""
    return topic == _TOPIC or topic.startswith(f"{_TOPIC}.")


@dataclass(frozen=True, slots=True)
class Form:
    """How the queues are called that consume a virtual topic: by what stands around its name."""

    prefix: str = "Consumer.*."
    """Parts with dots between and at the end; `*` stands for any one of them."""
    postfix: str = ""

    @property
    def head(self) -> str:
        """With which the names of all such queues begin."""
        return self.prefix.partition(_ONE)[0]

    def topic_of(self, queue: str) -> str | None:
        """Give the name of the topic that a queue of this name consumes; None: of none."""
        if not (queue.startswith(self.head) and queue.endswith(self.postfix)):
            return None
        rest = queue
        for part in self.prefix.split(".")[:-1]:
            first, _, rest = rest.partition(".")
            if not first or part not in (_ONE, first):
                return None
        topic = rest.removesuffix(self.postfix)
        return topic or None


DEFAULT_FORM: Final = Form()


def form_of(topic: str) -> Form | None:
    """Give the form in which the queues of a topic are called, if nothing is said of it."""
    return DEFAULT_FORM if is_virtual(topic) else None


def require_prefix(prefix: str) -> None:
    """
    Refuse what cannot stand before the names of topics.

    Raises:
        ValueError: It cannot.
    """
    parts = prefix.split(".")
    if len(parts) < 2 or parts[-1] or not all(parts[:-1]):
        raise ValueError("parts with dots between and at the end are expected, as in 'Consumer.*.'")
    if any(_ONE in part and part != _ONE for part in parts) or set(prefix) & set(">,/"):
        raise ValueError("'*' stands for a whole part, and '>', ',' and '/' for nothing")
    if prefix.startswith(OWN_MARK) or not prefix.isprintable():
        raise ValueError("no queue can be called so")


def require_postfix(postfix: str) -> None:
    """
    Refuse what cannot stand behind the names of topics.

    Raises:
        ValueError: It cannot.
    """
    if set(postfix) & set("*>,") or not postfix.isprintable():
        raise ValueError("'*', '>' and ',' stand for nothing here")

"""
Who keeps what is sent to topics for those that come later, as those see it that send and subscribe.

It is asked whether it is on before it is told anything: where it is not, that is all there is.
"""

from __future__ import annotations

from typing import Final

from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.serving.topic import Topic


class Recovers:
    """Keeps nothing."""

    __slots__ = ()

    @property
    def is_on(self) -> bool:
        """Whether any policy asks for it."""
        return False

    def keep(self, topic: Topic, message: TransientMessage) -> None:
        """Take what was just handed to those who are subscribed."""

    def recover(self, subscription: Subscription, topic: Topic) -> None:
        """Let who has just subscribed be given what is kept, if he asks for it."""

    def leave(self, topic: Topic) -> None:
        """Keep nothing of a topic that is forgotten though somebody is subscribed by a wildcard."""


NOTHING_KEPT: Final = Recovers()

"""
What topics keep of what was sent to them, for subscribers that come later and ask for it.

A message is kept as it is handed to those who are there; who subscribes is given what is kept then,
in order, before anything that comes later. So each of them is given once, and none is missed: what
is kept is always the newest, without gaps.

Kept by name: that a topic is forgotten while nobody uses it loses nothing. Where somebody
subscribes to it by a wildcard he had it all, and would be given it again as it is made anew; so it
goes then.

Invariants:
    All of it together takes no more than a setting says.
    Where no policy asks for it nothing is kept.
    Of each name that is here something is kept.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections import OrderedDict, deque

from holdfast.broker.sending import Sending
from holdfast.broker.serving.effective import Recovery
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.policies import PolicyBook
from holdfast.broker.serving.publishing import NOWHERE, Publishing
from holdfast.broker.serving.recovers import Recovers
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.serving.topic import Topic
from holdfast.broker.settings import BrokerSettings


class _Kept:
    """What one topic keeps, oldest first."""

    __slots__ = ("_together", "messages", "size_bytes")

    def __init__(self) -> None:
        self.messages: deque[TransientMessage] = deque()
        self.size_bytes = 0
        """Headers and bodies."""
        self._together: tuple[TransientMessage, ...] | None = None

    def add(self, message: TransientMessage) -> None:
        """Keep the newest."""
        self.messages.append(message)
        self.size_bytes += message.size
        self._together = None

    def drop_oldest(self) -> int:
        """Keep the oldest no more; gives its size."""
        size = self.messages.popleft().size
        self.size_bytes -= size
        self._together = None
        return size

    def has_too_much(self, rule: Recovery, now_microseconds: int) -> bool:
        """Whether the oldest is one that a rule does not keep."""
        if not self.messages:
            return False
        if len(self.messages) > rule.count_max or self.size_bytes > rule.bytes_max:
            return True
        since = now_microseconds - 1000 * rule.duration_ms
        return rule.duration_ms > 0 and self.messages[0].stored_at <= since

    def together(self) -> tuple[TransientMessage, ...]:
        """Give all of them, the same for all who ask before it changes."""
        if self._together is None:
            self._together = tuple(self.messages)
        return self._together


class Recovering(Recovers):
    """Keeps what policies say, and gives it to who asks for it."""

    __slots__ = ("_kept", "_policies", "_publishing", "_sending", "_settings", "size_bytes")

    def __init__(
        self,
        settings: BrokerSettings,
        *,
        policies: PolicyBook,
        publishing: Publishing,
        sending: Sending,
    ) -> None:
        self._settings = settings
        self._policies = policies
        self._publishing = publishing
        self._sending = sending
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        """By the topic's name, the one to which nothing came for longest first."""
        self.size_bytes = 0
        """What all of it takes, with what a message, and a name, costs beside its content."""

    @property
    def is_on(self) -> bool:
        if self._policies.recovers_anything:
            return True
        if self._kept:
            self.clear()
        return False

    def keep(self, topic: Topic, message: TransientMessage) -> None:
        name, rule = topic.name, self._policies.of(topic).recovery
        if rule is None or name == NOWHERE:
            if name in self._kept:
                self._forget(name)  # With what comes now there would be a gap.
            return
        kept = self._kept.get(name)
        if kept is None:
            kept = self._kept[name] = _Kept()
            self.size_bytes += self._settings.message_memory_overhead_bytes
        self._kept.move_to_end(name)
        kept.add(message)
        self.size_bytes += message.size + self._settings.message_memory_overhead_bytes
        self._trim(name, kept, rule)
        while self.size_bytes > self._settings.recovery_bytes_max:
            oldest = next(iter(self._kept))
            self._drop_oldest(oldest, self._kept[oldest])

    def recover(self, subscription: Subscription, topic: Topic) -> None:
        policy = self._policies.of(topic)
        kept = self._kept.get(topic.name)
        if policy.recovery is None or kept is None:
            return
        if subscription.is_retroactive or policy.is_always_retroactive:
            self._trim(topic.name, kept, policy.recovery)
            publishing = self._publishing
            messages = publishing.before_early(topic, subscription, kept.together())
            if messages:
                publishing.replay(topic, subscription, messages)

    def count_of(self, topic: str) -> int:
        """Give how many messages are kept of a topic."""
        kept = self._kept.get(topic)
        return 0 if kept is None else len(kept.messages)

    def clear(self) -> None:
        """Keep nothing: the leadership is over, or no policy asks for it any more."""
        self._sending.policies_seen = -1
        self._kept.clear()
        self.size_bytes = 0

    def leave(self, topic: Topic) -> None:
        if topic.name in self._kept:
            self._forget(topic.name)

    def _trim(self, name: str, kept: _Kept, rule: Recovery) -> None:
        now = self._sending.now_microseconds
        while kept.has_too_much(rule, now):
            self._drop_oldest(name, kept)

    def _drop_oldest(self, name: str, kept: _Kept) -> None:
        self.size_bytes -= kept.drop_oldest() + self._settings.message_memory_overhead_bytes
        if not kept.messages:
            self._forget(name)

    def _forget(self, name: str) -> None:
        kept = self._kept.pop(name)
        overhead_bytes = self._settings.message_memory_overhead_bytes * (len(kept.messages) + 1)
        self.size_bytes -= kept.size_bytes + overhead_bytes

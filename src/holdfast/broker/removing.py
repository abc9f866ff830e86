"""
Queues that nobody uses: removed after a while, where policies say so.

The leader looks at all queues every few seconds, in steps. What it finds idle it notes; what was
idle all the time until it has been so for long enough is deleted, by the record that an operator's
deletion is, too. So all nodes delete the same, and a new leader begins to count anew.

A name that is deleted means a new queue as soon as somebody uses it: what is sent in the same turn
is behind the deletion, and stored.

Invariants:
    What is deleted has no message, none on its way to it, and no consumer.
    A queue that consumes a virtual topic is never deleted: what is sent meanwhile is for it.
    Of a topic nothing goes but what durable subscriptions of wildcards have of it: that comes again
    with the next message.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product, starmap
from typing import Final

from holdfast.broker.destinations import Destinations, Idle
from holdfast.broker.durables import Durables
from holdfast.broker.errands import IsSpent
from holdfast.broker.lasting.queue import LastingQueue
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.lasting.topics import LastingTopic
from holdfast.broker.serving.durable import StoredTopic
from holdfast.broker.serving.policies import PolicyBook
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.virtual_bindings import topics_of
from holdfast.model.destination import Kind
from holdfast.model.policy_option import VIRTUAL_TOPIC_POSTFIX, VIRTUAL_TOPIC_PREFIX, Value
from holdfast.model.policy_options import TRUE
from holdfast.model.reserved_names import OWN_MARK
from holdfast.model.virtual_topics import DEFAULT_FORM, Form

LOOK_MS: Final = 10_000
"""So often all queues are looked at."""
_PER_STEP: Final = 64
_LOOK_UP_EFFORT: Final = 32
"""To find out what policies say of a queue takes as long as to look at so many: up to 0.5 ms where
a dozen of patterns mean it."""
_REMOVAL_EFFORT: Final = 4
"""To delete one takes as long as to look at so many."""
_REMOVED_PER_BATCH: Final = 1_000
_PARTS_PER_BATCH: Final = 64
"""And of topics; those of the last one more. Each has perhaps a consumer that leaves it."""
_FORMS_MAX: Final = 64
_KEY: Final = "gcInactiveDestinations"
_TIMEOUT: Final = "inactiveTimeoutBeforeGC"


class Removing:
    """Deletes what nobody uses."""

    __slots__ = (
        *(
            "_change_count",
            "_destinations",
            "_durables",
            "_forms",
            "_left",
            "_look_at_ms",
            "_policies",
        ),
        *("_says_any", "_state", "look_ms", "removed_total"),
    )

    def __init__(
        self,
        state: BrokerState,
        *,
        destinations: Destinations,
        durables: Durables,
        policies: PolicyBook,
    ) -> None:
        self._state = state
        self._destinations = destinations
        self._durables = durables
        self._policies = policies
        self.look_ms = LOOK_MS
        self.removed_total = 0
        """Queues that were deleted as nobody used them, of all leaderships of this process."""
        self._change_count = -1
        self._says_any = False
        self._forms: list[Form] | None = []
        """In which queues of virtual topics may be called; None: in too many."""
        self.follow()

    def follow(self) -> None:
        """Forget all: another leader counts anew."""
        self._left: Iterator[LastingQueue] | None = None
        self._look_at_ms = 0
        self._destinations.idle.clear()
        self._destinations.idle_ms.clear()

    @property
    def has_any(self) -> bool:
        """Whether queues are to be looked at now."""
        if self._state.policies.change_count != self._change_count:
            self._read_policies()
        if not self._says_any:
            return False
        return self._left is not None or self._passed_ms >= self._look_at_ms

    def forms(self) -> list[Form]:
        """Give the forms in which queues of virtual topics may be called, if these are not many."""
        if self._state.policies.change_count != self._change_count:
            self._read_policies()
        return self._forms or [DEFAULT_FORM]

    @property
    def _passed_ms(self) -> int:
        return self._destinations.leadership.passed_ms

    def _read_policies(self) -> None:
        policies = self._state.policies
        self._change_count = policies.change_count
        self._destinations.idle_ms.clear()  # They hold as long as the policies are the same.
        said = [json.loads(record.values or "{}") for record in policies.by_key.values()]
        self._says_any = any(_KEY in each for each in said)
        self._forms = _forms_of(said)
        if not self._says_any:
            self._left = None
            self._destinations.idle.clear()

    def step(self, is_spent: IsSpent = lambda: False) -> bool:
        """Look at some queues, and delete who is idle for long enough; whether to go on now."""
        if self._left is None:
            self._left = iter([*self._state.by_name.values(), *self._state.topics.values()])
            self._look_at_ms = self._passed_ms + self.look_ms
        removed = parts = effort = 0
        known = self._destinations.idle_ms
        for lasting in self._left:
            known_count = len(known)
            removed_now = self._look_at(lasting)
            removed += removed_now
            if removed_now and isinstance(lasting, LastingTopic):
                parts += removed_now
            if removed >= _REMOVED_PER_BATCH or parts >= _PARTS_PER_BATCH:
                return False  # The next turn goes on.
            effort += _LOOK_UP_EFFORT if len(known) > known_count else 1
            effort += _REMOVAL_EFFORT * removed_now
            if effort >= _PER_STEP:
                effort = 0
                if is_spent():
                    return True
        self._left = None
        return False

    def _look_at(self, lasting: LastingQueue) -> int:
        """Note whether a queue is idle, and delete it after long enough; gives how much that is."""
        is_topic = isinstance(lasting, LastingTopic)
        named = self._state.topics if is_topic else self._state.by_name
        if named.get(lasting.name) is not lasting:
            return 0
        idle = self._destinations.idle
        if not (self._is_idle_topic(lasting) if is_topic else self._is_idle(lasting)):
            idle.pop(lasting.number, None)
            return 0
        timeout_ms = self._timeout_ms(lasting)
        if not timeout_ms:
            return 0
        found = Idle(self._passed_ms, lasting.next_sequence, self._sent_total(lasting))
        known = idle.setdefault(lasting.number, found)
        if known[1:] != found[1:]:
            idle[lasting.number] = found  # It was used meanwhile.
            return 0
        if found.since_ms - known.since_ms < timeout_ms:
            return 0
        return self._remove(lasting)

    def _sent_total(self, lasting: LastingQueue) -> int:
        """Count what was sent to a queue or topic, also what of a topic is not kept."""
        if not isinstance(lasting, LastingTopic):
            return lasting.enqueued_total
        served = self._destinations.leadership.half_of(lasting)
        passed = served.passed_count if isinstance(served, StoredTopic) else 0
        return lasting.enqueued_total + passed

    def _is_idle(self, lasting: LastingQueue) -> bool:
        """Whether a queue has nothing, nothing is on its way to it, and nobody consumes from it."""
        leadership = self._destinations.leadership
        if lasting.index.live_count or lasting.number in leadership.leaving:
            return False
        queue = leadership.by_name.get(lasting.name)
        if queue is None:
            return True
        if queue.transient_count or queue.subscriptions:
            return False
        return not self._is_awaited(queue)

    def _is_idle_topic(self, topic: LastingQueue) -> bool:
        """Whether a topic is stored for wildcards only, and they have nothing of it."""
        leadership = self._destinations.leadership
        assert isinstance(topic, LastingTopic), "it is asked of these"
        if topic.index.live_count or topic.number in leadership.leaving:
            return False
        if not all(each.whole_number for each in topic.subscriptions.values()):
            return False
        served = leadership.half_of(topic)
        if served is None:
            return True
        assert isinstance(served, StoredTopic), "a topic has no other"
        is_whole = served.subscription_count == len(topic.subscriptions)
        if not is_whole or self._is_awaited(served):
            return False
        halves = [leadership.half_of(each) for each in topic.subscriptions.values()]
        return not any(each is not None and each.transient_count for each in halves)

    @staticmethod
    def _is_awaited(queue: Queue) -> bool:
        """Whether messages are on their way to a queue: they have numbers that the log has not."""
        newest_known = max(queue.lasting.next_sequence - 1, queue.newest_before)
        return queue.assigned_sequence - 1 > newest_known

    def _timeout_ms(self, lasting: LastingQueue) -> int:
        """Give after how long a queue goes of which nobody has use; 0: never."""
        known = self._destinations.idle_ms
        found = known.get(lasting.number)
        if found is None:
            is_topic = isinstance(lasting, LastingTopic)
            look_up = self._look_up_topic if is_topic else self._look_up
            found = known[lasting.number] = look_up(lasting.name)
        return found

    def _look_up_topic(self, name: str) -> int:
        said = self._policies.explain(Kind.TOPIC, name)
        return max(1, int(said[_TIMEOUT].value)) if said[_KEY].value == TRUE else 0

    def _look_up(self, name: str) -> int:
        if name.startswith(OWN_MARK) or self._consumes_topic(name):
            return 0
        said = self._policies.explain(Kind.QUEUE, name)
        if said[_KEY].value != TRUE or any(
            it.record is not None and it.record.pattern == f"queue://{name}" for it in said.values()
        ):
            return 0
        return max(1, int(said[_TIMEOUT].value))

    def _consumes_topic(self, name: str) -> bool:
        """Whether a queue of this name consumes a virtual topic, whichever form that has."""
        if self._forms is None:
            return True  # It may; nobody loses anything by a queue that stays.
        for form in self._forms:
            topic = form.topic_of(name)
            if topics_of(name, form) is not None:
                return True  # It means topics that nobody has named yet.
            if topic is not None and self._destinations.form_of(topic) == form:
                return True
        return False

    def _remove(self, lasting: LastingQueue) -> int:
        """Delete a queue, or all that wildcards have of a topic; gives how many that are."""
        destinations = self._destinations
        if isinstance(lasting, LastingTopic):
            destinations.idle.pop(lasting.number, None)
            destinations.idle_ms.pop(lasting.number, None)
            parts = list(lasting.subscriptions.values())
            for each in parts:
                self._durables.remove_part(each.key)
            return len(parts)
        queue = destinations.existing(lasting.name)
        destinations.delete(queue)
        self.removed_total += 1
        return 1


def _forms_of(policies: list[dict[str, Value]]) -> list[Form] | None:
    """Give all forms that policies may make, each part said by one of them; None: too many."""
    prefixes, postfixes = {DEFAULT_FORM.prefix}, {DEFAULT_FORM.postfix}
    for said in policies:
        prefixes.add(str(said.get(VIRTUAL_TOPIC_PREFIX, DEFAULT_FORM.prefix)))
        postfixes.add(str(said.get(VIRTUAL_TOPIC_POSTFIX, DEFAULT_FORM.postfix)))
    if len(prefixes) * len(postfixes) > _FORMS_MAX:
        return None
    return list(starmap(Form, product(prefixes, postfixes)))

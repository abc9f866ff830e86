"""
The broker against its model where what was lost with others is sent alone; see `limit_machine`,
`group_machine` and `selector_machine`.

Beside what is true of all deliveries: whoever gets a suspect held nothing, and gets nothing beside
it. A suspect stands outside the order, so the others may go before it; but one of a group keeps its
place in that.
"""

from __future__ import annotations

from collections.abc import Generator

from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.delivery import Delivery
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.router.grouping import Grouping
from holdfast.broker.serving.subscription import Subscription
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.model.records import FormatRecord, PolicyRecord
from tests.property.broker.broker_machine import BrokerMachine
from tests.property.broker.group_machine import GroupMachine
from tests.property.broker.limit_machine import LimitMachine
from tests.property.broker.priority_machine import (
    BY_PRIORITY,
    PriorityMachine,
    RankedGroupMachine,
    RankedSelectorMachine,
    rank_of,
)
from tests.property.broker.selector_machine import SelectorMachine

ALONE = '{"maximumRedeliveries":2,"initialRedeliveryDelay":0,"suspectAfter":%d}'
SLOW_TOO = '{"deliverySecondsMax":1,' + ALONE[1:]


class AloneMachine(BrokerMachine):
    """Watches who gets what was lost too often; mixed into a machine whose policy says so."""

    suspect_after: int

    def __init__(self) -> None:
        self.alone: dict[Subscription, int] = {}
        """By consumer: what it was given alone."""
        self.prefetches: dict[Subscription, int] = {}
        """As they were before anything was given."""
        self.alone_count = 0
        super().__init__()

    def begin_to_isolate(self, suspect_after: int, policy: str = ALONE) -> None:
        """Let a policy say that what is lost so often is sent alone."""
        self.suspect_after = suspect_after
        self.broker.receipts.record(FormatRecord(NEWEST_LEVEL))
        self.broker.receipts.record(PolicyRecord("queue://>", policy % suspect_after))
        self.turn()

    def is_suspect(self, queue: Queue, key: int) -> bool:
        returned = queue.returned_so_far(key)
        return returned.attempts - returned.failures >= self.suspect_after

    def dispatch(self) -> None:
        self.suspects_pass_nobody()
        held_before = {each.subscription: dict(each.held) for each in self.consumers}
        self.forget_what_is_settled()
        self.prefetches = {it.subscription: it.subscription.prefetch for it in self.consumers}
        got: dict[Subscription, list[int]] = {}
        dispatch = self.broker.dispatch

        def watched() -> Generator[list[Delivery], None, None]:
            for step in dispatch():
                for subscription, key, *_ in step:
                    assert isinstance(subscription, Subscription)
                    is_lasting = subscription.mode is not AcknowledgeMode.AUTO
                    if is_lasting and subscription.browser is None:
                        got.setdefault(subscription, []).append(key)
                yield step

        self.broker.dispatch = watched  # type: ignore[method-assign]
        try:
            super().dispatch()
        finally:
            self.broker.__dict__.pop("dispatch", None)  # Others may have watched, too.
        for subscription, keys in got.items():
            assert subscription not in self.alone, "it was to have nothing beside that"
            queue = subscription.queue
            assert queue is not None
            for key in keys:
                if self.is_suspect(queue, key):
                    assert not held_before[subscription], "it held something"
                    assert len(keys) == 1, "others came with it"
                    self.alone[subscription] = key
                    self.alone_count += 1

    def forget_what_is_settled(self) -> None:
        self.alone = {
            subscription: key
            for subscription, key in self.alone.items()
            if key in subscription.unacknowledged
        }

    def acknowledge_in_transaction(self, number: int, place: int) -> None:
        """It may have others from then on; should that be rolled back it has both."""
        super().acknowledge_in_transaction(number, place)
        self.forget_what_is_settled()

    def prefetch_of(self, subscription: Subscription) -> int:
        """Give the same; who is made to run empty may have got more in the same step."""
        return max(subscription.prefetch, self.prefetches[subscription])

    def is_outside(self, queue: Queue, key: int) -> bool:
        """Whether a message stands outside the order."""
        return self.is_suspect(queue, key)

    def suspects_pass_nobody(self) -> None:
        """What waits to be sent alone waits for no order, and nobody waits for it."""
        for queue in self.broker.destinations.leadership.by_name.values():
            keys = [*queue.index.sequences(1, queue.lasting.next_sequence), *queue.transients]
            for key in keys:
                if self.is_outside(queue, key):
                    place = self.place_of(queue, key)
                    if place in self.model.returned:
                        self.model.returned.discard(place)
                        self.model.coming[place] = 0

    def change_leader(self, survivors: int, way: str) -> None:
        super().change_leader(survivors, way)
        self.alone.clear()


class SuspectMachine(AloneMachine, LimitMachine):
    """A leader whose policy has messages sent alone, and clients that come and go."""

    def __init__(self, suspect_after: int) -> None:
        super().__init__()
        self.begin_to_isolate(suspect_after, SLOW_TOO)


class SelectorSuspectMachine(AloneMachine, SelectorMachine):
    """The same with consumers that want some messages only."""

    ALSO = ""
    """What else the policy says."""

    def __init__(self, suspect_after: int) -> None:
        super().__init__()
        self.begin_to_isolate(suspect_after, f"{{{self.ALSO}" + ALONE[1:])

    def is_seen_in_turn(self, subscription: Subscription, key: int) -> bool:
        """What stands outside the order waits for nothing that stands before it."""
        queue = subscription.queue
        assert queue is not None
        is_gone = key < 0 and key not in queue.transients  # Then it may have been one.
        return is_gone or self.is_suspect(queue, key) or super().is_seen_in_turn(subscription, key)

    def could_have(self, subscription: Subscription, key: int) -> bool:
        """A suspect may go to whoever wants it, holds nothing, and has looked at it by now."""
        queue = subscription.queue
        assert queue is not None
        if not super().is_seen_in_turn(subscription, key):
            return False
        is_there = key > 0 or key in queue.transients
        if is_there and self.is_suspect(queue, key):
            return not subscription.unacknowledged and self.wants(subscription, key)
        return super().could_have(subscription, key)


class GroupSuspectMachine(AloneMachine, GroupMachine):
    """The same with messages in groups."""

    ALSO = ""
    """What else the policy says."""

    def __init__(self, suspect_after: int, bucket_count: int = 1024) -> None:
        super().__init__()
        self.bucket_count = bucket_count
        buckets = f'{{{self.ALSO}"messageGroupBuckets":{bucket_count},'
        self.begin_to_isolate(suspect_after, buckets + ALONE[1:])

    def is_outside(self, queue: Queue, key: int) -> bool:
        return not self.group_of(queue, key) and self.is_suspect(queue, key)

    def could_have(self, subscription: Subscription, key: int) -> bool:
        """A suspect may go to whoever holds nothing, once nothing of its group is out."""
        queue = subscription.queue
        assert queue is not None
        group = self.group_of(queue, key)
        is_alone = self.is_suspect(queue, key)
        if is_alone and subscription.unacknowledged:
            return False
        if group and self.waits_behind(queue, key, group, is_alone=is_alone):
            return False
        if not (group and is_alone):
            return super().could_have(subscription, key)
        grouping = queue.grouping
        assert isinstance(grouping, Grouping)
        bucket = group % self.bucket_count
        is_at_hand = grouping.owners.is_at_hand(bucket)
        return is_at_hand or grouping.owners.taker(bucket) is subscription

    def waits_behind(self, queue: Queue, key: int, group: int, *, is_alone: bool) -> bool:
        """
        Whether something stands before a message in its bucket that holds it up.

        That is a suspect; before a suspect it is what waits for its owner, as others do.
        """
        order = self.order_of(queue, key)
        keys = [*queue.index.sequences(1, queue.lasting.next_sequence), *queue.transients]
        return any(
            self.group_of(queue, other) % self.bucket_count == group % self.bucket_count
            and self.group_of(queue, other) != 0
            and (queue.choice.is_at_hand(other) if is_alone else self.is_suspect(queue, other))
            and self.order_of(queue, other) < order
            for other in keys
        )

    def order_of(self, queue: Queue, key: int) -> tuple[int, ...]:
        """Give where a message stands in its bucket."""
        return (key, 0) if key > 0 else (queue.transients[key].order, -key)


class RankedSuspectMachine(AloneMachine, PriorityMachine):
    """A leader whose messages have priorities, and are sent alone whatever these are."""

    def __init__(self, suspect_after: int) -> None:
        super().__init__()
        self.begin_to_isolate(suspect_after, f"{{{BY_PRIORITY}," + ALONE[1:])

    def is_free(self, queue: Queue, key: int) -> bool:
        return not self.is_suspect(queue, key) and super().is_free(queue, key)

    def could_have(self, subscription: Subscription, key: int) -> bool:
        """A suspect goes to who holds nothing."""
        queue = subscription.queue
        assert queue is not None
        return not (subscription.unacknowledged and self.is_suspect(queue, key))

    def check_turn(self, subscription: Subscription, key: int) -> None:
        """A suspect goes to who holds nothing, and the others go by priority."""
        queue = subscription.queue
        assert queue is not None
        is_there = key > 0 or key in queue.transients
        if not (is_there and self.is_suspect(queue, key)):
            super().check_turn(subscription, key)


class RankedGroupSuspectMachine(GroupSuspectMachine, RankedGroupMachine):
    """The same with messages in groups: in its bucket a suspect has its place by priority."""

    ALSO = f"{BY_PRIORITY},"

    def order_of(self, queue: Queue, key: int) -> tuple[int, ...]:
        return rank_of(queue, key), *super().order_of(queue, key)


class RankedSelectorSuspectMachine(SelectorSuspectMachine, RankedSelectorMachine):
    """The same with priorities: a suspect stands outside the order, whatever its own."""

    ALSO = f"{BY_PRIORITY},"

"""
The broker against its model with messages in groups; see `claim_machine`.

Order is kept within each group, and among those that are in none. No group is ever in two hands:
in delivery, or held by an open transaction. What is of a group that somebody may have who has room
is gone after some turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.router.grouping import Grouping
from holdfast.broker.serving.subscription import Subscription
from holdfast.model.facts import Attributes, MessageFacts
from holdfast.model.format_level import GROUPS_LEVEL
from tests.property.broker.claim_machine import ClaimMachine
from tests.property.broker.clients import OpenTransaction
from tests.property.broker.expected import PLACE, Model

GROUPS = 5
"""Of so many messages one is in no group; the others are each in another one."""


class GroupModel(Model):
    """What must be true of messages in groups."""

    def __init__(self) -> None:
        super().__init__()
        self.knows_groups: Callable[[], bool] = lambda: False

    def facts_of(self, body: bytes) -> MessageFacts | None:
        group_hash = int(body.split()[1]) % GROUPS
        if not group_hash or not self.knows_groups():
            return None
        self.groups[body] = group_hash
        return MessageFacts(attributes=Attributes(group_hash=group_hash))

    def group_of(self, place: PLACE) -> tuple[str, int]:
        return place[0], self.groups.get(place[1], 0)

    def lane_of(self, place: PLACE) -> tuple[Any, ...]:
        return self.group_of(place)


class GroupMachine(ClaimMachine):
    """A leader and clients whose messages are in groups."""

    model: GroupModel
    bucket_count = 1024

    def __init__(self) -> None:
        super().__init__()
        self.model = GroupModel()
        self.model.knows_groups = lambda: self.broker.format_level_ahead >= GROUPS_LEVEL

    def check_order(
        self, subscription: Subscription, place: PLACE, given_back: dict[str, int]
    ) -> None:
        """What was given back of a group goes first, in its old order."""
        model = self.model
        group, order = model.group_of(place), model.order[place]
        name = f"{group}"
        if place in model.returned:
            assert order > given_back.get(name, 0), "given back, and out of order"
            given_back[name] = order
        else:
            others = [model.order[it] for it in model.returned if model.group_of(it) == group]
            assert not any(other < order for other in others), "overtaken"

    @staticmethod
    def group_of(queue: Queue, key: int) -> int:
        if key > 0:
            return queue.index.group_hash(key)
        transient = queue.transients.find(key)
        return 0 if transient is None else transient.group_hash

    def check_turn(self, subscription: Subscription, key: int) -> None:
        """Whether nobody else has anything of the group."""
        queue = subscription.queue
        assert queue is not None
        if key < 0 and key not in queue.transients:
            return  # It is gone as it was given: nobody can tell of which group it was.
        super().check_turn(subscription, key)
        group = self.group_of(queue, key)
        if not group:
            return
        for other in self.of(queue):
            if other is not subscription:
                assert not self.held_of(queue, group, other.unacknowledged), (
                    f"group {group} is in two hands"
                )
        for opened in self.transactions:
            for other, keys in opened.transaction.settlements.items():
                if other.queue is queue and other is not subscription:
                    held = self.held_of(queue, group, keys)
                    assert not held, f"a transaction holds some of group {group}"
            self.check_late(opened, queue, group, key)

    def check_late(self, opened: OpenTransaction, queue: Queue, group: int, key: int) -> None:
        """
        Nothing goes out behind one of its group on which a transaction has a late word: but for
        what an operator has taken off the queue since, which is gone at once if it was never
        stored.
        """
        model, order = self.model, self.model.order[self.place_of(queue, key)]
        there = model.live - model.leaving
        for other, _, place in opened.late:
            if other is queue and place in there and place[1] in model.groups:
                is_of_it = model.groups[place[1]] == group
                assert not (is_of_it and model.order[place] < order), f"group {group} is held"

    def held_of(self, queue: Queue, group: int, keys: Iterable[int]) -> list[int]:
        """Give those of a group: but for what an operator has taken off the queue since."""
        leaving = self.model.leaving
        of_group = [key for key in keys if self.group_of(queue, key) == group]
        return [key for key in of_group if self.place_of(queue, key) not in leaving]

    def could_have(self, subscription: Subscription, key: int) -> bool:
        """Whether a message is in no group, or its group is this one's, or to be had."""
        queue = subscription.queue
        assert queue is not None
        group = self.group_of(queue, key)
        grouping = queue.grouping
        if not group or grouping is None:
            return True
        assert isinstance(grouping, Grouping)
        owners = grouping.owners
        bucket = group % owners.bucket_count
        if self.is_nobodys(queue, group):
            assert owners.is_free(bucket) or owners.taker(bucket) is not None, "it is lost"
        return owners.taker(bucket) is subscription or owners.is_free(bucket)

    def is_nobodys(self, queue: Queue, group: int) -> bool:
        """Whether nothing of a group is anywhere but on its queue, as far as the model knows."""
        model, bucket = self.model, group % self.bucket_count
        under_way = [*model.leaving, *model.coming, *model.uncounted]
        under_way += [place for each in self.consumers for place in each.held.values()]
        under_way += [
            it for each in self.transactions for _, held in each.settled for it in held.values()
        ]
        under_way += [place for each in self.transactions for _, _, place in each.late]
        groups = [model.group_of(place) for place in under_way]
        return not any(
            name == queue.name and other and other % self.bucket_count == bucket
            for name, other in groups
        )

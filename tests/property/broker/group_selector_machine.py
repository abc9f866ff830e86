"""
The broker against its model with messages in groups and consumers that want some messages only.

What `selector_machine` says of who gets what in which order holds, of all that is in one group, or
in none; and no group is ever in two hands, as `group_machine` says.
"""

from __future__ import annotations

from holdfast.broker.serving.router.grouping import Grouping
from holdfast.broker.serving.router.hands import Hands
from holdfast.broker.serving.router.parked import Place
from holdfast.broker.serving.subscription import Subscription
from holdfast.model.facts import MessageFacts
from holdfast.model.format_level import GROUPS_LEVEL
from tests.property.broker.expected import PLACE
from tests.property.broker.group_machine import GroupMachine, GroupModel
from tests.property.broker.priority_machine import (
    PriorityMachine,
    RankedLook,
    Ranks,
    rank_of,
)
from tests.property.broker.selector_machine import SelectorMachine


class PickyGroupModel(GroupModel):
    """Which messages live; in what order they go is told by who wants them."""

    def seen_first(self, place: PLACE) -> None:
        """Nothing: it matters who gets it."""


class GroupSelectorMachine(GroupMachine, SelectorMachine):
    """A leader and clients that want some messages, which are in groups."""

    model: PickyGroupModel

    def __init__(self) -> None:
        super().__init__()
        self.model = PickyGroupModel()
        self.model.knows_groups = lambda: self.broker.format_level_ahead >= GROUPS_LEVEL

    def check_order(
        self, subscription: Subscription, place: PLACE, given_back: dict[str, int]
    ) -> None:
        """What is wanted by somebody of one group goes to him in order."""
        SelectorMachine.check_order(self, subscription, place, given_back)

    def stream_of(self, place: PLACE) -> str:
        return f"{place[0]} {self.model.groups.get(place[1], 0)}"

    def could_have(self, subscription: Subscription, key: int) -> bool:
        """
        Whether somebody wants a message and has nothing parked that comes before it, and nobody
        else has something of its group.
        """
        queue = subscription.queue
        assert queue is not None
        if key < 0 and key not in queue.transients:
            return False  # It is gone as it was given: nobody can tell of which group it was.
        wants = SelectorMachine.could_have(self, subscription, key)
        group = self.group_of(queue, key)
        if not (wants and group) or queue.grouping is None:
            return wants
        grouping = queue.grouping
        assert isinstance(grouping, Grouping | Hands)
        owners = grouping.owners
        bucket = group % owners.bucket_count
        if isinstance(grouping, Grouping):
            return GroupMachine.could_have(self, subscription, key)
        if self.is_nobodys(queue, group):
            assert owners.is_at_hand(bucket) or owners.taker(bucket) is not None, "it is lost"
        if owners.taker(bucket) is not subscription:
            return owners.only is None and owners.is_at_hand(bucket)
        order = key if key > 0 else queue.transients[key].order
        # Somebody else waits for what comes before it.
        place = Place(rank_of(queue, key), order, 0 if key > 0 else -key)
        return not grouping.is_behind(bucket, place)


class RankedPickyGroupModel(PickyGroupModel):
    """The same of messages with priorities."""

    def __init__(self) -> None:
        super().__init__()
        self.ranks = Ranks()

    def facts_of(self, body: bytes) -> MessageFacts | None:
        grouped = super().facts_of(body)
        attributes = None if grouped is None else grouped.attributes
        return self.ranks.facts(body, 0 if attributes is None else attributes.group_hash)


class RankedGroupSelectorMachine(GroupSelectorMachine):
    """The same with priorities: they count within each group, among what somebody wants."""

    LOOK = RankedLook
    TURNS = 30  # What stands apart beyond the mark is asked for a few at a time.
    model: RankedPickyGroupModel

    def __init__(self) -> None:
        super().__init__()
        knows_groups = self.model.knows_groups
        self.model = RankedPickyGroupModel()
        self.model.knows_groups = knows_groups
        PriorityMachine.order_by_priority(self)  # type: ignore[arg-type]

    def stream_of(self, place: PLACE) -> str:
        return f"{super().stream_of(place)} {self.model.ranks.rank(place)}"

    def check_turn(self, subscription: Subscription, key: int) -> None:
        """Whether nothing of its group and of a higher priority is there that he wants, too."""
        super().check_turn(subscription, key)
        queue = subscription.queue
        assert queue is not None
        group = 0 if key < 0 and key not in queue.transients else self.group_of(queue, key)
        if not group:
            return
        rank = rank_of(queue, key)
        higher = [
            each
            for each in queue.index.sequences(1, queue.lasting.next_sequence)
            if self.group_of(queue, each) == group
            and rank_of(queue, each) < rank
            and queue.choice.is_at_hand(each)
            and not queue.is_withheld(each)
            and self.wants(subscription, each)
        ]
        assert not higher, f"{higher} are there, of a higher priority"

"""
The broker against its model where messages have priorities; see `claim_machine`.

What is delivered is of the highest priority that is there for its consumer, and of that what was
given back before what is new, each in the order of sending. Mixed in, as they come: groups, and
consumers that want some messages only.
"""

from __future__ import annotations

from typing import Any

from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.router.router import has_priorities
from holdfast.broker.serving.subscription import Subscription
from holdfast.model.facts import PRIORITY_DEFAULT, PRIORITY_MAX, Attributes, MessageFacts
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.model.records import PolicyRecord
from tests.property.broker.claim_machine import ClaimMachine, Look
from tests.property.broker.expected import PLACE, Model
from tests.property.broker.group_machine import GroupMachine, GroupModel
from tests.property.broker.selector_machine import PickyModel, SelectorMachine

PRIORITIES = (4, 9, 0, 4, 7, 1, 4, 9)
BY_PRIORITY = '"prioritizedMessages":"true"'


def priority_of(body: bytes) -> int:
    """Give the priority of a message, by its number."""
    return PRIORITIES[int(body.split()[1]) * 5 % len(PRIORITIES)]


class Ranks:
    """Which priority a message was stored with: it has it for good."""

    def __init__(self) -> None:
        self.known: dict[bytes, int] = {}

    def facts(self, body: bytes, group_hash: int = 0) -> MessageFacts | None:
        self.known[body] = priority_of(body)
        attributes = Attributes(group_hash=group_hash, priority=priority_of(body))
        return None if attributes == Attributes() else MessageFacts(attributes=attributes)

    def rank(self, place: PLACE) -> int:
        return PRIORITY_MAX - self.known.get(place[1], PRIORITY_DEFAULT)


def rank_of(queue: Queue, key: int) -> int:
    """Give what the broker knows."""
    if key > 0:
        return PRIORITY_MAX - queue.index.priority(key)
    transient = queue.transients.find(key)
    return PRIORITY_MAX - (PRIORITY_DEFAULT if transient is None else transient.priority)


class RankedLook(Look):
    """What somebody is to be shown: the higher priorities first."""

    def __init__(self, queue: Queue) -> None:
        super().__init__(queue)
        if has_priorities(queue):
            self._places = {
                key: (rank_of(queue, key), *place)  # type: ignore[misc]
                for key, place in self._places.items()
            }


class PriorityModel(Model):
    """What must be true of messages with priorities."""

    def __init__(self) -> None:
        super().__init__()
        self.ranks = Ranks()

    def facts_of(self, body: bytes) -> MessageFacts | None:
        return self.ranks.facts(body)

    def lane_of(self, place: PLACE) -> tuple[Any, ...]:
        return *super().lane_of(place), self.ranks.rank(place)


class PriorityMachine(ClaimMachine):
    """A leader whose policy lets messages of a higher priority go first."""

    LOOK = RankedLook
    TURNS = 30  # What stands apart beyond the mark is asked for a few at a time.
    model: PriorityModel

    def __init__(self) -> None:
        super().__init__()
        self.model = PriorityModel()
        self.worst: dict[Queue, int] = {}
        """The lowest priority that was given in one dispatch, as a rank."""
        self.order_by_priority()

    def order_by_priority(self) -> None:
        """Let the policy hold."""
        self.raise_the_level()
        self.broker.receipts.record(PolicyRecord("queue://>", f"{{{BY_PRIORITY}}}"))
        self.turn()
        assert self.broker.state.format_level == NEWEST_LEVEL

    def dispatch(self) -> None:
        self.worst.clear()
        super().dispatch()

    def check_turn(self, subscription: Subscription, key: int) -> None:
        """Whether nothing of a higher priority is there, or was given later."""
        super().check_turn(subscription, key)
        queue = subscription.queue
        assert queue is not None
        if key < 0 and key not in queue.transients:
            return  # It is gone as it was given.
        rank = rank_of(queue, key)
        assert rank >= self.worst.get(queue, 0), "a lower one was given before"
        self.worst[queue] = rank
        keys = [*queue.index.sequences(1, queue.lasting.next_sequence), *queue.transients]
        higher = [
            each for each in keys if rank_of(queue, each) < rank and self.is_free(queue, each)
        ]
        assert not higher, f"{higher} are there, of a higher priority"

    def is_free(self, queue: Queue, key: int) -> bool:
        """Whether a message waits for whoever comes."""
        if queue.is_withheld(key) or (key > 0 and queue.has_ended(key)):
            return False
        if key > 0:
            return queue.choice.is_at_hand(key)
        place, transient = self.place_of(queue, key), queue.transients[key]
        if place is None or self.is_held(place) or place in self.model.coming:
            return False
        if any(key in each.unacknowledged for each in queue.subscriptions):
            return False
        # What was sent before it may be on its way to the log still.
        is_sendable = transient.order < queue.lasting.next_sequence
        return is_sendable and key not in queue.custody.reserved

    def check_order(
        self, subscription: Subscription, place: PLACE, given_back: dict[str, int]
    ) -> None:
        """What was given back of a priority goes first, in its old order."""
        model = self.model
        lane, order = model.lane_of(place), model.order[place]
        name = f"{lane}"
        if place in model.returned:
            assert order > given_back.get(name, 0), "given back, and out of order"
            given_back[name] = order
        else:
            # One behind it may count as given back, that a leader before had sent as it had this:
            # it was claimed by a late word that came to nothing.
            others = [model.order[it] for it in model.returned if model.lane_of(it) == lane]
            assert not any(other < order for other in others), "overtaken"


class RankedGroupModel(GroupModel):
    """Messages in groups, and with priorities."""

    def __init__(self) -> None:
        super().__init__()
        self.ranks = Ranks()

    def facts_of(self, body: bytes) -> MessageFacts | None:
        grouped = super().facts_of(body)
        attributes = None if grouped is None else grouped.attributes
        return self.ranks.facts(body, 0 if attributes is None else attributes.group_hash)

    def lane_of(self, place: PLACE) -> tuple[Any, ...]:
        return *super().lane_of(place), self.ranks.rank(place)


class RankedGroupMachine(GroupMachine):
    """A leader and clients whose messages are in groups, and have priorities."""

    LOOK = RankedLook
    TURNS = 30  # What stands apart beyond the mark is asked for a few at a time.
    model: RankedGroupModel

    def __init__(self) -> None:
        super().__init__()
        knows_groups = self.model.knows_groups
        self.model = RankedGroupModel()
        self.model.knows_groups = knows_groups
        PriorityMachine.order_by_priority(self)  # type: ignore[arg-type]

    def check_order(
        self, subscription: Subscription, place: PLACE, given_back: dict[str, int]
    ) -> None:
        """What was given back of a group and a priority goes first, in its old order."""
        model = self.model
        lane, order = model.lane_of(place), model.order[place]
        name = f"{lane}"
        if place in model.returned:
            assert order > given_back.get(name, 0), "given back, and out of order"
            given_back[name] = order
            return
        others = [model.order[it] for it in model.returned if model.lane_of(it) == lane]
        assert not any(other < order for other in others), "overtaken"
        if lane[1]:
            higher = [it for it in model.returned if model.lane_of(it)[:2] == lane[:2]]
            assert not any(model.ranks.rank(it) < lane[2] for it in higher), "a higher one waits"


class RankedPickyModel(PickyModel):
    """What some want, with priorities."""

    def __init__(self) -> None:
        super().__init__()
        self.ranks = Ranks()

    def facts_of(self, body: bytes) -> MessageFacts | None:
        return self.ranks.facts(body)


class RankedSelectorMachine(SelectorMachine):
    """A leader and clients that want some messages, which have priorities."""

    LOOK = RankedLook
    TURNS = 30  # What stands apart beyond the mark is asked for a few at a time.
    model: RankedPickyModel

    def __init__(self) -> None:
        super().__init__()
        self.model = RankedPickyModel()
        PriorityMachine.order_by_priority(self)  # type: ignore[arg-type]

    def stream_of(self, place: PLACE) -> str:
        return f"{super().stream_of(place)} {self.model.ranks.rank(place)}"

"""
The choice of a queue on which not all consumers are equal.

Some have a higher priority and get messages first, one wants to be the only one, or none is to get
anything before enough are there. The router decides whose turn it is; which message is next is the
affair of the plain choice that the queue had before, and has again when nobody claims anything any
more.

Invariants, beside those of `choice`:
    While a router is put before it, the plain choice's own ring is empty.
    Where only one gets messages, nobody else stands in a ring: so each acknowledgement of whoever
    still holds some is told of (`make_ready`). Else all with room stand in those of their ranks.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Final, NamedTuple

from holdfast.broker.lasting.sequence_index import BY_GROUP, BY_PRIORITY
from holdfast.broker.serving.choice import Settle
from holdfast.broker.serving.consumer import NO_CLAIM, Consumer
from holdfast.broker.serving.delivery import Delivery
from holdfast.broker.serving.effective import EQUAL, Sharing
from holdfast.broker.serving.plain import Plain
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.ring import Ring
from holdfast.broker.serving.router.gate import Gate
from holdfast.broker.serving.router.grouping import Grouping
from holdfast.broker.serving.router.hands import Hands
from holdfast.broker.serving.router.owners import Owners
from holdfast.broker.serving.router.ranks import Ranks
from holdfast.broker.serving.router.sifting import Sifting
from holdfast.broker.serving.router.sole import AT_ONCE, Sole
from holdfast.model.limits import CONSUMER_PRIORITY_MAX


class Turn(NamedTuple):
    """Whose turn it is on a queue, as an operator asks."""

    active: Consumer | None
    """The only one who gets messages, or is to be; None: nobody asked to be."""
    is_draining: bool
    """That one is to be, once nobody else holds anything."""
    is_gate_closed: bool
    """Nothing goes out before enough consumers are there."""
    is_grouped: bool
    """Messages of groups go to the owners of those."""


NOBODYS_TURN: Final = Turn(None, is_draining=False, is_gate_closed=False, is_grouped=False)


class Router:
    """Decides whose turn it is."""

    __slots__ = (
        *("_claim_count", "_gate", "_grouping", "_queue", "_ranks", "_roll"),
        *("_sharing", "_sifting", "_sole", "order"),
    )

    def __init__(self, queue: Queue, order: Plain) -> None:
        """Begin with the consumers that are there, who claim nothing, and to whom all is open."""
        self._queue = queue
        self.order = order
        """Which message is next."""
        self._gate = Gate()
        self._sole = Sole(queue)
        self._ranks = Ranks()
        self._claim_count = 0
        """Open consumers that claim something."""
        self._sharing = EQUAL
        """What the policies said last of how messages are shared."""
        self._grouping: Grouping | None = None
        """The order, where messages are in groups."""
        self._sifting: Sifting | None = None
        """The order, where somebody does not want every message."""
        self._roll: deque[Consumer] = deque()
        """Who is still to be put into a ring, as all get messages again."""

    def join(self, consumer: Consumer, sharing: Sharing) -> None:
        """Note a consumer that has come and is among the queue's; the first one meets the gate."""
        count = len(self._queue.subscriptions)
        self._sharing = sharing
        if self._ranks.are_none:
            self._ranks.add_equal(count - 1, self.order)
        if count == 1:
            self._gate = Gate(sharing)
        if has_groups(self._queue):
            self._begin_to_group()
        self._claim_count += consumer.claim != NO_CLAIM
        if self._sifting is None and consumer.selector is not None:
            self._begin_to_sift()
        self._ranks.add(consumer)
        if self._sifting is not None:
            self._sifting.add(consumer)
        if self._gate.came(count):
            self._queue.leadership.rouse(self._queue, AT_ONCE)
        if self._grouping is not None:
            self._grouping.came(consumer)
        if consumer.claim.is_exclusive and self._goes_before(consumer):
            self._succeed(consumer)

    def group(self, sharing: Sharing) -> None:
        """Let messages be in groups from now on: the first such has come."""
        if self._ranks.are_none:
            self._ranks.add_equal(len(self._queue.subscriptions), self.order)
        self._sharing = sharing
        self._begin_to_group()

    def _begin_to_group(self) -> None:
        if self._queue.grouping is not None:
            return
        if self._sifting is None:
            self.order = self._grouping = Grouping(self._queue, self.order, self._sharing)
            self._queue.grouping = self._grouping
        else:
            known = self._queue.leadership.flow.groups_known
            hands = Hands(self._queue, Owners(self._sharing, known))
            hands.begin_with(None, self._queue.custody.reserved)
            self._sifting.begin_to_group(hands)

    def _begin_to_sift(self) -> None:
        """Ask of each message who wants it, from now on; all who are there want every one."""
        suspects = self.order.end_isolation()
        grouping, self._grouping = self._grouping, None
        self.order = self._sifting = self._queue.sifting = Sifting(self._queue, self.order)
        if grouping is not None:
            self._sifting.begin_to_group(grouping.hand_over())
        self._sifting.adopt_equal(self._ranks)
        if suspects is not None:
            self._sifting.isolate_on(suspects)

    def _end_sifting(self, sifting: Sifting, count_max: int) -> None:
        """Go back in steps to the order where everybody wants every message."""
        plain = sifting.pour_back(count_max)
        if plain is not None:
            sifting.hand_over(self._ranks)
            plain.suspects = sifting.suspects_left()
            self.order, self._sifting, self._queue.sifting = plain, None, None
            if sifting.hands is not None:
                # At once: of what the plain order gave meanwhile nobody would know whose it is.
                grouping = Grouping(self._queue, plain, self._sharing, sifting.hands)
                self.order = self._grouping = self._queue.grouping = grouping
            self._end_if_it_may()

    @property
    def turn(self) -> Turn:
        """Whose turn it is now."""
        sole = self._sole
        active = (sole.successor or sole.active) if sole.is_in_force else None
        is_grouped = self._queue.grouping is not None
        return Turn(active, sole.is_draining, not self._gate.is_open, is_grouped)

    def _goes_before(self, newcomer: Consumer) -> bool:
        """Whether somebody new is to be the only one, instead of who is or is to be."""
        incumbent = self._sole.active or self._sole.successor
        priority = newcomer.claim.priority
        if incumbent is None or priority == CONSUMER_PRIORITY_MAX:
            return True
        return priority > incumbent.claim.priority

    def leave(self, consumer: Consumer) -> None:
        """Note that a consumer is closed, and gets nothing more."""
        sole = self._sole
        was_incumbent = consumer in (sole.active, sole.successor)
        sole.left(consumer)
        self._claim_count -= consumer.claim != NO_CLAIM
        if self._sifting is not None:
            self._sifting.leave(consumer)
            self._queue.touch()
        self._ranks.discard(consumer)
        if self._grouping is not None:
            self._grouping.left(consumer)
            self._queue.touch()
        if was_incumbent:
            self._succeed(self._ranks.best())
        self._gate.left(len(self._queue.subscriptions))
        self._end_if_it_may()

    def _succeed(self, successor: Consumer | None) -> None:
        everybody = self._queue.subscriptions
        if not self._sole.is_in_force:
            self._roll.clear()
            self._ranks.clear_rings()
            if self._sifting is not None:
                self._sifting.clear_rings()
        self._sole.succeed(successor, everybody)
        if successor is None:
            self._roll.extend(everybody)
        self._queue.touch()

    def _end_if_it_may(self) -> None:
        """Let the plain choice go on alone, if nobody claims anything."""
        if self._grouping is not None or self._sifting is not None:
            return
        if self._queue.subscriptions:
            if self._claim_count or self._roll or not self._gate.is_open:
                return
        elif self._sole.is_waited_for:
            return
        self._ranks.merge_into(self.order)
        self._queue.choose(self.order)

    def make_ready(self, consumer: Consumer) -> bool:
        """
        Put a consumer that has room where it stands then.

        True if it was not there, and also where all wait until what it held is gone.
        """
        sole = self._sole
        if sole.is_draining:
            return True
        if consumer.is_closed or (sole.is_in_force and consumer is not sole.active):
            return False
        if self._sifting is not None and not sole.is_in_force:
            return self._sifting.make_ready(consumer)
        ring = sole.ring if sole.is_in_force else self._ranks.ring_of(consumer)
        is_new = ring.make_ready(consumer)
        # There may be something for him also where he stands in his ring, and had no room.
        grouping = self._grouping
        return is_new if grouping is None else grouping.has_room(consumer) or is_new

    @property
    def is_idle_awaited(self) -> bool:
        """Whether something waits for a consumer that holds nothing."""
        return self.order.is_idle_awaited

    @property
    def is_draining(self) -> bool:
        """Whether nobody gets anything, as others than the next one may hold something."""
        return self._sole.is_draining

    def may_hold(self, consumer: Consumer) -> bool:
        """Whether a consumer may have back what its transaction gives back."""
        return self._sole.may_hold(consumer)

    @property
    def has_ready(self) -> bool:
        """Whether there may be somebody who gets messages now."""
        if self._sole.is_draining or self._roll:
            return True
        sifting = self._sifting
        if sifting is not None and not self._sole.is_in_force:
            is_over = not sifting.classes.selective_count
            return is_over or (self._gate.is_open and sifting.has_ready)
        return self._ring is not None

    @property
    def _ring(self) -> Ring | None:
        """Those of whom one gets the next message, None if nobody does."""
        if not self._gate.is_open:
            return None
        sole = self._sole
        if not sole.is_in_force:
            return self._ranks.first_ready()
        return sole.ring if sole.ring.ready else None

    def assign(self, settle: Settle, step: list[Delivery], count_max: int) -> bool:
        """Put deliveries into a step; whether there is nothing after it."""
        if self._sole.is_draining:
            is_over = self._sole.look(count_max)
            if self._sole.is_draining:
                return is_over
        elif self._roll:
            self._call_roll(count_max)
            return False
        if self._sifting is not None:
            return self._sift(self._sifting, settle, step, count_max)
        ring = self._ring
        if ring is None:
            return True
        if self._grouping is not None:
            self._grouping.let_only(self._sole.active)
        is_over = self.order.assign(settle, step, count_max, ring)
        # Those of a lower priority have their turn where nobody here had room.
        return is_over and (bool(ring.ready) or self._ring is None)

    def _sift(self, sifting: Sifting, settle: Settle, step: list[Delivery], count_max: int) -> bool:
        if not sifting.classes.selective_count:
            self._end_sifting(sifting, count_max)
            return False
        if not self._gate.is_open:
            return True
        if sifting.hands is not None:
            sifting.hands.let_only(self._sole.active)
        ring = self._sole.ring if self._sole.is_in_force else None
        return sifting.assign(settle, step, count_max, ring)

    def _call_roll(self, count_max: int) -> None:
        for _ in range(min(count_max, len(self._roll))):
            consumer = self._roll.popleft()
            if not consumer.is_closed:
                consumer.is_ready = False  # It was, perhaps, before only one got messages.
                self.make_ready(consumer)
        self._end_if_it_may()

    def wake(self, now_ms: int, count_max: int) -> tuple[int, int]:
        """Do what is due by now; gives how many messages came back, and when to go on, or 0."""
        count, soonest = self._sole.wake(now_ms, count_max)
        was_open = self._gate.is_open
        opens_at = self._gate.wake(now_ms) if self._queue.subscriptions else 0
        if self._gate.is_open and not was_open:
            self._queue.touch()
            self._end_if_it_may()
        return count, min(filter(None, (soonest, opens_at)), default=0)

    @property
    def cursor(self) -> int:
        """The lowest stored sequence that was never assigned, as far as it was looked."""
        return self.order.cursor if self._sifting is None else self._sifting.reach

    @property
    def goes_by_priority(self) -> bool:
        """Whether messages are in lanes."""
        return self.order.lanes is not None

    def begin_lanes(self) -> None:
        """Go by priority from now on."""
        self.order.begin_lanes()

    def add_transient(self, key: int) -> None:
        """Let a non-persistent message wait for its first consumer."""
        self.order.add_transient(key)

    def give_back(self, order: int, serial: int, key: int) -> None:
        """Put what was assigned at its old place."""
        self.order.give_back(order, serial, key)

    def is_at_hand(self, sequence: int) -> bool:
        """Whether a live stored message is in the order."""
        return self.order.is_at_hand(sequence)

    def skip_to(self, sequence: int) -> None:
        """Leave out what stands before a sequence."""
        self.order.skip_to(sequence)

    def empty(self) -> tuple[Collection[object], ...]:
        """Forget single keys; consumers stay."""
        return self.order.empty()


def join(queue: Queue, consumer: Consumer, sharing: Sharing) -> None:
    """Let a consumer that is among the queue's have its turns as it claims, and as is shared."""
    choice = queue.choice
    if not isinstance(choice, Router):
        is_gated = sharing.has_gate and len(queue.subscriptions) == 1
        claims = consumer.claim != NO_CLAIM or consumer.selector is not None
        if not claims and not (is_gated or has_groups(queue)):
            return
        assert isinstance(choice, Plain), "there are no others"
        choice = Router(queue, choice)
        queue.choose(choice)
    choice.join(consumer, sharing)


def has_groups(queue: Queue) -> bool:
    """Whether messages of groups came to a queue."""
    return bool((queue.index.ordering | queue.volatile_ordering) & BY_GROUP)


def has_priorities(queue: Queue) -> bool:
    """Whether messages came to a queue that have not the usual priority."""
    return bool((queue.index.ordering | queue.volatile_ordering) & BY_PRIORITY)


def group(queue: Queue, sharing: Sharing) -> None:
    """Let messages of a queue with consumers be in groups: the first such has come."""
    choice = queue.choice
    if not isinstance(choice, Router):
        assert isinstance(choice, Plain), "there are no others"
        choice = Router(queue, choice)
        queue.choose(choice)
    choice.group(sharing)

"""
One subscription to several queues and topics: a *bundle* of *strands*, one for each of them.

To its queue or topic a strand is a consumer like any other; they share what the subscription may
have at once, and the room of its connection. Whoever asks a strand for room where there is none
makes it wait; as soon as there is room again those wait no more that were served longest ago. What
a strand is given in one turn is bounded, so a deep queue does not hold up the others.

The strands' deliveries stand in one order, which a cumulative acknowledgement counts by: each has
its serial number in it, also while a transaction has it.

Invariants:
    `held` is how much is in all windows together, and `holding` whose are not empty.
    In a window of mode `client` serials ascend.
    A strand that was refused room waits, or the bundle is closed.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import Any, Final

from holdfast.broker.serving.consumer import AcknowledgeMode, MessageSelector, Receiver
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.serving.topic import Topic
from holdfast.model.destination import Kind
from holdfast.model.wildcards import Pattern

TURN_COUNT: Final = 16
"""So many messages a strand is given before others have their turn."""

_WOKEN_MAX: Final = 16
"""So many strands have their turn in one step."""

_CLOSED_MAX: Final = 16
"""So many strands that are over may stand among those that wait, and as many as there are open."""

_STRAND_BYTES: Final = 700
"""What a strand takes beside what any subscription does: its window, its place in the bundle."""


class Window(dict[int, None]):
    """What a strand has in delivery, in order; it tells the strand of each change."""

    __slots__ = ("_strand",)

    def __init__(self, strand: Strand) -> None:
        super().__init__()
        self._strand = strand

    def __setitem__(self, key: int, value: None) -> None:
        if key not in self:
            self._strand.took(key)
        super().__setitem__(key, value)

    def __delitem__(self, key: int) -> None:
        super().__delitem__(key)
        self._strand.let_go(key)

    def pop(self, key: int, default: Any = None) -> None:
        """Take out a key, if it is there."""
        if key in self:
            del self[key]

    def update(self, keys: Mapping[int, None]) -> None:  # type: ignore[override]
        """Put in what was there before, as a transaction is rolled back."""
        for key in keys:
            if key not in self:
                self._strand.took_again(key)
                super().__setitem__(key, None)

    def clear(self) -> None:
        """Take out all."""
        for key in [*self]:
            del self[key]

    def replace(self, keys: Iterable[int]) -> None:
        """Hold exactly these, in this order."""
        super().clear()
        super().update(dict.fromkeys(keys))


class Strand(Subscription):
    """A bundle's part on one queue or topic."""

    __slots__ = (
        *("_is_ready", "_prefetch", "_window", "aside", "is_waiting", "lapsed"),
        *("serials", "served", "turn_left", "whole"),
    )

    def __init__(
        self,
        whole: Bundle,
        *,
        destination: str,
        selector: MessageSelector | None = None,
        is_wild: bool = False,
    ) -> None:
        self.whole = whole
        """The subscription as its client knows it."""
        self.is_waiting = False
        self.served = 0
        """The bundle's count of deliveries when it got its last one."""
        self.turn_left = 0
        self.serials: dict[int, int] = {}
        """By key: where in the bundle's order it stands, in mode `client`."""
        self.aside: dict[int, int] = {}
        """The same of what open transactions have."""
        self.lapsed: dict[int, int] = {}
        """The same of what is not there any more, and its client has said nothing of yet."""
        self._is_ready = self.is_closed = False
        self._prefetch = self.ordinal = 0
        self._window = Window(self)
        super().__init__(
            whole.receiver,
            whole.id,
            mode=whole.mode,
            prefetch=1,
            destination=destination,
            client=whole.client,
            selector=selector,
        )
        self.cost_bytes += _STRAND_BYTES
        self.is_wild = is_wild
        self.claim, self.redelivery = whole.claim, whole.redelivery
        self.pending_max, self.has_no_local = whole.pending_max, whole.has_no_local
        self.is_retroactive = whole.is_retroactive

    @property
    def bundle(self) -> Bundle:
        """What it is a part of."""
        return self.whole

    @property
    def held_count(self) -> int:
        """How much all the subscription has in delivery, from whichever queue."""
        return self.whole.held

    @property
    def width(self) -> int:
        """What all the subscription may have in delivery."""
        return self.whole.prefetch

    def narrow(self, reason: object) -> None:
        """Let all its strands together have one message at a time."""
        self.whole.narrow(reason)

    def widen(self, reason: object) -> None:
        """Let all its strands together have what they had."""
        self.whole.widen(reason)
        self.whole.stir()

    @property
    def unacknowledged(self) -> dict[int, None]:
        """What it has in delivery."""
        return self._window

    @unacknowledged.setter
    def unacknowledged(self, keys: dict[int, None]) -> None:
        window, bundle = self._window, self.whole
        for key in [key for key in window if key not in keys]:
            del window[key]
        for key in keys:
            if key not in window:
                self.took_again(key)
        if bundle.mode is AcknowledgeMode.CLIENT:
            window.replace(sorted(keys, key=self.serials.__getitem__))
        else:
            window.replace(keys)

    def took(self, key: int) -> None:
        """Note that it is given something."""
        bundle = self.whole
        bundle.held += 1
        bundle.holding[self] = None
        self._count_one()
        if bundle.mode is AcknowledgeMode.CLIENT:
            self.serials[key] = bundle.served
            self.aside.pop(key, None)

    def _count_one(self) -> None:
        bundle = self.whole
        bundle.served += 1
        self.served = bundle.served
        self.turn_left -= 1

    def took_again(self, key: int) -> None:
        """Note that it has again what a transaction had, at its old place."""
        bundle = self.whole
        bundle.held += 1
        bundle.holding[self] = None
        if bundle.mode is AcknowledgeMode.CLIENT:
            self.serials[key] = self.aside.pop(key, 0)

    def let_go(self, key: int) -> None:
        """Note that it has something no more."""
        bundle = self.whole
        bundle.held -= 1
        self.serials.pop(key, None)
        if not self._window:
            bundle.holding.pop(self, None)
        bundle.stir()

    def reserve(self, keys: list[int]) -> None:
        """Take what a transaction settles out of the window; it may come back."""
        if not self.reserved_count:
            self.aside.clear()
        if self.serials:
            self.aside.update((key, self.serials[key]) for key in keys if key in self.serials)
        super().reserve(keys)

    def committed(self, keys: list[int], step_count: int) -> Iterator[None]:
        """Forget in steps what a transaction has settled."""
        for start in range(0, len(keys), step_count):
            for key in keys[start : start + step_count]:
                self.aside.pop(key, None)
            yield
        yield from super().committed(keys, step_count)

    @property
    def is_ready(self) -> bool:
        """Whether it stands in its queue's ring."""
        return self._is_ready

    @is_ready.setter
    def is_ready(self, is_ready: bool) -> None:
        was_ready, self._is_ready = self._is_ready, is_ready
        if was_ready and not is_ready:
            self.whole.wait(self)

    @property
    def prefetch(self) -> int:
        """What it may have, by what the others have now; less than 1: nothing, whatever they do."""
        own = self._prefetch
        return own if own <= 0 else len(self._window) + self._room()

    @prefetch.setter
    def prefetch(self, prefetch: int) -> None:
        was_held_up = self._prefetch < 0
        self._prefetch = prefetch if prefetch < 0 else int(not self.is_closed)
        if was_held_up:
            self.whole.wait(self)

    def step_back(self) -> None:
        """Let those go first that wait for longer than it did."""
        self.turn_left = 0

    def _room(self) -> int:
        """What it may be given now; where nothing is acknowledged being asked is being given."""
        bundle = self.whole
        if self.turn_left <= 0 and self.topic is None:
            return 0
        if bundle.mode is AcknowledgeMode.AUTO:
            self._count_one()
            return bundle.prefetch
        return max(0, bundle.prefetch - bundle.held)

    def has_room(self) -> bool:
        """Whether it may be given one more now; if not, it waits."""
        if self._prefetch <= 0:
            return False
        if self.receiver.room_bytes > 0 and self._room() > 0:
            return True
        self.whole.wait(self)
        return False

    def lapse(self, key: int) -> None:
        """Note that it had a message for too long, or that its queue is gone."""
        if self.overdue is None:
            self.overdue = {}
        if key in self.serials:
            self.lapsed[key] = self.serials[key]
        self.overdue[key] = has_room = self.whole.prefetch > 0
        self.whole.prefetch -= has_room

    def answered(self, key: int) -> bool:
        """Note that it has said something of a message; whether that was taken from it."""
        if self.overdue is None or key not in self.overdue:
            return False
        if self.overdue.pop(key):
            self.whole.regain()
        self.lapsed.pop(key, None)
        if not self.overdue and self.whole.lapsing.pop(self, self) is None:
            self.whole.gone(self)
        self.whole.stir()
        return True

    def answer_through(self, key: int) -> None:
        """Note that its client has said something of all that it was delivered until then."""
        through = self.serials.get(key, self.lapsed.get(key, 0))
        for each in [*self.whole.lapsing]:
            for lapsed in [it for it, serial in each.lapsed.items() if serial <= through]:
                each.answered(lapsed)


class Bundle(Subscription):
    """A subscription to several queues and topics, as its client knows it."""

    __slots__ = (
        *("_stirring", "gone", "held", "holding", "is_durable", "is_stirring", "lapsing"),
        *("number", "patterns", "served", "strands", "waiting"),
    )

    def __init__(
        self,
        receiver: Receiver,
        subscription_id: str,
        *,
        mode: AcknowledgeMode,
        prefetch: int,
        destination: str,
        client: str,
        patterns: Iterable[Pattern],
        stirring: deque[Bundle],
    ) -> None:
        super().__init__(
            receiver,
            subscription_id,
            mode=mode,
            prefetch=prefetch,
            destination=destination,
            client=client,
        )
        self.patterns = tuple(patterns)
        self.number = 0
        """How many were made before it, of those with wildcards; counted by who joins them."""
        self.strands: dict[Queue | Topic, Strand] = {}
        self.held = 0
        """What all strands have in delivery."""
        self.holding: dict[Strand, None] = {}
        """Those that have anything in delivery."""
        self.lapsing: dict[Strand, None] = {}
        """Those that are over, and the client has yet to say something of what they had."""
        self.gone: Callable[[Strand], None] = _nothing
        """Is told of one that is over, when nothing can be said of its deliveries any more."""
        self.served = 0
        """How many deliveries were made to it."""
        self.waiting: list[tuple[int, int, Strand]] = []
        """A heap of those that were refused room: who was served longest ago comes first."""
        self.is_durable = False
        """Whether its strands are the parts of one durable subscription."""
        self.is_stirring = False
        """Whether it stands in the leadership's line of those that may have room for who waits."""
        self._stirring = stirring

    @property
    def bundle(self) -> Bundle:
        """Itself."""
        return self

    def step_back(self) -> None:
        """Let those have their turn that wait: its connection may have room."""
        self.stir()

    @property
    def held_count(self) -> int:
        """How much it has in delivery."""
        return self.held

    @property
    def left_in(self) -> int:
        """In how many steps its connection leaves it; what is not durable is left by itself."""
        return 1 + len(self.strands) if self.is_durable else 1

    @property
    def queues(self) -> list[Queue]:
        """The queues that its strands take messages from."""
        return [each for each in self.strands if isinstance(each, Queue)]

    @property
    def sole_holder(self) -> Subscription:
        """The strand that has the one message in delivery, where there is but one."""
        return next(iter(self.holding)) if self.held == 1 else self

    def part_of(self, queue_number: int, key: int) -> Subscription | None:
        """Give the strand that may have a message of a queue; of topics, which has it."""
        for strand in self.holding:
            if strand.queue_number == queue_number and key in strand.unacknowledged:
                return strand
        for strand in self.lapsing:
            if strand.queue_number == queue_number and key in (strand.overdue or ()):
                return strand
        if not queue_number:
            return None
        for strand in self.strands.values():
            if strand.queue_number == queue_number:
                return strand
        return None

    def wait(self, strand: Strand) -> None:
        """Let a strand wait that was refused room."""
        if self.is_closed or strand.is_closed:
            return
        if not strand.is_waiting:
            strand.is_waiting = True
            if len(self.waiting) > _CLOSED_MAX + 2 * len(self.strands):
                self.waiting = [it for it in self.waiting if not it[2].is_closed]
                heapify(self.waiting)
            heappush(self.waiting, (strand.served, strand.ordinal, strand))
        self.stir()

    def stir(self) -> None:
        """Note that there may be room for who waits."""
        if self.waiting and not self.is_stirring:
            self.is_stirring = True
            self._stirring.append(self)

    @property
    def may_give(self) -> bool:
        """Whether there is room for anybody."""
        is_full = self.mode is not AcknowledgeMode.AUTO and self.held >= self.prefetch
        return not (is_full or self.is_closed) and self.receiver.room_bytes > 0

    def woken(self) -> list[Strand]:
        """Take those whose turn it is now."""
        self.is_stirring = False
        woken: list[Strand] = []
        if not self.may_give:
            return woken
        is_counted = self.mode is not AcknowledgeMode.AUTO
        count = min(_WOKEN_MAX, self.prefetch - self.held) if is_counted else _WOKEN_MAX
        while self.waiting and len(woken) < count:
            strand = heappop(self.waiting)[2]
            strand.is_waiting = False
            if not strand.is_closed:
                strand.turn_left = TURN_COUNT
                woken.append(strand)
        return woken

    def settled_by(self, strand: Strand, key: int) -> list[tuple[Subscription, list[int]]]:
        """Give what a cumulative acknowledgement settles: all that was delivered until then."""
        through = strand.serials.get(key, strand.lapsed.get(key, 0))
        found: list[tuple[Subscription, list[int]]] = []
        for each in self.holding:
            keys: list[int] = []
            for held in each.unacknowledged:
                if each.serials[held] > through:
                    break
                keys.append(held)
            if keys:
                found.append((each, keys))
        return found


def _nothing(strand: Strand) -> None:
    """Be told of a strand, and do nothing."""


def kind_of(destination: Queue | Topic) -> Kind:
    """Give of which kind a destination is."""
    return Kind.QUEUE if isinstance(destination, Queue) else Kind.TOPIC

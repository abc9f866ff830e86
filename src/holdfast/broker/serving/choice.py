"""
Choice: which message of a queue goes to which of its consumers. The contract.

`plain` is the choice of a queue without features. Where consumers are not equal (one wants to be
the only one, some have a higher priority) another implementation is put before it, `router`.
What is so of single messages whoever chooses (given back, withheld, reserved) stands in the queue's
custody, and what lives in its lasting half: a choice holds only the order, and who has room.

Invariants, of every choice:
    A key leaves the order only with the consumer that gets it, in one step of `assign`: nothing is
    taken that nobody takes.
    Nothing above the lasting half's dispatch mark is assigned, nothing that is withheld, nothing
    that does not live.
    A live key that nobody has, and that is neither withheld nor reserved, is in the order; never
    lost sight of. It is in the order once.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from holdfast.broker.serving.consumer import Consumer
from holdfast.broker.serving.delivery import Delivery

Settle = Callable[[int], None]
"""Notes that a key is done with: its consumer never acknowledges."""


class Choice(Protocol):
    """Pairs the messages of one queue with its consumers."""

    @property
    def cursor(self) -> int:
        """The lowest stored sequence that was never assigned, as far as it was looked."""

    @property
    def has_ready(self) -> bool:
        """Whether there may be a consumer with room."""

    @property
    def goes_by_priority(self) -> bool:
        """Whether a message of a higher priority comes before others."""

    def begin_lanes(self) -> None:
        """Go by priority from now on."""

    def assign(self, settle: Settle, step: list[Delivery], count_max: int) -> bool:
        """
        Put deliveries into a step, no more than so many; whether there is nothing after it.

        It may do so much work that finds nothing, too, and say that there is more. A message that
        is not in memory is the last of its step.
        """

    def make_ready(self, consumer: Consumer) -> bool:
        """Note that a consumer may have room; true if it was not known, and has."""

    @property
    def is_idle_awaited(self) -> bool:
        """Whether something waits for a consumer that holds nothing."""

    def leave(self, consumer: Consumer) -> None:
        """Note that a consumer is closed, and gets nothing more."""

    def may_hold(self, consumer: Consumer) -> bool:
        """Whether a consumer may have back what its transaction gives back."""

    def wake(self, now_ms: int, count_max: int) -> tuple[int, int]:
        """
        Do what is due by now, for so many messages at most.

        Gives for how many it was, and when to go on: 0 if that is not known.
        """

    def add_transient(self, key: int) -> None:
        """Put a non-persistent message at the end of the order, behind all that was assigned."""

    def give_back(self, order: int, serial: int, key: int) -> None:
        """Put what was assigned at its old place, before all that never was."""

    def is_at_hand(self, sequence: int) -> bool:
        """Whether a live stored message is in the order: nobody has it."""

    def skip_to(self, sequence: int) -> None:
        """Leave out what stands before a sequence: it is about to be removed."""

    def empty(self) -> tuple[Collection[object], ...]:
        """Forget single keys; gives what was long, to be let go of. Consumers stay."""


class KeepsGroups(Protocol):
    """Whoever knows which messages of groups are out, as the queue sees it."""

    def forget(self, keys: Iterable[int]) -> None:
        """Note what is gone for good, or cannot be read."""

    def set_aside(self, keys: Iterable[int]) -> None:
        """Note that messages come again, later."""


class Sifts(Protocol):
    """Whoever looks at each message of a queue, who wants it."""

    @property
    def selector_count(self) -> int:
        """How many different selectors its consumers have."""

    @property
    def parked_count(self) -> int:
        """So many messages wait for those who want them."""

    @property
    def unlooked_count(self) -> int:
        """Places that who has most to do has still to look through, of what was there before."""

    @property
    def is_full(self) -> bool:
        """Whether nothing more is looked at until some of those are taken."""

    def forget(self, keys: Collection[int]) -> None:
        """Forget what is gone for good."""

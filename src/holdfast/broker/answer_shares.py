"""
What others may put on temporary destinations, and when who reads there is behind.

An address for answers is told to whoever is asked, and the answers wait for its reader in memory
that is of his user's share (`FlowControl.temporary_shares`). So of that share each address has a
part only, and each other user who sends there a share of his own (`model.shares`): who was told one
address, or all of them, does not keep the answers of others away. What goes beyond waits for
nothing: its reader may take as long as he likes, and whoever answers has others to answer.

Invariants:
    What a user has on another's queues is counted until it is taken off, or goes with its queue.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple

from holdfast.model.shares import part_of

PARTS: Final = 8
"""One address has so small a part of its user's share."""

_LITTLE: Final = 64
"""Who has less than so small a part of the memory is not behind: it is full of what others have."""


class AnswerShares:
    """What each user has on temporary queues of each other user, in bytes with their overhead."""

    __slots__ = ("_by_pair", "_by_queue")

    def __init__(self) -> None:
        self._by_queue: dict[Hashable, dict[str, int]] = {}
        self._by_pair: dict[tuple[str, str], int] = {}
        """By whose the queues are, and who sent there."""

    def of(self, owner: str | None, sender: str) -> int:
        """Give what somebody has on all queues of another user."""
        return 0 if owner is None else self._by_pair.get((owner, sender), 0)

    def add(self, queue: Hashable, owner: str | None, sender: str, change: int) -> None:
        """Note that somebody has so much more on a queue of this user, or less."""
        senders = self._by_queue.setdefault(queue, {})
        now = senders.get(sender, 0) + change
        if now:
            senders[sender] = now
        else:
            senders.pop(sender, None)
            if not senders:
                del self._by_queue[queue]
        self._count(owner, sender, change)

    def move(self, queue: Hashable, before: str | None, owner: str | None) -> None:
        """Note that a queue is another user's now, with all that stands there."""
        for sender, size in self._by_queue.get(queue, {}).items():
            self._count(before, sender, -size)
            self._count(owner, sender, size)

    def drop(self, queue: Hashable, owner: str | None) -> None:
        """Note that all that stood on a queue is gone."""
        for sender, size in self._by_queue.pop(queue, {}).items():
            self._count(owner, sender, -size)

    def _count(self, owner: str | None, sender: str, change: int) -> None:
        if owner is None:
            return
        now = self._by_pair.get((owner, sender), 0) + change
        if now:
            self._by_pair[owner, sender] = now
        else:
            self._by_pair.pop((owner, sender), None)


class Standing(NamedTuple):
    """How it stands with a temporary queue as somebody else wants to send there, in bytes."""

    memory: int
    """What all non-persistent messages may take."""
    most: int
    """What of that the queue's user may have on all of his; all where nobody is somebody."""
    on_queue: int
    of_owner: int | None
    """What stands on all queues of its user; None: nobody is somebody here."""
    sender: str = ""
    """The user who sends; empty: the same one, or nobody is somebody."""
    of_sender: int = 0
    """What of that he has there."""


def why_behind(name: str, size: int, total: int, it: Standing) -> str | None:
    """
    Say why one more message of this size is refused at once; None: its reader is not behind.

    Args:
        total: What goes to all temporary destinations with it.
    """
    little = it.memory // _LITTLE
    of_queue = max(it.most // PARTS, little)
    go_on = "go on without this one, or send it again later"
    if it.on_queue and it.on_queue + size > of_queue:
        return (
            f"who reads temporary queue {name!r} is behind: {it.on_queue:,} bytes wait there, at"
            f" most {of_queue:,} of others' may; {go_on}"
        )
    if it.of_owner is None:
        return None
    if it.of_owner > max(it.most, little):
        return (
            f"who reads temporary queue {name!r} is behind: {it.of_owner:,} bytes wait on all"
            f" temporary queues of that user, at most {it.most:,} may; {go_on}"
        )
    if not it.sender or (not it.of_owner and size == total):
        return None  # One that is large is taken where nothing waits, as it is anywhere.
    if it.of_sender + total > max(part_of(it.sender, it.most - it.of_owner - total), little):
        return (
            f"this user's messages on temporary queues of the user who reads {name!r} take"
            f" {it.of_sender:,} bytes, as many as they may of that user's share; {go_on}"
        )
    return None

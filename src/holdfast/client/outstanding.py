"""
Requests whose receipt is awaited, in the order they were made: what a new link must be sent.

Pure: an operation knows its bytes and what to do with its outcome, this module keeps the books.

Invariants:
    An operation stays until its receipt, its refusal, or the end of the connection.
    `bytes` is the sum of `size_bytes` of all operations, however many receipts each awaits.
    Replaying keeps the order, so a producer's sequence numbers arrive without a gap.

Owned by the session of one connection.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.errors import HoldfastError, LinkLostError


class Operation:
    """
    One request. Subclasses say what is sent again and who hears the outcome.

    `deadline` is when a failover timeout gives it up, in the clock's seconds; None means never.
    `receipt` is set by the session when the request is made. `links` counts the links it may have
    gone over: a refusal on the second says nothing of what the first broker has done.
    `awaited_count` is kept by the books: how many receipts of it stand there.
    """

    __slots__ = ("awaited_count", "deadline", "links", "receipt", "size_bytes")

    is_limited_by_timeout = False
    """ActiveMQ: the failover option `timeout` concerns sends only."""

    is_done_by_loss = False
    """Whether a lost link has done it itself: nobody need wait for the next one."""

    def __init__(self, size_bytes: int = 0) -> None:
        self.size_bytes = size_bytes
        self.awaited_count = 0
        self.deadline: float | None = None
        self.links = 1
        self.receipt = ""

    def received(self, receipt: str) -> None:
        """The broker has done it."""
        raise NotImplementedError

    def refused(self, receipt: str, error: HoldfastError) -> None:
        """The broker has not done it, and says why."""
        raise NotImplementedError

    def abandoned(self, error: HoldfastError) -> None:
        """We stopped waiting; whether the broker has done it is unknown."""
        raise NotImplementedError

    def replay(self) -> list[tuple[str, bytes]]:
        """
        Receipts and frames to send over a new link.

        An empty list drops the operation, which has then dealt with its outcome itself.
        """
        raise NotImplementedError


def doubtful(error: HoldfastError) -> LinkLostError:
    """What a refusal means of a request that an earlier broker may have done."""
    return LinkLostError(
        f"it was sent, the link was lost, and it was refused when it was sent again: {error};"
        " whether it was done the first time is unknown"
    )


class Outstanding:
    """The operations of one connection by their receipts."""

    def __init__(self) -> None:
        self.bytes = 0
        self._by_receipt: dict[str, Operation] = {}

    def __len__(self) -> int:
        return len(self._by_receipt)

    def add(self, receipt: str, operation: Operation) -> None:
        """Keep an operation; one that awaits several receipts is added once for each."""
        self._by_receipt[receipt] = operation
        if not operation.awaited_count:
            self.bytes += operation.size_bytes
        operation.awaited_count += 1

    def take(self, receipt: str) -> Operation | None:
        """Forget a receipt and give what it belongs to; None if nobody awaits it."""
        operation = self._by_receipt.pop(receipt, None)
        if operation is not None:
            operation.awaited_count -= 1
            if not operation.awaited_count:
                self.bytes -= operation.size_bytes
        return operation

    def operations(self) -> list[Operation]:
        """Every operation once, in order."""
        return list(dict.fromkeys(self._by_receipt.values()))

    def take_all(self) -> list[Operation]:
        """Every operation once, in order; none is kept."""
        operations = self.operations()
        for operation in operations:
            operation.awaited_count = 0
        self._by_receipt.clear()
        self.bytes = 0
        return operations

    def take_replays(self) -> list[bytes]:
        """What a new link must be sent, in order; the books are written anew on the way."""
        frames = []
        for operation in self.take_all():
            for receipt, frame in operation.replay():
                self.add(receipt, operation)
                frames.append(frame)
        return frames

    def set_deadlines(self, deadline: float) -> None:
        """The link is lost: from now on the timeout of sends runs."""
        for operation in self._by_receipt.values():
            if operation.is_limited_by_timeout and operation.deadline is None:
                operation.deadline = deadline

    def clear_deadlines(self) -> None:
        """The link is there again."""
        for operation in self._by_receipt.values():
            operation.deadline = None

    def next_deadline(self) -> float | None:
        """When the first operation is given up."""
        deadlines = [
            operation.deadline
            for operation in self._by_receipt.values()
            if operation.deadline is not None
        ]
        return min(deadlines, default=None)

    def take_expired(self, now: float) -> list[Operation]:
        """Operations whose deadline has passed; they are kept no longer."""
        expired = dict.fromkeys(
            operation
            for operation in self._by_receipt.values()
            if operation.deadline is not None and operation.deadline <= now
        )
        self._drop(lambda operation: operation in expired)
        return list(expired)

    def take_done_by_loss(self) -> list[Operation]:
        """What a lost link has done; it is kept no longer."""
        done = [operation for operation in self.operations() if operation.is_done_by_loss]
        for operation in done:
            self.drop(operation)
        return done

    def drop(self, dropped: Operation) -> None:
        """Forget every receipt of one operation."""
        self._drop(lambda operation: operation is dropped)

    def _drop(self, is_dropped: Callable[[Operation], bool]) -> None:
        for receipt in [key for key, value in self._by_receipt.items() if is_dropped(value)]:
            self.take(receipt)

"""
The block in which a message is processed: done if the block went well, rejected if it failed.

A failure never keeps a message from everybody: it goes to the dead-letter queue, and the block's
error goes on. Only what nobody has judged (the task was cancelled, the program is ending) stays as
it is: the broker delivers it again when the subscription or the connection ends.
"""

from __future__ import annotations

from types import TracebackType
from typing import Generic, Protocol, TypeVar

from holdfast.client.settlements import ACKNOWLEDGE, REJECT
from holdfast.errors import HoldfastError


class Settleable(Protocol):
    """A message as its processing sees it."""

    @property
    def is_settled(self) -> bool:
        """Whether it was acknowledged or rejected."""

    @property
    def is_in_transaction(self) -> bool:
        """Whether a transaction that is not finished will settle it."""


class SettleableAsync(Settleable, Protocol):
    """The same, settled by coroutines."""

    async def acknowledge(self, *, confirm: bool = False) -> None:
        """It is done."""

    async def reject(self, *, confirm: bool = False) -> None:
        """It cannot be processed."""


class SettleableBlocking(Settleable, Protocol):
    """The same, settled by plain functions."""

    def acknowledge(self, *, confirm: bool = False) -> None:
        """It is done."""

    def reject(self, *, confirm: bool = False) -> None:
        """It cannot be processed."""


MessageT = TypeVar("MessageT", bound=SettleableAsync)
BlockingMessageT = TypeVar("BlockingMessageT", bound=SettleableBlocking)


def verdict(message: Settleable, error: BaseException | None) -> bytes | None:
    """How a block that ended with `error` settles its message; None: not at all."""
    if message.is_settled or message.is_in_transaction:
        # The block has said so itself, or a transaction will.
        return None
    if error is None:
        return ACKNOWLEDGE
    return REJECT if isinstance(error, Exception) else None


class Processing(Generic[MessageT]):
    """The block of `Message.process`."""

    def __init__(self, message: MessageT, *, confirm: bool) -> None:
        self._message = message
        self._confirm = confirm

    async def __aenter__(self) -> MessageT:
        """The message itself."""
        return self._message

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Settle it, unless the block has; the block's own error goes on."""
        verb = verdict(self._message, error)
        if verb is None:
            return
        if error is None:
            await self._message.acknowledge(confirm=self._confirm)
            return
        try:
            await self._message.reject(confirm=self._confirm)
        except HoldfastError as failure:
            error.add_note(f"nor could {self._message} be rejected: {failure}")


class BlockingProcessing(Generic[BlockingMessageT]):
    """The block of `BlockingMessage.process`."""

    def __init__(self, message: BlockingMessageT, *, confirm: bool) -> None:
        self._message = message
        self._confirm = confirm

    def __enter__(self) -> BlockingMessageT:
        """The message itself."""
        return self._message

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Settle it, unless the block has; the block's own error goes on."""
        verb = verdict(self._message, error)
        if verb is None:
            return
        if error is None:
            self._message.acknowledge(confirm=self._confirm)
            return
        try:
            self._message.reject(confirm=self._confirm)
        except HoldfastError as failure:
            error.add_note(f"nor could {self._message} be rejected: {failure}")

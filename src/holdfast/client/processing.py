"""
The block in which a message is processed: done if the block went well, rejected if it failed.

A failure never keeps a message from everybody: it goes to the dead-letter queue, or comes again
after a while if the block was told so, and the block's error goes on. Only what nobody has judged
(the task was cancelled, the program is ending) stays as it is: the broker delivers it again when
the subscription or the connection ends.
"""

from __future__ import annotations

from types import TracebackType
from typing import Generic, Protocol, TypeVar

from holdfast.client.settlements import ACKNOWLEDGE, REJECT, come_again
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

    async def give_back(self, *, after: float = 0.0, confirm: bool = False) -> None:
        """It comes again."""


class SettleableBlocking(Settleable, Protocol):
    """The same, settled by plain functions."""

    def acknowledge(self, *, confirm: bool = False) -> None:
        """It is done."""

    def reject(self, *, confirm: bool = False) -> None:
        """It cannot be processed."""

    def give_back(self, *, after: float = 0.0, confirm: bool = False) -> None:
        """It comes again."""


MessageT = TypeVar("MessageT", bound=SettleableAsync)
BlockingMessageT = TypeVar("BlockingMessageT", bound=SettleableBlocking)


def check_delay(seconds: float | None) -> None:
    """
    Whether a message can come again after so long; None: it does not.

    Raises:
        LocalProtocolError: It cannot.
    """
    if seconds is not None:
        come_again(seconds)


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

    def __init__(
        self, message: MessageT, *, confirm: bool, give_back_after: float | None = None
    ) -> None:
        check_delay(give_back_after)
        self._message = message
        self._confirm = confirm
        self._give_back_after = give_back_after

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
            if self._give_back_after is None:
                await self._message.reject(confirm=self._confirm)
            else:
                await self._message.give_back(after=self._give_back_after, confirm=self._confirm)
        except HoldfastError as failure:
            error.add_note(f"nor could {self._message} be rejected or given back: {failure}")


class BlockingProcessing(Generic[BlockingMessageT]):
    """The block of `BlockingMessage.process`."""

    def __init__(
        self, message: BlockingMessageT, *, confirm: bool, give_back_after: float | None = None
    ) -> None:
        check_delay(give_back_after)
        self._message = message
        self._confirm = confirm
        self._give_back_after = give_back_after

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
            if self._give_back_after is None:
                self._message.reject(confirm=self._confirm)
            else:
                self._message.give_back(after=self._give_back_after, confirm=self._confirm)
        except HoldfastError as failure:
            error.add_note(f"nor could {self._message} be rejected or given back: {failure}")

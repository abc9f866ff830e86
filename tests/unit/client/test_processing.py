"""The block of a message: what its end tells the broker, on both faces."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.client.processing import BlockingProcessing, Processing, verdict
from holdfast.client.settlements import ACKNOWLEDGE, REJECT, come_again
from holdfast.errors import LinkLostError, LocalProtocolError


class Paper:
    """A message that notes how it is settled; plain and as coroutines."""

    def __init__(self, *, failure: Exception | None = None) -> None:
        self.is_settled = False
        self.is_in_transaction = False
        self.told: list[tuple[bytes, bool]] = []
        self.failure = failure

    def acknowledge(self, *, confirm: bool = False) -> None:
        self._settle(ACKNOWLEDGE, confirm)

    def reject(self, *, confirm: bool = False) -> None:
        self._settle(REJECT, confirm)

    def give_back(self, *, after: float = 0.0, confirm: bool = False) -> None:
        self._settle(come_again(after), confirm)

    def _settle(self, verb: bytes, confirm: bool) -> None:
        self.told.append((verb, confirm))
        self.is_settled = True
        if self.failure is not None:
            raise self.failure

    def __repr__(self) -> str:
        return "<Paper>"


class AsyncPaper(Paper):
    async def acknowledge(self, *, confirm: bool = False) -> None:
        super().acknowledge(confirm=confirm)

    async def reject(self, *, confirm: bool = False) -> None:
        super().reject(confirm=confirm)

    async def give_back(self, *, after: float = 0.0, confirm: bool = False) -> None:
        super().give_back(after=after, confirm=confirm)


def ended(
    paper: Paper,
    error: BaseException | None,
    *,
    confirm: bool = False,
    give_back_after: float | None = None,
) -> list:
    """What was told after a block that ended so."""

    async def scenario() -> None:
        async with Processing(paper, confirm=confirm, give_back_after=give_back_after):
            if error is not None:
                raise error

    def plain() -> None:
        with BlockingProcessing(paper, confirm=confirm, give_back_after=give_back_after):
            if error is not None:
                raise error

    try:
        asyncio.run(scenario()) if isinstance(paper, AsyncPaper) else plain()
    except BaseException as raised:
        if raised is not error:
            raise
    return paper.told


@pytest.mark.parametrize("kind", [Paper, AsyncPaper])
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (None, [(ACKNOWLEDGE, True)]),
        (ValueError("mine"), [(REJECT, True)]),
        (KeyboardInterrupt(), []),
        (SystemExit(1), []),
        (GeneratorExit(), []),
    ],
)
def test_the_end_of_the_block_settles_the_message(kind, error, told) -> None:
    """Well, badly, or by no judgement at all."""
    assert ended(kind(), error, confirm=True) == told


@pytest.mark.parametrize("kind", [Paper, AsyncPaper])
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (None, [(ACKNOWLEDGE, False)]),
        (ValueError("mine"), [(b"NACK\nrequeue:true\ndelay:1500", False)]),
        (KeyboardInterrupt(), []),
    ],
)
def test_a_block_may_let_come_again_what_failed(kind, error, told) -> None:
    """After a while, instead of the dead-letter queue."""
    assert ended(kind(), error, give_back_after=1.5) == told


@pytest.mark.parametrize("kind", [Paper, AsyncPaper])
@pytest.mark.parametrize("seconds", [-1, 604_801, float("nan"), float("inf"), "5", True])
def test_a_time_that_there_is_not_is_refused_before_the_block(kind, seconds) -> None:
    """So that nothing is done whose failure could not be told."""
    with pytest.raises(LocalProtocolError, match="from 0 to 604,800 seconds"):
        ended(kind(), ValueError("mine"), give_back_after=seconds)


@pytest.mark.parametrize("kind", [Paper, AsyncPaper])
@pytest.mark.parametrize("error", [None, ValueError("mine")])
@pytest.mark.parametrize("name", ["is_settled", "is_in_transaction"])
def test_a_block_that_has_said_so_itself_is_heeded(kind, error, name) -> None:
    """Nothing is said twice, nor beside a transaction."""
    paper = kind()
    setattr(paper, name, True)
    assert ended(paper, error) == []


@pytest.mark.parametrize("kind", [Paper, AsyncPaper])
def test_the_blocks_own_error_goes_on(kind) -> None:
    """With a note, if the message could not be rejected either."""
    error = ValueError("mine")
    assert ended(kind(failure=LinkLostError("gone")), error) == [(REJECT, False)]
    assert error.__notes__ == ["nor could <Paper> be rejected or given back: gone"]
    with pytest.raises(LinkLostError):
        ended(kind(failure=LinkLostError("gone")), None)


def test_a_cancelled_block_judges_nothing() -> None:
    """The message comes again when the subscription or the connection ends."""
    assert verdict(Paper(), asyncio.CancelledError()) is None

"""
Replay without Spark: the identity of a choice, and which rows are sent.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from holdfast.errors import DestinationError, StoreError
from holdfast.spark.log_source import LogPosition
from holdfast.spark.pipelines import replay as pipeline
from holdfast.spark.pipelines.replay import Choice, first_copies, read_chosen


def row(index: int, ordinal: int, sequence: int) -> SimpleNamespace:
    return SimpleNamespace(log_index=index, ordinal=ordinal, queue_number=1, sequence=sequence)


def test_the_same_choice_has_the_same_producers() -> None:
    """The order in which queues are named, and how, changes nothing."""
    one = Choice(destinations=("/queue/a", "b"), where="sequence > 3")
    two = Choice(destinations=("b", "a", "a"), where="sequence > 3")
    assert one.job("c1", "/queue/x") == two.job("c1", "/queue/x")


@pytest.mark.parametrize(
    "other",
    [
        Choice(destinations=("b",)),
        Choice(destinations=("a",), where="true"),
        Choice(destinations=("a",), start_time="2026-01-01"),
        Choice(destinations=("a",), end_time="2026-01-01"),
    ],
)
def test_another_choice_has_other_producers(other: Choice) -> None:
    """Numbers count the chosen, so another choice must not meet them."""
    choice = Choice(destinations=("a",))
    assert other.job("c1", "/queue/x") != choice.job("c1", "/queue/x")
    assert choice.job("c2", "/queue/x") != choice.job("c1", "/queue/x")
    assert choice.job("c1", "/queue/y") != choice.job("c1", "/queue/x")


def test_a_wrong_destination_is_told() -> None:
    """Wildcards are not served, here as little as by the broker."""
    with pytest.raises(DestinationError):
        Choice(destinations=("a.*",)).names()


def test_copies_by_the_cleaner_are_sent_once() -> None:
    """Where the source lacks its beginning, the first of the copies counts."""
    rows = [row(5, 0, 1), row(5, 1, 2), row(9, 0, 1), row(10, 0, 3)]
    sent = [it.sequence for it in first_copies(rows, has_beginning=False)]
    assert sent == [1, 2, 3]


def test_rows_out_of_order_are_refused() -> None:
    """Numbers are places among the chosen: in another order they would mean other messages."""
    with pytest.raises(StoreError, match="came after"):
        list(first_copies([row(5, 1, 2), row(5, 0, 1)]))


def test_a_cleaned_log_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the cleaner took would shift every number behind it."""
    source = SimpleNamespace(position=lambda: LogPosition(first_index=7, last_index=9))
    monkeypatch.setattr(pipeline, "open_source", lambda options: source)
    with pytest.raises(StoreError, match="begins with entry 7"):
        read_chosen(None, {"path": "x"}, Choice())  # type: ignore[arg-type]

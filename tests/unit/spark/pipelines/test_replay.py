"""
Replay without Spark: the identity of a choice, and what is refused.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from holdfast.errors import ConfigError, DestinationError, StoreError
from holdfast.spark.log.source import LogPosition
from holdfast.spark.pipelines import replay as pipeline
from holdfast.spark.pipelines.replay import Choice, read_chosen


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


def test_a_topic_is_chosen_by_its_name_in_the_log() -> None:
    """It is none of the queues of the same name; what is temporary is nowhere stored."""
    names = Choice(destinations=("/topic/a", "/queue/a", "b")).names()
    assert names == ("a", "b", "topic://a")
    with pytest.raises(ConfigError, match="/temp-topic/a: only queues and topics store messages"):
        Choice(destinations=("/queue/a", "/temp-topic/a")).names()


def test_a_cleaned_log_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the cleaner took would shift every number behind it."""
    source = SimpleNamespace(position=lambda: LogPosition(first_index=7, last_index=9))
    monkeypatch.setattr(pipeline, "open_source", lambda options: source)
    with pytest.raises(StoreError, match="begins with entry 7"):
        read_chosen(None, {"path": "x"}, Choice(), "/queue/x")  # type: ignore[arg-type]


def test_a_log_that_tells_no_cluster_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bare copies of two clusters would share numbers, and the target drop what comes second."""
    source = SimpleNamespace(position=lambda: LogPosition(first_index=1, last_index=9))
    monkeypatch.setattr(pipeline, "open_source", lambda options: source)
    with pytest.raises(StoreError, match="does not tell which cluster"):
        read_chosen(None, {"path": "x"}, Choice(), "/queue/x")  # type: ignore[arg-type]


@pytest.mark.parametrize("other", ["start_index", "startingOffsets", "end_index"])
def test_a_source_that_leaves_something_out_is_refused(other: str) -> None:
    """Numbers are places among all that is chosen; counted from the middle they are others'."""
    with pytest.raises(ConfigError, match=f"{other}: a replay counts from the beginning"):
        read_chosen(None, {"path": "x", other: "7"}, Choice(), "/queue/x")  # type: ignore[arg-type]


def test_a_condition_is_known_by_how_spark_reads_it_as_well() -> None:
    """In another time zone the same words choose others; without a condition nothing is read."""
    plain, conditional = Choice(), Choice(where="stored_at < timestamp'2023-11-14 23:00:00'")
    zones = (["UTC", "false"], ["America/New_York", "false"])

    assert 2 == len({conditional.job("c1", "/queue/x", zone) for zone in zones})
    assert 1 == len({plain.job("c1", "/queue/x", zone) for zone in zones})
    assert plain.job("c1", "/queue/x") == plain.job("c1", "/queue/x", zones[0])

"""What brokers tell of themselves."""

from __future__ import annotations

import pytest

from holdfast.leases.contract import Waiter
from holdfast.shared.brokers import BrokerLines
from trials.simulation.local_share import LocalShare, claimant


@pytest.fixture
def share() -> LocalShare:
    share = LocalShare()
    share.log()
    return share


def line(name: str, beat: int = 1) -> Waiter:
    return Waiter(claimant=claimant(name), known_level=3, beat=beat, applied_index=7)


def test_each_broker_has_a_line_and_the_last_one_counts(share: LocalShare) -> None:
    """By name, whatever the name is."""
    lines = BrokerLines(share.disk, share.places)
    told = [line("b/1"), line("a"), line("a", 2)]
    for it in told:
        lines.tell(it)

    assert lines.told() == [told[2], told[0]]
    lines.forget("a")
    lines.forget("a")
    assert lines.told() == [told[0]]


def test_a_line_that_is_torn_is_not_there_for_now(share: LocalShare) -> None:
    """Nothing is guessed of it, and the others are read."""
    lines = BrokerLines(share.disk, share.places)
    lines.tell(line("a"))
    lines.tell(line("b"))
    share.disk.flip_bit(share.places.broker("a"), 400)

    assert [it.claimant.name for it in lines.told()] == ["b"]


def test_a_line_that_goes_while_it_is_read_is_passed_over(
    share: LocalShare, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listing may be older than the files."""
    lines = BrokerLines(share.disk, share.places)
    lines.tell(line("a"))
    monkeypatch.setattr(share.disk, "list_directory", lambda _path: ["a", "gone"])

    assert [it.claimant.name for it in lines.told()] == ["a"]

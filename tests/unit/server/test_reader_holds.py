"""Holds end with their readers, and give way where the disk is almost full."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from holdfast.model.records import HoldLoss, HoldRecord
from holdfast.server.settings import ServerSettings

HOUR = 3600


@pytest.fixture
def node(new_node, send):
    """A leader with ten messages in the log, five segments; its holds live for an hour."""
    made = new_node(
        settings=ServerSettings(
            hold_look_seconds=0.0,
            clean_segment_count_min=1,
            hold_expiry_seconds=HOUR,
            reader_hold_bytes_max=1_200,
        )
    )
    made.serve()
    connection = made.connect()
    for number in range(10):
        connection.data_received(send(b"%d" % number * 100))
        made.settle()
    return made


def hold(node, name: str = "archive", index: int = 3, **fields) -> None:
    """Set or renew a hold, as a reader does."""
    node.broker.receipts.add_records([HoldRecord(name, index, 1 << 20, **fields)])
    node.settle()


def look(node) -> None:
    """Let time stand in the log, and the leader look at the holds."""
    node.broker.receipts.add_records([HoldRecord("clock", 0, 0)])
    node.settle()
    node.conductor.cleaner.reader_holds.step(node.clock.now)
    node.settle()


def let_pass(node, seconds: float) -> None:
    """Let time pass; the leader looks now and then."""
    for _ in range(4):
        node.clock.now += seconds / 4
        look(node)


def test_a_hold_ends_without_its_reader(node) -> None:
    """Else an orphan would keep the log until the disk is full; it is told."""
    hold(node)
    let_pass(node, HOUR - 60)
    assert "archive" in node.broker.state.holds
    with capture_logs() as told:
        let_pass(node, 120)
    assert "archive" not in node.broker.state.holds
    assert ["archive"] == [line["hold"] for line in told if "hold" in line]


def test_a_reader_that_is_heard_of_keeps_its_hold(node) -> None:
    """Each move or renewal counts, and each hold has the age that its reader asked for."""
    hold(node)
    hold(node, "query", expiry_seconds=60)
    hold(node, "learner:far")
    let_pass(node, HOUR - 60)
    hold(node)
    let_pass(node, HOUR - 60)
    assert {"archive", "learner:far"} == set(node.broker.state.holds)


def test_a_new_leader_goes_on_counting_but_watches_first(node) -> None:
    """No reader can be heard while nobody leads; and the clock of the next leader may be ahead."""
    hold(node)
    node.conductor.cleaner.stop()
    node.clock.now += 30 * HOUR
    look(node)
    assert "archive" in node.broker.state.holds
    let_pass(node, HOUR / 2 + 60)
    assert "archive" not in node.broker.state.holds


@pytest.mark.parametrize("ahead_seconds", [-600, 600])
def test_a_reader_that_renews_keeps_its_hold_whatever_clock_the_next_leader_has(
    node, ahead_seconds: int
) -> None:
    """Ahead, the hold seems to be over as it begins to lead; behind, log time stands still."""
    for _ in range(3):
        node.conductor.cleaner.stop()
        renewed_at = node.broker.state.timestamp - ahead_seconds * 1_000_000
        hold(node, "read", expiry_seconds=300, renewed_at=renewed_at)
        for _ in range(4):
            node.clock.now += 300 / 4 - 1
            node.conductor.cleaner.reader_holds.step(node.clock.now)
            node.settle()
            assert "read" in node.broker.state.holds
            hold(node, "read", expiry_seconds=300)


def test_a_hold_ends_though_log_time_stands_still(node) -> None:
    """A leader whose clock was ahead by years leaves a log that goes on in microseconds."""
    hold(node)
    hold(node, "query", renewed_at=node.broker.state.timestamp + 10**15)
    for _ in range(5):
        node.conductor.cleaner.reader_holds.step(node.clock.now)
        node.settle()
        assert "query" in node.broker.state.holds
        node.clock.now += HOUR / 4.5
    node.conductor.cleaner.reader_holds.step(node.clock.now)
    node.settle()
    assert not node.broker.state.holds


def test_a_hold_that_is_being_renewed_does_not_end(node) -> None:
    """Its renewal is on the way to the log: the end would come behind it."""
    hold(node)
    node.clock.now += HOUR / 2
    look(node)
    node.clock.now += HOUR
    node.broker.receipts.add_records([HoldRecord("clock", 0, 0)])
    node.settle()
    node.broker.receipts.add_records([HoldRecord("archive", 3, 1 << 20)])
    node.conductor.cleaner.reader_holds.step(node.clock.now)
    node.settle()
    assert "archive" in node.broker.state.holds


def test_a_hold_of_an_earlier_version_ages_too(node) -> None:
    """It does not say when it was set, so it counts from when the log says it was."""
    hold(node)
    kept = node.broker.state.holds["archive"]
    assert kept.renewed_at == node.broker.state.timestamp
    assert not kept.expiry_seconds


def test_nothing_is_kept_beyond_what_the_node_allows(node) -> None:
    """Also for who was promised more before."""
    hold(node)
    assert not node.conductor.cleaner._is_held(4, is_full=False)
    node.settle()
    lost = node.broker.state.holds["archive"]
    assert (5, 4, HoldLoss.BOUND) == (lost.index, lost.lost_through, lost.loss)


def test_a_disk_that_is_almost_full_wins_over_a_reader(node) -> None:
    """Publishing goes before reading; what the reader lost is known to every later leader."""
    hold(node, index=9, expiry_seconds=77)
    assert node.conductor.cleaner._is_held(10, is_full=False)
    renewed_at = node.broker.state.holds["archive"].renewed_at
    assert not node.conductor.cleaner._is_held(10, is_full=True)
    node.settle()
    lost = node.broker.state.holds["archive"]
    assert (11, 10, HoldLoss.SPACE) == (lost.index, lost.lost_through, lost.loss)
    assert (77, renewed_at) == (lost.expiry_seconds, lost.renewed_at)

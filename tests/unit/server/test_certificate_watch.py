"""
Certificates that run out while a node runs.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import structlog.testing

from holdfast.server.certificate_watch import (
    LOOK_SECONDS,
    CertificateWatch,
    certificate_statuses,
)
from holdfast.transport.tls import Ending

BEGINS = datetime(2026, 1, 1, tzinfo=UTC)
YEAR = timedelta(days=365)
HOUR = timedelta(hours=1)


def microseconds(at: datetime) -> int:
    return int(at.timestamp()) * 1_000_000


def shown(*wholes: timedelta, kind: str = "certificate") -> Any:
    """What is shown by TLS, of so many that can be used for so long."""
    endings = tuple(
        Ending(kind, f"n{it}", BEGINS, BEGINS + whole) for it, whole in enumerate(wholes)
    )
    return SimpleNamespace(options=SimpleNamespace(name="peers"), endings=endings)


class Running:
    """A node that runs, and what it has told."""

    def __init__(self, *each: Any, at: datetime = BEGINS) -> None:
        self.wall, self.now = at, 100.0
        self.watch = CertificateWatch(each, lambda: microseconds(self.wall))

    def at(self, wall: datetime) -> list[str]:
        """Give the levels of what is told when it is so late."""
        self.wall, self.now = wall, self.now + LOOK_SECONDS
        with structlog.testing.capture_logs() as lines:
            self.watch.step(self.now)
        self.lines = lines
        return [line["log_level"] for line in lines]


def test_it_is_told_well_before_and_when_it_has_happened() -> None:
    """30, 7 and 1 days before and at the end, each once, with what to do."""
    node = Running(shown(YEAR))
    ends = BEGINS + YEAR
    assert node.at(BEGINS) == []
    for days in (30, 7, 1):
        assert node.at(ends - timedelta(days=days) - HOUR) == []
        assert node.at(ends - timedelta(days=days)) == ["warning"]
        assert node.at(ends - timedelta(days=days) + HOUR) == []
    assert node.at(ends) == ["error"]
    (line,) = node.lines
    assert "tls.peers.certificate (n0) ran out at 2027-01-01T00:00:00Z" in line["notice"]
    assert "holdfast reload" in line["remedy"]
    assert node.at(ends + YEAR) == []


def test_a_node_that_slept_through_all_of_it_tells_once() -> None:
    """A machine that was suspended needs no three warnings that are over."""
    node = Running(shown(YEAR))
    node.at(BEGINS)
    assert node.at(BEGINS + 2 * YEAR) == ["error"]


@pytest.mark.parametrize(("whole", "step"), [(timedelta(days=90), 18), (timedelta(days=5), 1)])
def test_what_lives_shortly_is_told_in_its_last_fifth(whole: timedelta, step: int) -> None:
    """Whoever renews each day is not warned all day long."""
    node = Running(shown(whole))
    node.at(BEGINS)
    assert node.at(BEGINS + whole - timedelta(days=step) - HOUR) == []
    assert node.at(BEGINS + whole - timedelta(days=step)) == ["warning"]


def test_what_was_read_anew_is_told_from_there_on() -> None:
    """Whoever reads it says where it stands; what is gone is not told of any more."""
    table = shown(YEAR)
    node = Running(table)
    node.at(BEGINS)
    table.endings = shown(timedelta(days=20), YEAR).endings
    assert node.at(BEGINS + timedelta(days=19, hours=1)) == []
    assert node.at(BEGINS + timedelta(days=20)) == ["error"]
    table.endings = ()
    assert node.at(BEGINS + YEAR) == []


def test_it_is_looked_at_now_and_then() -> None:
    """Not in each of a hundred turns a second; a node without TLS looks at nothing."""
    node = Running(shown(YEAR))
    node.at(BEGINS)
    node.wall = BEGINS + YEAR
    with structlog.testing.capture_logs() as lines:
        node.watch.step(node.now + LOOK_SECONDS / 2)
        assert lines == []
        node.watch.step(node.now + LOOK_SECONDS)
        assert len(lines) == 1
    CertificateWatch((), lambda: pytest.fail("nobody asks")).step(0.0)


def test_a_status_has_the_first_to_end_first() -> None:
    """Of all tables, with how long is left and what that means."""
    tables = [shown(YEAR, timedelta(days=20), kind="client_ca"), shown(timedelta(days=40))]
    at = microseconds(BEGINS + timedelta(days=38))
    found = certificate_statuses(tables, at)
    assert [(it.kind, it.named, it.state) for it in found] == [
        ("client_ca", "n1", "over"),
        ("certificate", "n0", "urgent"),
        ("client_ca", "n0", "good"),
    ]
    assert found[1].left_seconds == 2 * 86_400
    assert found[1].ends == "2026-02-10T00:00:00Z"

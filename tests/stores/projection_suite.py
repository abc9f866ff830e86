"""
What a database shows to people beside the log, on each kind of database.

A subclass is a suite of the contract too, and says how its database is asked past the log.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import astuple
from typing import Any

from holdfast.leases.contract import LeasedLog, Outcome, Waiter
from holdfast.leases.projection import Changes, Projection, QueueRow
from tests.stores.leased_log_suite import SECONDS, Writer, claimant


def row(number: int, depth: int, as_of_index: int = 1) -> QueueRow:
    """A queue, whose name has what a quoted string in SQL must bear."""
    return QueueRow(
        number=number,
        name=f"orders.'{number}' %(x)s :y ü",
        depth=depth,
        bytes=depth << 33,
        enqueued=depth + 1,
        dequeued=1,
        oldest_at=1_790_000_000_000,
        as_of_index=as_of_index,
    )


def project(log: LeasedLog, *rows: QueueRow, gone: tuple[int, ...] = (), stale: int = 0) -> Outcome:
    """Have a medium show this."""
    assert isinstance(log, Projection)
    return log.project(Changes(queues=rows, gone=gone, stale_before=stale), SECONDS)


class ProjectionSuite(ABC):
    """The tables for people."""

    @abstractmethod
    def writer(self, name: str = "a") -> Writer:
        """A process that holds nothing yet."""

    @abstractmethod
    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """What the database itself gives."""

    @abstractmethod
    def change(self, statement: str) -> None:
        """Do this in the database, past the log."""

    def shown(self) -> list[tuple[Any, ...]]:
        """All rows of the queues' table."""
        columns = ", ".join(QueueRow.__dataclass_fields__)
        return self.query(f"SELECT {columns} FROM holdfast_queues ORDER BY number")

    def test_queues_are_shown_as_they_were_told_last(self) -> None:
        """Each in one row, which is written over; those that are gone are not there."""
        writer = self.writer()
        writer.take()
        many = [row(it, it) for it in range(1, 201)]
        assert project(writer.log, *many) is Outcome.STORED
        assert self.shown() == [astuple(it) for it in many]
        assert project(writer.log, row(2, 9, 5), gone=(3,)) is Outcome.STORED
        assert project(writer.log, row(1, 8, 7), stale=5) is Outcome.STORED

        assert self.shown() == [astuple(row(1, 8, 7)), astuple(row(2, 9, 5))]
        assert writer.append(b"x")

    def test_a_zombie_shows_nothing_once_a_later_epoch_began(self) -> None:
        """What a deposed holder still had to tell does not write over what its successor shows."""
        zombie, holder = self.writer("a"), self.writer("b")
        zombie.take()
        assert project(zombie.log, row(1, 1)) is Outcome.STORED
        holder.take()
        assert project(holder.log, row(1, 2)) is Outcome.STORED

        assert project(zombie.log, row(1, 3), row(2, 3), stale=9) is Outcome.DEPOSED
        assert self.shown() == [astuple(row(1, 2))]
        assert holder.append(b"x")

    def test_a_database_of_before_gets_the_tables_from_its_holder(self) -> None:
        """One that was laid out without them; and without them the log is whole."""
        before = self.writer()
        before.take()
        assert project(before.log, row(1, 1)) is Outcome.STORED
        before.append(b"one")
        before.log.close()
        self.change("DROP TABLE holdfast_queues")
        writer = self.writer()
        writer.take()
        writer.append(b"two")
        waiter = Waiter(claimant=claimant("a"), known_level=1, beat=1, applied_index=0)
        writer.log.tell(waiter, SECONDS)

        assert self.shown() == []
        assert writer.log.facts().warnings == ()
        assert project(writer.log, row(1, 1)) is Outcome.STORED
        assert self.query("SELECT BROKER_NAME FROM ACTIVEMQ_LOCK") == [("a",)]

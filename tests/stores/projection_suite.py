"""
What a database shows to people beside the log, on each kind of database.

A subclass is a suite of the contract too, and says how its database is asked past the log.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import astuple
from typing import Any

import pytest

from holdfast.errors import StoreError
from holdfast.leases.contract import LeasedLog, Outcome, Waiter
from holdfast.leases.projection import (
    KEYS_MAX,
    Changes,
    MessageKey,
    MessageRow,
    Projection,
    QueueRow,
    Span,
    SubscriptionRow,
)
from holdfast.model.limits import KiB
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


def message(number: int, sequence: int, body: bytes | None = None) -> MessageRow:
    """A message, whose texts have what a quoted string in SQL must bear."""
    return MessageRow(
        queue_number=number,
        sequence=sequence,
        idx=7,
        container=f"queue://orders.'{number}' %(x)s :y ü",
        message_id=f"ID:c0ffee-{number}-{sequence}",
        stored_at=1_790_000_000_000,
        expires_at=0,
        priority=4,
        size=1 << 33,
        headers='{"a \\"b\\" \'c": "%(x)s :y 日本 😀"}',
        body=body,
        as_of_index=9,
    )


def subscription(number: int, last_acked: int, as_of_index: int = 1) -> SubscriptionRow:
    """A durable subscription with a selector."""
    return SubscriptionRow(
        number=number,
        container="topic://news",
        client_id="client",
        name=f"s'{number}",
        selector="a LIKE '%b' AND :c",
        depth=3,
        last_acked=last_acked,
        as_of_index=as_of_index,
    )


def change(log: LeasedLog, changes: Changes) -> Outcome:
    """Have a medium show this."""
    assert isinstance(log, Projection)
    return log.project(changes, SECONDS)


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

    def messages(self) -> list[tuple[Any, ...]]:
        """All rows of the messages' table."""
        columns = ", ".join(MessageRow.__dataclass_fields__)
        return self.query(f"SELECT {columns} FROM holdfast_messages ORDER BY 1, 2")

    def test_messages_are_shown_and_go(self) -> None:
        """As many as are told, in one call; also those that stand there already."""
        writer = self.writer()
        writer.take()
        many = [message(1, it) for it in range(1, 257)]
        body = b"\0\xff'\\%s :x" + bytes(200 * KiB)
        far = message(2, (1 << 50) + 5, body)
        assert change(writer.log, Changes(messages=tuple(many))) is Outcome.STORED
        assert change(writer.log, Changes(messages=(*many[:3], far))) is Outcome.STORED
        assert self.messages() == [astuple(it) for it in (*many, far)]
        spans = (*(Span(1, it, it) for it in range(1, 200, 2)), Span(2, 1, 1 << 50))
        assert change(writer.log, Changes(settled=spans)) is Outcome.STORED
        left = [it for it in many if it.sequence > 200 or it.sequence % 2 == 0]
        assert self.messages() == [astuple(it) for it in (*left, far)]
        assert change(writer.log, Changes(settled=(Span(2, 1, 1 << 60),))) is Outcome.STORED

        assert self.messages() == [astuple(it) for it in left]
        assert writer.append(b"x")

    def test_whoever_takes_the_lease_is_told_which_messages_have_rows(self) -> None:
        """In order, over all queues, and so many at once."""
        writer = self.writer()
        writer.take()
        for number in (1, 3):
            for first in range(0, KEYS_MAX, 256):
                rows = tuple(message(number, first + it) for it in range(1, 257))
                assert change(writer.log, Changes(messages=rows)) is Outcome.STORED
        log = self.writer("b").log
        assert isinstance(log, Projection)
        found = log.shown_keys(MessageKey(1, 10), SECONDS)
        last = [*(MessageKey(1, it) for it in range(11, KEYS_MAX + 1))]
        assert found == [*last, *(MessageKey(3, it) for it in range(1, 11))]
        assert log.shown_keys(MessageKey(3, KEYS_MAX - 1), SECONDS) == [MessageKey(3, KEYS_MAX)]
        assert log.shown_keys(MessageKey(3, KEYS_MAX), SECONDS) == []
        assert len(log.shown_keys(MessageKey(-1, 0), SECONDS)) == KEYS_MAX

    def test_who_knows_activemqs_tables_finds_them(self) -> None:
        """As views, with its names of columns."""
        writer = self.writer()
        writer.take()
        changes = Changes(messages=(message(1, 5, b"hello"),), subscriptions=(subscription(4, 3),))
        assert change(writer.log, changes) is Outcome.STORED
        columns = "ID, CONTAINER, MSGID_PROD, MSGID_SEQ, EXPIRATION, MSG, PRIORITY"
        (found,) = self.query(f"SELECT {columns} FROM ACTIVEMQ_MSGS")
        container = message(1, 5).container
        assert found == (5, container, "ID:c0ffee-1-5", 5, 0, b"hello", 4)
        columns = "CONTAINER, SUB_DEST, CLIENT_ID, SUB_NAME, SELECTOR, LAST_ACKED_ID, PRIORITY"
        (found,) = self.query(f"SELECT {columns} FROM ACTIVEMQ_ACKS")
        assert found == (
            "topic://news",
            "topic://news",
            "client",
            "s'4",
            "a LIKE '%b' AND :c",
            3,
            5,
        )

    def test_subscriptions_are_shown_as_they_were_told_last(self) -> None:
        """Those that ended go, and those that nobody told of since a certain entry."""
        writer = self.writer()
        writer.take()
        rows = tuple(subscription(it, it, it) for it in range(1, 6))
        assert change(writer.log, Changes(subscriptions=rows)) is Outcome.STORED
        again = (subscription(1, 8, 9),)
        changes = Changes(subscriptions=again, ended=(5,), subscriptions_stale_before=3)
        assert change(writer.log, changes) is Outcome.STORED

        found = self.query("SELECT number, last_acked FROM holdfast_subscriptions ORDER BY 1")
        assert found == [(1, 8), (3, 3), (4, 4)]

    def test_tables_of_messages_that_were_dropped_are_made_again(self) -> None:
        """When something is told the next time but one; the log does not need them."""
        writer = self.writer()
        writer.take()
        changes = Changes(messages=(message(1, 1),))
        assert change(writer.log, changes) is Outcome.STORED
        for view in ("ACTIVEMQ_MSGS", "ACTIVEMQ_ACKS"):
            self.change(f"DROP VIEW {view}")
        self.change("DROP TABLE holdfast_messages")
        with pytest.raises(StoreError, match="holdfast_messages"):
            change(writer.log, changes)
        assert writer.append(b"x")
        assert change(writer.log, changes) is Outcome.STORED
        assert self.query("SELECT ID FROM ACTIVEMQ_MSGS") == [(1,)]

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
        assert [it for it in writer.log.facts().warnings if "does not last" not in it] == []
        assert project(writer.log, row(1, 1)) is Outcome.STORED
        assert self.query("SELECT BROKER_NAME FROM ACTIVEMQ_LOCK") == [("a",)]

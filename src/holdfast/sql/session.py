"""
One connection to one database, as a log uses it: what differs from dialect to dialect.

Everything is bounded: `bound` says how long what follows may take, and a call that takes longer
fails with one of `errors`, after which the connection is of no use. Nothing is ever cancelled in
the database: it would not say what became of it.

Owned by the thread that calls it, one call at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from sqlalchemy import text as sql_text
from sqlalchemy.engine import Dialect

from holdfast.sql import statements
from holdfast.sql.faults import Fault
from holdfast.sql.parts import Part

if TYPE_CHECKING:
    from holdfast.environment.remote_server import Host
    from holdfast.sql.url import StoreUrl

Values = Mapping[str, Any]


HASTE_SECONDS: Final = 0.05
"""The moment for which `Session.hasty` waits for locks."""


class UncertainError(Exception):
    """The database did what it was told and says itself that this may not last."""


class Standing(NamedTuple):
    """Which server a connection leads to, and what it is among its replicas."""

    server: str
    """24 hexadecimal digits: of a physical standby the same as of its primary."""

    timeline: int | None
    """How often one of its standbys was promoted; None: it does not count."""

    instance: str
    """What only a connection to the very same process of it says as well."""

    is_writable: bool

    names: tuple[tuple[str, str], ...] = ()
    """By what `server` is told apart, where an operator may have changed that."""


class Surroundings(NamedTuple):
    """Where a database is, as far as that is seen without opening it."""

    unsafe: tuple[str, ...] = ()
    """For what nothing may be opened there."""

    told: tuple[str, ...] = ()
    """What an operator is to know, though it is used."""


class Session(ABC):
    """A connection that was made; autocommit but inside `transaction`."""

    dialect: ClassVar[Dialect]
    """For how values stand in a statement, and for the types of the tables."""

    errors: ClassVar[tuple[type[Exception], ...]]
    """What its driver raises."""

    view_creation: ClassVar[str] = "CREATE OR REPLACE VIEW"
    on_conflict: ClassVar[str] = "ON CONFLICT ({}) DO UPDATE SET"
    overwriting: ClassVar[str] = "{0} = excluded.{0}"
    kind: str
    """What it is, with its version, for people."""

    warning: str = ""
    """What its operator is to do about it, though it goes on."""

    lease_seconds: float = 5.0
    cluster: str | None = None
    """
    The cluster of Galera that it is a node of, 32 hexadecimal digits; empty: of none; None: this
    kind of database has no such clusters.
    """
    _texts: ClassVar[dict[str, str]]

    @classmethod
    @abstractmethod
    def connect(cls, url: StoreUrl, host: Host | None, seconds: float) -> Session:
        """
        Connect to this host, or open the file, and set up what the log needs.

        Raises:
            Exception: One of `errors`: it does not answer in time, or refuses.
        """

    is_in_file: ClassVar[bool] = False
    """Whether what is at its address is a file, which another one may be in the place of."""

    file: Hashable | None = None
    """Which file it was opened on, where it is one."""

    @classmethod
    def file_of(cls, url: StoreUrl) -> Hashable | None:
        """
        Tell which file is at this address now, without opening it; None: none is.

        Raises:
            OSError: It cannot be seen.
        """
        del url
        return None

    @classmethod
    def look_around(cls, url: StoreUrl) -> Surroundings:
        """
        Look at where it is before anything is opened there: to open a file may change it.

        Raises:
            OSError: It cannot be seen.
        """
        del url
        return Surroundings()

    def require_there(self) -> None:  # noqa: B027 - a server keeps its promise by itself
        """
        See that what was just read or written is what its address leads to.

        Raises:
            UnreachableError: It is not, for now: nobody else may ever read it there.
            StoreError: What was written is lost.
        """

    def __init_subclass__(cls) -> None:
        cls._texts = {}

    def text(self, statement: str) -> str:
        """Give a statement as the driver wants it."""
        known = self._texts.get(statement)
        if known is None:
            known = str(sql_text(statement).compile(dialect=self.dialect))
            self._texts[statement] = known
        return known

    @staticmethod
    def said(error: Exception) -> str:
        """Give what the database says of an error, for a sentence."""
        return str(error)

    @abstractmethod
    def bound(self, seconds: float) -> None:
        """Let nothing that follows take longer than this, all of it together."""

    @abstractmethod
    def write(self, statement: str, values: Values | None = None) -> int:
        """Do what changes something; give how many rows it found to change."""

    @abstractmethod
    def rows(self, statement: str, values: Values | None = None) -> list[tuple[Any, ...]]:
        """Read rows as they are now."""

    @abstractmethod
    def append(self, fence: Values, parts: Sequence[Part]) -> bool:
        """
        Advance the lease row and insert these rows, all or nothing; whether it was done.

        Args:
            fence: What `statements.ADVANCE` names.
        """

    @abstractmethod
    def unsafe_settings(self) -> list[str]:
        """Name each setting with which a confirmed entry could be lost, and what it must be."""

    @staticmethod
    @abstractmethod
    def fault(error: Exception) -> Fault:
        """Tell what an error of the driver means."""

    @abstractmethod
    def lay_out(self, creations: Sequence[str]) -> None:
        """Make what is not there yet; of several at once all succeed, or fail as BUSY."""

    def after_creation(self) -> list[str]:
        """Give what is set on tables that were just made."""
        return []

    def standing(self) -> Standing | None:
        """Tell which server this is; None: there is one only, as a file."""
        return None

    @staticmethod
    def changed(written: str, here: Standing, known: Standing | None) -> str:
        """
        Name what makes this another server than one that was written down, from what to what.

        Args:
            known: What is known of the one that was used last; it may be another one still.
        """
        del written, here, known
        return ""

    def check(self) -> None:  # noqa: B027 - most can tell nothing
        """Look for damage of the database's own, where it can tell; raises its error."""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing of what is written inside; an error inside ends the connection's use."""
        self.write("BEGIN")
        yield
        self.write("COMMIT")

    @contextmanager
    def hasty(self) -> Iterator[None]:
        """
        A transaction that waits for the locks of others for a moment only, and need not last.

        What it waited for in vain comes out as an error that is BUSY, what is refused as one that
        is UNKNOWN; then nothing was done, and the connection is of use.
        """
        with self.transaction():
            yield

    def shown(self, text: str) -> str:
        """Give a text as the tables for people can have it: signs that they have not are '?'."""
        return text

    def low_room(self) -> str:
        """Why nothing more is to be published, as far as it can be seen from here; or nothing."""
        return ""

    def give_up(self) -> None:  # noqa: B027 - where an error leaves nothing open
        """Let go of what an error inside a transaction left open."""

    def write_over(
        self, table: str, key: Sequence[str], columns: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        """Insert these rows; where there is one of the same key, it becomes as the new one."""
        values: dict[str, Any] = {}
        places = []
        for number, row in enumerate(rows):
            names = [f"r{number}_{column}" for column in columns]
            values |= zip(names, row, strict=True)
            places.append(f"(:{', :'.join(names)})")
        changes = [self.overwriting.format(column) for column in columns if column not in key]
        insert = f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join(places)}"  # noqa: S608 - of our own words
        on_conflict = self.on_conflict.format(", ".join(key))
        self.write(f"{insert} {on_conflict} {', '.join(changes)}", values)

    def clean(self, values: Values) -> bool:
        """Drop entries before `first`, if the lease is ours still; whether it was."""
        with self.transaction():
            is_held = self.write(statements.CLEAN, values) == 1
            if is_held:
                self.write(statements.DELETE, values)
        return is_held

    @abstractmethod
    def close(self) -> None:
        """Let it go; never raises."""

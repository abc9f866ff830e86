"""
A log in a database or a shared directory, read beside whoever serves it.

No lease is taken and nothing is written, so a broker that serves it meanwhile does not notice.
Addresses are the words that `places` knows, and several databases of one log. What is read may be
dropped by the cleaner at any time: only a copy holds a log still.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from holdfast.copying.places import SHARED, parse_place
from holdfast.errors import ConfigError
from holdfast.journal.entry import Entry
from holdfast.leases.contract import Holding, MediumFacts
from holdfast.leases.copies import SourceLog
from holdfast.shared.settings import SharedSettings
from holdfast.shared.shared_log import SharedLog
from holdfast.sql.opening import Purpose, make_sql_log, standing_password

if TYPE_CHECKING:
    from holdfast.raidb.looking import LookedDatabase

_OWN: Final = Path("/holdfast")
"""Only proposed where a file's path is not whole."""


class LookedLog(Protocol):
    """What is read of a log; a part of what `LeasedLog` promises."""

    def open_existing(self) -> Holding:
        """
        Look at the log that is there.

        Raises:
            StoreError: There is none, or one that cannot be read.
            UnreachableError: It cannot be reached now.
        """
        ...

    def identity(self) -> str:
        """Give the log's own id."""
        ...

    def facts(self) -> MediumFacts:
        """Tell what this is, without any password."""
        ...

    def observe(self, seconds_max: float) -> Holding:
        """Read the lease as it is now."""
        ...

    def entries(self, after: int, through: int, bytes_max: int, seconds_max: float) -> list[Entry]:
        """As `LeasedLog.entries`."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


def whole_address(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """
    Give an address that means the same in any process: with its whole path, and its password.

    Raises:
        ConfigError: It is no address of a store; no sentence repeats what may be a password.
    """
    place = parse_place(text)
    if place.databases:
        raise ConfigError(["store: name each of several databases by itself"])
    if place.open_medium is None:
        told = (
            f"store: {text} is a directory of a node's own, which is read by its path; a store is"
            f" {SHARED}DIR or a database's address"
        )
        raise ConfigError([told])
    if text.startswith(SHARED):
        return f"{SHARED}{Path(text.removeprefix(SHARED)).absolute()}"
    return standing_password(text, _OWN, environment)


def open_looked(addresses: Sequence[str], *, may_be_one_of_several: bool = False) -> LookedLog:
    """
    Give the log at an address, or in several databases; nothing is reached before `open_existing`.

    Args:
        may_be_one_of_several: Read one database of several alone, as it is.

    Raises:
        ConfigError: An address cannot be used, or the packages of its kind are not installed.
    """
    if len(addresses) > 1:
        if shared := [it for it in addresses if it.startswith(SHARED)]:
            raise ConfigError(
                [f"store: {shared[0]} is no database: only databases hold one log together"]
            )
        return _several(addresses, Purpose.LOOK)
    (address,) = addresses
    if address.startswith(SHARED):
        root = Path(address.removeprefix(SHARED))
        # Nothing is written, so nothing of what is not safe to write matters.
        return SharedLog(root, SharedSettings(allow_unsafe_share=True))
    database = _database(address)
    database.is_alone = not may_be_one_of_several
    return database


def open_several(addresses: Sequence[str], *, allow_unsafe: bool) -> SourceLog:
    """
    Give the log in several databases, as the source of a copy; nothing is reached yet.

    Whoever takes its lease makes them alike, as a broker does: then each that counts has all.

    `allow_unsafe`: open also those in surroundings that are unsafe.

    Raises:
        ConfigError: An address cannot be used, or the packages of its kind are not installed.
    """
    return _several(addresses, Purpose.VISIT, allow_unsafe_place=allow_unsafe)


def _several(
    addresses: Sequence[str], purpose: Purpose, *, allow_unsafe_place: bool = True
) -> SourceLog:
    members = [_database(it, purpose, allow_unsafe_place=allow_unsafe_place) for it in addresses]
    from holdfast.raidb.looking import LookedDatabases

    return LookedDatabases(members)


def member_at(address: str) -> str:
    """
    Give the id that this one database has among all; empty for what is no database.

    Raises:
        StoreError: It cannot be reached, or there is no log.
    """
    if address.startswith(SHARED):
        return ""
    database = _database(address)
    try:
        from holdfast.raidb.looking import LOOK_SECONDS

        return database.read(LOOK_SECONDS).member
    finally:
        database.close()


def _database(
    address: str, purpose: Purpose = Purpose.LOOK, *, allow_unsafe_place: bool = True
) -> LookedDatabase:
    return make_sql_log(
        address,
        _database_type,
        # What it would lose by its settings is for who writes it.
        allow_unsafe_database=True,
        allow_unsafe_place=allow_unsafe_place,
        own_directory=_OWN,
        purpose=purpose,
    )


def _database_type() -> type[LookedDatabase]:
    from holdfast.raidb.looking import LookedDatabase

    return LookedDatabase

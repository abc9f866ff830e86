"""
Which dialect keeps a log, by its URL: the one door of the package.

Nothing of a database's driver is imported before a URL asks for it, so that a broker without the
extra packages can say which ones it wants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from holdfast.errors import ConfigError

if TYPE_CHECKING:
    from holdfast.sql.copied_log import CopiedSqlLog
    from holdfast.sql.log import SqlLog
    from holdfast.sql.session import Session
    from holdfast.sql.url import StoreUrl

Log = TypeVar("Log", bound="SqlLog")

MISSING = "store: {} is not installed, which a database needs: pip install 'holdfast[sql]'"


class Purpose(Enum):
    """What a log is opened for."""

    SERVE = auto()
    """A broker's: it waits for the lease, or holds it."""

    VISIT = auto()
    """A command's that writes: room that is set aside for brokers is none of its."""

    LOOK = auto()
    """To read only: nothing is changed, also nothing beside a file."""


def open_sql_log(
    url_text: str,
    *,
    allow_unsafe_database: bool = False,
    own_directory: Path,
    purpose: Purpose = Purpose.SERVE,
) -> CopiedSqlLog:
    """
    Give the log at this URL; nothing is reached before its own `open`.

    Args:
        allow_unsafe_database: Use a database with settings that may lose what was confirmed; its
            facts tell so.
        own_directory: The broker's own `--data`.

    Raises:
        ConfigError: The URL cannot be used, or the packages of its kind are not installed.
    """
    return make_sql_log(
        url_text,
        _log_type,
        allow_unsafe_database=allow_unsafe_database,
        own_directory=own_directory,
        purpose=purpose,
    )


def make_sql_log(
    url_text: str,
    import_type: Callable[[], type[Log]],
    *,
    allow_unsafe_database: bool,
    allow_unsafe_place: bool | None = None,
    own_directory: Path,
    purpose: Purpose = Purpose.SERVE,
) -> Log:
    """
    The same, as a log of a type that is imported now.

    `allow_unsafe_place`: whether its surroundings may be unsafe; None: as its settings.

    Raises:
        ConfigError: The URL cannot be used, or the packages of its kind are not installed.
    """
    with _named_if_missing():
        from holdfast.sql.url import parse_store_url

        url = parse_store_url(url_text, own_directory=own_directory)
        session_type = _session_type(url, purpose)
        if allow_unsafe_place is None:
            allow_unsafe_place = allow_unsafe_database
        return import_type()(
            url,
            session_type,
            session_type.connect,
            allow_unsafe_database=allow_unsafe_database,
            allow_unsafe_place=allow_unsafe_place,
        )


def standing_password(url_text: str, own_directory: Path, environment: Mapping[str, str]) -> str:
    """
    Give a URL that means the same where neither the environment nor the password's file is.

    Raises:
        ConfigError: The URL cannot be used, or the packages of its kind are not installed.
    """
    with _named_if_missing():
        from holdfast.sql.url import standing

        return standing(url_text, own_directory=own_directory, environment=environment)


@contextmanager
def _named_if_missing() -> Iterator[None]:
    """Say which package a database needs, where it is not there."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("holdfast"):
            raise
        raise ConfigError([MISSING.format(error.name)]) from None


def _log_type() -> type[CopiedSqlLog]:
    from holdfast.sql.copied_log import CopiedSqlLog

    return CopiedSqlLog


def _session_type(url: StoreUrl, purpose: Purpose) -> type[Session]:
    """The dialect's, whose driver is imported now."""
    if url.kind == "postgresql":
        from holdfast.sql.postgresql import PostgresqlSession

        return PostgresqlSession
    if url.kind == "mysql":
        from holdfast.sql.mariadb import MariadbSession

        return MariadbSession
    if purpose is Purpose.LOOK:
        from holdfast.sql.sqlite_looking import SqliteLook

        return SqliteLook
    from holdfast.sql.sqlite import SqliteSession, SqliteVisit

    return SqliteSession if purpose is Purpose.SERVE else SqliteVisit

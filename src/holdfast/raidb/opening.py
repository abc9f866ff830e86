"""
Which databases keep a log, by their URLs: the one door of the package.

Nothing of SQL is imported before it is asked for, so that a broker without the extra packages can
say which ones it wants.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.environment.clock import boottime
from holdfast.leases.seen import SeenFile
from holdfast.raidb.databases import Databases
from holdfast.raidb.lanes import ThreadLanes
from holdfast.raidb.raidb_log import RaidbLog
from holdfast.raidb.settings import RaidbSettings
from holdfast.sql.opening import Purpose, make_sql_log

if TYPE_CHECKING:
    from holdfast.raidb.sql_member import SqlMember


def open_raidb_log(
    url_texts: Sequence[str],
    settings: RaidbSettings,
    *,
    allow_unsafe_database: bool = False,
    own_directory: Path,
    seen: SeenFile | None = None,
) -> RaidbLog:
    """
    Give the log in the databases at these URLs; nothing is reached before its own `open`.

    `seen`: what this broker knows of the log that it has served or followed; None: it only looks.

    Raises:
        ConfigError: A URL cannot be used, or the packages of its kind are not installed.
    """
    members = _members(url_texts, own_directory, allow_unsafe_database=allow_unsafe_database)
    log = RaidbLog(members, settings, lanes=ThreadLanes(), clock=boottime)
    twins = _members(url_texts, own_directory, allow_unsafe_database=allow_unsafe_database)
    for twin in twins:
        twin.may_lay_out, twin.is_twin = False, True
    if seen is not None:
        log.databases.follow(seen)
    log.databases.add_twins(twins)
    log.has_thread = True
    return log


def open_databases(
    url_texts: Sequence[str], *, allow_unsafe_place: bool, own_directory: Path
) -> Databases:
    """
    Give the databases alone, to look at them.

    `allow_unsafe_place`: open also those in surroundings that are unsafe.

    Raises:
        ConfigError: As above.
    """
    members = _members(
        url_texts,
        own_directory,
        allow_unsafe_database=True,
        allow_unsafe_place=allow_unsafe_place,
        purpose=Purpose.VISIT,
    )
    for member in members:
        member.may_lay_out = False
    databases = Databases(members, ThreadLanes())
    databases.are_meant = True
    return databases


def _members(
    url_texts: Sequence[str],
    own_directory: Path,
    *,
    allow_unsafe_database: bool,
    allow_unsafe_place: bool | None = None,
    purpose: Purpose = Purpose.SERVE,
) -> list[SqlMember]:
    return [
        make_sql_log(
            it,
            _member_type,
            allow_unsafe_database=allow_unsafe_database,
            allow_unsafe_place=allow_unsafe_place,
            own_directory=own_directory,
            purpose=purpose,
        )
        for it in url_texts
    ]


def _member_type() -> type[SqlMember]:
    from holdfast.raidb.sql_member import SqlMember

    return SqlMember

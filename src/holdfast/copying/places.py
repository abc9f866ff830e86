"""
What an operator's word for a place means: a directory, a shared directory, a database.

    /var/lib/holdfast                      the data directory of a single node
    mirrors:/disk1/data,/disk2/data        the data directories of a node that has several
    shared:/mnt/holdfast                   a directory that brokers share
    sqlite:////var/lib/log.db              a database: the address that 'holdfast serve --store' has
    'postgresql://h/a postgresql://i/b'    several databases that hold one log: only to copy it from
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from holdfast.environment.disk import Disk
from holdfast.errors import ConfigError
from holdfast.leases.cache import is_cache
from holdfast.leases.copies import CopiedLog
from holdfast.shared.settings import SharedSettings
from holdfast.shared.shared_log import SharedLog
from holdfast.sql.opening import Purpose, open_sql_log

SHARED: Final = "shared:"
MIRRORS: Final = "mirrors:"
_DATABASES: Final = ("sqlite", "postgresql", "mysql", "mariadb")

Kind = Literal["directory", "mirrors", "medium", "several"]


@dataclass(frozen=True, slots=True)
class LogPlace:
    """A place where a log is kept, or is to be kept."""

    kind: Kind
    directories: tuple[Path, ...] = ()
    """Of a node: one, or its mirrors."""

    open_medium: Callable[[], CopiedLog] | None = None
    """Gives the medium of brokers, not opened."""

    databases: tuple[str, ...] = ()
    """The addresses of several that hold one log."""

    start: str = ""
    """How a broker is started on the medium, without its name."""


def parse_place(text: str, *, allow_unsafe: bool = False) -> LogPlace:
    """
    Read where a log is.

    Args:
        allow_unsafe: Use a database or a file system that may lose what it says is stored.

    Raises:
        ConfigError: It cannot be used; no sentence repeats what may be a password.
    """
    if text.startswith(SHARED):
        root = _absolute(text.removeprefix(SHARED), SHARED)
        return _medium(lambda: _shared(root, allow_unsafe), f"--shared {root}")
    if text.startswith(MIRRORS):
        each = tuple(_absolute(it, MIRRORS) for it in text.removeprefix(MIRRORS).split(","))
        return LogPlace("mirrors", each)
    several = text.split()
    if len(several) > 1 and all("://" in it for it in several):
        for it in several:
            _database(it, allow_unsafe)
        return LogPlace("several", databases=tuple(several))
    scheme = text.partition(":")[0].partition("+")[0]
    if "://" in text or (":" in text and scheme in _DATABASES):
        made = _database(text, allow_unsafe)
        return _medium(lambda: made, f"--store {made.facts().place}")
    if not text:
        raise ConfigError(["an empty name is no place: name a directory, or a database's address"])
    return LogPlace("directory", (Path(text).absolute(),))


def require_nodes_own(directory: Path, disk: Disk) -> None:
    """
    See that a directory is not one of a broker whose log is kept elsewhere.

    Raises:
        ConfigError: It is; the sentence says which place to name.
    """
    if is_cache(directory, disk):
        told = (
            f"{directory} has only what a broker remembers of a log that is kept elsewhere: name"
            f" that place, as in sqlite:///FILE or {SHARED}DIR"
        )
        raise ConfigError([told])
    require_not_shared(directory, disk)


def require_not_shared(directory: Path, disk: Disk) -> None:
    """
    See that a directory that is named as a node's own is not one that brokers share.

    Raises:
        ConfigError: It is.
    """
    if disk.exists(directory / "store") and disk.exists(directory / "lease"):
        raise ConfigError(
            [f"{directory} is a directory that brokers share: write {SHARED}{directory}"]
        )


def _medium(make: Callable[[], CopiedLog], start: str) -> LogPlace:
    return LogPlace("medium", open_medium=make, start=f"holdfast serve --data OWN {start}")


def _absolute(text: str, kind: str) -> Path:
    if not text.strip():
        raise ConfigError([f"a directory is missing behind {kind}"])
    return Path(text).absolute()


def _shared(root: Path, allow_unsafe: bool) -> CopiedLog:
    return SharedLog(root, SharedSettings(allow_unsafe_share=allow_unsafe))


def _database(text: str, allow_unsafe: bool) -> CopiedLog:
    return open_sql_log(
        text,
        allow_unsafe_database=allow_unsafe,
        own_directory=Path.cwd() / "holdfast",
        purpose=Purpose.VISIT,
    )

"""
An archive as a Delta table: its data files, named once more in `_delta_log/`.

Whatever reads Delta tables reads the archive by that, and needs nothing of ours. No row is copied.
The manifests stay the truth: what the table should name is computed from them, and the difference
to what it names is committed as one version. So it does not matter what was cut off before: the
next time mends it. Where a file's partition value `day` is asked for, the table's log has it.

Invariants:
    A version is computed from manifests that were read after the version before it was. If another
    one came between, nothing is committed and all is read anew. So no version goes back.
    Nothing is known here that would make the archive what it is: `_delta_log` may be removed.
    A file is named when it was read and is what was archived: who queries it could not tell.

Layout below the archive's path:

    _delta_log/<version>.json, .checkpoint.parquet    Delta's, written by the package deltalake
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

import pyarrow as pa

from holdfast.environment.clock import Clock, SystemClock
from holdfast.errors import ArchiveError
from holdfast.spark.archive.file_checks import check_files
from holdfast.spark.archive.manifests import ArchivedFile, Catalogue, Span
from holdfast.spark.archive.places import S3_SCHEMES, Place, s3_arguments
from holdfast.spark.archive.rows import RECORDS
from holdfast.spark.archive.store import Archive
from holdfast.spark.archive.table_change import NamedFile, TableChange, change_of

if TYPE_CHECKING:
    from deltalake import DeltaTable, Schema
    from deltalake.transaction import AddAction, RemoveAction

PACKAGE: Final = "deltalake"
"""What the extra `delta` installs beside those of `spark`."""
TABLE_LOG: Final = "_delta_log"
MISSING: Final = "missingEntries"
"""What a version is told of entries that it lacks."""
PARTITION: Final = "day"
COLUMNS: Final = pa.schema([*RECORDS, pa.field(PARTITION, pa.date32())])
"""What the table has: the columns of the files, and the day that stands in their paths."""

CONFIGURATION: Final = {
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 30 days",
}
"""Versions are of use for as long as the files that they name stay, see `cleaning.py`. And a
vacuum as people run it spares what is younger than 30 days: an archive whose table was not kept up
for that long could lose files that only its manifests name."""

ATTEMPTS_MAX: Final = 10
"""How often all is read anew because somebody else committed."""
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_STORE_OPTIONS: Final = {
    "access_key": "AWS_ACCESS_KEY_ID",
    "secret_key": "AWS_SECRET_ACCESS_KEY",
    "session_token": "AWS_SESSION_TOKEN",
    "region": "AWS_REGION",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """What the table names now, and what was changed for that."""

    version: int
    files: int
    first_index: int
    last_index: int
    """The first and the last entry that it has."""
    missing: tuple[Span, ...] = ()
    """Entries between them that the archive never got, or has lost."""
    added: int = 0
    removed: int = 0
    """Files."""


def is_installed() -> bool:
    """Whether the package is there that writes tables."""
    return importlib.util.find_spec(PACKAGE) is not None


def has_table(archive: Archive) -> bool:
    """Whether the archive has a table; needs no package."""
    # The first version goes when there are checkpoints; then there is this file.
    names = (f"{0:020d}.json", "_last_checkpoint")
    return any(archive.place.has(f"{TABLE_LOG}/{name}") for name in names)


def table_files(archive: Archive) -> frozenset[str]:
    """
    Give the paths that the table's newest version names; none if there is no table.

    Raises:
        ArchiveError: It cannot be read.
    """
    if not has_table(archive):
        return frozenset()
    with _told(archive):
        table = _opened(archive)
        return frozenset(_named(table) if table is not None else ())


def keep_table(archive: Archive, *, clock: Clock | None = None) -> TableState:
    """
    Bring the table to what the manifests name, in one version; make it if there is none.

    Safe to kill at any moment and to run again, also beside another one.

    Raises:
        ArchiveError: The archive is empty or not whole, or the table cannot be written.
        CorruptArchiveError: A file that it lacks is not what was archived: it stays as it is.
    """
    proven: set[str] = set()
    for _ in range(ATTEMPTS_MAX):
        with _told(archive):
            state = _attempt(archive, clock or SystemClock(), proven)
        if state is not None:
            return state
    raise ArchiveError(
        f"the table of {archive} was changed by others each of {ATTEMPTS_MAX} times that it was"
        f" read; nothing was committed to it. Let only one archiver run"
    )


def _attempt(archive: Archive, clock: Clock, proven: set[str]) -> TableState | None:
    """Read table and manifests, in this order, and commit the difference; None: too late."""
    table = _opened(archive)
    named = {} if table is None else _named(table)
    catalogue = archive.catalogue()
    if catalogue.is_empty and not named:
        raise ArchiveError(f"nothing is archived in {archive} yet: a table is made of an archive")
    change = change_of(catalogue, named)
    check_files(archive, [file for file in change.added if file.path not in proven])
    proven.update(file.path for file in change.added)
    version = -1 if table is None else table.version()
    if table is None or not change.is_empty:
        if not _commit(archive, table, catalogue, change, clock.wall_microseconds() // 1000):
            return None
        version += 1
    return TableState(
        version=version,
        files=len(catalogue.files()),
        first_index=catalogue.first_index,
        last_index=catalogue.last_index,
        missing=_missing(catalogue),
        added=len(change.added),
        removed=len(change.removed),
    )


def _missing(catalogue: Catalogue) -> tuple[Span, ...]:
    return tuple((it.first_index, it.last_index) for it in catalogue.breaks if it.kind == "gap")


def _commit(
    archive: Archive, table: DeltaTable | None, catalogue: Catalogue, change: TableChange, now: int
) -> bool:
    """Make the change the version after the one that was read; False if there is one already."""
    from deltalake.exceptions import CommitFailedError, DeltaError  # noqa: PLC0415 - of an extra
    from deltalake.transaction import (  # noqa: PLC0415
        CommitProperties,
        create_table_with_add_actions,
    )

    added = [_add(file, now, change) for file in change.added]
    # Without this what was added beside us would be merged in, and files stand there twice.
    missing = ", ".join(f"{first} to {last}" for first, last in _missing(catalogue))
    properties = CommitProperties(
        max_commit_retries=0,
        # In the table's history: nothing else of it is seen by those who query it.
        custom_metadata={MISSING: missing} if missing else None,
    )
    try:
        if table is not None:
            removed = [_remove(path, now, change) for path in change.removed]
            table.create_write_transaction(
                [*added, *removed], "append", _schema(), [PARTITION], commit_properties=properties
            )
            return True
        create_table_with_add_actions(
            _uri(archive.place),
            _schema(),
            added,
            partition_by=[PARTITION],
            description=f"the log of cluster {catalogue.cluster_id}; only Holdfast writes to it",
            configuration=CONFIGURATION,
            storage_options=_storage(archive.place),
            commit_properties=properties,
        )
    except CommitFailedError:
        return False
    except DeltaError:
        if table is None and has_table(archive):
            return False
        raise
    return True


def _add(file: ArchivedFile, now: int, change: TableChange) -> AddAction:
    from deltalake.transaction import AddAction  # noqa: PLC0415

    statistics = {
        "numRecords": file.rows,
        "minValues": {"index": file.first_index},
        "maxValues": {"index": file.last_index},
        "nullCount": {"index": 0},
    }
    return AddAction(
        path=file.path,
        size=file.bytes,
        partition_values={PARTITION: file.day},
        modification_time=now,
        data_change=file.path not in change.rewritten,
        stats=json.dumps(statistics),
    )


def _remove(path: str, now: int, change: TableChange) -> RemoveAction:
    from deltalake.transaction import RemoveAction  # noqa: PLC0415

    return RemoveAction(path, data_change=path not in change.rewritten, deletion_timestamp=now)


def _opened(archive: Archive) -> DeltaTable | None:
    """
    Open the newest version; None if there is no table.

    Raises:
        ArchiveError: It is not made as we make it.
    """
    from deltalake import DeltaTable  # noqa: PLC0415
    from deltalake.exceptions import TableNotFoundError  # noqa: PLC0415

    try:
        table = DeltaTable(_uri(archive.place), storage_options=_storage(archive.place))
    except TableNotFoundError:
        return None
    columns = [(field.name, field.type) for field in table.schema().fields]
    ours = [(field.name, field.type) for field in _schema().fields]
    if columns != ours or table.metadata().partition_columns != [PARTITION]:
        raise ArchiveError(
            f"the table in {archive}/{TABLE_LOG} was made by another version of Holdfast or by"
            f" somebody else: it has other columns. Remove that folder to have it made anew"
        )
    return table


def _named(table: DeltaTable) -> dict[str, NamedFile]:
    """What a version says of the files that it names."""
    rows = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return {row["path"]: _named_file(row) for row in rows}


def _named_file(row: dict[str, Any]) -> NamedFile:
    first, last = row.get("min.index"), row.get("max.index")
    return NamedFile(
        day=str(row.get(f"partition.{PARTITION}")),
        bytes=row["size_bytes"],
        rows=row.get("num_records"),
        span=(first, last) if first is not None and last is not None else None,
        has_all=row.get("null_count.index") == 0,
    )


def _schema() -> Schema:
    from deltalake import Schema  # noqa: PLC0415

    return Schema.from_arrow(COLUMNS)


def _uri(place: Place) -> str:
    """
    Where the table is, as a URL: of a bare path the package takes some characters for others.

    Raises:
        ArchiveError: The package would read and write another folder, even another archive's.
    """
    path = str(place.local_folder or place.uri)
    # What it is given in percent signs it takes from them twice (deltalake 1.6.6).
    if unquote(path) != path or "\\" in path:
        raise ArchiveError(
            f"no table can be kept in {place}: the package {PACKAGE} takes a percent sign with two"
            f" digits, or a backslash, for another character. Give the archive another path"
        )
    if place.local_folder is not None:
        return place.local_folder.as_uri()
    if path.partition("://")[0] in S3_SCHEMES:
        return f"s3://{quote(place.bucket_and_key)}"
    return path.rstrip("/")


def _storage(place: Place) -> dict[str, str] | None:
    """What the package must be told about an object store: what pyarrow is told."""
    given = s3_arguments(dict(place.options))
    found = {name: given[ours] for ours, name in _STORE_OPTIONS.items() if ours in given}
    if "endpoint_override" in given:
        found["AWS_ENDPOINT_URL"] = f"{given['scheme']}://{given['endpoint_override']}"
        found["AWS_ALLOW_HTTP"] = str(given["scheme"] == "http").lower()
    return found or None


@contextmanager
def _told(archive: Archive) -> Iterator[None]:
    """Make of what the package raises one sentence that says whose trouble it is."""
    if not is_installed():
        raise ArchiveError(
            f"the table of {archive} needs the package {PACKAGE}, which is not installed;"
            f" install it with: pip install 'holdfast[delta]'"
        )
    from deltalake.exceptions import DeltaError  # noqa: PLC0415

    try:
        yield
    except DeltaError as error:
        raise ArchiveError(
            f"the table of {archive}: {_sentence(error)}. If it stays so, remove the table's"
            f" folder {TABLE_LOG} to have it made anew"
        ) from error
    except OSError as error:
        # What meets a disk comes as an error of Python's own, in colours and over several lines.
        raise OSError(f"the table of {archive}: {_in_one_line(error)}") from error


def _in_one_line(error: OSError) -> str:
    lines = _COLOURS.sub("", str(error)).splitlines()
    return ": ".join(line.strip(" \u21b3") for line in lines if line.strip())


def _sentence(error: Any) -> str:
    """The first line of what Rust says; the rest are its own places in the code."""
    return str(error).strip().partition("\n")[0].rstrip(".")

"""
The files of an archive: finding what counts, reading entries back; `range_writer.py` writes.

Layout below the archive's path:

    records/day=YYYY-MM-DD/<first>-<last>-<attempt>.parquet    rows, see rows.py
    _holdfast/<first>-<last>-<digest>.json                     manifests, see manifests.py
    _holdfast/snapshot.jsonl                                   see manifest_snapshot.py
    _set_aside/<when>/...                                      on its way out, see cleaning.py

A data file is written under a name nobody else uses and is durable before the manifest that names
it is published. So a job may be killed at any moment and run again: what it left is no part of the
archive, and `archive/cleaning.py` sets it aside later.

An `Archive` is a value that is sent to the workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.errors import ArchiveError, CorruptArchiveError, UnreadableArchiveError
from holdfast.journal.entry import Entry
from holdfast.spark.archive.entries import entries_of
from holdfast.spark.archive.file_digest import NEW, DigestKind, FileDigest, kind_of
from holdfast.spark.archive.manifest_reader import (
    MANIFESTS,
    READS_AGAIN_MAX,
    ManifestReader,
    decoded_manifest,
)
from holdfast.spark.archive.manifests import (
    ArchivedFile,
    Catalogue,
    Manifest,
    encode_manifest,
)
from holdfast.spark.archive.places import Options, Place, absolute
from holdfast.spark.archive.range_writer import COMPRESSION, RangeWriter
from holdfast.spark.archive.rows import RECORDS
from holdfast.spark.archive.store_answers import asked_again
from holdfast.spark.log.source import NO_CHAIN

_READ_BYTES: Final = 4 * 1024 * 1024
WHOLE_BYTES_MAX: Final = 32 * 1024 * 1024
"""A file up to this size is read into memory, so that it is fetched once to be proven and read."""


@dataclass(frozen=True, slots=True)
class Archive:
    """One archive; use `Archive.open`."""

    place: Place

    @classmethod
    def open(cls, path: str, options: Options = ()) -> Archive:
        """Give the archive at a path; nothing is read yet, and it need not exist."""
        return cls(Place(absolute(path), options))

    def __str__(self) -> str:
        return str(self.place)

    def catalogue(self, *, with_snapshot: bool = True) -> Catalogue:
        """
        Read the manifests and find the ranges that count; see `ManifestReader` for who looks again.

        Args:
            with_snapshot: Spare reading those whose files are as they were when the snapshot was
                written; without, every one of them is proven.

        Raises:
            LaterArchiveError: One is of a later version of Holdfast.
            ArchiveError: They change faster than they can be read.
        """
        return self.reader().look(proving=not with_snapshot).catalogue

    def end(self) -> tuple[int, str]:
        """Give the last entry archived and the chain after it; see `ManifestReader.end`."""
        return self.reader().end()

    def renew_snapshot(self) -> bool:
        """Write the snapshot of the manifests if it is due; see `ManifestReader`."""
        return self.reader().renew_snapshot()

    def reader(self) -> ManifestReader:
        """Give a reader of the manifests that has read nothing yet."""
        return ManifestReader(self.place)

    def check_manifest(self, manifest: Manifest) -> None:
        """
        Compare a manifest, which may be known from the snapshot only, with its own file.

        Raises:
            CorruptArchiveError: The file says something else, or makes no sense.
            UnreadableArchiveError: The store gives it otherwise each time.
            FileNotFoundError: It is gone.
        """
        path = f"{MANIFESTS}/{manifest.name}"
        try:
            found = decoded_manifest(self.place, path, self.place.read(path))
        except UnreadableArchiveError:
            raise
        except ArchiveError as error:
            raise CorruptArchiveError(f"it is not as it was written: {error}", path=path) from error
        if found != manifest:
            raise CorruptArchiveError("the archive's snapshot says something else", path=path)

    def publish(self, manifest: Manifest) -> None:
        """Make a range part of the archive. Its files must be durable."""
        self.place.publish(f"{MANIFESTS}/{manifest.name}", encode_manifest(manifest))

    def writer(
        self,
        chain_before: str,
        names: dict[int, str],
        compression: str = COMPRESSION,
        attempt: str = "",
    ) -> RangeWriter:
        """Give a writer for the entries that follow this chain value."""
        return RangeWriter(self.place, chain_before, names, compression, attempt)

    def digest(self, path: str, kind: DigestKind = NEW) -> tuple[int, str]:
        """
        Read a whole file and give its size and digest.

        Raises:
            FileNotFoundError: It is not there.
        """
        with self.place.open_input(path) as source:
            return _size_and_digest(source, kind)

    def check(self, file: ArchivedFile) -> None:
        """
        Compare a file with its manifest, byte for byte by its digest.

        Raises:
            CorruptArchiveError: It is missing or differs.
            UnreadableArchiveError: The store does not give it, or not the same each time.
        """
        self._compare(file, *self._digest_of(file))

    def _digest_of(self, file: ArchivedFile) -> tuple[int, str]:
        try:
            return self.digest(file.path, kind_of(file.digest))
        except FileNotFoundError:
            raise missing(file) from None
        except OSError as error:
            raise UnreadableArchiveError(f"cannot be read: {error}", path=file.path) from error

    def has(self, file: ArchivedFile) -> bool:
        """Whether a file is not known to be gone: a store that fails may have it."""
        try:
            return self.place.has(file.path)
        except OSError:
            return True  # whoever reads it is told what is wrong

    def check_size(self, file: ArchivedFile) -> None:
        """
        Make sure that a file is there and as long as its manifest says; its content is not read.

        Raises:
            CorruptArchiveError: It is missing or has another size.
            UnreadableArchiveError: The store does not give it.
        """
        try:
            with self.place.open_input(file.path) as source:
                size = source.size()
        except FileNotFoundError:
            raise missing(file) from None
        except OSError as error:
            raise UnreadableArchiveError(f"cannot be read: {error}", path=file.path) from error
        if size != file.bytes:
            reason = f"the file has {size:,} bytes, the manifest says {file.bytes:,}"
            raise CorruptArchiveError(reason, path=file.path)

    def batches(
        self, file: ArchivedFile, columns: list[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """
        Give a file's rows, one row group at a time.

        Raises:
            CorruptArchiveError: It is missing, or no such file.
            UnreadableArchiveError: The store does not give it.
        """
        with self._reading(file) as source:
            for batch in _row_groups(source, columns, is_proven=False):
                yield _sound(batch, columns or RECORDS.names)

    def names_in(self, file: ArchivedFile) -> dict[int, str]:
        """
        Give the names of queues that the rows of a file have, by number.

        Raises:
            CorruptArchiveError: It is missing, or no such file.
            UnreadableArchiveError: The store does not give it.
        """
        names: dict[int, str] = {}
        for batch in self.batches(file, ["queue_number", "destination"]):
            named = batch.filter(batch.column("destination").is_valid())
            found = pa.Table.from_batches([named]).group_by(named.schema.names).aggregate([])
            names |= {row["queue_number"]: row["destination"] for row in found.to_pylist()}
        return names

    def proven_batches(
        self, file: ArchivedFile, columns: list[str], first_index: int, last_index: int
    ) -> Iterator[pa.RecordBatch]:
        """
        Give some columns of a file that was compared with its digest, one row group at a time.

        Row groups without a row between these indexes are left out; rows are not. A file of up to
        `WHOLE_BYTES_MAX` is fetched once, a larger one is read twice.

        Raises:
            CorruptArchiveError: It is missing, or not what was archived.
            UnreadableArchiveError: The store does not give it.
        """
        with self._reading(file) as source:
            is_small = file.bytes <= WHOLE_BYTES_MAX
            data = source
            if is_small:
                whole = asked_again(source.read_buffer)
                digest = FileDigest(kind_of(file.digest))
                digest.update(whole)
                self._compare(file, digest.size, digest.text)
                data = pa.BufferReader(whole)
            else:
                self._compare(file, *_size_and_digest(source, kind_of(file.digest)))
                source.seek(0)
            # A large file is fetched again: what comes then has been compared with nothing yet.
            wanted = partial(_may_hold, first_index=first_index, last_index=last_index)
            for batch in _row_groups(data, columns, wanted, is_proven=is_small):
                yield _of_known_types(batch, columns)

    @contextmanager
    def _reading(self, file: ArchivedFile) -> Iterator[pa.NativeFile]:
        """Open a file; what goes wrong while it is read is an error that names it."""
        try:
            with self.place.open_input(file.path) as source:
                yield source
        except FileNotFoundError:
            raise missing(file) from None
        except (OSError, ValueError, LookupError, TypeError, pa.ArrowException) as error:
            reason = f"cannot be read: {error}"
            raise self._fault(file, reason, reason, None) from error

    def _compare(self, file: ArchivedFile, size: int, digest: str) -> None:
        """Make sure that what was read is what was archived."""
        if (size, digest) != (file.bytes, file.digest):
            found = (
                f"{size:,} bytes with digest {digest}, the manifest says {file.bytes:,}"
                f" with {file.digest}"
            )
            raise self._fault(
                file,
                f"the file is not what was archived: {found}",
                f"it came otherwise than it stands there: {found}; read again it was right",
                (size, digest),
            )

    def _fault(
        self, file: ArchivedFile, lasting: str, passing: str, found: tuple[int, str] | None
    ) -> CorruptArchiveError:
        """
        Tell a damaged file from a store that fails: of what is damaged the same bytes come again.

        `found` is the size and digest that came, if all was read.
        """
        for _ in range(READS_AGAIN_MAX):
            before = found
            try:
                found = Archive(self.place.anew())._digest_of(file)  # noqa: SLF001 - our own kind
            except CorruptArchiveError as other:
                return other
            if found == (file.bytes, file.digest):
                return UnreadableArchiveError(passing, path=file.path)
            if found == before:
                return CorruptArchiveError(lasting, path=file.path)
        return UnreadableArchiveError("it comes otherwise each time it is read", path=file.path)

    def entries(
        self, file: ArchivedFile, first_index: int = 0, last_index: int | None = None
    ) -> Iterator[Entry]:
        """
        Give the entries of a file within a range, rebuilt and proven by the chain.

        Raises:
            CorruptArchiveError: A row is missing, changed or too many; it names file and entry.
        """
        before = None if file.chain_before == NO_CHAIN else bytes.fromhex(file.chain_before)
        expected, chain = file.first_index, file.chain_before
        for entry in entries_of(self.batches(file), before, path=file.path):
            if entry.index != expected:
                reason = f"entry {entry.index:,} stands where {expected:,} belongs"
                raise CorruptArchiveError(reason, path=file.path, index=expected)
            expected, chain = expected + 1, entry.chain.hex()
            if last_index is not None and entry.index > last_index:
                return
            if entry.index >= first_index:
                yield entry
        if (expected - 1, chain) != (file.last_index, file.chain_after):
            reason = f"it ends with entry {expected - 1:,}, the manifest says {file.last_index:,}"
            raise CorruptArchiveError(reason, path=file.path, index=expected)


def _row_groups(
    source: pa.NativeFile,
    columns: list[str] | None,
    wanted: Callable[[Any], bool] | None = None,
    *,
    is_proven: bool,
) -> Iterator[pa.RecordBatch]:
    """Give the rows of those row groups whose metadata is wanted, one group at a time."""
    table = asked_again(partial(pq.ParquetFile, source, page_checksum_verification=not is_proven))
    for group in range(table.num_row_groups):
        if wanted is None or wanted(table.metadata.row_group(group)):
            rows = asked_again(partial(table.read_row_group, group, columns=columns))
            yield from rows.to_batches()


def _size_and_digest(source: pa.NativeFile, kind: DigestKind) -> tuple[int, str]:
    """Read a file to its end."""
    digest = FileDigest(kind)
    while chunk := asked_again(partial(source.read, _READ_BYTES)):
        digest.update(chunk)
    return digest.size, digest.text


def _may_hold(group: Any, first_index: int, last_index: int) -> bool:
    """Whether a row group may have rows between these indexes, by what the file says of it."""
    for place in range(group.num_columns):
        column = group.column(place)
        if column.path_in_schema == "index":
            found = column.statistics
            if found is None or not found.has_min_max:
                break
            return bool(found.min <= last_index and found.max >= first_index)
    return True


def _sound(batch: pa.RecordBatch, columns: list[str]) -> pa.RecordBatch:
    """
    Make sure that rows are what an archive may hold: Parquet itself does not look at their values.

    Raises:
        ArrowException: They are not.
        LookupError: A column is missing.
    """
    _of_known_types(batch, columns).validate(full=True)
    return batch


def _of_known_types(batch: pa.RecordBatch, columns: list[str]) -> pa.RecordBatch:
    for name in columns:
        found, known = batch.column(name).type, RECORDS.field(name).type
        if found != known:
            raise pa.ArrowTypeError(f"the column {name} is of type {found}, expected {known}")
    return batch


def missing(file: ArchivedFile) -> CorruptArchiveError:
    """The error for a data file that is gone."""
    reason = (
        f"the file is missing: it held entries {file.first_index:,} to {file.last_index:,}"
        f" with {file.messages:,} messages"
    )
    return CorruptArchiveError(reason, path=file.path)

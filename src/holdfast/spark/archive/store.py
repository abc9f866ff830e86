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

import posixpath
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.errors import (
    ArchiveError,
    CorruptArchiveError,
    LaterArchiveError,
    UnreadableArchiveError,
)
from holdfast.journal.entry import Entry
from holdfast.spark.archive.entries import entries_of
from holdfast.spark.archive.file_digest import NEW, DigestKind, FileDigest, kind_of
from holdfast.spark.archive.manifest_snapshot import (
    SNAPSHOT_NAME,
    Known,
    Stamp,
    decode_snapshot,
    encode_snapshot,
    is_due,
    is_of_later,
)
from holdfast.spark.archive.manifests import (
    ArchivedFile,
    Break,
    Catalogue,
    Manifest,
    decode_manifest,
    encode_manifest,
    is_named_otherwise,
    range_of_name,
    resolve,
)
from holdfast.spark.archive.places import FoundFile, Options, Place, absolute
from holdfast.spark.archive.range_writer import COMPRESSION, RangeWriter
from holdfast.spark.archive.rows import RECORDS
from holdfast.spark.archive.store_answers import asked_again
from holdfast.spark.log.source import NO_CHAIN

MANIFESTS: Final = "_holdfast"
_READ_BYTES: Final = 4 * 1024 * 1024
_READERS: Final = 16
"""So many manifests are asked for at once: an object store answers each in some 10 ms."""

WHOLE_BYTES_MAX: Final = 32 * 1024 * 1024
"""A file up to this size is read into memory, so that it is fetched once to be proven and read."""
_LOOKS_MAX: Final = 10
"""How often the manifests are listed again when one is merged while they are read."""


@dataclass(frozen=True, slots=True)
class _Manifests:
    """All that can be read, by their files, and what they add up to."""

    known: Known
    catalogue: Catalogue


def _stamp(file: FoundFile) -> Stamp:
    return posixpath.basename(file.path), file.size, file.modified_at


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
        Read the manifests and find the ranges that count.

        Args:
            with_snapshot: Spare reading those whose files are as they were when the snapshot was
                written; without, every one of them is proven.

        Raises:
            LaterArchiveError: One is of a later version of Holdfast.
            ArchiveError: They change faster than they can be read.
        """
        for _ in range(_LOOKS_MAX):
            spared = decode_snapshot(self._snapshot_data()) if with_snapshot else {}
            with suppress(FileNotFoundError):  # merged meanwhile: what replaces it is there now
                return self._manifests(spared).catalogue
        raise ArchiveError(f"the manifests of {self} vanish while they are read; try again")

    def end(self) -> tuple[int, str]:
        """
        Give the last entry that any manifest names and the chain after it; (0, "") if none does.

        Reads those manifests that end there, however many there are.

        Raises:
            ArchiveError: One of them is not as it was written, or is of another log than the other;
                or they change too fast.
        """
        for _ in range(_LOOKS_MAX):
            names = [posixpath.basename(it.path) for it in self.place.files_at_once(MANIFESTS)]
            spans = {name: span for name in names if (span := range_of_name(name)) is not None}
            if not spans:
                return 0, NO_CHAIN
            end = max(last for _, last in spans.values())
            with suppress(FileNotFoundError):  # merged meanwhile
                return self._end_of([name for name, span in spans.items() if span[1] == end])
        raise ArchiveError(f"the manifests of {self} vanish while they are read; try again")

    def _end_of(self, names: list[str]) -> tuple[int, str]:
        """Where manifests end that end with the same entry."""
        found = [decode_manifest(self.place.read(f"{MANIFESTS}/{name}"), name) for name in names]
        first, *others = found
        for each in others:
            if (each.cluster_id, each.chain_after) != (first.cluster_id, first.chain_after):
                raise ArchiveError(
                    f"two archivers wrote different logs to {self}: {first.name} and {each.name}"
                    f" do not fit together. Move away the one that does not belong there"
                )
        return first.last_index, first.chain_after

    def renew_snapshot(self) -> bool:
        """
        Write the snapshot of all manifests anew if many are not in it; gives whether it did.

        Raises:
            OSError: It cannot be written; nothing is lost without it.
        """
        data = self._snapshot_data()
        if is_of_later(data):
            return False
        before = decode_snapshot(data)
        try:
            found = self._manifests(before)
        except FileNotFoundError:
            return False  # merged meanwhile
        unread = len(found.known.keys() - before.keys())
        if not is_due(len(found.known), unread):
            return False
        self.place.publish(f"{MANIFESTS}/{SNAPSHOT_NAME}", encode_snapshot(found.known))
        return True

    def _snapshot_data(self) -> bytes:
        try:
            return self.place.read(f"{MANIFESTS}/{SNAPSHOT_NAME}")
        except OSError:
            return b""

    def _manifests(self, spared: Known) -> _Manifests:
        """Read what the listing shows, but for what is known of exactly these files."""
        listed = self.place.files_at_once(MANIFESTS)
        self._check_otherwise_named(listed)
        spans = {it: range_of_name(posixpath.basename(it.path)) for it in listed}
        stamps = {it: _stamp(it) for it, span in spans.items() if span is not None}
        known = {stamp: spared[stamp] for stamp in stamps.values() if stamp in spared}
        unknown = [it for it, stamp in stamps.items() if stamp not in known]
        unreadable = []
        with ThreadPoolExecutor(_READERS) as readers:
            contents = readers.map(self.place.read, [it.path for it in unknown])
            for file, content in zip(unknown, contents, strict=True):
                stamp, span = stamps[file], spans[file]
                assert span is not None, "it has a stamp"
                try:
                    known[stamp] = decode_manifest(content, stamp[0])
                except LaterArchiveError:
                    raise
                except ArchiveError as error:
                    unreadable.append(Break("manifest", *span, str(error)))
        return _Manifests(known, resolve(known.values(), unreadable))

    def _check_otherwise_named(self, listed: list[FoundFile]) -> None:
        """
        Look whether a file beside the manifests is one by a name that only a later program knows.

        Raises:
            LaterArchiveError: It is.
        """
        for file in listed:
            name = posixpath.basename(file.path)
            if is_named_otherwise(name):
                try:
                    decode_manifest(self.place.read(file.path), name)
                except LaterArchiveError:
                    raise
                except ArchiveError:
                    continue  # somebody's notes, or what is no manifest any more

    def check_manifest(self, manifest: Manifest) -> None:
        """
        Compare a manifest, which may be known from the snapshot only, with its own file.

        Raises:
            CorruptArchiveError: The file says something else, or makes no sense.
            FileNotFoundError: It is gone.
        """
        path = f"{MANIFESTS}/{manifest.name}"
        try:
            found = decode_manifest(self.place.read(path), manifest.name)
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
            UnreadableArchiveError: The store does not give it.
        """
        _compare(file, *self._digest_of(file))

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
                _compare(file, digest.size, digest.text)
                data = pa.BufferReader(whole)
            else:
                _compare(file, *_size_and_digest(source, kind_of(file.digest)))
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
            raise self._fault(file, error) from error

    def _fault(self, file: ArchivedFile, error: Exception) -> CorruptArchiveError:
        """Tell a damaged file from a store that fails: the latter's bytes are right, or none."""
        reason = f"cannot be read: {error}"
        try:
            found = self._digest_of(file)
        except CorruptArchiveError as other:
            return other
        if found == (file.bytes, file.digest):
            return UnreadableArchiveError(reason, path=file.path)
        return CorruptArchiveError(reason, path=file.path)

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


def _compare(file: ArchivedFile, size: int, digest: str) -> None:
    if (size, digest) != (file.bytes, file.digest):
        reason = (
            f"the file is not what was archived: {size:,} bytes with digest {digest}, the"
            f" manifest says {file.bytes:,} with {file.digest}"
        )
        raise CorruptArchiveError(reason, path=file.path)


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

"""
Where an archive is: any path that Spark can write, seen through pyarrow's file systems.

Workers write and read files without the Java side, so the settings that Hadoop has for an object
store, and options of the same names, are handed on to pyarrow. A place is a value: it is sent to
the workers, and each process opens its file system once.

Invariants:
    `publish` is all or nothing: a reader finds the whole file or none.
    On a local disk a file is durable when `write_durable` or `publish` returned, with its folders.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from holdfast.errors import ConfigError
from holdfast.spark.archive.store_answers import asked_again

Options = tuple[tuple[str, str], ...]

S3_SCHEMES: Final = ("s3", "s3a", "s3n")
_S3_ATTEMPTS: Final = 6
"""So often a request is sent, with growing pauses of some 15 s in all. With several tasks at once
each one's attempts meet the faults of the others, and the three of AWS's clients are soon over."""

_AT_ONCE_BYTES_MAX: Final = 8 * 1024 * 1024
"""Files up to this size pyarrow writes to S3 by one request: its own limit is 10 MiB."""

_LISTED_AT_ONCE: Final = 1_000
"""So many files a store tells in one answer."""

_LISTINGS_MAX: Final = 10

DRAFT_MARK: Final = "."
"""What the name of a file begins with that is still being written."""

_BY_PYARROW: Final = ("hdfs", "viewfs", "gs", "gcs", "abfs", "abfss")
HADOOP_KEYS: Final = (
    "fs.s3a.access.key",
    "fs.s3a.secret.key",
    "fs.s3a.session.token",
    "fs.s3a.endpoint",
    "fs.s3a.endpoint.region",
    "fs.s3a.connection.ssl.enabled",
)


def absolute(path: str) -> str:
    """
    Give a path that means the same in every process: workers stand in other folders than we do.

    `file://` is left out; paths of other file systems stay as they are.
    """
    path = _plain(path)
    return path if len(urlsplit(path).scheme) > 1 else str(Path(path).absolute())


def _plain(path: str) -> str:
    """The path without the mark that says it is local; what may stand in a URL is no sign here."""
    return path.removeprefix("file://").removeprefix("file:")


@dataclass(frozen=True, slots=True)
class Place:
    """A folder: `uri` as the user wrote it, and what its file system must be told."""

    uri: str
    options: Options = field(default=(), repr=False)

    def __str__(self) -> str:
        return self.uri

    @property
    def local_folder(self) -> Path | None:
        """
        The folder, if it is of this machine; None for another file system's.

        Raises:
            ConfigError: Nobody knows such a path.
        """
        path = _plain(self.uri)
        scheme = urlsplit(path).scheme
        if len(scheme) < 2:
            return Path(path).absolute()
        if scheme not in (*S3_SCHEMES, *_BY_PYARROW):
            raise unknown_path(self.uri)
        return None

    @property
    def bucket_and_key(self) -> str:
        """What is behind `s3://`, to the letter: `?` and `#` are characters like any other."""
        return self.uri.partition("://")[2].rstrip("/")

    def anew(self) -> Place:
        """Give the same place to who wants to read what is there, and nothing that was held."""
        return Place(self.uri, self.options)

    def write_durable(self, path: str) -> DurableFile:
        """Open a new file for writing, folders made as needed; durable once it is closed."""
        system, root = _opened(self)
        full = f"{root}/{path}"
        if isinstance(system, fs.LocalFileSystem):
            _make_folder(Path(full).parent)
        return DurableFile(system, full)

    def publish(self, path: str, data: bytes) -> None:
        """Make a file appear, whole, in place of one of that name if there is one."""
        system, root = _opened(self, at_once=len(data) <= _AT_ONCE_BYTES_MAX)
        if not isinstance(system, fs.LocalFileSystem | fs.HadoopFileSystem):
            with system.open_output_stream(f"{root}/{path}") as out:  # whole once it is closed
                out.write(data)
            return
        folder, _, name = path.rpartition("/")
        draft = f"{folder}/{DRAFT_MARK}{name}.{uuid.uuid4().hex[:8]}"
        try:
            with self.write_durable(draft) as out:
                out.write(data)
            if isinstance(system, fs.HadoopFileSystem):
                self.remove(path)  # HDFS does not rename over a file
            system.move(f"{root}/{draft}", f"{root}/{path}")
        except BaseException:
            with suppress(OSError):  # what cannot be removed now `sweep` removes later
                self.remove(draft)
            raise
        if isinstance(system, fs.LocalFileSystem):
            _sync(f"{root}/{folder}")

    def open_input(self, path: str) -> pa.NativeFile:
        """
        Open a file for reading from any place in it.

        Raises:
            FileNotFoundError: It is not there.
        """
        system, root = _opened(self)
        return system.open_input_file(f"{root}/{path}")

    def read(self, path: str) -> bytes:
        """
        Give a whole file.

        Raises:
            FileNotFoundError: It is not there.
        """
        try:
            with self.open_input(path) as source:
                data: bytes = asked_again(source.read)
        except FileNotFoundError:
            raise
        except OSError as error:
            # An object store says so by another error where it went after it was opened.
            if not self.has(path):
                raise FileNotFoundError(f"{self.uri}/{path} is gone") from error
            raise OSError(f"{self.uri}/{path} cannot be read: {error}") from error
        return data

    def has(self, path: str) -> bool:
        """Whether there is a file of this path."""
        system, root = _opened(self)
        if isinstance(system, fs.S3FileSystem):
            # Information about a file that is not there takes a listing besides.
            try:
                system.open_input_file(f"{root}/{path}").close()
            except FileNotFoundError:
                return False
            return True
        found = system.get_file_info(f"{root}/{path}")
        return bool(found.type == fs.FileType.File)

    def remove(self, path: str) -> None:
        """Remove a file; nothing happens if it is not there."""
        system, root = _opened(self)
        try:
            system.delete_file(f"{root}/{path}")
        except FileNotFoundError:
            return

    def remove_all(self) -> None:
        """Remove the folder with all that is in it, as far as the store lets us."""
        system, root = _opened(self)
        with suppress(OSError):  # FileNotFoundError, too
            system.delete_dir(root)

    def move(self, path: str, target: str) -> None:
        """Give a file another path in this place; nothing happens if it is not there."""
        system, root = _opened(self)
        full = f"{root}/{target}"
        if isinstance(system, fs.LocalFileSystem | fs.HadoopFileSystem):
            system.create_dir(full.rpartition("/")[0], recursive=True)
        try:
            system.move(f"{root}/{path}", full)
        except FileNotFoundError:  # or moved by somebody else meanwhile
            return
        except OSError:
            # Of what is not there object stores make an error like any other.
            if self.has(path):
                raise

    def files_at_once(
        self, folder: str, expected: AbstractSet[str] | None = None
    ) -> list[FoundFile]:
        """
        Give the files below a folder as of one moment, if none goes before what replaces it comes.

        A listing takes a while, so what comes and what goes meanwhile may both be missing in it;
        and a bit that flips in a store's answer hides a file. Then the next one lacks something
        that this one has; what lacks nothing is whole.

        Args:
            expected: Paths that were there before. A store's answer that has them all is believed
                at once; without them none is.

        Raises:
            OSError: The folder cannot be listed, or files go all the time.
        """
        found = list(self.files(folder))
        is_of_one_answer = self.local_folder is None and len(found) < _LISTED_AT_ONCE
        if is_of_one_answer and expected is not None and expected <= {it.path for it in found}:
            return found
        for _ in range(_LISTINGS_MAX):
            before = {it.path for it in found}
            found = list(self.files(folder))
            if before <= {it.path for it in found}:
                return found
        raise OSError(f"files of {self.uri}/{folder} go faster than they can be listed")

    def folders(self, folder: str) -> list[str]:
        """
        Give the paths of the folders in a folder, in order; none if it is not there.

        Raises:
            OSError: The folder cannot be listed.
        """
        system, root = _opened(self)
        found = system.get_file_info(fs.FileSelector(f"{root}/{folder}", allow_not_found=True))
        return sorted(it.path[len(root) + 1 :] for it in found if it.type == fs.FileType.Directory)

    def files(self, folder: str) -> Iterator[FoundFile]:
        """
        Give the files below a folder, in the order of their paths; none if it is not there.

        Raises:
            OSError: The folder cannot be listed; an object store may do better the next time.
        """
        system, root = _opened(self)
        selector = fs.FileSelector(f"{root}/{folder}", allow_not_found=True, recursive=True)
        try:
            found = system.get_file_info(selector)
        except OSError as error:
            raise OSError(f"{self.uri} cannot be listed: {error}") from error
        for item in sorted(found, key=lambda item: item.path):
            if item.type == fs.FileType.File:
                modified = item.mtime_ns or 0
                yield FoundFile(item.path[len(root) + 1 :], item.size or 0, modified // 1000)


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file in a listing; `modified_at` in microseconds of wall-clock time."""

    path: str
    size: int
    modified_at: int


class DurableFile:
    """A file being written; a context manager. Closing makes it durable where we can."""

    __slots__ = ("_full", "_is_local", "_stream")

    def __init__(self, system: fs.FileSystem, full: str) -> None:
        self._full = full
        self._is_local = isinstance(system, fs.LocalFileSystem)
        self._stream = system.open_output_stream(full)

    def write(self, data: bytes | pa.Buffer) -> int:
        """
        Append bytes; gives how many.

        Raises:
            OSError: It cannot be written; the error names the file.
        """
        with _named(self._full):
            self._stream.write(data)
        return len(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with _named(self._full):
            self._stream.close()
            if self._is_local:
                _sync(self._full)
        if self._is_local:
            _sync(self._full.rpartition("/")[0])


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Let an error of the system say which file it met: a full disk does not, when it is met."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), path) from error


def _make_folder(path: Path) -> None:
    """Make a local folder, and those above it, durably; nothing happens if it is there."""
    if path.is_dir():
        return
    _make_folder(path.parent)
    path.mkdir(exist_ok=True)
    _sync(str(path.parent))


def _sync(path: str) -> None:
    """Make a local file durable, or which names stand in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _opened(place: Place, *, at_once: bool = True) -> tuple[fs.FileSystem, str]:
    """The file system of a place and the path in it; `at_once`: see `_opened_at`."""
    return _opened_at(place.uri, place.options, at_once=at_once)


@lru_cache(maxsize=32)
def _opened_at(uri: str, options: Options, *, at_once: bool) -> tuple[fs.FileSystem, str]:
    """
    Open a file system; `at_once`: in S3 a new file of up to 10 MiB is written by one request.

    It were three else, of which the first one opens an upload that stays open, and is paid for, if
    a later one is refused. But a larger file whose upload cannot be opened appears cut off then.
    """
    place = Place(uri, options)
    folder = place.local_folder
    if folder is not None:
        return fs.LocalFileSystem(), str(folder)
    scheme = urlsplit(place.uri).scheme
    if scheme in S3_SCHEMES:
        retries = fs.AwsStandardS3RetryStrategy(max_attempts=_S3_ATTEMPTS)
        told = s3_arguments(dict(place.options))
        system = fs.S3FileSystem(retry_strategy=retries, allow_delayed_open=at_once, **told)
        return system, place.bucket_and_key
    try:
        system, path = fs.FileSystem.from_uri(place.uri)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise ConfigError([f"{place.uri} cannot be opened: {error}"]) from error
    return system, path.rstrip("/")


def unknown_path(uri: str) -> ConfigError:
    """Return the error for a path of a kind that is not known."""
    known = ", ".join(f"{scheme}://" for scheme in ("file", *S3_SCHEMES[:2], *_BY_PYARROW))
    return ConfigError([f"{uri}: paths begin with / or one of {known}"])


def s3_arguments(options: dict[str, str]) -> dict[str, Any]:
    """Give Hadoop's settings of an object store as pyarrow calls them."""
    found: dict[str, Any] = {
        "access_key": options.get("fs.s3a.access.key"),
        "secret_key": options.get("fs.s3a.secret.key"),
        "session_token": options.get("fs.s3a.session.token"),
        "region": options.get("fs.s3a.endpoint.region"),
    }
    if endpoint := options.get("fs.s3a.endpoint"):
        scheme, marker, address = endpoint.rpartition("://")
        found["endpoint_override"] = address
        is_plain = options.get("fs.s3a.connection.ssl.enabled", "true") == "false"
        found["scheme"] = scheme if marker else ("http" if is_plain else "https")
    return {name: value for name, value in found.items() if value}


def place_options(options: Mapping[str, str]) -> Options:
    """Pick what a `Place` must be told out of any settings."""
    return tuple((key, options[key]) for key in HADOOP_KEYS if options.get(key))


def hadoop_options(spark: Any) -> Options:
    """Give what Hadoop is told about object stores, as options for a `Place`."""
    context = getattr(spark, "_jsc", None)
    if context is None:
        return ()
    settings = context.hadoopConfiguration()
    return place_options({key: settings.get(key) for key in HADOOP_KEYS})


def with_hadoop_options(spark: Any, source: Mapping[str, str]) -> dict[str, str]:
    """Give a source's options with what Hadoop is told about object stores; its own win."""
    return dict(hadoop_options(spark)) | dict(source)

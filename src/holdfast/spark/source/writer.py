"""
`df.write` and `df.writeStream` to a queue: each row becomes a message, stored exactly once.

Every task sends under producer ids made from the write, the partition, what its rows hold and the
destination, and numbers its rows from 1. A task that Spark runs again sends the same rows under the
same numbers, and the cluster confirms again what it has. If Spark has planned it anew, so that
other rows or another order stand in the partition, no number of before is taken for one of these:
all of them are stored, and those that were before are stored once more. So sort within partitions
where a shuffle stands before the write.

A streaming query's batch can come again until the next one is committed. From then on its producers
are forgotten: they would else be kept for a week, many for each batch. What stays is one number for
the query, below which the cluster takes nothing new: a task of an older batch, of an executor that
was taken for dead, stores nothing when it comes back.

Invariants:
    A task ends well only when the cluster has stored all its rows.
    Under one producer id a number always stands for the same row.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from holdfast.authorities.token_files import read_token_file
from holdfast.client import Producer, connect
from holdfast.errors import ConfigError, HoldfastError, ProducerFinishedError
from holdfast.model.digits import read_count
from holdfast.spark.columns.schema import COLUMNS
from holdfast.spark.log.client import RemoteLog
from holdfast.spark.source.options import urls_of
from holdfast.spark.worker_memory import keep_loaded

logger = logging.getLogger("holdfast.spark")

QUERY_ID_PROPERTY: Final = "sql.streaming.queryId"
BATCH_ID_PROPERTY: Final = "streaming.sql.batchId"
"""Under these names Spark tells a task which query and batch it works for."""

WINDOW_DEFAULT: Final = 2_000
SPOOL_BYTES: Final = 64 * 1024 * 1024
"""Of a partition's rows in memory, until they are sent."""

_HEADER_COLUMNS: Final = {
    "correlation_id": "correlation-id",
    "reply_to": "reply-to",
    "group_id": "JMSXGroupID",
    "priority": "priority",
}
_NOT_SENT: Final = frozenset({"content-length", "persistent", *_HEADER_COLUMNS.values()})
"""Headers of a message read that are made anew: from its columns, or by the client."""

_OPTIONS: Final = ("uri", "url", "token_file", "destination", "write_id", "window")
_OF_SPARK: Final = "checkpointlocation"
"""Spark hands its own option of a stream through."""

_LATE: Final = (
    "batch {batch} of query {query} comes after a later one was stored: nothing more of it is. If"
    " this task was taken for lost and outlived that, all is well: another one has stored its rows."
    " If the query itself runs this batch, its checkpoint is an older copy: begin with a new one,"
    " where the source goes on behind what was written"
)

_KNOWN_COLUMNS: Final = frozenset(column.name for column in COLUMNS["backlog"])


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Where rows are sent, and under which name."""

    uri: str
    write_id: str
    destination: str = ""
    window: int = WINDOW_DEFAULT
    token: str = field(default="", repr=False)
    """A user's, shown to the clients' ports; empty: nobody is asked who he is."""

    @property
    def login(self) -> dict[str, Any]:
        """What the client is told of who sends."""
        return {"passcode": self.token} if self.token else {}


@dataclass
class Written(WriterCommitMessage):
    """What one task has stored."""

    messages: int
    body_bytes: int
    write: str = ""
    """Of a stream: the name of its query, as the ids of all its producers begin."""


def write_options(options: Mapping[str, str], schema: StructType) -> WriteOptions:
    """
    Check the options of a write, and the columns of what is written.

    Raises:
        ConfigError: Every mistake, one sentence each.
        LinkLostError: With `url`: no node answers.
    """
    given = {key.lower(): value.strip() for key, value in options.items()}
    problems = [
        f"{key}: there is no such option for a write; there are {', '.join(_OPTIONS)}"
        for key in sorted(set(given) - {*_OPTIONS, _OF_SPARK})
    ]
    columns = set(schema.fieldNames())
    if ("uri" in given) == ("url" in given):
        problems.append("uri, url: name one of them: the clients' or the admin ports")
    addresses, token = _read_places(given, problems)
    if "body" not in columns:
        problems.append("columns: what is written needs a column body, binary or string")
    if "destination" not in columns and not given.get("destination"):
        problems.append("destination: name it, or have a column of that name")
    problems += [
        f"columns: {name!r} has no meaning in a message; drop it, or put it into headers"
        for name in sorted(columns - _KNOWN_COLUMNS)
    ]
    window = read_count(given.get("window", str(WINDOW_DEFAULT)))
    if window is None:
        problems.append(f"window: {given['window']!r} is not a whole number from 1")
    if problems or window is None:
        raise ConfigError(problems)
    return WriteOptions(
        uri=given.get("uri") or _clients_uri(addresses, token),
        destination=given.get("destination", ""),
        write_id=given.get("write_id") or uuid.uuid4().hex,
        window=window,
        token=token,
    )


def _read_places(given: dict[str, str], problems: list[str]) -> tuple[tuple[str, ...], str]:
    """Read where the admin ports are, and what they and the clients' are shown."""
    addresses: tuple[str, ...] = ()
    token = ""
    try:
        addresses = urls_of(given["url"]) if "url" in given else ()
    except ValueError as error:
        problems.append(f"url: {error}")
    if any(it.startswith("https:") for it in addresses):
        told = "url: https tells of no port where clients speak TLS; name them instead: {}"
        problems.append(told.format("uri=failover:(stomp+ssl://HOST:PORT)?nested.caFile=FILE"))
    try:
        token = read_token_file(Path(given["token_file"])) if "token_file" in given else ""
    except ConfigError as error:
        problems += error.problems
    return addresses, token


def _clients_uri(addresses: tuple[str, ...], token: str) -> str:
    """Make a failover URI of the client ports that the members tell."""
    told = {"stomp": str, "members": list}
    status = RemoteLog(addresses, token=token).ask("GET", "/status", told=told)
    places = {str(member.get("stomp", "")) for member in status["members"]}
    places.add(str(status["stomp"]))
    return f"failover:({','.join(f'stomp://{place}' for place in sorted(places - {''}))})"


class BatchWriter(DataSourceArrowWriter):
    """Sends a DataFrame once. Made on the driver, so all tasks share the write's id."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """
        Send one partition, on an executor.

        Raises:
            HoldfastError: A message was refused, or no broker was reached.
        """
        return write_partition(self.options, f"spark-{self.options.write_id}", iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    """Sends the batches of a query; a batch that Spark repeats is stored once."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """
        Send one partition of a batch, on an executor.

        Raises:
            HoldfastError: A message was refused, or no broker was reached.
        """
        context = TaskContext.get()
        assert context is not None, "a task runs inside Spark"
        query = context.getLocalProperty(QUERY_ID_PROPERTY)
        batch = context.getLocalProperty(BATCH_ID_PROPERTY)
        assert query and batch, "Spark tells the tasks of a stream their query and batch"
        try:
            written = write_partition(self.options, f"spark-{query}-{batch}", iterator)
        except ProducerFinishedError as error:
            raise ProducerFinishedError(_LATE.format(batch=batch, query=query)) from error
        return replace(written, write=f"spark-{query}")

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """
        Let the cluster be done with the batches before: those never come again.

        This batch may, as Spark notes only after this that it is done.
        """
        names = {each.write for each in messages if isinstance(each, Written)}
        if batchId > 0 and names:
            asyncio.run(_forget_finished(self.options, names, batchId))


async def _forget_finished(options: WriteOptions, names: set[str], batch: int) -> None:
    try:
        async with connect(options.uri, **options.login) as connection:
            for name in names:
                await connection.forget_producers(name, before=batch)
    except HoldfastError as error:
        # All rows are stored, and the next batch says it again.
        logger.warning("the producers of earlier batches are not forgotten yet: %s", error)


def write_partition(
    options: WriteOptions, write: str, batches: Iterable[pa.RecordBatch]
) -> Written:
    """
    Send the rows of one partition; return once every one is stored.

    Raises:
        HoldfastError: A message was refused, or no broker was reached.
    """
    keep_loaded()
    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0
    with SpooledRows(options.destination) as rows:
        for batch in batches:
            rows.add(batch)
        name = f"{write}-{partition}-{rows.digest()}"
        return asyncio.run(_send_all(options, name, rows))


class SpooledRows:
    """
    All rows of a partition, kept until it is known what they are together.

    What does not fit into `SPOOL_BYTES` of memory goes to a temporary file. A context manager.
    """

    def __init__(self, destination: str) -> None:
        self._destination = destination
        self._digest = blake2b(digest_size=16)
        self._file = tempfile.SpooledTemporaryFile(SPOOL_BYTES)  # noqa: SIM115 - as long as we
        self._writer: pa.RecordBatchStreamWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """
        Take the next rows.

        Raises:
            ConfigError: A row has no destination.
            OSError: There is no room for them; the error says where.
        """
        with _place_named():
            if self._writer is None:
                self._writer = pa.ipc.new_stream(pa.PythonFile(self._file, "w"), batch.schema)
            self._writer.write_batch(batch)
        for place, body, headers, persistent in rows_to_send(batch, self._destination):
            self._digest.update(repr((place, len(body), headers, persistent)).encode())
            self._digest.update(body)

    def digest(self) -> str:
        """Give what tells these rows, in this order, from all others."""
        return self._digest.hexdigest()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Give the rows again; nothing is added any more."""
        if self._writer is not None:
            with _place_named():
                self._writer.close()
                self._file.seek(0)
            yield from pa.ipc.open_stream(pa.PythonFile(self._file, "r"))


@contextmanager
def _place_named() -> Iterator[None]:
    """Say where rows are kept on the way: of a full disk Python and Arrow do not."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(
            error.errno,
            f"{os.strerror(error.errno)}, where a partition's rows are kept until they are sent"
            f" (TMPDIR of Spark's workers)",
            tempfile.gettempdir(),
        ) from error


async def _send_all(options: WriteOptions, name: str, rows: SpooledRows) -> Written:
    """Send all rows, to each destination under a producer id of its own."""
    producers: dict[str, Producer] = {}
    written = Written(0, 0)
    async with connect(options.uri, carries_headers=True, **options.login) as connection:
        for batch in rows.batches():
            for destination, body, headers, persistent in rows_to_send(batch, options.destination):
                producer = producers.get(destination)
                if producer is None:
                    producer = producers[destination] = connection.producer(
                        destination,
                        window=options.window,
                        producer_id=f"{name}-{len(producers)}",
                    )
                await producer.send(body, headers=headers, persistent=persistent)
                written.messages += 1
                written.body_bytes += len(body)
        for producer in producers.values():
            await producer.flush()
    return written


def rows_to_send(
    batch: pa.RecordBatch, destination: str
) -> Iterator[tuple[str, bytes, dict[str, Any], bool]]:
    """
    Give destination, body, headers and persistence of each row.

    `destination` wins over the column of that name. A null body is an empty one.

    Raises:
        ConfigError: A row has no destination.
    """
    count = batch.num_rows
    names = set(batch.schema.names)

    def column(name: str) -> Iterable[Any]:
        return batch.column(name).to_pylist() if name in names else [None] * count

    extra = {name: column(name) for name in _HEADER_COLUMNS if name in names}
    places = [destination] * count if destination else column("destination")
    rows = zip(places, column("body"), column("headers"), column("persistent"), strict=True)
    extras = zip(*extra.values(), strict=True) if extra else iter([()] * count)
    for (place, body, mapped, persistent), values in zip(rows, extras, strict=True):
        if not place:
            raise ConfigError(["destination: a row has none"])
        headers = {key: value for key, value in mapped or () if key not in _NOT_SENT}
        for name, value in zip(extra, values, strict=True):
            if value is not None:
                headers[_HEADER_COLUMNS[name]] = value
        content = body.encode() if isinstance(body, str) else body or b""
        yield _full_name(place), content, headers, persistent is not False


def _full_name(destination: str) -> str:
    """A queue's name as the log has it, without a prefix, means that queue."""
    is_full = destination.startswith("/") or "://" in destination
    return destination if is_full else f"/queue/{destination}"

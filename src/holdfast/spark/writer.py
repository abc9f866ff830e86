"""
`df.write` and `df.writeStream` to a queue: each row becomes a message, stored exactly once.

Every task sends under a producer id made from the write, the partition and the destination, and
numbers its rows from 1. A task that Spark runs again sends the same rows under the same numbers,
and the cluster confirms again what it has. So a task must see the same rows in the same order when
it runs again: sort within partitions where a shuffle stands before the write.

Invariants:
    A task ends well only when the cluster has stored all its rows.
    Under one producer id a number always stands for the same row.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from holdfast.client import Connection, Producer, connect
from holdfast.errors import ConfigError
from holdfast.spark.log_client import RemoteLog
from holdfast.spark.options import urls_of
from holdfast.spark.schema import COLUMNS

QUERY_ID_PROPERTY: Final = "sql.streaming.queryId"
BATCH_ID_PROPERTY: Final = "streaming.sql.batchId"
"""Under these names Spark tells a task which query and batch it works for."""

WINDOW_DEFAULT: Final = 2_000

_HEADER_COLUMNS: Final = {
    "correlation_id": "correlation-id",
    "reply_to": "reply-to",
    "group_id": "JMSXGroupID",
    "priority": "priority",
}
_NOT_SENT: Final = frozenset({"content-length", "persistent", *_HEADER_COLUMNS.values()})
"""Headers of a message read that are made anew: from its columns, or by the client."""

_OPTIONS: Final = ("uri", "url", "destination", "write_id", "window")
_OF_SPARK: Final = "checkpointlocation"
"""Spark hands its own option of a stream through."""

_KNOWN_COLUMNS: Final = frozenset(column.name for column in COLUMNS["backlog"])


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Where rows are sent, and under which name."""

    uri: str
    write_id: str
    destination: str = ""
    window: int = WINDOW_DEFAULT


@dataclass
class Written(WriterCommitMessage):
    """What one task has stored."""

    messages: int
    body_bytes: int


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
    if "body" not in columns:
        problems.append("columns: what is written needs a column body, binary or string")
    if "destination" not in columns and not given.get("destination"):
        problems.append("destination: name it, or have a column of that name")
    problems += [
        f"columns: {name!r} has no meaning in a message; drop it, or put it into headers"
        for name in sorted(columns - _KNOWN_COLUMNS)
    ]
    window = given.get("window", str(WINDOW_DEFAULT))
    if not window.isdecimal() or not int(window):
        problems.append(f"window: {window!r} is not a whole number from 1")
    if problems:
        raise ConfigError(problems)
    return WriteOptions(
        uri=given.get("uri") or _clients_uri(given["url"]),
        destination=given.get("destination", ""),
        write_id=given.get("write_id") or uuid.uuid4().hex,
        window=int(window),
    )


def _clients_uri(url: str) -> str:
    """Make a failover URI of the client ports that the members tell."""
    status = RemoteLog(urls_of(url)).ask("GET", "/status")
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
        return _write_partition(self.options, f"spark-{self.options.write_id}", iterator)


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
        return _write_partition(self.options, f"spark-{query}-{batch}", iterator)


def _write_partition(
    options: WriteOptions, write: str, batches: Iterator[pa.RecordBatch]
) -> Written:
    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0
    return asyncio.run(_Sending(options, f"{write}-{partition}").run(batches))


class _Sending:
    """One task's messages, each destination with a producer of its own."""

    def __init__(self, options: WriteOptions, name: str) -> None:
        self.options = options
        self.name = name
        self.producers: dict[str, Producer] = {}
        self.written = Written(0, 0)

    async def run(self, batches: Iterator[pa.RecordBatch]) -> Written:
        """Send all rows; return once every one is stored."""
        async with connect(self.options.uri, carries_headers=True) as connection:
            while True:
                # In a thread: Spark may let us wait, and heart-beats must go on meanwhile.
                batch = await asyncio.to_thread(next, batches, None)
                if batch is None:
                    break
                await self._send(connection, batch)
            for producer in self.producers.values():
                await producer.flush()
        return self.written

    async def _send(self, connection: Connection, batch: pa.RecordBatch) -> None:
        for destination, body, headers, persistent in rows_to_send(batch, self.options.destination):
            producer = self.producers.get(destination)
            if producer is None:
                producer = self.producers[destination] = connection.producer(
                    destination,
                    window=self.options.window,
                    producer_id=f"{self.name}/{destination}",
                )
            await producer.send(body, headers=headers, persistent=persistent)
            self.written.messages += 1
            self.written.body_bytes += len(body)


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

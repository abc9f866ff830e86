"""
Replay: messages of an archive or a log, chosen by a condition, sent to a cluster once more.

Spark reads and chooses; one sender on the driver takes the rows in the order of the log, so that
the order within and between queues is kept and one rate holds for all. Where the order between
queues, and between every ten thousand messages of one, does not matter, Spark's tasks send instead
(`replay_spread`).

Nothing is stored twice: producers' ids are made from the choice and from what identifies a message,
see `replay_numbers`. The same choice run again, in full or further, gives every message its old
number; from a source that begins later, too, but for messages of the blocks that it cuts.

Of files only what is certain to be committed is sent, and a source must tell whose log it is.

Invariants:
    The same choice over the same source gives each message the same producer id and number.
    No message has a producer id and number that another message had in another run.
    A log that may have dropped messages is refused: it would choose others the next time.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from holdfast.client.sequence import is_lasting
from holdfast.environment.clock import Clock, SystemClock
from holdfast.errors import ConfigError, LimitReachedError, StoreError
from holdfast.model.destination import Kind, parse_destination
from holdfast.model.facts import TOPIC_MARK
from holdfast.model.producer_ids import ROOM_PATTERN
from holdfast.spark.archive.places import HADOOP_KEYS, with_hadoop_options
from holdfast.spark.archive.source import ArchivedSource
from holdfast.spark.columns.schema import choose_columns, spark_schema
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.holds import held_for_a_while
from holdfast.spark.log.proof import CommittedDirectory
from holdfast.spark.log.source import LogPosition, LogSource
from holdfast.spark.pipelines.replay_numbers import (
    BLOCK_SEQUENCES,
    PRODUCERS_MAX,
    Beginning,
    Stretches,
    own_producers,
)
from holdfast.spark.pipelines.replay_sender import ReplayProgress, Sender, Told, first_copies
from holdfast.spark.pipelines.replay_spread import SENDERS_MAX, Sending, send_spread
from holdfast.spark.pipelines.stretches import load_stretches
from holdfast.spark.source.needed_columns import query_needed
from holdfast.spark.source.open_source import open_source
from holdfast.spark.source.options import microseconds, read_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger("holdfast.spark")

_SENT_COLUMNS: Final = (
    "index as log_index",  # a row has a method of the column's own name
    "ordinal",
    "term",
    "unix_micros(stored_at) as stored_us",
    "queue_number",
    "sequence",
    "rewritten",
    "destination",
    "header_block",
    "body",
)
_PLACE_OPTIONS: Final = {"url", "path", "secret_file", "token_file", "cluster_id", *HADOOP_KEYS}
"""What says where a source is. Others leave messages out, which moves the numbers of the rest."""

_MOMENT_WORD: Final = re.compile(
    r"""(['"])\s*(?:now|today|tomorrow|yesterday)\b[^'"]*\1""", re.IGNORECASE
)
"""What Spark makes a fixed time of, before anybody sees a plan, wherever a time is wanted: as a
typed literal, in a cast or a function, or compared with one. As a mere text it is refused, too."""
_MEANING: Final = (
    "spark.sql.session.timeZone",
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
    "spark.sql.parser.escapedStringLiterals",
)
"""Settings of Spark's by which one condition chooses this or that."""

Query = Callable[["DataFrame"], "DataFrame"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which messages; all conditions hold together."""

    destinations: tuple[str, ...] = ()
    """Queues and topics by name; empty means all, the dead-letter queue included."""

    start_time: str = ""
    """Stored at or after this time, in ISO 8601; without a zone it is UTC."""

    end_time: str = ""
    """Stored before this time."""

    where: str = ""
    """Any condition in Spark's SQL over the columns of the view `messages`."""

    def names(self) -> tuple[str, ...]:
        """
        The names as the log has them, sorted: a topic's begins with `topic://`.

        Raises:
            DestinationError: One is no destination.
            ConfigError: One is temporary, of which nothing is stored.
        """
        named = {text: parse_destination(text) for text in self.destinations}
        marks = {Kind.QUEUE: "", Kind.TOPIC: TOPIC_MARK}
        if others := [text for text, it in named.items() if it.kind not in marks]:
            raise ConfigError(
                [f"{text}: only queues and topics store messages; choose these" for text in others]
            )
        return tuple(sorted({marks[it.kind] + it.name for it in named.values()}))

    def job(self, cluster_id: str, target: str, meaning: Sequence[str] = ()) -> str:
        """
        Return what all producer ids of this choice begin with.

        `meaning` has the settings by which Spark reads the condition, where there is one.
        """
        fields = [cluster_id, target, *self.names(), self.start_time, self.end_time, self.where]
        if self.where:
            fields += meaning
        return blake2b(json.dumps(fields).encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The chosen messages, and what is known of where they are from."""

    queried: Callable[[Query], DataFrame]
    """What a query makes of them, of the log's columns reading only what it and the choice need."""
    job: str
    """What this replay is known by: that of the same choice and target, whenever it is run."""
    stretches: Stretches
    """Of what the source has all, a copy by the cleaner has its original too."""

    def to_send(self) -> DataFrame:
        """Give them in the order of the log, with all that is sent."""
        return self.queried(lambda messages: messages.selectExpr(*_SENT_COLUMNS))


def read_chosen(
    spark: SparkSession,
    source: dict[str, str],
    choice: Choice,
    target: str,
    *,
    has_uncertain_end: bool = False,
) -> Chosen:
    """
    Return the chosen messages.

    What this very replay has stored at its target is never chosen, where that is in the source.

    Args:
        source: `url` or `path` and the other options of the data source.
        has_uncertain_end: Of files, choose also what may not have been committed.

    Raises:
        ConfigError: The condition is not one, or would choose differently another time.
        StoreError: The source no longer has its beginning and is no archive; or it does not tell
            whose log it is.
    """
    source = with_hadoop_options(spark, source)
    log = _opened(source, has_uncertain_end=has_uncertain_end)
    return _read(spark, source, log, choice, target)


def _opened(source: dict[str, str], *, has_uncertain_end: bool) -> LogSource:
    """Open the source; of files as far as it is certain that the cluster has committed them."""
    asked = read_options(source)
    others = sorted(key for key in source if key.lower() not in _PLACE_OPTIONS)
    if others:
        raise ConfigError(
            [f"{key}: a replay counts from the beginning; say by the choice what" for key in others]
        )
    log = open_source(asked)
    if not isinstance(log, LogDirectory) or has_uncertain_end:
        return log
    certain = CommittedDirectory(log.path, cluster_id=log.cluster_id)
    last, known = log.position().last_index, certain.position().last_index
    if known < last:
        logger.warning(
            "%s: it is not certain that entries %s to %s were committed; they are left out",
            log.path,
            f"{known + 1:,}",
            f"{last:,}",
        )
    return certain


def _read(
    spark: SparkSession, source: dict[str, str], log: LogSource, choice: Choice, target: str
) -> Chosen:
    options = source | {"view": "messages"}
    position = log.position()
    if position.first_index > 1 and not isinstance(log, ArchivedSource):
        raise StoreError(
            f"the log begins with entry {position.first_index:,}, the rest was cleaned away:"
            " run again later it would choose others; replay from an archive"
        )
    if not position.cluster_id:
        raise StoreError(
            "the source does not tell which cluster's log it is, as a copy without the file ballot"
            " does not: messages of two clusters would get the same numbers, and the target drop"
            " some as repeated; copy the whole data directory, or read by --url"
        )
    # All that reads it reads as far, however much it grows meanwhile: what is counted is what is
    # sent, and a queue of which a source is said to have the first message has it.
    options["end_index"] = str(max(position.last_index, 1))
    meaning = [str(spark.conf.get(it)) for it in _MEANING]
    job = choice.job(position.cluster_id, str(parse_destination(target)), meaning)
    stretches = _stretches(spark, options, log, position)
    is_empty = position.last_index < position.first_index

    def load(columns: tuple[str, ...]) -> DataFrame:
        messages = load_stretches(spark, options | {"columns": ", ".join(columns)}, log)
        return messages.where("false") if is_empty else messages

    def queried(query: Query) -> DataFrame:
        def of_all(messages: DataFrame) -> DataFrame:
            return query(choose(messages, choice, job, has_beginning=stretches.is_whole))

        return query_needed(spark, of_all, everything, load)

    everything = spark_schema("messages", choose_columns("messages", "*,header_block"))
    return Chosen(queried=queried, job=job, stretches=stretches)


def _stretches(
    spark: SparkSession, options: dict[str, str], log: LogSource, position: LogPosition
) -> Stretches:
    """Find where the source begins, and where it goes on behind each hole."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - the packages are an extra

    parts = [(position.first_index, position.last_index)]
    if isinstance(log, ArchivedSource):
        parts = log.stretches()
    if len(parts) == 1 and position.first_index <= 1:
        return Stretches()
    columns = "index,queue_number,sequence,rewritten"
    places = load_stretches(spark, options | {"columns": columns}, log).where("not rewritten")
    ranges = f.broadcast(spark.createDataFrame(parts, "begin long, end long"))
    firsts = (
        places.join(ranges, f.expr("index between begin and end"))
        .groupBy("begin", "queue_number")
        .agg(f.min("sequence"))
    )
    sequences: dict[int, dict[int, int]] = {first: {} for first, _ in parts}
    for begin, queue_number, first in firsts.collect():
        sequences[begin][queue_number] = first
    found: list[Beginning] = []
    lacking: list[tuple[int, int]] = []
    expected = 1
    for first, last in parts:
        if first > expected:
            lacking.append((expected, first - 1))
        found.append(Beginning(first, sequences[first], tuple(lacking) if found else ()))
        expected = last + 1
    return Stretches(tuple(found))


def choose(
    messages: DataFrame, choice: Choice, job: str, *, has_beginning: bool = True
) -> DataFrame:
    """
    Keep the chosen ones of the messages. Narrow: the order stays that of the log.

    Those that this replay has sent itself are left out: they would come again each time.

    Where the source has its beginning, copies by the cleaner are left out here; otherwise the
    sender leaves out those that it has seen.

    Raises:
        ConfigError: See `read_chosen`.
    """
    from pyspark.errors import PySparkException  # noqa: PLC0415 - the packages are an extra
    from pyspark.sql import functions as f  # noqa: PLC0415 - the packages are an extra

    said = f.regexp_replace("producer_id", ROOM_PATTERN, "")
    producer = f.coalesce(said, f.lit(""))
    messages = messages.where(~producer.startswith(own_producers(job)))
    names = choice.names()
    if names:
        messages = messages.where(f.col("destination").isin(*names))
    for text, is_start in ((choice.start_time, True), (choice.end_time, False)):
        if text:
            moment = f.timestamp_micros(f.lit(_moment(text)))
            column = f.col("stored_at")
            messages = messages.where(column >= moment if is_start else column < moment)
    if choice.where:
        # It would write Spark's stack trace beside our sentence.
        logging.getLogger("SQLQueryContextLogger").disabled = True
        try:
            messages = messages.where(f.expr(choice.where))
            plan = messages._jdf.queryExecution().analyzed()  # noqa: SLF001 - no public way
        except PySparkException as error:
            reason = next((line for line in str(error).splitlines() if line.strip()), "")
            raise ConfigError([f"where: {choice.where!r} is no condition: {reason}"]) from error
        # What Spark fixes anew for every query: the time under all its names, users, time zones.
        java: Any = messages.sparkSession._jvm  # noqa: SLF001 - no public way
        current = java.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
        is_of_the_moment = plan.containsPattern(current)
        if not plan.deterministic() or is_of_the_moment or _MOMENT_WORD.search(choice.where):
            raise ConfigError(
                [f"where: {choice.where!r} would choose others when run again; use fixed values"]
            )
    if has_beginning:
        messages = messages.where(~f.col("rewritten"))
    return messages


def _moment(text: str) -> int:
    try:
        return microseconds(text)
    except ValueError as error:
        raise ConfigError([f"{text!r} is no time in ISO 8601"]) from error


def replay(
    spark: SparkSession,
    source: dict[str, str],
    choice: Choice,
    target: str,
    uri: str,
    *,
    rate: float | None = None,
    senders: int = 1,
    has_uncertain_end: bool = False,
    producers_max: int = PRODUCERS_MAX,
    timeout: float | None = None,
    told: Told | None = None,
    client_options: dict[str, Any] | None = None,
    clock: Clock | None = None,
) -> ReplayProgress:
    """
    Send the chosen messages to `target` and wait until all are stored there.

    Run again with the same choice and target it stores only what is new, as long as the cluster
    remembers the producers: seven days without use. On a topic numbers do not count, so it gets
    everything each time, as do its durable subscriptions.

    Args:
        uri: Where the target's cluster is, as clients write it.
        rate: Messages per second at most.
        senders: One sends from the driver, in the order of the log. More are tasks of Spark's,
            which reach the target themselves and keep that order for each ten thousand sequences
            of a queue; for a queue only, as a topic would get what a task sends again.
        has_uncertain_end: Of files, send also what may not have been committed.
        producers_max: What is numbered takes a producer for each 10,000 sequences of a queue, and
            the target forgets those beyond its `producer_count_max`: more than this are refused.
        timeout: Seconds after which it ends, if the target has confirmed nothing meanwhile.
        told: Called after every turn; with several senders now and then, of those that are done.
        client_options: Options of `holdfast.client.connect`.

    Raises:
        ConfigError: See `read_chosen`.
        StoreError: See `read_chosen`.
        LimitReachedError: The target could not remember all producers that this would have.
        LinkLostError: The target confirmed nothing for `timeout`.
        HoldfastError: The target refused a message, or the source is damaged. Where a task of
            Spark's meets that, Spark's own error is raised, whose text has it.
    """
    target = str(parse_destination(target))
    _check_senders(senders, target)
    with _held(spark, source, choice, target, has_uncertain_end=has_uncertain_end) as chosen:
        if is_lasting(target):
            _check_producers(chosen, producers_max)
        sending = Sending(
            job=chosen.job,
            target=target,
            stretches=chosen.stretches,
            uri=uri,
            rate=None if rate is None else rate / senders,
            timeout=timeout,
            client_options=client_options or {},
        )
        return _send(chosen.to_send(), sending, senders, told, clock or SystemClock())


def _check_senders(senders: int, target: str) -> None:
    if not 1 <= senders <= SENDERS_MAX:
        raise ConfigError([f"senders: 1 to {SENDERS_MAX:,} are possible, not {senders:,}"])
    if senders > 1 and not is_lasting(target):
        raise ConfigError(
            [f"senders: {target} counts no numbers, so what a task sends again came twice; use one"]
        )


@contextmanager
def _held(
    spark: SparkSession,
    source: dict[str, str],
    choice: Choice,
    target: str,
    *,
    has_uncertain_end: bool,
) -> Iterator[Chosen]:
    """Give what is chosen and keep the log that it is read from while it is sent."""
    source = with_hadoop_options(spark, source)
    log = _opened(source, has_uncertain_end=has_uncertain_end)
    # Sending takes as long as it takes, and each part of the log is read when its turn comes.
    with held_for_a_while(log, "replay"):
        yield _read(spark, source, log, choice, target)


def _send(
    messages: DataFrame, sending: Sending, senders: int, told: Told | None, clock: Clock
) -> ReplayProgress:
    """Send by tasks, or from the driver in the order of the log; wait until all are stored."""
    if senders > 1:
        return send_spread(messages, sending, senders, told, clock)
    found = messages.toLocalIterator(prefetchPartitions=True)
    rows = first_copies(found, sending.stretches)
    sender = Sender(
        sending.job, sending.target, sending.stretches, rate=sending.rate, told=told, clock=clock
    )
    asyncio.run(sender.run(sending.uri, rows, sending.client_options, sending.timeout))
    return sender.progress


def _check_producers(chosen: Chosen, producers_max: int) -> None:
    """
    Make sure that the target remembers every producer until the same is run again.

    Raises:
        LimitReachedError: It would have forgotten some, and store their messages twice then.
    """
    numbered = ("queue_number", f"sequence div {BLOCK_SEQUENCES}", "term")
    count = chosen.queried(lambda messages: messages.selectExpr(*numbered).distinct()).count()
    if count > producers_max:
        raise LimitReachedError(
            f"{count:,} producers would number what is sent, one for every {BLOCK_SEQUENCES:,}"
            f" sequences of a queue, and the target is taken to remember {producers_max:,} of them:"
            " run again, this would store messages twice. Raise producer_count_max in [broker] on"
            f" the target's nodes well above {count:,}, and say so with --producers-max {count}"
        )


def count_chosen(
    spark: SparkSession,
    source: dict[str, str],
    choice: Choice,
    target: str,
    *,
    has_uncertain_end: bool = False,
) -> dict[str, int]:
    """
    Count the chosen messages by destination, without sending any.

    Raises:
        ConfigError: See `read_chosen`.
        StoreError: See `read_chosen`.
    """
    chosen = read_chosen(spark, source, choice, target, has_uncertain_end=has_uncertain_end)

    def counted(messages: DataFrame) -> DataFrame:
        keys = messages.select("queue_number", "sequence", "destination").distinct()
        return keys.groupBy("queue_number", "destination").count()

    rows = chosen.queried(counted).collect()
    return dict(sorted((name or f"queue {number}", count) for number, name, count in rows))

"""
Restore: an archive to a data directory that boots, as of its end, an index or a time.

Spark works out what lived then and packs it into the bodies of entries, in parallel, if that is not
so little that the driver alone is done sooner. The driver seals and writes them: no disk is faster
with help. The restored log holds what lived and nothing else: queues, producers' numbers, policies,
users, grants and the messages with their identities, marked as the cleaner marks its copies.

Invariants:
    Without `accept_broken` nothing is restored from an archive that is not whole up to the end.
    Numbers that the old cluster may have given after that point are never given again.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from holdfast.environment.clock import Clock, SystemClock
from holdfast.errors import ArchiveError, ConfigError, CorruptArchiveError, UnreadableArchiveError
from holdfast.model.facts import TOPIC_MARK
from holdfast.model.records import QueueRecord
from holdfast.spark.archive.fetched_place import fetched
from holdfast.spark.archive.manifests import ArchivedFile, Catalogue
from holdfast.spark.archive.places import Place, absolute
from holdfast.spark.archive.source import ArchivedSource
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.naming import CLUSTER_DIGITS
from holdfast.spark.pipelines.applied_archive import ROWS_MAX, AppliedArchive, is_small
from holdfast.spark.pipelines.log_state import LastingState, moved_on
from holdfast.spark.pipelines.queried_archive import QueriedArchive
from holdfast.spark.pipelines.replica_audit import spread
from holdfast.spark.pipelines.restored_log import LogStart, NewMember, Restored, RestoredLog
from holdfast.spark.worker_memory import keep_loaded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MiB: Final = 1024 * 1024
QUEUES_SKIPPED: Final = 10_000
"""How far the numbers of queues move on: more than are declared between two archivings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreSettings:
    """What is restored, and how."""

    as_of_index: int | None = None
    """The last entry that counts; the archive's end if neither is given."""
    as_of_time: int | None = None
    """Microseconds since the epoch: entries sealed at or before it count."""
    accept_broken: bool = False
    """Restore what there is of an archive that is not whole."""
    is_verified: bool = True
    """Every file is read and compared with its digest before anything is written."""
    segment_bytes: int = 64 * MiB
    rows_here_max: int = ROWS_MAX
    """A whole archive of so few records at most is read here: Spark's first query takes longer."""
    scratch: str = ""
    """Where workers leave what they packed. By default beside the directory, which workers on other
    machines cannot reach: there it must be a path that they share with this one. Who names it has
    them do the work, also of a small archive."""
    member: NewMember = field(default_factory=NewMember)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueAccount:
    """What of one queue comes back."""

    name: str
    messages: int
    bytes: int
    first_sequence: int
    last_sequence: int
    next_sequence: int


@dataclass(slots=True, kw_only=True)
class RestorePlan:
    """What would be restored. Times in microseconds."""

    cluster_id: str
    as_of_index: int
    as_of_time: int
    archive_last_index: int
    queues: list[QueueAccount]
    producers: int
    policies: int
    messages: int
    bytes: int
    missing: list[str]
    """What the archive lacks, one sentence each; empty if it is whole."""
    notes: list[str]
    seconds: float = 0.0
    steps: dict[str, float] = field(default_factory=dict)
    """Where the seconds went, in the order of the work; with Spark's first query, if there is
    one, in the first."""

    restored: Restored | None = None


class _Steps:
    """How long each step took."""

    def __init__(self, clock: Clock) -> None:
        self.found: dict[str, float] = {}
        self._clock = clock
        self._at = clock.monotonic()

    def end(self, name: str) -> None:
        """The step that began where the last one ended is over."""
        now = self._clock.monotonic()
        self.found[name] = now - self._at
        self._at = now


def restore(
    spark: SparkSession,
    archive: Archive,
    directory: Path | None,
    settings: RestoreSettings | None = None,
    *,
    clock: Clock | None = None,
) -> RestorePlan:
    """
    Restore an archive to `directory`; with None only say what would come back.

    Raises:
        ArchiveError: The archive is not whole, or does not reach to what is asked for.
        ConfigError: The directory is in use, or the moment makes no sense.
    """
    settings = settings or RestoreSettings()
    clock = clock or SystemClock()
    steps = _Steps(clock)
    catalogue = archive.catalogue()
    if catalogue.is_empty:
        raise ArchiveError(f"{archive} holds no archive")
    as_of = as_of_index(archive, catalogue, settings)
    rows_here_max = 0 if settings.scratch else settings.rows_here_max
    is_here = is_small(catalogue.files(last_index=as_of), rows_here_max)
    # What is read here is compared, applied and packed: from a store it is fetched once for that.
    near = Archive(fetched(archive.place)) if is_here else archive
    files, missing = usable_files(None if is_here else spark, near, catalogue, as_of, settings)
    steps.end("files checked")
    lived: AppliedArchive | QueriedArchive
    if is_here and not missing:
        lived = AppliedArchive(near, files, as_of)
    else:
        lived = QueriedArchive(spark, ArchivedSource(archive, catalogue), files, as_of)
    with lived:
        state = moved_on(lived.lasting_state(), QUEUES_SKIPPED)
        steps.end("state read")
        start = _log_start(lived, catalogue, as_of)
        plan = _account(catalogue, start, state)
        plan.missing = missing
        names = _by_number(state)
        plan.queues = [_named(each, names.get(number)) for number, each in _queue_accounts(lived)]
        plan.messages = sum(each.messages for each in plan.queues)
        plan.bytes = sum(each.bytes for each in plan.queues)
        steps.end("messages found that live")
        if directory is not None:
            with RestoredLog(directory, start, segment_bytes=settings.segment_bytes) as log:
                log.begin(settings.member, state.generation)
                log.add_state(
                    *(state.queues, state.producers, state.next_queue_number),
                    *(state.policies, state.access),
                )
                cluster = start.cluster_id[:CLUSTER_DIGITS]
                for each in lived.packed(_scratch(settings, log, archive), cluster):
                    log.add_messages(each.body, each.records, each.places)
                log.add_topics(state)
                plan.restored = log.finish()
            _check_written(plan)
            steps.end("messages packed and written")
    plan.steps, plan.seconds = steps.found, sum(steps.found.values())
    return plan


def _scratch(settings: RestoreSettings, log: RestoredLog, archive: Archive) -> Place:
    """A folder for this restore alone, which workers find that stand in other folders than we."""
    folder = str(log.scratch)
    if settings.scratch:
        folder = f"{settings.scratch}/restore-{uuid.uuid4().hex[:12]}"
    return Place(absolute(folder), archive.place.options)


def as_of_index(archive: Archive, catalogue: Catalogue, settings: RestoreSettings) -> int:
    """
    Give the last entry that counts.

    Raises:
        ConfigError: Both an index and a time are given.
        ArchiveError: The archive does not know the state at that moment.
    """
    if settings.as_of_index is not None and settings.as_of_time is not None:
        raise ConfigError(["as-of-index, as-of-time: name one of them"])
    index = catalogue.last_index
    if settings.as_of_index is not None:
        index = settings.as_of_index
        if index > catalogue.last_index:
            raise ArchiveError(
                f"the archive ends with entry {catalogue.last_index:,}; {index:,} is not in it"
            )
    elif settings.as_of_time is not None:
        index = index_at(archive, catalogue, settings.as_of_time)
    needed = catalogue.complete_from
    if not needed and catalogue.first_index > 1:
        raise ArchiveError(
            f"the archive begins with entry {catalogue.first_index:,} of a log that was cleaned"
            f" before, and does not reach to where everything older was written again"
        )
    if index < needed:
        raise ArchiveError(
            f"what lived at entry {index:,} is not known in full: the log was cleaned before it"
            f" was archived, and the archive is complete from entry {needed:,} on"
        )
    return index


def index_at(archive: Archive, catalogue: Catalogue, microseconds: int) -> int:
    """
    Give the last entry sealed at or before a time.

    Raises:
        ArchiveError: The archive begins later.
    """
    chosen = [each for each in catalogue.ranges if each.first_timestamp <= microseconds]
    if not chosen:
        raise ArchiveError("the archive begins after that time")
    newest = chosen[-1]
    if newest.last_timestamp <= microseconds:
        return newest.last_index
    found = newest.first_index
    for file in newest.files:
        for batch in archive.batches(file, ["index", "entry_time"]):
            times = batch.column("entry_time").cast(pa.int64()).to_pylist()
            indexes = batch.column("index").to_pylist()
            pairs = zip(indexes, times, strict=True)
            found = max([found, *(index for index, time in pairs if time <= microseconds)])
    return found


def usable_files(
    spark: SparkSession | None,
    archive: Archive,
    catalogue: Catalogue,
    last_index: int,
    settings: RestoreSettings,
) -> tuple[list[ArchivedFile], list[str]]:
    """
    Give the data files that may be read, and what is missing; without Spark they are read here.

    Raises:
        ArchiveError: Something is missing and that is not accepted.
        UnreadableArchiveError: The store does not give a file: it is not known whether it is good.
    """
    problems = [
        str(each)
        for each in catalogue.breaks
        if each.first_index <= last_index or each.kind == "manifest"
    ]
    files = catalogue.files(last_index=last_index)
    bad: set[str] = set()
    for path, problem in check_files(spark, archive, files, with_digests=settings.is_verified):
        bad.add(path)
        problems.append(problem)
    lost = [file for file in files if file.path in bad]
    if lost:
        count = sum(file.messages for file in lost)
        problems.append(
            f"with these files {count:,} stored messages and every acknowledgement in them are"
            f" missing: messages may be lost, and messages acknowledged there may come again"
        )
    if problems and not settings.accept_broken:
        raise ArchiveError(
            f"the archive is not whole: {'; '.join(problems)}. To restore what there is:"
            f" --accept-broken"
        )
    return [file for file in files if file.path not in bad], problems


def check_files(
    spark: SparkSession | None, archive: Archive, files: list[ArchivedFile], *, with_digests: bool
) -> list[tuple[str, str]]:
    """
    Compare data files with their manifests, with Spark in parallel; gives (path, problem) of the
    bad.

    Raises:
        UnreadableArchiveError: The store does not give one: it may be as good as the others.
    """
    if not files:
        return []
    task = partial(_check_file, archive=archive, with_digests=with_digests)
    found: list[_FileFault] = sorted(
        chain.from_iterable(map(task, files))
        if spark is None
        else spread(spark, files).flatMap(task).collect()
    )
    not_given = [each for each in found if each.is_unreadable]
    if not_given:
        raise UnreadableArchiveError(
            f"{not_given[0].reason} (so it is with {len(not_given):,} of {len(files):,} files)."
            f" That is not damage, so nothing is restored without them: try again when the store"
            f" answers. A file that can never be read counts as missing once it is moved away",
            path=not_given[0].path,
        )
    return [(each.path, f"{each.path}: {each.reason}") for each in found]


class _FileFault(NamedTuple):
    """What a worker says of a file."""

    path: str
    reason: str
    is_unreadable: bool


def _check_file(file: ArchivedFile, *, archive: Archive, with_digests: bool) -> list[_FileFault]:
    keep_loaded()
    try:
        if with_digests:
            archive.check(file)
        else:
            archive.check_size(file)
    except CorruptArchiveError as error:
        is_unreadable = isinstance(error, UnreadableArchiveError)
        return [_FileFault(error.path, error.reason, is_unreadable)]
    return []


def _log_start(
    lived: AppliedArchive | QueriedArchive, catalogue: Catalogue, as_of: int
) -> LogStart:
    """Where a log that follows entry `as_of` begins."""
    end = catalogue.last
    assert end is not None
    if as_of == end.last_index:
        return LogStart(
            index=as_of + 1,
            record=end.next_record,
            term=end.last_term,
            chain=end.chain_after,
            timestamp=end.last_timestamp,
            cluster_id=end.cluster_id,
        )
    last = lived.last_record()
    if last is None:
        raise ArchiveError(f"nothing is left of the archive up to entry {as_of:,}")
    return LogStart(
        index=as_of + 1,
        record=last["record_number"] + (1 if last["ordinal"] >= 0 else 0),
        term=last["term"],
        chain=bytes(last["chain"]).hex(),
        timestamp=last["time"],
        cluster_id=end.cluster_id,
    )


def _account(catalogue: Catalogue, start: LogStart, state: LastingState) -> RestorePlan:
    return RestorePlan(
        cluster_id=start.cluster_id,
        as_of_index=start.index - 1,
        as_of_time=start.timestamp,
        archive_last_index=catalogue.last_index,
        queues=[],
        producers=len(state.producers),
        policies=sum(bool(each.pattern) for each in state.policies),
        messages=0,
        bytes=0,
        missing=[],
        notes=[
            (
                "every queue's numbers go on in a generation of their own, so that no message id"
                " of the old cluster is given again"
            ),
            "named readers of the log (holds) are not restored: they begin anew",
        ],
    )


def _queue_accounts(
    lived: AppliedArchive | QueriedArchive,
) -> list[tuple[int, QueueAccount]]:
    return [
        (
            row["queue_number"],
            QueueAccount(
                name=f"#{row['queue_number']}",
                messages=row["messages"],
                bytes=row["bytes"],
                first_sequence=row["first"],
                last_sequence=row["last"],
                next_sequence=row["last"] + 1,
            ),
        )
        for row in sorted(lived.queues(), key=lambda row: row["queue_number"])
    ]


def _named(account: QueueAccount, queue: QueueRecord | None) -> QueueAccount:
    if queue is None:
        return account
    return replace(account, name=queue.name, next_sequence=queue.next_sequence)


def _check_written(plan: RestorePlan) -> None:
    restored = plan.restored
    assert restored is not None
    if restored.messages != plan.messages:
        raise ArchiveError(
            f"{plan.messages:,} messages lived and {restored.messages:,} were written to the"
            f" directory: do not use it"
        )


def _by_number(state: LastingState) -> dict[int, QueueRecord]:
    """Give queues, and topics as if they were some."""
    topics = [
        QueueRecord(it.topic_number, f"{TOPIC_MARK}{it.name}", it.next_sequence)
        for it in state.topics
    ]
    return {it.queue_number: it for it in (*state.queues, *topics)}

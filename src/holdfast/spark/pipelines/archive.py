"""
Archive: the log to Parquet, once or continuously, every entry exactly once.

A commit is a run of log ranges, one per task; the next one is written while one is published.
Tasks prove the chain of what they read and write durable files under names of their own; the driver
joins their reports, checks that the chains fit end to end and to the archive's end, and publishes
one manifest. What a killed driver or executor left behind is named by no manifest and so never
counts. Where to go on is read from the archive itself: there is no other state that could disagree
with it.

Invariants:
    A manifest is published only if it begins where the archive ends, with the same chain value.
    The hold moves only past what is published.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from holdfast.environment.clock import Clock, SystemClock
from holdfast.errors import ArchiveError
from holdfast.spark.archive.cleaning import retire
from holdfast.spark.archive.manifest_reader import ManifestReader
from holdfast.spark.archive.manifests import Break, Catalogue, Manifest
from holdfast.spark.archive.range_writer import COMPRESSION, new_attempt, remove_attempt
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.proof import chain_before_log, next_record_of
from holdfast.spark.log.source import NO_CHAIN, LogPosition, LogSource
from holdfast.spark.pipelines.archive_continuity import check_same_log
from holdfast.spark.pipelines.job_ahead import JobAhead
from holdfast.spark.pipelines.written_ranges import (
    LogRange,
    WrittenRange,
    joined,
    merge_range,
    write_range,
)

logger = logging.getLogger("holdfast.spark")

MiB: Final = 1024 * 1024
RANGE_ENTRIES_MAX: Final = 200_000
"""A task takes a segment, or so many entries of one."""

ENDED_COUNT_MIN: Final = 4
"""So many small ranges are merged where the log has gone on beyond their stretch: no more come."""

GROUPS_MAX: Final = 16
"""So many merged ranges are written at once: an archiver has the log to follow meanwhile."""

TASKS_END_SECONDS: Final = 5.0
"""Spark looks every 2 s whether a task is to end, and gives its worker 2 s more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSettings:
    """How an archive is written."""

    tasks_per_commit: int = 16
    """Ranges written in parallel and committed together."""

    compression: str = COMPRESSION
    """Parquet's codec."""

    compact_bytes: int = 64 * MiB
    """Neighbouring ranges of so many bytes of the log are merged; 0 leaves them alone."""

    compact_count_min: int = 32
    """So many small ranges must have gathered before they are merged, as long as more may come."""

    accept_gap: bool = False
    """
    Go on behind entries that the log dropped before they were archived; they stay missing.

    What else may be wrong with an archive is never accepted.
    """


@dataclass(slots=True)
class ArchiveProgress:
    """What was archived by this run, and how far behind the log it is. For people and programs."""

    commits: int = 0
    entries: int = 0
    messages: int = 0
    log_bytes: int = 0
    file_bytes: int = 0
    seconds: float = 0.0
    last_index: int = 0
    lag_entries: int = 0
    lag_records: int = 0
    lag_seconds: float = 0.0
    compacted: int = 0
    swept: int = 0
    warnings: list[str] = field(default_factory=list)


Told = Callable[[ArchiveProgress], None]
MoveHold = Callable[[int], None]
"""Told the first index that is not archived yet, after every commit."""


def archive_once(
    spark: Any,
    source: LogSource,
    archive: Archive,
    settings: ArchiveSettings | None = None,
    *,
    told: Told | None = None,
    move_hold: MoveHold | None = None,
    clock: Clock | None = None,
    progress: ArchiveProgress | None = None,
    reader: ManifestReader | None = None,
) -> ArchiveProgress:
    """
    Archive everything that is committed now and not archived yet.

    Safe to kill at any moment and to run again. `progress` of an earlier call is carried on, and so
    is what `reader` knows of the manifests.

    Raises:
        ArchiveError: Archive and log do not fit together; nothing was published.
        CorruptEntryError: The log is damaged; the error names the place.
    """
    settings = settings or ArchiveSettings()
    clock = clock or SystemClock()
    progress = progress or ArchiveProgress()
    began, seconds_before = clock.monotonic(), progress.seconds
    position = source.position()
    reader = reader or archive.reader()
    catalogue = reader.catalogue()
    _check_continues(catalogue, position, settings, progress)
    check_same_log(source, archive, catalogue, position)
    log_start = chain_before_log(source, position)
    next_record = next_record_of(source, position)

    def tell() -> None:
        _measure_lag(progress, catalogue, position, next_record, clock)
        progress.seconds = seconds_before + clock.monotonic() - began
        if told is not None:
            told(progress)

    work = _Work(spark, source, archive, settings, reader)
    before = progress.commits
    with closing(_commits(work, catalogue, position, log_start)) as manifests:
        for manifest in manifests:
            catalogue = replace(catalogue, ranges=(*catalogue.ranges, manifest))
            _count(progress, manifest)
            if move_hold is not None:
                move_hold(manifest.last_index + 1)
            tell()
    if progress.commits == before:
        tell()
    return progress


def plan(
    catalogue: Catalogue, position: LogPosition, tasks_max: int, log_start: str
) -> list[LogRange]:
    """
    Cut what is to be archived next into ranges, one per task.

    The first commit of an archive has one range only: most queues are declared there, and tasks
    that run together do not know what the others find. `log_start` is the chain before the log.
    """
    end = catalogue.last
    if end is None:
        first, chain = position.first_index, log_start
        tasks_max = 1
    else:
        first, chain = end.last_index + 1, end.chain_after
        if first < position.first_index:
            first, chain = position.first_index, log_start
    ends = [base - 1 for base in position.bases if base > first]
    ranges: list[LogRange] = []
    known: str | None = chain
    while first <= position.last_index and len(ranges) < tasks_max:
        last = min([position.last_index, first + RANGE_ENTRIES_MAX - 1, *ends])
        ends = [each for each in ends if each > last]
        ranges.append(LogRange(first, last, known))
        first, known = last + 1, None
    return ranges


def _check_continues(
    catalogue: Catalogue,
    position: LogPosition,
    settings: ArchiveSettings,
    progress: ArchiveProgress,
) -> None:
    # What is worse than a gap, and may be why there is one, is told first.
    for each in sorted(catalogue.breaks, key=lambda it: it.kind == "gap"):
        _check_passable(each, position, settings)
    end = catalogue.last
    if end is None:
        if position.first_index > 1:
            progress.warnings.append(
                f"the log begins with entry {position.first_index:,}: what it held before was"
                f" cleaned away and is in no archive"
            )
        return
    if position.cluster_id != end.cluster_id:
        raise ArchiveError(
            f"the archive is of cluster {end.cluster_id[:8]}, the log of cluster"
            f" {position.cluster_id[:8]}: every cluster needs an archive of its own"
        )
    if end.last_index + 1 < position.first_index:
        reason = (
            f"entries {end.last_index + 1:,} to {position.first_index - 1:,} were cleaned from the"
            f" log before they were archived"
        )
        if not settings.accept_gap:
            raise ArchiveError(
                f"{reason}; another node may still have them. To go on without them: --accept-gap."
                f" A hold (--hold NAME) keeps this from happening"
            )
        progress.warnings.append(reason)


def _check_passable(found: Break, position: LogPosition, settings: ArchiveSettings) -> None:
    """Make sure that an archive may grow behind this break: entries that nobody can bring back."""
    see = "run 'holdfast audit' to see everything that is wrong"
    if not settings.accept_gap:
        raise ArchiveError(f"the archive is not whole, so nothing is added to it: {found}; {see}")
    if found.kind != "gap":
        raise ArchiveError(
            f"--accept-gap goes on without entries that are gone, and nothing else; this is no gap,"
            f" so nothing is added to the archive: {found}; {see}"
        )
    if found.first_index >= position.first_index:
        raise ArchiveError(
            f"--accept-gap goes on without entries that are gone, and the log still has these, so"
            f" nothing is added to the archive: {found}; bring their manifest back, or archive to"
            f" another --to"
        )


@dataclass(frozen=True, slots=True)
class _Work:
    """With what, from where and to where."""

    spark: Any
    source: LogSource
    archive: Archive
    settings: ArchiveSettings
    reader: ManifestReader


def _commits(
    work: _Work, catalogue: Catalogue, position: LogPosition, log_start: str
) -> Generator[Manifest]:
    """
    Write and publish commit after commit up to a position; gives what was published.

    The ranges of the next one are written while one is published, and told of. To be closed: what
    is being written then is given up. Its files go if the job has ended; what a cancelled one has
    left no manifest names, so it is no part of the archive, and `sweep` sets it aside.
    """
    settings = work.settings
    ranges = plan(catalogue, position, settings.tasks_per_commit, log_start)
    ahead: JobAhead[list[WrittenRange]] | None = None
    try:
        while ranges:
            try:
                names = work.source.queue_names() | catalogue.queues
                day = _last_day(catalogue)
                written = _write(work, ranges, names, day) if ahead is None else ahead.take()
                ahead = None
                manifest = joined(written, position.cluster_id)
                after = replace(catalogue, ranges=(*catalogue.ranges, manifest))
                following = plan(after, position, settings.tasks_per_commit, log_start)
                if following:
                    names_after = names | after.queues
                    write = partial(_write, work, following, names_after, _last_day(after))
                    ahead = JobAhead(work.spark.sparkContext, write)
                manifest = _publish(work, catalogue, ranges, written, names, position)
            except Exception:
                # Promoted by force under the tasks, which only see entries that do not fit.
                check_same_log(work.source, work.archive, catalogue, work.source.position())
                raise
            yield manifest
            catalogue = replace(catalogue, ranges=(*catalogue.ranges, manifest))
            ranges = following
    finally:
        for each in (ahead.give_up() if ahead is not None else None) or ():
            for file in each.files:
                with suppress(OSError):  # `sweep` removes what no manifest names, later
                    work.archive.place.remove(file.path)


def _publish(
    work: _Work,
    catalogue: Catalogue,
    ranges: list[LogRange],
    written: list[WrittenRange],
    names: dict[int, str],
    position: LogPosition,
) -> Manifest:
    """Join what was written in parallel, and make it part of the archive."""
    found = {number: name for each in written for number, name in each.queues.items()}
    late = [
        place
        for place, each in enumerate(written)
        if each.unknown & {n for other in written[:place] for n in other.queues}
    ]
    if late:
        # Queues declared by one of these ranges and used by a later one: rare, and only names.
        day = _last_day(catalogue)
        again = _write(work, [ranges[place] for place in late], names | found, day)
        for place, each in zip(late, again, strict=True):
            for file in written[place].files:
                work.archive.place.remove(file.path)
            written[place] = each
    manifest = joined(written, position.cluster_id)
    _check_seam(work.reader, catalogue, manifest)
    work.archive.publish(manifest)
    work.reader.expect(manifest)
    return manifest


def _write(
    work: _Work, ranges: list[LogRange], names: dict[int, str], since_day: str
) -> list[WrittenRange]:
    """Write ranges in parallel, each by a task."""
    task = partial(
        write_range,
        source=work.source,
        archive=work.archive,
        names=names,
        compression=work.settings.compression,
    )
    return _written(work.spark, work.archive, task, ranges, since_day)


def _written(
    spark: Any,
    archive: Archive,
    task: Callable[..., WrittenRange],
    pieces: Sequence[Any],
    since_day: str,
) -> list[WrittenRange]:
    """
    Let tasks write, one for each piece; if one fails nothing is left of what the others wrote.

    Who tries again and again would otherwise fill the store with it. Tasks that are still at work
    when the job has failed are ended by Spark a little later: for that it waits.
    """
    attempt = new_attempt()
    work = spark.sparkContext.parallelize(pieces, len(pieces))
    try:
        found: list[WrittenRange] = work.map(partial(task, attempt=attempt)).collect()
    except BaseException as error:
        if len(pieces) > 1 and isinstance(error, Exception):
            time.sleep(TASKS_END_SECONDS)
        remove_attempt(archive.place, attempt, since_day)
        raise
    return found


def _last_day(catalogue: Catalogue) -> str:
    """The day of the last entry archived; what follows is of no earlier one, but for bad clocks."""
    files = catalogue.last.files if catalogue.last is not None else ()
    return files[-1].day if files else ""


def _check_seam(reader: ManifestReader, catalogue: Catalogue, manifest: Manifest) -> None:
    """Look once more, just before publishing: nobody else may have gone on meanwhile."""
    expected = catalogue.last
    known = (expected.last_index, expected.chain_after) if expected else (0, NO_CHAIN)
    found = reader.end()
    if found != known:
        raise ArchiveError(
            f"another archiver wrote entries up to {found[0]:,} meanwhile; nothing was"
            f" published by this one. Let only one run"
        )
    if expected is None or expected.last_index + 1 != manifest.first_index:
        return
    if expected.chain_after != manifest.chain_before:
        raise ArchiveError(
            f"the log does not continue the archive: after entry {expected.last_index:,} the"
            f" archive has chain {expected.chain_after}, the log {manifest.chain_before}. One of"
            f" them was changed, or the cluster was restored; nothing was published"
        )


def _count(progress: ArchiveProgress, manifest: Manifest) -> None:
    progress.commits += 1
    progress.entries += manifest.entries
    progress.messages += manifest.messages
    progress.log_bytes += manifest.log_bytes
    progress.file_bytes += manifest.bytes


def _measure_lag(
    progress: ArchiveProgress,
    catalogue: Catalogue,
    position: LogPosition,
    next_record: int,
    clock: Clock,
) -> None:
    end = catalogue.last
    progress.last_index = catalogue.last_index
    progress.lag_entries = max(position.last_index - catalogue.last_index, 0)
    progress.lag_records = max(next_record - (end.next_record if end else 1), 0)
    progress.lag_seconds = 0.0
    if progress.lag_entries:
        archived = end.last_timestamp if end else position.last_timestamp
        progress.lag_seconds = max(clock.wall_microseconds() - archived, 0) / 1e6


def compact(
    spark: Any,
    archive: Archive,
    settings: ArchiveSettings,
    *,
    clock: Clock | None = None,
    reader: ManifestReader | None = None,
) -> int:
    """
    Merge runs of small neighbouring ranges; gives how many ranges went.

    The merged range is published before the ones it replaces are set aside, and rules from then on.

    Raises:
        CorruptArchiveError: A file to be merged is not what was archived; it stays as it is.
    """
    reader = reader or archive.reader()
    catalogue = reader.catalogue()
    if catalogue.breaks:
        return 0
    groups = mergeable(catalogue.ranges, settings)[:GROUPS_MAX]
    if not groups:
        return 0
    task = partial(merge_range, archive=archive, compression=settings.compression)
    merged = _written(spark, archive, task, groups, groups[0][0].files[0].day)
    for group, written in zip(groups, merged, strict=True):
        manifest = joined([written], group[-1].cluster_id)
        archive.publish(manifest)
        reader.expect(manifest)
    now = (clock or SystemClock()).wall_microseconds()
    retire(archive, now_microseconds=now, reader=reader)
    return sum(len(group) - 1 for group in groups)


def mergeable(ranges: tuple[Manifest, ...], settings: ArchiveSettings) -> list[list[Manifest]]:
    """
    Find runs of at least `compact_count_min` ranges that together make one good file.

    Where no more can come, as the log has gone on, fewer do: else ranges of some MiB stayed small
    for ever.

    Where a run begins and ends at the latest is a place in the log, the same for whoever looks and
    whatever is merged already. So of two merged ranges one holds all of the other, or nothing.
    """
    if not settings.compact_bytes:
        return []
    groups: dict[int, list[Manifest]] = {}
    place = newest = 0
    for manifest in ranges:
        newest = place // settings.compact_bytes
        if manifest.log_bytes < settings.compact_bytes:
            groups.setdefault(newest, []).append(manifest)
        place += manifest.log_bytes
    ended = min(ENDED_COUNT_MIN, settings.compact_count_min)
    return [
        each
        for stretch, each in groups.items()
        if len(each) >= (settings.compact_count_min if stretch == newest else ended)
    ]

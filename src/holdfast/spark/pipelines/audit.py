"""
Audit: do replicas and archive hold the same, and is every message accounted for?

Three questions in this order: is each copy sound in itself and equal to the others (replica_audit),
does the archive give the log back byte for byte and continue the same chain, and does what the log
says add up (accounting). The verdict is one sentence; every difference is a row with its place.

Invariants:
    The verdict is good only if nothing at all was found.
    What could not be compared is never called the same: it is a finding, or there is no verdict.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from holdfast.environment.clock import Clock, SystemClock
from holdfast.errors import (
    ArchiveError,
    ConfigError,
    CorruptArchiveError,
    StoreError,
    UnreadableArchiveError,
)
from holdfast.spark.archive.cleaning import unnamed_before
from holdfast.spark.archive.manifests import ArchivedFile, Catalogue
from holdfast.spark.archive.source import ArchivedSource
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.client import RemoteLog
from holdfast.spark.log.holds import held_for_a_while
from holdfast.spark.log.proof import chain_at
from holdfast.spark.log.source import LogPosition
from holdfast.spark.pipelines.accounting import Account, take_account
from holdfast.spark.pipelines.audit_result import AuditResult
from holdfast.spark.pipelines.findings import Finding
from holdfast.spark.pipelines.log_state import (
    archived_records,
    depths,
    log_records,
    without_content,
)
from holdfast.spark.pipelines.replica_audit import Told, audit_replicas, spread
from holdfast.spark.pipelines.replica_proof import Replica
from holdfast.spark.pipelines.served_depths import compared, served_depths
from holdfast.spark.worker_memory import keep_loaded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def audit(
    spark: SparkSession,
    replicas: list[Replica],
    archive: Archive | None = None,
    *,
    with_account: bool = True,
    told: Told = lambda *_: None,
    clock: Clock | None = None,
) -> AuditResult:
    """
    Compare replicas and archive, and account for every message.

    A cluster's log is held meanwhile, so that nothing goes that is still to be looked at.

    Raises:
        HoldfastError: A replica cannot be read at all.
        ConfigError: There is nothing to audit.
    """
    if not replicas and archive is None:
        raise ConfigError(["audit: name at least one replica (--url, --path) or an archive"])
    with ExitStack() as held:
        kept_from = {
            each.name: held.enter_context(held_for_a_while(each.source, "audit"))
            for each in replicas
        }
        clock = clock or SystemClock()
        began = clock.monotonic()
        result = AuditResult()
        if with_account:
            # Before it is asked how far the logs go, so that those entries are in them.
            result.served = [
                served_depths(each.name, each.source)
                for each in replicas
                if isinstance(each.source, RemoteLog)
            ]
        if replicas:
            result.replicas = audit_replicas(spark, replicas, kept_from, told)
        _audit_rest(spark, replicas, archive, result, with_account=with_account)
        result.seconds = clock.monotonic() - began
        return result


def _audit_rest(
    spark: SparkSession,
    replicas: list[Replica],
    archive: Archive | None,
    result: AuditResult,
    *,
    with_account: bool,
) -> None:
    if result.replicas is not None:
        result.findings += result.replicas.findings
    if archive is not None:
        _audit_archive(spark, archive, result)
        result.findings += _compare(archive, replicas, result)
    if with_account:
        _take_account(spark, replicas, archive, result)


def _audit_archive(spark: SparkSession, archive: Archive, result: AuditResult) -> None:
    catalogue = result.archive = archive.catalogue(with_snapshot=False)
    name = str(archive)
    if catalogue.is_empty:
        reason = "there is no archive: no manifest counts"
        result.findings.append(Finding(where=name, kind="archive-gap", reason=reason))
        return
    result.findings += [
        Finding(
            where=name,
            kind="archive-gap",
            reason=each.reason,
            first_index=each.first_index,
            last_index=each.last_index,
        )
        for each in catalogue.breaks
    ]
    result.findings += _lost_beginning(archive, catalogue)
    files = catalogue.files()
    task = partial(prove_file, archive=archive)
    for found, entries in spread(spark, files).map(task).collect():
        result.findings += found
        result.archive_entries += entries


def _lost_beginning(archive: Archive, catalogue: Catalogue) -> list[Finding]:
    """An archive that begins late and has, or must have had, what was before."""
    first = catalogue.first_index
    if first == 1:
        return []
    reason = ""
    if unnamed := unnamed_before(archive, catalogue):
        reason = (
            f"there are {len(unnamed):,} data files of entries before {first:,}, and no manifest"
            f" names them: a manifest is lost, or a job was killed there before the log was cleaned"
        )
    elif not catalogue.complete_from:
        reason = (
            f"entries 1 to {first - 1:,} are missing from the archive, and nothing in it says that"
            f" what lived was written again"
        )
    if not reason:
        return []
    place = unnamed[0] if unnamed else ""
    return [
        Finding(
            where=str(archive),
            kind="archive-gap",
            reason=reason,
            place=place,
            first_index=1,
            last_index=first - 1,
        )
    ]


def prove_file(file: ArchivedFile, *, archive: Archive) -> tuple[list[Finding], int]:
    """
    Compare a data file with its manifest and rebuild every entry from its rows; in a worker.

    Gives what is wrong, and how many entries were proven.
    """
    keep_loaded()
    findings: list[Finding] = []
    name = str(archive)
    try:
        archive.check(file)
    except CorruptArchiveError as error:
        findings.append(_edited(name, file, error))
        if "missing" in error.reason:
            return findings, 0
    count = 0
    try:
        for _ in archive.entries(file):
            count += 1
    except CorruptArchiveError as error:
        # The entry is the sharper place; what the digest says adds nothing to it.
        findings = [_edited(name, file, error)]
    return findings, count


def _edited(name: str, file: ArchivedFile, error: CorruptArchiveError) -> Finding:
    kind = "missing" if error.reason.startswith("the file is missing") else "edited"
    if isinstance(error, UnreadableArchiveError):
        kind = "unreadable"
    return Finding(
        where=name,
        kind=kind,
        reason=error.reason,
        place=file.path,
        first_index=error.index or file.first_index,
        last_index=error.index or file.last_index,
    )


def _compare(archive: Archive, replicas: list[Replica], result: AuditResult) -> list[Finding]:
    """Compare the archive's chain values with each replica's."""
    catalogue = result.archive
    if catalogue is None or catalogue.is_empty or result.replicas is None:
        return []
    found = []
    for each in replicas:
        position = result.replicas.positions[each.name]
        if position.cluster_id and position.cluster_id != catalogue.cluster_id:
            reason = (
                f"it is of cluster {catalogue.cluster_id[:8]}, {each.name} is of"
                f" {position.cluster_id[:8]}"
            )
            found.append(Finding(where=str(archive), kind="diverged", reason=reason))
            continue
        is_told = bool(result.findings or found)
        found += _compared(ArchivedSource(archive, catalogue), each, position, is_told=is_told)
    return found


def _compared(
    archived: ArchivedSource, replica: Replica, position: LogPosition, *, is_told: bool
) -> list[Finding]:
    """
    Compare the chain values of archive and replica, from the last entry that both have on.

    Raises:
        StoreError: One of them cannot be read, of which no finding tells.
    """
    name, catalogue = str(archived.archive), archived.catalogue
    if position.first_index > catalogue.last_index + 1:
        first, last = catalogue.last_index + 1, position.first_index - 1
        reason = f"entries {first:,} to {last:,} are neither in it nor in the log of {replica.name}"
        return [
            Finding(
                where=name, kind="archive-gap", reason=reason, first_index=first, last_index=last
            )
        ]
    found = []
    for index, chain, place in _archived_chains(archived, position):
        try:
            there = chain_at(replica.source, index)
            here = chain or chain_at(archived, index)
        except UnreadableArchiveError as error:
            found.append(_not_compared(archived, replica, index, error))
            continue
        except StoreError:
            if not (is_told or found):
                raise
            continue  # damaged there: a finding already
        if there == here:
            break
        found.append(
            Finding(
                where=name,
                kind="diverged",
                reason=f"its chain after this entry is not that of {replica.name}:"
                f" {here} here, {there} there",
                place=place,
                first_index=index,
                last_index=index,
            )
        )
    return found


def _not_compared(
    archived: ArchivedSource, replica: Replica, index: int, error: UnreadableArchiveError
) -> Finding:
    """A store that fails may have what is another history: that is not known."""
    return Finding(
        where=str(archived.archive),
        kind="unreadable",
        reason=f"this entry cannot be compared with that of {replica.name}: {error.reason}",
        place=error.path,
        first_index=index,
        last_index=index,
    )


def _archived_chains(
    archived: ArchivedSource, position: LogPosition
) -> Iterator[tuple[int, str, str]]:
    """Where archive and log are compared: index, chain value if a manifest tells it, manifest."""
    catalogue = archived.catalogue
    ends = [
        (manifest.last_index, manifest.chain_after, manifest.name)
        for manifest in catalogue.ranges
        if position.first_index <= manifest.last_index <= position.last_index
    ]
    # A log that ends inside a range, as after a promotion by force.
    if catalogue.first_index <= position.last_index < catalogue.last_index:
        yield position.last_index, "", ""
    yield from reversed(ends)


def _take_account(
    spark: SparkSession, replicas: list[Replica], archive: Archive | None, result: AuditResult
) -> None:
    try:
        records, is_whole, where, last_index = _records(spark, replicas, archive, result)
    except ArchiveError:
        if not result.findings:
            raise
        return
    slim = without_content(records).cache()
    try:
        result.account = take_account(slim, where, is_whole=is_whole)
        result.account_of = where
        result.findings += result.account.findings
        result.findings += _unbalanced(result.account, where)
        _compare_served(slim, last_index, result)
    except Exception as error:
        # What cannot be read was found and named before; Spark only says so once more.
        if not result.findings:
            raise
        result.account = None
        result.account_of = f"not taken: {str(error).splitlines()[0][:200]}"
    finally:
        slim.unpersist()


def _unbalanced(account: Account, where: str) -> list[Finding]:
    """Messages with no fate, or with two: then the account itself cannot be believed."""
    if account.is_balanced:
        return []
    total = sum(account.fates.values())
    reason = f"the account does not add up: {account.messages:,} messages have {total:,} fates"
    return [Finding(where=where, kind="account", reason=reason)]


def _compare_served(records: DataFrame, last_index: int, result: AuditResult) -> None:
    """Compare what nodes serve with what lives in the log after the same entry."""
    lives: dict[int, dict[int, int]] = {}
    for place, served in enumerate(result.served):
        if served.not_told:
            continue
        if served.index > last_index:
            reason = f"it was at entry {served.index:,}, the account ends with {last_index:,}"
            result.served[place] = replace(served, not_told=reason)
            continue
        if served.index not in lives:
            lives[served.index] = depths(records.where(f"index <= {served.index}"))
        result.findings += compared(served, lives[served.index])


def _records(
    spark: SparkSession, replicas: list[Replica], archive: Archive | None, result: AuditResult
) -> tuple[DataFrame, bool, str, int]:
    """The longest history there is: the archive, and the log from its end on; and where it ends."""
    catalogue = result.archive
    bad = {finding.where for finding in result.findings}
    sound = [each for each in replicas if each.name not in bad]
    log = (sound or replicas)[0] if replicas else None
    last = log_position = None
    if log is not None and result.replicas is not None:
        log_position = result.replicas.positions[log.name]
    is_usable = (
        archive is not None
        and catalogue is not None
        and not catalogue.is_empty
        and str(archive) not in bad
    )
    if is_usable and archive is not None and catalogue is not None:
        source = ArchivedSource(archive, catalogue)
        last = catalogue.last_index
        found = archived_records(spark, source, last).drop("file")
        where, is_whole = str(archive), catalogue.first_index == 1
        if log is not None and log_position is not None and log_position.last_index > last:
            if log_position.first_index > last + 1:
                return found, is_whole, where, last
            tail = log_records(spark, log.source, last + 1, log_position.last_index)
            names = f"{where} and {log.name}"
            return found.union(tail), is_whole, names, log_position.last_index
        return found, is_whole, where, last
    if log is None or log_position is None:
        raise ArchiveError("there is nothing whole to take account of")
    rows = log_records(spark, log.source, log_position.first_index, log_position.last_index)
    return rows, log_position.first_index == 1, log.name, log_position.last_index

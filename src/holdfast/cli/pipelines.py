"""
Commands that run on Spark: archive, audit and restore.

They take the same options for where Spark runs, show progress on standard error, and end with what
they did and how fast. With `--json` the result is one JSON document on standard output. Exit codes:
0 done, and for an audit nothing found; 1 failed, or something found; 2 used wrongly.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.archive_table import check_table, table_fields, table_lines
from holdfast.cli.output import (
    EXIT_FAILED,
    format_seconds,
    format_size,
    write_error,
    write_fields,
    write_json,
    write_line,
    write_table,
)
from holdfast.cli.spark_checks import (
    check_archive_from,
    check_archive_to,
    check_file_to,
    check_new_directory,
)
from holdfast.cli.spark_options import (
    ConfOption,
    MasterOption,
    SecretFileOption,
    VerboseOption,
    on_spark,
    open_spark,
    remote_log,
)
from holdfast.environment.clock import SystemClock
from holdfast.errors import ConfigError

if TYPE_CHECKING:
    from holdfast.spark.archive.table import TableState
    from holdfast.spark.log.holds import Hold
    from holdfast.spark.log.source import LogSource
    from holdfast.spark.pipelines.archive import ArchiveProgress
    from holdfast.spark.pipelines.audit import AuditResult
    from holdfast.spark.pipelines.restore import RestorePlan

EXIT_DIFFERENT = 1
INTERVAL_SECONDS_MAX = 86_400.0
KEEP_HOURS_MAX = 100 * 366 * 24.0

UrlOption = Annotated[
    str | None,
    typer.Option("--url", metavar="URL,…", help="Admin ports of the cluster: http://host:port."),
]
PathOption = Annotated[
    str | None, typer.Option("--path", metavar="DIR", help="A data directory, or a copy of one.")
]
IntervalOption = Annotated[
    float,
    typer.Option(
        "--interval",
        min=0.1,
        max=INTERVAL_SECONDS_MAX,
        metavar="SECONDS",
        help="Between two looks.",
    ),
]
KeepOption = Annotated[
    float,
    typer.Option(
        "--keep-superseded",
        min=0.0,
        max=KEEP_HOURS_MAX,
        metavar="HOURS",
        help="How long merged files stay for who reads them; any stays until it is a day old.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Write the result as JSON.")]


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command("archive")(archive)
    app.command("audit")(audit)
    app.command("restore")(restore)


# Archive ------------------------------------------------------------------------------------------


@on_spark
def archive(
    to: Annotated[str, typer.Option("--to", metavar="PATH", help="Any path Spark can write.")],
    url: UrlOption = None,
    path: PathOption = None,
    secret_file: SecretFileOption = None,
    continuous: Annotated[
        bool, typer.Option("--continuous/--once", help="Go on until stopped; by default once.")
    ] = False,
    interval: IntervalOption = 2.0,
    hold: Annotated[
        str | None,
        typer.Option("--hold", metavar="NAME", help="Keep the log until it is archived."),
    ] = None,
    hold_bytes: Annotated[
        str | None,
        typer.Option("--hold-bytes", metavar="SIZE", help="The most that the hold keeps: 16g."),
    ] = None,
    hold_expiry: Annotated[
        str,
        typer.Option("--hold-expiry", metavar="TIME", help="Without us it ends after so long."),
    ] = "7d",
    uncertain_end: Annotated[
        bool,
        typer.Option(
            "--uncertain-end",
            help="With --path: take the end of the log too, which may not have been committed.",
        ),
    ] = False,
    accept_gap: Annotated[
        bool, typer.Option("--accept-gap", help="Go on behind entries that are lost.")
    ] = False,
    keep_superseded: KeepOption = 24.0,
    compression: Annotated[
        str, typer.Option("--compression", metavar="CODEC", help="snappy, zstd, lz4, gzip, none.")
    ] = "snappy",
    table: Annotated[
        str | None,
        typer.Option("--table", metavar="FORMAT", help="Make it a table, too: delta."),
    ] = None,
    json: JsonOption = False,
    master: MasterOption = None,
    conf: ConfOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Write the log to Parquet, every entry exactly once; safe to kill and to run again."""
    from holdfast.cli.archive_run import ArchiveRun
    from holdfast.spark.archive.places import hadoop_options
    from holdfast.spark.archive.store import Archive
    from holdfast.spark.pipelines.archive import ArchiveSettings

    source = _source(url, path, secret_file, uncertain_end=uncertain_end)
    held = _hold(source, hold, hold_bytes, hold_expiry)
    settings = ArchiveSettings(accept_gap=accept_gap, compression=compression)
    check_archive_to(to, compression)
    check_table(table)
    if not (continuous and url):  # Who goes on for ever waits for a cluster that does not answer.
        source.position()
    with open_spark("archive", master, conf, verbose=verbose) as spark:
        store = Archive.open(to, hadoop_options(spark))
        run = ArchiveRun(spark, source, store, settings, held, told=None if json else _tell)
        run.keep_seconds = keep_superseded * 3600
        run.table.is_wanted = table is not None
        run.loop(interval if continuous else None)
    state = run.table.state
    if json:
        write_json({"archive": to} | asdict(run.progress) | table_fields(state))
    else:
        _tell_archived(run.progress, to, state)
    if table is not None and run.table.failure:
        raise typer.Exit(EXIT_FAILED)


def _tell(progress: ArchiveProgress) -> None:
    write_error(progress_line(progress))


def progress_line(progress: ArchiveProgress) -> str:
    """What was archived so far, and how far behind the cluster that is."""
    return (
        f"archived {progress.entries:,} entries, {progress.messages:,} messages,"
        f" {format_size(progress.log_bytes)}; through entry {progress.last_index:,}; behind by"
        f" {progress.lag_seconds:.1f} s, {progress.lag_records:,} records"
    )


def _tell_archived(progress: ArchiveProgress, to: str, table: TableState | None) -> None:
    rate = progress.messages / progress.seconds if progress.seconds else 0.0
    write_fields(
        [
            ("archive", to),
            ("entries", progress.entries),
            ("messages", progress.messages),
            ("of the log", format_size(progress.log_bytes)),
            ("in files", format_size(progress.file_bytes)),
            ("through entry", progress.last_index),
            ("behind", f"{progress.lag_seconds:.1f} s, {progress.lag_records:,} records"),
            ("merged ranges", progress.compacted),
            ("took", f"{format_seconds(progress.seconds)}, {rate:,.0f} messages/s"),
            *table_lines(table),
        ]
    )


def _source(
    url: str | None, path: str | None, secret_file: Path | None, *, uncertain_end: bool = False
) -> LogSource:
    from holdfast.spark.archive.places import absolute
    from holdfast.spark.log.directory import LogDirectory
    from holdfast.spark.log.proof import CommittedDirectory

    if (url is None) == (path is None):
        raise ConfigError(["--url, --path: name one of them: where the log is read from"])
    if url is not None:
        return remote_log(url, secret_file)
    assert path is not None
    directory = LogDirectory(absolute(path))
    return directory if uncertain_end else CommittedDirectory(directory.path)


def _hold(source: LogSource, name: str | None, size: str | None, expiry: str) -> Hold | None:
    from holdfast.spark.log.client import RemoteLog
    from holdfast.spark.log.holds import Hold
    from holdfast.spark.source.options import duration_of, size_of

    if name is None:
        return None
    if not isinstance(source, RemoteLog):
        raise ConfigError(["--hold: files cannot be held; it needs --url"])
    try:
        bytes_max = None if size is None else size_of(size)
    except ValueError as error:
        raise ConfigError([f"--hold-bytes: {error}"]) from error
    try:
        return Hold(source, name, bytes_max, duration_of(expiry))
    except ValueError as error:
        raise ConfigError([f"--hold-expiry: {error}"]) from error


# Audit --------------------------------------------------------------------------------------------


@on_spark
def audit(
    url: Annotated[
        list[str] | None,
        typer.Option("--url", metavar="URL", help="Admin port of a node; repeat for each."),
    ] = None,
    path: Annotated[
        list[str] | None,
        typer.Option("--path", metavar="DIR", help="A data directory; repeat for each."),
    ] = None,
    archived: Annotated[
        str | None, typer.Option("--archive", metavar="PATH", help="An archive of the log.")
    ] = None,
    secret_file: SecretFileOption = None,
    report: Annotated[
        str | None,
        typer.Option("--report", metavar="FILE", help="Differences as .json lines or Parquet."),
    ] = None,
    account: Annotated[
        bool, typer.Option("--account/--no-account", help="Account for every message too.")
    ] = True,
    json: JsonOption = False,
    master: MasterOption = None,
    conf: ConfOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Prove that replicas and archive hold the same, and that no message is missing."""
    from holdfast.spark.archive.places import absolute, hadoop_options
    from holdfast.spark.archive.store import Archive
    from holdfast.spark.log.directory import LogDirectory
    from holdfast.spark.pipelines.audit import audit as run_audit
    from holdfast.spark.pipelines.findings import write_findings
    from holdfast.spark.pipelines.replica_proof import Replica

    replicas = [
        Replica(address, remote_log(address, secret_file))
        for each in url or []
        for address in each.split(",")
    ]
    replicas += [Replica(each, LogDirectory(absolute(each))) for each in path or []]
    if not replicas and archived is None:
        raise ConfigError(["--url, --path, --archive: name what is to be audited"])
    if archived is not None:
        check_archive_from(archived)
    if report is not None and "://" not in report:
        check_file_to(Path(report), "--report")
    with open_spark("audit", master, conf, verbose=verbose) as spark:
        settings = hadoop_options(spark)
        store = Archive.open(archived, settings) if archived else None
        told = (lambda *_: None) if json else _tell_hashed
        result = run_audit(spark, replicas, store, with_account=account, told=told)
    if report is not None:
        write_findings(result.findings, report, settings)
    if json:
        write_json(audit_json(result))
    else:
        _tell_audit(result)
    if not result.is_sound:
        raise typer.Exit(EXIT_DIFFERENT)


def _tell_hashed(name: str, count: int, done: int) -> None:
    """How far a node is that reads its files for their digests."""
    if done < count:
        write_error(f"{name}: {done:,} of {count:,} segments hashed")


def audit_json(result: AuditResult) -> dict[str, Any]:
    """The result of an audit for programs."""
    replicas = result.replicas
    return {
        "sound": result.is_sound,
        "verdict": result.verdict,
        "proven": result.proven,
        "not_proven": result.not_proven,
        "findings": [asdict(each) for each in result.findings],
        "replicas": {
            name: {"first_index": it.first_index, "last_index": it.last_index}
            for name, it in (replicas.positions.items() if replicas else ())
        },
        "segments_equal": replicas.segments_equal if replicas else 0,
        "segments_proven": replicas.segments_proven if replicas else 0,
        "entries_proven": replicas.entries if replicas else 0,
        "archive_entries_proven": result.archive_entries,
        "messages": result.account.messages if result.account else None,
        "fates": result.account.fates if result.account else None,
        "seconds": result.seconds,
    }


def _tell_audit(result: AuditResult) -> None:
    if result.replicas is not None:
        rows = [
            (name, it.first_index, it.last_index, len(it.bases))
            for name, it in result.replicas.positions.items()
        ]
        write_table(("replica", "first entry#", "last entry#", "segments#"), rows)
        write_line(
            f"segments equal by hash: {result.replicas.segments_equal:,}; proven entry by entry:"
            f" {result.replicas.segments_proven:,}, {result.replicas.entries:,} entries"
        )
    if result.archive is not None:
        write_line(
            f"archive: entries {result.archive.first_index:,} to {result.archive.last_index:,},"
            f" {result.archive_entries:,} rebuilt from their rows and proven"
        )
    if result.account is not None:
        found = ", ".join(f"{count:,} {fate}" for fate, count in result.account.fates.items())
        write_line(f"{result.account.messages:,} messages in {result.account_of}: {found}")
    elif result.account_of:
        write_line(f"account {result.account_of}")
    for finding in result.findings:
        write_line(f"- {finding}")
    write_line(result.verdict)
    for sentence in result.proven:
        write_line(f"  proven: {sentence}")
    for sentence in result.not_proven:
        write_line(f"  not proven: {sentence}")
    write_line(f"took {format_seconds(result.seconds)}")


# Restore ------------------------------------------------------------------------------------------


@on_spark
def restore(
    archived: Annotated[str, typer.Option("--archive", metavar="PATH", help="The archive.")],
    to: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="A directory that is not there yet.")
    ] = None,
    as_of_index: Annotated[
        int | None, typer.Option("--as-of-index", min=1, metavar="N", help="The last entry.")
    ] = None,
    as_of_time: Annotated[
        str | None,
        typer.Option("--as-of-time", metavar="TIME", help="ISO 8601, in UTC if it has no zone."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would come back.")
    ] = False,
    accept_broken: Annotated[
        bool, typer.Option("--accept-broken", help="Restore what there is of a broken archive.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Read every file against its digest.")
    ] = True,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="The node that will run on it.")
    ] = "holdfast",
    address: Annotated[
        str, typer.Option("--address", metavar="HOST:PORT", help="Its peer port, if it has one.")
    ] = "",
    site: Annotated[str, typer.Option("--site", metavar="SITE", help="Its site.")] = "",
    segment: Annotated[
        str, typer.Option("--segment", metavar="SIZE", help="Segment size of the new cluster.")
    ] = "64m",
    scratch: Annotated[
        str, typer.Option("--scratch", metavar="PATH", help="Shared with the workers of --master.")
    ] = "",
    json: JsonOption = False,
    master: MasterOption = None,
    conf: ConfOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Turn an archive into a data directory that boots as a new cluster."""
    from holdfast.spark.archive.places import hadoop_options
    from holdfast.spark.archive.store import Archive
    from holdfast.spark.pipelines.restore import RestoreSettings
    from holdfast.spark.pipelines.restore import restore as run_restore
    from holdfast.spark.pipelines.restored_log import NewMember
    from holdfast.spark.source.options import microseconds, size_of

    try:
        settings = RestoreSettings(
            as_of_index=as_of_index,
            as_of_time=microseconds(as_of_time) if as_of_time else None,
            accept_broken=accept_broken,
            is_verified=verify,
            segment_bytes=size_of(segment),
            scratch=scratch,
            member=NewMember(name=name, address=address, site=site),
        )
    except ValueError as error:
        raise ConfigError([f"--as-of-time, --segment: {error}"]) from error
    _check_places(archived, to, is_dry_run=dry_run)
    clock = SystemClock()
    began = clock.monotonic()
    with open_spark("restore", master, conf, verbose=verbose) as spark:
        started = clock.monotonic() - began
        store = Archive.open(archived, hadoop_options(spark))
        plan = run_restore(spark, store, None if dry_run else to, settings)
    plan.steps = {"Spark started": started, **plan.steps}
    if json:
        write_json(asdict(plan))
    else:
        _tell_restored(plan, to, name)


def _check_places(archived: str, to: Path | None, *, is_dry_run: bool) -> None:
    if to is None and not is_dry_run:
        raise ConfigError(["--to: name a directory, or ask for a --dry-run"])
    check_archive_from(archived)
    check_new_directory(None if is_dry_run else to)


def _tell_restored(plan: RestorePlan, to: Path | None, name: str) -> None:
    columns = ("queue", "messages#", "bytes#", "first#", "last#", "next#")
    rows = [
        (it.name, it.messages, it.bytes, it.first_sequence, it.last_sequence, it.next_sequence)
        for it in plan.queues
    ]
    write_table(columns, rows)
    write_line(
        f"as of entry {plan.as_of_index:,} ({_time(plan.as_of_time)}) of"
        f" {plan.archive_last_index:,}: {plan.messages:,} live messages,"
        f" {format_size(plan.bytes)}, {plan.producers:,} producers' numbers"
    )
    for missing in plan.missing:
        write_line(f"missing: {missing}")
    for note in plan.notes:
        write_line(f"note: {note}")
    if plan.restored is None:
        write_line("nothing was written: this was a dry run")
        return
    rate = plan.messages / plan.seconds if plan.seconds else 0.0
    write_line(
        f"{to} is cluster {plan.restored.cluster_id[:16]}, fenced from the old one; start it with"
        f" 'holdfast serve --data {to} --name {name}', and keep the old nodes stopped"
    )
    write_line(f"took {format_seconds(plan.seconds)}, {rate:,.0f} messages/s")
    write_line("; ".join(f"{name}: {format_seconds(it)}" for name, it in plan.steps.items()))


def _time(microseconds: int) -> str:
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(microseconds / 1e6, UTC):%Y-%m-%dT%H:%M:%S.%f}Z"

"""
`holdfast archive`: the log to Parquet, once or for as long as it runs.

It shows progress on standard error, and ends with what it did and how fast; with `--json` that is
one JSON document on standard output. Exit codes: 0 done, 1 failed, 2 used wrongly.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.archive_table import check_table, table_fields, table_lines
from holdfast.cli.hidden_passwords import OF_PIPELINE, hide_passwords
from holdfast.cli.output import (
    EXIT_FAILED,
    format_seconds,
    format_size,
    write_error,
    write_fields,
    write_json,
)
from holdfast.cli.spark_checks import (
    check_archive_to,
)
from holdfast.cli.spark_options import (
    ConfOption,
    JsonOption,
    MasterOption,
    SecretFileOption,
    StoresOption,
    VerboseOption,
    on_spark,
    open_spark,
    remote_log,
)
from holdfast.errors import ConfigError

if TYPE_CHECKING:
    from holdfast.spark.archive.table import TableState
    from holdfast.spark.log.holds import Hold
    from holdfast.spark.log.source import LogSource
    from holdfast.spark.pipelines.archive import ArchiveProgress

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
ToOption = Annotated[str, typer.Option("--to", metavar="PATH", help="Any path Spark can write.")]
ContinuousOption = Annotated[
    bool, typer.Option("--continuous/--once", help="Go on until stopped; by default once.")
]
HoldOption = Annotated[
    str | None,
    typer.Option("--hold", metavar="NAME", help="Keep the log until it is archived."),
]
HoldBytesOption = Annotated[
    str | None,
    typer.Option("--hold-bytes", metavar="SIZE", help="The most that the hold keeps: 16g."),
]
HoldExpiryOption = Annotated[
    str,
    typer.Option("--hold-expiry", metavar="TIME", help="Without us it ends after so long."),
]
UncertainEndOption = Annotated[
    bool,
    typer.Option(
        "--uncertain-end",
        help="With --path: take the end of the log too, which may not have been committed.",
    ),
]
AcceptGapOption = Annotated[
    bool, typer.Option("--accept-gap", help="Go on behind entries that are lost.")
]
CompressionOption = Annotated[
    str, typer.Option("--compression", metavar="CODEC", help="snappy, zstd, lz4, gzip, none.")
]
TableOption = Annotated[
    str | None,
    typer.Option("--table", metavar="FORMAT", help="Make it a table, too: delta."),
]


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command("archive")(archive)


@on_spark
def archive(
    to: ToOption,
    url: UrlOption = None,
    path: PathOption = None,
    store: StoresOption = None,
    secret_file: SecretFileOption = None,
    continuous: ContinuousOption = False,
    interval: IntervalOption = 2.0,
    hold: HoldOption = None,
    hold_bytes: HoldBytesOption = None,
    hold_expiry: HoldExpiryOption = "7d",
    uncertain_end: UncertainEndOption = False,
    accept_gap: AcceptGapOption = False,
    keep_superseded: KeepOption = 24.0,
    compression: CompressionOption = "snappy",
    table: TableOption = None,
    json: JsonOption = False,
    master: MasterOption = None,
    conf: ConfOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Write the log to Parquet, every entry exactly once; safe to kill and to run again."""
    hide_passwords(OF_PIPELINE)
    from holdfast.cli.archive_run import ArchiveRun
    from holdfast.spark.archive.places import hadoop_options
    from holdfast.spark.archive.store import Archive
    from holdfast.spark.pipelines.archive import ArchiveSettings

    source = _source(url, path, store, secret_file, uncertain_end=uncertain_end)
    held = _hold(source, hold, hold_bytes, hold_expiry)
    settings = ArchiveSettings(accept_gap=accept_gap, compression=compression)
    check_archive_to(to, compression)
    check_table(table)
    if not (continuous and url):  # Who goes on for ever waits for a cluster that does not answer.
        source.position()
    with open_spark("archive", master, conf, verbose=verbose) as spark:
        kept = Archive.open(to, hadoop_options(spark))
        run = ArchiveRun(spark, source, kept, settings, held, told=None if json else _tell)
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
    url: str | None,
    path: str | None,
    store: list[str] | None,
    secret_file: Path | None,
    *,
    uncertain_end: bool = False,
) -> LogSource:
    from holdfast.spark.archive.places import absolute
    from holdfast.spark.log.directory import LogDirectory
    from holdfast.spark.log.proof import CommittedDirectory
    from holdfast.spark.log.store_log import store_log

    if [url is not None, path is not None, bool(store)].count(True) != 1:
        raise ConfigError(["--url, --path, --store: name one of them: where the log is read from"])
    if store:
        return store_log(store)
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
        raise ConfigError(["--hold: only a broker holds its log; it needs --url"])
    try:
        bytes_max = None if size is None else size_of(size)
    except ValueError as error:
        raise ConfigError([f"--hold-bytes: {error}"]) from error
    try:
        return Hold(source, name, bytes_max, duration_of(expiry))
    except ValueError as error:
        raise ConfigError([f"--hold-expiry: {error}"]) from error

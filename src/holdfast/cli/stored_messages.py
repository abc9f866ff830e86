"""
`holdfast replay` and `holdfast report`: what stored messages are good for afterwards.

Both read a cluster, a data directory or an archive through Spark, on this machine unless --master
names a cluster of Spark's. Standard output carries the result; progress and summary go to standard
error. Exit codes as in `main`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.login import token_file
from holdfast.cli.messages import URI_DEFAULT, Login, Rate, Uri, check_destination
from holdfast.cli.output import (
    format_seconds,
    format_size,
    watched_console,
    write_error,
    write_json,
    write_line,
    write_lines,
)
from holdfast.cli.passcodes import Passcode
from holdfast.cli.spark_checks import check_archive_from, check_file_to, check_source
from holdfast.cli.spark_options import (
    ConfOption,
    MasterOption,
    SecretFileOption,
    VerboseOption,
    on_spark,
    started_spark,
)
from holdfast.client import connect
from holdfast.client.sequence import is_lasting
from holdfast.errors import ConfigError

if TYPE_CHECKING:
    from holdfast.spark.pipelines.replay import Choice
    from holdfast.spark.pipelines.replay_sender import ReplayProgress

REPORT_FILE = Path("holdfast-report.html")

Url = Annotated[
    str | None,
    typer.Option("--url", metavar="URLS", help="A cluster: admin ports, http://host:port,..."),
]
Source = Annotated[
    str | None,
    typer.Option("--path", metavar="DIR", help="A data directory, also a stopped node's."),
]
ArchivePath = Annotated[
    str | None, typer.Option("--archive", metavar="PATH", help="An archive, as a path or s3a://.")
]
From = Annotated[
    str | None, typer.Option("--from", metavar="TIME", help="Not before, ISO 8601, UTC.")
]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Before, ISO 8601.")]
Destinations = Annotated[
    list[str] | None,
    typer.Option("--destination", metavar="NAME", help="Of this queue or topic; may be repeated."),
]
Where = Annotated[
    str, typer.Option("--where", metavar="SQL", help="A condition on the columns of messages.")
]
Senders = Annotated[
    int,
    typer.Option(
        "--senders", min=1, help="So many tasks send; order is kept by 10,000 of a queue."
    ),
]
UncertainEnd = Annotated[
    bool,
    typer.Option(
        "--uncertain-end",
        help="With --path: send the end of the log too, which may not have been committed.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count what would be sent.")]
ProducersMax = Annotated[
    int,
    typer.Option(
        "--producers-max", min=1, help="As many as the target's producer_count_max leaves room for."
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout", min=1.0, metavar="SECONDS", help="End if the target confirms nothing so long."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="For programs, on standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")]


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command("replay")(replay)
    app.command("report")(report)


@on_spark
def replay(
    target: Annotated[str, typer.Argument(help="/queue/NAME or /topic/NAME to send to.")],
    uri: Uri = URI_DEFAULT,
    login: Login = None,
    passcode: Passcode = None,
    archive: ArchivePath = None,
    path: Source = None,
    url: Url = None,
    secret_file: SecretFileOption = None,
    destination: Destinations = None,
    start: From = None,
    end: Until = None,
    where: Where = "",
    rate: Rate = None,
    senders: Senders = 1,
    uncertain_end: UncertainEnd = False,
    producers_max: ProducersMax = 150_000,
    timeout: Timeout = None,
    dry_run: DryRun = False,
    master: MasterOption = None,
    conf: ConfOption = None,
    verbose: VerboseOption = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Send stored messages once more; run again, a queue stores nothing twice."""
    check_destination(target)
    source = source_options(archive=archive, path=path, url=url, secret_file=secret_file)
    _check_place(archive, path, is_uncertain=uncertain_end)
    choice = _choice(destination, start, end, where)
    check_source(source | _between(start, end))
    client_options = _looked_at(uri, login, passcode)
    from holdfast.spark.pipelines import replay as pipeline

    with started_spark("replay", master, conf, verbose=verbose) as spark:
        if dry_run:
            counts = pipeline.count_chosen(
                spark, source, choice, target, has_uncertain_end=uncertain_end
            )
            _tell_chosen(counts, is_json=json)
            return
        with _status("replaying", is_quiet=quiet) as told:
            done = pipeline.replay(
                spark,
                source,
                choice,
                target,
                uri,
                rate=rate,
                senders=senders,
                has_uncertain_end=uncertain_end,
                producers_max=producers_max,
                timeout=timeout,
                told=lambda progress: told(_replayed(progress)),
                client_options=client_options,
            )
    _tell_replayed(done, target, is_json=json, is_quiet=quiet)


def _choice(
    destinations: list[str] | None, start: str | None, end: str | None, where: str
) -> Choice:
    from holdfast.spark.pipelines.replay import Choice

    choice = Choice(
        destinations=tuple(destinations or ()),
        start_time=start or "",
        end_time=end or "",
        where=where,
    )
    choice.names()  # What is no queue is said before Spark starts.
    return choice


def _tell_chosen(counts: dict[str, int], *, is_json: bool) -> None:
    if is_json:
        write_json({"would_send": sum(counts.values()), "by_destination": counts})
    else:
        write_lines(f"{count:>12,}  {name}" for name, count in counts.items())


def _check_place(archive: str | None, path: str | None, *, is_uncertain: bool) -> None:
    if archive is not None:
        check_archive_from(archive)
    if is_uncertain and path is None:
        raise ConfigError(["--uncertain-end: only of files is it uncertain; it needs --path"])


def _looked_at(uri: str, login: str | None, passcode: str | None) -> dict[str, Any]:
    """Give the client's options; nothing is sent before there is something."""
    options: dict[str, Any] = {"login": login, "passcode": passcode}
    connect(uri, **options)
    return options


def _tell_replayed(done: ReplayProgress, target: str, *, is_json: bool, is_quiet: bool) -> None:
    if is_json:
        write_json(_replay_json(done, target))
    elif not is_quiet:
        write_error(f"{_replayed(done)}; {_again(target)}")


def _replay_json(done: ReplayProgress, target: str) -> dict[str, Any]:
    return {
        "target": target,
        "producers": f"replay-{done.job}-*",
        "confirmed": done.confirmed,
        "body_bytes": done.body_bytes,
        "by_destination": dict(done.by_destination),
        "seconds": round(done.seconds, 3),
        "rate": round(done.rate, 1),
    }


def _again(target: str) -> str:
    """Say what the same command would do once more."""
    if is_lasting(target):
        return "the same command again stores nothing twice, for seven days"
    return "numbers do not count on a topic: the same command again sends all of it once more"


def _replayed(progress: ReplayProgress) -> str:
    if progress.waits_for:
        return f"waiting for {progress.waits_for}, {progress.confirmed:,} messages confirmed"
    step = f"{progress.step}, " if progress.step else ""
    return (
        f"{step}{progress.confirmed:,} messages confirmed, {format_size(progress.body_bytes)},"
        f" {format_seconds(progress.seconds)} ({progress.rate:,.0f} per second)"
    )


@on_spark
def report(
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help=f"The page; {REPORT_FILE}.")
    ] = None,
    archive: ArchivePath = None,
    path: Source = None,
    url: Url = None,
    secret_file: SecretFileOption = None,
    start: From = None,
    end: Until = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    verbose: VerboseOption = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write one HTML page of what became of the messages; with --json the figures instead."""
    source = source_options(archive=archive, path=path, url=url, secret_file=secret_file)
    source |= _between(start, end)
    if archive is not None:
        check_archive_from(archive)
    page = to or (None if json else REPORT_FILE)
    check_file_to(page, "--to")
    check_source(source)
    from holdfast.environment.clock import SystemClock
    from holdfast.spark.pipelines.report import make_report
    from holdfast.spark.pipelines.report_page import render_page

    clock = SystemClock()
    with (
        started_spark("report", master, conf, verbose=verbose) as spark,
        _status("reading the log", is_quiet=quiet),
    ):
        began = clock.monotonic()
        found = make_report(spark, source)
    seconds = clock.monotonic() - began
    if json:
        write_json(found)
    if page is not None:
        page.write_text(render_page(found), encoding="utf-8")
        if not json:
            write_line(str(page))
    if not quiet:
        events = found["totals"]["events"]
        write_error(
            f"{events:,} events of {found['totals']['stored']:,} messages in"
            f" {format_seconds(seconds)} ({events / max(seconds, 1e-9):,.0f} per second)"
        )


def _between(start: str | None, end: str | None) -> dict[str, str]:
    """Return the data source's options for when."""
    return ({"start_time": start} if start else {}) | ({"end_time": end} if end else {})


def source_options(
    *,
    archive: str | None = None,
    path: str | None = None,
    url: str | None = None,
    secret_file: Path | None = None,
) -> dict[str, str]:
    """
    Return the data source's options for where to read.

    Raises:
        ConfigError: Not exactly one place is named.
    """
    named = [it for it in (archive, path, url) if it]
    if len(named) != 1:
        raise ConfigError(["name one place to read from: --archive, --path or --url"])
    found = {"url": url} if url else {"path": named[0]}
    if secret_file is not None:
        found["secret_file"] = str(secret_file)
    if url and (said := token_file()) is not None:
        found["token_file"] = str(said)
    return found


class _status:  # noqa: N801 - reads as the function it is used as
    """A line that moves while the work lasts, where somebody watches."""

    def __init__(self, title: str, *, is_quiet: bool) -> None:
        self._title = title
        console = watched_console(is_quiet=is_quiet)
        self._status = None if console is None else console.status(title)

    def __enter__(self) -> Any:
        if self._status is not None:
            self._status.start()
        return self._tell

    def _tell(self, text: str) -> None:
        if self._status is not None:
            self._status.update(f"{self._title}: {text}")

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

"""
`holdfast restore`: an archive to a data directory, or to a store, that boots as a new cluster.

What came back, what is missing and how long it took stands on standard output; with `--json` as one
document. Exit codes: 0 done, 1 failed, 2 used wrongly.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.hidden_passwords import OF_PIPELINE, hide_passwords
from holdfast.cli.output import (
    format_seconds,
    format_size,
    write_json,
    write_line,
    write_table,
)
from holdfast.cli.spark_checks import (
    check_archive_from,
    check_new_directory,
)
from holdfast.cli.spark_options import (
    ConfOption,
    JsonOption,
    MasterOption,
    VerboseOption,
    on_spark,
    open_spark,
)
from holdfast.config.format_level import VARIABLE, format_level_max
from holdfast.environment.clock import SystemClock
from holdfast.errors import ConfigError
from holdfast.model.format_level import NEWEST_LEVEL

if TYPE_CHECKING:
    from holdfast.copying.places import LogPlace
    from holdfast.spark.pipelines.restore import RestorePlan

ArchiveOption = Annotated[str, typer.Option("--archive", metavar="PATH", help="The archive.")]
ToOption = Annotated[
    Path | None, typer.Option("--to", metavar="DIR", help="A directory that is not there yet.")
]
ToStoreOption = Annotated[
    str | None,
    typer.Option(
        "--to-store",
        envvar=OF_PIPELINE["--to-store"],
        show_envvar=False,
        metavar="URL",
        help="An empty database, or shared:DIR, in place of a directory.",
    ),
]
AsOfIndexOption = Annotated[
    int | None, typer.Option("--as-of-index", min=1, metavar="N", help="The last entry.")
]
AsOfTimeOption = Annotated[
    str | None,
    typer.Option("--as-of-time", metavar="TIME", help="ISO 8601, in UTC if it has no zone."),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only say what would come back.")]
AcceptBrokenOption = Annotated[
    bool, typer.Option("--accept-broken", help="Restore what there is of a broken archive.")
]
VerifyOption = Annotated[
    bool, typer.Option("--verify/--no-verify", help="Read every file against its digest.")
]
NameOption = Annotated[
    str, typer.Option("--name", metavar="NAME", help="The node that will run on it.")
]
AddressOption = Annotated[
    str, typer.Option("--address", metavar="HOST:PORT", help="Its peer port, if it has one.")
]
SiteOption = Annotated[str, typer.Option("--site", metavar="SITE", help="Its site.")]
SegmentOption = Annotated[
    str, typer.Option("--segment", metavar="SIZE", help="Segment size of the new cluster.")
]
ScratchOption = Annotated[
    str, typer.Option("--scratch", metavar="PATH", help="Shared with the workers of --master.")
]


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command("restore")(restore)


@on_spark
def restore(
    archived: ArchiveOption,
    to: ToOption = None,
    to_store: ToStoreOption = None,
    as_of_index: AsOfIndexOption = None,
    as_of_time: AsOfTimeOption = None,
    dry_run: DryRunOption = False,
    accept_broken: AcceptBrokenOption = False,
    verify: VerifyOption = True,
    name: NameOption = "holdfast",
    address: AddressOption = "",
    site: SiteOption = "",
    segment: SegmentOption = "64m",
    scratch: ScratchOption = "",
    json: JsonOption = False,
    master: MasterOption = None,
    conf: ConfOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Turn an archive into a data directory, or a store, that boots as a new cluster."""
    hide_passwords(OF_PIPELINE)
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
    store = _check_places(archived, to, to_store, is_dry_run=dry_run)
    clock = SystemClock()
    began = clock.monotonic()
    with ExitStack() as opened:
        if store is not None and not dry_run:
            to = Path(opened.enter_context(TemporaryDirectory(prefix="holdfast-restore-"))) / "log"
        with open_spark("restore", master, conf, verbose=verbose) as spark:
            started = clock.monotonic() - began
            kept = Archive.open(archived, hadoop_options(spark))
            plan = run_restore(spark, kept, None if dry_run else to, settings)
        plan.steps = {"Spark started": started, **plan.steps}
        where, start = str(to), f"holdfast serve --data {to} --name {name}"
        if store is not None and to is not None:
            where, start = _copy(to, store, name, plan)
    if json:
        write_json(asdict(plan))
    else:
        _tell_restored(plan, where, start)


def _copy(directory: Path, store: LogPlace, name: str, plan: RestorePlan) -> tuple[str, str]:
    """Copy what was restored to a store; where that is, and how a broker is started on it."""
    from holdfast.cli.restored_store import copy_to_store

    clock = SystemClock()
    began = clock.monotonic()
    copied, place = copy_to_store(directory, store)
    plan.steps["copied and compared"] = clock.monotonic() - began
    plan.seconds += plan.steps["copied and compared"]
    return place, copied.start.replace("holdfast serve", f"holdfast serve --name {name}", 1)


def _check_places(
    archived: str, to: Path | None, to_store: str | None, *, is_dry_run: bool
) -> LogPlace | None:
    """See that what is restored can be written; the store, if it is to be one."""
    if to is not None and to_store:
        raise ConfigError(["--to, --to-store: name one of them"])
    if to is None and not to_store and not is_dry_run:
        raise ConfigError(["--to: name a directory, or a --to-store, or ask for a --dry-run"])
    check_archive_from(archived)
    if not is_dry_run:
        _check_level(format_level_max(os.environ))
    if to_store:
        from holdfast.cli.restored_store import empty_store

        return empty_store(to_store)
    if not is_dry_run:
        check_new_directory(to)
    return None


def _check_level(level_max: int) -> None:
    """Refuse what the node that is to serve it would refuse; less would lose the facts it has."""
    if level_max < NEWEST_LEVEL:
        told = (
            f"{VARIABLE}: a restored log begins at level {NEWEST_LEVEL}, and a node that is held"
            f" back at {level_max} refuses it: unset the variable, for both"
        )
        raise ConfigError([told])


def _tell_restored(plan: RestorePlan, where: str, start: str) -> None:
    columns = ("queue", "messages#", "bytes#", "first#", "last#", "next#")
    rows = [
        (it.name, it.messages, it.bytes, it.first_sequence, it.last_sequence, it.next_sequence)
        for it in plan.queues
    ]
    write_table(columns, rows)
    write_line(
        f"as of entry {plan.as_of_index:,} ({_time(plan.as_of_time)}) of"
        f" {plan.archive_last_index:,}: {plan.messages:,} live messages,"
        f" {format_size(plan.bytes)}, {plan.producers:,} producers' numbers,"
        f" {plan.policies:,} policies"
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
        f"{where} is cluster {plan.restored.cluster_id[:16]}, fenced from the old one; start it"
        f" with '{start}', and keep the old nodes stopped"
    )
    write_line(f"took {format_seconds(plan.seconds)}, {rate:,.0f} messages/s")
    write_line("; ".join(f"{name}: {format_seconds(it)}" for name, it in plan.steps.items()))


def _time(microseconds: int) -> str:
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(microseconds / 1e6, UTC):%Y-%m-%dT%H:%M:%S.%f}Z"

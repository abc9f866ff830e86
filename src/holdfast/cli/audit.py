"""
`holdfast audit`: prove that replicas and archive hold the same.

What was proven, and what was not, stands on standard output; with `--json` as one document. Exit
codes: 0 nothing found, 1 failed, or something found, 2 used wrongly.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.hidden_passwords import OF_PIPELINE, hide_passwords
from holdfast.cli.output import (
    format_seconds,
    write_error,
    write_json,
    write_line,
    write_table,
)
from holdfast.cli.spark_checks import (
    check_archive_from,
    check_file_to,
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
    from holdfast.spark.pipelines.audit_result import AuditResult
    from holdfast.spark.pipelines.replica_proof import Replica

EXIT_DIFFERENT = 1

UrlsOption = Annotated[
    list[str] | None,
    typer.Option("--url", metavar="URL", help="Admin port of a node; repeat for each."),
]
PathsOption = Annotated[
    list[str] | None,
    typer.Option("--path", metavar="DIR", help="A data directory; repeat for each."),
]
ArchivedOption = Annotated[
    str | None, typer.Option("--archive", metavar="PATH", help="An archive of the log.")
]
ReportOption = Annotated[
    str | None,
    typer.Option("--report", metavar="FILE", help="Differences as .json lines or Parquet."),
]
AccountOption = Annotated[
    bool, typer.Option("--account/--no-account", help="Account for every message too.")
]


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command("audit")(audit)


@on_spark
def audit(
    url: UrlsOption = None,
    path: PathsOption = None,
    store: StoresOption = None,
    archived: ArchivedOption = None,
    secret_file: SecretFileOption = None,
    report: ReportOption = None,
    account: AccountOption = True,
    json: JsonOption = False,
    master: MasterOption = None,
    conf: ConfOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Prove that replicas and archive hold the same, and that no message is missing."""
    hide_passwords(OF_PIPELINE)
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
    replicas += _stores(store or [])
    if not replicas and archived is None:
        raise ConfigError(["--url, --path, --store, --archive: name what is to be audited"])
    if archived is not None:
        check_archive_from(archived)
    if report is not None and "://" not in report:
        check_file_to(Path(report), "--report")
    with open_spark("audit", master, conf, verbose=verbose) as spark:
        settings = hadoop_options(spark)
        kept = Archive.open(archived, settings) if archived else None
        told = (lambda *_: None) if json else _tell_hashed
        result = run_audit(spark, replicas, kept, with_account=account, told=told)
    if report is not None:
        write_findings(result.findings, report, settings)
    if json:
        write_json(audit_json(result))
    else:
        _tell_audit(result)
    if not result.is_sound:
        raise typer.Exit(EXIT_DIFFERENT)


def _stores(words: list[str]) -> list[Replica]:
    """Each database by itself: what several hold alike is what is to be shown."""
    from holdfast.spark.log.store_log import require_apart, store_log
    from holdfast.spark.pipelines.replica_proof import Replica

    logs = [store_log([it], is_one_of_several=True) for it in words]
    require_apart(logs)
    return [Replica(str(it), it) for it in logs]


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
        "subscriptions": [asdict(it) for it in result.account.subscriptions]
        if result.account
        else None,
        "seconds": result.seconds,
    }


def _listed(fates: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {fate}" for fate, count in fates.items())


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
        found = _listed(result.account.fates)
        write_line(f"{result.account.messages:,} messages in {result.account_of}: {found}")
        if result.account.subscriptions:
            found = _listed(result.account.delivery_fates)
            count = len(result.account.subscriptions)
            write_line(
                f"{result.account.deliveries:,} of topics' messages for {count:,} durable"
                f" subscriptions, each counted for every one of these: {found}"
            )
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

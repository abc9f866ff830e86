"""
`holdfast schedule`: what is to be sent at some time, and taking it back.

A scheduled message is known by the id that each message has that comes of it (`scheduledJobId`).
The work is that of `holdfast messages` on the queue where they wait: in short steps, which a
command that was killed goes on with.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from holdfast.admin.remote import RemoteNode
from holdfast.cli.admin_port import (
    ADMIN_DEFAULT,
    AdminOption,
    JsonOption,
    SecretOption,
    YesOption,
    to_change,
)
from holdfast.cli.destinations import AdminAfterOption
from holdfast.cli.output import (
    confirm,
    json_line,
    printable,
    write_error,
    write_json,
    write_line,
    write_lines,
)
from holdfast.cli.queue_messages import PATIENCE_SECONDS_DEFAULT, CountOption, PatienceOption, Work
from holdfast.errors import ConfigError, DestinationError
from holdfast.model.schedules import FOREVER, SCHEDULE_QUEUE
from holdfast.protocols.stomp.mapping import USER

_PER_STEP: Final = 200
_BODY_BYTES_SHOWN: Final = 40
_HEADER: Final = "AMQ_SCHEDULED_"
_TELLS_NO_TIME: Final = ("DESTINATION", "PERSISTENT", "LIFETIME")

schedule = typer.Typer(help="What is to be sent at some time: list, remove.", no_args_is_help=True)

FromOption = Annotated[
    str,
    typer.Option("--from", metavar="TIME", help="Only what is due then or later: ISO 8601, UTC."),
]
ToOption = Annotated[
    str, typer.Option("--to", metavar="TIME", help="Only what is due then or earlier.")
]


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.add_typer(schedule, name="schedule")


@schedule.callback()
def of_a_cluster(context: typer.Context, admin: AdminOption = ADMIN_DEFAULT) -> None:
    """Take where to ask."""
    context.obj = admin


@schedule.command("list")
def list_scheduled(
    context: typer.Context,
    since: FromOption = "",
    until: ToOption = "",
    count: CountOption = None,
    patience: PatienceOption = PATIENCE_SECONDS_DEFAULT,
    admin: AdminAfterOption = None,
    json: JsonOption = False,
    secret_file: SecretOption = None,
) -> None:
    """Show what is scheduled, in the order in which it was sent."""
    node = to_change(admin or context.obj, secret_file)
    wanted: dict[str, Any] = {"action": "browse", "queue": SCHEDULE_QUEUE}
    wanted |= _range(since, until) | {"body_bytes_max": _BODY_BYTES_SHOWN}
    work = Work(node, wanted, count=count, patience_seconds=patience)
    work.per_step = _PER_STEP
    is_first = not json
    for found in _steps(work):
        rows = [_row(each) for each in found]
        if json:
            write_lines(json_line(each) for each in rows)
            continue
        if is_first and rows:
            write_line(_line("JOB", "NEXT (UTC)", "AGAIN", "SENDER", "DESTINATION", "SCHEDULE"))
            is_first = False
        write_lines(_shown(each) for each in rows)
    if unreadable := work.counts["unreadable"]:
        write_error(f"{unreadable:,} scheduled messages cannot be read now")


def _steps(work: Work) -> Any:
    """Give the messages of each step; none where nothing was ever scheduled."""
    while not work.is_done:
        try:
            found = work.step()["messages"]
        except DestinationError:
            return
        yield found


def _range(since: str, until: str) -> dict[str, int]:
    return {"due_from": _milliseconds("from", since), "due_through": _milliseconds("to", until)}


def _milliseconds(option: str, text: str) -> int:
    if not text:
        return 0
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            [f"--{option} {text}: no time; write for example 2030-01-31T18:00"]
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(1, round(moment.timestamp() * 1000))


def _row(message: dict[str, Any]) -> dict[str, Any]:
    """What is told of one to programs."""
    headers: dict[str, str] = message["headers"]
    repeats = message["repeats"]
    said = {name: text for name, text in headers.items() if name.startswith(_HEADER)}
    own = {name: text for name, text in headers.items() if name not in said}
    return {
        "job_id": message["message_id"],
        "destination": said.get(f"{_HEADER}DESTINATION", ""),
        "sender": own.get(USER, ""),
        "due": _moment(message["due_ms"]),
        "due_ms": message["due_ms"],
        "repeats": None if repeats == FOREVER else repeats,
        "schedule": {
            name.removeprefix(_HEADER).lower(): text
            for name, text in said.items()
            if not name.endswith(_TELLS_NO_TIME)
        },
        "headers": own,
        "body_bytes": message["body_bytes"],
        "body": base64.b64decode(message["body_base64"]).decode("utf-8", "backslashreplace"),
    }


def _moment(due_ms: int) -> str:
    return datetime.fromtimestamp(due_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _shown(row: dict[str, Any]) -> str:
    again = "for ever" if row["repeats"] is None else f"{row['repeats']:,}"
    said = " ".join(f"{name}={text}" for name, text in row["schedule"].items())
    due = row["due"].removesuffix("+00:00")
    sender, destination = printable(row["sender"]) or "-", printable(row["destination"])
    return _line(row["job_id"], due, again, sender, destination, printable(said))


def _line(job: str, due: str, again: str, *rest: str) -> str:
    sender, destination, said = rest
    return f"{job:<28} {due:<24} {again:>8}  {sender:<12} {destination:<30} {said}".rstrip()


def count_of(node: RemoteNode, sender: str) -> int:
    """
    Give how many messages are scheduled that somebody has sent.

    Raises:
        HoldfastError: That cannot be asked now.
    """
    wanted: dict[str, Any] = {"action": "browse", "queue": SCHEDULE_QUEUE, "body_bytes_max": 0}
    work = Work(node, wanted, patience_seconds=0)
    work.per_step = _PER_STEP
    found = (_row(each) for some in _steps(work) for each in some)
    return sum(each["sender"] == sender for each in found)


@schedule.command("remove")
def remove(
    context: typer.Context,
    jobs: Annotated[
        list[str] | None, typer.Argument(metavar="[JOB]...", help="By their ids.")
    ] = None,
    since: FromOption = "",
    until: ToOption = "",
    everything: Annotated[bool, typer.Option("--all", help="All that is scheduled.")] = False,
    patience: PatienceOption = PATIENCE_SECONDS_DEFAULT,
    admin: AdminAfterOption = None,
    yes: YesOption = False,
    json: JsonOption = False,
    secret_file: SecretOption = None,
) -> None:
    """Take scheduled messages back: by id, by when they are due, or all of them."""
    has_range = bool(since or until)
    if bool(jobs) + has_range + everything != 1:
        raise ConfigError(["name jobs, or say --from and --to, or --all"])
    sequences = [_sequence(job) for job in jobs or ()]
    if not jobs:
        confirm(f"Remove {'what is due then' if has_range else 'all'}?", is_stated=yes)
    node = to_change(admin or context.obj, secret_file)
    wanted: dict[str, Any] = {"action": "remove", "queue": SCHEDULE_QUEUE}
    count = 0
    if jobs:
        for job, sequence in zip(jobs, sequences, strict=True):
            ends = {"after": sequence - 1, "through": sequence}
            look = Work(node, wanted | {"action": "browse"}, patience_seconds=patience, **ends)
            # Another queue's message may have this number, too.
            if job in {each["message_id"] for found in _steps(look) for each in found}:
                count += _done(Work(node, wanted, patience_seconds=patience, **ends))
            else:
                write_error(f"{job} is not scheduled, or not any more")
    else:
        wanted |= _range(since, until)
        count = _done(Work(node, wanted, patience_seconds=patience))
    if json:
        write_json({"removed": count})
    else:
        write_line(f"{count:,} scheduled messages removed")


def _sequence(job: str) -> int:
    """Give the number of a job by its id, which each message has that came of it."""
    digits = job.rpartition("-")[2]
    if not (job.startswith("ID:") and digits.isdecimal() and int(digits)):
        raise ConfigError([f"{job}: no id of a job; 'holdfast schedule list' shows them"])
    return int(digits)


def _done(work: Work) -> int:
    """Do all of it; give how many were removed."""
    try:
        while not work.is_done:
            work.step()
    except DestinationError:
        return 0  # Nothing was ever scheduled.
    return work.counts["count"]

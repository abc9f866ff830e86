"""
`holdfast messages`: look at single messages of a queue, move, copy, retry or remove them.

The work is done in short steps, each asked for when the one before it is stored; nothing of it is
kept but what the log says. So a command that was killed can simply be run again: it goes on with
what is left. While the leader changes it waits for the next one. It goes no further than to the
message that was the last one when it began, so it ends even where messages come back.
"""

from __future__ import annotations

import base64
import time
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
    beside,
    read_status,
    to_change,
)
from holdfast.cli.destinations import AdminAfterOption
from holdfast.cli.output import (
    confirm,
    format_size,
    json_line,
    printable,
    watched_console,
    write_error,
    write_json,
    write_line,
    write_lines,
)
from holdfast.errors import (
    BusyError,
    HoldfastError,
    LinkLostError,
    NotLeaderError,
    QuorumLostError,
)

PATIENCE_SECONDS_DEFAULT: Final = 60.0
_PAUSE_SECONDS: Final = 0.1
_STILL_SECONDS_MAX: Final = 600.0
"""So long a step may find the cleaner where it is to go on; it takes moments."""
_BROWSE_COUNT: Final = 100
_BODY_BYTES_SHOWN: Final = 80
_BODY_BYTES_MAX: Final = 1024 * 1024

_COUNTS: Final = ("count", "examined", "in_delivery", "skipped", "unreadable")
"""What the answer to each step tells, to be added up."""

_DONE: Final = {"move": "moved", "copy": "copied", "retry": "sent back", "remove": "removed"}

messages = typer.Typer(
    help="Single messages of a queue: browse, move, copy, retry, remove.", no_args_is_help=True
)

QueueArgument = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue they stand on.")]
TargetArgument = Annotated[str, typer.Argument(metavar="TARGET", help="The queue they go to.")]
SelectorOption = Annotated[
    str,
    typer.Option(
        "--selector", "--filter", metavar="CONDITION", help='Only those that are so: "price > 2".'
    ),
]
CountOption = Annotated[
    int | None, typer.Option("--count", min=1, metavar="N", help="So many at most.")
]
AfterOption = Annotated[
    int, typer.Option("--after", min=0, metavar="SEQUENCE", help="Only what stands behind it.")
]
PatienceOption = Annotated[
    float,
    typer.Option(
        "--patience", min=0.0, metavar="SECONDS", help="Wait so long for a leader that answers."
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.add_typer(messages, name="messages")


@messages.callback()
def of_a_queue(context: typer.Context, admin: AdminOption = ADMIN_DEFAULT) -> None:
    """Take where to ask."""
    context.obj = admin


@messages.command("browse")
def browse(
    context: typer.Context,
    queue: QueueArgument,
    selector: SelectorOption = "",
    count: CountOption = None,
    after: AfterOption = 0,
    body: Annotated[bool, typer.Option("--body", help="Whole bodies, up to 1 MiB each.")] = False,
    patience: PatienceOption = PATIENCE_SECONDS_DEFAULT,
    admin: AdminAfterOption = None,
    json: JsonOption = False,
    secret_file: SecretOption = None,
) -> None:
    """Show the messages of a queue, oldest first; nobody gets them by that."""
    node = to_change(admin or context.obj, secret_file)
    body_bytes = _BODY_BYTES_MAX if body else _BODY_BYTES_SHOWN
    wanted: dict[str, Any] = {"action": "browse", "queue": queue, "selector": selector}
    wanted["body_bytes_max"] = body_bytes
    work = Work(node, wanted, after=after, count=count, patience_seconds=patience)
    work.per_step = _BROWSE_COUNT
    while not work.is_done:
        found = work.step()["messages"]
        if json:
            write_lines(json_line(each) for each in found)
        else:
            write_lines(_shown(each) for each in found)
    if unreadable := work.counts["unreadable"]:
        write_error(f"{unreadable:,} messages cannot be read now")


def _shown(message: dict[str, Any]) -> str:
    """Give the lines of one message: its id and state, its headers, and the body's beginning."""
    stored_at = datetime.fromtimestamp(message["stored_at"] / 1e6, UTC)
    marks = " in-delivery" if message["in_delivery"] else ""
    marks += " redelivered" if message["redelivered"] else ""
    said = (f"{name}:{value}" for name, value in message["headers"].items())
    headers = printable(" ".join(said))  # No header looks like a line of its own.
    shown = base64.b64decode(message["body_base64"])
    body = shown.decode("utf-8", "backslashreplace")
    is_cut = message["body_bytes"] > len(shown)
    more = f"… ({format_size(message['body_bytes'])})" if is_cut else ""
    head = f"{message['message_id']}  {stored_at:%Y-%m-%dT%H:%M:%SZ}{marks}"
    return f"{head}\n  {headers}\n  {body!r}{more}" if headers else f"{head}\n  {body!r}{more}"


@messages.command("move")
def move(
    context: typer.Context,
    queue: QueueArgument,
    target: TargetArgument,
    selector: SelectorOption = "",
    count: CountOption = None,
    patience: PatienceOption = PATIENCE_SECONDS_DEFAULT,
    admin: AdminAfterOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
    secret_file: SecretOption = None,
) -> None:
    """Move messages to another queue; what a consumer has is left alone."""
    node = to_change(admin or context.obj, secret_file)
    wanted = {"action": "move", "queue": queue, "target": target, "selector": selector}
    _do(Work(node, wanted, count=count, patience_seconds=patience), as_json=json, is_quiet=quiet)


@messages.command("copy")
def copy(
    context: typer.Context,
    queue: QueueArgument,
    target: TargetArgument,
    selector: SelectorOption = "",
    count: CountOption = None,
    patience: PatienceOption = PATIENCE_SECONDS_DEFAULT,
    admin: AdminAfterOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
    secret_file: SecretOption = None,
) -> None:
    """Let messages stand on another queue, too; copies that are there already are passed over."""
    node = to_change(admin or context.obj, secret_file)
    wanted = {"action": "copy", "queue": queue, "target": target, "selector": selector}
    _do(Work(node, wanted, count=count, patience_seconds=patience), as_json=json, is_quiet=quiet)


@messages.command("retry")
def retry(
    context: typer.Context,
    queue: QueueArgument,
    selector: SelectorOption = "",
    count: CountOption = None,
    patience: PatienceOption = PATIENCE_SECONDS_DEFAULT,
    admin: AdminAfterOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
    secret_file: SecretOption = None,
) -> None:
    """Send dead letters back, each to the queue that it came from."""
    node = to_change(admin or context.obj, secret_file)
    wanted = {"action": "retry", "queue": queue, "selector": selector}
    _do(Work(node, wanted, count=count, patience_seconds=patience), as_json=json, is_quiet=quiet)


@messages.command("remove")
def remove(
    context: typer.Context,
    queue: QueueArgument,
    selector: SelectorOption = "",
    count: CountOption = None,
    patience: PatienceOption = PATIENCE_SECONDS_DEFAULT,
    admin: AdminAfterOption = None,
    yes: YesOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
    secret_file: SecretOption = None,
) -> None:
    """Remove messages for good; what a consumer has is left alone."""
    which = f"messages of {queue}" + (f" that are: {selector}" if selector else "")
    confirm(f"Remove {f'up to {count:,} ' if count else 'all '}{which}?", is_stated=yes)
    node = to_change(admin or context.obj, secret_file)
    wanted = {"action": "remove", "queue": queue, "selector": selector}
    _do(Work(node, wanted, count=count, patience_seconds=patience), as_json=json, is_quiet=quiet)


class Work:
    """One command: steps asked for one after the other, of whichever node answers."""

    def __init__(
        self,
        node: RemoteNode,
        wanted: dict[str, Any],
        *,
        after: int = 0,
        through: int = 0,
        count: int | None = None,
        patience_seconds: float = PATIENCE_SECONDS_DEFAULT,
    ) -> None:
        self._nodes = [node]
        self._wanted = wanted
        self._patience_seconds = patience_seconds
        self._left = count
        self._after = after
        self._through = through
        self.per_step = 1_000
        self._told_through = 0
        """Where it ends, as the first answer has it."""
        self._came_on_at = time.monotonic()
        self._is_under_way = False
        self._is_asked_again = False
        """The last step may have been done before, and its answer lost."""
        self.is_done = False
        self.counts = dict.fromkeys(_COUNTS, 0)

    def step(self) -> dict[str, Any]:
        """
        Do the next step, waiting while nobody leads.

        Raises:
            LinkLostError: Nobody answered for so long, or somebody as no node does.
            HoldfastError: It is refused.
        """
        asked = self._wanted | {"after": self._after, "through": self._through}
        asked["count_max"] = min(self.per_step, self._left or self.per_step)
        is_counted = self._left is not None and self._wanted["action"] != "browse"
        answer = self._counted(asked) if is_counted else self._asked(asked)
        came_on = answer["after"] != self._after
        self._require_order(answer)
        self._after, self._through = answer["after"], answer["through"]
        for name in self.counts:
            self.counts[name] += answer[name]
        self.is_done = answer["is_done"]
        if self._left is not None:
            self._left -= answer.get("count_possible", answer["count"])
            self.is_done = self.is_done or self._left <= 0
        if came_on or self.is_done:
            self._came_on_at = time.monotonic()
        elif time.monotonic() - self._came_on_at > _STILL_SECONDS_MAX:
            raise self._wrong(f"it has not come on for {_STILL_SECONDS_MAX:,.0f} s")
        else:
            time.sleep(_PAUSE_SECONDS)  # The cleaner is just there.
        return answer

    def _require_order(self, answer: dict[str, Any]) -> None:
        """
        See that a step goes on from the last one, and no further than all of them do.

        Raises:
            LinkLostError: Whoever answered is no node, or is broken: there may be no end of it.
        """
        after, through = answer["after"], answer["through"]
        if after < self._after:
            raise self._wrong(f"it was at message {self._after:,}, and is at {after:,} now")
        if self._told_through and through > self._told_through:
            raise self._wrong(
                f"it was to end with message {self._told_through:,}, now with {through:,}"
            )
        self._told_through = through

    def _wrong(self, what: str) -> LinkLostError:
        sentence = f"{self._nodes[0].address} does not answer as a node does: {what}"
        done = f"; so far: {self.summary}" if self._wanted["action"] in _DONE else ""
        return LinkLostError(f"{sentence}; see who listens there{done}")

    def _counted(self, asked: dict[str, Any]) -> dict[str, Any]:
        """
        Do a step of which no more may be done than is asked for, however often it is.

        It is told how far those reach: asked for again it finds what is left of them, and no other.
        """
        looked = self._asked(asked | {"dry_run": True})
        if not looked["count"]:
            return looked
        end = looked["through"] if looked["is_done"] else looked["after"]
        done = self._asked(asked | {"through": end})
        if self._is_asked_again:
            done["count_possible"] = looked["count"]
        return done | {
            "through": looked["through"],
            "is_done": done["is_done"] and looked["is_done"],
        }

    def _asked(self, asked: dict[str, Any]) -> dict[str, Any]:
        ends_at = time.monotonic() + self._patience_seconds
        self._is_asked_again = False
        while True:
            try:
                answer = self._nodes[0].change("POST", "/messages", asked)
            except (LinkLostError, NotLeaderError, QuorumLostError, BusyError) as error:
                may_be_wrong = isinstance(error, LinkLostError) and not self._is_right()
                if may_be_wrong or time.monotonic() >= ends_at:
                    raise
            else:
                if not self._is_under_way:
                    self._learn_nodes()
                    self._is_under_way = True
                return answer
            time.sleep(_PAUSE_SECONDS)
            self._is_asked_again = True
            self._nodes.append(self._nodes.pop(0))

    def _is_right(self) -> bool:
        """Whether the address is that of a node: what it could not do may be its leader's end."""
        if not self._is_under_way:
            self._is_under_way = self._learn_nodes()
        return self._is_under_way

    def _learn_nodes(self) -> bool:
        """Know where else to ask, should this one be gone; whether it told."""
        first = self._nodes[0]
        try:
            members = read_status(first).members
        except HoldfastError:
            return False
        told = {beside(first.address, each.admin) for each in members if each.admin}
        others = told - {first.address, f"https://{first.address}"}
        self._nodes += [
            RemoteNode(
                each,
                secret=first.secret,
                timeout_seconds=first.timeout_seconds,
                takes_earlier=first.takes_earlier,
            )
            for each in sorted(others)
        ]
        return True

    @property
    def summary(self) -> str:
        """What was done, for people."""
        counts, action = self.counts, self._wanted["action"]
        told = [f"{counts['count']:,} messages {_DONE[action]}"]
        if counts["in_delivery"]:
            told.append(f"{counts['in_delivery']:,} in delivery")
        if counts["skipped"]:
            why = "copied before" if action == "copy" else "no dead letters"
            told.append(f"{counts['skipped']:,} {why}")
        if counts["unreadable"]:
            told.append(f"{counts['unreadable']:,} that cannot be read now")
        return told[0] + (f"; left alone: {', '.join(told[1:])}" if told[1:] else "")

    @property
    def as_json(self) -> dict[str, Any]:
        """What was done, for programs."""
        named = {"queue": self._wanted["queue"], "action": self._wanted["action"]}
        return named | self.counts | {"after": self._after}


def _do(work: Work, *, as_json: bool, is_quiet: bool) -> None:
    """Do all of it, and say so."""
    console = watched_console(is_quiet=is_quiet)
    if console is None:
        while not work.is_done:
            work.step()
    else:
        with console.status("begins") as status:
            while not work.is_done:
                work.step()
                status.update(f"{work.summary}; {work.counts['examined']:,} looked at")
    if as_json:
        write_json(work.as_json)
    else:
        write_line(work.summary)

"""
`holdfast queues`: what the queues hold, and how to empty or remove one.

Shown as the leader sees them, as it alone knows consumers; while there is no leader, as the asked
node does. Emptying and removing cannot be undone, so a person is asked; a script is not.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.admin.remote import RemoteNode, queue_path
from holdfast.admin.status import QueueStatus
from holdfast.cli.admin_port import (
    ADMIN_DEFAULT,
    AdminOption,
    JsonOption,
    SecretOption,
    YesOption,
    read_queue_pages,
    read_queues,
    to_ask,
    to_change,
)
from holdfast.cli.output import confirm, console, format_size, make_table, write_json, write_line

if TYPE_CHECKING:
    from rich.table import Table

WATCH_SECONDS_DEFAULT = 1.0

queues = typer.Typer(help="The queues: list, purge, delete, and what holds for them.")

AdminAfterOption = Annotated[
    str | None,
    typer.Option("--admin", metavar="HOST:PORT", help="Admin port of any node."),
]


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.add_typer(queues, name="queues")


@queues.callback(invoke_without_command=True)
def list_queues(
    context: typer.Context,
    admin: AdminOption = ADMIN_DEFAULT,
    json: JsonOption = False,
    watch: Annotated[bool, typer.Option("--watch", help="Show them again and again.")] = False,
    interval: Annotated[
        float, typer.Option("--interval", min=0.1, metavar="SECONDS", help="Between two looks.")
    ] = WATCH_SECONDS_DEFAULT,
) -> None:
    """List the queues."""
    context.obj = admin
    if context.invoked_subcommand is not None:
        return
    node = to_ask(admin)
    if json:
        write_json(read_queue_pages(node))
    elif watch:
        _watch(node, interval)
    else:
        console().print(_queue_table(read_queues(node), {}, interval))


def _watch(node: RemoteNode, interval_seconds: float) -> None:
    """Show the queues until interrupted, with the rates since the last look."""
    from rich.live import Live

    before: dict[str, QueueStatus] = {}
    with Live(console=console(), auto_refresh=False) as live:
        try:
            while True:
                found = read_queues(node)
                live.update(_queue_table(found, before, interval_seconds), refresh=True)
                before = {queue.name: queue for queue in found}
                time.sleep(interval_seconds)
        except KeyboardInterrupt:
            return


def _queue_table(
    found: list[QueueStatus], before: dict[str, QueueStatus], interval_seconds: float
) -> Table:
    columns = ["queue", "messages#", "in delivery#", "consumers#", "size#", "in#", "out#", "again#"]
    rows: list[list[object]] = []
    for queue in found:
        row: list[object] = [queue.name, queue.messages, queue.unacknowledged, queue.consumers]
        row += [format_size(queue.bytes), queue.enqueued, queue.acknowledged, queue.redelivered]
        if any(map(_turn, found)):
            row.append(_turn(queue))
        if (last := before.get(queue.name)) is not None:
            row.append(_rate(queue.enqueued - last.enqueued, interval_seconds))
            row.append(_rate(queue.acknowledged - last.acknowledged, interval_seconds))
        rows.append(row)
    if any(map(_turn, found)):
        columns.append("turn")
    if before:
        columns += ["in/s#", "out/s#"]
    width = len(columns)
    return make_table(columns, [row + [None] * (width - len(row)) for row in rows])


def _turn(queue: QueueStatus) -> str:
    """What keeps messages from some consumers, or from all; empty: nothing."""
    if queue.is_paused:
        return "paused"
    if queue.is_gate_closed:
        return "waits for consumers"
    if queue.sole_consumer:
        return f"{queue.sole_consumer}{', once others let go' if queue.is_draining else ' only'}"
    return "by group" if queue.is_grouped else ""


def _rate(count: int, interval_seconds: float) -> int:
    """Never below 0: a new leader counts from its own start."""
    return max(0, round(count / interval_seconds))


@queues.command("purge")
def purge(
    context: typer.Context,
    name: str,
    admin: AdminAfterOption = None,
    yes: YesOption = False,
    secret_file: SecretOption = None,
) -> None:
    """Remove all messages of a queue."""
    confirm(f"Remove all messages of {name}?", is_stated=yes)
    node = to_change(admin or context.obj, secret_file)
    answer = node.change("POST", f"{queue_path(name)}/purge")
    write_line(f"{answer['purged']:,} messages were removed from {name}")


@queues.command("delete")
def delete(
    context: typer.Context,
    name: str,
    admin: AdminAfterOption = None,
    yes: YesOption = False,
    secret_file: SecretOption = None,
) -> None:
    """Remove a queue and its messages."""
    confirm(f"Remove {name} and all its messages?", is_stated=yes)
    node = to_change(admin or context.obj, secret_file)
    answer = node.change("DELETE", queue_path(name))
    write_line(f"{name} was removed, with {answer['messages']:,} messages")

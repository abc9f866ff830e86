"""
`holdfast subscriptions`: the durable subscriptions of topics, whose they are, and how to end one.

One that nobody comes back for keeps what is sent to its topic for ever. Ending it cannot be undone,
so a person is asked; a script is not.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import typer

from holdfast.admin.pages import all_pages
from holdfast.admin.remote import RemoteNode
from holdfast.cli.admin_port import (
    ADMIN_DEFAULT,
    AdminOption,
    JsonOption,
    SecretOption,
    YesOption,
    to_ask,
    to_change,
)
from holdfast.cli.destinations import AdminAfterOption
from holdfast.cli.output import (
    confirm,
    console,
    format_size,
    make_table,
    tell_own_view,
    write_json,
    write_line,
)

subscriptions = typer.Typer(help="Durable subscriptions of topics: list, give, end.")


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.add_typer(subscriptions, name="subscriptions")


@subscriptions.callback(invoke_without_command=True)
def list_subscriptions(
    context: typer.Context, admin: AdminOption = ADMIN_DEFAULT, json: JsonOption = False
) -> None:
    """List the durable subscriptions."""
    context.obj = admin
    if context.invoked_subcommand is not None:
        return
    found = read_pages(to_ask(admin))
    if json:
        write_json(found)
        return
    columns = ["client-id", "name", "owner", "topic"]
    columns += ["messages#", "size#", "in delivery#", "since"]
    rows = [
        [
            *(each["client_id"], each["name"], each.get("owner", "")),
            *(each["topic"], each["messages"]),
            *(format_size(each["bytes"]), each["unacknowledged"], _since(each)),
        ]
        for each in found["subscriptions"]
    ]
    console().print(make_table(columns, rows))


def read_pages(node: RemoteNode) -> dict[str, Any]:
    """
    Give all pages of the answer, as if it were one.

    Raises:
        LinkLostError: The node cannot be reached, or its pages have no end.
    """
    answer = all_pages(node.get, "/subscriptions", "subscriptions", whose=node.address)
    tell_own_view(answer)
    return answer


def _since(subscription: dict[str, Any]) -> str:
    """Say since when nobody consumes from one."""
    if subscription["is_active"]:
        return "has a consumer"
    at_ms = subscription["detached_at_ms"]
    if not at_ms:
        return "not known"
    return f"alone since {datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


@subscriptions.command("give")
def give(
    context: typer.Context,
    client_id: str,
    name: str,
    user: str,
    admin: AdminAfterOption = None,
    secret_file: SecretOption = None,
) -> None:
    """Let a durable subscription be a user's, with all that it keeps; else his who comes first."""
    node = to_change(admin or context.obj, secret_file)
    wanted = {"client_id": client_id, "name": name, "user": user}
    node.change("POST", "/subscriptions/give", wanted)
    write_line(f"{name} of {client_id} is user {user}'s")


@subscriptions.command("end")
def end(
    context: typer.Context,
    client_id: str,
    name: str,
    admin: AdminAfterOption = None,
    yes: YesOption = False,
    secret_file: SecretOption = None,
) -> None:
    """End a durable subscription, with what it was not given."""
    confirm(f"End subscription {name} of client-id {client_id}?", is_stated=yes)
    node = to_change(admin or context.obj, secret_file)
    wanted = {"client_id": client_id, "name": name}
    answer = node.change("POST", "/subscriptions/end", wanted)
    write_line(f"{name} of {client_id} has ended, with {answer['messages']:,} messages")

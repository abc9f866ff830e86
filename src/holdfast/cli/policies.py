"""
`holdfast queues set | unset | show | pause | resume`: what holds for destinations, by pattern.

What is said goes into the log: every leader from now on obeys it. What a configuration file says is
shown here too, and changed there.
"""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from holdfast.admin.remote import RemoteNode
from holdfast.cli.admin_port import JsonOption, SecretOption, to_change
from holdfast.cli.destinations import AdminAfterOption
from holdfast.cli.output import (
    EXIT_FAILED,
    tell_own_view,
    write_error,
    write_json,
    write_line,
    write_table,
)
from holdfast.model.sharing_options import PAUSED
from holdfast.model.wildcards import parse_pattern

_Pattern = Annotated[
    str,
    typer.Argument(
        metavar="PATTERN", help="queue://A.*, topic://A.>, or a name, which is a queue's."
    ),
]


def register(queues: typer.Typer) -> None:
    """Add these commands to those of `holdfast queues`."""
    queues.command("set")(set_policy)
    queues.command("unset")(unset_policy)
    queues.command("show")(show)
    queues.command("pause")(pause)
    queues.command("resume")(resume)


def set_policy(
    context: typer.Context,
    pattern: _Pattern,
    values: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...")],
    admin: AdminAfterOption = None,
    json: JsonOption = False,
    secret_file: SecretOption = None,
) -> None:
    """Say what holds for the destinations that match a pattern, from now on."""
    said: dict[str, str] = {}
    for each in values:
        key, equals, value = (part.strip() for part in each.partition("="))
        if not equals or not key or key in said:
            what = "given twice" if key in said else "not KEY=VALUE"
            write_error(f"holdfast: {each!r}: {what}")
            raise typer.Exit(EXIT_FAILED)
        said[key] = value
    node = to_change(admin or context.obj, secret_file)
    _tell(node.change("POST", "/policies", {"pattern": pattern, "set": said}), as_json=json)


def unset_policy(
    context: typer.Context,
    pattern: _Pattern,
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY...]", help="By default all of them.")
    ] = None,
    admin: AdminAfterOption = None,
    json: JsonOption = False,
    secret_file: SecretOption = None,
) -> None:
    """Take back what was set for a pattern; what files say stays."""
    node = to_change(admin or context.obj, secret_file)
    _tell(node.change("POST", "/policies", {"pattern": pattern, "unset": keys or []}), as_json=json)


def pause(
    context: typer.Context,
    pattern: _Pattern,
    admin: AdminAfterOption = None,
    json: JsonOption = False,
    secret_file: SecretOption = None,
) -> None:
    """Let nobody have anything of the queues that match a pattern; what is sent there is stored."""
    node = to_change(admin or context.obj, secret_file)
    said = {"pattern": pattern, "set": {PAUSED: "true"}}
    _tell(node.change("POST", "/policies", said), as_json=json)


def resume(
    context: typer.Context,
    pattern: _Pattern,
    admin: AdminAfterOption = None,
    json: JsonOption = False,
    secret_file: SecretOption = None,
) -> None:
    """
    Let consumers have messages of the queues that match a pattern again.

    What paused them is taken back; where something else pauses a single queue, too, this says no.
    """
    node = to_change(admin or context.obj, secret_file)
    answer = node.change("POST", "/policies", {"pattern": pattern, "unset": [PAUSED]})
    meant = parse_pattern(answer["pattern"])
    pausing = [] if meant.is_exact else _patterns_that_pause(node)
    if meant.is_exact and _is_paused(node, answer["pattern"]):
        said = {"pattern": pattern, "set": {PAUSED: "false"}}
        answer = node.change("POST", "/policies", said)
    _tell(answer, as_json=json)
    if pausing:
        write_error(f"note: there are paused queues still, by {', '.join(pausing)}")


def _is_paused(node: RemoteNode, destination: str) -> bool:
    """Whether a queue is paused, by whatever is said of it."""
    answer = node.get(f"/policies?destination={quote(destination, safe='')}")
    return any(it["key"] == PAUSED and it["value"] == "true" for it in answer["keys"])


def _patterns_that_pause(node: RemoteNode) -> list[str]:
    policies = node.get("/policies")["policies"]
    return [it["pattern"] for it in policies if it["values"].get(PAUSED) == "true"]


def _tell(answer: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        write_json(answer)
        return
    pattern = answer["pattern"]
    values = ", ".join(f"{key} = {value}" for key, value in answer["values"].items())
    write_line(f"{pattern}: {values}" if values else f"{pattern}: nothing is set")
    for notice in answer["notices"]:
        write_error(f"note: {notice}")


def show(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="A queue, or topic://NAME; else every pattern."),
    ] = None,
    admin: AdminAfterOption = None,
    json: JsonOption = False,
    secret_file: SecretOption = None,
) -> None:
    """Show what holds for one destination and where it is from, or all that is said by pattern."""
    node = to_change(admin or context.obj, secret_file)
    question = "" if name is None else f"?destination={quote(name, safe='')}"
    answer = node.get(f"/policies{question}")
    tell_own_view(answer)
    if json:
        write_json(answer)
    elif name is not None:
        rows = [(it["key"], it["value"], _source(it)) for it in answer["keys"]]
        write_table(("key", "value", "from"), rows)
    else:
        _show_patterns(answer)


def _source(value: dict[str, Any]) -> str:
    """Where a key is from, as the line says it."""
    if value["source"] == "default":
        return f"default, {value['setting']}" if value["setting"] else "default"
    return f"{value['source']} {value['pattern']}"


def _show_patterns(answer: dict[str, Any]) -> None:
    rows = [
        (policy["pattern"], key, value, policy["source"])
        for policy in answer["policies"]
        for key, value in policy["values"].items()
    ]
    if rows:
        write_table(("pattern", "key", "value", "from"), rows)
    else:
        write_line("nothing is said of any destination: all have the defaults")
    if answer["revision"]:
        write_line(f"what is from a file is of revision {answer['revision']:,}")

"""
`holdfast grant`, `revoke` and `access`: what roles may do with which destinations, and why one may.

There are no denials: what one grant allows is taken back where it was granted.
"""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from holdfast.cli.admin_port import (
    ADMIN_DEFAULT,
    AdminOption,
    JsonOption,
    SecretOption,
    tell_if_not_known,
    to_change,
)
from holdfast.cli.output import tell_own_view, write_json, write_line, write_table
from holdfast.errors import ConfigError

_Role = Annotated[str, typer.Argument(metavar="ROLE")]
_Rights = Annotated[str, typer.Argument(metavar="RIGHTS", help="read, write, admin: with commas.")]
_Pattern = Annotated[
    str,
    typer.Argument(
        metavar="PATTERN", help="queue://A.*, topic://A.>, or a name, which is a queue's."
    ),
]


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command("grant")(grant)
    app.command("revoke")(revoke)
    app.command("access")(access)


def grant(
    role: _Role,
    rights: _Rights,
    pattern: _Pattern,
    admin: AdminOption = ADMIN_DEFAULT,
    json: JsonOption = False,
    secret_file: SecretOption = None,
) -> None:
    """Let a role do more with the destinations that match a pattern."""
    wanted = {"role": role, "rights": rights, "pattern": pattern}
    _tell(to_change(admin, secret_file).change("POST", "/grants", wanted), as_json=json)


def revoke(
    role: _Role,
    rights: _Rights,
    pattern: _Pattern,
    admin: AdminOption = ADMIN_DEFAULT,
    json: JsonOption = False,
    secret_file: SecretOption = None,
) -> None:
    """Take rights back from a role, by the pattern by which they were granted."""
    wanted = {"role": role, "rights": rights, "pattern": pattern}
    _tell(to_change(admin, secret_file).change("POST", "/grants/revoke", wanted), as_json=json)


def access(
    user: Annotated[str, typer.Argument(metavar="NAME", help="Of this user.")] = "",
    destination: Annotated[
        str, typer.Argument(metavar="DESTINATION", help="A queue, a topic, or a wildcard.")
    ] = "",
    admin: AdminOption = ADMIN_DEFAULT,
    json: JsonOption = False,
    secret_file: SecretOption = None,
) -> None:
    """List all grants; or say what a user may do with a destination, and by which of them."""
    node = to_change(admin, secret_file)
    if not destination and user in ("", "list"):
        _list(node.get("/grants"), as_json=json)
        return
    if not destination:
        raise ConfigError([f"access: which destination is {user} asked for? 'access NAME QUEUE'"])
    question = urlencode({"user": user, "destination": destination})
    answer = node.get(f"/access?{question}")
    tell_own_view(answer)
    if json:
        write_json(answer)
        return
    rows = [
        [
            each["right"],
            "yes" if each["is_allowed"] else "no",
            "; ".join(f"{it['role']}: {_words(it)}" for it in each["grants"]),
        ]
        for each in answer["rights"]
    ]
    write_table(["right", "allowed", "by"], rows)
    tell_if_not_known(answer)


def _list(found: dict[str, Any], *, as_json: bool) -> None:
    tell_own_view(found)
    if as_json:
        write_json(found)
        return
    rows = [[it["role"], ",".join(it["rights"]), it["pattern"]] for it in found["grants"]]
    write_table(["role", "rights", "pattern"], rows)
    tell_if_not_known(found)


def _tell(answer: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        write_json(answer)
    elif answer["rights"]:
        write_line(f"role {answer['role']} may {_words(answer)}")
    else:
        write_line(f"role {answer['role']} has nothing of {answer['pattern']} any more")


def _words(grant: dict[str, Any]) -> str:
    return f"{','.join(grant['rights'])} {grant['pattern']}"

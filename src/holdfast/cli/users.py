"""
`holdfast users`: who may come in, by which roles, and what they show for it.

A password is asked for, twice, or read from standard input; a token is told once. On the node's own
machine its user may do all of this, whatever users there are: so nobody is ever shut out for good.
"""

from __future__ import annotations

import dataclasses
import re
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
    tell_if_not_known,
    to_change,
)
from holdfast.cli.destinations import AdminAfterOption
from holdfast.cli.login import new_password
from holdfast.cli.output import (
    confirm,
    tell_own_view,
    write_error,
    write_json,
    write_line,
    write_table,
)
from holdfast.cli.schedules import count_of
from holdfast.cli.users_import import import_users
from holdfast.errors import ConfigError, HoldfastError
from holdfast.security.roles import ADMIN

_SECONDS: Final = {"h": 3600, "d": 86_400, "w": 7 * 86_400}
_TIME: Final = re.compile(r"([1-9][0-9]{0,5})([hdw])")

users = typer.Typer(help="Who may come in: list, add, password, token, roles, remove, import.")

RolesOption = Annotated[
    list[str] | None, typer.Option("--role", metavar="ROLE", help="May be given several times.")
]
StdinOption = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from standard input.")
]
NameArgument = Annotated[str, typer.Argument(metavar="NAME")]


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.add_typer(users, name="users")


@users.callback(invoke_without_command=True)
def begin(
    context: typer.Context,
    admin: AdminOption = ADMIN_DEFAULT,
    json: JsonOption = False,
    secret_file: SecretOption = None,
) -> None:
    """List the users."""
    context.obj = admin
    if context.invoked_subcommand is None:
        _list(to_change(admin, secret_file), as_json=json)


@users.command("list")
def list_users(
    context: typer.Context,
    admin: AdminAfterOption = None,
    json: JsonOption = False,
    secret_file: SecretOption = None,
) -> None:
    """List the users: roles, and what they show."""
    _list(to_change(admin or context.obj, secret_file), as_json=json)


def _list(node: RemoteNode, *, as_json: bool) -> None:
    found = node.get("/users")
    tell_own_view(found)
    if as_json:
        write_json(found)
        return
    is_scram = bool(found.get("scram"))
    rows = [
        [
            each["name"],
            ", ".join(each["roles"]),
            _password(each, is_scram=is_scram),
            ", ".join(map(_token, each["tokens"])),
        ]
        for each in found["users"]
    ]
    write_table(["name", "roles", "password", "tokens"], rows)
    tell_if_not_known(found)
    lacking = [
        it["name"] for it in found["users"] if it["has_password"] and not it.get("has_scram")
    ]
    if is_scram and lacking:
        write_error(
            f"note: SCRAM is not offered before {len(lacking):,} passwords were set anew (holdfast"
            f" users password NAME): {', '.join(lacking[:10])}{', …' if len(lacking) > 10 else ''}"
        )


def _password(user: dict[str, Any], *, is_scram: bool) -> str:
    if not user["has_password"]:
        return ""
    return "yes, not by SCRAM" if is_scram and not user.get("has_scram") else "yes"


def _token(token: dict[str, Any]) -> str:
    expires_ms = token["expires_ms"]
    if not expires_ms:
        return str(token["name"])
    end = datetime.fromtimestamp(expires_ms / 1000, UTC)
    return f"{token['name']} (until {end:%Y-%m-%d %H:%M} UTC)"


@users.command("add")
def add(
    context: typer.Context,
    name: NameArgument,
    role: RolesOption = None,
    password_stdin: StdinOption = False,
    no_password: Annotated[
        bool,
        typer.Option("--no-password", help="He shows a token or a certificate of this name."),
    ] = False,
    admin: AdminAfterOption = None,
    secret_file: SecretOption = None,
) -> None:
    """Make a user."""
    if password_stdin and no_password:
        raise ConfigError(["--password-stdin and --no-password: one of them"])
    node = _private(to_change(admin or context.obj, secret_file))
    wanted: dict[str, Any] = {"name": name, "roles": role or []}
    if not no_password:
        wanted["password"] = new_password(from_stdin=password_stdin)
    answer = node.change("POST", "/users", wanted)
    write_line(f"user {name} was made")
    _tell_left(answer, name)
    if answer["first"]:
        write_error(
            "note: from now on whoever connects has to log in; commands of the node's user on its"
            " own machine do not"
        )


@users.command("password")
def password(
    context: typer.Context,
    name: NameArgument,
    password_stdin: StdinOption = False,
    admin: AdminAfterOption = None,
    secret_file: SecretOption = None,
) -> None:
    """Give a user another password."""
    node = _private(to_change(admin or context.obj, secret_file))
    wanted = {"name": name, "password": new_password(from_stdin=password_stdin)}
    node.change("POST", "/users/password", wanted)
    write_line(f"user {name} has another password")


@users.command("token")
def token(
    context: typer.Context,
    name: NameArgument,
    called: Annotated[
        str, typer.Option("--name", metavar="TOKEN", help="What the token is called.")
    ] = "default",
    expires: Annotated[
        str, typer.Option("--expires", metavar="TIME", help="12h, 90d or 52w; else it never ends.")
    ] = "",
    end: Annotated[bool, typer.Option("--end", help="End the token of this name instead.")] = False,
    admin: AdminAfterOption = None,
    secret_file: SecretOption = None,
) -> None:
    """Make a token of a user, which is told this once and never again."""
    node = _private(to_change(admin or context.obj, secret_file))
    if end:
        node.change("POST", "/users/tokens/end", {"name": name, "token": called})
        write_line(f"token {called} of user {name} has ended")
        return
    wanted = {"name": name, "token": called, "expires_seconds": _seconds(expires)}
    answer = node.change("POST", "/users/tokens", wanted)
    write_line(answer["token"])


@users.command("roles")
def roles(
    context: typer.Context,
    name: NameArgument,
    role: Annotated[list[str] | None, typer.Argument(metavar="[ROLE...]")] = None,
    admin: AdminAfterOption = None,
    secret_file: SecretOption = None,
) -> None:
    """Let a user have these roles and no others."""
    node = to_change(admin or context.obj, secret_file)
    answer = node.change("POST", "/users/roles", {"name": name, "roles": role or []})
    write_line(f"user {name} has roles: {', '.join(answer['roles']) or 'none'}")


@users.command("remove")
def remove(
    context: typer.Context,
    name: NameArgument,
    last: Annotated[
        bool, typer.Option("--last", help="Also the last one: everybody is let in then.")
    ] = False,
    subscriptions: Annotated[
        bool,
        typer.Option(
            "--subscriptions", help="Also his durable subscriptions, with what they keep."
        ),
    ] = False,
    yes: YesOption = False,
    admin: AdminAfterOption = None,
    secret_file: SecretOption = None,
) -> None:
    """
    Remove a user.

    His durable subscriptions stay, and keep what is sent to their topics; whoever is given his name
    later does not get at them. What he has scheduled goes to the dead letters when it is due.
    """
    confirm(f"Remove user {name}?", is_stated=yes)
    node = to_change(admin or context.obj, secret_file)
    wanted = {"name": name, "last": last} | ({"subscriptions": True} if subscriptions else {})
    answer = node.change("POST", "/users/remove", wanted)
    ended = answer.get("subscriptions_ended", 0)
    also = f", with {ended:,} durable subscriptions" if ended else ""
    write_line(f"user {name} was removed{also}")
    _tell_left(answer, name)
    _tell_scheduled(node, name)


@users.command("recover")
def recover(
    context: typer.Context,
    name: NameArgument,
    password_stdin: StdinOption = False,
    admin: AdminAfterOption = None,
    secret_file: SecretOption = None,
) -> None:
    """
    Make an admin who can log in, of a user there is or not: nobody else can, or a key is lost.

    It is run on the node's machine by the node's user, or with the cluster's secret. Where the file
    with the key of passwords is lost, all other passwords are to be set anew as well.
    """
    node = dataclasses.replace(_private(to_change(admin or context.obj, secret_file)), login="")
    there = {each["name"]: each for each in node.get("/users")["users"]}
    wanted = {"name": name, "password": new_password(from_stdin=password_stdin)}
    if name not in there:
        node.change("POST", "/users", {**wanted, "roles": [ADMIN]})
    else:
        known = there[name]["roles"]
        node.change("POST", "/users/password", wanted)
        node.change("POST", "/users/roles", {"name": name, "roles": [*known, ADMIN]})
    write_line(f"user {name} is an admin, by this password")
    others = [each["name"] for each in there.values() if each["has_password"]]
    if others := [other for other in others if other != name]:
        write_error(
            f"note: if the key of passwords was lost, {len(others):,} others need one anew:"
            f" {', '.join(others[:10])}{', …' if len(others) > 10 else ''}"
        )


users.command("import")(import_users)


def _tell_scheduled(node: RemoteNode, name: str) -> None:
    """Tell what a user who is gone has scheduled, if that can be asked."""
    try:
        count = count_of(node, name)
    except HoldfastError as error:
        write_error(f"note: what {name} has scheduled could not be asked: {error}")
        return
    if count:
        write_error(
            f"note: {count:,} scheduled messages of {name} are left; each goes to the dead letters"
            f" when it is due: 'holdfast schedule list' shows them, '… remove' takes one back"
        )


def _tell_left(answer: dict[str, Any], name: str) -> None:
    """Say what is left of a user who is gone, and what can be done with it."""
    left = answer.get("subscriptions_left", 0)
    if left:
        write_error(
            f"note: {left:,} durable subscriptions of a removed user {name} are left and keep what"
            f" is sent to their topics: 'holdfast subscriptions' lists them, '… give' lets another"
            f" user have one, '… end' ends it"
        )


def _private(node: RemoteNode) -> RemoteNode:
    return dataclasses.replace(node, is_private=True)


def _seconds(written: str) -> int:
    """
    Read how long a token is good for; empty: 0, for ever.

    Raises:
        ConfigError: It is no such time.
    """
    found = _TIME.fullmatch(written)
    if written and found is None:
        raise ConfigError([f"--expires: {written!r} is no time; 12h, 90d or 52w are"])
    return int(found[1]) * _SECONDS[found[2]] if found else 0

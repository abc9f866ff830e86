"""
`holdfast users import`: users, groups and rights of ActiveMQ become users, roles and grants.

Grants are made first, so that whoever comes in has his rights. What is there already stays as it
is: an import that was broken off is run again.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.admin.remote import RemoteNode
from holdfast.cli.activemq_users import (
    FILE_BYTES_MAX,
    Found,
    read_activemq_xml,
    read_jaas,
)
from holdfast.cli.admin_port import SecretOption, YesOption, to_change
from holdfast.cli.destinations import AdminAfterOption
from holdfast.cli.import_plan import Plan, plan_of
from holdfast.cli.java_properties import Property, read_properties
from holdfast.cli.output import (
    EXIT_FAILED,
    confirm,
    printable,
    write_error,
    write_line,
    write_table,
)
from holdfast.environment.secret_files import tell_of_readers
from holdfast.errors import ConfigError, LinkError, RefusedError
from holdfast.security.grants import named


def import_users(
    context: typer.Context,
    activemq_xml: Annotated[
        Path | None, typer.Argument(metavar="[ACTIVEMQ.XML]", help="With its plugins for security.")
    ] = None,
    jaas_users: Annotated[
        Path | None, typer.Option("--jaas-users", metavar="FILE", help="users.properties")
    ] = None,
    jaas_groups: Annotated[
        Path | None, typer.Option("--jaas-groups", metavar="FILE", help="groups.properties")
    ] = None,
    properties: Annotated[
        list[Path] | None,
        typer.Option(
            "--properties", metavar="FILE", help="What ${…} means: credentials.properties."
        ),
    ] = None,
    role: Annotated[
        list[str] | None,
        typer.Option("--role", metavar="GROUP=ROLE", help="What a group is to be called here."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be made, and ask no node.")
    ] = False,
    yes: YesOption = False,
    admin: AdminAfterOption = None,
    secret_file: SecretOption = None,
) -> None:
    """Make users, roles and grants of what ActiveMQ's files have."""
    if activemq_xml is None and jaas_users is None:
        raise ConfigError(["users import: which file? ACTIVEMQ.XML, or --jaas-users FILE"])
    if jaas_groups is not None and jaas_users is None:
        raise ConfigError(["--jaas-groups: give the users as well (--jaas-users)"])
    known: dict[str, Property] = {}
    for path in properties or []:
        known |= read_properties(_read(path))
    found = Found()
    if activemq_xml is not None:
        _join(found, read_activemq_xml(str(activemq_xml), _read(activemq_xml), known))
    if jaas_users is not None:
        groups = None if jaas_groups is None else (str(jaas_groups), _read(jaas_groups))
        _join(found, read_jaas((str(jaas_users), _read(jaas_users)), groups))
    if any(it.password for it in found.users):
        for path in filter(None, (*(properties or []), activemq_xml, jaas_users)):
            tell_of_readers(path)
    plan = plan_of(found, _roles(role or []))
    _show(plan)
    if dry_run or not (plan.users or plan.grants):
        return
    confirm(f"Make {len(plan.users):,} users and {len(plan.grants):,} grants?", is_stated=yes)
    node = dataclasses.replace(to_change(admin or context.obj, secret_file), is_private=True)
    _make(node, plan)


def _join(found: Found, more: Found) -> None:
    found.users += more.users
    found.entries += more.entries
    found.left_out += more.left_out


def _read(path: Path) -> bytes:
    """
    Read a file, or a little more of it than may be.

    Raises:
        ConfigError: It cannot be read, or is too large.
    """
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError([f"{path} cannot be read: {error.strerror}"]) from error
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError([f"{path}: it is too large for such a file"])
    return data


def _roles(said: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in said:
        group, equals, role = (part.strip() for part in each.partition("="))
        if not equals or not group or not role:
            raise ConfigError([f"--role: {each!r} is not GROUP=ROLE"])
        found[group] = role
    return found


def _show(plan: Plan) -> None:
    users = [
        [each.name, ", ".join(each.roles), "yes" if each.password else ""] for each in plan.users
    ]
    if users:
        write_table(["user", "roles", "password"], users)
        write_line("")
    if plan.grants:
        write_table(
            ["role", "rights", "pattern"],
            [[each.role, named(each.rights), str(each.pattern)] for each in plan.grants],
        )
    for place, why in plan.left_out:
        write_error(f"{printable(str(place))}: {printable(why)}")


def _make(node: RemoteNode, plan: Plan) -> None:
    for grant in plan.grants:
        wanted = {
            "role": grant.role,
            "rights": named(grant.rights),
            "pattern": str(grant.pattern),
        }
        node.change("POST", "/grants", wanted)
    there = {each["name"] for each in node.get("/users")["users"]}
    made = failed = 0
    for user in plan.users:
        if user.name in there:
            write_error(f"user {user.name}: there is one already, who stays as he is")
            continue
        body: dict[str, Any] = {"name": user.name, "roles": list(user.roles)}
        if user.password:
            body["password"] = user.password
        try:
            node.change("POST", "/users", body)
        except LinkError:
            raise
        except RefusedError as error:
            write_error(f"user {user.name}: {error}")
            failed += 1
        else:
            made += 1
    write_line(f"{made:,} users were made, and {len(plan.grants):,} grants")
    if failed:
        raise typer.Exit(EXIT_FAILED)

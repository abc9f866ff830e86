"""
`holdfast certificates make`: an authority of one's own, and what it vouches for.

Whoever has an authority needs nothing of this. Needs the extra `certificates`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.output import write_line
from holdfast.config.address import HOST_NAME
from holdfast.config.members import check_name
from holdfast.errors import ConfigError
from holdfast.model.networks import is_address

_DAYS_MAX = 3650


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    group = typer.Typer(no_args_is_help=True, help="Certificates of one's own for TLS.")
    group.callback()(certificates)
    group.command("make")(make)
    app.add_typer(group, name="certificates")


def certificates() -> None:
    """Make certificates of one's own for TLS."""


def make(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where they are kept.")],
    *,
    node: Annotated[
        list[str] | None,
        typer.Option("--node", metavar="NAME[=HOST,…]", help="A node, and what it is called."),
    ] = None,
    client: Annotated[
        list[str] | None, typer.Option("--client", metavar="NAME", help="A client.")
    ] = None,
    days: Annotated[
        int, typer.Option("--days", min=1, max=_DAYS_MAX, help="How long they are valid.")
    ] = 365,
) -> None:
    """
    Make an authority, if there is none in DIR yet, and certificates for nodes and clients.

    Each gets one file, NAME.pem, with its certificate and its key; one that is there already is
    replaced by a new one. ca.pem is what the others are told to trust; ca.key stays here.
    """
    nodes = [_read_node(it) for it in node or ()]
    clients = [_checked(it) for it in client or ()]
    names = [name for name, _ in nodes] + clients
    for name in names:
        if names.count(name) > 1 or name == "ca":
            raise ConfigError([f"{name}: each file is another's; give each its own name"])
    try:
        from holdfast.transport.certificates import (
            AUTHORITY_FILE,
            make_client,
            make_node,
            open_authority,
        )
    except ImportError:
        install = "pip install 'holdfast[certificates]'"
        raise ConfigError([f"certificates are made with one package more: {install}"]) from None
    authority, is_new = open_authority(directory)
    if is_new:
        write_line(f"{directory / AUTHORITY_FILE}: a new authority; keep its key, ca.key")
    for name, hosts in nodes:
        make_node(authority, directory / f"{name}.pem", name, hosts, days)
        write_line(f"{directory / name}.pem: a node, for {days:,} days")
    for name in clients:
        make_client(authority, directory / f"{name}.pem", name, days)
        write_line(f"{directory / name}.pem: a client, for {days:,} days")


def _read_node(text: str) -> tuple[str, list[str]]:
    name, _, rest = text.partition("=")
    hosts = [it.strip().strip("[]") for it in rest.split(",") if it.strip()]
    for host in hosts:
        if not HOST_NAME.fullmatch(host) and not is_address(host):
            raise ConfigError(
                [f"--node {text}: {host!r} is not the name of a host, without a port"]
            )
    return _checked(name), hosts


def _checked(name: str) -> str:
    try:
        return check_name(name)
    except ValueError as error:
        raise ConfigError([str(error)]) from None

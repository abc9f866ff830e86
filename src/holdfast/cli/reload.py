"""
`holdfast reload`: have a node read its certificates anew, and hear what became of it.

A SIGHUP does the same, and tells the log only.
"""

from __future__ import annotations

import typer

from holdfast.cli.admin_port import (
    ADMIN_DEFAULT,
    AdminOption,
    JsonOption,
    SecretOption,
    to_change,
)
from holdfast.cli.output import write_json, write_line


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command("reload")(reload)


def reload(
    admin: AdminOption = ADMIN_DEFAULT,
    secret_file: SecretOption = None,
    json: JsonOption = False,
) -> None:
    """
    Have one node read its certificates, authorities and revocations anew.

    All files are looked at first: if one cannot be used nothing changes, and this ends with 1.
    Whoever is connected stays.
    """
    answer = to_change(admin, secret_file).change("POST", "/reload")
    if json:
        write_json(answer)
        return
    names = ", ".join(str(it) for it in answer.get("tls", ()))
    write_line(f"read anew: {names}" if names else "nothing to be read: it has no [tls.NAME]")

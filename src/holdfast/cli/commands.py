"""
The commands of `holdfast`: each module of commands is imported when one of its is asked for.

A node would otherwise begin with the imports of all that asks nodes, reads logs and archives, and
each `send` of a script with those of a node: a tenth of the time that the one takes to start, and
half of that of the other. Whoever needs all of them, as for the help, asks for each by name.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_group

from holdfast.cli.login import add_login
from holdfast.cli.parameters import plain, read_plainly
from holdfast.cli.passcodes import add_passcode_file

MODULES: Final = {
    "serve": "serve",
    "send": "messages",
    "receive": "messages",
    "request": "message_asking",
    "reply": "message_asking",
    "shovel": "shovel",
    "status": "cluster",
    "archive": "archive",
    "audit": "audit",
    "restore": "restore",
    "archive-table": "archive_table",
    "replay": "stored_messages",
    "report": "stored_messages",
    "config": "config",
    "certificates": "certificates",
    "reload": "reload",
    "cluster": "cluster",
    "queues": "queues",
    "messages": "queue_messages",
    "schedule": "schedules",
    "subscriptions": "subscriptions",
    "users": "users",
    "grant": "grants",
    "revoke": "grants",
    "access": "grants",
    "store": "store_tools",
    "mirror": "mirrors",
}
"""Where each command stands, in the order of the help."""


class Commands(TyperGroup):
    """All commands, of which only those that were asked for are there."""

    def get_params(self, ctx: Any) -> list[Any]:
        return [plain(it) for it in super().get_params(ctx)]

    def list_commands(self, ctx: Any) -> list[str]:
        return list(MODULES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Bring the module of a command; after a wrong name all, since one may have been meant."""
        for name in [cmd_name] if cmd_name in MODULES else MODULES:
            if name not in self.commands:
                self.commands.update(commands_of(MODULES[name]))
        return self.commands.get(cmd_name)


def commands_of(module: str) -> dict[str, Any]:
    """What a module adds to the command line, by name."""
    app = typer.Typer(rich_markup_mode=None)
    importlib.import_module(f"holdfast.cli.{module}").register(app)
    group = get_group(app)
    for command in group.commands.values():
        add_login(command)
        add_passcode_file(command)
        read_plainly(command)
    return dict(group.commands)

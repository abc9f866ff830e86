"""
The flags of a node, for every command that puts a node's configuration together.

They are handed on as they were written; the configuration checks them together with the rest and
reports every mistake at once. Each is a setting of the catalogue by its name.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from holdfast.cli.output import write_error
from holdfast.cli.variables import UnknownVariable
from holdfast.config.node import NodeConfig
from holdfast.errors import ConfigError


def _flag(metavar: str, text: str) -> tuple[str, str]:
    return metavar, text


_TEXTS: Final = {
    "data": _flag("DIR", "The directory of all that must last; several hold the same."),
    "store": _flag("URL", "The database that keeps the log."),
    "store_confirm": _flag("all|majority", "Which of several databases must have a message."),
    "shared": _flag("DIR", "The shared directory that keeps the log."),
    "elector": _flag("URL", "ZooKeeper or etcd: who takes the log's lease next."),
    "name": _flag("NAME", "This node's name among the members."),
    "stomp": _flag("HOST:PORT", "Where clients connect."),
    "listen": _flag("HOST:PORT[,tls=NAME]", "Further ports of clients; TLS as the file says."),
    "admin": _flag("HOST:PORT", "Where operators connect."),
    "admin_tls": _flag("NAME", "The table of TLS that the admin port goes by."),
    "admin_names": _flag("NAME,…", "More host names of the admin port."),
    "connections": _flag("N", "Client connections at one time."),
    "admin_connections": _flag("N", "The same for the admin port."),
    "peers": _flag("HOST:PORT", "Where other members connect."),
    "peer_tls": _flag("HOW", "Links of members by TLS: off, accept or require."),
    "members": _flag(
        "NAME=HOST:PORT[,witness|,learner][,site=NAME]",
        "Each member of the cluster, this one too.",
    ),
    "secret_file": _flag("FILE", "What the members know of each other."),
    "anonymous_role": _flag("ROLE", "Of clients that show nothing; else they are not let in."),
    "plain_without_tls": _flag("", "Take passwords in clear from other machines, too."),
    "scram": _flag("", "Let passwords be shown by SCRAM-SHA-256, too."),
    "audit_file": _flag("FILE", "Who did what, a line of JSON each."),
    "site": _flag("NAME", "Where this node stands."),
    "copies": _flag("N", "Nodes with data that must hold a message."),
    "sites": _flag("N", "Distinct sites among them."),
    "memory": _flag("BYTES", "For message bodies: 256MiB."),
    "learner_hold": _flag("BYTES", "Of the log, for a learner that is behind: 16GiB."),
    "reader_hold": _flag("BYTES", "Of the log, for one named reader: 64GiB at most."),
    "default_persistent": _flag("", "Keep messages that do not say whether to."),
    "stomp_strict": _flag("", "End connections where STOMP does, not ActiveMQ."),
    "segment": _flag("BYTES", "Size of a file of the log."),
    "heartbeat_seconds": _flag("SECONDS", "Between a leader's signs of life."),
    "election_seconds_min": _flag("SECONDS", "Shortest silence before an election."),
    "election_seconds_max": _flag("SECONDS", "Longest."),
    "lease_seconds": _flag("SECONDS", "How long a silent holder of the log is waited for."),
    "sql_messages": _flag("HOW", "Show messages in the database: off, headers or full."),
    "log_level": _flag("LEVEL", "debug to error."),
    "log_format": _flag("FORMAT", "human or json."),
}
"""What stands for each value, and what the flag is for; without the first it is on or off."""

_CONFIG: Final = typer.Option(
    "--config", envvar="HOLDFAST_CONFIG", metavar="FILE", help="A TOML file."
)


def with_node_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command all flags of a node; it gets them as `flags` and `config`, the file."""
    own = [it for it in inspect.signature(command).parameters.values() if it.name != "flags"]
    hints = inspect.get_annotations(command, eval_str=True)
    parameters = [it.replace(annotation=hints[it.name]) for it in own if it.name != "config"]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in {**_annotations(), "config": Annotated[Path | None, _CONFIG]}.items()
    ]

    @functools.wraps(command)
    def called(**given: Any) -> None:
        flags = {name: given.pop(name) for name in _TEXTS}
        command(**given, flags=flags)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {it.name: it.annotation for it in parameters}
    return called


def _annotations() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, (metavar, text) in _TEXTS.items():
        flag = "--" + name.replace("_", "-")
        if not metavar:
            off = flag.replace("--", "--no-", 1)
            found[name] = Annotated[bool | None, typer.Option(f"{flag}/{off}", help=text)]
        elif name in ("members", "data"):
            flag = "--member" if name == "members" else flag
            option = typer.Option(flag, metavar=metavar, help=text)
            found[name] = Annotated[list[str] | None, option]
        elif name in ("store", "listen"):
            option = typer.Option(flag, metavar=metavar, help=text)
            found[name] = Annotated[list[str] | None, option]
        else:
            found[name] = Annotated[str | None, typer.Option(flag, metavar=metavar, help=text)]
    return found


def load_config(
    flags: Mapping[str, Any],
    config: Path | None,
    unknown: list[UnknownVariable],
    *,
    is_data_needed: bool = True,
) -> NodeConfig:
    """
    Put a node's configuration together; one that is only looked at needs no directory.

    Raises:
        ConfigError: With every mistake; unknown variables are told before it.
    """
    try:
        return NodeConfig.load(
            flags=flags, environment=os.environ, file=config, is_data_needed=is_data_needed
        )
    except ConfigError:
        # One of them may be what is said to be missing.
        for variable in unknown:
            write_error(f"holdfast: warning: {variable}")
        raise

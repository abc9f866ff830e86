"""
`holdfast serve`: start one node from flags, environment and file.

The flags are handed on as they were written; the configuration checks them together with the rest
and reports every mistake at once. What the node is stands in the first lines of its log.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import structlog
import typer

from holdfast import __version__
from holdfast.cli.logging import logging_flushed, set_up_logging
from holdfast.cli.output import EXIT_FAILED, format_size, write_error
from holdfast.cli.ports import taken_ports
from holdfast.cli.signals import stray_signals_told
from holdfast.cli.variables import UnknownVariable, unknown_variables
from holdfast.config.node import NodeConfig
from holdfast.errors import ConfigError

# The writer thread comes back from each sync and needs the interpreter at once; the default of 5 ms
# would be longer than the sync itself.
SWITCH_SECONDS = 0.0005

_NO_SETTINGS = ("context", "config", "member")


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command("serve")(serve)


def _flag(name: str, metavar: str, text: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(name, metavar=metavar, help=text)
    return option


def _switch(name: str, text: str) -> Any:
    """An option that is on or off; its environment variable is read by `NodeConfig`."""
    return typer.Option(f"--{name}/--no-{name}", help=text)


_Text = str | None


def serve(
    context: typer.Context,
    data: Annotated[_Text, _flag("--data", "DIR", "The directory of all that must last.")] = None,
    name: Annotated[_Text, _flag("--name", "NAME", "This node's name among the members.")] = None,
    stomp: Annotated[_Text, _flag("--stomp", "HOST:PORT", "Where clients connect.")] = None,
    admin: Annotated[_Text, _flag("--admin", "HOST:PORT", "Where operators connect.")] = None,
    admin_names: Annotated[
        _Text, _flag("--admin-names", "NAME,…", "More host names of the admin port.")
    ] = None,
    connections: Annotated[
        _Text, _flag("--connections", "N", "Client connections at one time.")
    ] = None,
    admin_connections: Annotated[
        _Text, _flag("--admin-connections", "N", "The same for the admin port.")
    ] = None,
    peers: Annotated[_Text, _flag("--peers", "HOST:PORT", "Where other members connect.")] = None,
    member: Annotated[
        list[str] | None,
        _flag(
            "--member",
            "NAME=HOST:PORT[,witness|,learner][,site=NAME]",
            "Each member of the cluster, this one too.",
        ),
    ] = None,
    secret_file: Annotated[
        _Text, _flag("--secret-file", "FILE", "What the members know of each other.")
    ] = None,
    site: Annotated[_Text, _flag("--site", "NAME", "Where this node stands.")] = None,
    copies: Annotated[
        _Text, _flag("--copies", "N", "Nodes with data that must hold a message.")
    ] = None,
    sites: Annotated[_Text, _flag("--sites", "N", "Distinct sites among them.")] = None,
    memory: Annotated[_Text, _flag("--memory", "BYTES", "For message bodies: 256MiB.")] = None,
    learner_hold: Annotated[
        _Text, _flag("--learner-hold", "BYTES", "Of the log, for a learner that is behind: 16GiB.")
    ] = None,
    reader_hold: Annotated[
        _Text, _flag("--reader-hold", "BYTES", "Of the log, for one named reader: 64GiB at most.")
    ] = None,
    default_persistent: Annotated[
        bool | None, _switch("default-persistent", "Keep messages that do not say whether to.")
    ] = None,
    stomp_strict: Annotated[
        bool | None, _switch("stomp-strict", "End connections where STOMP does, not ActiveMQ.")
    ] = None,
    segment: Annotated[_Text, _flag("--segment", "BYTES", "Size of a file of the log.")] = None,
    heartbeat_seconds: Annotated[
        _Text, _flag("--heartbeat-seconds", "SECONDS", "Between a leader's signs of life.")
    ] = None,
    election_seconds_min: Annotated[
        _Text, _flag("--election-seconds-min", "SECONDS", "Shortest silence before an election.")
    ] = None,
    election_seconds_max: Annotated[
        _Text, _flag("--election-seconds-max", "SECONDS", "Longest.")
    ] = None,
    log_level: Annotated[_Text, _flag("--log-level", "LEVEL", "debug to error.")] = None,
    log_format: Annotated[_Text, _flag("--log-format", "FORMAT", "human or json.")] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", envvar="HOLDFAST_CONFIG", metavar="FILE", help="A TOML file."),
    ] = None,
) -> None:
    """
    Run one node until it is told to stop.

    Each setting is taken from its flag, else from HOLDFAST_… in the environment, else from the TOML
    file, else it has its default.
    """
    flags = {key: value for key, value in locals().items() if key not in _NO_SETTINGS}
    flags["members"] = member
    unknown = unknown_variables(os.environ, context)
    settings = _load(flags, config, unknown)
    _require_ports(settings)
    raise typer.Exit(_run(settings, unknown))


def _load(
    flags: Mapping[str, Any], config: Path | None, unknown: list[UnknownVariable]
) -> NodeConfig:
    try:
        return NodeConfig.load(flags=flags, environment=os.environ, file=config)
    except ConfigError:
        # One of them may be what is said to be missing.
        for variable in unknown:
            write_error(f"holdfast: warning: {variable}")
        raise


def _require_ports(settings: NodeConfig) -> None:
    taken = taken_ports(settings)
    for sentence in taken:
        write_error(f"holdfast: {sentence}")
    if taken:
        raise typer.Exit(EXIT_FAILED)


def _run(settings: NodeConfig, unknown: list[UnknownVariable]) -> int:
    set_up_logging(settings.log_level, settings.log_format, in_thread=True)
    sys.setswitchinterval(SWITCH_SECONDS)
    with logging_flushed(), stray_signals_told():
        _introduce(settings)
        log = structlog.get_logger("holdfast")
        for it in unknown:
            log.warning("unknown environment variable", name=it.name, near=it.near or "none")
        from holdfast.server.node import run

        return run(settings)


def _introduce(settings: NodeConfig) -> None:
    """What this node is, in one line each."""
    log = structlog.get_logger("holdfast")
    log.info(
        "starting",
        node=settings.name,
        version=__version__,
        data=str(settings.data),
        memory=format_size(settings.sections.broker.memory_bytes),
    )
    if settings.members:
        log.info(
            "member of a cluster",
            members=", ".join(_describe(settings)),
            copies=settings.sections.replication.copies or "as the members allow",
            sites=settings.sections.replication.sites,
        )
    if settings.secret_file is not None:
        mode = settings.secret_file.stat().st_mode
        if mode & (stat.S_IRGRP | stat.S_IROTH):
            log.warning("other users can read the secret", file=str(settings.secret_file))


def _describe(settings: NodeConfig) -> list[str]:
    return [
        f"{member.name}={member.address}"
        + (f",{member.kind}" if member.kind != "voter" else "")
        + (f",site={member.site}" if member.site else "")
        for member in settings.members
    ]

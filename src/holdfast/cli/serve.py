"""
`holdfast serve`: start one node from flags, environment and file.

What the node is stands in the first lines of its log; what its flags are, in `node_flags`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import typer

from holdfast import __version__
from holdfast.cli.hidden_passwords import hide_passwords
from holdfast.cli.logging import get_logger, logging_flushed, set_up_logging
from holdfast.cli.node_flags import load_config, with_node_flags
from holdfast.cli.output import EXIT_FAILED, format_size, write_error
from holdfast.cli.ports import taken_ports
from holdfast.cli.signals import stray_signals_told
from holdfast.cli.variables import UnknownVariable, unknown_variables
from holdfast.config.node import NodeConfig
from holdfast.environment.secret_files import tell_of_readers
from holdfast.model.policies import moot_notice

# The writer thread comes back from each sync and needs the interpreter at once; the default of 5 ms
# would be longer than the sync itself.
SWITCH_SECONDS = 0.0005


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command("serve")(serve)


@with_node_flags
def serve(context: typer.Context, *, flags: dict[str, Any], config: Path | None) -> None:
    """
    Run one node until it is told to stop.

    Each setting is taken from its flag, else from HOLDFAST_… in the environment, else from the TOML
    file, else it has its default.
    """
    hide_passwords()
    unknown = unknown_variables(os.environ, context)
    settings = load_config(flags, config, unknown)
    _require_ports(settings)
    raise typer.Exit(_run(settings, unknown, config))


def _require_ports(settings: NodeConfig) -> None:
    taken = taken_ports(settings)
    for sentence in taken:
        write_error(f"holdfast: {sentence}")
    if taken:
        raise typer.Exit(EXIT_FAILED)


def _run(settings: NodeConfig, unknown: list[UnknownVariable], file: Path | None) -> int:
    set_up_logging(settings.log_level, settings.log_format, in_thread=True)
    sys.setswitchinterval(SWITCH_SECONDS)
    with logging_flushed(), stray_signals_told() as hang_ups:
        _introduce(settings, file)
        log = get_logger()
        for it in unknown:
            log.warning("unknown environment variable", name=it.name, near=it.near or "none")
        from holdfast.server.node import run

        return run(settings, hang_ups)


def _introduce(settings: NodeConfig, file: Path | None) -> None:
    """What this node is, in one line each."""
    log = get_logger()
    log.info(
        "starting",
        node=settings.name,
        version=__version__,
        data=", ".join(map(str, (settings.data, *settings.mirrors))),
        memory=format_size(settings.sections.broker.memory_bytes),
    )
    if settings.members:
        log.info(
            "member of a cluster",
            members=", ".join(map(str, settings.members)),
            copies=settings.sections.replication.copies or "as the members allow",
            sites=settings.sections.replication.sites,
        )
    if settings.policies.moot:
        log.warning("policies in the file", notice=moot_notice(settings.policies.moot))
    for path in settings.secrets(file):
        tell_of_readers(path)
    if settings.tls:
        _judge_certificates(settings)


def _judge_certificates(settings: NodeConfig) -> None:
    """Say what others will refuse, now or soon; files can be replaced while the node runs."""
    from holdfast.server.own_certificates import judge
    from holdfast.server.renewal import warnings_of

    log = get_logger()
    judged = judge(settings.shown)
    for sentence in judged.mistakes:
        log.error("certificates", notice=f"{sentence}; then holdfast reload")
    for sentence in judged.warnings + warnings_of(settings.tls.values()):
        log.warning("certificates", notice=sentence)

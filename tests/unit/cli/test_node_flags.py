"""
The flags of a node are the settings that have one, on every command that takes them.
"""

from __future__ import annotations

from typing import Any

import pytest
import typer
from typer.main import get_command

from holdfast.cli.main import app
from holdfast.cli.node_flags import load_config
from holdfast.cli.variables import UnknownVariable
from holdfast.config.catalogue import CATALOGUE
from holdfast.errors import ConfigError


def flags_of(*path: str) -> dict[str, str]:
    """The flags of a command, with what they are called in Python."""
    command: Any = get_command(app)
    for name in path:
        command = command.get_command(typer.Context(command), name)
    return {each.opts[0]: each.name for each in command.params if each.name != "as_json"}


@pytest.mark.parametrize("path", [("serve",), ("config", "show")], ids=" ".join)
def test_each_setting_with_a_flag_has_it(path: tuple[str, ...]) -> None:
    """
    And no flag is without its setting, but the one that names the file.
    """
    expected = {it.flag: it.name for it in CATALOGUE.values() if it.is_flag}
    assert flags_of(*path) == expected | {"--config": "config"}


def test_serve_reads_as_it_always_did(run) -> None:
    """
    What it says of itself begins with what it does, and each flag has what stands for its value.
    """
    assert run("serve", "--help") == 0
    assert "Run one node until it is told to stop." in run.out
    assert "--member NAME=HOST:PORT[,witness|,learner][,site=NAME]" in run.out
    assert "--stomp-strict / --no-stomp-strict" in run.out


def test_unknown_variables_are_told_before_mistakes(capsys: pytest.CaptureFixture[str]) -> None:
    """
    One of them may be what is said to be missing.
    """
    with pytest.raises(ConfigError, match="copies"):
        load_config({"copies": "0"}, None, [UnknownVariable("HOLDFAST_DTA", "HOLDFAST_DATA")])
    assert "HOLDFAST_DTA is unknown and ignored" in capsys.readouterr().err

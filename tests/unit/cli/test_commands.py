"""
Commands that are imported when they are asked for.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from holdfast.cli.commands import MODULES, commands_of


def test_each_module_has_the_commands_that_are_sought_in_it() -> None:
    """
    And no other: what is not in the list would not be found.
    """
    found = {name: module for module in set(MODULES.values()) for name in commands_of(module)}
    assert found == MODULES


def test_the_help_has_all_in_their_order(run) -> None:
    """
    As if they all were there from the beginning.
    """
    assert run("--help") == 0
    lines = run.out.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in lines if line.strip()] == list(MODULES)


def test_what_may_have_been_meant_is_sought_among_all(run) -> None:
    """
    Also the commands that nobody has asked for.
    """
    assert run("sned") == 2
    assert "No such command 'sned'. Did you mean 'send'?" in run.err


@pytest.mark.parametrize(
    ("arguments", "unneeded"),
    [
        (["--version"], ["pydantic", "structlog", "asyncio", "holdfast.client"]),
        (["send", "--help"], ["structlog", "uvicorn", "holdfast.journal", "holdfast.admin"]),
        (["serve", "--help"], ["holdfast.client", "holdfast.spark", "holdfast.cli.cluster"]),
    ],
    ids=" ".join,
)
def test_a_command_brings_nothing_that_only_others_need(
    arguments: list[str], unneeded: list[str]
) -> None:
    """
    Imports are most of the time that a command takes to start.
    """
    program = (
        "import sys, holdfast.__main__ as it\n"
        f"try: it.main({arguments!r})\n"
        f"except SystemExit: print([name for name in {unneeded!r} if name in sys.modules])\n"
    )
    line = [sys.executable, "-c", program]
    ended = subprocess.run(line, capture_output=True, text=True, check=True, timeout=60)
    assert ended.stdout.splitlines()[-1] == "[]"

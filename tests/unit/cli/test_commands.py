"""
Commands that are imported when they are asked for.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Final

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


_NOBODY: Final = "stomp://127.0.0.1:1"
_SEND: Final = ["send", "/queue/q", "text", "--uri", _NOBODY]
_RECEIVE: Final = ["receive", "/queue/q", "--uri", f"failover:({_NOBODY})?maxReconnectAttempts=1"]


UNNEEDED_BY_A_NODE: Final = [
    *("rich", "pygments", "pydantic", "lark", "prometheus_client"),
    *("holdfast.client", "holdfast.spark"),
]


@pytest.mark.parametrize(
    ("arguments", "unneeded"),
    [
        (["--version"], ["pydantic", "structlog", "asyncio", "holdfast.client", "rich"]),
        (["send", "--help"], ["structlog", "uvicorn", "holdfast.journal", "holdfast.admin"]),
        (["serve", "--help"], ["holdfast.client", "holdfast.spark", "holdfast.cli.cluster"]),
        (["status", "--admin", "127.0.0.1:1"], ["pydantic", "rich", "structlog", "asyncio"]),
        ([*_SEND, "--timeout", "1"], ["pydantic", "rich", "structlog", "uvicorn"]),
        ([*_RECEIVE, "--timeout", "0"], ["pydantic", "rich", "structlog", "uvicorn"]),
    ],
    ids=" ".join,
)
def test_a_command_brings_nothing_that_only_others_need(
    arguments: list[str], unneeded: list[str]
) -> None:
    """
    Imports are most of the time that a command takes to start.
    """
    assert imported("", arguments, unneeded) == []


def test_a_node_brings_nothing_that_only_others_need() -> None:
    """
    Nor what writes in colours: its log is plain, and its errors are told by others.
    """
    prepared = (
        "import holdfast.cli.serve, holdfast.server.node\n"
        "holdfast.server.node.run = lambda config, hang_ups: 0\n"
        "holdfast.cli.serve.taken_ports = lambda config: []\n"
    )
    assert imported(prepared, ["serve", "--data", "."], UNNEEDED_BY_A_NODE) == []


def imported(prepared: str, arguments: list[str], unneeded: list[str]) -> list[str]:
    """Which of these modules a process has, when it has run a command."""
    program = (
        f"import sys, json\nsys.argv[1:] = {arguments!r}\n"
        f"import holdfast.__main__ as it\n{prepared}"
        f"try: it.main({arguments!r})\nexcept SystemExit: pass\n"
        f"print(json.dumps([name for name in {unneeded!r} if name in sys.modules]))\n"
    )
    line = [sys.executable, "-c", program]
    ended = subprocess.run(line, capture_output=True, text=True, check=True, timeout=60)
    found: list[str] = json.loads(ended.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("arguments", [["serve"], ["--version"]], ids=" ".join)
def test_the_end_of_a_process_looks_for_no_garbage(arguments: list[str]) -> None:
    """
    All of it goes anyway, and to look through what was imported took a fifth of a node's start.
    """
    program = (
        "import atexit, gc, sys\n"
        "atexit.register(lambda: print(len(gc.get_objects()) < 1000 < gc.get_freeze_count()))\n"
        f"sys.argv[1:] = {arguments!r}\n"
        "import holdfast.__main__\n"
    )
    line = [sys.executable, "-c", program]
    ended = subprocess.run(line, capture_output=True, text=True, check=True, timeout=60)
    assert ended.stdout == "True\n"

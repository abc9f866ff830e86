"""
The command line as a whole: help, version, and how failures end.
"""

from __future__ import annotations

import pytest

from holdfast import __version__
from holdfast.admin.last_answer import note_answer
from holdfast.cli import cluster as cluster_commands
from holdfast.cli.main import main
from holdfast.errors import ConfigError, HoldfastError


def test_the_version_is_one_line(run) -> None:
    """
    For bug reports and scripts.
    """
    assert (run("--version"), run.out) == (0, f"holdfast {__version__}\n")


@pytest.mark.parametrize("command", ["serve", "status", "cluster", "queues"])
def test_every_group_has_help(run, command: str) -> None:
    """
    The groups that scripts rely on are there and tell what they do.
    """
    assert run(command, "--help") == 0
    assert "Usage: " in run.out


def test_wrong_usage_ends_with_2(run) -> None:
    """
    A mistake in the command line is told from a refusal.
    """
    assert run("cluster", "nonsense") == 2


@pytest.mark.parametrize(
    ("error", "code", "lines"),
    [
        (ConfigError(["a: wrong", "b: wrong"]), 2, ["holdfast: a: wrong", "holdfast: b: wrong"]),
        (HoldfastError("no"), 1, ["holdfast: no"]),
        (PermissionError("not yours"), 1, ["holdfast: not yours"]),
    ],
)
def test_a_failure_is_one_line_and_an_exit_code(
    run, monkeypatch, error: Exception, code: int, lines: list[str]
) -> None:
    """
    No traceback for what the world did wrong.
    """

    def fail(admin: str) -> None:
        raise error

    monkeypatch.setattr(cluster_commands, "to_ask", fail)
    assert run("status") == code
    assert run.err.splitlines() == lines


@pytest.mark.parametrize("error", [KeyError("after"), TypeError("'int' object"), ValueError("x")])
def test_an_answer_of_another_form_is_one_line_and_a_mistake_of_ours_is_none(
    run, monkeypatch, error: Exception
) -> None:
    """Whoever listens at the port answers as he likes; what nobody answered is our own."""
    answered = ["h:1", ""]

    def fail(admin: str) -> None:
        note_answer(answered.pop(0))
        raise error

    monkeypatch.setattr(cluster_commands, "to_ask", fail)
    assert run("status") == 1
    (line,) = run.err.splitlines()
    assert line.startswith("holdfast: h:1 does not answer like a Holdfast node of this version")
    assert f"({type(error).__name__}: {error}; test_main.py, line " in line
    with pytest.raises(type(error)):
        run("status")


def test_a_variable_that_nobody_knows_is_a_warning(cluster, run, monkeypatch) -> None:
    """
    On standard error, by every command: what it was to set is not set.
    """
    monkeypatch.setenv("HOLDFAST_ADMN", "127.0.0.1:1")
    assert run("status", "--json") == 0
    assert run.err == (
        "holdfast: warning: environment variable HOLDFAST_ADMN is unknown and ignored; did you mean"
        " HOLDFAST_ADMIN?\n"
    )


def test_arguments_default_to_the_programs_own(monkeypatch, capsys) -> None:
    """
    The installed script calls `main()` without arguments.
    """
    monkeypatch.setattr("sys.argv", ["holdfast", "--version"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith("holdfast ")

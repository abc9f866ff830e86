"""What a command shows a broker as a client, beside a name."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner

from holdfast.cli import passcodes
from holdfast.cli.commands import MODULES, commands_of
from holdfast.cli.passcodes import FILE_BYTES_MAX, Passcode, add_passcode_file
from holdfast.errors import ConfigError


class Shell:
    """Runs one command that takes a passcode."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.said: list[str | None] = []
        self.asked: list[str] = []
        self.answer = ""
        self._patch = patch
        app = typer.Typer(add_completion=False)

        def command(login: str | None = None, passcode: Passcode = None) -> None:
            self.said.append(passcode)

        app.command()(command)
        self.command = typer.main.get_command(app)
        add_passcode_file(self.command)
        patch.setattr(passcodes.typer, "prompt", self._prompt)
        patch.setattr(sys, "orig_argv", ["python"])
        self.at_terminal(False)

    def at_terminal(self, is_one: bool) -> None:
        self._patch.setattr(passcodes.sys, "stdin", SimpleNamespace(isatty=lambda: is_one))

    def _prompt(self, text: str, **options: object) -> str:
        assert options["hide_input"]
        self.asked.append(text)
        return self.answer

    def run(self, *arguments: str, **environment: str) -> str | None:
        for name in ("HOLDFAST_PASSCODE", "HOLDFAST_PASSCODE_FILE"):
            self._patch.delenv(name, raising=False)
        for name, value in environment.items():
            self._patch.setenv(name, value)
        self.command.main([*arguments], standalone_mode=False)
        return self.said.pop()


@pytest.fixture
def shell(monkeypatch) -> Shell:
    return Shell(monkeypatch)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "word"
    path.write_text("of the file: J\u00fcrgen\n")
    return path


def test_it_is_read_from_a_file(shell, file) -> None:
    """Named by the option or in the environment; the end of its line is no part of it."""
    word = "of the file: J\u00fcrgen"
    assert shell.run("--passcode-file", str(file), "--login", "ann") == word
    assert shell.run(HOLDFAST_PASSCODE_FILE=str(file)) == word
    assert shell.run("--passcode-file", str(file), HOLDFAST_PASSCODE="other") == word
    assert shell.run(HOLDFAST_PASSCODE="other") == "other"
    assert shell.run() is None


def test_both_are_too_many(shell, file) -> None:
    """Nobody knows which one is meant."""
    with pytest.raises(ConfigError, match="not both"):
        shell.run("--passcode", "x", "--passcode-file", str(file))


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"a\nb\n", b"\xff", b"a\0", b"a" * (FILE_BYTES_MAX + 1)]
)
def test_a_file_without_one_is_an_error_that_tells_nothing_of_it(shell, file, content) -> None:
    """It names the file, and says what is expected there."""
    file.write_bytes(content)
    with pytest.raises(ConfigError) as refused:
        shell.run("--passcode-file", str(file))
    (problem,) = refused.value.problems
    assert problem.startswith(f"passcode_file: {file} has no passcode; expected: one line")
    file.unlink()
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        shell.run("--passcode-file", str(file))


def test_who_says_his_name_at_a_terminal_is_asked(shell) -> None:
    """Not where he has said it, not in a pipe, and not who says no name."""
    assert shell.run("--login", "ann") is None
    shell.at_terminal(True)
    assert shell.run() is None
    assert shell.run("--login", "ann", HOLDFAST_PASSCODE="x") == "x"
    assert shell.asked == []
    shell.answer = "typed"
    assert shell.run("--login", "ann") == "typed"
    assert shell.asked == ["Passcode of ann (empty: none)"]
    shell.answer = ""
    assert shell.run("--login", "ann") is None, "a certificate says the same name"


def test_what_stands_on_the_command_line_does_not_stay_there(shell, monkeypatch) -> None:
    """The command begins anew; what stands in the environment is left alone."""
    begun: list[str] = []
    monkeypatch.setattr(passcodes, "hide_passcode", lambda: begun.append("anew"))
    assert shell.run("--passcode", "x") == "x"
    assert begun == ["anew"]
    assert shell.run(HOLDFAST_PASSCODE="x") == "x"
    assert begun == ["anew"]


def test_each_command_that_takes_a_passcode_takes_a_file() -> None:
    """It is added in one place."""
    found = []
    for module in sorted(set(MODULES.values())):
        for name, command in commands_of(module).items():
            options = {option for it in command.params for option in it.opts}
            if "--passcode" in options:
                assert "--passcode-file" in options, name
                found.append(name)
    assert sorted(found) == ["receive", "replay", "reply", "request", "send", "shovel"]


def test_its_help_says_where_it_is_better_given() -> None:
    """Whoever reads it learns of the file."""
    app = typer.Typer()

    @app.command()
    def command(passcode: Passcode = None) -> None:
        raise AssertionError(passcode)

    told = CliRunner().invoke(app, ["--help"]).output
    assert "--passcode-file" in told

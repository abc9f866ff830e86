"""
What is plain on the command line is read without pydantic, and as typer reads it.
"""

from __future__ import annotations

import enum
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.main import get_command

from holdfast.cli import parameters
from holdfast.cli.parameters import read_plainly


class Colour(enum.StrEnum):
    RED = "red"
    LIGHT_BLUE = "light-blue"


def take(
    *,
    text: Annotated[str | None, typer.Option("--text")] = None,
    texts: Annotated[list[str] | None, typer.Option("--texts")] = None,
    whole: Annotated[int | None, typer.Option("--whole", min=-5, max=1000)] = None,
    usual: Annotated[int, typer.Option("--usual", min=1)] = 7,
    decimal: Annotated[float | None, typer.Option("--decimal", min=0.01)] = None,
    flag: Annotated[bool, typer.Option("--flag")] = False,
    either: Annotated[bool | None, typer.Option("--either/--no-either")] = None,
    colour: Annotated[Colour, typer.Option("--colour")] = Colour.RED,
    file: Annotated[Path | None, typer.Option("--file")] = None,
    files: Annotated[list[Path] | None, typer.Option("--files")] = None,
    kept: Annotated[Path | None, typer.Option("--kept", exists=True)] = None,
    clamped: Annotated[int | None, typer.Option("--clamped", max=3, clamp=True)] = None,
    parsed: Annotated[str | None, typer.Option("--parsed", parser=str.upper)] = None,
    variable: Annotated[str | None, typer.Option("--variable", envvar="OF_THIS_TEST")] = None,
) -> None:
    """All that an option may be."""


def taken(arguments: list[str], *, plainly: bool) -> str:
    """What a command is given, with its type; or what it is told instead."""
    app = typer.Typer(rich_markup_mode=None)
    app.command()(take)
    command: Any = get_command(app)
    if plainly:
        read_plainly(command)
    try:
        return repr(command.make_context("take", list(arguments)).params)
    except Exception as error:  # noqa: BLE001 - whatever typer says
        return f"{type(error).__name__}: {error}"


NUMBERS = [
    "0",
    "1",
    "-5",
    "-6",
    "1000",
    "1001",
    "+3",
    " 4",
    "4 ",
    "007",
    "1_000",
    "1.0",
    "1e3",
    "x",
]
NUMBERS += ["", "9" * 15, "9" * 16, "9" * 5000, "\u0663", "true", "0x10", "-0"]
DECIMALS = ["0.01", "0.009", "2", "2.50", ".5", "5.", "1e-1", "inf", "nan", "-1.0", "1_0.5", "-0.0"]
TEXTS = ["", "a b", "été", "\udcff", "'", "a\nb", "\0"]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        *(["--text", it] for it in TEXTS),
        *(["--variable", it] for it in TEXTS),
        *(["--texts", it, "--texts", "z"] for it in TEXTS),
        *([f"--whole={it}"] for it in NUMBERS),
        *([f"--usual={it}"] for it in NUMBERS),
        *([f"--decimal={it}"] for it in [*NUMBERS, *DECIMALS]),
        *(["--colour", it] for it in ["red", "RED", "light-blue", "LIGHT_BLUE", "", "blue"]),
        *(["--clamped", it] for it in ["2", "9"]),
        *(["--file", it] for it in ["there", "absent", "there/..", "", ".", "-", "//a//b/", "é"]),
        ["--files", "there", "--files", "absent"],
        ["--kept", "there"],
        ["--kept", "absent"],
        ["--parsed", "abc"],
        ["--flag"],
        ["--either"],
        ["--no-either"],
        ["--flag=1"],
        ["--unknown"],
    ],
    ids=repr,
)
def test_a_value_is_read_as_typer_reads_it(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The same value of the same type, or the same sentence about what is wrong with it.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    assert taken(arguments, plainly=True) == taken(arguments, plainly=False)


def test_a_file_that_may_not_be_read_is_refused_as_typer_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    It looks whether what is there can be read.
    """
    monkeypatch.setattr("os.access", lambda path, mode: False)
    given = ["--file", str(tmp_path)]
    assert "is not readable" in taken(given, plainly=False)
    assert taken(given, plainly=True) == taken(given, plainly=False)


def test_what_typer_will_know_of_a_parameter_is_typers_to_read() -> None:
    """
    A later version may have more to say of how values are read.
    """
    information = typer.Option("--text")
    assert parameters._is_simple(information)
    information.trimmed = True
    assert not parameters._is_simple(information)


def test_pydantic_is_not_imported_for_what_is_plain() -> None:
    """
    That took two fifths of a command.
    """
    program = (
        "import sys, typing, enum, pathlib, typer\n"
        "from typer.main import get_command\n"
        "from holdfast.cli.parameters import read_plainly\n"
        "class Colour(enum.StrEnum):\n    RED = 'red'\n"
        "def take(words: list[str], number: int = 1, share: float = 0.5,\n"
        "    path: pathlib.Path = None, flag: bool = False, colour: Colour = Colour.RED): pass\n"
        "app = typer.Typer(rich_markup_mode=None)\n"
        "app.command()(take)\n"
        "command = get_command(app)\n"
        "read_plainly(command)\n"
        "given = ['a', 'b', '--number', '2', '--share', '0.25', '--path', 'x', '--flag']\n"
        "print(command.make_context('take', given).params)\n"
        "print('pydantic' in sys.modules)\n"
    )
    line = [sys.executable, "-c", program]
    ended = subprocess.run(line, capture_output=True, text=True, check=True, timeout=60)
    assert ended.stdout.splitlines()[-1] == "False", ended.stdout

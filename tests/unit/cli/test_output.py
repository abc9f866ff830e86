"""
Tables, numbers and JSON.
"""

from __future__ import annotations

import json

import pytest

from holdfast.cli import output


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, "-"),
        (0, "0 B"),
        (1023, "1,023 B"),
        (1536, "1.5 KiB"),
        (256 * 1024**2, "256.0 MiB"),
        (5 * 1024**5, "5,120.0 TiB"),
    ],
)
def test_sizes_are_read_at_a_glance(count: int | None, text: str) -> None:
    """
    The unit grows with the number, up to the largest.
    """
    assert output.format_size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.25, "0.2 s"),
        (61, "1 min 1 s"),
        (3 * 3600 + 300, "3 h 5 min"),
        (50 * 3600, "2 d 2 h"),
    ],
)
def test_durations_show_the_two_units_that_matter(seconds: float | None, text: str) -> None:
    """
    Nobody counts the seconds of a week.
    """
    assert output.format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), ("", "-"), (True, "yes"), (False, "no"), (1234, "1,234"), ("x", "x")],
)
def test_cells_say_unknown_with_a_hyphen(value: object, text: str) -> None:
    """
    An unknown number is never shown as 0.
    """
    assert output.format_cell(value) == text


def test_a_table_in_a_pipe_is_not_folded(capsys) -> None:
    """
    A long name of a queue stays in one line, and brackets in it are no markup.
    """
    name = "[red]" + "q" * 120
    output.write_table(("queue", "messages#"), [(name, 1234)])
    lines = capsys.readouterr().out.splitlines()
    assert any(name in line and "1,234" in line for line in lines)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain", "plain"),
        ("été 日本", "été 日本"),
        ("a\x1b]0;owned\x07", "a\\x1b]0;owned\\x07"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("x\udcff.toml", "x\\udcff.toml"),
        ("a\u202eb\x9bc", "a\\u202eb\\x9bc"),
    ],
)
def test_what_a_terminal_would_obey_is_shown_as_an_escape(capsys, text: str, seen: str) -> None:
    """
    Names and headers are what clients say, paths may be no text: none of them moves a cursor,
    begins a line, or ends a command with a traceback.
    """
    assert output.printable(text) == output.format_cell(text) == seen
    output.write_table(("name",), [(text,)])
    output.write_fields([("name", text)])
    output.write_line(text)
    output.write_lines([text, text])
    output.write_error(text)
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert captured.err.splitlines() == _lines(seen)
    assert lines[2].strip() == seen
    assert lines[3] == f"name  {seen}"
    assert lines[4:] == _lines(seen) * 3


def _lines(seen: str) -> list[str]:
    """What is written as it is may have several lines, and tabs."""
    return seen.replace("\\n", "\n").replace("\\t", "\t").splitlines()


def test_fields_are_aligned(capsys) -> None:
    """
    One pair per line, values under each other.
    """
    output.write_fields([("a", 1), ("long", None)])
    assert capsys.readouterr().out == "a     1\nlong  -\n"


def test_json_goes_to_standard_output_and_errors_do_not(capsys) -> None:
    """
    A pipe gets the result only.
    """
    output.write_json({"a": [1]})
    output.write_error("careful")
    captured = capsys.readouterr()
    assert (json.loads(captured.out), captured.err) == ({"a": [1]}, "careful\n")
    output.write_lines([output.json_line({"a": 1}), "x"])
    output.write_lines([])
    output.error_console().print("busy")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ('{"a":1}\nx\n', "busy\n")

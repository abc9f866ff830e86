"""
What the page of statements about queues says is tested is: each test that it names is there.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "explanation" / "queues-and-their-tests.md"
STATEMENTS = [f"M{number}" for number in range(1, 13)] + [f"Q{number}" for number in range(1, 69)]
ROW = re.compile(r"\| (?P<name>[MQ]\d+) \| (?P<said>[^|]+) \| (?P<tests>[^|]+) \|")
NAMED = re.compile(r"`(?P<path>[\w/]+\.py)(?:::(?P<test>\w+))?`")


def rows() -> list[re.Match[str]]:
    return [found for line in PAGE.read_text().splitlines() if (found := ROW.fullmatch(line))]


def named_in(path: Path) -> set[str]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = (each for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, functions))
    return {each.name for each in found if each.name.startswith("test_")}


def test_every_statement_has_a_row() -> None:
    """In order, once; a line that is no row of its own would go unseen."""
    assert STATEMENTS == [row["name"] for row in rows()]
    lines = [line for line in PAGE.read_text().splitlines() if re.match(r"\| [MQ]\d", line)]
    assert len(STATEMENTS) == len(lines)


def test_every_test_that_is_named_is_there() -> None:
    """A row names a test, or says that what it is about is not built."""
    missing = []
    for row in rows():
        named = list(NAMED.finditer(row["tests"]))
        assert named or row["tests"].startswith("not built"), f"{row['name']} names nothing"
        for each in named:
            path = ROOT / "tests" / each["path"]
            known = named_in(path) if path.exists() else set()
            if not known or (each["test"] and each["test"] not in known):
                missing.append(f"{row['name']}: {each[0]}")
    assert not missing, "renamed or gone: name what shows it now, or say that nothing does"

"""
What the pages of statements about queues, stores and security say is tested is: each test named is
there.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = {
    "queues-and-their-tests": [f"M{number}" for number in range(1, 13)]
    + [f"Q{number}" for number in range(1, 69)],
    "stores-and-their-tests": [f"L{number}" for number in range(1, 61)],
    "security-and-its-tests": [f"S{number}" for number in range(1, 20)],
}
EACH_PAGE = pytest.mark.parametrize("page", PAGES)
ROW = re.compile(r"\| (?P<name>[LMQS]\d+) \| (?P<said>[^|]+) \| (?P<tests>[^|]+) \|")
NAMED = re.compile(r"`(?P<path>[\w/]+\.py)(?:::(?P<test>\w+))?`")


def lines_of(page: str) -> list[str]:
    path = ROOT / "docs" / "explanation" / f"{page}.md"
    return path.read_text().splitlines()


def rows(page: str) -> list[re.Match[str]]:
    return [found for line in lines_of(page) if (found := ROW.fullmatch(line))]


def named_in(path: Path) -> set[str]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = (each for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, functions))
    return {each.name for each in found if each.name.startswith("test_")}


@EACH_PAGE
def test_every_statement_has_a_row(page: str) -> None:
    """In order, once; a line that is no row of its own would go unseen."""
    assert PAGES[page] == [row["name"] for row in rows(page)]
    lines = [line for line in lines_of(page) if re.match(r"\| [LMQS]\d", line)]
    assert len(PAGES[page]) == len(lines)


@EACH_PAGE
def test_every_test_that_is_named_is_there(page: str) -> None:
    """A row names a test, or says that what it is about is not built."""
    missing = []
    for row in rows(page):
        named = list(NAMED.finditer(row["tests"]))
        assert named or row["tests"].startswith("not built"), f"{row['name']} names nothing"
        for each in named:
            path = ROOT / "tests" / each["path"]
            known = named_in(path) if path.exists() else set()
            if not known or (each["test"] and each["test"] not in known):
                missing.append(f"{row['name']}: {each[0]}")
    assert not missing, "renamed or gone: name what shows it now, or say that nothing does"

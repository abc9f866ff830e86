"""
Hold what a run of slipcover has found covered against the floor of pyproject.toml.

Lines and branches count alike, and of every module: of none at all slipcover says that all of it is
covered. It can hold the floor itself, but not where tests run in several processes: then what it
says is of the one that shared them out.

    python tools/covered.py build/covered.json
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).parent.parent


def verdict(
    covered: dict[str, dict[str, float]], floor: float, modules: Collection[str]
) -> tuple[str, bool]:
    """What to print of it, and whether it is enough, and of all modules that there are."""
    percent = covered["summary"]["percent_covered"]
    measured = f"{percent:.2f} % of the lines and branches of {len(covered['files'])} modules"
    unmeasured = sorted(set(modules).difference(covered["files"]))
    lack = "" if percent >= floor else f": less than the {floor:g} % of pyproject.toml, fail-under"
    if unmeasured:
        lack += f": {len(unmeasured)} are not measured, {unmeasured[0]} among them"
    return f"covered: {measured}{lack}", not lack


def main() -> None:
    """Print the verdict, and exit with 1 if it is not enough."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["slipcover"]
    covered = json.loads(Path(sys.argv[1]).read_text())
    modules = [
        str(it.relative_to(ROOT))
        for each in settings["source"]
        for it in (ROOT / each).rglob("*.py")
    ]
    words, is_enough = verdict(covered, settings["fail-under"], modules)
    print(words)
    sys.exit(not is_enough)


if __name__ == "__main__":
    main()

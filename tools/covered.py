"""
Hold what a run of slipcover has found covered against the floor of pyproject.toml.

Lines and branches count alike. Slipcover can do that itself, but not where tests run in several
processes: then what it says is of the one that shared them out.

    python tools/covered.py build/covered.json
"""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def verdict(covered: dict[str, dict[str, float]], floor: float) -> tuple[str, bool]:
    """What to print of it, and whether it is enough."""
    percent = covered["summary"]["percent_covered"]
    measured = f"{percent:.2f} % of the lines and branches of {len(covered['files'])} modules"
    is_enough = percent >= floor
    lack = "" if is_enough else f": less than the {floor:g} % of pyproject.toml, fail-under"
    return f"covered: {measured}{lack}", is_enough


def main() -> None:
    """Print the verdict, and exit with 1 if it is not enough."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["slipcover"]
    covered = json.loads(Path(sys.argv[1]).read_text())
    words, is_enough = verdict(covered, settings["fail-under"])
    print(words)
    sys.exit(not is_enough)


if __name__ == "__main__":
    main()

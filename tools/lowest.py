"""
Print the lowest versions that pyproject.toml allows, as constraints for pip.

The lower bound of everything that Holdfast needs, with its pipeline and its databases, as an exact
version; of the tools that only tests need, what constraints.txt says. What these need in turn is
left open: pip takes the newest that fits, as it does for whoever installs Holdfast beside older
packages.

    python tools/lowest.py > var/lowest.txt
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
TOOLS = ("httpx", "hypothesis", "matplotlib", "pip", "pytest", "pytest-randomly")
TOOLS += ("duckdb", "duckdb-ext-delta", "pytest-timeout", "pytest-xdist", "setuptools", "stomp.py")
"""What runs the quick tests; linters have needs of their own."""
_NEED = re.compile(r"([A-Za-z0-9_.-]+)(?:\[[a-z0-9]+\])?>=([0-9.]+)")


def lowest(needs: list[str]) -> list[str]:
    """The lower bounds as exact versions."""
    found = [_NEED.match(need) for need in needs]
    return [f"{it[1]}=={it[2]}" for it in found if it is not None]


def main() -> None:
    """Print them, one a line."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = (ROOT / "constraints.txt").read_text().splitlines()
    extras = project["optional-dependencies"]
    lines = lowest(project["dependencies"] + extras["spark"] + extras["delta"])
    lines += lowest(extras["certificates"] + extras["sql"] + extras["zookeeper"])
    lines += [line for line in pinned if line.partition("==")[0] in TOOLS]
    print("\n".join(lines))


if __name__ == "__main__":
    main()

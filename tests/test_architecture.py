"""
The import contracts of pyproject.toml, run as a test.

Data flows down and imports point down; the pure modules touch no socket, file, clock or event loop.
`make check` runs the same contracts with `lint-imports`. The second test makes sure that a pure
module cannot be forgotten: what is listed here and exists must stand in the contract.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parent.parent
PURE_MODULES = (
    "bridge.demand",
    "bridge.route",
    "broker",
    "client.failover",
    "model",
    "protocols",
    "replication.candidate",
    "replication.consensus",
    "replication.follower",
    "replication.leader",
    "replication.membership",
    "replication.messages",
    "replication.progress",
    "replication.quorum",
    "sessions",
)


def contracts() -> list[dict[str, Any]]:
    configuration = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    return list(configuration["tool"]["importlinter"]["contracts"])


def exists(module: str) -> bool:
    path = REPOSITORY / "src" / "holdfast" / module.replace(".", "/")
    return path.with_suffix(".py").exists() or any(path.glob("*.py"))


def test_import_contracts_are_kept() -> None:
    """No module imports upwards or sideways, and the pure ones stay pure."""
    # In a process of its own: import-linter silences every logger that exists when it starts.
    linter = Path(sys.executable).with_name("lint-imports")
    run = subprocess.run(
        [linter, "--no-logo", "--no-cache"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0, run.stdout + run.stderr


def test_every_pure_module_is_under_contract() -> None:
    """A pure module that exists is listed in the contract that keeps it pure."""
    declared = {
        module
        for contract in contracts()
        if contract["type"] == "forbidden"
        for module in contract["source_modules"]
    }
    expected = {f"holdfast.{module}" for module in PURE_MODULES if exists(module)}

    assert expected <= declared, f"add to source_modules in pyproject.toml: {expected - declared}"

"""
The import contracts of pyproject.toml, run as a test.

Data flows down and imports point down; the pure modules touch no socket, file, clock or event loop.
`make check` runs the same contracts with `lint-imports`. The second test makes sure that a pure
module cannot be forgotten: what is listed here and exists must stand in the contract.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from importlinter.cli import lint_imports

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


def test_import_contracts_are_kept(capsys) -> None:
    """No module imports upwards or sideways, and the pure ones stay pure."""
    status = lint_imports(config_filename=str(REPOSITORY / "pyproject.toml"), no_cache=True)

    assert status == 0, capsys.readouterr().out


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

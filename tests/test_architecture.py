"""
The import contracts of pyproject.toml, run as a test.

Data flows down and imports point down; the pure modules touch no socket, file, clock or event loop.
`make check` runs the same contracts with `lint-imports`. The second test makes sure that a pure
module cannot be forgotten: what is listed here and exists must stand in the contract.

No circles: of two modules one stands on the other, inside a package as well. An import counts
wherever it stands: at the top, in a function, under `if TYPE_CHECKING`.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
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

SOURCES = REPOSITORY / "src"

Graph = dict[str, set[str]]


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


def module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.Module, modules: Iterable[str]) -> set[str]:
    """The modules of ours that a module imports; `from package import module` names one as well."""
    named: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found = inner.intersection(modules)
            named |= found if len(found) == len(inner) else found | {node.module}
    return named.intersection(modules)


def import_graph(root: Path) -> Graph:
    paths = {module_name(path, root): path for path in root.rglob("*.py")}
    return {
        name: imported(ast.parse(path.read_text(encoding="utf-8")), paths.keys()) - {name}
        for name, path in paths.items()
    }


def reached(graph: Graph, start: str) -> set[str]:
    found: set[str] = set()
    ahead = [start]
    while ahead:
        for name in graph[ahead.pop()] - found:
            found.add(name)
            ahead.append(name)
    return found


def in_circles(graph: Graph) -> set[str]:
    """The modules from which imports lead back to themselves."""
    return {name for name in graph if name in reached(graph, name)}


def one_circle(graph: Graph) -> str:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return " <- ".join(error.args[1])
    return ""


def test_no_imports_go_in_a_circle() -> None:
    """Of two modules of the product one stands on the other: a reader has somewhere to begin."""
    graph = import_graph(SOURCES)
    circular = in_circles(graph)

    assert not circular, (
        f"in a circle of imports: {sorted(circular)}; one of them: {one_circle(graph)}."
        " Move what both need below both; an import under TYPE_CHECKING is one too"
    )


def test_a_circle_is_found(tmp_path: Path) -> None:
    """A circle over three modules is found, also through a function and TYPE_CHECKING."""
    package = tmp_path / "field"
    package.mkdir()
    for name, text in {
        "__init__": "",
        "barn": "from field.cow import COW",
        "cow": "def eat():\n    from field import grass",
        "grass": "if TYPE_CHECKING:\n    import field.barn",
        "sky": "from field.barn import HAY",
    }.items():
        (package / f"{name}.py").write_text(text)

    assert in_circles(import_graph(tmp_path)) == {"field.barn", "field.cow", "field.grass"}

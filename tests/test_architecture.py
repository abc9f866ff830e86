"""
The import contracts of pyproject.toml, run as a test.

Data flows down and imports point down; the pure modules touch no socket, file, clock or event loop.
`make check` runs the same contracts with `lint-imports`. The second test makes sure that a pure
module cannot be forgotten: what is listed here and exists must stand in the contract.

What is imported is declared: a package that comes only because another one needs it is gone the day
that one does without, so pyproject.toml names whatever the product imports, with the extra that the
importing module is for.

No circles: of two modules one stands on the other, inside a package as well. An import counts
wherever it stands: at the top, in a function, under `if TYPE_CHECKING`.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parent.parent
PURE_MODULES = (
    "bridge.demand",
    "bridge.route",
    "broker",
    "client.failover",
    "discovery.candidates",
    "discovery.question",
    "mirrors.mirror_set",
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
    "selectors",
    "sessions",
)

SOURCES = REPOSITORY / "src"

# What an extra brings, whoever imports these has installed it. Longer names are looked at first.
EXTRA_OF = {
    "holdfast.spark.archive.table": "delta",
    "holdfast.spark": "spark",
    "holdfast.electors.zookeeper": "zookeeper",
    "holdfast.sql": "sql",
    "holdfast.discovery.dns": "discovery",
    "holdfast.authorities.directory": "ldap",
    "holdfast.authorities.key_sets": "jwt",
    "holdfast.authorities.web_tokens": "jwt",
    "holdfast.transport.certificates": "certificates",
    "holdfast.testing.fixtures": "dev",  # a plugin of pytest, which is there if it is loaded
}

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


def declared(extra: str | None, project: dict[str, Any]) -> set[str]:
    """The distributions that are installed with Holdfast, or with this extra of it."""
    extras = project["optional-dependencies"]
    needs = list(project["dependencies"])
    ahead = [] if extra is None else [extra]
    while ahead:
        for need in extras[ahead.pop()]:
            ahead += re.findall(r"^holdfast\[(\w+)\]", need)
            needs.append(need)
    return {normalized(re.split(r"[^\w.-]", need)[0]) for need in needs}


@cache
def distributions() -> Mapping[str, list[str]]:
    """Which distributions bring a package; every file of the environment is looked at."""
    return packages_distributions()


def normalized(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def third_party(tree: ast.Module) -> set[str]:
    """The packages that are neither ours nor the standard library's, wherever they are imported."""
    named = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            named.add(node.module.partition(".")[0])
    return named - sys.stdlib_module_names - {"holdfast"}


def undeclared(module: str, tree: ast.Module, project: dict[str, Any]) -> list[str]:
    extras = [extra for name, extra in EXTRA_OF.items() if f"{module}.".startswith(f"{name}.")]
    known = declared(extras[0] if extras else None, project)
    return [
        f"{module} imports {package}"
        for package in sorted(third_party(tree))
        if known.isdisjoint(map(normalized, distributions().get(package, [package])))
    ]


def project_table() -> dict[str, Any]:
    table = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    return dict(table)


def test_what_the_product_imports_is_declared() -> None:
    """Nothing is imported that is only there because something else happens to need it."""
    project = project_table()
    faults = [
        fault
        for path in sorted(SOURCES.rglob("*.py"))
        for fault in undeclared(
            module_name(path, SOURCES), ast.parse(path.read_text(encoding="utf-8")), project
        )
    ]

    assert not faults, (
        f"{faults}: name its distribution in pyproject.toml, in dependencies, or in the extra that"
        " EXTRA_OF says this module is for"
    )


def test_an_undeclared_import_is_found() -> None:
    """What is not declared, or in another extra, is found, also in a function; names may differ."""
    project = {
        "dependencies": ["google-crc32c>=1.6"],
        "optional-dependencies": {"spark": ["numpy>=1", "pyarrow"], "delta": ["holdfast[spark]"]},
    }
    tree = ast.parse("import os, google_crc32c\ndef f():\n    from numpy.linalg import det")

    assert undeclared("holdfast.model.limits", tree, project) == [
        "holdfast.model.limits imports numpy"
    ]
    assert undeclared("holdfast.spark.columns", tree, project) == []
    assert undeclared("holdfast.spark.archive.table", tree, project) == []
    assert undeclared("holdfast.sparkling", tree, project) == ["holdfast.sparkling imports numpy"]


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

"""
What the documentation says, checked where a program can check it.

Links lead somewhere, every setting has its row, every command that the README names exists. What
the map (ARCHITECTURE.md) and the style page (CONTRIBUTING.md) name in backticks is there: paths,
modules, names, make targets, commands; the layers and the pure modules that the map tells are those
of the import contracts.
"""

from __future__ import annotations

import re
import runpy
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest

from holdfast.cli.commands import MODULES, commands_of
from holdfast.config.catalogue import CATALOGUE

REPOSITORY = Path(__file__).parent.parent
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
MAP_PAGES = ("ARCHITECTURE.md", "CONTRIBUTING.md")
QUOTED = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w.]*/[\w./-]*|[\w-]+\.(?:py|md|toml|txt)")
IDENTIFIER = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
# Where a path on a page may begin: a page says `journal/writer.py` and `unit/`.
PATHS_BEGIN = ("", "src/holdfast", "src/holdfast/spark", "tests")
# Not in the repository, or made up to show the form of a name.
NO_PATHS = {"src/holdfast/x/y.py", "tests/unit/x/test_y.py", "var/"}
# What `make setup` makes: that a tool comes with it, constraints.txt says.
TOOLS = ".venv/bin/"
# Words of Python, of Unix and of pytest; and names that the tidy test refuses.
NO_NAMES = {"assert", "cfg", "common", "core", "helpers", "manager", "mgr", "msg", "utils"}


def pages() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "*.md"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    return [REPOSITORY / name for name in listing.stdout.splitlines()]


def command_names() -> set[str]:
    names = set()
    for name, module in MODULES.items():
        names.add(name)
        inner = getattr(commands_of(module)[name], "commands", {})
        names |= {f"{name} {it}" for it in inner}
    return names


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_to_files(page: Path) -> None:
    """Every link within the repository leads to a file that is there."""
    broken = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]

    assert broken == []


def test_every_setting_has_its_row() -> None:
    """
    The tables have exactly the settings there are: those with a flag by hand, all others written
    from their classes, with the default, range and description of now.
    """
    page = runpy.run_path(str(REPOSITORY / "tools" / "settings_page.py"))
    text = (REPOSITORY / "docs" / "reference" / "settings.md").read_text()
    by_hand, _, written = text.partition("## Sections")
    rows = set(re.findall(r"^\| `(\w+)` \|", by_hand, re.MULTILINE))

    assert rows == {it.name for it in CATALOGUE.values() if it.is_flag}
    for setting in CATALOGUE.values():
        assert not setting.section or f"\n| `{setting.field}`" in written
    assert page["replaced"](text) == text, "run .venv/bin/python tools/settings_page.py"


def test_every_command_of_the_readme_exists() -> None:
    """What the README tells people to type is a command."""
    text = (REPOSITORY / "README.md").read_text()
    told = set(re.findall(r"^holdfast ([a-z]+)", text, re.MULTILINE))

    assert told
    assert told <= command_names()


def test_the_readme_warns_before_its_first_command() -> None:
    """Whoever types the first command has read what is not protected and what does not survive."""
    minute = (REPOSITORY / "README.md").read_text().partition("\n## One minute\n")[2]
    before = minute.partition("```")[0]

    assert "not protected" in before
    assert "persistent:true" in before


@cache
def page(name: str) -> str:
    return (REPOSITORY / name).read_text()


@cache
def tracked() -> tuple[str, ...]:
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    return tuple(listing.stdout.splitlines())


@cache
def words_of_the_code() -> frozenset[str]:
    """Every word of the product, of what proves it, and of how it is built."""
    names = [
        name for name in tracked() if name.endswith(".py") or name in {"Makefile", "pyproject.toml"}
    ]
    texts = [page(name) for name in names if not name.endswith("test_documentation.py")]
    return frozenset(re.findall(r"\w+", "\n".join(texts)))


@cache
def modules_and_folders() -> frozenset[str]:
    return frozenset(part.partition(".")[0] for name in tracked() for part in Path(name).parts)


def path_exists(path: str) -> bool:
    if path in NO_PATHS:
        return True
    if path.startswith(TOOLS):
        return f"\n{path.removeprefix(TOOLS)}==" in page("constraints.txt")
    if "/" not in path:
        return any(Path(name).name == path for name in tracked())
    return any((REPOSITORY / begin / path).exists() for begin in PATHS_BEGIN)


def quoted(text: str) -> list[str]:
    return QUOTED.findall(re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def missing_of(name: str) -> set[str]:
    """What a page quotes that is nowhere: a path, a name, or a part of a dotted name."""
    missing = set()
    for words in quoted(page(name)):
        paths = [word for word in words.split() if PATH.fullmatch(word)]
        missing |= {path for path in paths if not path_exists(path)}
        if not paths and IDENTIFIER.fullmatch(words) and words not in NO_NAMES:
            first, *rest = words.split(".")
            # The map names modules; the style page names what is in them as well.
            known = modules_and_folders() if name == "ARCHITECTURE.md" else words_of_the_code()
            missing |= ({first} - known) | (set(rest) - words_of_the_code())
    return missing


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", page("Makefile"), re.MULTILINE))


def layers_of(container: str) -> list[str]:
    configuration = tomllib.loads(page("pyproject.toml"))
    contracts = configuration["tool"]["importlinter"]["contracts"]
    return next(
        list(found["layers"]) for found in contracts if container in found.get("containers", ())
    )


def layer_names(layers: list[str]) -> list[str]:
    return [name.strip() for layer in layers for name in layer.split("|")]


def pure_modules() -> set[str]:
    configuration = tomllib.loads(page("pyproject.toml"))
    contracts = configuration["tool"]["importlinter"]["contracts"]
    return {
        module.removeprefix("holdfast.")
        for found in contracts
        for module in found.get("source_modules", ())
        if "asyncio" in found["forbidden_modules"]
    }


@pytest.mark.parametrize("name", MAP_PAGES)
def test_what_a_map_names_exists(name: str) -> None:
    """A reader who searches for a path, a module or a name of these pages finds it."""
    assert not missing_of(name), f"{name} names what is nowhere: {sorted(missing_of(name))}"


@pytest.mark.parametrize("name", MAP_PAGES)
def test_commands_of_a_map_exist(name: str) -> None:
    """Every `make` and every `holdfast` that these pages tell people to type is there."""
    typed = "\n".join(
        quoted(page(name)) + re.findall(r"^```\n(.*?)^```", page(name), re.MULTILINE | re.DOTALL)
    )
    targets = set(re.findall(r"^make ([a-z-]+)", typed, re.MULTILINE))
    commands = set(re.findall(r"^holdfast ([a-z]+)", typed, re.MULTILINE))

    assert targets <= make_targets()
    assert commands <= command_names()


def test_the_map_draws_the_layers_of_the_contract() -> None:
    """The diagram of packages is the contract that import-linter holds the product to."""
    blocks = re.findall(r"^```\n(.*?)^```", page("ARCHITECTURE.md"), re.MULTILINE | re.DOTALL)

    assert " · ".join(layers_of("holdfast")) in {" ".join(block.split()) for block in blocks}


def test_the_map_tells_the_layers_of_spark() -> None:
    """The folders of spark stand in the map in the order of their contract."""
    folders = [
        name for name in layer_names(layers_of("holdfast.spark")) if is_package("spark", name)
    ]

    assert f"`{' · '.join(folders)}`" in page("ARCHITECTURE.md")


def is_package(*parts: str) -> bool:
    return (REPOSITORY / "src" / "holdfast" / Path(*parts) / "__init__.py").exists()


def test_every_package_has_its_row() -> None:
    """The table of the map has a row for each package that has content, and for no other."""
    rows = set(re.findall(r"^\| `(\w+)(?:/\w+)?` \|", page("ARCHITECTURE.md"), re.MULTILINE))
    planned = {name for name in layer_names(layers_of("holdfast")) if name.startswith("(")}

    assert rows == set(layer_names(layers_of("holdfast"))) - planned
    assert not [name for name in planned if is_package(name.strip("()"))], "no longer only planned"


def test_the_map_names_the_pure_modules() -> None:
    """What the map calls pure is what the contracts keep pure."""
    paragraph = re.search(
        r"^\*\*Pure\*\*.*?\n\n", page("ARCHITECTURE.md"), re.MULTILINE | re.DOTALL
    )
    assert paragraph, "no paragraph on what is pure in ARCHITECTURE.md"
    packages = {module.partition(".")[0] for module in pure_modules()}
    last = {module.rpartition(".")[2] for module in pure_modules()}

    assert last | packages == set(quoted(paragraph[0]))


def test_pages_that_the_code_cites_exist() -> None:
    """A page of the documentation that a comment or docstring cites is there to be read."""
    names = {Path(name).name for name in tracked() if name.endswith(".md")}
    cited = {
        (name, found)
        for name in tracked()
        if name.startswith(("src/", "benches/", "tools/")) and name.endswith(".py")
        for found in re.findall(r"\b[\w-]+\.md\b", page(name))
    }

    assert not {(name, found) for name, found in cited if found not in names}

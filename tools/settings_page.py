"""
Write the tables of sections in docs/reference/settings.md from the settings classes.

What a setting is for stands below it in its class, its default, unit and range in the catalogue:
nothing of that is written twice, and `tests/test_documentation.py` fails where the page is old.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args, get_origin

from holdfast.config.catalogue import CATALOGUE, SECTIONS, Setting
from holdfast.config.sections import DEFAULTS
from holdfast.model.limits import GiB, KiB, MiB

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "settings.md"
BEGIN = "<!-- written by tools/settings_page.py: change the settings classes instead -->\n"
END = "<!-- end of what is written -->\n"
TITLES = {
    "stomp": "one STOMP connection",
    "broker": "queues, topics, transactions",
    "server": "the loop that conducts a node",
    "journal": "the log's files",
    "replication": "elections, copies, catching up",
    "lease": "a log that several brokers share",
    "share": "a log in a shared directory",
    "links": "connections between members",
    "ports": "the doors of clients' ports",
    "admin": "the admin port",
    "mirrors": "several directories that hold the same",
    "databases": "several databases that hold the same log",
}


def rendered() -> str:
    """Give the tables as they should stand in the page."""
    return "\n".join(part for section in SECTIONS for part in _table(section))


def replaced(page: str) -> str:
    """Give the page with the tables of now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n" + rendered() + END + after


def _table(section: str) -> Iterator[str]:
    descriptions = _descriptions(type(getattr(DEFAULTS, section)))
    yield f"### `[{section}]`: {TITLES[section]}\n"
    yield "| key | default | allowed | |"
    yield "|---|---|---|---|"
    for setting in CATALOGUE.values():
        if setting.section == section:
            yield _row(setting, descriptions[setting.field])
    yield ""


def _row(setting: Setting, description: str) -> str:
    name = f"`{setting.field}`" + (f" = `{setting.short}`" if setting.short else "")
    default = "by the members" if setting.short == "copies" else _value(setting, setting.default)
    return f"| {name} | {default} | {_allowed(setting)} | {description} |"


def _value(setting: Setting, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"`{value}`"
    assert isinstance(value, int | float), "there is no other kind in a section"
    if setting.unit.startswith("bytes"):
        return _size(int(value)) + ("/s" if setting.unit == "bytes/s" else "")
    return f"{value:,.10g}" + (" s" if setting.unit == "s" else "")


def _size(count: int) -> str:
    for unit, name in ((GiB << 20, "PiB"), (GiB, "GiB"), (MiB, "MiB"), (KiB, "KiB")):
        if count >= unit and count % unit == 0:
            return f"{count // unit:,} {name}"
    return f"{count:,}"


def _allowed(setting: Setting) -> str:
    allowed = setting.allowed
    if get_origin(setting.type) is Literal:
        return ", ".join(f"`{it}`" for it in get_args(setting.type))
    if allowed is None:
        return "true, false"
    if setting.type is str:
        return f"{allowed} bytes"
    least = _value(setting, allowed.least)
    if allowed.most is None:
        return f"{least} or more"
    return f"{least.removesuffix(' s')} to {_value(setting, allowed.most)}"


def _descriptions(kind: type) -> dict[str, str]:
    """Find what stands below each field of a class, as one line."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef), "the source of a class is one"
    found = {}
    for field, text in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            assert isinstance(field.target, ast.Name), "a field has a name"
            found[field.target.id] = " ".join(str(ast.literal_eval(text.value)).split())
    return {name: text.replace("|", "\\|") for name, text in found.items()}


if __name__ == "__main__":
    PAGE.write_text(replaced(PAGE.read_text()))
    sys.exit(0)

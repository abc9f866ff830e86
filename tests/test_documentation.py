"""
What the documentation says, checked where a program can check it.

Links lead somewhere, every setting has its row, every command that the README names exists.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from typer.main import get_command

from holdfast.cli.main import app
from holdfast.config.shapes import Fields

REPOSITORY = Path(__file__).parent.parent
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


def pages() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "*.md"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    return [REPOSITORY / name for name in listing.stdout.splitlines()]


def command_names() -> set[str]:
    names = set()
    for name, command in get_command(app).commands.items():
        names.add(name)
        names |= {f"{name} {inner}" for inner in getattr(command, "commands", {})}
    return names


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_to_files(page: Path) -> None:
    """Every link within the repository leads to a file that is there."""
    broken = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]

    assert broken == []


def test_every_setting_has_its_row() -> None:
    """The table of settings has exactly the settings there are, with their defaults' names."""
    text = (REPOSITORY / "docs" / "reference" / "settings.md").read_text()
    rows = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))

    assert rows == set(Fields.model_fields)


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

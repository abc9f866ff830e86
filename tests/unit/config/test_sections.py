"""
Sections are the settings classes of the packages, and nothing beside them.
"""

from __future__ import annotations

import ast
from dataclasses import fields
from pathlib import Path

import holdfast
from holdfast.config.sections import DEFAULTS, SHORT_NAMES, Sections
from holdfast.journal.settings import JournalSettings


def test_no_package_of_a_node_is_left_out() -> None:
    """
    A settings class that no section composes could not be set by anybody.

    The client's are no node's: whoever opens a connection gives them.
    """
    root = Path(holdfast.__file__).parent
    classes = {
        each.name
        for path in root.rglob("settings.py")
        if not {"client", "testing"} & set(path.relative_to(root).parts)
        for each in ast.walk(ast.parse(path.read_text()))
        if isinstance(each, ast.ClassDef)
    }
    assert classes == {type(getattr(DEFAULTS, each.name)).__name__ for each in fields(Sections)}


def test_defaults_are_those_of_the_classes_but_one() -> None:
    """
    A node keeps two files ready for its log: it is written to all day.
    """
    for section in fields(Sections):
        default = getattr(DEFAULTS, section.name)
        expected = type(default)()
        if section.name == "journal":
            expected = JournalSettings(spare_segments=2)
        assert default == expected


def test_short_names_stand_for_one_setting_each() -> None:
    """
    Two short names of one setting could say two things.
    """
    assert len(set(SHORT_NAMES.values())) == len(SHORT_NAMES)

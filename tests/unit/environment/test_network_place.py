"""Tests of environment/network_place.py: one word for one place."""

from __future__ import annotations

from pathlib import Path

from holdfast.environment.network_place import network_place


def test_a_place_has_one_word_and_another_has_another(tmp_path: Path) -> None:
    """By the kernel's start and by the namespace."""
    boot, other = tmp_path / "boot", tmp_path / "other"
    boot.write_text("one\n")
    other.write_text("two\n")

    assert network_place() == network_place() != ""
    assert network_place(boot, boot) != network_place(other, boot)
    assert network_place(boot, boot) != network_place(boot, other)


def test_where_it_is_not_said_there_is_none(tmp_path: Path) -> None:
    """A file that is away, or whose content is no text."""
    broken = tmp_path / "broken"
    broken.write_bytes(b"\xff\xfe")

    assert network_place(tmp_path / "away") == ""
    assert network_place(broken) == ""

"""What an operator's word for a place means."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.copying.places import parse_place, require_nodes_own
from holdfast.environment.disk import RealDisk
from holdfast.errors import ConfigError
from holdfast.leases.cache import boot_id, open_cache
from tests.unit.copying.places_to_copy import SETTINGS, shared_at


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as raised:
        parse_place(text)
    return str(raised.value)


def test_each_kind_of_place_has_its_spelling() -> None:
    """A path is a node's directory; what brokers share is said."""
    assert parse_place("/x/y").directories == (Path("/x/y"),)
    assert parse_place("y").directories == (Path("y").absolute(),)
    found = parse_place("mirrors:/a,/b")
    assert (found.kind, found.directories) == ("mirrors", (Path("/a"), Path("/b")))
    for text, start in (
        ("shared:/x", "--shared /x"),
        ("sqlite:////x/y.db", "--store sqlite:////x/y.db"),
        ("postgresql://u:pa55@h/db", "--store postgresql://u@h:5432/db"),
        ("mysql://h/db", "--store mysql://h:3306/db"),
    ):
        place = parse_place(text)
        assert place.kind == "medium"
        assert place.start == f"holdfast serve --data OWN {start}"
        assert place.open_medium is not None
        assert place.open_medium().facts().place in start


def test_several_databases_are_one_place_to_copy_from() -> None:
    """Each an address; a path with a space in it is none of that."""
    found = parse_place("postgresql://u@h/a sqlite:////b")
    assert (found.kind, found.databases) == ("several", ("postgresql://u@h/a", "sqlite:////b"))
    assert parse_place("sqlite:////a b/x.db").kind == "medium"
    assert "no database that is known" in refusal("sqlite:////b oracle://u:pa55@h/db")
    assert "pa55" not in refusal("sqlite:////b oracle://u:pa55@h/db")


def test_what_cannot_be_used_is_told_without_passwords() -> None:
    """A kind that nobody knows, a relative file, nothing at all."""
    assert "'oracle' is no database that is known" in refusal("oracle://u:pa55@h/db")
    assert "pa55" not in refusal("oracle://u:pa55@h/db")
    assert "pa55" not in refusal("postgresql://u:pa55@h")
    assert "write all of its path" in refusal("sqlite:///x.db")
    assert "this is" in refusal("sqlite:x.db")
    assert "a directory is missing behind shared:" in refusal("shared:")
    assert "a directory is missing behind mirrors:" in refusal("mirrors:/a,")
    assert "an empty name is no place" in refusal("")


def test_directories_that_are_something_else_are_told_apart(tmp_path: Path) -> None:
    """A broker's own beside a store, and one that brokers share: which place is meant is said."""
    open_cache(tmp_path / "own", RealDisk(), SETTINGS, boot_id() or "x").close()
    with pytest.raises(ConfigError, match="only what a broker remembers"):
        require_nodes_own(tmp_path / "own", RealDisk())
    log = shared_at(tmp_path / "shared")
    log.open()
    log.close()
    with pytest.raises(ConfigError, match="write shared:"):
        require_nodes_own(tmp_path / "shared", RealDisk())
    require_nodes_own(tmp_path / "none", RealDisk())

"""The one door of the package."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from holdfast.environment.disk import RealDisk
from holdfast.errors import ConfigError
from holdfast.leases.contract import Place
from holdfast.leases.seen import SeenFile
from holdfast.raidb.opening import open_raidb_log
from holdfast.raidb.settings import RaidbSettings
from tests.stores.leased_log_suite import Writer, read_all


def test_databases_are_opened_by_their_urls(tmp_path: Path) -> None:
    """What is stored is in each file."""
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in "abc"]
    log = open_raidb_log(urls, RaidbSettings(), own_directory=tmp_path)
    log.open()
    try:
        writer = Writer(log)
        writer.take()
        entries = writer.append(b"one")
        assert read_all(log) == entries
        assert log.facts().place == ", ".join(urls)
    finally:
        log.close()
    assert all((tmp_path / f"{name}.db").stat().st_size for name in "abc")


def test_a_broker_says_which_log_it_is_known_to_serve(tmp_path: Path) -> None:
    """Others that an address leads to are none of it, from the first look on."""
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in "ab"]
    for known in ("", "ab" * 16):
        seen = SeenFile(tmp_path, RealDisk())
        if known:
            seen.note(known, 3, Place(7, b"7" * 16), 0.0)
        log = open_raidb_log(urls, RaidbSettings(), own_directory=tmp_path, seen=seen)
        assert log.databases.set_id == known
        assert log.databases.seen() is seen.last
        log.close()


def test_a_url_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    """As that of one database is."""
    with pytest.raises(ConfigError, match="write all of its path"):
        open_raidb_log(
            [f"sqlite:///{tmp_path}/a.db", "sqlite:///b.db"],
            RaidbSettings(),
            own_directory=tmp_path,
        )


def test_a_package_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With how to install it."""
    for name in [it for it in sys.modules if it.startswith(("holdfast.sql.", "holdfast.raidb."))]:
        if name not in {"holdfast.sql.opening", "holdfast.raidb.opening"}:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)

    with pytest.raises(ConfigError, match=r"sqlalchemy is not installed.*holdfast\[sql\]"):
        open_raidb_log([f"sqlite:///{tmp_path}/a.db"], RaidbSettings(), own_directory=tmp_path)

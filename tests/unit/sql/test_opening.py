"""The door of the package: what it gives, and what it says where something is not installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from holdfast.errors import ConfigError
from holdfast.sql.opening import open_sql_log, standing_password


def test_nothing_is_reached_before_it_is_opened(tmp_path: Path) -> None:
    """The file is not even made; what it is and where is known."""
    path = tmp_path / "store.db"
    log = open_sql_log(f"sqlite:///{path}", own_directory=tmp_path)

    assert not path.exists()
    assert log.facts().place == f"sqlite:///{path}"
    assert log.is_fence


def test_a_url_that_cannot_be_used_is_the_operators_mistake(tmp_path: Path) -> None:
    """It is said at once, as of any other setting."""
    with pytest.raises(ConfigError, match="no database that is known"):
        open_sql_log("mongodb://db/holdfast", own_directory=tmp_path)


def test_a_package_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what to install; a module of our own that is missing is no such thing."""
    url = f"sqlite:///{tmp_path}/store.db"
    for name in [it for it in sys.modules if it.startswith("holdfast.sql.")]:
        if name != "holdfast.sql.opening":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sqlalchemy.engine", None)

    with pytest.raises(ConfigError, match=r"sqlalchemy.* pip install 'holdfast\[sql\]'"):
        standing_password(url, tmp_path, {})
    with pytest.raises(ConfigError, match=r"sqlalchemy.* pip install 'holdfast\[sql\]'"):
        open_sql_log(url, own_directory=tmp_path)

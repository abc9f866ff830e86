"""What an address means to who only reads, and that it means the same on another machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.copying.looking import member_at, open_looked, whole_address
from holdfast.errors import ConfigError, StoreError
from trials.pipeline.stored_log import fill, written
from trials.pipeline.written_log import message


def refusal(*words: str) -> str:
    with pytest.raises(ConfigError) as raised:
        open_looked([whole_address(it, {}) for it in words])
    return str(raised.value)


def test_an_address_has_its_password_and_its_whole_path_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker has neither the variable nor the file, and stands in another folder."""
    (tmp_path / "secret").write_text("from a file\n")
    monkeypatch.chdir(tmp_path)
    environment = {"HOLDFAST_STORE_PASSWORD": "from:the/environment"}
    assert whole_address("shared:there") == f"shared:{tmp_path}/there"
    assert "from%3Athe%2Fenvironment@h" in whole_address("mysql://u@h/db", environment)
    by_file = whole_address(f"mysql://u@h/db?password_file={tmp_path}/secret", environment)
    assert "from%20a%20file@h" in by_file
    assert "password_file" not in by_file


def test_what_is_no_store_is_refused_without_its_password(tmp_path: Path) -> None:
    """A node's own directory is named by its path; directories are not one log together."""
    assert "is a directory of a node's own" in refusal(str(tmp_path))
    assert "is a directory of a node's own" in refusal(f"mirrors:{tmp_path},{tmp_path}")
    assert "no database that is known" in refusal("oracle://u:pa55@h/db")
    assert "pa55" not in refusal("oracle://u:pa55@h/db")
    assert "each of several databases by itself" in refusal("mysql://u:pa55@h/a mysql://u:pa55@h/b")
    assert "pa55" not in refusal("mysql://u:pa55@h/a mysql://u:pa55@h/b")
    assert "only databases hold one log together" in refusal("shared:/a", "sqlite:////b")


def test_a_shared_directory_that_is_held_is_read(tmp_path: Path) -> None:
    """Through the last entry that is sure; nothing in it is made or changed."""
    entries = written(tmp_path / "log", message(1, 1), message(1, 2))
    fill([f"shared:{tmp_path}/there"], entries)
    before = {it: it.read_bytes() for it in (tmp_path / "there").rglob("*") if it.is_file()}
    log = open_looked([f"shared:{tmp_path}/there"])
    assert log.open_existing().sure.index == 3
    assert [it.raw for it in log.entries(0, 3, 1 << 20, 5.0)] == [it.raw for it in entries]
    log.close()
    after = {it: it.read_bytes() for it in (tmp_path / "there").rglob("*") if it.is_file()}
    assert before == after
    nothing = open_looked([f"shared:{tmp_path}/none"])
    with pytest.raises(StoreError):
        nothing.open_existing()
    nothing.close()
    assert not (tmp_path / "none").exists()


def test_a_database_has_an_id_of_its_own(tmp_path: Path) -> None:
    """By it two addresses of one are found out; a directory has none."""
    for name in "ab":
        fill([f"sqlite:///{tmp_path}/{name}.db"], written(tmp_path / name, message(1, 1)))
    a, b = (member_at(f"sqlite:///{tmp_path}/{name}.db") for name in "ab")
    assert a == member_at(f"sqlite:///{tmp_path}/./a.db")
    assert len({a, b, ""}) == 3
    assert member_at(f"shared:{tmp_path}") == ""

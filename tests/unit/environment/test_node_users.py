"""As which users of this machine brokers run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.environment.node_users import VARIABLE, name_of, named, ordinary_of, owner_by_root

ROOT, SYSTEM, NODE, EVE = 0, 105, 990, 12_345
NOBODY, MADE_UP, OF_A_CONTAINER = 65_534, 61_184, 100_999


@pytest.fixture(autouse=True)
def _caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 1_000)


@pytest.mark.parametrize(
    ("uid", "is_ordinary"),
    [
        *((ROOT, False), (SYSTEM, False), (1_000, False), (MADE_UP, False), (NOBODY, False)),
        *((EVE, True), (1_001, True), (60_000, True), (OF_A_CONTAINER, True), (61_183, True)),
    ],
)
def test_people_are_told_from_services(tmp_path: Path, uid: int, *, is_ordinary: bool) -> None:
    """Whoever is neither root, nor of the system, nor the caller; a person's containers are his."""
    found = ordinary_of(frozenset({uid, ROOT}), state=tmp_path / "none")
    assert found == ({uid} if is_ordinary else set())


def test_from_which_number_on_people_are_the_system_says(tmp_path: Path) -> None:
    """And where it says nothing, or that makes no sense, it is 1,000."""
    definitions, none = tmp_path / "login.defs", tmp_path / "none"
    uids = frozenset({499, 500, 999, 1_001})

    def found(text: str) -> frozenset[int]:
        definitions.write_text(text)
        return ordinary_of(uids, state=none, definitions=definitions)

    assert found("# UID_MIN 3\nSYS_UID_MIN 100\nUID_MIN\t\t\t  500\nUID_MAX 60000\n") == uids - {
        499
    }
    for text in ("", "UID_MIN many\n", "UID_MINIMUM 5\n", "UID_MIN\n", "UID_MIN -5\n"):
        assert found(text) == {1_001}
    assert ordinary_of(uids, state=none, definitions=none) == {1_001}


def test_who_is_said_to_be_a_nodes_user_is_no_stranger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the caller's own word, and by a directory that root has given him."""
    uids = frozenset({EVE, 1_001})
    monkeypatch.setenv(VARIABLE, str(EVE))
    assert ordinary_of(uids, state=tmp_path / "none") == {1_001}
    monkeypatch.setenv(VARIABLE, "nobody of that name")
    assert ordinary_of(uids, state=tmp_path / "none") == uids
    monkeypatch.setattr("holdfast.environment.node_users.owner_by_root", lambda _: {1_001})
    assert ordinary_of(uids) == {EVE}
    assert named("root") == {ROOT}


def test_root_goes_by_a_directory_that_only_root_can_have_given(tmp_path: Path) -> None:
    """Where anybody could have made one of that name, it says nothing; nor does a file."""
    if os.getuid() != ROOT:
        pytest.skip("only root can give a directory to somebody")
    above = tmp_path / "lib"
    given = above / "private" / "holdfast"
    given.mkdir(parents=True)
    os.chown(given, NODE, -1)
    (above / "holdfast").symlink_to(given)  # As systemd does for a user that it makes up.
    open_above = {it for it in tmp_path.parents if it.stat().st_mode & 0o022}
    found = owner_by_root
    assert found(above / "holdfast") == (set() if open_above else {NODE})
    if not open_above:
        (above / "private").chmod(0o777)
        assert found(above / "holdfast") == set()
    assert found(above / "none") == found(Path(os.devnull)) == set()
    assert found(Path("/usr")) == {ROOT}


def test_a_user_without_a_name_is_his_number() -> None:
    """As one of a container is."""
    assert name_of(3_999_999_999) == "3999999999"

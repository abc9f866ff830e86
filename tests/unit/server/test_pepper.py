"""What passwords are hashed with that does not stand in the log."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
import structlog.testing

from holdfast.errors import AccessError, ConfigError
from holdfast.server.pepper import FILE_NAME, Pepper

SECRET = b"known to all members"


def alone(*directories: Path) -> Pepper:
    return Pepper(b"", directories, is_shared=False)


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    found = tmp_path / "a", tmp_path / "b"
    for each in found:
        each.mkdir()
    return found


def test_members_work_it_out_of_their_secret_and_keep_nothing(tmp_path: Path) -> None:
    """Each has the same; it is not what the members prove themselves by."""
    one, other = (Pepper(SECRET, (tmp_path,), is_shared=shared) for shared in (True, False))
    assert one.key == one.need() == other.need()
    assert len(one.need()) == 32
    assert SECRET not in one.need()
    assert Pepper(b"another secret", (tmp_path,), is_shared=True).key != one.key
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_node_that_is_given_a_secret_knows_the_passwords_of_before(
    tmp_path: Path, is_shared: bool
) -> None:
    """
    They stand in the log as they were hashed: nobody would get in any more, and nothing said why.
    New ones are hashed with what the members have in common.
    """
    before = alone(tmp_path).need()
    with structlog.testing.capture_logs() as said:
        pepper = Pepper(SECRET, (tmp_path,), is_shared=is_shared)
    assert pepper.keys == (pepper.need(), before)
    assert pepper.need() == Pepper(SECRET, (), is_shared=True).need() != before
    (warning,) = said
    assert warning["log_level"] == "warning"
    assert "holdfast users password NAME" in warning["event"]
    assert warning["file"] == str(tmp_path / FILE_NAME)
    (tmp_path / FILE_NAME).unlink()
    with structlog.testing.capture_logs() as said:
        assert len(Pepper(SECRET, (tmp_path,), is_shared=is_shared).keys) == 1
    assert said == []


def test_members_without_a_secret_have_no_passwords(tmp_path: Path) -> None:
    """What one of them hashed, another leader could not look at."""
    pepper = Pepper(b"", (tmp_path,), is_shared=True)
    assert pepper.key is None
    with pytest.raises(AccessError, match="--secret-file"):
        pepper.need()
    assert list(tmp_path.iterdir()) == []


def test_a_node_makes_a_key_when_it_needs_one_and_has_it_again(tmp_path: Path) -> None:
    """For its own user only, whatever the umask; nothing is made by looking at passwords."""
    pepper = alone(tmp_path)
    assert pepper.key is None
    assert list(tmp_path.iterdir()) == []
    before = os.umask(0)
    try:
        key = pepper.need()
    finally:
        os.umask(before)
    path = tmp_path / FILE_NAME
    assert list(tmp_path.iterdir()) == [path]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert pepper.key == pepper.need() == key
    assert alone(tmp_path).key == key
    assert len(key) == 32
    assert key.hex() in path.read_text()


def test_it_is_durable_before_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file, then its name, are synced: else a crash leaves hashes that nothing matches."""
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    alone(tmp_path).need()
    assert synced == [str(tmp_path / "password-key.tmp"), str(tmp_path)]


def test_what_is_left_of_a_crash_is_in_nobodys_way(tmp_path: Path) -> None:
    """A draft is no key."""
    (tmp_path / "password-key.tmp").write_text("half")
    pepper = alone(tmp_path)
    assert pepper.key is None
    key = pepper.need()
    assert alone(tmp_path).key == key


def test_a_key_that_others_may_read_or_that_is_none_ends_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with what to do; it is never replaced by another."""
    alone(tmp_path).need()
    path = tmp_path / FILE_NAME
    content = path.read_text()
    path.chmod(0o640)
    with pytest.raises(ConfigError, match=r"password-key can be .* by its group .* \(mode 0640\)"):
        alone(tmp_path)
    path.chmod(0o600)
    for wrong in ("", content[:-2], content[:-3] + "g\n", content.replace("1", "2", 1), "x" * 9999):
        path.write_text(wrong)
        with pytest.raises(ConfigError, match="is no password key: bring it back"):
            alone(tmp_path)
    path.write_text(content)
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
        with pytest.raises(ConfigError, match="belongs to another user"):
            alone(tmp_path)
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(ConfigError, match="no regular file"):
        alone(tmp_path)
    path.unlink()
    path.symlink_to(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        alone(tmp_path)


def test_a_key_that_came_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    """Somebody has brought it back from a backup: passwords are right by that one."""
    pepper = alone(tmp_path)
    alone(tmp_path).need()
    before = (tmp_path / FILE_NAME).read_text()
    with pytest.raises(AccessError, match="cannot be kept"):
        pepper.need()
    assert (tmp_path / FILE_NAME).read_text() == before
    assert list(tmp_path.iterdir()) == [tmp_path / FILE_NAME]


def test_each_of_several_directories_has_it(places: tuple[Path, Path]) -> None:
    """One of them is enough to have it again, and a new one is given it."""
    key = alone(*places).need()
    assert [it.read_text() for it in (each / FILE_NAME for each in places)].count(
        (places[0] / FILE_NAME).read_text()
    ) == 2
    (places[0] / FILE_NAME).unlink()
    assert alone(*places).key == key
    assert alone(places[0]).key == key


def test_a_directory_that_fails_stops_nobody_where_there_are_several(
    places: tuple[Path, Path],
) -> None:
    """It is told which has no key; where none can keep it, no password is set."""
    gone = places[0] / "gone"
    with structlog.testing.capture_logs() as lines:
        key = alone(gone, places[1]).need()
        gone.symlink_to(gone)
        assert alone(gone, places[1]).key == key
    assert [line["directory"] for line in lines] == [str(gone), str(gone)]
    with pytest.raises(AccessError, match="cannot be kept in"):
        alone(places[0] / "other").need()


def test_two_different_keys_are_told(places: tuple[Path, Path]) -> None:
    """A directory of another node: no choice between them is right by chance."""
    for each in places:
        alone(each).need()
    with pytest.raises(ConfigError, match="hold different keys"):
        alone(*places)

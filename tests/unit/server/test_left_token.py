"""The file of the node's own user is true of the admin port, before that shows another one."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest

from holdfast.admin.token_file import FILE_NAME, read_proof
from holdfast.environment.disk import RealDisk
from holdfast.errors import ConfigError
from holdfast.mirrors.settings import MirrorSettings
from holdfast.server import left_token
from holdfast.server.left_token import LeftToken
from holdfast.server.mirrors import open_set
from holdfast.transport.certificates import make_node, open_authority
from holdfast.transport.tls import ServerTls, TlsOptions, read_again

TOKEN = "55" * 32
BOUND = ("127.0.0.1", 8161)


@pytest.fixture
def port(tmp_path: Path) -> ServerTls:
    authority, _ = open_authority(tmp_path / "ca")
    make_node(authority, tmp_path / "a.pem", "a", [], 1)
    return ServerTls(TlsOptions(name="own", certificate=tmp_path / "a.pem"))


def renew(tmp_path: Path, port: ServerTls) -> list:
    """Put another certificate into the file, and read it."""
    make_node(open_authority(tmp_path / "ca")[0], tmp_path / "a.pem", "a", [], 1)
    return read_again([port])


def told(directory: Path) -> str:
    return read_proof(directory / FILE_NAME, *BOUND).fingerprint


def full(*_: object) -> None:
    """A disk without room."""
    raise OSError(errno.ENOSPC, "No space left on device")


def test_it_tells_of_a_new_certificate_before_that_counts(tmp_path: Path, port: ServerTls) -> None:
    """What was read is told while the port still shows the one before."""
    it = LeftToken((tmp_path,), TOKEN, port)
    it.leave(BOUND)
    assert told(tmp_path) == port.fingerprint
    made = renew(tmp_path, port)
    it.prepare(made)
    assert told(tmp_path) == made[0][1].fingerprint != port.fingerprint


def test_what_cannot_be_told_is_refused(tmp_path: Path, port: ServerTls, monkeypatch) -> None:
    """On a full disk the file and the port stay as they were, and the sentence says what to do."""
    it = LeftToken((tmp_path,), TOKEN, port)
    it.leave(BOUND)
    monkeypatch.setattr(left_token, "write_token", full)
    it.prepare(read_again([port]))
    it.prepare([(ServerTls(port.options), made) for _, made in renew(tmp_path, port)])
    with pytest.raises(ConfigError, match=r"tls\.own\.certificate: .*admin-token.*No space left"):
        it.prepare(renew(tmp_path, port))
    assert told(tmp_path) == port.fingerprint


def test_one_directory_of_several_is_enough(tmp_path: Path, port: ServerTls) -> None:
    """A mirror that failed keeps no certificate from being renewed."""
    it = LeftToken((tmp_path / "gone", tmp_path), TOKEN, port)
    it.leave(BOUND)
    made = renew(tmp_path, port)
    it.prepare(made)
    assert told(tmp_path) == made[0][1].fingerprint


def test_in_clear_it_names_no_certificate(tmp_path: Path) -> None:
    """And no renewal concerns it."""
    it = LeftToken((tmp_path,), TOKEN, None)
    it.leave(BOUND)
    it.prepare([])
    assert read_proof(tmp_path / FILE_NAME, *BOUND) == (TOKEN, "")


def test_mirror_that_hangs_is_not_waited_for_and_one_left_behind_not_written(
    tmp_path: Path, monkeypatch
) -> None:
    """The loop writes it: a start stood still for as long as a disk hung that had been given up."""
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    settings, ending = MirrorSettings(), threading.Event()
    caretaker = open_set([one, two, three], RealDisk(), settings)
    monkeypatch.setattr("holdfast.mirrors.disk.ASK_SECONDS_MAX", 0.2)
    caretaker.disable(three)
    write = left_token.write_token

    def hang(directory: Path, *others: object) -> Path:
        if directory == two:
            ending.wait(30)
        return write(directory, *others)

    monkeypatch.setattr(left_token, "write_token", hang)
    LeftToken((one, two, three), TOKEN, None, caretaker.disk).leave(BOUND)
    assert not ending.is_set()
    assert [True, False, False] == [(it / FILE_NAME).exists() for it in (one, two, three)]
    ending.set()
    caretaker.disk.lock(one / "lock").release()


def test_a_node_that_stops_leaves_no_file(tmp_path: Path, monkeypatch) -> None:
    """But that of another process stays, and a directory that is gone keeps nobody from it."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    it = LeftToken((tmp_path / "gone", tmp_path / "one", tmp_path / "two"), TOKEN, None)
    it.leave(BOUND)
    LeftToken((tmp_path / "two",), "66" * 32, None).leave(BOUND)
    it.take_away()
    assert [it.parent.name for it in tmp_path.rglob(FILE_NAME)] == ["two"]
    it.take_away()

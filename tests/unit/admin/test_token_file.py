"""
The file that proves that the node's own user asks.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.admin import node_user
from holdfast.admin.token_file import (
    FILE_NAME,
    NO_PROOF,
    LocalProof,
    new_token,
    read_proof,
    read_told,
    write_token,
)
from holdfast.errors import AuthenticationError


def test_only_the_nodes_user_may_read_it(tmp_path: Path) -> None:
    """
    Whatever the umask, and also where an older one stands; each start has another.
    """
    before = os.umask(0)
    try:
        write_token(tmp_path, "127.0.0.1", 8161, "a" * 64)
        path = write_token(tmp_path, "127.0.0.1", 8161, "b" * 64)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_proof(path, "127.0.0.1", 8161) == LocalProof("b" * 64, "")
    assert new_token() != new_token()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("bound", "host", "port", "is_given"),
    [
        ("0.0.0.0", "127.0.0.1", 8161, True),
        ("::", "::1", 8161, True),
        ("::", "127.0.0.1", 8161, False),
        ("0.0.0.0", "::1", 8161, False),
        ("::", "::ffff:127.0.0.1", 8161, False),
        ("::", "0:0:0:0:0:ffff:7f00:1", 8161, False),
        ("::ffff:0.0.0.0", "127.0.0.1", 8161, True),
        ("0.0.0.0", "::ffff:127.0.0.1", 8161, True),
        ("127.0.0.1", "::ffff:127.0.0.1", 8161, True),
        ("127.0.0.1", "::ffff:127.0.0.2", 8161, False),
        ("127.0.0.1", "::127.0.0.1", 8161, False),
        ("::1", "127.0.0.1", 8161, False),
        ("::1", "fe80::1%lo", 8161, False),
        ("::1", "0:0:0:0:0:0:0:1", 8161, True),
        ("127.0.0.1", "127.0.0.1", 8162, False),
        ("127.0.0.1", "127.0.0.2", 8161, False),
        ("127.0.0.1", "node", 8161, False),
    ],
)
def test_it_is_for_one_port_only(
    tmp_path: Path, bound: str, host: str, port: int, is_given: bool
) -> None:
    """
    A program that pretends to be a node does not get another's token.
    """
    path = write_token(tmp_path, bound, 8161, "c" * 64)
    assert bool(read_proof(path, host, port).token) is is_given


@pytest.mark.parametrize(
    "content", [b"", b"a secret\n", b"\xff" * 5000, b"holdfast admin token, version 2\nx 1\ny\n"]
)
def test_nothing_is_given_away_that_is_no_token(tmp_path: Path, content: bytes) -> None:
    """
    The path comes from whoever answers at the port.
    """
    path = tmp_path / FILE_NAME
    path.write_bytes(content)
    assert read_proof(path, "127.0.0.1", 8161) == NO_PROOF


def test_no_other_kind_of_file_is_read(tmp_path: Path) -> None:
    """
    A pipe would keep its reader waiting, a link lead anywhere, another name hold anything.
    """
    pipe = tmp_path / "a"
    pipe.mkdir()
    os.mkfifo(pipe / FILE_NAME)
    assert read_proof(pipe / FILE_NAME, "127.0.0.1", 8161) == NO_PROOF
    good = write_token(tmp_path, "127.0.0.1", 8161, "d" * 64)
    other = good.rename(tmp_path / "secret")
    assert read_proof(other, "127.0.0.1", 8161) == NO_PROOF
    good.symlink_to(other)
    with pytest.raises(OSError):
        read_proof(good, "127.0.0.1", 8161)
    assert read_proof(Path(FILE_NAME), "127.0.0.1", 8161) == NO_PROOF


def test_what_is_told_by_who_answers_is_taken_where_it_is_the_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    It is judged as it was opened; a file for another port is none of its, whoever has it.
    """
    path = write_token(tmp_path, "127.0.0.1", 8161, "a" * 64)
    asked: list[tuple[str, int]] = []

    def listening(host: str, port: int) -> frozenset[int]:
        asked.append((host, port))
        return frozenset({os.geteuid()})

    monkeypatch.setattr(node_user, "listeners_users", listening)
    assert read_told(path, "127.0.0.1", 8161) == LocalProof("a" * 64, "")
    assert read_told(path, "127.0.0.1", 8162) == NO_PROOF
    assert asked == [("127.0.0.1", 8161)]
    path.chmod(0o640)
    with pytest.raises(AuthenticationError, match=rf"'{path}' is the node's file, and it is not"):
        read_told(path, "127.0.0.1", 8161)
    assert read_told(path, "127.0.0.1", 8162) == NO_PROOF


def test_where_tls_is_spoken_the_certificate_is_told(tmp_path: Path) -> None:
    """
    By it a command on this machine knows the node; versions before it take the file for none of
    theirs, so that they never send the token in clear.
    """
    path = write_token(tmp_path, "0.0.0.0", 8161, "a" * 64, "5" * 64)
    assert read_proof(path, "127.0.0.1", 8161) == LocalProof("a" * 64, "5" * 64)
    assert path.read_text().split("\n")[0] == "holdfast admin token, version 2"
    path.write_text(path.read_text().replace("sha256", "sha1"))
    assert read_proof(path, "127.0.0.1", 8161) == NO_PROOF

"""Files with a secret: one rule on who may read them, wherever one is read."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.authorities.directory import _password_of
from holdfast.authorities.token_files import read_secret, read_token_file
from holdfast.cli.passcodes import read_passcode
from holdfast.environment import secret_files
from holdfast.environment.remote_server import read_password_file
from holdfast.environment.secret_files import (
    TooLargeError,
    others_of,
    read_secret_file,
    tell_of_readers,
    why_exposed,
)
from holdfast.errors import ConfigError
from holdfast.security.tokens import make_token
from holdfast.sql.url import parse_store_url
from holdfast.transport.certificates import open_authority
from holdfast.transport.client_tls import client_context
from holdfast.transport.tls import TlsOptions

HOLDFAST, OPS = 990, 1_000


def found(mode: int, owner: int = HOLDFAST, group: int = HOLDFAST) -> os.stat_result:
    """What is told of a regular file."""
    return os.stat_result((stat.S_IFREG | mode, 0, 0, 1, owner, group, 0, 0, 0, 0))


@pytest.fixture
def in_reach(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[Path, int]]:
    """Directories that everybody may pass, but those that a test says; nothing was told before."""
    modes: dict[Path, int] = {}
    monkeypatch.setattr(secret_files, "_mode_of", lambda it: modes.get(it, 0o755))
    monkeypatch.setattr(secret_files, "_told", set())
    return modes


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file that everybody may read."""
    path = tmp_path / "secret"
    path.write_text("0123456789abcdef\n")
    path.chmod(0o644)
    return path


@pytest.mark.parametrize(
    ("file", "is_own", "who"),
    [
        (found(0o600), False, ""),
        (found(0o400, 0), False, ""),
        (found(0o700), True, ""),
        (found(0o644), False, "every user of this machine"),
        (found(0o602), False, "every user of this machine"),
        (found(0o640, group=54_321), False, "its group 54321"),
        (found(0o620, group=54_321), False, "its group 54321"),
        (found(0o640, 0), False, ""),
        (found(0o640, 0), True, "its group"),
        (found(0o660, 0), False, "its group"),
        (found(0o644, 0), False, "every user of this machine"),
    ],
)
def test_the_owner_may_read_and_a_group_what_is_of_root(
    file: os.stat_result, is_own: bool, who: str
) -> None:
    """As PostgreSQL has it of keys; what Holdfast has made itself is its user's alone."""
    said = others_of(file, is_own=is_own)
    assert said.startswith(who) if who else said == ""


def test_a_file_is_named_with_its_mode_and_what_to_do(
    in_reach: dict[Path, int], secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is said must keep it from others, and not from who reads it."""
    said = why_exposed(secret)
    assert f"{secret} holds a secret, and every user of this machine can" in said
    assert "(mode 0644)" in said
    assert f"chmod 600 {secret}" in said
    assert "0123" not in said
    monkeypatch.setattr(os, "geteuid", lambda: OPS)
    monkeypatch.setattr(os, "getegid", lambda: 54_321)
    assert f"chown root:54321 {secret} && chmod 640 {secret}" in why_exposed(secret, found(0o644))
    secret.chmod(0o600)
    assert why_exposed(secret) == ""
    secret.chmod(0o644)
    in_reach[secret.parent] = 0o710
    assert why_exposed(secret) == "", "nobody gets to it"
    assert why_exposed(secret, found(0o640, OPS)) != "", "but a group does"
    in_reach[secret.parent] = 0o700
    assert why_exposed(secret, found(0o640, OPS)) == ""


def test_what_is_no_file_is_not_judged(in_reach: dict[Path, int], tmp_path: Path) -> None:
    """Whoever opens it says so; a pipe of a shell is its user's own."""
    assert in_reach == {}
    os.mkfifo(tmp_path / "pipe", 0o666)
    (tmp_path / "round").symlink_to(tmp_path / "round")
    for name in ("pipe", "round", "none", "."):
        assert why_exposed(tmp_path / name) == ""


def test_it_is_told_once_for_each_mode(
    in_reach: dict[Path, int], secret: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A directory's password is read at each login."""
    assert in_reach == {}
    for _ in range(3):
        assert read_secret_file(secret, 100) == b"0123456789abcdef\n"
        tell_of_readers(secret)
    assert len(caplog.messages) == 1
    secret.chmod(0o666)
    tell_of_readers(secret)
    assert len(caplog.messages) == 2
    with pytest.raises(TooLargeError):
        read_secret_file(secret, 16)
    secret_files._told.update(str(it) for it in range(1_000))
    secret.chmod(0o604)
    tell_of_readers(secret)
    assert len(caplog.messages) == 2, "what is remembered is bounded"


READERS: dict[str, Callable[[Path], object]] = {
    "token_file": read_token_file,
    "secret_file": read_secret,
    "passcode_file": read_passcode,
    "password_file": lambda path: read_password_file(str(path)),
    "bind_password_file": _password_of,
    "sslkey": lambda path: parse_store_url(
        f"postgresql://me@db/log?sslkey={path}", own_directory=path
    ),
    "ssl_key": lambda path: parse_store_url(
        f"mysql://me@db/log?ssl_key={path}", own_directory=path
    ),
    "key of a client": lambda path: client_context("", str(path), str(path), is_checked=False),
    "key of a node": lambda path: TlsOptions(name="x", certificate=path).build_context(),
    "key of an authority": lambda path: open_authority(path.parent),
}


@pytest.mark.parametrize("reader", READERS)
def test_whoever_reads_a_secret_tells_of_its_readers(
    in_reach: dict[Path, int], tmp_path: Path, caplog: pytest.LogCaptureFixture, reader: str
) -> None:
    """Wherever one is read, by us or by a library for us: no place may be forgotten."""
    assert in_reach == {}
    path = tmp_path / "ca.key"
    path.write_text(make_token("ann", bytes(32)))
    path.chmod(0o644)
    if reader == "key of an authority":
        open_authority(tmp_path / "made")
        path.write_bytes((tmp_path / "made" / "ca.key").read_bytes())
        (tmp_path / "ca.pem").write_bytes((tmp_path / "made" / "ca.pem").read_bytes())
    with suppress(ConfigError):  # It is no key that OpenSSL takes.
        READERS[reader](path)
    assert [f"{path} holds a secret" in it for it in caplog.messages] == [True]
    path.chmod(0o600)
    caplog.clear()
    with suppress(ConfigError):
        READERS[reader](path)
    assert caplog.messages == []

"""Files of a token: what is taken, and that nothing of them is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.authorities.token_files import read_token_file
from holdfast.errors import ConfigError
from holdfast.security.tokens import TOKEN_BYTES_MAX, make_token

OURS = make_token("ann", bytes(32))
OF_AN_ISSUER = "eyJhbGciOiJSUzI1NiJ9.e30.c2ln"


@pytest.mark.parametrize("token", [OURS, OF_AN_ISSUER])
@pytest.mark.parametrize("around", ["{}", "{}\n", "  {}\r\n\n"])
def test_a_token_is_read_without_what_an_editor_adds(
    tmp_path: Path, token: str, around: str
) -> None:
    """Of ours, or of an issuer."""
    (tmp_path / "token").write_text(around.format(token))
    assert read_token_file(tmp_path / "token") == token


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"hunter2-the-password",
        b"-----BEGIN PRIVATE KEY-----\nhunter2",
        f"{OURS}\n{OURS}".encode(),
        f"{OURS} hunter2".encode(),
        OURS.encode() + b"\0",
        OURS.encode() + b"\xff",
        "eyJé.b.hunter2".encode(),
        b"hf_" + b"hunter2" * TOKEN_BYTES_MAX,
    ],
    ids=range(10),
)
def test_what_is_no_token_is_told_by_its_file_only(tmp_path: Path, content: bytes) -> None:
    """It may be the wrong file, with another secret in it."""
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(ConfigError, match=r"token_file: .*/token has") as caught:
        read_token_file(tmp_path / "token")
    assert "hunter2" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """With the reason."""
    with pytest.raises(ConfigError, match=r"token_file: .*/none cannot be read: No such file"):
        read_token_file(tmp_path / "none")

"""Where a server of others is, and the password that opens it."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.environment.remote_server import Host, read_password_file


def test_a_host_is_written_as_in_a_url() -> None:
    """With brackets where its name has colons of its own."""
    assert str(Host("db1", 5432)) == "db1:5432"
    assert str(Host("::1", 2379)) == "[::1]:2379"


def test_a_password_comes_without_the_end_of_its_line(tmp_path: Path) -> None:
    """Spaces are its own."""
    for text, password in (("secret\n", "secret"), (" s \r\n", " s "), ("s", "s")):
        (tmp_path / "password").write_bytes(text.encode())
        assert read_password_file(str(tmp_path / "password")) == password


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """One that is not there, and one that is no text."""
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name, reason in (("none", "No such file"), ("binary", "it is no text")):
        with pytest.raises(ValueError, match=f"{name} cannot be read: {reason}"):
            read_password_file(str(tmp_path / name))

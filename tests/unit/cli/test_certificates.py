"""
`holdfast certificates make`: an authority, and certificates for nodes and clients.
"""

from __future__ import annotations

import ssl
import sys
from pathlib import Path

import pytest

from holdfast.transport.tls import TlsOptions


def test_a_directory_gets_what_a_cluster_needs(run, tmp_path: Path) -> None:
    """Each file can be used as it is; said again, only what is named is made anew."""
    directory = tmp_path / "new" / "certificates"
    nodes = ("--node", "a=db1.example,10.0.0.1,[fe80::1]", "--node", "b")
    assert run("certificates", "make", str(directory), *nodes, "--client", "joe") == 0
    assert "a new authority" in run.out
    assert f"{directory}/a.pem: a node, for 365 days" in run.out
    for name in ("a", "b", "joe"):
        TlsOptions(name="x", certificate=directory / f"{name}.pem").build_context()
    decoded = ssl._ssl._test_decode_cert(str(directory / "a.pem"))  # type: ignore[attr-defined]
    names = {value for _, value in decoded["subjectAltName"]}
    assert {"a", "db1.example", "10.0.0.1", "FE80:0:0:0:0:0:0:1", "localhost"} <= names
    before = (directory / "b.pem").read_bytes(), (directory / "ca.pem").read_bytes()
    assert run("certificates", "make", str(directory), "--node", "a", "--days", "7") == 0
    assert "authority" not in run.out
    assert ((directory / "b.pem").read_bytes(), (directory / "ca.pem").read_bytes()) == before


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--node", "a", "--client", "a"), "a: each file is another's"),
        (("--client", "ca"), "ca: each file is another's"),
        (("--node", "a=http://b"), "--node a=http://b: 'http://b' is not the name of a host"),
        (("--node", "a/b"), "'a/b': a name has 1 to 63 letters"),
    ],
)
def test_names_that_cannot_be_are_told_and_nothing_is_made(
    run, tmp_path: Path, arguments: tuple[str, ...], why: str
) -> None:
    """One sentence, before the first file."""
    assert run("certificates", "make", str(tmp_path / "x"), *arguments) == 2
    assert why in run.err
    assert not (tmp_path / "x").exists()


def test_without_the_extra_it_is_said_what_to_install(run, tmp_path: Path, monkeypatch) -> None:
    """TLS itself needs nothing more than Python has."""
    monkeypatch.setitem(sys.modules, "holdfast.transport.certificates", None)
    assert run("certificates", "make", str(tmp_path / "x")) == 2
    assert "pip install 'holdfast[certificates]'" in run.err

"""Whose process listens at a port of this machine."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.environment.listeners import answerers_users, listeners_users

_HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout"


def word(text: str) -> str:
    """An address as the kernel writes it on this machine."""
    raw = socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)
    if sys.byteorder == "little":
        raw = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
    return raw.hex().upper()


def row(
    address: str, port: int, uid: int, state: str = "0A", there: int = 0, other: str = ""
) -> str:
    other = f"{word(other or ('::' if ':' in address else '0.0.0.0'))}:{there:04X}"
    return (
        f"   0: {word(address)}:{port:04X} {other} {state} 00000000:00000000 00:00000000 00000000"
        f" {uid:5}        0 4711 1 0000000000000000 100 0 0 10 0"
    )


def tables(folder: Path, *rows: str) -> Path:
    for name, is_ours in (("tcp", lambda it: len(it.split()[1]) == 13), ("tcp6", lambda _: True)):
        rest = [it for it in rows if not is_ours(it)]
        (folder / name).write_text("\n".join([_HEAD, *(it for it in rows if is_ours(it)), ""]))
        rows = tuple(rest)
    return folder


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_a_real_port_is_of_who_opened_it(family: int) -> None:
    """And of nobody once it is closed; who is only connected does not listen."""
    host = "127.0.0.1" if family == socket.AF_INET else "::1"
    try:
        listening = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip("this machine has no such address")
    port = listening.getsockname()[1]
    with listening, socket.create_connection((host, port)) as client:
        assert listeners_users(host, port) == {os.getuid()}
        if family == socket.AF_INET:
            assert listeners_users(f"::ffff:{host}", port) == {os.getuid()}
        assert listeners_users(host, client.getsockname()[1]) == frozenset()
    assert listeners_users(host, port) == frozenset()


@pytest.mark.parametrize(
    ("rows", "host", "found"),
    [
        ([row("127.0.0.1", 8161, 7)], "127.0.0.1", {7}),
        ([row("127.0.0.2", 8161, 7)], "127.0.0.1", set()),
        ([row("127.0.0.1", 8162, 7)], "127.0.0.1", set()),
        ([row("127.0.0.1", 8161, 7, "01", 0x8161)], "127.0.0.1", set()),
        ([row("127.0.0.1", 50_000, 8, "01", 8161)], "127.0.0.1", set()),
        ([row("0.0.0.0", 8161, 7)], "127.0.0.1", {7}),
        ([row("0.0.0.0", 8161, 7), row("127.0.0.1", 8161, 9)], "127.0.0.1", {9}),
        ([row("0.0.0.0", 8161, 7), row("::", 8161, 9)], "127.0.0.1", {7}),
        ([row("::", 8161, 9)], "127.0.0.1", {9}),
        ([row("::ffff:127.0.0.1", 8161, 9)], "127.0.0.1", {9}),
        ([row("0.0.0.0", 8161, 7)], "::1", set()),
        ([row("::1", 8161, 7), row("::", 8161, 9)], "::1", {7}),
        ([row("fe80::1", 8161, 7)], "fe80::1%eth0", {7}),
        ([row("10.0.0.1", 8161, 7), row("10.0.0.1", 8161, 9)], "::ffff:10.0.0.1", {7, 9}),
    ],
)
def test_the_socket_that_the_kernel_would_choose_counts(
    tmp_path: Path, rows: list[str], host: str, found: set[int]
) -> None:
    """Whoever listens at the same port of another address or family is not who answers."""
    assert listeners_users(host, 8161, tables(tmp_path, *rows)) == found


def test_where_the_system_does_not_say_nothing_is_known(tmp_path: Path) -> None:
    """Which is something else than that nobody listens."""
    assert listeners_users("127.0.0.1", 8161, tmp_path / "none") is None
    assert listeners_users("127.0.0.1", 8161, tables(tmp_path)) == frozenset()


EVE = 12_345


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else for a moment")
def test_who_took_a_connection_is_known_when_he_listens_no_more() -> None:
    """
    Or whoever wants to be told something closes his listener first, and nobody seems to be there.
    """
    ours = os.geteuid()

    def as_eve(make: Any) -> Any:
        os.seteuid(EVE)
        try:
            return make()
        finally:
            os.seteuid(ours)

    listening = as_eve(lambda: socket.create_server(("127.0.0.1", 0)))
    there = listening.getsockname()
    with socket.create_connection(there) as client:
        here = client.getsockname()
        assert EVE in answerers_users(there, here)  # Not accepted yet: the kernel says root.
        taken = as_eve(listening.accept)[0]
        listening.close()
        assert listeners_users(*there) == frozenset()
        assert answerers_users(there, here) == {EVE}
        taken.close()


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([row("127.0.0.1", 61613, 7)], {7}),
        ([row("127.0.0.1", 61613, 9, "01", 5000, "127.0.0.1")], {9}),
        ([row("::ffff:127.0.0.1", 61613, 9, "01", 5000, "::ffff:127.0.0.1")], {9}),
        ([row("0.0.0.0", 61613, 7), row("127.0.0.1", 61613, 9, "01", 5000, "127.0.0.1")], {7, 9}),
        ([row("127.0.0.1", 61613, 9, "01", 5001, "127.0.0.1")], set()),
        ([row("127.0.0.1", 61613, 9, "01", 5000, "127.0.0.2")], set()),
        ([row("127.0.0.1", 5000, 9, "01", 61613, "127.0.0.1")], set()),
    ],
)
def test_who_has_the_other_end_counts_as_who_listens(
    tmp_path: Path, rows: list[str], found: set[int]
) -> None:
    """Of this connection, and of no other one that goes to the same port."""
    there, here = ("127.0.0.1", 61613), ("127.0.0.1", 5000)
    assert answerers_users(there, here, tables(tmp_path, *rows)) == found
    assert answerers_users(there, here, tmp_path / "none") is None

"""Ports for brokers of tests: different, free, below the kernel's own, and one program's only."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.testing import free_ports as module
from holdfast.testing.free_ports import NoFreePortError, free_ports

ASK = "from holdfast.testing.free_ports import free_ports; print(*free_ports(150), flush=True)"


def test_ports_are_different_and_can_be_bound() -> None:
    """What is given can be listened on at once."""
    ports = free_ports(5)

    assert len(set(ports)) == 5
    for port in ports:
        with socket.create_server(("127.0.0.1", port)):
            pass


def test_what_was_given_is_not_given_again_soon() -> None:
    """A port that its broker has not bound yet is nobody else's."""
    assert not set(free_ports(20)) & set(free_ports(20))


def test_the_kernel_gives_none_of_them_to_an_outgoing_connection() -> None:
    """A restarted broker finds its port free of clients' own ends."""
    first_of_kernel = int(
        Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0]
    )

    assert max(free_ports(20)) < first_of_kernel


def test_programs_side_by_side_get_different_ports() -> None:
    """Two runs of tests on one machine never meet on a port."""
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", f"{ASK}; input()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    try:
        given = [set(map(int, p.stdout.readline().split())) for p in programs if p.stdout]
    finally:
        for program in programs:
            program.communicate("\n", timeout=30)

    assert [len(ports) for ports in given] == [150, 150, 150]
    assert len(set().union(*given)) == 450


def test_a_port_in_use_is_passed_over(tmp_path: Path) -> None:
    """What somebody else listens on is not given."""
    claim = module._Claim(tmp_path / "ports")
    with socket.create_server(("127.0.0.1", claim.first)):
        assert claim.first not in claim.take(3)
    claim.close()


def test_too_many_ports_are_refused_with_what_to_do(tmp_path: Path) -> None:
    """The refusal names the block and the way out."""
    claim = module._Claim(tmp_path / "ports")

    with pytest.raises(NoFreePortError, match=r"201 free ports are needed.*end what was left"):
        claim.take(201)
    claim.close()


def test_when_all_blocks_are_claimed_the_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refusal names the folder of the claims; a block given back can be claimed again."""
    monkeypatch.setattr(module, "_first_of_kernel", lambda: module._FIRST + module._BLOCK)
    claim = module._Claim(tmp_path / "ports")

    with pytest.raises(NoFreePortError, match=re.escape(str(tmp_path))):
        module._Claim(tmp_path / "ports")
    claim.close()
    module._Claim(tmp_path / "ports").close()

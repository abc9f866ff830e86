"""
`holdfast serve`: from the command line to a configuration and an exit code.
"""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from holdfast.cli import serve
from holdfast.config.node import NodeConfig
from holdfast.environment import secret_files
from holdfast.transport.certificates import make_node, open_authority

THREE = ["a=127.0.0.1:7001", "b=127.0.0.1:7002", "c=127.0.0.1:7003,witness"]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, quiet_logging) -> list[NodeConfig]:
    """A server that only remembers its configuration and ends with 3."""
    served: list[NodeConfig] = []

    def run(config: NodeConfig, hang_ups: object) -> int:
        served.append(config)
        return 3

    module = types.ModuleType("holdfast.server.node")
    module.run = run
    monkeypatch.setitem(sys.modules, "holdfast.server.node", module)
    # Their own test opens ports; here it must not matter what runs on this machine.
    monkeypatch.setattr(serve, "taken_ports", lambda settings: [])
    for name in ("HOLDFAST_NAME", "HOLDFAST_DATA", "HOLDFAST_COPIES", "HOLDFAST_STOMP"):
        monkeypatch.delenv(name, raising=False)
    interval = sys.getswitchinterval()
    yield served
    sys.setswitchinterval(interval)


def test_a_single_node_needs_a_directory_only(run, served, tmp_path: Path) -> None:
    """
    The exit code of the node is the exit code of the command.
    """
    assert run("serve", "--data", str(tmp_path)) == 3
    assert (served[0].name, str(served[0].stomp)) == ("holdfast", "127.0.0.1:61613")
    assert "starting" in run.err


def test_the_command_line_of_a_cluster(run, served, tmp_path: Path, monkeypatch) -> None:
    """
    Exactly the line that scripts rely on.
    """
    secret = tmp_path / "secret"
    secret.write_bytes(b"0123456789abcdef")
    secret.chmod(0o644)
    monkeypatch.setattr(secret_files, "_mode_of", lambda _directory: 0o755)
    members = [word for member in THREE for word in ("--member", member)]
    monkeypatch.setenv("HOLDFAST_SITES", "7")
    code = run(
        *("serve", "--name", "a", "--data", str(tmp_path), "--stomp", "127.0.0.1:1"),
        *("--admin", "127.0.0.1:2", "--peers", "127.0.0.1:7001", *members),
        *("--secret-file", str(secret), "--site", "x", "--copies", "2", "--sites", "1"),
        *("--memory", "64MiB", "--log-format", "json", "--default-persistent"),
        "--stomp-strict",
    )
    assert code == 3
    config = served[0]
    assert config.sections.stomp.is_strict
    assert (
        config.sections.replication.copies,
        config.sections.replication.sites,
        config.sections.broker.memory_bytes,
    ) == (2, 1, 64 * 1024 * 1024)
    assert [member.kind for member in config.members] == ["voter", "voter", "witness"]
    assert (config.site, config.secret, config.default_persistent) == (
        "x",
        secret.read_bytes(),
        True,
    )
    assert '"members": "a=127.0.0.1:7001,site=x, b=127.0.0.1:7002, c=127.0.0.1:7003,witness"' in (
        run.err
    )
    assert f"{secret} holds a secret, and every user of this machine can get at it" in run.err


def test_a_file_and_the_environment_are_read(run, served, tmp_path: Path, monkeypatch) -> None:
    """
    What is not on the command line may stand elsewhere; a private secret is not complained of.
    """
    secret = tmp_path / "secret"
    secret.write_bytes(b"0123456789abcdef")
    secret.chmod(0o600)
    file = tmp_path / "holdfast.toml"
    file.write_text(f'data = "{tmp_path}"\nsecret_file = "{secret}"\n', encoding="utf-8")
    monkeypatch.setenv("HOLDFAST_NAME", "env")
    assert run("serve", "--config", str(file)) == 3
    assert (served[0].name, served[0].default_persistent) == ("env", False)
    assert "holds a secret" not in run.err


def test_a_wrong_configuration_starts_nothing(run, served) -> None:
    """
    Every mistake is a line, and the exit code says whose mistake it is.
    """
    assert run("serve", "--copies", "x", "--peers", "127.0.0.1:1") == 2
    lines = run.err.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("holdfast: ") for line in lines)
    assert served == []


def test_a_taken_port_starts_nothing(run, served, tmp_path: Path, monkeypatch) -> None:
    """
    Each is a line, and the exit code is that of a failure.
    """
    monkeypatch.setattr(serve, "taken_ports", lambda settings: ["stomp: a", "admin: b"])
    assert run("serve", "--data", str(tmp_path)) == 1
    assert run.err == "holdfast: stomp: a\nholdfast: admin: b\n"
    assert served == []


def test_a_misspelled_variable_is_told(run, served, tmp_path: Path, monkeypatch) -> None:
    """
    In the node's log if it starts, and beside what is missing if it does not.
    """
    monkeypatch.setenv("HOLDFAST_DTA", str(tmp_path))
    assert run("serve", "--data", str(tmp_path), "--log-format", "json") == 3
    assert '"name": "HOLDFAST_DTA", "near": "HOLDFAST_DATA"' in run.err
    assert run("serve") == 2
    warning, missing = run.err.splitlines()
    assert warning == (
        "holdfast: warning: environment variable HOLDFAST_DTA is unknown and ignored; did you mean"
        " HOLDFAST_DATA?"
    )
    assert missing.startswith("holdfast: data: missing")


def test_a_certificate_that_others_refuse_is_told_at_the_start(run, served, tmp_path: Path) -> None:
    """
    As an error that says what to do; the node starts, as its files can be read again.
    """
    authority, _ = open_authority(tmp_path)
    make_node(authority, tmp_path / "a.pem", "somebody", [], 100)
    file, secret = tmp_path / "node.toml", tmp_path / "secret"
    secret.write_bytes(b"0123456789abcdef")
    secret.chmod(0o600)
    file.write_text(
        f'[tls.peers]\ncertificate = "{tmp_path}/a.pem"\nclient_ca = "{tmp_path}/ca.pem"\n'
        'client = "required"\n'
    )
    members = [word for member in THREE for word in ("--member", member)]
    line = ("--name", "a", "--data", str(tmp_path), *members, "--secret-file", str(secret))
    assert run("serve", *line, "--peer-tls", "require", "--config", str(file)) == 3
    assert f"{tmp_path}/a.pem links this node with no member: " in run.err
    assert "not of a: make one for it (holdfast certificates make --node a); then" in run.err
    assert "[error" in run.err
    run("serve", *line, "--config", str(file))
    assert "links this node with no member" not in run.err

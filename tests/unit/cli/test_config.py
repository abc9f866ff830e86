"""
`holdfast config check` and `config show`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.catalogue import CATALOGUE
from holdfast.environment import secret_files
from holdfast.transport.certificates import make_node, open_authority

GOOD = """
stomp = "10.0.0.1:61613"
members = ["a=127.0.0.1:7001", "b=127.0.0.1:7002", "c=127.0.0.1:7003,witness"]
copies = 2
[broker]
prefetch_max = 20_000
"""
BAD = """
copies = 3
members = ["a=127.0.0.1:7001", "b=127.0.0.1:7002,witness"]
[broker]
prefetch_mx = 1
memory_bytes = "1k"
[network]
uri = "static:()"
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HOLDFAST_NAME", "HOLDFAST_DATA", "HOLDFAST_COPIES", "HOLDFAST_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "node.toml"


def test_a_good_file_is_called_so(run, file: Path) -> None:
    """
    Without data and name, which each node is given beside it.
    """
    file.write_text(GOOD.replace("10.0.0.1", "127.0.0.1"))
    assert run("config", "check", str(file)) == 0
    assert (run.out, run.err) == (f"{file}: nothing is wrong\n", "")
    assert run("config", "check", str(file), "--json") == 0
    assert json.loads(run.out) == {"file": str(file), "problems": [], "warnings": []}


def test_what_others_can_read_is_a_warning_and_no_mistake(run, file: Path) -> None:
    """
    Beside the answer for people, which scripts need not take apart.
    """
    file.write_text(GOOD)
    assert run("config", "check", str(file)) == 0
    assert run.out == f"{file}: nothing is wrong\n"
    (warning,) = run.err.splitlines()
    assert warning.startswith("holdfast: warning: stomp: 10.0.0.1:61613: other machines reach")
    assert run("config", "check", str(file), "--json") == 0
    assert f"holdfast: warning: {json.loads(run.out)['warnings'][0]}" == warning


def test_secrets_that_others_can_read_are_warned_of(
    run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    As a node does when it starts: here the file itself, in which a password stands.
    """
    monkeypatch.setattr(secret_files, "_mode_of", lambda _directory: 0o755)
    file.write_text('store = "mysql://me:hunter2@db/log"\n')
    file.chmod(0o604)
    assert run("config", "check", str(file)) == 0
    assert f"holdfast: warning: {file} holds a secret, and every user of this machine" in run.err
    assert "hunter2" not in run.err
    file.chmod(0o600)
    assert run("config", "check", str(file)) == 0
    assert run.err == ""


def test_all_that_is_wrong_with_a_file_is_told_at_once(run, file: Path) -> None:
    """
    Keys, ranges, sections and relations, each with its line; the exit code is for scripts.
    """
    file.write_text(BAD)
    assert run("config", "check", str(file)) == 1
    lines = run.err.splitlines()
    assert all(line.startswith("holdfast: ") and "(node.toml line " in line for line in lines)
    assert sorted(line.split(": ")[1] for line in lines) == [
        "broker.memory_bytes",
        "broker.prefetch_mx",
        "copies",
        "network",
    ]
    assert run.out == ""
    assert run("config", "check", str(file), "--json") == 1
    assert len(json.loads(run.out)["problems"]) == len(lines)


def test_a_file_that_says_who_it_is_is_held_to_it(run, file: Path) -> None:
    """
    Only what is not in it may be given elsewhere.
    """
    file.write_text(GOOD.replace("stomp", 'name = "x"\nstomp', 1))
    assert run("config", "check", str(file)) == 1
    assert "name: x is not among the members (a, b, c) (node.toml line 2)" in run.err


def test_variables_and_flags_are_nothing_to_a_file(run, file: Path, monkeypatch) -> None:
    """
    It is judged where it is written, which is not where it will be used.
    """
    monkeypatch.setenv("HOLDFAST_COPIES", "99")
    file.write_text(GOOD)
    assert run("config", "check", str(file)) == 0


@pytest.mark.parametrize("kind", ["missing", "directory", "binary"])
def test_what_is_no_file_is_one_mistake(run, file: Path, kind: str) -> None:
    """
    It is told like any other.
    """
    if kind == "directory":
        file.mkdir()
    elif kind == "binary":
        file.write_bytes(b"\x7fELF\xff\xfe")
    assert run("config", "check", str(file)) == 1
    (line,) = run.err.splitlines()
    assert line.startswith(f"holdfast: config: {file} ")


def test_a_file_whose_name_is_no_text_is_judged_as_well(run, tmp_path: Path) -> None:
    """
    Its name is told with an escape, and the command does not end over it.
    """
    file = tmp_path / "x\udcff.toml"
    file.write_text("")
    assert run("config", "check", str(file)) == 0
    assert run.out.endswith("x\\udcff.toml: nothing is wrong\n")
    assert run("config", "show", "--config", str(file), "--data", str(tmp_path / "\udcfe")) == 0
    assert "\\udcfe" in run.out


def shown(run: Any, *arguments: str) -> dict[str, dict[str, Any]]:
    assert run("config", "show", "--json", *arguments) == 0
    return {it["setting"]: it for it in json.loads(run.out)["settings"]}


def test_every_setting_is_shown_with_its_unit_and_origin(run, file: Path, monkeypatch) -> None:
    """
    Whatever a node is told, from wherever, can be looked up beforehand.
    """
    file.write_text(GOOD)
    monkeypatch.setenv("HOLDFAST_NAME", "a")
    found = shown(run, "--config", str(file), "--memory", "1g", "--data", "d", "--site", "s")
    assert list(found) == [it.name for it in CATALOGUE.values()]
    assert found["memory"] == {
        "setting": "memory",
        "key": "broker.memory_bytes",
        "value": 1 << 30,
        "unit": "bytes",
        "from": "flag",
        "place": "--memory",
    }
    picked = {
        name: (found[name]["value"], found[name]["from"], found[name]["place"])
        for name in ("name", "stomp", "broker.prefetch_max", "server.drain_seconds", "peers")
    }
    assert picked == {
        "name": ("a", "variable", "HOLDFAST_NAME"),
        "stomp": ("10.0.0.1:61613", "file", "node.toml line 2"),
        "broker.prefetch_max": (20_000, "file", "node.toml line 6"),
        "server.drain_seconds": (5.0, "default", ""),
        "peers": ("127.0.0.1:7001", "default", ""),
    }
    assert found["members"]["value"][0] == "a=127.0.0.1:7001,site=s"
    assert found["members"]["value"][2] == "c=127.0.0.1:7003,witness"


def test_without_anything_the_defaults_are_shown(run, file: Path) -> None:
    """
    A configuration that is only looked at needs no directory.
    """
    found = shown(run)
    assert {it["from"] for it in found.values()} == {"default"}
    assert (found["data"]["value"], found["copies"]["value"]) == (None, None)


def test_people_get_a_table(run, file: Path) -> None:
    """
    One line for each, in words where a number would not be understood.
    """
    assert run("config", "show", "--stomp-strict") == 0
    lines = [line.split() for line in run.out.splitlines()]
    assert ["setting", "value", "unit", "from"] in lines
    assert ["stomp_strict", "true", "-", "flag", "--stomp-strict"] in lines
    assert ["copies", "by", "the", "members", "count", "default"] in lines
    assert ["broker.batch_bytes_max", "4,194,304", "bytes", "default"] in lines


def test_the_secret_is_never_shown(run, file: Path, tmp_path: Path) -> None:
    """
    Only where it is kept: what is shown is pasted into tickets.
    """
    secret = tmp_path / "secret"
    secret.write_text("correct-horse-battery-staple")
    assert shown(run, "--secret-file", str(secret))["secret_file"]["value"] == str(secret)
    assert "correct-horse" not in run.out + run.err
    assert run("config", "show", "--secret-file", str(secret)) == 0
    assert "correct-horse" not in run.out + run.err


def test_mistakes_end_show_as_they_end_serve(run, file: Path) -> None:
    """
    With the same lines and the same exit code.
    """
    file.write_text(BAD)
    assert run("config", "show", "--config", str(file), "--name", "a") == 2
    of_show = run.err
    assert run("serve", "--config", str(file), "--name", "a", "--data", "d") == 2
    assert of_show == run.err
    assert len(of_show.splitlines()) == 4


def test_a_certificate_by_which_no_member_is_linked_is_a_mistake(
    run, file: Path, tmp_path: Path
) -> None:
    """
    Each file by itself is good: it is another member's, which showed at the next failover only.
    Whose it is to be the file must say; one that ends soon is a warning.
    """
    authority, _ = open_authority(tmp_path)
    make_node(authority, tmp_path / "a.pem", "a", [], 100)
    text = f"""
name = "a"
members = ["a=127.0.0.1:7001", "b=127.0.0.1:7002"]
peer_tls = "require"
[tls.peers]
certificate = "{tmp_path}/a.pem"
client_ca = "{tmp_path}/ca.pem"
client = "required"
"""
    file.write_text(text)
    assert run("config", "check", str(file)) == 0
    assert run.err == ""
    file.write_text(text.replace('name = "a"', 'name = "b"'))
    assert run("config", "check", str(file)) == 1
    told = f"holdfast: tls.peers.certificate: {tmp_path}/a.pem links this node with no member: "
    assert run.err.startswith(told)
    assert "not of b: make one for it (holdfast certificates make --node b)" in run.err
    file.write_text(text.replace('name = "a"', ""))
    assert run("config", "check", str(file)) == 0
    make_node(authority, tmp_path / "a.pem", "a", [], 0)
    assert run("config", "check", str(file)) == 1
    assert "it has run out" in run.err

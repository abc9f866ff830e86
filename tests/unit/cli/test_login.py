"""
How a person on another machine shows who he is.
"""

from __future__ import annotations

import io
import os

import pytest
import typer

from holdfast.cli import login
from holdfast.cli.commands import MODULES, commands_of
from holdfast.cli.main import app
from tests.unit.cli.test_users import Terminal

TOKEN = "hf_YW5u.0123456789"


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return path


def all_commands(command, name: str):
    yield name, command
    for inner, each in getattr(command, "commands", {}).items():
        yield from all_commands(each, f"{name} {inner}")


def test_every_command_that_asks_a_node_takes_a_login() -> None:
    """
    It is added in one place, to what takes `--admin`; none of them has an option for a password or
    a token itself, which every user of the machine could read.
    """
    asking = 0
    for module in sorted(set(MODULES.values())):
        for top, command in commands_of(module).items():
            for name, each in all_commands(command, top):
                options = {option for it in each.params for option in it.opts}
                assert not {"--password", "--token", "--passcode"} & options - {"--passcode"}, name
                if "--admin" in options and "--stomp" not in options:
                    asking += 1
                    assert {"--user", "--token-file", "--earlier-version"} <= options, name
                if "--url" in options:
                    assert "--token-file" in options, name
    assert asking > 20


def test_a_token_is_read_from_its_file(cluster, run, token_file, monkeypatch) -> None:
    """
    Named by the option or in the environment, also before the command of a group.
    """
    cluster.say("/users/roles", {"name": "x", "roles": []})
    assert run("users", "roles", "x", "--token-file", str(token_file)) == 0
    assert run("users", "--token-file", str(token_file), "roles", "x") == 0
    assert cluster.logins == [f"Bearer {TOKEN}"] * 2
    assert run("users", "roles", "x") == 0
    assert cluster.logins[2] == ""
    monkeypatch.setenv("HOLDFAST_TOKEN_FILE", str(token_file))
    assert run("users", "roles", "x") == 0
    assert cluster.logins[3] == f"Bearer {TOKEN}"
    assert TOKEN not in run.out + run.err


@pytest.mark.parametrize("content", [b"", b"secret-word", b"hf_a b", b"hf_\xff\n\0", b"hf_a\nhf_b"])
def test_what_is_no_token_is_not_sent_and_not_shown(cluster, run, tmp_path, content) -> None:
    """
    It may be the file of something else.
    """
    path = tmp_path / "other"
    path.write_bytes(content)
    assert run("queues", "--token-file", str(path)) == 2
    assert "has no token; one begins with hf_" in run.err
    assert "secret-word" not in run.err
    assert run("queues", "--token-file", str(tmp_path / "nowhere")) == 2
    assert not cluster.asked


def test_a_password_is_asked_for_once_for_a_whole_command(cluster, run, monkeypatch) -> None:
    """
    However often the node is asked; where nobody can be, a token is what is needed.
    """
    asked: list[str] = []

    def prompt(text: str, **how: object) -> str:
        assert how["hide_input"]
        asked.append(text)
        return "pass"

    monkeypatch.setattr(typer, "prompt", prompt)
    monkeypatch.setattr("sys.stdin", Terminal())
    assert run("status", "--user", "ann") == 0
    assert len(cluster.logins) > 1
    (shown,) = set(cluster.logins)
    assert shown.basic().authorization == "Basic YW5uOnBhc3M="
    assert asked == ["Password of ann"]
    assert run("status") == 0
    assert cluster.logins[-1] == ""
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert run("status", "--user", "ann") == 2
    assert "--token-file" in run.err


def test_nothing_is_left_of_it_in_the_environment(cluster, run, token_file) -> None:
    """
    Which programs that are started would see.
    """
    run("status", "--token-file", str(token_file))
    assert TOKEN not in repr(dict(os.environ))
    login.forget()
    assert login.login() == ""


def test_nothing_is_left_of_it_for_the_next_command(cluster, tmp_path) -> None:
    """
    Of one process that runs several by the application itself, as a program or a test may.
    """
    path = tmp_path / "secret"
    path.write_text("0123456789abcdef\n")
    for more, said in ((["--secret-file", str(path)], b"0123456789abcdef"), ([], b"")):
        app(args=["status", *more], standalone_mode=False)
        assert cluster.asked[-1][4] == said


def test_questions_are_asked_with_the_secret_as_well(cluster, run, tmp_path, monkeypatch) -> None:
    """
    Once there are users a question takes a proof, too: of a command that only asks, and of one that
    asks before it changes anything.
    """
    path = tmp_path / "secret"
    path.write_text("0123456789abcdef\n")
    assert run("status", "--secret-file", str(path)) == 0
    assert {each[4] for each in cluster.asked} == {b"0123456789abcdef"}
    cluster.asked.clear()
    cluster.say("/cluster/transfer", {"leader": "b"})
    assert run("cluster", "transfer", "--to", "b", "--secret-file", str(path)) == 0
    assert {each[4] for each in cluster.asked} == {b"0123456789abcdef"}
    monkeypatch.setenv("HOLDFAST_SECRET_FILE", str(path))
    assert run("queues") == 0
    assert cluster.asked[-1][4] == b"0123456789abcdef"
    assert run("queues", "--secret-file", str(tmp_path / "nowhere")) == 2
    monkeypatch.delenv("HOLDFAST_SECRET_FILE")
    assert run("queues") == 0
    assert cluster.asked[-1][4] == b""


def test_a_word_of_the_operators_says_that_a_node_is_of_an_earlier_version(
    cluster, run, tmp_path
) -> None:
    """Nobody else's: and of the next command it is not known any more."""
    path = tmp_path / "secret"
    path.write_text("0123456789abcdef\n")
    cluster.say("/cluster/transfer", {"leader": "b"})
    words = ("cluster", "transfer", "--to", "b", "--secret-file", str(path))
    assert run(*words, "--earlier-version") == 0
    assert set(cluster.takes_earlier) == {True}
    cluster.takes_earlier.clear()
    assert run(*words) == 0
    assert set(cluster.takes_earlier) == {False}


@pytest.mark.parametrize("is_sure", [True, False])
def test_a_person_is_asked_before_a_password_is_told(
    cluster, run, monkeypatch, is_sure: bool
) -> None:
    """In clear and without SCRAM it may be anybody who listens there."""
    asked: list[str] = []

    def confirm(text: str, **how: object) -> bool:
        assert how == {"err": True}
        asked.append(text)
        return is_sure

    monkeypatch.setattr(typer, "prompt", lambda *_, **__: "pass")
    monkeypatch.setattr(typer, "confirm", confirm)
    monkeypatch.setattr("sys.stdin", Terminal())
    assert run("status", "--user", "ann") == 0
    assert asked == []
    assert cluster.logins[-1]._may_tell("h:1") is is_sure
    assert asked[0].startswith("h:1 speaks in clear and does not offer SCRAM")

"""Tests of cli/hidden_passwords.py: the list of processes shows no password."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.cli.hidden_passwords import (
    OF_PIPELINE,
    VARIABLES,
    without_passcode,
    without_passwords,
    without_places,
)

ONE = "postgresql://hf:pa55@h/db"
OTHER = "sqlite:////tmp/x"
AWAY = "postgresql://hf:pa55@127.0.0.1:1/db"


@pytest.mark.parametrize(
    "given", [["--store", ONE, "--store", OTHER], [f"--store={ONE}", f"--store={OTHER}"]]
)
def test_addresses_go_into_the_environment_all_or_none(given: list[str]) -> None:
    """A flag wins over the variable: those without a password must go there as well."""
    found = without_passwords(
        ["python", "-m", "holdfast", "serve", *given, "--data", "d"], {"A": "b"}
    )

    assert found is not None
    arguments, environment = found
    assert ["python", "-m", "holdfast", "serve", "--data", "d"] == arguments
    assert {"A": "b", VARIABLES["--store"]: f"{ONE} {OTHER}"} == environment


def test_each_flag_has_its_own_variable() -> None:
    """An elector's password is hidden as a database's is, and moves both."""
    elector = "etcd://hf:pa55@h/log"
    found = without_passwords(["holdfast", "--store", OTHER, f"--elector={elector}"], {})

    assert found == (["holdfast"], {"HOLDFAST_STORE": OTHER, "HOLDFAST_ELECTOR": elector})


def test_what_a_command_on_spark_is_given_is_not_what_a_broker_has() -> None:
    """Each goes into a variable of its own, which names no broker's store."""
    found = without_passwords(["holdfast", "restore", "--to-store", ONE], {}, OF_PIPELINE)
    assert found == (["holdfast", "restore"], {"HOLDFAST_RESTORE_TO_STORE": ONE})
    assert not set(OF_PIPELINE.values()) & set(VARIABLES.values())


@pytest.mark.parametrize("given", [[], ["--store", OTHER], ["--store"], ["--stored", ONE]])
def test_without_a_password_nothing_is_done(given: list[str]) -> None:
    """Nor is anything that only looks like the flag."""
    assert without_passwords(["holdfast", *given], {}) is None


@pytest.mark.parametrize("given", [["--passcode", "word"], ["--passcode=word"]])
def test_what_a_client_shows_goes_into_the_environment_whatever_it_is(given: list[str]) -> None:
    """Only where it is said as a flag: behind two dashes nothing is one."""
    call = ["python", "-m", "holdfast", "send", "/queue/a", *given, "--login", "ann"]
    rest = ["python", "-m", "holdfast", "send", "/queue/a", "--login", "ann"]
    assert without_passcode(call, {"A": "b"}) == (rest, {"A": "b", "HOLDFAST_PASSCODE": "word"})
    assert without_passcode([*rest, "--", *given], {}) is None
    assert without_passcode([*rest, "--passcode="], {}) is None
    doubled = without_passcode([*call, "--passcode", "last", "--", "x"], {})
    assert doubled == ([*rest, "--", "x"], {"HOLDFAST_PASSCODE": "last"})


def test_a_process_has_none_in_its_arguments(tmp_path: Path) -> None:
    """Under the same process id, from the moment on that the command has begun."""
    source = "from holdfast.cli.hidden_passwords import hide_passwords as h; h(); print(1); input()"
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", source, "--store", ONE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
    )
    try:
        assert process.stdout is not None
        assert b"1\n" == process.stdout.readline()
        seen = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        assert b"input" in seen
        assert b"pa55" not in seen
    finally:
        process.communicate(b"\n", timeout=20)
    assert 0 == process.returncode


class BeganAnewError(Exception):
    """The process would have been replaced."""


@pytest.mark.parametrize(
    "given",
    [
        ["status", "--store", AWAY, "--store", OTHER],
        ["accept", f"--store={AWAY}", "--store", OTHER, "--without", AWAY, "--yes"],
        ["disable", AWAY, "--admin", "127.0.0.1:1"],
        ["enable", AWAY, "--admin", "127.0.0.1:1"],
        ["replace", OTHER, AWAY, "--admin", "127.0.0.1:1"],
    ],
    ids=lambda it: it[0],
)
def test_every_command_of_mirrors_hides_its_addresses(
    given: list[str], run: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And understands itself when it begins anew, which it does once."""

    def begin_anew(_program: str, arguments: list[str], environment: dict[str, str]) -> None:
        calls.append((arguments, environment))
        raise BeganAnewError

    calls: list[tuple[list[str], dict[str, str]]] = []
    monkeypatch.setattr(os, "execve", begin_anew)
    monkeypatch.setattr(sys, "orig_argv", ["holdfast", "mirror", *given])
    with pytest.raises(BeganAnewError):
        run("mirror", *given)

    ((arguments, environment),) = calls
    assert "pa55" not in " ".join(arguments)
    monkeypatch.setattr(sys, "orig_argv", arguments)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert 1 == run(*arguments[1:])
    assert len(calls) == 1


def test_places_go_into_the_environment_where_one_has_a_password() -> None:
    """All of them, as an argument that is left would be taken for another one."""
    places = {"FROM": "data", "TO": ONE}
    found = without_places(["python", "holdfast", "store", "copy", "data", ONE], {"A": "b"}, places)

    assert found is not None
    assert (["python", "holdfast", "store", "copy"], {"A": "b", **places}) == found


def test_places_without_a_password_or_from_the_environment_stay() -> None:
    """What is no argument shows nothing, and a process that began anew does not begin again."""
    assert without_places(["holdfast", "data", OTHER], {}, {"FROM": "data", "TO": OTHER}) is None
    assert without_places(["holdfast", "copy"], {}, {"FROM": "data", "TO": ONE}) is None


def test_a_place_that_is_called_like_the_program_is_the_later_argument() -> None:
    """Nothing of the call itself is taken away."""
    found = without_places(["holdfast", "copy", "holdfast", ONE], {}, {"F": "holdfast", "T": ONE})

    assert found is not None
    assert ["holdfast", "copy"] == found[0]

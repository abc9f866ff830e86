"""Whose file is taken for a node's on this machine."""

from __future__ import annotations

import os
import pwd
import stat
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.admin import node_user
from holdfast.admin.node_user import why_not_taken
from holdfast.environment.node_users import VARIABLE

PLACE = ("127.0.0.1", 8161)
ROOT, NODE, EVE = 0, 990, 1234
NAMES = {"root": ROOT, "holdfast": NODE, "eve": EVE}


def stats(uid: int, mode: int) -> Any:
    return SimpleNamespace(st_uid=uid, st_gid=uid, st_mode=mode)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A machine on which the node's user has the directory that root gave him."""
    it = SimpleNamespace(caller=ROOT, listening=frozenset({NODE}), given=frozenset({NODE}))

    def by_name(name: str) -> Any:
        return SimpleNamespace(pw_uid=NAMES[name])

    def by_uid(uid: int) -> Any:
        return SimpleNamespace(pw_name={number: name for name, number in NAMES.items()}[uid])

    monkeypatch.setattr(os, "geteuid", lambda: it.caller)
    monkeypatch.setattr(pwd, "getpwnam", by_name)
    monkeypatch.setattr(pwd, "getpwuid", by_uid)
    monkeypatch.setattr(node_user, "listeners_users", lambda *_: it.listening)
    monkeypatch.setattr(node_user, "owner_by_root", lambda _directory: set(it.given))
    monkeypatch.delenv(VARIABLE, raising=False)
    return it


def why(
    owner: int = NODE, mode: int = 0o600, folder: int | None = None, folder_mode: int = 0o750
) -> str:
    folder_uid = owner if folder is None else folder
    return why_not_taken(
        stats(owner, stat.S_IFREG | mode), stats(folder_uid, stat.S_IFDIR | folder_mode), PLACE
    )


@pytest.mark.parametrize("caller", [ROOT, NODE])
def test_the_nodes_user_and_root_have_the_nodes_file(machine, caller: int) -> None:
    """Also where root has opened the port for it, or has the directory above the file."""
    machine.caller = caller
    assert why() == ""
    assert why(folder=ROOT, folder_mode=0o770) == ""
    assert why(folder_mode=0o1777) == "", "as /tmp: nobody removes another's file there"
    machine.listening = frozenset({ROOT})
    assert why() == ""
    machine.listening = None
    assert why() == "", "a system that tells no listeners"


def test_root_believes_no_stranger_who_has_both_the_file_and_the_port(machine) -> None:
    """Any user of the machine can make a file of mode 0600, and listen where a node is stopped."""
    machine.listening = frozenset({EVE})
    assert why(EVE) == (
        "it belongs to user eve, who may be anybody: run this as the node's user, or if the node"
        " runs as eve, say so by HOLDFAST_NODE_USER=eve"
    )
    machine.given = frozenset()
    machine.listening = frozenset({NODE})
    assert "belongs to user holdfast" in why(), "nobody has told root"


@pytest.mark.parametrize(("said", "is_taken"), [("holdfast", True), ("990", True), ("eve", False)])
def test_root_says_as_whom_the_node_runs(
    machine, monkeypatch: pytest.MonkeyPatch, said: str, is_taken: bool
) -> None:
    """Which then counts, and not who has a directory."""
    machine.given = frozenset({NODE}) if said == "eve" else frozenset()
    monkeypatch.setenv(VARIABLE, said)
    assert (why() == "") is is_taken
    monkeypatch.setenv(VARIABLE, "nobody of that name")
    assert why() != ""


def test_another_user_goes_by_nobodys_file(machine) -> None:
    """Not by a stranger's that he may read, and not by the node's if he could."""
    machine.caller = EVE
    assert "belongs to user holdfast" in why()
    machine.listening = frozenset({ROOT})
    assert "belongs to user root" in why(ROOT), "who is no root himself is given nothing of root's"


@pytest.mark.parametrize(
    ("listening", "said"),
    [
        ({EVE}, "who listens at 127.0.0.1 port 8161 is user eve, not holdfast"),
        ({EVE, NODE}, "who listens at 127.0.0.1 port 8161 is user eve, not holdfast"),
        ((), "no process of this machine is known to listen at 127.0.0.1 port 8161"),
    ],
)
def test_who_listens_must_be_of_the_files_owner(machine, listening: set[int], said: str) -> None:
    """What the node's user unpacked somewhere may be known to who listens in the node's place."""
    machine.listening = frozenset(listening)
    assert why() == said


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"mode": 0o640}, r"others than its owner may use it \(mode 0640\)"),
        ({"mode": 0o602}, r"others than its owner may use it \(mode 0602\)"),
        ({"folder": EVE}, r"its directory belongs to user eve, not to its owner"),
        ({"folder_mode": 0o777}, r"everybody may write into its directory"),
    ],
)
def test_what_others_may_reach_is_none(machine, more: dict[str, int], said: str) -> None:
    """The file is the node's alone, and so is what stands in its directory."""
    with pytest.raises(AssertionError, match=said):
        assert why(**more) == ""

"""
A store is known by its contract alone.
"""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import holdfast.server
from holdfast.store.contract import CommitFlow, KeptLog, LogStore, Tenure
from holdfast.store.replicated_store import ReplicatedStore

PROMISES = {
    name: member
    for part in (CommitFlow, Tenure, KeptLog)
    for name, member in vars(part).items()
    if not name.startswith("_")
}

COMPOSITION = {"assembly.py"}
"""Who chooses the store has to name one."""


def test_whoever_serves_names_no_store_and_nothing_of_its_entries() -> None:
    """Another store can stand there only if nobody asks for more than the contract says."""
    named = {
        f"{path.name}: {node.module}.{name.name}"
        for path in Path(holdfast.server.__file__).parent.glob("*.py")
        if path.name not in COMPOSITION
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        for name in node.names
        if name.name in {"ReplicatedStore", "Entry", "WriteResult", "AppendJob"}
    }
    assert set() == named


def test_the_replicated_store_has_all_that_is_promised() -> None:
    """A property is a property, and a method takes the same arguments by the same names."""
    for name, promised in PROMISES.items():
        kept = inspect.getattr_static(ReplicatedStore, name)
        assert isinstance(kept, property) is isinstance(promised, property), name
        if not isinstance(kept, property):
            expected = [it for it in inspect.signature(promised).parameters if it != "self"]
            found = inspect.signature(getattr(ReplicatedStore, name)).parameters
            assert expected == [it for it in found if it != "self"], name


def test_the_replicated_store_says_no_more_than_is_promised() -> None:
    """What a store offers beside the contract would soon be asked for."""
    beyond = {name for name in vars(ReplicatedStore) if not name.startswith("_")} - set(PROMISES)
    assert set() == beyond


def test_the_contract_is_the_sum_of_its_parts() -> None:
    """It adds nothing of its own, so whoever asks one thing may name the part that has it."""
    assert set() == {name for name in vars(LogStore) if not name.startswith("_")}

"""
Who serves, and when that begins and ends.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import holdfast.server
from holdfast.replication.driver_view import QUORUM_LOST
from holdfast.server.format_gate import NEW_LOG_SECONDS
from holdfast.server.role import Role


def test_a_node_serves_only_as_leader(node) -> None:
    """
    Made ready by its conductor's turns; each change is told once.
    """
    role: Role = node.conductor.role
    node.clock.now += NEW_LOG_SECONDS
    node.conductor.tick()
    assert (role.is_serving, role.admits_clients, node.role_changes) == (True, True, 2)
    node.turn()
    assert node.role_changes == 2
    node.store.is_serving = node.store.is_leader = False
    node.store.term += 1
    node.turn()
    assert (role.is_serving, role.admits_clients, node.role_changes) == (False, False, 3)
    assert role.term == node.store.term - 1


def test_clients_of_a_new_log_are_let_in_a_moment_later(node) -> None:
    """
    It leads before, to raise the level; the port is told when they may come.
    """
    role: Role = node.conductor.role
    assert (role.is_serving, role.admits_clients, node.role_changes) == (True, False, 1)
    node.clock.now += NEW_LOG_SECONDS
    node.conductor.tick()
    assert (role.is_serving, role.admits_clients, node.role_changes) == (True, True, 2)


def test_the_lead_that_ends_for_want_of_a_quorum_says_so(node) -> None:
    """
    Clients learn why they are closed; they would ask this node again and again.
    """
    connection = node.connect()
    for _ in range(4):  # A node that has just come to itself would not be sure.
        node.clock.now += 0.2
        node.turn()
    node.store.is_serving = node.store.is_leader = False
    node.turn()
    assert QUORUM_LOST.encode() in connection.transport.take()


@pytest.mark.parametrize("why", ["deposed", "stopping", "paused"])
def test_the_lead_that_ends_otherwise_says_nothing(node, why: str) -> None:
    """
    Another may lead: clients go there, and nothing is wrong with the cluster.
    """
    connection = node.connect()
    connection.transport.take()
    if why == "deposed":
        node.store.term += 1
    elif why == "stopping":
        node.conductor.role.drain()
    else:
        node.clock.now += 10 * node.conductor.settings.pause_seconds
    node.store.is_serving = node.store.is_leader = False
    node.turn()
    assert not node.conductor.is_serving
    assert b"ERROR" not in connection.transport.take()


def test_a_node_that_drains_serves_on_and_lets_nobody_in(node) -> None:
    """
    Who is there gets what is under way; the port is told to close.
    """
    role: Role = node.conductor.role
    node.conductor.role.drain()
    assert (role.is_serving, role.admits_clients, node.role_changes) == (True, False, 2)


def test_an_end_that_nobody_was_served_by_is_not_told(node) -> None:
    """
    The clients' things are let go of all the same, as where a log is begun anew.
    """
    role: Role = node.conductor.role
    role.end()
    role.end()
    assert node.role_changes == 2


def test_only_the_role_says_who_serves() -> None:
    """
    Four places wrote it once, and each port had to guess which of them was right.
    """
    writers = set()
    for path in Path(holdfast.server.__file__).parent.glob("*.py"):
        for each in ast.walk(ast.parse(path.read_text())):
            targets = each.targets if isinstance(each, ast.Assign) else []
            names = {
                it.attr
                for target in targets
                for it in ast.walk(target)
                if isinstance(it, ast.Attribute)
            }
            if names & {"is_serving", "is_draining"}:
                writers.add(path.name)
    assert writers == {"role.py"}

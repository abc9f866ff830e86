"""
Environment variables that begin like ours.
"""

from __future__ import annotations

import pytest
import typer
from typer.main import get_command

from holdfast.cli.main import app
from holdfast.cli.variables import UnknownVariable, unknown_variables
from holdfast.config.catalogue import variable_names


def found_in(environment: dict[str, str]) -> list[UnknownVariable]:
    return unknown_variables(environment, typer.Context(get_command(app)))


def test_whatever_a_command_or_a_node_reads_is_known() -> None:
    """Settings of a node, options of all commands, what the tests of the project are told."""
    names = {"HOLDFAST_CONFIG", "HOLDFAST_URI", "HOLDFAST_LOGIN", "HOLDFAST_PASSCODE"}
    names |= {"HOLDFAST_PASSCODE_FILE"}
    names |= {"HOLDFAST_ADMIN", "HOLDFAST_SECRET_FILE", "HOLDFAST_HYPOTHESIS"} | variable_names()
    names |= {"HOLDFAST_STORE_PASSWORD", "HOLDFAST_ELECTOR_PASSWORD"}
    names |= {"HOLDFAST_NODE_USER", "HOLDFAST_CA_FILE", "HOLDFAST_KEY_FILE"}
    assert found_in(dict.fromkeys(names, "x")) == []


def test_others_are_told_with_what_may_have_been_meant() -> None:
    """Unless they are empty, which counts as not set, or not ours at all."""
    environment = {"HOLDFAST_COPIS": "2", "HOLDFAST_TLS": "on", "HOLDFAST_NAM": "", "OTHER": "x"}
    assert found_in(environment) == [
        UnknownVariable("HOLDFAST_COPIS", "HOLDFAST_COPIES"),
        UnknownVariable("HOLDFAST_TLS"),
    ]
    assert str(UnknownVariable("HOLDFAST_TLS")) == (
        "environment variable HOLDFAST_TLS is unknown and ignored"
    )


@pytest.mark.parametrize(
    ("name", "value", "is_known"),
    [
        ("HOLDFAST_SERVICE_HOST", "10.0.0.1", True),
        ("HOLDFAST_SERVICE_PORT", "61613", True),
        ("HOLDFAST_SERVICE_PORT_STOMP", "61613", True),
        ("HOLDFAST_ADMIN_SERVICE_HOST", "10.0.0.1", True),
        ("HOLDFAST_PORT", "tcp://10.0.0.1:61613", True),
        ("HOLDFAST_PORT_61613_TCP", "tcp://10.0.0.1:61613", True),
        ("HOLDFAST_PORT_61613_TCP_ADDR", "10.0.0.1", True),
        ("HOLDFAST_STOMP_PORT", "61613", False),
    ],
)
def test_what_kubernetes_sets_for_a_service_is_left_alone(
    name: str, value: str, is_known: bool
) -> None:
    """A service named `holdfast` is the most natural name; what a person invents is told."""
    assert (found_in({name: value}) == []) is is_known

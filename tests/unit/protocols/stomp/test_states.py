"""The tables of the protocol: every pair of phase and command, versions, mandatory headers."""

from __future__ import annotations

import itertools

import pytest

from holdfast.errors import RemoteProtocolError
from holdfast.protocols.stomp import states
from holdfast.protocols.stomp.states import CLIENT_COMMANDS, SERVER_COMMANDS, Phase, Role, Version

ROLES: tuple[Role, ...] = ("server", "client")


@pytest.mark.parametrize(("role", "phase"), list(itertools.product(ROLES, Phase)))
def test_every_command_is_allowed_or_has_an_error(role: Role, phase: Phase) -> None:
    """
    No pair of phase and command is forgotten: what is not in the table is refused with a code.
    """
    for line, rule in states.COMMANDS_RECEIVED[role].items():
        allowed = states.COMMANDS_ALLOWED[role, phase]
        if line in allowed:
            assert (phase, rule.name) in states.TRANSITIONS
        else:
            expected = "not-connected" if phase is Phase.CONNECTING else "already-connected"
            assert expected == states.forbidden(role, phase, line).code


def test_only_connecting_frames_may_come_first() -> None:
    """
    Before the connection is established a client may only connect, and a server answer or refuse.
    """
    assert set(states.COMMANDS_ALLOWED["server", Phase.CONNECTING]) == {b"CONNECT", b"STOMP"}
    assert set(states.COMMANDS_ALLOWED["client", Phase.CONNECTING]) == {b"CONNECTED", b"ERROR"}


@pytest.mark.parametrize("role", ROLES)
def test_nothing_is_allowed_on_a_closed_connection(role: Role) -> None:
    """
    After DISCONNECT no frame is legal.
    """
    assert states.COMMANDS_ALLOWED[role, Phase.CLOSED] == {}


def test_frames_of_the_other_role_are_unknown() -> None:
    """
    A server does not read MESSAGE, nor a client SEND.
    """
    assert states.forbidden("server", Phase.CONNECTED, b"MESSAGE").code == "unknown-command"
    assert states.forbidden("client", Phase.CONNECTED, b"SEND").code == "unknown-command"


def test_only_the_three_frames_of_the_specification_have_bodies() -> None:
    """
    SEND, MESSAGE and ERROR may have a body, nothing else.
    """
    rules = [*CLIENT_COMMANDS.values(), *SERVER_COMMANDS.values()]

    assert {rule.name for rule in rules if rule.has_body} == {"SEND", "MESSAGE", "ERROR"}


@pytest.mark.parametrize(
    ("command", "version", "missing"),
    [
        (b"SEND", "1.0", "destination"),
        (b"SUBSCRIBE", "1.0", "destination"),
        (b"SUBSCRIBE", "1.1", "id"),
        (b"SUBSCRIBE", "1.2", "id"),
        (b"UNSUBSCRIBE", "1.1", "id"),
        (b"UNSUBSCRIBE", "1.2", "id"),
        (b"ACK", "1.0", "message-id"),
        (b"ACK", "1.1", "message-id"),
        (b"ACK", "1.1", "subscription"),
        (b"ACK", "1.2", "id"),
        (b"NACK", "1.1", "subscription"),
        (b"NACK", "1.2", "id"),
        (b"BEGIN", "1.2", "transaction"),
        (b"COMMIT", "1.2", "transaction"),
        (b"ABORT", "1.2", "transaction"),
        (b"MESSAGE", "1.0", "message-id"),
        (b"MESSAGE", "1.1", "subscription"),
        (b"RECEIPT", "1.2", "receipt-id"),
    ],
)
def test_a_mandatory_header_is_missed(command: bytes, version: Version, missing: str) -> None:
    """
    Each command needs its headers in each version; the error names the one that is missing.
    """
    rule = {**CLIENT_COMMANDS, **SERVER_COMMANDS}[command]
    headers = {name: "x" for names in rule.mandatory[version] for name in names}
    states.check_mandatory(rule, headers, version)
    del headers[missing]

    with pytest.raises(RemoteProtocolError, match=missing) as caught:
        states.check_mandatory(rule, headers, version)

    assert caught.value.code == "missing-header"


def test_old_unsubscribe_takes_either_header() -> None:
    """
    STOMP 1.0 unsubscribes by id or by destination.
    """
    rule = CLIENT_COMMANDS[b"UNSUBSCRIBE"]

    states.check_mandatory(rule, {"id": "1"}, "1.0")
    states.check_mandatory(rule, {"destination": "/queue/a"}, "1.0")
    with pytest.raises(RemoteProtocolError, match="destination or id"):
        states.check_mandatory(rule, {}, "1.0")


def test_version_1_0_knows_no_nack() -> None:
    """
    NACK came with STOMP 1.1.
    """
    with pytest.raises(RemoteProtocolError) as caught:
        states.check_mandatory(CLIENT_COMMANDS[b"NACK"], {"message-id": "1"}, "1.0")

    assert caught.value.code == "unknown-command"


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [
        (None, "1.0"),
        ("1.0", "1.0"),
        ("1.1", "1.1"),
        ("1.0,1.1,1.2", "1.2"),
        ("1.2,1.0", "1.2"),
        ("1.0, 1.1", "1.1"),
        ("1.1,2.0", "1.1"),
    ],
)
def test_the_highest_common_version_wins(accepted: str | None, expected: Version) -> None:
    """
    Whatever the order and spacing of the list; no list means 1.0.
    """
    assert expected == states.negotiate_version(accepted)


@pytest.mark.parametrize("accepted", ["", "2.0", "1.3,9", "1"])
def test_no_common_version_is_an_error_that_lists_ours(accepted: str) -> None:
    """
    The peer is told which versions it could have asked for.
    """
    with pytest.raises(RemoteProtocolError, match=r"1\.0, 1\.1, 1\.2") as caught:
        states.negotiate_version(accepted)

    assert caught.value.code == "version"


def test_a_client_accepts_only_versions_it_speaks() -> None:
    """
    A server that answers with a version of its own invention is refused.
    """
    assert states.accept_version(None) == "1.0"
    assert states.accept_version("1.1") == "1.1"
    with pytest.raises(RemoteProtocolError) as caught:
        states.accept_version("3.0")

    assert caught.value.code == "version"


@pytest.mark.parametrize("phase", Phase)
def test_tls_is_no_command(phase: Phase) -> None:
    """Its first bytes are binary; to show them to an operator would help nobody."""
    found = states.forbidden("server", phase, b"\x16\x03\x01\x02")
    assert (found.code, "looks like TLS" in str(found)) == ("tls-in-clear", True)

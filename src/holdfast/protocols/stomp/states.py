"""
The rules of STOMP as tables: which frame may come when, in which version, with what.

Everything that decides whether a frame is legal stands in this file; `connection` only looks it up.
A connection goes through three phases, the same for both roles:

    CONNECTING ──CONNECT/STOMP (CONNECTED for a client)──► CONNECTED ──DISCONNECT──► CLOSED

ERROR frames may reach a client in any phase and do not end it: Holdfast and ActiveMQ keep the
connection after an error that concerns one frame only, and the closing socket tells the rest.
Whatever a client sends after DISCONNECT is not looked at (STOMP 1.2, DISCONNECT).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal, TypeAlias

from holdfast.errors import IncompleteFrameError, RemoteProtocolError

Role: TypeAlias = Literal["server", "client"]
Version: TypeAlias = Literal["1.0", "1.1", "1.2"]

VERSIONS: tuple[Version, ...] = ("1.0", "1.1", "1.2")
"""What we speak, oldest first."""


class Phase(enum.Enum):
    """Where a connection is in its life."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class CommandRule:
    """What a frame with this command must and may have."""

    name: str
    """The command as our events name it."""

    mandatory: dict[Version, tuple[tuple[str, ...], ...]]
    """By version: of each tuple of names, one header must be there. No version, no such command."""

    has_body: bool = False
    """STOMP 1.2, Body: only SEND, MESSAGE and ERROR may have one."""

    is_escaped: bool = True
    """STOMP 1.2, Value Encoding: CONNECT and CONNECTED are not escaped, for the sake of 1.0."""

    is_acknowledgement: bool = False
    """ACK or NACK."""

    changes_phase: bool = False
    """The frame moves the connection on, see `TRANSITIONS`."""


def _same(*names: str) -> dict[Version, tuple[tuple[str, ...], ...]]:
    """Build the row of a command whose mandatory headers are the same in all versions."""
    return dict.fromkeys(VERSIONS, tuple((name,) for name in names))


# 1.1 and 1.2 oblige a client to send `host` and `accept-version`. ActiveMQ and RabbitMQ serve the
# many clients that leave `host` out, and a missing `accept-version` means 1.0.
_CONNECT = CommandRule("CONNECT", _same(), is_escaped=False, changes_phase=True)
_SUBSCRIBE = CommandRule(
    "SUBSCRIBE",
    {
        "1.0": (("destination",),),
        "1.1": (("destination",), ("id",)),
        "1.2": (("destination",), ("id",)),
    },
)
_UNSUBSCRIBE = CommandRule(
    "UNSUBSCRIBE", {"1.0": (("destination", "id"),), "1.1": (("id",),), "1.2": (("id",),)}
)

CLIENT_COMMANDS: dict[bytes, CommandRule] = {
    b"CONNECT": _CONNECT,
    b"STOMP": _CONNECT,
    b"SEND": CommandRule("SEND", _same("destination"), has_body=True),
    b"SUBSCRIBE": _SUBSCRIBE,
    b"SUB": _SUBSCRIBE,
    b"UNSUBSCRIBE": _UNSUBSCRIBE,
    b"UNSUB": _UNSUBSCRIBE,
    b"ACK": CommandRule(
        "ACK",
        {
            "1.0": (("message-id",),),
            "1.1": (("message-id",), ("subscription",)),
            "1.2": (("id",),),
        },
        is_acknowledgement=True,
    ),
    b"NACK": CommandRule(
        "NACK",
        {"1.1": (("message-id",), ("subscription",)), "1.2": (("id",),)},
        is_acknowledgement=True,
    ),
    b"BEGIN": CommandRule("BEGIN", _same("transaction")),
    b"COMMIT": CommandRule("COMMIT", _same("transaction")),
    b"ABORT": CommandRule("ABORT", _same("transaction")),
    b"DISCONNECT": CommandRule("DISCONNECT", _same(), changes_phase=True),
}
"""Frames that clients send."""

SERVER_COMMANDS: dict[bytes, CommandRule] = {
    # 1.0 servers send no version, so its absence only says which version this is.
    b"CONNECTED": CommandRule("CONNECTED", _same(), is_escaped=False, changes_phase=True),
    b"MESSAGE": CommandRule(
        "MESSAGE",
        {
            "1.0": (("destination",), ("message-id",)),
            "1.1": (("destination",), ("message-id",), ("subscription",)),
            "1.2": (("destination",), ("message-id",), ("subscription",)),
        },
        has_body=True,
    ),
    b"RECEIPT": CommandRule("RECEIPT", _same("receipt-id")),
    b"ERROR": CommandRule("ERROR", _same(), has_body=True),
}
"""Frames that servers send."""

COMMANDS_RECEIVED: dict[Role, dict[bytes, CommandRule]] = {
    "server": CLIENT_COMMANDS,
    "client": SERVER_COMMANDS,
}

COMMANDS_SENT: dict[Role, dict[bytes, CommandRule]] = {
    "server": SERVER_COMMANDS,
    "client": CLIENT_COMMANDS,
}

TRANSITIONS: dict[tuple[Phase, str], Phase] = {
    (Phase.CONNECTING, "CONNECT"): Phase.CONNECTED,
    (Phase.CONNECTING, "CONNECTED"): Phase.CONNECTED,
    (Phase.CONNECTING, "ERROR"): Phase.CONNECTING,
    **{
        (Phase.CONNECTED, name): Phase.CONNECTED
        for name in (
            *("SEND", "SUBSCRIBE", "UNSUBSCRIBE", "ACK", "NACK", "BEGIN", "COMMIT", "ABORT"),
            *("MESSAGE", "RECEIPT", "ERROR"),
        )
    },
    (Phase.CONNECTED, "DISCONNECT"): Phase.CLOSED,
}
"""(phase, command) to the next phase. What is not here is forbidden."""


COMMANDS_ALLOWED: dict[tuple[Role, Phase], dict[bytes, CommandRule]] = {
    (role, phase): {
        word: rule for word, rule in commands.items() if (phase, rule.name) in TRANSITIONS
    }
    for role, commands in COMMANDS_RECEIVED.items()
    for phase in Phase
}
"""The table above from the reader's side: what may come, by role and phase."""


TLS_GREETING = b"\x16\x03"
"""RFC 8446, 5.1: how a client begins that speaks TLS. No command does."""


def spoken_by_tls() -> RemoteProtocolError:
    """Build the error for a client that speaks TLS where STOMP is spoken in clear."""
    return RemoteProtocolError(
        "this looks like TLS, and this port speaks STOMP in clear", code="tls-in-clear"
    )


def forbidden(role: Role, phase: Phase, line: bytes) -> RemoteProtocolError:
    """Build the error for a command line that is not in `COMMANDS_ALLOWED`."""
    rule = COMMANDS_RECEIVED[role].get(line)
    if line.startswith(TLS_GREETING):
        return spoken_by_tls()
    if rule is None:
        return RemoteProtocolError(
            f"unknown command {line[:40].decode(errors='replace')!r}", code="unknown-command"
        )
    if phase is Phase.CONNECTING:
        return RemoteProtocolError(
            f"{rule.name} before the connection is established; expected CONNECT or STOMP first",
            code="not-connected",
        )
    return RemoteProtocolError(
        f"{rule.name} on a connection that is established already", code="already-connected"
    )


def check_mandatory(rule: CommandRule, headers: dict[str, str], version: Version) -> None:
    """
    Check that a frame has the headers its command needs in this version.

    Raises:
        IncompleteFrameError: `missing-header`, or `unknown-command` if the version lacks it.
    """
    alternatives = rule.mandatory.get(version)
    if alternatives is None:
        raise IncompleteFrameError(
            f"{rule.name} does not exist in STOMP {version}", code="unknown-command"
        )
    for names in alternatives:
        for name in names:
            if name in headers:
                break
        else:
            raise IncompleteFrameError(
                f"{rule.name} without the header {' or '.join(names)},"
                f" which STOMP {version} demands",
                code="missing-header",
            )


def negotiate_version(accept_version: str | None) -> Version:
    """
    Choose the highest version both sides speak; without the header it is 1.0.

    Raises:
        RemoteProtocolError: `version`; there is none in common. The answer must be an ERROR frame
            that lists `VERSIONS`, and a close (STOMP 1.2, Protocol Negotiation).
    """
    if accept_version is None:
        return "1.0"
    accepted = {version.strip() for version in accept_version.split(",")}
    for version in reversed(VERSIONS):
        if version in accepted:
            return version
    raise RemoteProtocolError(
        f"no common version: supported versions are {', '.join(VERSIONS)}", code="version"
    )


def accept_version(version: str | None) -> Version:
    """
    Read the version a server chose; without the header it is 1.0.

    Raises:
        RemoteProtocolError: `version`; we do not speak it.
    """
    if version is None:
        return "1.0"
    for known in VERSIONS:
        if version == known:
            return known
    raise RemoteProtocolError(
        f"the server speaks STOMP {version[:40]!r}; we speak {', '.join(VERSIONS)}", code="version"
    )

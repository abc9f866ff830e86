"""
Where to connect: `stomp://`, `stomp+ssl://` and `failover:(...)` URIs.

The failover options carry ActiveMQ's names, defaults and units (milliseconds), so that a URI can be
carried over. An option that ActiveMQ has and we do not is refused by its name, with what to do
instead, as is an unknown one: a URI that is silently half obeyed is found out on the worst day.

    failover:(stomp://a:61613,stomp+ssl://b:61614?caFile=ca.pem)?maxReconnectDelay=5000
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from holdfast.client.failover import FailoverOptions
from holdfast.client.settings import TlsSettings
from holdfast.errors import ConfigError

STOMP_PORT = 61613
STOMP_TLS_PORT = 61614
SCHEMES = ("stomp", "stomp+ssl")


@dataclass(frozen=True, slots=True)
class Address:
    """One broker's client port, and how to speak to it."""

    host: str
    port: int
    tls: TlsSettings | None = None
    """None means plain TCP; otherwise what the URI itself said about TLS."""

    connect_seconds_max: float | None = None
    """`connectionTimeout` of the URI; None means the setting of the same name."""

    plain_without_tls: bool | None = None
    """`plainWithoutTls` of the URI; None means the setting of the same name."""

    def __str__(self) -> str:
        """The address as a URI, without its options."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        scheme = "stomp" if self.tls is None else "stomp+ssl"
        return f"{scheme}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Target:
    """What a URI means: the addresses and, for a failover URI, how to move between them."""

    addresses: tuple[Address, ...]
    failover: FailoverOptions | None = None
    """None: one address and no reconnecting; a lost link is the application's to see."""


def parse_uri(uri: str) -> Target:
    """
    Read a URI of any of the forms above.

    Raises:
        ConfigError: With every mistake in it, one sentence each.
    """
    problems: list[str] = []
    text = uri.strip()
    if text.lower().startswith("failover:"):
        target = _parse_failover(text, problems)
    else:
        address = _parse_address(text, [], problems)
        target = Target((address,) if address is not None else ())
    if problems:
        raise ConfigError(problems)
    return target


def shown(text: str) -> str:
    """A URI for people: without what may be a user's password, wherever it was written."""
    _, at, after = text.rpartition("@")
    if at:
        text = "***@" + after
    return re.sub(r"=[^&,()]*", "=***", text)


def _parse_failover(text: str, problems: list[str]) -> Target:
    inside, query = _split_failover(text, problems)
    options: dict[str, Any] = {}
    nested: list[tuple[str, str]] = []
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name.startswith("nested."):
            nested.append((name.removeprefix("nested."), value))
        else:
            _read_failover_option(name, value, options, problems)
    parts = [part.strip() for part in inside.split(",") if part.strip()]
    if not parts and not problems:
        problems.append(f"{shown(text)}: no address between the parentheses")
    found = [_parse_address(part, nested, problems) for part in parts]
    addresses = dict.fromkeys(address for address in found if address is not None)
    return Target(tuple(addresses), FailoverOptions(**options))


def _split_failover(text: str, problems: list[str]) -> tuple[str, str]:
    rest = text[len("failover:") :].removeprefix("//")
    if not rest.startswith("("):
        # ActiveMQ's short form `failover:stomp://a:61613`: the options then belong to the address.
        return rest, ""
    inside, closing, after = rest[1:].rpartition(")")
    if not closing:
        problems.append(f"{shown(text)}: the parenthesis is not closed")
        return "", ""
    if after and not after.startswith("?"):
        problems.append(
            f"{shown(text)}: expected `?option=value` after the parenthesis, found {shown(after)!r}"
        )
        after = ""
    return inside, after[1:]


def _parse_address(text: str, nested: list[tuple[str, str]], problems: list[str]) -> Address | None:
    try:
        split = urlsplit(text)
        host, port = split.hostname, split.port
    except ValueError:
        # Not in Python's words: they quote what may be a password.
        problems.append(f"{shown(text)}: host and port make no sense; expected stomp://host:port")
        return None
    if split.scheme not in SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        problems.append(
            f"{shown(text)}: unknown scheme {split.scheme!r}; known are {known} and failover:"
        )
        return None
    if not host:
        problems.append(f"{shown(text)}: no host; expected {split.scheme}://host:port")
        return None
    if port == 0:
        problems.append(f"{shown(text)}: nobody listens on port 0")
        return None
    try:
        host.encode("idna")
    except UnicodeError as error:
        problems.append(f"{host!a} is no host name: {error.__cause__ or error}")
        return None
    if split.username is not None or split.password is not None:
        # URIs end up in logs and process lists.
        problems.append(f"{host}: give the user's name and password as options, not in the URI")
        return None
    if split.path not in ("", "/") or split.fragment:
        problems.append(f"{shown(text)}: nothing but options may follow the port")
        return None
    is_secure = split.scheme == "stomp+ssl"
    default_port = STOMP_TLS_PORT if is_secure else STOMP_PORT
    tls = TlsSettings() if is_secure else None
    address = Address(host, default_port if port is None else port, tls)
    for name, value in [*nested, *parse_qsl(split.query, keep_blank_values=True)]:
        address = _with_option(address, name, value, problems)
    return address


def _with_option(address: Address, name: str, value: str, problems: list[str]) -> Address:
    if name == "connectionTimeout":
        milliseconds = _number(name, value, problems, minimum=1)
        return replace(address, connect_seconds_max=milliseconds / 1000)
    if name == "plainWithoutTls":
        return replace(address, plain_without_tls=_boolean(name, value, problems))
    if name not in _TLS_OPTIONS:
        known = ", ".join(["connectionTimeout", "plainWithoutTls", *_TLS_OPTIONS])
        problems.append(f"option {name!r} of {address} is unknown; known are: {known}")
        return address
    if address.tls is None:
        problems.append(f"option {name!r} needs a stomp+ssl:// address, {address} is plain")
        return address
    read = _TLS_OPTIONS[name]
    return replace(address, tls=replace(address.tls, **read(name, value, problems)))


def _path(field: str) -> Callable[[str, str, list[str]], dict[str, Any]]:
    return lambda _name, value, _problems: {field: value}


_TLS_OPTIONS: dict[str, Callable[[str, str, list[str]], dict[str, Any]]] = {
    "caFile": _path("ca_file"),
    "certificateFile": _path("certificate_file"),
    "keyFile": _path("key_file"),
    "verifyHostName": lambda name, value, problems: {
        "verify_host_name": _boolean(name, value, problems)
    },
}


_MILLISECONDS = {
    "initialReconnectDelay": ("initial_reconnect_seconds", 0),
    "maxReconnectDelay": ("reconnect_seconds_max", 0),
    "timeout": ("timeout_seconds", -1),
}
_COUNTS = {
    "maxReconnectAttempts": ("reconnect_attempts_max", -1),
    "startupMaxReconnectAttempts": ("startup_attempts_max", -1),
    "warnAfterReconnectAttempts": ("warn_after_attempts", -1),
}
_FACTORS = {
    "reconnectDelayExponent": "pause_factor",
    "backOffMultiplier": "pause_factor",
}
_SWITCHES = {
    "useExponentialBackOff": "is_exponential",
    "randomize": "is_randomized",
}
# What ActiveMQ has and we have not: the one value that is true of us, and what to do instead.
_FIXED = {
    "backup": ("false", "a follower takes over by itself; there is nothing to hold open"),
    "backupPoolSize": ("1", "there are no backup connections"),
    "priorityBackup": ("false", "only the leader accepts clients, so there is no choice to prefer"),
    "priorityURIs": ("", "only the leader accepts clients, so there is no choice to prefer"),
    "trackMessages": ("true", "everything unconfirmed is always tracked and resent"),
    "trackTransactionProducers": ("true", "transactions are always replayed"),
    "maxCacheSize": ("", "the limit is the client's setting unconfirmed_bytes_max"),
    "updateURIsSupported": ("false", "list every node's address in the URI"),
    "updateURIsURL": ("", "list every node's address in the URI"),
    "rebalanceUpdateURIs": ("false", "only the leader accepts clients, so there is no rebalancing"),
    "reconnectSupported": ("true", "for a connection that is not restored use a plain URI"),
}


def _read_failover_option(
    name: str, value: str, options: dict[str, Any], problems: list[str]
) -> None:
    if name in _MILLISECONDS:
        field, minimum = _MILLISECONDS[name]
        milliseconds = _number(name, value, problems, minimum=minimum)
        options[field] = None if milliseconds < 0 else milliseconds / 1000
    elif name in _COUNTS:
        field, minimum = _COUNTS[name]
        options[field] = int(_number(name, value, problems, minimum=minimum))
    elif name in _FACTORS:
        options[_FACTORS[name]] = _number(name, value, problems, minimum=1, is_whole=False)
    elif name in _SWITCHES:
        options[_SWITCHES[name]] = _boolean(name, value, problems)
    elif name in _FIXED:
        only, instead = _FIXED[name]
        if value.lower() != only or not only:
            problems.append(f"failover option {name}={value} is not implemented: {instead}")
    else:
        known = ", ".join(sorted({*_MILLISECONDS, *_COUNTS, *_FACTORS, *_SWITCHES}))
        problems.append(
            f"failover option {name!r} is unknown; known are: {known}, and nested.* for options"
            " of every address"
        )


def _number(
    name: str, value: str, problems: list[str], *, minimum: int, is_whole: bool = True
) -> float:
    pattern = r"-?\d+" if is_whole else r"-?\d+(\.\d+)?"
    if not re.fullmatch(pattern, value) or float(value) < minimum:
        kind = "a whole number" if is_whole else "a number"
        problems.append(f"option {name}={value}: expected {kind}, {minimum} or more")
        return minimum
    return float(value)


def _boolean(name: str, value: str, problems: list[str]) -> bool:
    if value.lower() not in ("true", "false"):
        problems.append(f"option {name}={value}: expected true or false")
    return value.lower() == "true"

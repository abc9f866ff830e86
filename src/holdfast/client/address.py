"""
One broker's client port as a URI names it: `stomp://` and `stomp+ssl://`, with their options.

What may be a user's password is not told, wherever in a URI it was written.

Owned by nobody; pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from holdfast.client.settings import TlsSettings

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

    name: str = ""
    """Whom its certificate must name, and what the STOMP `host` header says; empty: the host."""

    def __str__(self) -> str:
        """The address as a URI, without its options."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        scheme = "stomp" if self.tls is None else "stomp+ssl"
        return f"{scheme}://{host}:{self.port}"


def shown(text: str) -> str:
    """A URI for people: without what may be a user's password, wherever it was written."""
    _, at, after = text.rpartition("@")
    if at:
        text = "***@" + after
    return re.sub(r"=[^&,()]*", "=***", text)


def parse_address(text: str, nested: list[tuple[str, str]], problems: list[str]) -> Address | None:
    """Read one address; None, and why in `problems`, if it is none. `nested` options go first."""
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
            f"{shown(text)}: unknown scheme {split.scheme!r}; known are {known}, failover: and"
            " discovery:"
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
        address = with_option(address, name, value, problems)
    return address


def with_option(address: Address, name: str, value: str, problems: list[str]) -> Address:
    """Give the address with this option; the same, and why in `problems`, if it has none such."""
    if name == "connectionTimeout":
        milliseconds = read_number(name, value, problems, minimum=1)
        return replace(address, connect_seconds_max=milliseconds / 1000)
    if name == "plainWithoutTls":
        return replace(address, plain_without_tls=read_boolean(name, value, problems))
    if name not in _TLS_OPTIONS:
        known = ", ".join(ADDRESS_OPTIONS)
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
        "verify_host_name": read_boolean(name, value, problems)
    },
}

TLS_OPTIONS: Final = tuple(_TLS_OPTIONS)
ADDRESS_OPTIONS: Final = ("connectionTimeout", "plainWithoutTls", *TLS_OPTIONS)


def read_number(
    name: str, value: str, problems: list[str], *, minimum: int, is_whole: bool = True
) -> float:
    """Give the number, or the least one with the reason in `problems`."""
    pattern = r"-?\d+" if is_whole else r"-?\d+(\.\d+)?"
    if not re.fullmatch(pattern, value) or float(value) < minimum:
        kind = "a whole number" if is_whole else "a number"
        problems.append(f"option {name}={value}: expected {kind}, {minimum} or more")
        return minimum
    return float(value)


def read_boolean(name: str, value: str, problems: list[str]) -> bool:
    """Give what was said, or False with the reason in `problems`."""
    if value.lower() not in ("true", "false"):
        problems.append(f"option {name}={value}: expected true or false")
    return value.lower() == "true"

"""
Where something listens: a host and a port, and the names that hosts may have.

Addresses are compared as texts and never looked up here: what a name means is for whoever
connects.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Self

from holdfast.model.networks import is_address, is_loopback

HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?")
_NAMED = re.compile(rf"({HOST_NAME.pattern}|\[[0-9A-Fa-f:.]{{2,45}}\])(:[1-9][0-9]{{0,4}})?")

_NO_HOST = re.compile(r"[\s\x00-\x1f\x7f\[\]/]")
"""What is in no host's name, whichever way it is written."""

_PORT = re.compile(r"[0-9]{1,8}")


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a TCP port; written `host:port`, with an IPv6 host in square brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Only programs on this machine can reach it."""
        return is_loopback(self.host) or self.host == "localhost"

    @classmethod
    def parse(cls, text: str) -> Self:
        """
        Read `host:port`.

        Raises:
            ValueError: It is not of that form; the sentence says what is expected.
        """
        host, colon, port = text.strip().rpartition(":")
        is_bracketed = host[:1] == "[" and host[-1:] == "]"
        host = host[1:-1] if is_bracketed else host
        is_host = host and not _NO_HOST.search(host)
        if is_bracketed or ":" in host:
            is_host = is_host and _is_ipv6(host)
        if not (colon and is_host and _PORT.fullmatch(port)) or int(port) > 65_535:
            raise ValueError(f"{text!r} is not HOST:PORT with a port from 0 to 65535")
        return cls(host, int(port))


def _is_ipv6(host: str) -> bool:
    try:
        return ip_address(host).version == 6
    except ValueError:
        return False


def read_address(value: object) -> object:
    """An address from its text; one that is there is left as it is."""
    if value is None or isinstance(value, Address):
        return value
    return Address.parse(require_text(value))


def require_text(value: object) -> str:
    """
    The text of an address, not looked into yet.

    Raises:
        ValueError: It is no text.
    """
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text; write it as 'HOST:PORT'")
    return value


def read_host_names(value: object) -> object:
    """Host names from a flag or the environment (one text), or from TOML (a list)."""
    names = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(names, list | tuple):
        raise ValueError(f"{value!r} is not a list of host names")
    for name in names:
        if not isinstance(name, str) or not (_NAMED.fullmatch(name) or is_address(name)):
            raise ValueError(f"{name!r} is not the name or address of a host, or HOST:PORT")
    return tuple(name.lower().removesuffix(".") for name in names)

"""
By which names a node's admin port is asked, and which host a request means.

A browser says which one: a name that changes its address (DNS rebinding) is none of a node's own.

Pure: nothing is looked up.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from holdfast.model.networks import is_address

_HOST: Final = re.compile(r"(\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[^\[\]:@/]+))(:[0-9]*)?")
LOCAL_NAMES: Final = frozenset({"localhost", "localhost.localdomain", "ip6-localhost"})


def own_names(*hosts: str, more: Collection[str] = ()) -> frozenset[str]:
    """The names among these hosts, and `more` (each `host` or `host:port`), with first labels."""
    names = {host.lower().removesuffix(".") for host in hosts if host}
    names |= {it.lower() if is_address(it) else host_of(it) for it in more}
    names = {name for name in names if not is_address(name)}
    return frozenset(names | {name.partition(".")[0] for name in names})


def host_of(header: str) -> str:
    """The host of `host`, `host:port` or `[ipv6]:port`, in small letters; all of it if neither."""
    found = _HOST.fullmatch(header.strip())
    if found is None:
        return header.lower()
    return (found["address"] or found["name"]).lower().removesuffix(".")
